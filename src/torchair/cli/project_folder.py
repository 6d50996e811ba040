"""Which project a command is for."""

from __future__ import annotations

from pathlib import Path

__all__ = ["project_folder"]


def project_folder(given: Path | None) -> Path:
    """The folder given, else the project that the current folder is in, else the current folder."""
    from torchair.customop.project.layout import find_project

    return (given or find_project(Path.cwd()) or Path.cwd()).absolute()
