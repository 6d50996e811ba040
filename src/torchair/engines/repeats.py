"""Lowerings that need not be traced again: a node like an earlier one gets copies of the FX nodes traced for that.

In a model of equal layers most nodes are of that kind, and a copy costs a small part of a trace. Copies are made only
where they are what the trace would give: the lowering computes tensors, or views, from its operands alone, all sizes
are numbers, and nothing ever writes the memory of the results. All else is traced.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch import fx

from torchair import _torch_compat
from torchair._torch_compat import OpOverload
from torchair.engines.runtime_values import host_flags, nesting
from torchair.ir import Graph, Node, Value
from torchair.ir.memory import Memory
from torchair.ir.text import call_key, literal_key, type_key

__all__ = ["Known", "Repeats", "Template"]


@dataclass(frozen=True, slots=True)
class Known:
    """A tensor of the trace, by the node that makes it.

    Attributes:
        node: The node.
        fake: The fake tensor that it makes.
        type: Its type.
    """

    node: fx.Node
    fake: torch.Tensor
    type: _torch_compat.FakeType


@dataclass(frozen=True, slots=True)
class _Made:
    """A tensor that a node of a template makes.

    Attributes:
        memory: The number of the operand that it is a view of; below zero: a number of new memory.
    """

    type: _torch_compat.FakeType
    memory: int


#: What one FX node makes: a tensor, or several in a list or tuple.
_Result: TypeAlias = "_Made | tuple[_Made | None, ...]"


@dataclass(frozen=True, slots=True)
class Template:
    """What was traced for a node.

    Attributes:
        operands: FX nodes of the operands.
        nodes: The FX nodes, and what they make.
        results: For each output of the node, the FX node that makes it, or the number of the operand that it is.
    """

    operands: tuple[fx.Node | None, ...]
    nodes: tuple[tuple[fx.Node, _Result], ...]
    results: tuple[fx.Node | int, ...]


class Repeats:
    """What was traced, by what decides on it.

    Args:
        copies: Whether copies are made; without, the trace is the same but for its time.

    Attributes:
        copied: How many nodes got copies.
    """

    def __init__(self, graph: Graph, fake_mode: Any, *, copies: bool = True) -> None:
        self.copied = 0
        self._copies = copies
        self._fakes = _torch_compat.FakeFactory(fake_mode)
        self._memory = memory = Memory(graph)
        targets = (node.operands[operand] for node in graph for _, operand in node.writes)
        self._written = {value for target in targets if target is not None for value in memory.group(target)}
        self._operands: dict[Value, Known] = {}
        self._templates: dict[Any, Template | None] = {}

    def may_repeat(self, node: Node) -> bool:
        """Whether a node is of a kind that copies are made for."""
        if node.side_effects or node.writes or node.binds or not self._written.isdisjoint(node.outputs):
            return False
        if node.call is not None and node.call.target.startswith("aten::as_strided"):
            return False  # it depends on the operand's whole memory
        return all(
            value is None or not host or value.type.content is not None
            for value, host in zip(node.operands, host_flags(node), strict=True)
        )

    def known(self, value: Value, tensor: torch.Tensor) -> Known | None:
        """What a tensor of the trace is; None where more than its type decides on what is traced."""
        if (found := self._operands.get(value)) is not None:
            return found
        behind = _torch_compat.behind(tensor)
        if behind is None or (type := _torch_compat.fake_type(behind[0])) is None:
            return None
        known = Known(behind[1], behind[0], type)
        if value not in self._written:
            self._operands[value] = known
        return known

    def key(self, node: Node, operands: Sequence[Known | None]) -> Any:
        """Equal for nodes that the same is traced for."""
        types = tuple(None if known is None else known.type for known in operands)
        nodes = [None if known is None else known.node for known in operands]
        storages = [None if known is None else _torch_compat.storage_id(known.fake) for known in operands]
        return _node_key(node), types, _repetitions(nodes), _repetitions(storages)

    def find(self, key: Any) -> Template | None:
        """The template for nodes with a key, if there is one."""
        return self._templates.get(key) if self._copies else None

    def learn(
        self, key: Any, node: Node, operands: Sequence[Known | None], traced: Sequence[fx.Node], results: Sequence[Any]
    ) -> None:
        """Take what was traced for a node as a template, if copies of it are right.

        Args:
            key: That of the node.
            node: The node.
            operands: What it takes.
            traced: What was traced for it.
            results: A tensor of the trace, or the number of an operand, for each output.
        """
        if key not in self._templates:
            self._templates[key] = self._template(node, operands, traced, results)

    def _template(
        self, node: Node, operands: Sequence[Known | None], traced: Sequence[fx.Node], results: Sequence[Any]
    ) -> Template | None:
        memories = {_torch_compat.storage_id(k.fake): i for i, k in reversed([*enumerate(operands)]) if k is not None}
        arguments = {known.node for known in operands if known is not None}
        made: dict[fx.Node, _Result] = {}
        for fx_node in traced:
            inside = all(used in made or used in arguments for used in fx_node.all_input_nodes)
            if not inside or not _is_pure(fx_node) or (result := _result_of(fx_node, memories)) is None:
                return None
            made[fx_node] = result
        returned: list[fx.Node | int] = []
        for value, result in zip(node.outputs, results, strict=True):
            if isinstance(result, int):
                returned.append(result)
                continue
            if not isinstance(result, torch.Tensor) or _torch_compat.was_written(result):
                return None
            behind = _torch_compat.behind(result)
            found = None if behind is None else made.get(behind[1])
            if behind is None or not isinstance(found, _Made) or found.type != _torch_compat.fake_type(behind[0]):
                return None
            if found.memory >= 0:
                operand = node.operands[found.memory]
                if operand is None or not self._memory.share(operand, value):
                    return None
            returned.append(behind[1])
        nodes = tuple(None if known is None else known.node for known in operands)
        return Template(nodes, tuple(made.items()), tuple(returned))

    def copy(self, template: Template, operands: Sequence[Known | None]) -> list[Known | int]:
        """Add copies of a template's nodes to the graph that is traced.

        Returns:
            What makes each output, or the number of the operand that it is.
        """
        self.copied += 1
        new: dict[fx.Node, fx.Node] = {}
        made: dict[fx.Node, Known] = {}
        memories: dict[int, torch.UntypedStorage] = {}
        for i, (before, known) in enumerate(zip(template.operands, operands, strict=True)):
            if before is not None and known is not None:
                new[before] = known.node
                memories[i] = known.fake.untyped_storage()
        with self._fakes.active():
            for before, result in template.nodes:
                args, kwargs = fx.map_arg((before.args, before.kwargs), new.__getitem__)
                new[before] = node = _torch_compat.add_node(before.target, args, kwargs)
                if isinstance(result, _Made):
                    fake = self._fake(result, memories)
                    made[before] = Known(node, fake, result.type)
                    node.meta["val"] = fake
                    node.meta["tensor_meta"] = before.meta["tensor_meta"]
                else:
                    fakes = [None if item is None else self._fake(item, memories) for item in result]
                    node.meta["val"] = type(before.meta["val"])(fakes)
        return [result if isinstance(result, int) else made[result] for result in template.results]

    def _fake(self, made: _Made, memories: dict[int, torch.UntypedStorage]) -> torch.Tensor:
        storage = memories.get(made.memory)
        if storage is not None:
            return self._fakes.view(storage, *made.type)
        dtype, device, sizes, strides, _ = made.type
        fake = self._fakes.fresh(dtype, device, sizes, strides)
        memories[made.memory] = fake.untyped_storage()
        return fake


def _is_pure(node: fx.Node) -> bool:
    """Whether a call computes the same from the same whenever it runs, and does nothing else."""
    if node.op != "call_function" or not node.meta.keys() <= {"val", "tensor_meta"}:
        return False
    if node.target is operator.getitem:
        return True
    target = node.target
    return (
        isinstance(target, OpOverload)
        and target.namespace in ("aten", "prims")
        and not target._schema.is_mutable
        and (torch.Tag.nondeterministic_seeded not in target.tags or _drops_nothing(node, target))
    )


def _drops_nothing(node: fx.Node, op: OpOverload) -> bool:
    """Whether a call of attention with dropout leaves nothing out, and so takes no random numbers."""
    for i, argument in enumerate(op._schema.arguments):
        if argument.name == "dropout_p":
            given = node.args[i] if i < len(node.args) else node.kwargs.get("dropout_p", argument.default_value)
            return isinstance(given, float) and given == 0.0
    return False


def _result_of(node: fx.Node, memories: dict[int, int]) -> _Result | None:
    """What a node makes, or None where no copy is made of that; new memory gets a number."""
    val = node.meta.get("val")
    if isinstance(val, torch.Tensor):
        return _made(val, memories) if "tensor_meta" in node.meta else None
    if not isinstance(val, list | tuple) or type(val) not in (list, tuple):
        return None
    found: list[_Made | None] = []
    for item in val:
        made = _made(item, memories) if isinstance(item, torch.Tensor) else None
        if made is None and item is not None:
            return None
        found.append(made)
    return tuple(found)


def _made(fake: torch.Tensor, memories: dict[int, int]) -> _Made | None:
    if not _torch_compat.is_fake(fake) or (type := _torch_compat.fake_type(fake)) is None:
        return None
    storage = _torch_compat.storage_id(fake)
    if storage not in memories:
        length = _torch_compat.required_storage_length(fake) * fake.itemsize
        if type.offset or fake.untyped_storage().nbytes() != length:
            return None  # a part of something that has no node
        memories[storage] = -1 - len(memories)
    return _Made(type, memories[storage])


def _node_key(node: Node) -> Any:
    """What an evaluator gets to know of a node beside its tensors."""
    flags = host_flags(node)
    return (
        node.op,
        tuple((name, literal_key(value)) for name, value in sorted(node.attrs.items())),
        None if node.call is None else (call_key(node.call), node.call.order),
        nesting(node),
        literal_key(node.operand_strides),
        len(node.outputs),
        node.aliases,
        tuple(
            None if v is None or not host else type_key(v.type) for v, host in zip(node.operands, flags, strict=True)
        ),
    )


def _repetitions(items: Sequence[Any]) -> tuple[int, ...]:
    """For each item, the number of the first one that it is."""
    first: dict[Any, int] = {}
    return tuple(first.setdefault(item, i) for i, item in enumerate(items))
