"""The numbers that are derived from a run, and the two writers."""

from __future__ import annotations

import json

import expecttest

from benchmarks.results import CaseResult, Goal, Report, Row, Table, to_json, to_markdown
from benchmarks.timing import Spread

US = 1e-6
CASE = CaseResult(
    "mlp",
    "a small one",
    (
        Row("eager", "ok", peer=True, times=(8 * US, 16 * US, 8 * US), largest_error=0.0),
        Row("inductor", "ok", peer=True, times=(4 * US, 8 * US, 4 * US), compile_seconds=1.5, largest_error=1e-7),
        Row("bad", "wrong", "a|b", peer=True, compile_seconds=0.1),
        Row("ours", "ok", times=(2 * US, 4 * US, 1 * US), compile_seconds=0.25, largest_error=float("nan")),
        Row("later", "not available", "missing"),
    ),
)
REPORT = Report(
    {"torch": "2.13.0", "cpu": "Some CPU"},
    {"rounds": 3},
    (CASE,),
    (Table("scaling", "seconds", ("operators", "s", "remark"), ((500.0, 0.5, ""), (1000.0, None, "failed: no"))),),
    (
        Goal("mlp", "ours", "best peer", 1.6),
        Goal("mlp", "ours", "eager", 4.5),
        Goal("mlp", "later", "eager", 3.0),
        Goal("other", "ours", "eager", 3.0),
    ),
)


def test_best_peer_is_right_and_a_peer() -> None:
    assert CASE.best_peer == "inductor"
    assert CASE.speedup("ours", "best peer") == Spread(2.0, 2.0, 3.0)
    assert CASE.speedup("ours", "eager") == Spread(4.0, 4.0, 6.0)
    assert CASE.speedup("later", "eager") is None
    assert CASE.speedup("ours", "bad") is None


def test_failed() -> None:
    def with_row(row: Row) -> Report:
        return Report({}, {}, (CaseResult("c", "", (row,)),))

    assert not REPORT.failed  # what is wrong is a peer
    assert with_row(Row("a", "failed", "no")).failed
    assert with_row(Row("a", "wrong", "no")).failed
    assert not with_row(Row("a", "failed", "no", peer=True)).failed
    assert not with_row(Row("a", "not available", "no")).failed
    assert Report({}, {}, (), (Table("t", "", (), (), failed=True),)).failed


class TestMarkdown(expecttest.TestCase):
    def test_markdown(self) -> None:
        self.assertExpectedInline(
            to_markdown(REPORT),
            """\
# Benchmarks

- torch: 2.13.0
- cpu: Some CPU
- rounds: 3

## mlp

a small one

| variant  | a call  | over eager       | over best peer (inductor) | first call | error   | remark                 |
|----------|---------|------------------|---------------------------|------------|---------|------------------------|
| eager    | 8.00 us | 1.00 (1.00-1.00) | 0.50 (0.50-0.50)          |            | 0.0e+00 |                        |
| inductor | 4.00 us | 2.00 (2.00-2.00) | 1.00 (1.00-1.00)          | 1.50 s     | 1.0e-07 |                        |
| bad      |         |                  |                           | 0.10 s     |         | wrong: a\\|b            |
| ours     | 2.00 us | 4.00 (4.00-6.00) | 2.00 (2.00-3.00)          | 0.25 s     | nan     |                        |
| later    |         |                  |                           |            |         | not available: missing |

## scaling

seconds

| operators | s   | remark     |
|-----------|-----|------------|
| 500       | 0.5 |            |
| 1000      |     | failed: no |

## Goals

| case  | variant | times faster than | goal | measured         | verdict      |
|-------|---------|-------------------|------|------------------|--------------|
| mlp   | ours    | best peer         | 1.60 | 2.00 (2.00-3.00) | met          |
| mlp   | ours    | eager             | 4.50 | 4.00 (4.00-6.00) | missed       |
| mlp   | later   | eager             | 3.00 |                  | not measured |
| other | ours    | eager             | 3.00 |                  | not measured |
""",
        )


def test_units() -> None:
    rows = tuple(Row(f"v{t}", "ok", times=(t,)) for t in (0.0123, 2.5))
    text = to_markdown(Report({}, {}, (CaseResult("c", "", rows),)))
    assert "| v0.0123 | 12.300 ms |" in text
    assert "| v2.5    | 2.500 s   |" in text


def test_json() -> None:
    content = json.loads(to_json(REPORT))
    assert content["schema"] == 2
    assert content["machine"] == {"torch": "2.13.0", "cpu": "Some CPU"}
    (case,) = content["cases"]
    assert case["best_peer"] == "inductor"
    eager, _, wrong, ours, later = case["rows"]
    assert eager["microseconds"] == {"median": 8.0, "q1": 8.0, "q3": 12.0}
    assert "compile_seconds" not in eager
    assert wrong == {
        "variant": "bad",
        "status": "wrong",
        "peer": True,
        "reason": "a|b",
        "compile_seconds": 0.1,
    }
    assert ours["rounds_microseconds"] == [2.0, 4.0, 1.0]
    assert ours["over_best_peer"] == {"median": 2.0, "q1": 2.0, "q3": 3.0}
    assert ours["largest_error"] == "nan"
    assert later["reason"] == "missing"
    assert content["tables"][0]["rows"][1] == {"operators": 1000.0, "s": None, "remark": "failed: no"}
    assert [goal["met"] for goal in content["goals"]] == [True, False, None, None]
