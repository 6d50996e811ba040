"""Records of what a compile did, which errors, logs and reports show."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from torchair.errors import Rejection

__all__ = ["ConversionReport", "Refused"]


@dataclass(frozen=True, slots=True)
class Refused:
    """One FX node without an Ascend IR form."""

    target: str
    node: str
    rejection: Rejection
    source: str = ""


@dataclass(slots=True)
class ConversionReport:
    """What became of the nodes of one FX graph.

    Attributes:
        converted: Nodes per target that a registered converter converted.
        auto_converted: Nodes per target that automatic conversion converted.
        torch_calls: Nodes per target that run as their torch operator, outside Ascend IR; not exportable.
        refused: Why those have no Ascend IR form, one entry a node.
        derived: IR operators whose prototype was derived from a torch schema.
    """

    converted: Counter[str] = field(default_factory=Counter)
    auto_converted: Counter[str] = field(default_factory=Counter)
    torch_calls: Counter[str] = field(default_factory=Counter)
    refused: list[Refused] = field(default_factory=list)
    derived: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        lines = [
            f"converted: {sum(self.converted.values())} nodes of {len(self.converted)} operators",
            f"converted automatically: {_list(self.auto_converted)}",
            f"run as torch operators: {_list(self.torch_calls)}",
        ]
        return "\n".join(lines)


def _list(counts: Counter[str]) -> str:
    return ", ".join(f"{name} ({n})" for name, n in counts.most_common()) or "none"
