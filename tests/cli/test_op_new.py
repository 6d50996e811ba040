"""``torchair op new``, and the command ``torchair`` itself."""

from __future__ import annotations

import builtins
import os
from pathlib import Path
from typing import Any

import pytest
from expecttest import assert_expected_inline
from tests.errors.texts import raised

from torchair.cli import main
from torchair.customop import new_operator
from torchair.errors import ProjectError

testing = pytest.importorskip("click.testing", reason="the extra 'cli' is not installed")

GUIDE = "(Tensor x, Tensor? y, Tensor[] z, float attr1, int attr2) -> Tensor"


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def run(*args: str) -> Any:
    from torchair.cli.group import torchair

    return testing.CliRunner().invoke(torchair, ["op", *args])


def test_a_new_project_and_a_further_operator_in_it() -> None:
    result = run("new", "my_op", "--schema", GUIDE, "--out", "a b/my_project", "--namespace", "mine")
    assert result.exit_code == 0, result.output
    assert_expected_inline(
        result.stdout,
        """\
New project a b/my_project: torch.ops.mine.my_op(Tensor x, Tensor? y, Tensor[] z, float attr1, int attr2) -> Tensor
  .gitignore
  README.md
  my_project/__init__.py
  op_host/my_op.cpp
  op_kernel/my_op.cpp
  op_plugin_functions.yaml
  op_proto/my_op.json
  pyproject.toml
  tests/test_my_op.py
  torchair_project.json
Next: write op_kernel/my_op.cpp, and the reference in tests/test_my_op.py; then, in a b/my_project:
  torchair op build && torchair op install && python -m pytest
""",
    )
    os.chdir("a b/my_project/tests")
    result = run("new", "my_inplace", "--schema", "(Tensor x, Tensor y) -> Tensor", "--inplace", "--converter")
    assert result.exit_code == 0, result.output
    assert_expected_inline(
        result.stdout,
        """\
Project my_project: torch.ops.mine.my_inplace(Tensor(a!) x, Tensor y) -> Tensor
  my_project/converters/my_inplace.py
  op_host/my_inplace.cpp
  op_kernel/my_inplace.cpp
  op_proto/my_inplace.json
  tests/test_my_inplace.py
  op_plugin_functions.yaml (entry added)
Next: write op_kernel/my_inplace.cpp, and the reference in tests/test_my_inplace.py; then, in my_project:
  torchair op build && torchair op install && python -m pytest
""",
    )


def test_options(tmp_path: Path) -> None:
    schema = "two(Tensor x, int n) -> (Tensor, Tensor)"
    result = run(
        *("new", "two", "--schema", schema, "--kernel", "python"),
        *("--size", "x", "--size", "{n, x.size(0)}", "--dtype", "x", "--dtype", "at::kLong"),
    )
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith(f"New project two_project: torch.ops.npu.{schema}\n")
    assert (
        "        size: '{n, x.size(0)}'\n        dtype: at::kLong\n"
        in Path("two_project/op_plugin_functions.yaml").read_text()
    )
    assert not Path("two_project/op_host").exists()
    result = run("new", "more", "--schema", "(Tensor x) -> Tensor", "--project", "two_project", "--size", "{x.size(7)}")
    assert result.exit_code == 0, result.output
    assert "No sample arguments fit the rules for sizes: complete tests/test_more.py\n" in result.stdout


def test_what_cannot_be_generated_is_status_2() -> None:
    result = run("new", "../x", "--schema", GUIDE)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith(
        "An operator cannot have that name [TA223]\n  why:\n    '../x' is not an identifier"
    )
    result = run("new", "x", "--schema", "(Tensr x) -> Tensor")
    assert result.exit_code == 2
    assert result.stderr.startswith("A schema is not one that a custom operator can have [TA219]")
    result = run("new", "x", "--schema", GUIDE, "--out", "a", "--project", "b")
    assert result.exit_code == 2
    assert "--out is for a new project, --project for an existing one; give one of them." in result.stderr
    result = run("new", "x", "--schema", GUIDE, "--project", "b")
    assert result.exit_code == 2
    assert result.stderr.startswith("A folder is no operator project [TA223]")
    assert list(Path().iterdir()) == []


def test_build_and_install_outside_a_project() -> None:
    for command in ("build", "install"):
        result = run(command)
        assert result.exit_code == 2
        assert result.stderr.startswith("A folder is no operator project [TA223]")


def test_a_build_that_fails_is_status_1(monkeypatch: pytest.MonkeyPatch) -> None:
    assert run("new", "my_op", "--schema", GUIDE, "--out", "p").exit_code == 0
    monkeypatch.setenv("CXX", "/no/such/compiler")
    result = run("build", "p")
    assert result.exit_code == 1
    assert result.stderr.startswith("An operator project cannot be built [TA410]\n  why:\n    no C++ compiler runs")


def test_a_project_without_cpp_has_nothing_to_compile() -> None:
    assert run("new", "my_op", "--schema", GUIDE, "--out", "p", "--kernel", "python").exit_code == 0
    result = run("build", "p")
    assert (result.exit_code, result.stdout) == (0, "Nothing to compile: no source is C++.\n")


def test_every_command_has_help() -> None:
    result = run("--help")
    assert result.exit_code == 0
    for name in ("new", "build", "install", "proto", "check"):
        assert f"\n  {name} " in result.stdout
        shown = run(name, "--help")
        assert shown.exit_code == 0
        assert "\\b" not in shown.output  # click takes a real backspace
    assert run("nothing").exit_code == 2


def test_without_click(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    original = builtins.__import__

    def without(name: str, *args: Any, **kwargs: Any) -> Any:
        if name == "torchair.cli.group":
            raise ModuleNotFoundError("No module named 'click'", name="click")
        return original(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(SystemExit) as caught:
        main.main()
    assert caught.value.code == 2
    assert capsys.readouterr().err == "The command line needs click: pip install 'torchair[cli]'\n"


def test_names_that_would_not_work(tmp_path: Path) -> None:
    text = raised(
        lambda: new_operator("my_op", "(Tensor x, int meta_outputs) -> Tensor", tmp_path / "one", converter=True),
        ProjectError,
    )
    assert text == (
        "An operator cannot be generated [TA223]\n  why:\n"
        "    schema: npu::my_op(Tensor x, int meta_outputs) -> Tensor\n"
        "    argument 'meta_outputs' has the name of a parameter that every converter has; choose another\n"
        "  fix:\n    Change the schema or the name."
    )
    text = raised(lambda: new_operator("my_op", "(Tensor x) -> Tensor", tmp_path / "two", namespace=""), ProjectError)
    assert text == (
        f"An operator project cannot have these names [TA223]\n  why:\n    folder: {tmp_path / 'two'}\n"
        "    the namespace '' is not an identifier (letters A-Z and a-z, digits, underscores)\n"
        "  fix:\n    Choose another folder or namespace: --out my_project --namespace npu"
    )
    assert not list(tmp_path.iterdir())
