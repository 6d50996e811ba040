"""``torchair trace align``: a trace by what waits for what."""

from __future__ import annotations

import click

__all__ = ["command"]


@click.command()
@click.argument("input", type=click.Path())
@click.option("-o", "--output", type=click.Path(), help="Where the result is written. [x_aligned.json beside x.json]")
@click.option(
    "--merge-gap", type=float, default=0.0, help="Microseconds from a stream-activate task to its stream. [0.0]"
)
@click.option("--gap", type=float, default=0.2, help="Time between tasks, each of which takes 1. [0.2]")
def command(input: str, output: str | None, merge_gap: float, gap: float) -> None:
    """Replace the times of a trace by a logical order, with an arrow from each record to its waits."""
    from torchair.trace.align import align_trace_json

    click.echo(align_trace_json(input, output, gap, merge_gap))
