"""What a run found, and how it is written: Markdown for people, JSON for programs."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from benchmarks.timing import Spread, paired_ratios

__all__ = ["CaseResult", "Goal", "Report", "Row", "Start", "Status", "Table", "Work", "to_json", "to_markdown"]

#: ``wrong``: numbers differ from eager. ``failed``: an exception. ``not available``: a part is missing here.
Status = Literal["ok", "wrong", "failed", "not available"]


@dataclass(frozen=True, slots=True)
class Work:
    """What a call has to do at least.

    Attributes:
        bytes: To read or write: arguments, results, weights, what it uses of buffers.
        operations: Additions and multiplications of matrix products and convolutions.
    """

    bytes: int
    operations: int


@dataclass(frozen=True, slots=True)
class Start:
    """Starting a variant in fresh processes.

    Attributes:
        cold: Seconds of the first call with empty caches.
        warm: Seconds of the first call in a process that finds everything in the caches.
        peak_bytes: The most memory that the process of ``cold`` had, without the compilers that it started.
    """

    cold: float
    warm: float
    peak_bytes: int


@dataclass(frozen=True, slots=True)
class Row:
    """One variant of one case.

    Attributes:
        reason: Why the status is not ``ok``.
        peer: Whether it is one that ours is measured against.
        times: Seconds a call, one value a round; empty if it was not timed.
        compile_seconds: The first call, with empty caches.
        largest_error: Largest absolute difference from eager.
        start: How it starts, if that was measured; a text says why it could not be.
    """

    variant: str
    status: Status
    reason: str = ""
    peer: bool = False
    times: tuple[float, ...] = ()
    compile_seconds: float | None = None
    largest_error: float | None = None
    start: Start | str | None = None

    @property
    def seconds(self) -> Spread:
        """Seconds a call."""
        return Spread.of(self.times)


@dataclass(frozen=True, slots=True)
class CaseResult:
    """All variants of one case, timed in one interleaved run.

    Attributes:
        floor: Seconds that ``work`` takes at least on this machine.
        loaded: Other processes were busy beside it.
    """

    case: str
    what: str
    rows: tuple[Row, ...]
    work: Work | None = None
    floor: float | None = None
    loaded: bool = False

    def row(self, variant: str) -> Row | None:
        """The row of ``variant`` if it was timed."""
        return next((row for row in self.rows if row.variant == variant and row.times), None)

    @property
    def best_peer(self) -> str | None:
        """The peer with the smallest median among those that are right."""
        timed = [row for row in self.rows if row.peer and row.times]
        return min(timed, key=lambda row: row.seconds.median).variant if timed else None

    def speedup(self, variant: str, over: str) -> Spread | None:
        """How many times faster than ``over``: a variant, ``best peer`` or ``floor``; None if one was not timed."""
        if over == "floor":
            found = self.row(variant)
            return Spread.of([self.floor / t for t in found.times]) if found and self.floor else None
        name = self.best_peer if over == "best peer" else over
        row, other = self.row(variant), self.row(name) if name is not None else None
        return paired_ratios(other.times, row.times) if row and other else None


@dataclass(frozen=True, slots=True)
class Table:
    """A measurement with columns of its own.

    Attributes:
        failed: Whether a number is wrong or an exception stopped it; missing parts are no failure.
    """

    name: str
    what: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str | float | None, ...], ...]
    failed: bool = False


@dataclass(frozen=True, slots=True)
class Goal:
    """A speed-up that a variant is to reach: ``variant`` at least ``at_least`` times faster than ``over``."""

    case: str
    variant: str
    over: str
    at_least: float

    def measured(self, cases: Sequence[CaseResult]) -> Spread | None:
        """The speed-up; None if the run does not tell."""
        found = next((case for case in cases if case.case == self.case), None)
        return found.speedup(self.variant, self.over) if found else None


@dataclass(frozen=True, slots=True)
class Report:
    """One run of the program."""

    machine: Mapping[str, str | int | float]
    settings: Mapping[str, str | int | float]
    cases: tuple[CaseResult, ...] = ()
    tables: tuple[Table, ...] = ()
    goals: tuple[Goal, ...] = ()

    @property
    def failed(self) -> bool:
        """Whether something of ours was wrong or raised. What peers cannot do is no fault here."""
        rows = [row for case in self.cases for row in case.rows if not row.peer]
        return any(row.status in ("wrong", "failed") for row in rows) or any(table.failed for table in self.tables)


# ---------------------------------------------------------------- JSON


def to_json(report: Report) -> str:
    """The report as JSON: microseconds a call with every round's value, so that other summaries can be made."""
    content = {
        "schema": 2,
        "machine": dict(report.machine),
        "settings": dict(report.settings),
        "cases": [_case_json(case) for case in report.cases],
        "tables": [_table_json(table) for table in report.tables],
        "goals": [_goal_json(goal, report.cases) for goal in report.goals],
    }
    return json.dumps(content, indent=1, allow_nan=False) + "\n"


def _case_json(case: CaseResult) -> dict[str, Any]:
    return {
        "case": case.case,
        "what": case.what,
        "best_peer": case.best_peer,
        "bytes": case.work.bytes if case.work else None,
        "operations": case.work.operations if case.work else None,
        "floor_microseconds": round(1e6 * case.floor, 4) if case.floor else None,
        "rows": [_row_json(case, row) for row in case.rows],
    }


def _row_json(case: CaseResult, row: Row) -> dict[str, Any]:
    content: dict[str, Any] = {"variant": row.variant, "status": row.status, "peer": row.peer}
    if row.reason:
        content["reason"] = row.reason
    if row.compile_seconds is not None:
        content["compile_seconds"] = round(row.compile_seconds, 4)
    if row.largest_error is not None:
        # JSON has no infinity and no NaN.
        content["largest_error"] = row.largest_error if math.isfinite(row.largest_error) else str(row.largest_error)
    if isinstance(row.start, Start):
        content["start"] = {
            "cold_seconds": round(row.start.cold, 4),
            "warm_seconds": round(row.start.warm, 4),
            "peak_mb": round(row.start.peak_bytes / 1e6, 1),
        }
    elif row.start is not None:
        content["start"] = row.start
    if row.times:
        content["microseconds"] = _spread_json(row.seconds, 1e6)
        for key, over in (
            ("over_eager", "eager"),
            ("over_best_peer", "best peer"),
            ("share_of_floor", "floor"),
        ):
            if (speedup := case.speedup(row.variant, over)) is not None:
                content[key] = _spread_json(speedup)
        content["rounds_microseconds"] = [round(1e6 * t, 4) for t in row.times]
    return content


def _spread_json(spread: Spread, scale: float = 1.0) -> dict[str, float]:
    return {
        "median": round(scale * spread.median, 4),
        "q1": round(scale * spread.low, 4),
        "q3": round(scale * spread.high, 4),
    }


def _table_json(table: Table) -> dict[str, Any]:
    rows = [dict(zip(table.columns, row, strict=True)) for row in table.rows]
    return {"table": table.name, "what": table.what, "failed": table.failed, "rows": rows}


def _goal_json(goal: Goal, cases: Sequence[CaseResult]) -> dict[str, Any]:
    found = goal.measured(cases)
    return {
        "case": goal.case,
        "variant": goal.variant,
        "over": goal.over,
        "at_least": goal.at_least,
        "measured": None if found is None else _spread_json(found),
        "met": None if found is None else found.median >= goal.at_least,
    }


# ---------------------------------------------------------------- Markdown


def to_markdown(report: Report) -> str:
    """The report as Markdown, one table a case."""
    parts = ["# Benchmarks", _facts({**report.machine, **report.settings})]
    for case in report.cases:
        parts += [f"## {case.case}", case.what, _case_markdown(case)]
    for table in report.tables:
        parts += [f"## {table.name}", table.what, _grid(table.columns, [_cells(row) for row in table.rows])]
    if goals := [_goal_cells(goal, report.cases) for goal in report.goals]:
        parts += ["## Goals", _grid(("case", "variant", "times faster than", "goal", "measured", "verdict"), goals)]
    return "\n\n".join(parts) + "\n"


def _facts(facts: Mapping[str, str | int | float]) -> str:
    return "\n".join(f"- {name.replace('_', ' ')}: {value}" for name, value in facts.items())


def _case_markdown(case: CaseResult) -> str:
    best = case.best_peer
    columns = ["variant", "a call", "over eager", f"over best peer ({best})" if best else "over best peer"]
    if case.floor:
        columns.append(f"of the floor ({_duration(case.floor)})")
    started = any(row.start is not None for row in case.rows)
    columns += ["first call", *(("cold start", "warm start", "peak memory") if started else ()), "error", "remark"]
    rows = []
    for row in case.rows:
        cells = [row.variant, _duration(row.seconds.median) if row.times else ""]
        cells += [_spread_text(case.speedup(row.variant, over)) for over in ("eager", "best peer")]
        if case.floor:
            cells.append(f"{case.floor / row.seconds.median:.0%}" if row.times else "")
        cells.append("" if row.compile_seconds is None else f"{row.compile_seconds:.2f} s")
        if started:
            cells += _start_cells(row.start)
        cells.append("" if row.largest_error is None else f"{row.largest_error:.1e}")
        remarks = [] if row.status == "ok" else [f"{row.status}: {row.reason}"]
        remarks += [f"start: {row.start}"] if isinstance(row.start, str) and row.status == "ok" else []
        rows.append([*cells, "; ".join(remarks)])
    return _grid(columns, rows)


def _start_cells(start: Start | str | None) -> list[str]:
    if not isinstance(start, Start):
        return ["", "", ""]
    return [f"{start.cold:.2f} s", f"{start.warm:.2f} s", f"{start.peak_bytes / 1e6:.0f} MB"]


def _goal_cells(goal: Goal, cases: Sequence[CaseResult]) -> list[str]:
    found = goal.measured(cases)
    verdict = "not measured" if found is None else "met" if found.median >= goal.at_least else "missed"
    return [goal.case, goal.variant, goal.over, f"{goal.at_least:.2f}", _spread_text(found), verdict]


def _duration(seconds: float) -> str:
    if seconds < 1e-3:
        return f"{1e6 * seconds:.2f} us"
    return f"{1e3 * seconds:.3f} ms" if seconds < 1 else f"{seconds:.3f} s"


def _spread_text(spread: Spread | None) -> str:
    return "" if spread is None else f"{spread.median:.2f} ({spread.low:.2f}-{spread.high:.2f})"


def _cells(row: Sequence[str | float | None]) -> list[str]:
    return ["" if cell is None else cell if isinstance(cell, str) else f"{cell:.4g}" for cell in row]


def _grid(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table whose source lines up, so that it reads well in a terminal too."""
    escaped = [[cell.replace("|", "\\|") for cell in row] for row in (columns, *rows)]
    widths = [max(3, *(len(row[i]) for row in escaped)) for i in range(len(columns))]
    lines = ["| " + " | ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)) + " |" for row in escaped]
    lines.insert(1, "|" + "|".join("-" * (w + 2) for w in widths) + "|")
    return "\n".join(lines)
