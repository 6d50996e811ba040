"""``torchair trace``, and the same tools as programs of their own (specification, F-119)."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from expecttest import assert_expected_inline

from torchair.trace.command import align_main, check_main, filter_main

SAMPLES = Path(__file__).parents[1] / "trace" / "samples"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the sample traces, which is the current one."""
    for sample in SAMPLES.glob("*.json"):
        shutil.copy(sample, tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*args: str):
    testing = pytest.importorskip("click.testing", reason="the extra 'cli' is not installed")
    from torchair.cli.group import torchair

    return testing.CliRunner().invoke(torchair, ["trace", *args])


def names(path: Path) -> list[str]:
    return [event["name"] for event in json.loads(path.read_text())["traceEvents"] if event["ph"] == "X"]


def test_filter_align_and_check(folder) -> None:
    result = run("filter", "conflict.json")
    assert (result.exit_code, result.stdout) == (0, "conflict_filtered.json\n")
    assert not any(name.startswith(("MatMulV2", "Add")) for name in names(folder / "conflict_filtered.json"))
    result = run("align", "conflict_filtered.json")
    assert (result.exit_code, result.stdout) == (0, "conflict_filtered_aligned.json\n")
    result = run("check", "conflict_filtered_aligned.json")
    assert result.exit_code == 1
    assert_expected_inline(
        result.stdout,
        """\
[RESULT] Deadlock risk detected! 1 conflicting pair(s):

  CONFLICT: [stream316 TaskId=4] aiv_all_reduce_float16 (32 AIVEC)  <->  [stream317 TaskId=5] MoeDistributeDispatch (24 AIVEC)  sum=56 > 48
""",  # noqa: E501
    )
    assert [
        n for n in names(folder / "conflict_filtered_aligned_deadlock_check.json") if n.startswith("dead_lock_")
    ] == [
        "dead_lock_aiv_all_reduce_float16",
        "dead_lock_MoeDistributeDispatch",
        "dead_lock_EVENT_WAIT_1",
    ]


def test_what_is_ordered_is_no_deadlock(folder) -> None:
    result = run("check", "ordered.json")
    assert (result.exit_code, result.stdout) == (0, "[RESULT] No deadlock risks detected.\n")
    assert not (folder / "ordered_deadlock_check.json").exists()


def test_enough_cores(folder) -> None:
    assert run("check", "conflict.json", "--aivec-total", "56").exit_code == 0
    assert run("check", "conflict.json", "--aivec-total", "55", "-o", "found.json").exit_code == 1
    assert (folder / "found.json").exists()
    refused = run("check", "conflict.json", "--aivec-total", "0")
    assert refused.exit_code == 2
    assert "aivec_total is 0" in refused.stderr


def test_refusals_are_usage_errors(folder) -> None:
    for command in ("filter", "align", "check"):
        result = run(command, "nothing.json")
        assert result.exit_code == 2
        assert "nothing.json: there is no such file" in result.stderr
        assert "Traceback" not in result.output
    assert run("check").exit_code == 2
    assert run("filter", "conflict.json", "--merge-gap", "-1").exit_code == 2
    assert run("align", "conflict.json", "--gap", "nan").exit_code == 2


def test_programs_of_their_own(folder, capsys) -> None:
    assert filter_main(["virtual_streams.json", "-o", "a.json", "--merge-gap", "0.0"]) == 0
    assert align_main(["a.json", "-o", "b.json"]) == 0
    assert check_main(["b.json", "--aivec-total", "53"]) == 1
    assert check_main(["nothing.json"]) == 2
    said = capsys.readouterr()
    warning, *written = said.out.splitlines()[:3]
    assert warning.startswith("[WARNING] [stream7 TaskId=4] aiv_broadcast: Schem Mode is 0, not 1")
    assert written == ["a.json", "b.json"]
    assert "sum=54 > 53" in said.out
    assert "nothing.json: there is no such file" in said.err


@pytest.mark.parametrize("module", ["filter_operators", "align_trace", "deadlock_check"])
def test_upstreams_paths(folder, module) -> None:
    command = [sys.executable, "-m", f"torchair.tools.gegraph_check.{module}", "ordered.json"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")
    last = ran.stdout.splitlines()[-1]
    assert last == "[RESULT] No deadlock risks detected." or (folder / last).exists()
