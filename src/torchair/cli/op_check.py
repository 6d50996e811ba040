"""``torchair op check``: what an operator has and lacks."""

from __future__ import annotations

import contextlib
import faulthandler
import importlib
import importlib.util
import json
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from torchair.customop import OperatorReport

__all__ = ["command"]


@click.command()
@click.argument("operator", metavar="NS::NAME")
@click.option(
    "--sample",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE.py",
    help="A file with def samples(), which yields (args, kwargs). [calls are generated from the schema]",
)
@click.option(
    "--import",
    "modules",
    multiple=True,
    metavar="MODULE",
    help="A module, or a file MODULE.py, that defines the operator; may be repeated.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
@click.option("--timeout", type=click.FloatRange(min=1), default=600, help="Give up after so many seconds. [600]")
@click.pass_context
def command(
    ctx: click.Context, operator: str, sample: Path | None, modules: tuple[str, ...], as_json: bool, timeout: float
) -> None:
    """Check an operator: one row for each thing that it needs, with what is missing or wrong, and why.

    \b
    torchair op check my_ns::my_op --import my_project

    Exit status: 0 if nothing is missing or wrong, 1 if something is, 2 for a wrong call of this command.
    """  # noqa: D301  # a real backspace, by which click knows what not to wrap
    for module in modules:
        _import(module)
    from torchair.customop import check_operator_with
    from torchair.customop.sample_file import load_samples
    from torchair.runtime import extension

    extension.load_extension()  # compiled once on a machine, which takes longer than a check: it is not in the limit
    samples = load_samples(sample) if sample is not None else []
    with _limited(timeout):
        report = check_operator_with(operator, samples)
    if as_json:
        click.echo(json.dumps(report.as_json(), indent=2))
    elif sys.stdout.isatty():
        _print_table(report)
    else:
        click.echo(report)
    ctx.exit(0 if report.ok else 1)


@contextlib.contextmanager
def _limited(seconds: float) -> Iterator[None]:
    """Say where a kernel hangs, or ends the process: the trace of the call, and an exit status that is not 0."""
    stream = sys.__stderr__
    try:
        number = stream.fileno() if stream is not None else None
    except (OSError, ValueError):
        number = None
    if number is None:
        yield
        return
    was_enabled = faulthandler.is_enabled()
    faulthandler.enable(number)
    faulthandler.dump_traceback_later(seconds, exit=True, file=number)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()
        if not was_enabled:
            faulthandler.disable()


def _import(name: str) -> None:
    """Import a module, or run a file as one."""
    try:
        if name.endswith(".py"):
            path = Path(name)
            spec = importlib.util.spec_from_file_location(path.stem, path)
            if spec is None or spec.loader is None or not path.is_file():
                raise click.UsageError(f"--import {name}: there is no such file")
            module = importlib.util.module_from_spec(spec)
            sys.modules.setdefault(path.stem, module)
            sys.path.insert(0, str(path.absolute().parent))  # as in "python MODULE.py": it may import its neighbors
            spec.loader.exec_module(module)
        else:
            if "" not in sys.path and str(Path.cwd()) not in sys.path:
                sys.path.insert(0, str(Path.cwd()))
            importlib.import_module(name)
    except click.UsageError:
        raise
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        at = f" ({frames[-1].filename}:{frames[-1].lineno})" if frames else ""
        raise click.UsageError(f"--import {name}: {type(error).__name__}: {error}{at}") from error


_COLORS = {"pass": "green", "missing": "yellow", "wrong": "red", "not needed": "dim"}


def _print_table(report: OperatorReport) -> None:
    """The report for a terminal."""
    from rich.console import Console
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False)
    table = Table(title=Text(report.operator, style="bold"), title_justify="left", show_lines=False, box=None)
    for title in ("deliverable", "status", "why"):
        table.add_column(title, no_wrap=title != "why", overflow="fold")
    for row in report.rows:
        table.add_row(row.deliverable, Text(row.status, style=_COLORS[row.status]), Text(row.why))
    console.print(table)
    for row in report.rows:
        if row.fix:
            console.print()
            console.print(Text(f"{row.deliverable}:", style="bold"))
            console.print(Padding(Text(row.fix), (0, 0, 0, 4)), soft_wrap=True)
    console.print()
    for line in report.tried:
        console.print(Text(line, style="dim"))
    console.print(Text(report.verdict, style="bold green" if report.ok else "bold red"))
