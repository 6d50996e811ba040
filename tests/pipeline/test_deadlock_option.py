"""The options ``deadlock_check``: files, printed lines, and what is not checked (specification, F-46 and F-105)."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import torchair
from torchair import _torch_compat
from torchair.runtime.plan import Callback, Plan, Step
from torchair.trace import plan_check, read_trace

NONE = "[RESULT] No deadlock risks detected.\n"


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files go below a folder of the test; the device is that of the guide."""
    torch._dynamo.reset()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(_torch_compat, "debug_directory", lambda: tmp_path / "torch_compile_debug" / "run_x-pid_1")
    platform = tmp_path / "platform.ini"
    platform.write_text("[SoCInfo]\ncube_core_cnt=24\nvector_core_cnt=48\n")
    monkeypatch.setenv("TORCHAIR_PLATFORM_CONFIG", str(platform))


def affine(x: Tensor) -> Tensor:
    return torch.tanh(x) * 2 + 1


def ge_backend(**settings: Any) -> Any:
    config = torchair.CompilerConfig()
    config.debug.deadlock_check = True
    for name, value in settings.items():
        setattr(config, name, value)
    return torchair.get_npu_backend(compiler_config=config)


def written(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("*.json"))


def test_capture_mode(tmp_path, capsys) -> None:
    run = torch.compile(affine, backend="npugraph_ex", options={"deadlock_check": True}, dynamic=True)
    for n in (3, 4, 3):
        assert torch.equal(run(torch.ones(n, 2)), affine(torch.ones(n, 2)))
    assert capsys.readouterr().out == NONE * 2  # one for each capture
    (folder,) = (tmp_path / "torch_compile_debug" / "run_x-pid_1" / "npugraph_ex").iterdir()
    number = folder.name.removeprefix("model__")
    names = written(folder)
    assert len(names) == 4
    pattern = rf"graph_{number}_id_\d+_rank_0_pid_\d+_ts_\d+(_filtered)?\.json"
    assert all(re.fullmatch(pattern, name) for name in names)
    raw = read_trace(folder / next(name for name in names if "filtered" not in name))
    assert [task.name.partition(" ")[0] for task in raw.tasks] == [
        "aten.tanh.default",
        "aten.mul.Tensor",
        "aten.add.Tensor",
    ]


def test_ge_mode(tmp_path, capsys) -> None:
    run = torch.compile(affine, backend=ge_backend(engine="native"), dynamic=False)
    for _ in range(2):
        torch.testing.assert_close(run(torch.ones(3)), affine(torch.ones(3)))
    assert capsys.readouterr().out == NONE
    names = written(tmp_path)
    assert len(names) == 2
    assert all(
        re.fullmatch(r"debug_output_graph_\d+_timestamp\d{14}_pid_\d+(_filtered)?\.json", name) for name in names
    )


@pytest.mark.parametrize(("settings", "dynamic"), [({"engine": "native"}, True), ({"engine": "reference"}, False)])
def test_what_is_not_checked_warns(settings, dynamic, tmp_path, capsys) -> None:
    run = torch.compile(affine, backend=ge_backend(**settings), dynamic=dynamic)
    with pytest.warns(UserWarning, match="deadlock_check: graph_.* is not checked"):
        run(torch.ones(3, 4))
    assert capsys.readouterr().out == ""
    assert written(tmp_path) == []


def collectives(cores: tuple[int, int]) -> Plan:
    def step(name: str, lane: int) -> Step:
        launch = Callback(lambda values: values, (0,), (1,))
        return Step(launch, (), f"_c10d_functional.{name}.default (node {name})", "", lane, (), cores[lane])

    steps = (step("all_reduce", 0), step("all_gather", 1))
    return Plan(2, 1, {}, (), 0, 0, (), (), (), steps, (1,), lanes=("", "side"))


@pytest.mark.parametrize("mode", ["capture", "ge"])
def test_a_seeded_deadlock(mode, tmp_path, capsys) -> None:
    check = plan_check.check_captured if mode == "capture" else plan_check.check_compiled
    assert check(collectives((24, 24)), 7).conflicts == ()
    assert capsys.readouterr().out == NONE
    for path in tmp_path.rglob("*.json"):
        path.unlink()
    check(collectives((32, 24)), 7)
    assert capsys.readouterr().out == (
        "[RESULT] Deadlock risk detected! 1 conflicting pair(s):\n\n"
        "  CONFLICT: [stream0 TaskId=0] _c10d_functional.all_reduce.default (node all_reduce) (32 AIVEC)  <->  "
        "[stream1 TaskId=1] _c10d_functional.all_gather.default (node all_gather) (24 AIVEC)  sum=56 > 48\n"
    )
    paths = list(tmp_path.rglob("*.json"))
    assert {re.sub(r".*\d", "", path.stem) for path in paths} == {"", "_filtered", "_filtered_deadlock_check"}
    (found,) = (path for path in paths if path.stem.endswith("_deadlock_check"))
    names = [event["name"] for event in json.loads(found.read_text())["traceEvents"] if event["ph"] == "X"]
    assert [name.partition(".")[0] for name in names] == ["dead_lock__c10d_functional"] * 2


def test_the_rank_is_in_the_names(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.setattr(plan_check, "_rank", lambda: 3)
    plan_check.check_captured(collectives((1, 1)), 2)
    (folder,) = (tmp_path / "torch_compile_debug").iterdir()
    assert folder.name == "run_x-pid_1-rank_3"
    assert all("_rank_3_" in path.name for path in folder.rglob("*.json"))


def test_a_missing_wait_of_a_program(capsys) -> None:
    def program(x: Tensor, wait: bool) -> Tensor:
        with torchair.scope.npu_stream_switch("side"):
            y = torch.tanh(x)
        if wait:
            torchair.ops.wait([y])
        return y * 2

    run = torch.compile(program, backend="npugraph_ex", options={"deadlock_check": True}, dynamic=False)
    x = torch.ones(3)
    assert torch.equal(run(x, True), torch.tanh(x) * 2)
    assert capsys.readouterr().out == NONE
    assert torch.equal(run(x, False), torch.tanh(x) * 2)
    text = capsys.readouterr().out
    assert text.startswith(
        "[RESULT] Missing wait! 1 pair(s) of tasks that nothing orders:\n\n  MISSING WAIT: [stream1 "
    )
    assert "aten.tanh.default" in text
    assert "aten.mul.Tensor" in text
    assert text.endswith("\n" + NONE)
