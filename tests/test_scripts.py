"""The programs of scripts/, as far as they run without installing anything."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

SCRIPTS = Path(__file__).parents[1] / "scripts"


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"scripts.{name}", SCRIPTS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # dataclasses look their module up while the class is made.
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, spec.name, module)
        spec.loader.exec_module(module)
    return module


def test_check_files_refuses_merge_marks_and_large_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    check = load("check_files")
    marked, large, good = tmp_path / "marked.py", tmp_path / "large.bin", tmp_path / "good.md"
    marked.write_text("a = 1\n" + "<" * 7 + " HEAD\nb = 2\n" + "=" * 7 + "\n" + ">" * 7 + " other\n")
    large.write_bytes(b"x" * (check.MAX_BYTES + 1))
    good.write_text("Heading\n=======\n")
    assert check.main([str(marked), str(large), str(good), str(tmp_path / "removed")]) == 1
    assert capsys.readouterr().out.splitlines() == [
        f"{marked}:2: merge mark",
        f"{marked}:5: merge mark",
        f"{large}: 1000001 bytes, more than 1000000",
    ]
    assert check.main([str(good)]) == 0
    assert capsys.readouterr().out == ""


@pytest.fixture(scope="module")
def versions() -> ModuleType:
    return load("smoke_torch_versions")


def fake(monkeypatch: pytest.MonkeyPatch, module: ModuleType, statuses: dict[str, str]) -> None:
    def smoke(minor: str, _folder: Path, *, cpu_only: bool) -> object:
        del cpu_only
        return module.Result(minor, f"{minor}.1", statuses[minor], "5 passed", 2.4)

    monkeypatch.setattr(module, "smoke", smoke)


def test_versions_table(
    versions: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fake(monkeypatch, versions, {"2.6": "pass", "2.13": "not run"})
    assert versions.main(["--versions", "2.6", "2.13"]) == 0
    assert capsys.readouterr().out.partition("\n\n")[2].splitlines() == [
        "| torch | installed | status  | result   | seconds |",
        "|-------|-----------|---------|----------|---------|",
        "| 2.6   | 2.6.1     | pass    | 5 passed | 2       |",
        "| 2.13  | 2.13.1    | not run | 5 passed | 2       |",
    ]


@pytest.mark.parametrize(
    ("statuses", "expected"),
    [
        ({"2.6": "pass", "2.7": "fail"}, 1),
        ({"2.6": "not run", "2.7": "not run"}, 1),
        ({"2.6": "pass", "2.7": "pass"}, 0),
    ],
)
def test_versions_exit_status(
    versions: ModuleType, monkeypatch: pytest.MonkeyPatch, statuses: dict[str, str], expected: int
) -> None:
    fake(monkeypatch, versions, statuses)
    assert versions.main(["--versions", *statuses]) == expected


def test_versions_leaves_out_a_version_that_does_not_fit(
    versions: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(versions, "is_cuda_build", lambda *_: True)
    monkeypatch.setattr(versions, "CUDA_ROOM", 10**18)
    result = versions.smoke("2.6", tmp_path / "environment", cpu_only=False)
    assert (result.status, result.installed) == ("not run", "")
    assert result.remark.endswith("free on disk, 1000000000 GB needed")
    assert versions.smoke("2.6", tmp_path / "environment", cpu_only=True).remark == (
        "pip offers the CUDA build only (--cpu-only)"
    )


def test_versions_covers_what_pyproject_promises(versions: ModuleType) -> None:
    pyproject = (SCRIPTS.parent / "pyproject.toml").read_text(encoding="utf-8")
    assert f'"torch>={versions.SUPPORTED[0]}"' in pyproject
    pin = (SCRIPTS.parent / "requirements" / "torch.txt").read_text(encoding="utf-8")
    assert f"torch=={versions.SUPPORTED[-1]}." in pin


def test_the_page_of_versions_has_a_row_for_each(versions: ModuleType) -> None:
    page = (SCRIPTS.parent / "docs" / "torch-versions.md").read_text(encoding="utf-8")
    rows = [line.split("|")[1].strip() for line in page.splitlines() if line.startswith("| 2.")]
    assert rows == list(versions.SUPPORTED)
