"""One function for each Ascend IR operator: ``from torchair._ge_concrete_graph import ge_apis as ge; ge.Add(x, y)``."""

from __future__ import annotations

from typing import Any

from torchair.opset.functions import Cast, Clone, Const

__all__ = ["Cast", "Clone", "Const"]


def __getattr__(name: str) -> Any:
    from torchair.opset.loading import find_operator

    return find_operator(__name__, name)


def __dir__() -> list[str]:
    from torchair.opset.loading import operator_names

    return sorted({*__all__, *operator_names()})
