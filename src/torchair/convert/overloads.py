"""Registering one converter for several overloads of ATen, and what their ``supports=`` functions share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import fx

from torchair._torch_compat import OpOverload
from torchair.convert.registry import Supports, register_fx_node_ge_converter
from torchair.errors import Rejection
from torchair.ir import Value

__all__ = ["all_of", "aten_overload", "host_number", "register", "sizes_known"]

F = TypeVar("F", bound=Callable[..., Any])


def aten_overload(name: str) -> OpOverload | None:
    """The overload ``"name.overload"`` of ATen; None when this torch lacks it."""
    packet, _, overload = name.partition(".")
    found: OpOverload | None = getattr(getattr(torch.ops.aten, packet, None), overload, None)
    return found


def register(*names: str, supports: Supports | None = None) -> Callable[[F], F]:
    """Register the decorated function, which stays a plain function, for the overloads that this torch has.

    Args:
        names: ``"view.default"``.
        supports: As in :func:`~torchair.convert.registry.register_fx_node_ge_converter`.
    """

    def decorate(function: F) -> F:
        for name in names:
            register_fx_node_ge_converter(aten_overload(name), supports=supports)(function)
        return function

    return decorate


def all_of(*rules: Supports) -> Supports:
    """``supports=`` of several conditions: the first that refuses counts."""

    def supports(node: fx.Node) -> Rejection | None:
        return next((rejection for rule in rules if (rejection := rule(node)) is not None), None)

    return supports


def sizes_known(node: fx.Node) -> Rejection | None:
    """``supports=`` for operators whose result may have a size that only running them tells."""
    if node.meta.get("unbacked_bindings"):
        return Rejection("a size of its result is known only after it ran")
    return None


def host_number(argument: Any) -> Any:
    """A number argument of a converter: itself, or the expression that a symbolic one stands for."""
    if not isinstance(argument, Value):
        return argument
    assert argument.type.content is not None, f"{argument} is not a host number"
    return argument.type.content[0]
