"""The build backend of generated projects (PEP 517, PEP 660): pip installs them without network.

An editable install is a path file. A wheel has the built library and all that :func:`torchair.customop.load_project`
reads inside the package; it fits the torch that it was built for.
"""

from __future__ import annotations

import base64
import hashlib
import re
import sysconfig
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from torchair.customop.project.build import build_project
from torchair.customop.project.layout import INSIDE_PACKAGE, MARKER, Project
from torchair.errors import ProjectError

__all__ = ["build_editable", "build_sdist", "build_wheel"]

#: What a project consists of, besides what is built.
_FOLDERS = ("op_host", "op_kernel", "op_proto", "tests")
_FILES = (MARKER, "op_plugin_functions.yaml", "pyproject.toml", "README.md")


def build_editable(wheel_directory: str, config_settings: Any = None, metadata_directory: Any = None) -> str:
    """A wheel that makes the folder itself importable."""
    project = Project.open(Path.cwd())
    path = str(project.root)
    if not path.isprintable():
        raise ProjectError("A path cannot be written into a path file", why=f"the folder is {path!r}")
    return _wheel(project, wheel_directory, [(f"__editable__.{project.package}.pth", f"{path}\n".encode())], "any")


def build_wheel(wheel_directory: str, config_settings: Any = None, metadata_directory: Any = None) -> str:
    """A wheel with the package, its operators' files and the built library."""
    project = Project.open(Path.cwd())
    built = build_project(project.root)
    package = project.root / project.package
    files = [(f"{project.package}/{p.relative_to(package).as_posix()}", p.read_bytes()) for p in _sources(package)]
    inside = f"{project.package}/{INSIDE_PACKAGE}"
    read = [project.root / MARKER, project.yaml, *project.prototypes, *project.python_kernels]
    if built.library is not None:
        read += [built.library, project.build_folder / "facts.json"]
    files += [(f"{inside}/{p.relative_to(project.root).as_posix()}", p.read_bytes()) for p in read if p.is_file()]
    platform = "any" if built.library is None else re.sub(r"[-.]", "_", sysconfig.get_platform())
    return _wheel(project, wheel_directory, files, platform)


def build_sdist(sdist_directory: str, config_settings: Any = None) -> str:
    """The sources."""
    project = Project.open(Path.cwd())
    name = f"{project.package}-{_version(project)}"
    with tarfile.open(Path(sdist_directory, f"{name}.tar.gz"), "w:gz") as archive:
        paths = [project.root / file for file in _FILES]
        for folder in (*_FOLDERS, project.package):
            paths += _sources(project.root / folder)
        for path in paths:
            if path.is_file():
                archive.add(path, f"{name}/{path.relative_to(project.root).as_posix()}")
    return f"{name}.tar.gz"


def _sources(folder: Path) -> Iterator[Path]:
    return (p for p in sorted(folder.rglob("*")) if p.is_file() and "__pycache__" not in p.parts)


def _version(project: Project) -> str:
    """``version`` in pyproject.toml. Python 3.10 has no reader of TOML, so it is looked for in the text."""
    text = (project.root / "pyproject.toml").read_text(encoding="utf-8")
    found = re.search(r'^version\s*=\s*"([0-9][0-9A-Za-z.+!]*)"\s*$', text, re.MULTILINE)
    if found is None:
        raise ProjectError(
            "A project has no version",
            why=f'{project.root / "pyproject.toml"} has no line like: version = "0.1.0"',
            fix="Add it to [project].",
        )
    return found[1]


def _wheel(project: Project, directory: str, files: list[tuple[str, bytes]], platform: str) -> str:
    version = _version(project)
    info = f"{project.package}-{version}.dist-info"
    tag = f"py3-none-{platform}"
    metadata = (
        f"Metadata-Version: 2.1\nName: {project.package}\nVersion: {version}\n"
        f"Summary: Custom operators of torch.ops.{project.namespace}\nRequires-Dist: torchair\n"
    )
    wheel = f"Wheel-Version: 1.0\nGenerator: torchair\nRoot-Is-Purelib: {str(platform == 'any').lower()}\nTag: {tag}\n"
    files = [*files, (f"{info}/METADATA", metadata.encode()), (f"{info}/WHEEL", wheel.encode())]
    name = f"{project.package}-{version}-{tag}.whl"
    record = "".join(f"{path},sha256={_digest(content)},{len(content)}\n" for path, content in files)
    with zipfile.ZipFile(Path(directory, name), "w", zipfile.ZIP_DEFLATED) as archive:
        for path, content in [*files, (f"{info}/RECORD", f"{record}{info}/RECORD,,\n".encode())]:
            archive.writestr(path, content)
    return name


def _digest(content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
