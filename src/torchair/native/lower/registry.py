"""Which function lowers an overload."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from torch import fx

from torchair._torch_compat import OpOverload
from torchair.native.region import Region

__all__ = ["Lowering", "arguments", "lowering_of", "lowers"]

#: ``(region, node)`` to the loop value of the node, or a tuple of them; raises ``Unsupported``.
Lowering: TypeAlias = Callable[[Region, fx.Node], Any]

_table: dict[OpOverload, Lowering] = {}


def lowers(*overloads: OpOverload) -> Callable[[Lowering], Lowering]:
    """Register a lowering."""

    def register(function: Lowering) -> Lowering:
        for overload in overloads:
            assert overload not in _table, f"{overload} is lowered twice"
            _table[overload] = function
        return function

    return register


def lowering_of(target: object) -> Lowering | None:
    """The lowering of a target, if it has one."""
    return _table.get(target) if isinstance(target, OpOverload) else None


def arguments(node: fx.Node) -> dict[str, Any]:
    """The arguments of a call by the names of the schema, defaults filled in."""
    assert isinstance(node.target, OpOverload)
    found: dict[str, Any] = {}
    for i, argument in enumerate(node.target._schema.arguments):
        if i < len(node.args):
            found[argument.name] = node.args[i]
        elif argument.name in node.kwargs:
            found[argument.name] = node.kwargs[argument.name]
        else:
            found[argument.name] = argument.default_value if argument.has_default_value() else None
    return found
