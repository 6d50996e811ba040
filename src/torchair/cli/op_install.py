"""``torchair op install``: make a project importable."""

from __future__ import annotations

from pathlib import Path

import click

from torchair.cli.project_folder import project_folder

__all__ = ["command"]


@click.command()
@click.argument("folder", required=False, type=click.Path(path_type=Path, file_okay=False))
def command(folder: Path | None) -> None:
    """Install the project in FOLDER (by default the one in this folder) into this Python environment.

    The package is read from the folder itself: after a change, `torchair op build` is enough.
    """
    from torchair.customop.project.build import build_project
    from torchair.customop.project.install import install_project

    root = project_folder(folder)
    build_project(root)
    project = install_project(root)
    click.echo(f"Installed: import {project.package} (undo: pip uninstall {project.package})")
