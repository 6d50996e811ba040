"""``deadlock_check`` (specification, F-119)."""

from __future__ import annotations

from typing import Any, NoReturn

from torchair.errors import unavailable

__all__ = ["deadlock_check"]


def deadlock_check(*args: Any, **kwargs: Any) -> NoReturn:
    """Look for tasks of a trace that wait for each other; not in this version.

    Raises:
        UnavailableFeatureError: Always.
    """
    raise unavailable("torchair.tools.gegraph_check.deadlock_check.deadlock_check")
