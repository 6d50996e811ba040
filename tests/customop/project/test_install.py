"""Projects as packages: editable installs, wheels, source archives."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path
from typing import Any

import pytest
from expecttest import assert_expected_inline

from tests.errors.texts import raised
from torchair.customop import install_project, new_operator
from torchair.customop.project import backend
from torchair.errors import ProjectError

USE = """
import torch, guide_project
x = torch.ones(2)
assert torch.ops.guide.my_op(x, None, [x], 0.5, 1).equal(torch.full((2,), 3.5))
assert torch.ops.guide.in_python(x, x).equal(torch.full((2,), 4.0))
print(guide_project.__file__)
"""


def unpacked(wheel: Path, folder: Path) -> list[str]:
    """Unpack a wheel, and compare its list of files with its files."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
        names = archive.namelist()
    (record,) = (name for name in names if name.endswith("/RECORD"))
    rows = [line.rsplit(",", 2) for line in (folder / record).read_text().splitlines()]
    assert [row[0] for row in rows] == names
    for name, digest, size in rows[:-1]:
        content = (folder / name).read_bytes()
        expected = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        assert (digest, size) == (f"sha256={expected}", str(len(content)))
    assert rows[-1] == [record, "", ""]
    return names


def use(path: Path) -> str:
    environ = {**os.environ, "PYTHONPATH": str(path)}
    ran = subprocess.run(
        [sys.executable, "-c", USE], capture_output=True, text=True, env=environ, cwd=path, check=False
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.strip()


def test_an_editable_wheel_has_the_path_of_the_project(
    built_project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(built_project)
    name = backend.build_editable(str(tmp_path))
    assert name == "guide_project-0.1.0-py3-none-any.whl"
    names = unpacked(tmp_path / name, tmp_path / "site")
    assert names[0] == "__editable__.guide_project.pth"
    assert (tmp_path / "site" / names[0]).read_text() == f"{built_project}\n"


def test_a_wheel_works_without_the_project(
    built_project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(built_project)
    name = backend.build_wheel(str(tmp_path))
    platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    assert name == f"guide_project-0.1.0-py3-none-{platform}.whl"
    names = unpacked(tmp_path / name, tmp_path / "site")
    assert "guide_project/_project/build/libguide_project.so" in names
    assert not [n for n in names if n.endswith((".cpp", ".o", ".d")) or "__pycache__" in n]
    assert use(tmp_path / "site") == str(tmp_path / "site" / "guide_project" / "__init__.py")


def test_a_source_archive(built_project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(built_project)
    with tarfile.open(tmp_path / backend.build_sdist(str(tmp_path))) as archive:
        names = archive.getnames()
    assert "guide_project-0.1.0/op_kernel/my_op.cpp" in names
    assert "guide_project-0.1.0/torchair_project.json" in names
    assert not [n for n in names if "/build/" in n]


def test_a_project_without_a_version(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(project)
    (project / "pyproject.toml").write_text("[project]\n")
    text = raised(lambda: backend.build_editable(str(tmp_path)), ProjectError).replace(str(project), "FOLDER")
    assert_expected_inline(
        text,
        """\
A project has no version [TA223]
  why:
    FOLDER/pyproject.toml has no line like: version = "0.1.0"
  fix:
    Add it to [project].""",
    )


def test_a_name_that_is_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Refused unless it is the project itself, or what was an operator project of that name."""
    project, other, site = tmp_path / "some_project", tmp_path / "other" / "some_project", tmp_path / "site"
    for folder in (project, other):
        new_operator("my_op", "(Tensor x) -> Tensor", folder, kernel="python")
    info = site / "some_project-0.1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: some_project\nVersion: 0.1.0\n")
    (info / "WHEEL").write_text("Wheel-Version: 1.0\nGenerator: other\n")
    monkeypatch.syspath_prepend(site)
    calls = []

    def run(call: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
        calls.append(call)
        return subprocess.CompletedProcess(call, 0)

    monkeypatch.setattr("torchair.customop.project.install.subprocess.run", run)
    text = raised(lambda: install_project(project), ProjectError).replace(str(tmp_path), "FOLDER")
    assert_expected_inline(
        text,
        """\
An operator project cannot be installed [TA223]
  why:
    its package is 'some_project', which is an installed distribution: some_project 0.1.0
  fix:
    Give the package another name: its folder, 'package' in torchair_project.json and 'name' in pyproject.toml.
    If it is the other one that you do not need: pip uninstall some_project
  where:
    the project FOLDER/some_project""",
    )
    (info / "WHEEL").write_text("Wheel-Version: 1.0\nGenerator: torchair\n")
    where = {"dir_info": {"editable": True}, "url": other.as_uri()}
    (info / "direct_url.json").write_text(json.dumps(where))
    text = raised(lambda: install_project(project), ProjectError)
    assert f"is an installed distribution: some_project 0.1.0, from {other}\n" in text
    assert not calls
    assert install_project(other).root == other  # again
    shutil.rmtree(other)
    assert install_project(project).root == project  # it was moved
    (info / "direct_url.json").unlink()
    assert install_project(project).root == project  # it was installed from a wheel
    assert len(calls) == 3
    shutil.rmtree(info)
    (site / "some_project.py").touch()
    text = raised(lambda: install_project(project), ProjectError)
    assert f"which is a module that can be imported: {site / 'some_project.py'}\n" in text


def test_pip_refuses(built_project: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = tmp_path / "python"
    program.write_text("#!/bin/sh\necho 'No module named pip' >&2\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    text = raised(lambda: install_project(built_project), ProjectError).replace(str(built_project), "FOLDER")
    assert_expected_inline(
        text,
        """\
An operator project cannot be installed [TA223]
  why:
    pip ended with 1
    No module named pip
  fix:
    Install pip (python -m ensurepip), or add the folder to PYTHONPATH: FOLDER""",
    )


@pytest.mark.slow
def test_install_and_uninstall_in_an_environment(built_project: Path, tmp_path: Path) -> None:
    environment = tmp_path / "environment"
    venv.create(environment, with_pip=True)
    python = environment / "bin" / "python"
    (site,) = environment.glob("lib/python*/site-packages")
    packages = [sysconfig.get_path("purelib"), *(p for p in sys.path if p.endswith("src"))]
    (site / "outer.pth").write_text("".join(f"import site; site.addsitedir({path!r})\n" for path in packages))
    environ = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}

    def run(*call: str | Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            list(map(str, call)), capture_output=True, text=True, env=environ, cwd=tmp_path, check=False
        )

    installed = run(python, "-m", "torchair.cli", "op", "install", built_project)
    assert installed.returncode == 0, installed.stderr
    assert installed.stdout == "Installed: import guide_project (undo: pip uninstall guide_project)\n"
    used = run(python, "-c", USE)
    assert used.stdout.strip() == str(built_project / "guide_project" / "__init__.py"), used.stderr
    assert run(python, "-m", "pip", "uninstall", "-y", "guide_project").returncode == 0
    assert "No module named 'guide_project'" in run(python, "-c", USE).stderr
