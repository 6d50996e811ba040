"""``torchair op proto``: the JSON prototype of an operator, from its schema."""

from __future__ import annotations

from pathlib import Path

import click

__all__ = ["command"]


@click.command()
@click.argument("schemas", nargs=-1, required=True, metavar="SCHEMA...")
@click.option(
    "--type", "types", multiple=True, metavar="DTYPE", help="A dtype that all tensors support; may be repeated. [float]"
)
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), help="Write a file, which must not exist, instead of printing."
)
def command(schemas: tuple[str, ...], types: tuple[str, ...], output: Path | None) -> None:
    """Print the JSON prototype of operators.

    \b
    torchair op proto "my_op(Tensor x, Tensor? y, float attr1) -> Tensor"

    An argument that the operator writes, Tensor(a!) x, is an input and an output of that name.
    """  # noqa: D301  # a real backspace, by which click knows what not to wrap
    from torchair.customop.prototype_file import prototype_json

    text = prototype_json(schemas, types=types or ("float",))
    if output is None:
        click.echo(text, nl=False)
        return
    try:
        with output.open("x", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise click.UsageError(f"{output} cannot be written: {error.strerror}") from error
    click.echo(f"wrote {output}")
