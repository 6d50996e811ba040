"""When the torch operator's own kernel can compute an IR node: how its arguments come from the node's operands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from torch import fx

from torchair._torch_compat import OpOverload
from torchair.convert.results import flatten
from torchair.convert.schemas import Argument, OperatorSchema
from torchair.convert.torch_calls import CallTemplate, is_host, operand_strides, shared_memory
from torchair.ir import Call, Node, Slot, Value
from torchair.opset.kernels import evaluator_for, overload_name

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
) -> None:
    """Let the torch operator's own kernel stand for the one IR node of a converter that is one-to-one.

    One-to-one: the converter added one node that nothing here can compute; the node's operands are the operator's
    tensors (or copies of them), all of them, and constants; the node's outputs are the operator's results and the new
    values of the arguments that it writes. Then the converter itself says that both compute the same.

    Args:
        added: The nodes that the converter added.
        result: What it returned.
        val: What FX promises of the operator's results.
    """
    opaque = [n for n in added if n.op not in _CONSTANTS and evaluator_for(n.op, n.call, writes=n.writes) is None]
    if len(opaque) != 1:
        return
    (node,) = opaque
    schema = OperatorSchema.of(overload)
    mapping = CallMapping(node.operands)
    if not all(mapping.add(argument, value) for argument, value in schema.pairs(args, kwargs)):
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
