"""The groups of commands. A command lives in a module of its own, as the click command ``command``.

The modules are imported when their command is asked for; they import torch only when it runs, so that ``--help`` is
quick.
"""

from __future__ import annotations

import importlib
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


class _LazyGroup(click.Group):
    """A group whose commands are imported when they are asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_OP_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _OP_COMMANDS:
            return None
        module = importlib.import_module(_OP_COMMANDS[cmd_name])
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


@torchair.group(cls=_LazyGroup)
def op() -> None:
    """Custom operators: from a schema to an operator that runs eagerly and in both graph modes."""
