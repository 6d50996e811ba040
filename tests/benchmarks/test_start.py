"""Floors, fresh processes and the page; nothing is compared with a time."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from scripts.benchmark_page import BEGIN, END, between, plot, section, with_starts_of

from benchmarks import child as child_module
from benchmarks.cases import CASES
from benchmarks.floor import MachineFloor
from benchmarks.harness import Case, Reference, Unavailable, Variant, Workload, busy, measure
from benchmarks.results import CaseResult, Report, Row, Start, Work, to_json, to_markdown
from benchmarks.start import Caches, child, compile_scaling, start_once, with_starts
from benchmarks.variants import VARIANTS
from tests.benchmarks.fakes import FakeClock

CPU = torch.device("cpu")
EAGER = VARIANTS["eager"]


@pytest.mark.parametrize(
    ("name", "work"),
    [
        ("one_op", Work(2 * 16, 0)),
        ("chain64", Work(4 * 4 * 64 * 64, 0)),
        ("mlp16", Work(4 * (16 * (64 * 64 + 64) + 2 * 64), 16 * 2 * 64 * 64)),
    ],
)
@torch.no_grad()
def test_work(name: str, work: Work) -> None:
    assert Reference(CASES[name], CPU).work == work


@torch.no_grad()
def test_work_of_the_decode_step_leaves_out_what_is_not_read() -> None:
    """The weights but for the embedding, half of the cache, tables of frequencies and positions, logits, arguments."""
    work = Reference(CASES["decode"], CPU, checks=1).work
    weights = 8 * (4 * 256 * 256 + 3 * 256 * 688 + 2 * 256) + 256 + 4096 * 256
    cache = 8 * 2 * 128 * 256
    assert work.bytes == 4 * (weights + cache + 32 + 4096) + 8 * (256 + 2)
    products = 8 * (4 * 256 * 256 + 3 * 256 * 688) + 4096 * 256
    assert work.operations >= 2 * products


def test_floor_is_the_longer_of_both(monkeypatch: pytest.MonkeyPatch) -> None:
    floor = MachineFloor.__new__(MachineFloor)
    floor.flops, floor.threads = 1e9, 1
    floor._stream = object()
    floor._seconds = {1 << 20: 1.0, 4 << 20: 8.0}
    assert floor(Work(4 << 20, 1)) == 8.0
    assert floor(Work(1 << 19, 1)) == 0.5  # a part of the smallest buffer
    assert floor(Work(4 << 20, 20_000_000_000)) == 20.0
    floor._stream = None
    assert floor(Work(4 << 20, 1)) is None


def test_measured_floor() -> None:
    floor = MachineFloor()
    facts = floor.describe()
    assert all(value > 0 for value in facts.values())
    assert "float32_gflops" in facts


def test_busy_processes_end() -> None:
    with busy() as none:
        assert none is None


def test_loaded_case_has_two_results() -> None:
    def build(_: torch.device) -> Workload:
        return Workload(lambda x: x + 1, lambda seed: (torch.full((2,), float(seed)),))

    first, second = measure(Case("c", "w", build, loaded=True), [EAGER], CPU, FakeClockTiming, lambda _: 0.5)
    assert (first.case, first.loaded, second.case, second.loaded) == ("c", False, "c_loaded", True)
    assert first.floor == second.floor == 0.5
    assert second.what == "w; 2 busy processes beside it"
    assert len(second.rows[0].times) == len(first.rows[0].times) == 2


class _Ticking(FakeClock):
    def __call__(self) -> float:
        self.now += 1
        return self.now


FakeClockTiming = _Ticking().timing(rounds=2, block_ticks=1)


# ---------------------------------------------------------------- fresh processes


def test_child_reports_what_happened(capsys: pytest.CaptureFixture[str]) -> None:
    assert child_module.main(["one_op", "ge-reference"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["status"], found["reason"]) == ("ok", "")
    assert 0 < found["backend_seconds"] < found["seconds"]
    assert found["peak_bytes"] > 1e6


def test_child_that_is_wrong_missing_or_broken() -> None:
    case = CASES["one_op"]

    def result(variant: Variant) -> tuple[str, str]:
        found = child_module.run(case, variant)
        return found["status"], found["reason"]

    def missing(_: torch.device) -> None:
        raise Unavailable("no compiler")

    def broken(_: Any) -> Any:
        raise RuntimeError("no")

    assert result(Variant("v", "", lambda f: lambda x: f(x) + 1))[0] == "wrong"
    assert result(Variant("v", "", lambda f: f, require=missing)) == ("not available", "no compiler")
    assert result(Variant("v", "", broken)) == ("failed", "RuntimeError: no")


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "the process ended with SIGSEGV"),
        ("raise SystemExit(3)", "the process ended with 3 and no result"),
    ],
)
def test_child_that_dies(program: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shell = tmp_path / "python"
    shell.write_text(f"#!/bin/sh\nexec {sys.executable} -c '{program}'\n")
    shell.chmod(0o700)
    monkeypatch.setattr("benchmarks.start.sys.executable", str(shell))
    assert child("one_op", EAGER, tmp_path) == {"status": "failed", "reason": reason}


class FakeCaches(Caches):
    """Children that write functions into the cache, and say how much was there before them."""

    def run(self, case: str, variant: Variant, layers: int | None = None) -> dict[str, Any]:
        if case == "broken":
            return {"status": "failed", "reason": "no"}
        found = len(list(self.folder.rglob("*.cpp")))
        for i in range(layers or 1):
            (self.folder / f"{case}_{found}_{i}.cpp").write_text(
                'extern "C" int declared();\nextern "C" void k0(int) {\n}\n'
            )
        backend = float(layers) / 2 if layers else None
        return {
            "status": "ok",
            "reason": "",
            "seconds": 1.0 + found,
            "backend_seconds": backend,
            "peak_bytes": 2_000_000,
        }


def test_cold_is_without_and_warm_with_what_was_compiled(tmp_path: Path) -> None:
    caches = FakeCaches(tmp_path)
    rows = (Row("eager", "ok", peer=True, times=(1.0,)), Row("ge-native", "wrong", "no"))
    results = [CaseResult(name, "", rows) for name in ("one_op", "mlp16", "broken")]
    results.append(CaseResult("one_op_loaded", "", rows, loaded=True))
    found = with_starts(results, [EAGER, VARIANTS["ge-native"]], caches)
    # The one file that is there in a cold start is that of the trivial function.
    assert [result.rows[0].start for result in found] == [Start(2.0, 3.0, 2_000_000)] * 2 + ["failed: no", None]
    assert [result.rows[1] for result in found] == [rows[1]] * 4
    assert start_once(caches).rows == (("eager", 1.0, 2.0, ""),)
    text = to_markdown(Report({}, {}, tuple(found)))
    assert "| 2.00 s     | 3.00 s     | 2 MB " in text
    assert "start: failed: no" in text
    content = json.loads(to_json(Report({}, {}, tuple(found))))
    assert content["cases"][0]["rows"][0]["start"] == {"cold_seconds": 2.0, "warm_seconds": 3.0, "peak_mb": 2.0}


def test_compile_scaling(tmp_path: Path) -> None:
    table = compile_scaling([EAGER], FakeCaches(tmp_path), (2, 4))
    assert table.rows == (("eager", 2.0, 2.0, 1.0, 1.0, 2.0, 2.0, ""), ("eager", 4.0, 2.0, 2.0, 2.0, 2.0, 4.0, ""))
    assert not table.failed


# ---------------------------------------------------------------- the page


def content() -> dict[str, Any]:
    rows = (
        Row("eager", "ok", peer=True, times=(4e-6, 4e-6), start=Start(1.0, 0.5, 10**8)),
        Row("ge-native", "ok", times=(2e-6, 2e-6)),
        Row("openvino", "failed", "a|b", peer=True),
    )
    result = CaseResult("mlp", "a small one", rows, Work(2_000_000, 3_000_000), 1e-6)
    found: dict[str, Any] = json.loads(to_json(Report({"cpu": "Some CPU"}, {"rounds": 2}, (result,))))
    return found


def test_page() -> None:
    text = section(content())
    assert "cpu Some CPU, rounds 2." in text
    assert "| `mlp` | eager | 4.00 us | ge-native | 2.00 us | 2.00 (2.00-2.00) | 50% |" in text
    assert "A small one. 2 MB and 3 million operations take at least 1.00 us." in text
    assert "| eager | 4.00 us | 1.00 (1.00-1.00) | 1.00 (1.00-1.00) | 25% |  | 1.00 | 0.50 | 100 |  |" in text
    assert "| failed: a\\|b |" in text


def test_starts_of_another_run() -> None:
    other = content()
    other["tables"] = [{"table": "start_once", "rows": []}]
    (case,) = other["cases"]
    case["rows"][1]["start"] = {"cold_seconds": 7.0}
    found = with_starts_of(content(), other)
    assert [row.get("start") for row in found["cases"][0]["rows"]] == [
        {"cold_seconds": 1.0, "warm_seconds": 0.5, "peak_mb": 100.0},
        {"cold_seconds": 7.0},
        None,
    ]
    assert found["tables"] == other["tables"]
    assert found["machine"] == content()["machine"]


def test_page_keeps_what_is_around_the_results() -> None:
    page = between(f"a\n{BEGIN}\nold\n{END}\nb\n", "new\n")
    assert page == f"a\n{BEGIN}\n\nnew\n\n{END}\nb\n"
    assert between(page, "new\n") == page
    with pytest.raises(ValueError, match="the page has no"):
        between(f"{END} {BEGIN}", "new")


def test_plot(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    files = tmp_path / "a.svg", tmp_path / "b.svg"
    for file in files:
        plot(content(), file)
    text = files[0].read_text()
    assert text == files[1].read_text()
    assert "mlp (eager)" in text
    assert "ge-native" in text
    assert str(tmp_path) not in text
