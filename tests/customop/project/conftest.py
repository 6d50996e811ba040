"""A project that is generated and built once for all tests, and all processes that run them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import filelock
import pytest

from torchair.build import find_compiler, find_ninja
from torchair.customop import build_project, new_operator
from torchair.errors import Rejection

_OPERATORS = (
    ("my_op", "(Tensor x, Tensor? y, Tensor[] z, float attr1, int attr2) -> Tensor", "cpp"),
    ("my_inplace", "(Tensor(a!) x, Tensor y) -> Tensor", "cpp"),
    ("in_python", "(Tensor x, Tensor? y, *, float scale=2.0) -> Tensor", "python"),
    ("in_triton", "(Tensor x, Tensor[] z) -> Tensor", "triton"),
)


def _skip_without_tools() -> None:
    for found in (find_compiler(), find_ninja()):
        if isinstance(found, Rejection):
            pytest.skip(found.reason)


@pytest.fixture(scope="session")
def built_project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The guide's two operators in C++, one in Python and one in Triton. Not to be changed."""
    _skip_without_tools()
    shared = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent
    folder = shared / "operator projects" / "guide_project"
    folder.parent.mkdir(exist_ok=True)
    with filelock.FileLock(folder.parent / "lock"):
        if not (folder / "ready").is_file():
            for name, schema, kernel in _OPERATORS:
                new_operator(name, schema, folder, kernel=kernel, namespace="guide")
            build_project(folder)
            (folder / "ready").touch()
    return folder


@pytest.fixture
def project(built_project: Path, tmp_path: Path) -> Path:
    """A copy of that project, built as well, to be changed."""
    return Path(shutil.copytree(built_project, tmp_path / "guide_project"))


@pytest.fixture
def new_project(tmp_path: Path) -> Callable[..., Path]:
    """Make a project of C++ sources: ``new_project("op_kernel/a.cpp", "text", ...)``."""

    def make(*files: str) -> Path:
        _skip_without_tools()
        folder = tmp_path / "small_project"
        new_operator("my_op", "(Tensor x) -> Tensor", folder)
        (folder / "op_kernel" / "my_op.cpp").unlink()
        (folder / "op_host" / "my_op.cpp").unlink()
        for name, text in zip(files[::2], files[1::2], strict=True):
            (folder / name).write_text(text)
        return folder

    return make
