"""``align_trace_json`` (specification, F-119)."""

from __future__ import annotations

from typing import Any, NoReturn

from torchair.errors import unavailable

__all__ = ["align_trace_json"]


def align_trace_json(*args: Any, **kwargs: Any) -> NoReturn:
    """Replace the times of a trace by a logical order; not in this version.

    Raises:
        UnavailableFeatureError: Always.
    """
    raise unavailable("torchair.tools.gegraph_check.align_trace.align_trace_json")
