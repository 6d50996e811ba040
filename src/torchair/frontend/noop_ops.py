"""Removing operators that change nothing (specification, F-18)."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch import fx

from torchair import _torch_compat
from torchair._torch_compat import OpOverload
from torchair.frontend.aliasing import readers_of_position, same_layout, storages
from torchair.frontend.fx_pass import FxPass
from torchair.logs import get_logger, logger

__all__ = ["RemoveNoopOps"]

_log = get_logger(__name__)

_aten, _prims = torch.ops.aten, torch.ops.prims


@dataclass(slots=True)
class RemoveNoopOps(FxPass):
    """``y = clone(x)``, a full ``slice``, ``repeat`` by ones and their like: ``y`` becomes ``x``.

    Left alone: what has other sizes or strides than its source, what keeps outputs of the graph apart from inputs and
    from each other, and what keeps a value from a write into its source, also from one that an operator would do if it
    ran in place. PyTorch has a pass of the same name; it is not used, since it sees no writes, trusts aliases that its
    own removals made wrong, and lies in a package that takes two seconds to import.
    """

    name: ClassVar[str] = "remove-noop-ops"
    log: logging.Logger = logger

    def run(self, gm: fx.GraphModule) -> int:
        memory = _Memory.of(gm.graph)
        removed = 0
        for node in list(gm.graph.nodes):
            source = _source(node)
            if source is None:
                continue
            problem = memory.problem(node, source)
            if problem:
                _log.debug("%s leaves %s (%s): %s", self.name, node.name, node.target, problem)
                continue
            memory.merge(node, source)
            node.replace_all_uses_with(source)
            gm.graph.erase_node(node)
            removed += 1
        self.log.debug("After removing noop ops, graph is %s", gm.graph)
        return removed


# --- what changes nothing ---


def _always(values: Mapping[str, Any]) -> bool:
    # A slice has as many elements as its source only if it has all of them in order, and so on: types are compared.
    return True


def _integers(values: Mapping[str, Any]) -> bool:
    dtype = values["self"].dtype
    return not dtype.is_floating_point and not dtype.is_complex


def _by_one(values: Mapping[str, Any]) -> bool:
    return type(values["exponent"]) is int and values["exponent"] == 1


def _whole(values: Mapping[str, Any]) -> bool:
    a, b = values["self"].shape, values["src"].shape
    return len(a) == len(b) and all(_torch_compat.known_true(m == n) for m, n in zip(a, b, strict=True))


#: Operator -> the argument that it may return as it is, and on what condition beside an equal type.
_RULES: Mapping[OpOverload, tuple[str, Callable[[Mapping[str, Any]], bool]]] = {
    _aten.slice.Tensor: ("self", _always),
    _aten.slice_scatter.default: ("src", _whole),
    _aten.repeat.default: ("self", _always),
    _aten.constant_pad_nd.default: ("self", lambda v: all(type(p) is int and p == 0 for p in v["pad"])),
    _prims.convert_element_type.default: ("a", _always),
    _prims.device_put.default: ("a", _always),
    _aten.ceil.default: ("self", _integers),
    _aten.floor.default: ("self", _integers),
    _aten.round.default: ("self", _integers),
    _aten.trunc.default: ("self", _integers),
    _aten.pow.Tensor_Scalar: ("self", _by_one),
    _aten.cat.default: ("tensors", lambda v: len(v["tensors"]) == 1),
    _aten.view.default: ("self", _always),
    _aten.view.dtype: ("self", _always),
    _aten.copy.default: ("src", _always),
    _aten.alias.default: ("self", _always),
    _aten.clone.default: ("self", _always),
}


def _source(node: fx.Node) -> fx.Node | None:
    """What a node hands on unchanged; None if it does something."""
    rule = _RULES.get(node.target) if isinstance(node.target, OpOverload) else None
    if rule is None:
        return None
    name, condition = rule
    arguments = _arguments(node)
    given: Any = arguments[name]
    source = given[0] if isinstance(given, list | tuple) and len(given) == 1 else given
    if not isinstance(source, fx.Node):
        return None
    old, new = source.meta.get("val"), node.meta.get("val")
    if not (isinstance(old, torch.Tensor) and isinstance(new, torch.Tensor) and same_layout(old, new)):
        return None
    return source if condition(fx.map_arg(arguments, lambda n: n.meta.get("val"))) else None


def _arguments(node: fx.Node) -> dict[str, Any]:
    """The arguments of a call by name, with defaults."""
    target = node.target
    assert isinstance(target, OpOverload)
    schema = target._schema.arguments
    given = dict(zip((a.name for a in schema), node.args, strict=False))
    return {**{a.name: a.default_value for a in schema}, **given, **node.kwargs}


# --- who would notice ---


@dataclass(slots=True)
class _Memory:
    """Which memory is the caller's, which is written, and which is one memory when nodes are gone.

    Attributes:
        merged: For memory that came with a removed node, the memory that its readers now read.
    """

    inputs: set[int]
    outputs: set[int]
    written: set[int]
    returned: frozenset[fx.Node]
    merged: dict[int, int] = field(default_factory=dict)

    @classmethod
    def of(cls, graph: fx.Graph) -> _Memory:
        (output,) = graph.find_nodes(op="output")
        returned = frozenset(output.all_input_nodes)
        return cls(
            _all_storages(graph.find_nodes(op="placeholder")),
            _all_storages(returned),
            _all_storages(written for node in graph.nodes for written in _written(node)),
            returned,
        )

    def problem(self, node: fx.Node, source: fx.Node) -> str:
        """Why a node has to stay; empty if it need not."""
        own, other = self._place(node), self._place(source)
        if own == other:
            if node in self.returned and (source.op == "placeholder" or source in self.returned):
                return "an output would be the same tensor as an input, or as another output"
            return ""
        if own in self.outputs and (other in self.inputs or other in self.outputs):
            return "an output would share memory with an input, or with another output"
        if own in self.written or other in self.written:
            return "its memory, or its source's, is written, or would be if an operator ran in place"
        if not _starts_its_memory(source) and any(True for _ in readers_of_position(node)):
            return "something counts elements from the start of its memory"
        return ""

    def merge(self, node: fx.Node, source: fx.Node) -> None:
        """Take in that a node is replaced by its source."""
        own, other = self._place(node), self._place(source)
        if own != other:
            self.merged[own] = other
            for places in (self.inputs, self.outputs, self.written):
                if own in places:
                    places.add(other)
        if node in self.returned:
            self.returned |= {source}

    def _place(self, node: fx.Node) -> int:
        place = _torch_compat.storage_id(node.meta["val"])
        while place in self.merged:
            place = self.merged[place]
        return place


def _all_storages(nodes: Iterable[fx.Node]) -> set[int]:
    return {place for node in nodes for place in storages(node.meta.get("val"))}


def _starts_its_memory(node: fx.Node) -> bool:
    return _torch_compat.known_true(node.meta["val"].storage_offset() == 0)


def _written(node: fx.Node) -> Iterator[fx.Node]:
    """What a node writes, or could write if it ran in place."""
    found: list[fx.Node] = []
    if node.op == "call_function":
        target = node.target
        if _torch_compat.is_auto_functionalized_v2(target):
            fx.map_arg(node.kwargs["_all_bases"], found.append)
        elif isinstance(target, OpOverload):
            schema = target._schema.arguments
            given = {**dict(zip((a.name for a in schema), node.args, strict=False)), **node.kwargs}
            names = {a.name for a in schema if a.alias_info is not None and a.alias_info.is_write}
            if not names and schema and _may_run_in_place(target):
                names = {schema[0].name}
            fx.map_arg([given[name] for name in names if name in given], found.append)
        elif isinstance(target, _torch_compat.HigherOrderOperator):
            # Of other wrappers it is not known what they write.
            fx.map_arg((node.args, node.kwargs), found.append)
    yield from found


@functools.cache
def _may_run_in_place(overload: OpOverload) -> bool:
    """Whether an operator has a variant that writes its first argument, in another order than it reads the others."""
    view = any(r.alias_info is not None for r in overload._schema.returns)
    if view or torch.Tag.pointwise in overload.tags:
        return False
    return _torch_compat.find_packet(overload.namespace, f"{overload._schema.name.partition('::')[2]}_") is not None
