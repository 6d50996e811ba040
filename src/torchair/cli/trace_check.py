"""``torchair trace check``: tasks of streams that could wait for each other forever."""

from __future__ import annotations

import click

__all__ = ["command"]


@click.command()
@click.argument("input", type=click.Path())
@click.option(
    "-o", "--output", type=click.Path(), help="Where the result is written. [x_deadlock_check.json beside x.json]"
)
@click.option(
    "--merge-gap", type=float, default=0.0, help="Microseconds from a stream-activate task to its stream. [0.0]"
)
@click.option("--aivec-total", type=int, default=48, help="Vector cores of the device. [48]")
@click.pass_context
def command(ctx: click.Context, input: str, output: str | None, merge_gap: float, aivec_total: int) -> None:
    """Look for tasks of a trace that could wait for each other forever.

    Exit status: 0 if there are none, 1 if there are, or a wait is missing; 2 for a file that cannot be read.
    """
    from torchair.trace.deadlock import deadlock_check

    ctx.exit(1 if deadlock_check(input, output, aivec_total, merge_gap).found else 0)
