"""Steps that ninja runs."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from tests.errors.texts import raised
from torchair.build import FailedStep, Step, find_ninja, run_ninja
from torchair.errors import BuildError, Rejection


@pytest.fixture
def program() -> str:
    found = find_ninja()
    assert isinstance(found, str), found
    return found


def copy(source: str, made: str) -> Step:
    return Step(made, (source,), ("cp", source, made))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "with space, $dollar: and (more)"
    (folder / "build").mkdir(parents=True)
    (folder / "a b$.txt").write_text("a")
    (folder / "c.txt").write_text("c")
    return folder


STEPS = (copy("a b$.txt", "build/a b$.out"), copy("c.txt", "build/c.out"))


def test_only_what_changed_is_made_again(program: str, folder: Path) -> None:
    first = run_ninja(program, folder, "build", STEPS)
    assert sorted(first.made) == ["build/a b$.out", "build/c.out"]
    assert (folder / "build" / "a b$.out").read_text() == "a"
    assert run_ninja(program, folder, "build", STEPS).made == ()
    (folder / "c.txt").write_text("changed")
    assert run_ninja(program, folder, "build", STEPS).made == ("build/c.out",)
    assert (folder / "build" / "c.out").read_text() == "changed"


def test_another_command_makes_it_again(program: str, folder: Path) -> None:
    run_ninja(program, folder, "build", STEPS)
    changed = (STEPS[0], Step("build/c.out", ("c.txt",), ("cp", "-p", "c.txt", "build/c.out")))
    assert run_ninja(program, folder, "build", changed).made == ("build/c.out",)


def test_a_failure_does_not_stop_the_rest(program: str, folder: Path) -> None:
    script = "import sys; print('one; $x'); print('FAILED: two'); sys.exit(3)"
    failing = Step("build/bad.out", ("c.txt",), (sys.executable, "-c", script))
    result = run_ninja(program, folder, "build", (failing, *STEPS))
    assert result.failed == (FailedStep("build/bad.out", "one; $x\nFAILED: two"),)
    assert sorted(result.made) == ["build/a b$.out", "build/c.out"]


def test_what_commands_say_is_kept(program: str, folder: Path) -> None:
    warning = Step("build/w.out", ("c.txt",), ("sh", "-c", "echo careful; cp c.txt build/w.out"))
    assert run_ninja(program, folder, "build", (warning,)).text.strip() == "careful"


def test_a_path_of_two_lines(program: str, folder: Path) -> None:
    text = raised(lambda: run_ninja(program, folder, "build", (copy("a\nb", "build/c"),)), BuildError)
    assert text == (
        "A path cannot be used in a build [TA410]\n  why:\n    'a\\nb' has characters that are not printable"
    )


def test_ninja_itself_fails(program: str, folder: Path) -> None:
    with pytest.raises(BuildError, match=r"absent\.txt"):
        run_ninja(program, folder, "build", (copy("absent.txt", "build/absent"),))


def test_without_ninja(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name, path=None: None)
    assert find_ninja() == Rejection("ninja is not installed", "pip install ninja")
