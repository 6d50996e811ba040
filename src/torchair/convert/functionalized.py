"""Mutating custom operators: expands PyTorch's automatic functionalization (v1 and v2) into Ascend IR.

AOTAutograd wraps a mutating operator so that the FX graph stays functional. Here each base becomes a copy (``TensorMove``), each
argument a view of its base again, the operator's own converter runs on them, and what it wrote through a view goes back into the
base (``ViewCopy``). A pass later drops the copies that protect nothing, so a KV-cache update stays in place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import fx

from torchair import _torch_compat
from torchair._torch_compat import OpOverload
from torchair.errors import MutationError
from torchair.ir import Node, Value
from torchair.opset.memory import AsStrided, TensorMove, ViewCopy

if TYPE_CHECKING:
    from torchair.convert.driver import Driver

__all__ = ["convert", "matches"]


def matches(node: fx.Node) -> bool:
    """True for PyTorch's functionalization wrappers."""
    return _torch_compat.is_auto_functionalized_v1(node.target) or _torch_compat.is_auto_functionalized_v2(node.target)


@dataclass(frozen=True, slots=True)
class _View:
    """A mutated argument: which base, and where in its memory (None: the base itself)."""

    base: int
    geometry: tuple[list[Any], list[Any], Any] | None


def convert(driver: Driver, node: fx.Node) -> tuple[Any, ...]:
    """Convert a wrapped call.

    Returns:
        The operator's results, then the new value of each base (v2) or of each mutated argument (v1).

    Raises:
        MutationError: The operator is not an overload, or its converter does not write an argument that it should.
    """
    overload = node.args[0]
    if not isinstance(overload, OpOverload):
        raise MutationError(
            "A higher-order operator that writes its arguments has no Ascend IR form",
            why=str(overload),
            fix="Keep it out of the compiled region with a graph break.",
            where=driver.builder.origin.source,
        )
    if _torch_compat.is_auto_functionalized_v2(node.target):
        bases, views, plain = _read_v2(overload, node)
    else:
        bases, views, plain = _read_v1(overload, node)
    copies = [None if b is None else TensorMove(driver.lower_args(b)) for b in bases]
    kwargs: dict[str, Any] = {k: driver.lower_args(v) for k, v in plain.items()}
    arguments: list[tuple[str, _View, Value]] = []

    def regenerate(name: str, view: _View | None) -> Any:
        if view is None:
            return None
        base = copies[view.base]
        value = base if view.geometry is None else _as_strided(driver, base, view.geometry)
        arguments.append((name, view, value))
        return value

    for name, entry in views.items():
        kwargs[name] = [regenerate(name, v) for v in entry] if isinstance(entry, list) else regenerate(name, entry)
    start = len(driver.builder.added)
    val = node.meta.get("val")
    returns = len(overload._schema.returns)
    results_val = val[:returns] if returns > 1 else val[0] if returns else None  # type: ignore[index]
    results = driver.convert_overload(node, overload, (), kwargs, results_val)
    new_bases = _written_back(driver, overload, bases, copies, arguments, driver.builder.added[start:])
    leading = tuple(results) if isinstance(results, tuple | list) and returns > 1 else (results,)
    return (*leading, *new_bases)


def _written_back(
    driver: Driver,
    overload: Any,
    bases: Sequence[Any],
    copies: Sequence[Any],
    arguments: Sequence[tuple[str, _View, Value]],
    added: Sequence[Node],
) -> list[Any]:
    current = list(copies)
    for name, view, value in arguments:
        written = _last_write(added, value)
        if written is None:
            raise MutationError(
                "A converter does not write an argument that its operator writes",
                why=(
                    f"{overload} writes {name!r} (its schema says so), and no node that its converter added has an output "
                    f"named like the input that {name!r} went into"
                ),
                fix=(
                    "Use an Ascend IR operator whose prototype lists the written input also as an output of the same name, e.g.\n"
                    f'torchair.ge.declare_op("MyOp", inputs=["{name}", ...], outputs=["{name}"])'
                ),
                where=driver.builder.origin.source,
            )
        if view.geometry is None:
            current[view.base] = written
        else:
            size, stride, offset = view.geometry
            args = [
                driver.builder.host_ints(driver.lower_args(size)),
                driver.builder.host_ints(driver.lower_args(stride)),
            ]
            at = driver.builder.host(_scalar(driver, offset))
            current[view.base] = ViewCopy(current[view.base], *args, at, written, *args, at)
    return current


def _scalar(driver: Driver, value: Any) -> Any:
    lowered = driver.lower_args(value)
    return lowered.type.content[0] if isinstance(lowered, Value) else lowered


def _last_write(added: Sequence[Node], value: Value) -> Value | None:
    for node in reversed(added):
        operands = node.operands
        for output, operand in node.writes:
            if operands[operand] is value:
                return node.outputs[output]
    return None


def _as_strided(driver: Driver, base: Value, geometry: tuple[list[Any], list[Any], Any]) -> Value:
    size, stride, offset = geometry
    value: Value = AsStrided(
        base,
        driver.builder.host_ints(driver.lower_args(size)),
        driver.builder.host_ints(driver.lower_args(stride)),
        driver.builder.host(_scalar(driver, offset)),
    )
    return value


def _mutated_names(overload: OpOverload) -> list[tuple[str, bool]]:
    """Names of the arguments that the schema writes, and whether each is a list."""
    return [
        (a.name, "List" in str(a.type))
        for a in overload._schema.arguments
        if a.alias_info is not None and a.alias_info.is_write
    ]


def _read_v1(overload: OpOverload, node: fx.Node) -> tuple[list[Any], dict[str, Any], dict[str, Any]]:
    """Every mutated tensor is its own base."""
    plain = {k: v for k, v in node.kwargs.items() if not k.startswith("_only_clone")}
    bases: list[Any] = []
    views: dict[str, Any] = {}

    def own(arg: Any) -> _View | None:
        if arg is None:
            return None
        bases.append(arg)
        return _View(len(bases) - 1, None)

    for name, is_list in _mutated_names(overload):
        arg = plain.pop(name, None)
        if is_list and arg is not None:
            views[name] = [own(a) for a in arg]  # type: ignore[union-attr]
        else:
            views[name] = own(arg)
            if arg is None:
                bases.append(None)
    return bases, views, plain


def _read_v2(overload: OpOverload, node: fx.Node) -> tuple[list[Any], dict[str, Any], dict[str, Any]]:
    """Arguments are views of ``_all_bases``, encoded as ``_x_base_index`` with ``_x_size`` ... or ``_x_slice_dim`` ..."""
    kwargs: dict[str, Any] = dict(node.kwargs)
    bases: list[Any] = list(kwargs.pop("_all_bases"))
    kwargs.pop("_only_clone_these_bases", None)
    views: dict[str, Any] = {}
    for name, is_list in _mutated_names(overload):
        if is_list:
            length = kwargs.pop(f"_{name}_length")
            views[name] = None if length is None else [_read_view(kwargs, f"_{name}_{i}", bases) for i in range(length)]
        else:
            views[name] = _read_view(kwargs, f"_{name}", bases)
    return bases, views, kwargs


def _read_view(kwargs: dict[str, Any], prefix: str, bases: Sequence[Any]) -> _View | None:
    index = kwargs.pop(f"{prefix}_base_index")
    if index is None:
        return None
    if kwargs.pop(f"{prefix}_alias", None) is not None:
        return _View(index, None)
    if f"{prefix}_storage_offset" in kwargs:
        size, stride, offset = (kwargs.pop(f"{prefix}_{part}") for part in ("size", "stride", "storage_offset"))
        return _View(index, (list(size), list(stride), offset))
    if f"{prefix}_slice_dim" in kwargs:
        dim, start, end = (_meta(kwargs.pop(f"{prefix}_slice_{part}")) for part in ("dim", "start", "end"))
        base = bases[index].meta["val"]
        size = list(base.shape)
        size[dim] = end - start
        return _View(index, (size, list(base.stride()), base.storage_offset() + start * base.stride()[dim]))
    return _View(index, None)


def _meta(value: Any) -> Any:
    """A symbolic number of the FX graph by its value at compile time, so that geometry is arithmetic on symbols."""
    return value.meta["val"] if isinstance(value, fx.Node) else value
