"""``torchair op build``: compile the C++ operators of a project."""

from __future__ import annotations

from pathlib import Path

import click

from torchair.cli.project_folder import project_folder

__all__ = ["command"]


@click.command()
@click.argument("folder", required=False, type=click.Path(path_type=Path, file_okay=False))
def command(folder: Path | None) -> None:
    """Compile what changed in the project in FOLDER (by default the one in this folder), and load it once.

    Errors of all sources are shown, each with its file and line.
    """
    from torchair.customop.project.build import build_project
    from torchair.customop.project.layout import Project
    from torchair.customop.project.load import check_arguments, load_library
    from torchair.customop.prototype_file import read_prototypes

    project = Project.open(project_folder(folder))
    built = build_project(project.root)
    if built.messages.strip():
        click.echo(built.messages, err=True)
    if built.library is None:
        click.echo("Nothing to compile: no source is C++.")
        return
    load_library(project)
    check_arguments(project, [prototype for file in project.prototypes for prototype in read_prototypes(file)])
    for source in built.compiled:
        click.echo(f"  {source}")
    what = "compiled" if built.compiled else "up to date"
    click.echo(f"{built.library.relative_to(project.root)}: {what}, {built.seconds:.1f} s")
