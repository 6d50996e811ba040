"""``torchair op check``."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from tests.custom_operators import define, ops

from torchair.customop import check_operator_with

testing = pytest.importorskip("click.testing", reason="the extra 'cli' is not installed")

define("cli_right(Tensor x) -> Tensor", lambda x: x + 1, lambda x: torch.empty_like(x))
define("cli_no_meta(Tensor x) -> Tensor", lambda x: x + 1)
define("cli_raises(Tensor x) -> Tensor", lambda x: 1 // 0, lambda x: x)

DEFINITION = """\
import torch

torch.library.define("cli_check::doubled", "(Tensor x, float by) -> Tensor")


@torch.library.impl("cli_check::doubled", "CPU")
def doubled(x, by):
    return (x * by).contiguous()


@torch.library.register_fake("cli_check::doubled")
def _(x, by):
    return x.new_empty(x.shape)
"""


def run(*args: str):
    from torchair.cli.group import torchair

    return testing.CliRunner().invoke(torchair, ["op", "check", *args])


def test_an_operator_that_is_ready() -> None:
    result = run("custom_operators::cli_right")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.startswith("custom_operators::cli_right(Tensor x) -> Tensor\n  schema")
    assert result.stdout.endswith("  ready for graph mode\n")


def test_something_is_missing() -> None:
    result = run("custom_operators::cli_no_meta")
    assert result.exit_code == 1
    assert '@torch.library.register_fake("custom_operators::cli_no_meta")' in result.stdout


def test_json() -> None:
    result = run("custom_operators::cli_no_meta", "--json")
    assert result.exit_code == 1
    assert json.loads(result.stdout) == check_operator_with(ops.cli_no_meta).as_json()


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["custom_operators::nothing"], "no operator 'custom_operators::nothing' is defined"),
        (["nothing"], "no operator 'nothing' is defined"),
        (["aten::add"], "has the overloads Tensor"),
        ([], "Missing argument 'NS::NAME'"),
        (["a::b", "--sample", "no_such_file.py"], "File 'no_such_file.py' does not exist"),
        (["a::b", "--import", "no_such_module"], "--import no_such_module: ModuleNotFoundError"),
        (["a::b", "--import", "no_such_file.py"], "--import no_such_file.py: there is no such file"),
        (["a::b", "--timeout", "0"], "Invalid value for '--timeout'"),
    ],
)
def test_wrong_usage(args: list[str], words: str) -> None:
    result = run(*args)
    assert (result.exit_code, result.stdout) == (2, "")
    assert words in result.stderr


def test_samples_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "calls.py"
    path.write_text("import torch\ndef samples():\n    yield (torch.ones(2, 3),), {}\n    yield (torch.ones(4),), {}\n")
    result = run("custom_operators::cli_right", "--sample", str(path))
    assert result.exit_code == 0
    assert "the sample and variants of it" in result.stdout
    path.write_text("def samples():\n    yield 3\n")
    result = run("custom_operators::cli_right", "--sample", str(path))
    assert result.exit_code == 2
    assert f"{path}:2: yield 3" in result.stderr


def test_a_file_with_an_error_is_named(tmp_path: Path) -> None:
    path = tmp_path / "broken_definition.py"
    path.write_text("x = 1\nx.nothing\n")
    result = run("a::b", "--import", str(path))
    assert result.exit_code == 2
    assert f"AttributeError: 'int' object has no attribute 'nothing' ({path}:2)" in result.stderr


def test_a_file_may_import_its_neighbors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "cli_check_neighbor.py").write_text("x = 1\n")
    path = tmp_path / "cli_check_plugin.py"
    path.write_text("import cli_check_neighbor\n")
    result = run("a::b", "--import", str(path))
    assert "no operator 'a::b' is defined" in result.stderr


def test_the_limit_is_for_the_check_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The runtime of capture mode is compiled on first use, which may take minutes on a busy machine."""
    order: list[str] = []
    monkeypatch.setattr("torchair.runtime.extension.load_extension", lambda: order.append("runtime"))
    monkeypatch.setattr("faulthandler.dump_traceback_later", lambda *_, **__: order.append("limit"))
    run("custom_operators::cli_no_meta")
    assert order == ["runtime", "limit"]


def _program(folder: Path, *args: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "torchair.cli", "op", "check", *args]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=1500)


@pytest.mark.slow
def test_as_a_program(tmp_path: Path) -> None:
    """From the folder of a module that defines the operator."""
    (tmp_path / "cli_check_definition.py").write_text(DEFINITION)
    done = _program(tmp_path, "cli_check::doubled", "--import", "cli_check_definition")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith("  ready for graph mode\n")


@pytest.mark.slow
def test_a_kernel_that_hangs_is_named(tmp_path: Path) -> None:
    hanging = DEFINITION.replace("    return (x * by)", "    while True:\n        pass\n    return (x * by)")
    (tmp_path / "cli_check_hangs.py").write_text(hanging)
    done = _program(tmp_path, "cli_check::doubled", "--import", "cli_check_hangs.py", "--timeout", "20")
    assert done.returncode == 1
    assert "Timeout" in done.stderr
    assert 'cli_check_hangs.py", line 8 in doubled' in done.stderr


def test_on_a_terminal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    rich = pytest.importorskip("rich.console", reason="the extra 'cli' is not installed")
    from torchair.cli import op_check

    console = rich.Console
    monkeypatch.setattr(rich, "Console", lambda **kw: console(**kw, width=100, force_terminal=True))
    report = check_operator_with(ops.cli_no_meta)
    op_check._print_table(report)
    shown = capsys.readouterr().out
    assert "\x1b[33mmissing" in shown
    assert "\x1b[32mpass" in shown
    assert '@torch.library.register_fake("custom_operators::cli_no_meta")' in shown
    assert "not ready for graph mode" in shown
