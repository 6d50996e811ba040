"""What an operator has and lacks, as data, as text and as JSON."""

from __future__ import annotations

import textwrap
from dataclasses import asdict, dataclass
from typing import Any, Literal, TypeAlias

__all__ = ["AGREEMENT", "OperatorReport", "Row", "Status"]

#: The deliverable of the last row.
AGREEMENT = "agreement of the modes"

Status: TypeAlias = Literal["pass", "missing", "wrong", "not needed"]


@dataclass(frozen=True, slots=True)
class Row:
    """One deliverable.

    Attributes:
        deliverable: ``"schema"``, ``"eager kernel (cpu)"``, ``"meta function"`` ...
        status: ``"pass"``, ``"missing"``, ``"wrong"`` or ``"not needed"``.
        why: What was found; may have several lines.
        fix: What to do, with code to paste; empty where nothing is to be done.
    """

    deliverable: str
    status: Status
    why: str = ""
    fix: str = ""

    @property
    def blocks(self) -> bool:
        """Something is to be done."""
        return self.status in ("missing", "wrong")


@dataclass(frozen=True, slots=True)
class OperatorReport:
    """What an operator has and lacks.

    Attributes:
        operator: Its schema.
        rows: One for each deliverable.
        tried: The calls that the checks were made with, and those that the kernel refused; one line each.
    """

    operator: str
    rows: tuple[Row, ...]
    tried: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Nothing is missing or wrong."""
        return not any(row.blocks for row in self.rows)

    @property
    def verdict(self) -> str:
        """The last line, for people."""
        if not self.ok:
            return "not ready for graph mode"
        if any(row.deliverable == AGREEMENT and row.status != "pass" for row in self.rows):
            return "nothing is missing; whether the results are right was not checked"
        return "ready for graph mode"

    def as_json(self) -> dict[str, Any]:
        """The report as JSON has it."""
        return {
            "operator": self.operator,
            "ok": self.ok,
            "rows": [asdict(row) for row in self.rows],
            "tried": list(self.tried),
        }

    def __str__(self) -> str:
        width = max(len(row.deliverable) for row in self.rows)
        lines = [self.operator]
        for row in self.rows:
            first, *rest = row.why.splitlines() or [""]
            lines.append(f"  {row.deliverable:{width}}  {row.status:10}  {first}".rstrip())
            lines += [f"  {'':{width}}  {'':10}  {line}".rstrip() for line in rest]
            if row.fix:
                lines += [f"      {line}".rstrip() for line in ("", *row.fix.splitlines(), "")]
        for text in self.tried:
            lines += textwrap.wrap(text, 110, initial_indent="  ", subsequent_indent="    ")
        lines.append(f"  {self.verdict}")
        return "\n".join(lines)
