"""``filter_comm_ops`` (specification, F-119)."""

from __future__ import annotations

from typing import Any, NoReturn

from torchair.errors import unavailable

__all__ = ["filter_comm_ops"]


def filter_comm_ops(*args: Any, **kwargs: Any) -> NoReturn:
    """Keep the control and communication tasks of a trace; not in this version.

    Raises:
        UnavailableFeatureError: Always.
    """
    raise unavailable("torchair.tools.gegraph_check.filter_operators.filter_comm_ops")
