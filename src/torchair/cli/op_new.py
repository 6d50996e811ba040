"""``torchair op new``: write an operator, as a new project or into one."""

from __future__ import annotations

import os
from pathlib import Path

import click

__all__ = ["command"]

_EXAMPLES = """
\b
Examples:
  torchair op new my_op --schema "(Tensor x, Tensor? y, Tensor[] z, float attr1, int attr2) -> Tensor" --out my_project
  torchair op new my_inplace --schema "(Tensor(a!) x, Tensor y) -> Tensor" --project my_project
  torchair op new rows --schema "(Tensor x) -> Tensor" --size "{x.size(0)}" --dtype at::kFloat --kernel python
"""


@click.command(epilog=_EXAMPLES)
@click.argument("name")
@click.option("--schema", required=True, help="Torch schema, with or without the operator's name.")
@click.option("--inplace", is_flag=True, help="Mark the first tensor as written: Tensor(a!).")
@click.option("--kernel", type=click.Choice(["cpp", "python", "triton"]), default="cpp", show_default=True)
@click.option("--namespace", help="torch.ops.NAMESPACE; npu by default.")
@click.option("--size", "sizes", multiple=True, help="Size of a result: an argument or a rule. Once for each result.")
@click.option(
    "--dtype", "dtypes", multiple=True, help="Dtype of a result: an argument or a rule. Once for each result."
)
@click.option("--converter", is_flag=True, help="Write a converter to Ascend IR, too; without, it is automatic.")
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), help="Folder of a new project.")
@click.option("--project", type=click.Path(path_type=Path, file_okay=False), help="Project that gets the operator.")
def command(
    name: str,
    schema: str,
    inplace: bool,
    kernel: str,
    namespace: str | None,
    sizes: tuple[str, ...],
    dtypes: tuple[str, ...],
    converter: bool,
    out: Path | None,
    project: Path | None,
) -> None:
    """Write the operator NAME: into the project given or the one in this folder, else as a new project."""
    from torchair.customop.project.generate import new_operator
    from torchair.customop.project.layout import Project, find_project

    if out is not None and project is not None:
        raise click.UsageError("--out is for a new project, --project for an existing one; give one of them.")
    if project is not None:
        Project.open(project)
    folder = project or out or find_project(Path.cwd()) or Path(f"{name}_project")
    made = new_operator(
        name,
        schema,
        folder,
        namespace=namespace,
        kernel=kernel,
        inplace=inplace,
        sizes=sizes,
        dtypes=dtypes,
        converter=converter,
    )
    root = made.project.root
    shown = os.path.relpath(root)
    if set(Path(shown).parts) <= {os.pardir}:  # "." and ".." say little
        shown = root.resolve().name
    click.echo(
        f"{'New project' if made.is_new else 'Project'} {shown}: torch.ops.{made.plan.namespace}.{made.plan.text}"
    )
    for file in made.created:
        click.echo(f"  {file}")
    for file in made.changed:
        click.echo(f"  {file} (entry added)")
    if not made.plan.samples.fit:
        click.echo(f"No sample arguments fit the rules for sizes: complete tests/test_{name}.py")
    kernels = [file for file in made.created if file.startswith("op_kernel/")]
    click.echo(f"Next: write {' and '.join(kernels)}, and the reference in tests/test_{name}.py; then, in {shown}:")
    click.echo("  torchair op build && torchair op install && python -m pytest")
