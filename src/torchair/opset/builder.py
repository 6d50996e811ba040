"""Building graphs: what ``Add(x, y)`` or ``torchair.ge.custom_op("MyOp", x)`` does inside a conversion.

The public functions take no graph argument, so the builder in use is in one ``ContextVar``, set by the conversion
driver. Outside a conversion they raise; they never create a graph.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator, Mapping, Sequence
from contextvars import ContextVar
from typing import Any

import numpy as np
import torch

from torchair.errors import (
    ArgumentError,
    IRError,
    NoGraphError,
    PrototypeArgumentCountError,
    PrototypeArgumentTypeError,
)
from torchair.ir import Blob, Call, DType, Graph, Node, Operand, Origin, TensorType, Value
from torchair.logs import logger
from torchair.opset.infer import TypeInference
from torchair.opset.operator import AscendOp
from torchair.opset.prototype import InputSpec, Prototype
from torchair.opset.torch_types import dtype_of, torch_dtype

__all__ = ["GraphBuilder", "building", "current_builder", "freeze", "output_names_of", "results", "written_operands"]

_current: ContextVar[GraphBuilder | None] = ContextVar("torchair_builder", default=None)

#: Integer constants of at most this many elements carry their content, and any of at most this many are printed in
#: full.
_SMALL = 64


def _fits(number: int) -> bool:
    return -(2**63) <= number < 2**63


def current_builder(what: str = "") -> GraphBuilder:
    """The builder of the conversion in progress.

    Raises:
        NoGraphError: No conversion is in progress.
    """
    builder = _current.get()
    if builder is None:
        raise NoGraphError(
            "Ascend IR functions work only inside a converter",
            why=f"{what or 'the function'} adds a node to the graph under construction, and there is none",
            fix=(
                "Call it from a function registered with torchair.register_fx_node_ge_converter,\n"
                "which runs when torch.compile converts a graph."
            ),
        )
    return builder


@contextlib.contextmanager
def building(builder: GraphBuilder) -> Iterator[GraphBuilder]:
    """Make a builder the current one."""
    token = _current.set(builder)
    try:
        yield builder
    finally:
        _current.reset(token)


class GraphBuilder:
    """Adds typed nodes to a graph.

    Attributes:
        graph: The graph.
        types: Type inference for it.
        device: Device of constants and of tensors made from nothing.
        origin, scope, value_name: Given to the nodes that are added; the driver changes them as it goes.
        added: Nodes in the order of adding (the driver looks at the tail to see what a converter did).
        owned_from: While a torch operator is converted, the number in ``added`` of its first node. An operator that
            writes in place gets a copy of any value that is older, since something else may read it. None: no such
            care.
        conversion: What ``custom_op`` has to know about the torch operator under conversion (set by the driver).
    """

    def __init__(self, graph: Graph, types: TypeInference | None = None, *, device: str = "cpu") -> None:
        self.graph = graph
        self.types = types or TypeInference()
        self.device = device
        self.origin = Origin()
        self.scope: dict[str, str | bool] = {}
        self.value_name: str | None = None
        self.added: list[Node] = []
        self.owned_from: int | None = None
        self.conversion: Any = None

    # --- constants ---

    def const(self, value: Any, dtype: DType | None = None, *, node_name: str | None = None) -> Value:
        """A constant.

        Args:
            value: Number, (nested) list of numbers, string, list of strings, NumPy array or torch tensor.
            dtype: By default float32 for a Python float, NumPy's choice for other Python values (int64, bool, float64
            for a
                list of floats, int32 for an empty list), the array's own for arrays and tensors (specification, F-54).
        """
        if isinstance(value, Value):
            raise ArgumentError(
                "A constant cannot be made from a tensor of the graph",
                why=f"Const was given {value!r}",
                fix="Use the tensor itself, or torchair.ge.Identity(x).",
            )
        if _is_text(value):
            texts = (value,) if isinstance(value, str) else tuple(value)
            text_type = TensorType.of(DType.DT_STRING, () if isinstance(value, str) else (len(texts),))
            return self._add("Const", (), [text_type], {"value": texts}, ["y"], node_name=node_name).output
        tensor = _as_tensor(value, dtype)
        ir_dtype = dtype_of(tensor.dtype)
        shape = tuple(tensor.shape)
        attrs: dict[str, Any]
        content = None
        if tensor.numel() <= _SMALL and not ir_dtype.is_complex and ir_dtype.kind and ir_dtype.itemsize:
            flat = tuple(tensor.reshape(-1).tolist())
            attrs = {"value": flat}
            content = flat if ir_dtype.is_integer or ir_dtype is DType.DT_BOOL else None
        else:
            attrs = {"value": self.blob(tensor)}
        type = TensorType.of(ir_dtype, shape, device="cpu" if not shape else self.device, content=content)
        return self._add("Const", (), [type], attrs, ["y"], node_name=node_name).output

    def blob(self, tensor: torch.Tensor, hint: str = "const") -> Blob:
        """Keep a constant tensor in the graph."""
        name = f"{hint}_{len(self.graph.blobs)}"
        self.graph.blobs[name] = tensor.detach()
        return Blob(name)

    def host(self, content: Sequence[Any] | Any, dtype: DType = DType.DT_INT64) -> Value:
        """Host numbers whose values are expressions of symbols; a sequence makes a vector, one item a 0-d value."""
        vector = isinstance(content, Sequence)
        items = list(content) if vector else [content]
        shape = (len(items),) if vector else ()
        if dtype is DType.DT_INT64 and len(items) <= _SMALL and all(type(d) is int and _fits(d) for d in items):
            # As const() makes it, which would go by way of a tensor; most constants are such numbers.
            made = TensorType(dtype, shape, self.device if vector else "cpu", content=tuple(items))
            return self._add("Const", (), [made], {"value": made.content}, ["y"]).output
        type_ = TensorType.of(dtype, shape, content=items)
        if all(isinstance(d, int | float | bool) for d in type_.content or ()):
            value = self.const(list(items) if vector else items[0], dtype)
            if value.type.content is None:  # floats: host inputs are passed to lowerings as Python numbers
                self.graph.set_type(value, value.type.with_content(items))
            return value
        return self._add("HostInts", (), [type_], {}, ["y"]).output

    def host_ints(self, values: Sequence[Any]) -> Value:
        """A vector of host integers from ints and 0-d host values."""
        content: list[Any] = []
        for v in values:
            if isinstance(v, Value):
                if v.type.content is None:
                    return self.pack(values)
                content.extend(v.type.content)
            else:
                content.append(v)
        return self.host(content)

    def pack(self, values: Sequence[Any]) -> Value:
        """A vector of integers of which some are known only at run time."""
        from torchair.opset.operator import operators

        parts = [v if isinstance(v, Value) else self.const(int(v), DType.DT_INT64) for v in values]
        result: Value = operators["Pack"](parts, axis=0, N=len(parts))
        return result

    # --- nodes ---

    def call_operator(
        self,
        op: AscendOp,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        *,
        dependencies: Sequence[Value] = (),
        node_name: str | None = None,
    ) -> Any:
        """Add a node of a built-in operator from a Python call."""
        prototype = op.prototype
        if len(args) > len(prototype.inputs):
            raise PrototypeArgumentCountError(
                "An Ascend IR operator was given too many arguments",
                why=f"{prototype.signature} takes {len(prototype.inputs)} inputs, {len(args)} were given",
                fix="Pass attributes by keyword.",
            )
        given = dict(zip((spec.name for spec in prototype.inputs), args, strict=False))
        attrs: dict[str, Any] = {}
        attr_names = {spec.name for spec in prototype.attrs}
        for name, value in kwargs.items():
            if name in attr_names:
                attrs[name] = value
            elif name in given or all(name != spec.name for spec in prototype.inputs):
                raise PrototypeArgumentTypeError(
                    "An Ascend IR operator was given an argument that it does not have",
                    why=f"{name!r} is not an argument of {prototype.signature}, or was given twice",
                    fix="Use the names of the signature.",
                )
            else:
                given[name] = value
        for spec in prototype.attrs:
            if spec.name in attrs and attrs[spec.name] is not None:
                attrs[spec.name] = freeze(attrs[spec.name], spec.type)
            elif spec.required:
                raise PrototypeArgumentTypeError(
                    "An Ascend IR operator lacks a required attribute",
                    why=f"{spec.name!r} of {prototype.signature} was not given",
                    fix=f"Pass {spec.name}=... .",
                )
            else:
                attrs[spec.name] = freeze(spec.default, spec.type)
        like = next((v for v in _values(args) if v.type.content is None or v.dtype.is_floating_point), None)
        inputs = [self._operand(prototype, spec, given.get(spec.name), like) for spec in prototype.inputs]
        node = self.node(
            prototype.name,
            inputs,
            attrs,
            prototype,
            side_effects=op.side_effects,
            dependencies=dependencies,
            node_name=node_name,
        )
        return results(node, prototype)

    def _operand(self, prototype: Prototype, spec: InputSpec, value: Any, like: Value | None) -> Operand:
        if spec.kind == "dynamic":
            if not isinstance(value, Sequence) or not all(isinstance(v, Value) for v in value):
                raise _kind_error(prototype, spec, value)
            return tuple(value)
        if value is None:
            if spec.kind == "optional":
                return None
            raise _kind_error(prototype, spec, value)
        if isinstance(value, Value):
            return value
        if spec.host:
            if isinstance(value, Sequence):
                return self.host_ints(value)
            if isinstance(value, np.ndarray | torch.Tensor):
                return self.const(value)
            return self.host(value, DType.DT_DOUBLE if isinstance(value, float) else DType.DT_INT64)
        if isinstance(value, bool | int | float | complex) and like is not None:
            return self.const(torch.tensor(value, dtype=torch_dtype(like.dtype)))
        if isinstance(value, bool | int | float | complex | list | tuple | np.ndarray | torch.Tensor):
            return self.const(value)
        raise _kind_error(prototype, spec, value)

    def node(
        self,
        op: str,
        inputs: Sequence[Operand],
        attrs: Mapping[str, Any],
        prototype: Prototype | None,
        *,
        types: Sequence[TensorType] | None = None,
        output_names: Sequence[str] | None = None,
        call: Call | None = None,
        side_effects: bool = False,
        dependencies: Sequence[Value] = (),
        node_name: str | None = None,
        **fields: Any,
    ) -> Node:
        """Add a node; its types are inferred unless they are given.

        Outputs whose types nothing tells get the dtype ``DT_UNDEFINED``; the driver completes them from FX.
        """
        aliases: Sequence[tuple[int, int]] = fields.pop("aliases", ())
        given_writes = fields.pop("writes", ())
        names = list(output_names) if output_names is not None else None
        writes = written_operands(prototype, inputs, names) if prototype and names is not None else given_writes
        if types is None:
            inferred = None
            if all(v.dtype is not DType.DT_UNDEFINED for v in _values(inputs)):
                inferred = self.types.infer(op, [operand_type(o) for o in inputs], dict(attrs), call, writes=writes)
            if inferred is None:
                count = len(names) if names is not None else len(prototype.outputs) if prototype else 1
                types = [TensorType.of(DType.DT_UNDEFINED)] * count
            else:
                types, aliases = inferred
        if names is None:
            names = output_names_of(prototype, len(types))
            writes = written_operands(prototype, inputs, names) if prototype else given_writes
        if writes and self.owned_from is not None:
            inputs = self._protected(inputs, {operand for _, operand in writes})
        return self._add(
            op,
            inputs,
            types,
            attrs,
            names,
            node_name=node_name,
            writes=writes,
            aliases=aliases,
            side_effects=side_effects,
            call=call,
            control=[v.producer for v in dependencies if v.producer is not None],
            **fields,
        )

    def _protected(self, inputs: Sequence[Operand], written: set[int]) -> list[Operand]:
        """The inputs, with a copy in place of each written one whose memory this conversion did not make."""
        from torchair.opset.operator import operators

        positions = itertools.count()
        made = self.added[self.owned_from :]

        def protect(value: Value) -> Value:
            if next(positions) not in written or _is_made_by(made, value):
                return value
            copy: Value = operators["TensorMove"](value)
            return copy

        result: list[Operand] = []
        for operand in inputs:
            if operand is None:
                next(positions)
                result.append(None)
            else:
                result.append(tuple(map(protect, operand)) if isinstance(operand, tuple) else protect(operand))
        return result

    def _add(
        self,
        op: str,
        inputs: Sequence[Operand],
        types: Sequence[TensorType],
        attrs: Mapping[str, Any],
        output_names: Sequence[str],
        *,
        node_name: str | None = None,
        **fields: Any,
    ) -> Node:
        try:
            node = self.graph.add_node(
                op,
                inputs,
                types,
                attrs=attrs,
                output_names=output_names,
                name=node_name,
                scope=self.scope,
                origin=self.origin,
                **fields,
            )
        except IRError as e:
            if node_name is None:
                raise
            raise ArgumentError(e.what, why=e.why, fix=e.fix) from e
        self.added.append(node)
        for key, value in self.scope.items():
            logger.debug("Set attribute %s: %s on op: %s", key, value, node.name)
        return node


def _is_made_by(nodes: Sequence[Node], value: Value) -> bool:
    """Whether one of the nodes made the memory that a value lies in (a constant's lives longer than one run)."""
    while (producer := value.producer) is not None and producer in nodes and producer.op not in ("Const", "HostInts"):
        sources = [o for i, o in (*producer.writes, *producer.aliases) if i == value.index]
        source = producer.operands[sources[0]] if sources else None
        if source is None:
            return True
        value = source
    return False


def operand_type(operand: Operand) -> TensorType | tuple[TensorType, ...] | None:
    """The type of an operand, nested as the operand."""
    if isinstance(operand, tuple):
        return tuple(v.type for v in operand)
    return None if operand is None else operand.type


def output_names_of(prototype: Prototype | None, count: int) -> list[str]:
    """One name for each flattened output; a dynamic output takes what the others leave."""
    if prototype is None:
        return [f"y{i}" for i in range(count)] if count != 1 else ["y"]
    fixed = sum(spec.kind != "dynamic" for spec in prototype.outputs)
    names: list[str] = []
    for spec in prototype.outputs:
        names += [f"{spec.name}{i}" for i in range(count - fixed)] if spec.kind == "dynamic" else [spec.name]
    return names


def written_operands(
    prototype: Prototype, inputs: Sequence[Operand], output_names: Sequence[str]
) -> list[tuple[int, int]]:
    """Pairs (output, flattened operand) for the outputs that have an input's name.

    A list has one output for each element.
    """
    pairs: list[tuple[int, int]] = []
    position = 0
    for spec, operand in zip(prototype.inputs, inputs, strict=False):  # an operand of symbolic attributes may follow
        values = operand if isinstance(operand, tuple) else (operand,)
        for i, value in enumerate(values):
            name = f"{spec.name}{i}" if isinstance(operand, tuple) else spec.name
            if value is not None and name in output_names:
                pairs.append((output_names.index(name), position))
            position += 1
    return pairs


def results(node: Node, prototype: Prototype) -> Any:
    """What a call returns: one value, or a tuple; a dynamic output is a list in it; None without outputs."""
    fixed = sum(spec.kind != "dynamic" for spec in prototype.outputs)
    values = iter(node.outputs)
    items: list[Any] = [
        [next(values) for _ in range(len(node.outputs) - fixed)] if spec.kind == "dynamic" else next(values)
        for spec in prototype.outputs
    ]
    if not items:
        return None
    return items[0] if len(items) == 1 else tuple(items)


def freeze(value: Any, attr_type: str) -> Any:
    """An attribute value as nodes hold it: tuples for lists, floats for Float, dtypes as :class:`DType`."""
    if isinstance(value, torch.dtype):
        return dtype_of(value)
    if isinstance(value, list | tuple):
        inner = attr_type.removeprefix("List")
        return tuple(freeze(v, inner) for v in value)
    if attr_type in ("Float", "ListFloat") and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if attr_type == "DataType" and isinstance(value, int):
        return DType(value)
    return value


def _values(args: Any) -> Iterator[Value]:
    for a in args:
        if isinstance(a, Value):
            yield a
        elif isinstance(a, list | tuple):
            yield from _values(a)


def _as_tensor(value: Any, dtype: DType | None) -> torch.Tensor:
    target = None if dtype is None else torch_dtype(dtype)
    if isinstance(value, torch.Tensor):
        return value if target is None else value.to(target)
    if isinstance(value, float) and target is None:
        target = torch.float32
    if isinstance(value, complex) and target is None:
        target = torch.complex64
    if isinstance(value, list | tuple) and not len(value) and target is None:
        target = torch.int32
    if isinstance(value, list | tuple) and target is None and _holds_float(value):
        target = torch.float64
    try:
        return (
            torch.from_numpy(value.copy()).to(target)
            if isinstance(value, np.ndarray)
            else torch.tensor(value, dtype=target)
        )
    except (TypeError, ValueError, RuntimeError) as e:
        raise ArgumentError(
            "A constant cannot be made from this value",
            why=f"{value!r}: {e}",
            fix="Pass a number, a nested list of numbers of equal lengths, a string, a NumPy array or a torch tensor.",
        ) from e


def _is_text(value: Any) -> bool:
    return isinstance(value, str) or (
        isinstance(value, list | tuple) and len(value) > 0 and all(isinstance(v, str) for v in value)
    )


def _holds_float(value: Any) -> bool:
    return any(_holds_float(v) if isinstance(v, list | tuple) else isinstance(v, float) for v in value)


def _kind_error(prototype: Prototype, spec: InputSpec, value: Any) -> PrototypeArgumentTypeError:
    wanted = {"required": "a tensor", "optional": "a tensor or None", "dynamic": "a list of tensors"}[spec.kind]
    return PrototypeArgumentTypeError(
        "An input of an Ascend IR operator is of the wrong kind",
        why=(
            f"input {spec.name!r} of {prototype.name} is {spec.kind}: "
            f"it takes {wanted}, not {type(value).__name__} ({value!r})"
        ),
        fix=f"Signature: {prototype.signature}",
    )
