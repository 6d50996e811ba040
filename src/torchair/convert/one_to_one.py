"""When the torch operator's own kernel can compute an IR node: how its arguments come from the node's operands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import fx

from torchair._torch_compat import OpOverload
from torchair.convert.results import flatten
from torchair.convert.schemas import Argument, OperatorSchema
from torchair.convert.torch_calls import CallTemplate, is_host, operand_strides, shared_memory
from torchair.ir import Call, Node, Operand, Slot, Value
from torchair.opset.kernels import evaluator_for, overload_name
from torchair.opset.prototype import REQUIRED, Prototype, prototypes
from torchair.opset.torch_types import dtype_of

if TYPE_CHECKING:
    from torchair.convert.driver import Driver

__all__ = ["CallMapping", "adopt_kernel"]

#: Operators that make no tensor of their own.
_CONSTANTS = ("Const", "HostInts")
_COPIES = ("TensorMove", "Identity")


class CallMapping:
    """Makes the call of a torch operator on the operands of a node.

    Attributes:
        writes: Operand numbers of the written arguments so far.
    """

    def __init__(self, operands: Sequence[Value | None]) -> None:
        self._operands = operands
        self._used: set[int] = set()
        self._args: list[Any] = []
        self._kwargs: list[tuple[str, Any]] = []
        self.writes: list[int] = []

    def add(self, argument: Argument, value: Any) -> bool:
        """Add an argument; False where a tensor of it is no operand of the node, or a call cannot hold it."""
        found: list[int] = []
        part = self._template(value, found)
        if part is _ABSENT:
            return False
        if argument.written:
            self.writes += found
        if argument.kwarg_only:
            self._kwargs.append((argument.name, part))
        else:
            self._args.append(part)
        return True

    def covers(self, operand: int) -> bool:
        """Whether an argument uses that operand."""
        return operand in self._used

    def call(self, overload: OpOverload, order: Sequence[int] = ()) -> Call:
        """The call; see :class:`torchair.ir.Call` for ``order``."""
        natural = list(order) == list(range(len(order)))
        return Call(
            overload_name(overload),
            tuple(self._args),
            tuple(self._kwargs),
            tuple(self.writes),
            () if natural else tuple(order),
        )

    def _template(self, value: Any, found: list[int]) -> Any:
        if isinstance(value, Value):
            matching = [i for i, v in enumerate(self._operands) if v is value]
            if not matching:
                matching = [i for i, v in enumerate(self._operands) if v is not None and _origin(v) is _origin(value)]
            if not matching:
                return _ABSENT
            index = next((i for i in matching if i not in self._used), matching[0])
            self._used.add(index)
            found.append(index)
            return Slot(index, host=is_host(value))
        if isinstance(value, list | tuple):
            parts = [self._template(v, found) for v in value]
            return _ABSENT if any(p is _ABSENT for p in parts) else tuple(parts)
        try:
            return CallTemplate().of(value)
        except TypeError:
            return _ABSENT


class _Absent:
    """An argument that a call cannot get."""


_ABSENT = _Absent()


def _origin(value: Value) -> Value:
    """The value that this one is a plain copy of."""
    while value.producer is not None and value.producer.op in _COPIES and value.producer.values:
        value = value.producer.values[0]
    return value


def adopt_kernel(
    driver: Driver,
    fx_node: fx.Node,
    overload: OpOverload,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    added: Sequence[Node],
    result: Any,
    val: Any,
    derived: Mapping[str, Prototype],
) -> None:
    """Let the torch operator's own kernel stand for the one IR node of a converter that is one-to-one.

    One-to-one: the converter added one node that nothing here can compute; the node's operands are the operator's
    tensors (or copies of them), all of them, and constants; the node's outputs are the operator's results and the new
    values of the arguments that it writes. What has the name of an argument has its value, what has another name comes
    in the operator's order, and every number that the caller gave is among the attributes or constants. Then the
    converter itself says that both compute the same; a swapped input or a changed attribute says otherwise.

    Args:
        added: The nodes that the converter added.
        result: What it returned.
        val: What FX promises of the operator's results.
        derived: Prototypes that were derived for nodes of this conversion.
    """
    opaque = [n for n in added if n.op not in _CONSTANTS and evaluator_for(n.op, n.call, writes=n.writes) is None]
    if len(opaque) != 1:
        return
    (node,) = opaque
    schema = OperatorSchema.of(overload)
    mapping = CallMapping(node.operands)
    pairs = list(schema.pairs(args, kwargs))
    if not all(mapping.add(argument, value) for argument, value in pairs):
        return
    if not _says_the_same(node, pairs, derived.get(node.op) or prototypes.get(node.op)):
        return
    for index, value in enumerate(node.operands):
        constant = value is None or (value.producer is not None and value.producer.op in _CONSTANTS)
        if not constant and not mapping.covers(index):
            return
    order = _order(node, mapping, schema, result)
    if order is None:
        return
    node.call = mapping.call(overload, order)
    node.operand_strides = operand_strides(driver, fx_node, node.operands)
    promised = [v for v in flatten(val) if v is not None]
    metas = dict(zip([v for v in flatten(result) if v is not None], promised, strict=False))
    node.aliases = tuple(shared_memory(driver, fx_node, node.operands, [metas.get(v) for v in node.outputs]))
    driver.graph.revision += 1


def _says_the_same(node: Node, pairs: Sequence[tuple[Argument, Any]], prototype: Prototype | None) -> bool:
    """Whether a node's inputs and attributes are the operator's arguments, by name or else in order."""
    arguments = {argument.name: value for argument, value in pairs}
    tensors = [v for a, value in pairs if a.input_kind is not None for v in _leaves(value)]
    names = [spec.name for spec in prototype.inputs] if prototype else []
    for name, operand in zip(names, node.inputs, strict=False):
        if name in arguments and not _same_operand(operand, arguments[name]):
            return False
    if not all(name in arguments for name in names):
        order = [i for v in node.values if (i := _position(tensors, v)) is not None]
        if order != sorted(order):
            return False
    if any(name in arguments and _plain(node, v) != _plain(node, arguments[name]) for name, v in node.attrs.items()):
        return False
    said = [_plain(node, v) for v in node.attrs.values()]
    said += [_constant(v) for v in node.values if v.producer is not None and v.producer.op in _CONSTANTS]
    numbers = [(a, value) for a, value in pairs if a.input_kind is None and not a.is_placement and value is not None]
    return all(_plain(node, value) in said for a, value in numbers if a.default is REQUIRED or value != a.default)


def _leaves(value: Any) -> list[Value]:
    return [v for v in flatten(value) if isinstance(v, Value)]


def _position(tensors: Sequence[Value], value: Value) -> int | None:
    return next((i for i, t in enumerate(tensors) if _origin(t) is _origin(value)), None)


def _same_operand(operand: Operand, value: Any) -> bool:
    """Whether an input holds an argument's tensors (a number as an input is compared with the attributes)."""
    given = [v for v in (operand if isinstance(operand, tuple) else (operand,)) if v is not None]
    if any(v.producer is not None and v.producer.op in _CONSTANTS for v in given):
        return True
    wanted = _leaves(value)
    return len(given) == len(wanted) and all(_origin(a) is _origin(b) for a, b in zip(given, wanted, strict=True))


def _plain(node: Node, value: Any) -> Any:
    """A number, or list of numbers, in a form that compares: of an attribute, or of an argument."""
    if isinstance(value, Slot):
        operand = node.operands[value.index]
        return operand.type.content if operand is not None else None
    if isinstance(value, Value):
        return value.type.content
    if isinstance(value, torch.dtype):
        return int(dtype_of(value))
    if isinstance(value, list | tuple):
        return tuple(_plain(node, v) for v in value)
    return value


def _constant(value: Value) -> Any:
    """The number, or the list of numbers, of a constant."""
    if value.type.content is not None:
        content: tuple[Any, ...] = value.type.content
    else:
        held = value.producer.attrs.get("value") if value.producer is not None else None
        content = held if isinstance(held, tuple) else ()
    return content if value.rank else next(iter(content), None)


def _order(node: Node, mapping: CallMapping, schema: OperatorSchema, result: Any) -> list[int] | None:
    """For each output of the node, which written operand or returned value of the call it is; None if it is neither."""
    per_return = list(result) if len(schema.returned_arguments) > 1 and isinstance(result, list | tuple) else [result]
    if schema.returned_arguments and len(per_return) != len(schema.returned_arguments):
        return None
    own = [r for r, argument in zip(per_return, schema.returned_arguments, strict=False) if argument is None]
    returned = [v for v in flatten(own) if v is not None]
    written = dict(node.writes)
    order: list[int] = []
    for index, value in enumerate(node.outputs):
        if written.get(index) in mapping.writes:
            order.append(mapping.writes.index(written[index]))
        elif (position := next((i for i, r in enumerate(returned) if r is value), None)) is not None:
            order.append(len(mapping.writes) + position)
        else:
            return None
    return order if len(set(order)) == len(mapping.writes) + len(returned) else None
