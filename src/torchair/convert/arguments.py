"""What ``supports=`` functions of converters need: arguments of FX nodes by name, and the usual refusals."""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

from torchair.convert.registry import Supports
from torchair.convert.torch_calls import schema_arguments
from torchair.errors import Rejection

__all__ = ["argument", "numbers_known", "positions_fit_int32"]


def argument(node: fx.Node, name: str) -> Any:
    """The argument ``name`` of a call of an operator overload, or its default."""
    overload: Any = node.target
    return next(v for a, v in schema_arguments(overload, node.args, node.kwargs) if a.name == name)


def numbers_known(*names: str) -> Supports:
    """``supports=`` for numbers that become attributes: they must be known when the graph is compiled."""

    def supports(node: fx.Node) -> Rejection | None:
        for name in names:
            value = argument(node, name)
            if isinstance(value, fx.Node | torch.SymInt | torch.SymFloat):
                return Rejection(f"{name} is symbolic, and becomes an attribute", fix=f"Pass {name} as a constant.")
        return None

    return supports


def positions_fit_int32(node: fx.Node) -> Rejection | None:
    """``supports=`` for operators that return positions as int32."""
    shape = node.args[0].meta["val"].shape  # type: ignore[union-attr]
    if any(isinstance(size, int) and size > 2**31 for size in shape):
        return Rejection("the Ascend operator returns positions as int32, and a dimension is longer than that")
    return None
