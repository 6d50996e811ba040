"""Entries of the operator database that do not agree with eager, each with its reason. Checked: a row that agrees
fails, and so does one that differs in something else."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["KNOWN_DIFFERENCES", "LATER_DIFFERENCES", "Row"]


class Row(NamedTuple):
    """A known difference.

    Attributes:
        what: Part of what the comparison says.
        reason: Why it differs.
    """

    what: str
    reason: str


#: Entry name -> difference.
KNOWN_DIFFERENCES: dict[str, Row] = {}

#: The same for entries whose first sample agrees.
LATER_DIFFERENCES: dict[str, Row] = {
    "nn.functional.max_unpool2d.grad": Row(
        "strides (36, 18, 6, 1) instead of (36, 1, 12, 2) for shape (1, 2, 3, 6)",
        "PyTorch's decomposition of aten.max_unpool2d, which is its meta function too, promises a contiguous result "
        "for a channels-last argument, and its CPU kernel returns a channels-last one (torch 2.13); a graph delivers "
        "what was promised to whatever reads the result",
    ),
}
