"""The groups of commands. A command lives in a module of its own, as the click command ``command``.

The modules are imported when their command is asked for; they import torch only when it runs, so that ``--help`` is
quick.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

import click

import torchair as package
from torchair.errors import BuildError, TorchAirError

__all__ = ["torchair"]

#: Command -> module.
_OP_COMMANDS = {
    "new": "torchair.cli.op_new",
    "build": "torchair.cli.op_build",
    "install": "torchair.cli.op_install",
    "proto": "torchair.cli.op_proto",
    "check": "torchair.cli.op_check",
}
_TRACE_COMMANDS = {
    "filter": "torchair.cli.trace_filter",
    "align": "torchair.cli.trace_align",
    "check": "torchair.cli.trace_check",
}


class _LazyGroup(click.Group):
    """A group whose commands are imported when they are asked for.

    Args:
        modules: Command -> module.
    """

    def __init__(self, modules: Mapping[str, str], **options: Any) -> None:
        super().__init__(**options)
        self._modules = modules

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self._modules)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self._modules:
            return None
        module = importlib.import_module(self._modules[cmd_name])
        command: click.Command = module.command
        return command

    def invoke(self, ctx: click.Context) -> Any:
        """Run; an error of ours is shown as its text. Exit status 1: something does not build; 2: usage."""
        try:
            return super().invoke(ctx)
        except TorchAirError as error:
            click.echo(error, err=True)
            ctx.exit(1 if isinstance(error, BuildError) else 2)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package.__version__, prog_name="torchair")
def torchair() -> None:
    """Tools for graph mode."""


@torchair.group(cls=_LazyGroup, modules=_OP_COMMANDS)
def op() -> None:
    """Custom operators: from a schema to an operator that runs eagerly and in both graph modes."""


@torchair.group(cls=_LazyGroup, modules=_TRACE_COMMANDS)
def trace() -> None:
    """Traces of task lists: what streams wait for, and whether they could wait forever."""
