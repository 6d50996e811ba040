"""``torchair trace filter``: the tasks of a trace that decide about deadlocks."""

from __future__ import annotations

import click

__all__ = ["command"]


@click.command()
@click.argument("input", type=click.Path())
@click.option("-o", "--output", type=click.Path(), help="Where the result is written. [x_filtered.json beside x.json]")
@click.option(
    "--merge-gap", type=float, default=0.0, help="Microseconds from a stream-activate task to its stream. [0.0]"
)
def command(input: str, output: str | None, merge_gap: float) -> None:
    """Keep the tasks of a trace that order streams, and those that communicate."""
    from torchair.trace.filtering import filter_comm_ops

    click.echo(filter_comm_ops(input, output, merge_gap))
