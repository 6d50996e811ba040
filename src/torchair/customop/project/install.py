"""Install a project into this Python environment, as an editable package."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from torchair.customop.project.layout import Project
from torchair.customop.project.names import name_in_use
from torchair.errors import ProjectError

__all__ = ["install_project"]


def install_project(root: str | Path) -> Project:
    """Make ``import <package>`` work in this environment; the package is read from the project's folder.

    pip does it, without network. ``pip uninstall <package>`` undoes it.

    Raises:
        ProjectError: The folder is no project, something else has its name, there is no pip, or it refuses.
    """
    project = Project.open(Path(root).absolute())
    if problem := name_in_use(project, installing=True):
        raise ProjectError(
            "An operator project cannot be installed",
            why=f"its package is {project.package!r}, which {problem}",
            fix=(
                "Give the package another name: its folder, 'package' in torchair_project.json and 'name' in "
                f"pyproject.toml.\nIf it is the other one that you do not need: pip uninstall {project.package}"
            ),
            where=f"the project {project.root}",
        )
    call = [sys.executable, "-m", "pip", "install", "--no-index", "--no-deps", "--no-build-isolation"]
    call += ["--disable-pip-version-check", "--quiet", "--editable", str(project.root)]
    ran = subprocess.run(call, capture_output=True, text=True, check=False)
    if ran.returncode != 0:
        raise ProjectError(
            "An operator project cannot be installed",
            why=[f"pip ended with {ran.returncode}", *(ran.stderr or ran.stdout).splitlines()[-20:]],
            fix=f"Install pip (python -m ensurepip), or add the folder to PYTHONPATH: {project.root}",
        )
    return project
