"""What every engine that runs lowerings needs.

Symbols bound from inputs, host operands, outputs as the caller wants them.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import sympy
import torch

from torchair._torch_compat import known_true, overlaps_itself, size_hint
from torchair.ir import Blob, Dim, DType, Graph, Node, OutputSpec, Slot, TensorType, Value
from torchair.ir.symbols import evaluate, evaluate_all
from torchair.opset.infer import host_inputs, host_operand
from torchair.opset.torch_types import torch_dtype

__all__ = [
    "SymbolBinder",
    "constant",
    "describe",
    "host_flags",
    "host_numbers",
    "host_tensor",
    "nest",
    "nesting",
    "restride",
    "wanted_output",
]


class SymbolBinder:
    """Binds the symbols of a graph from its arguments: host inputs first, then sizes that are a bare symbol."""

    def __init__(self, graph: Graph) -> None:
        self._host: list[tuple[int, str]] = []
        self._sizes: list[tuple[int, int, str]] = []
        seen: set[str] = set()
        for i, value in enumerate(graph.inputs):
            content = value.type.content
            if content is not None and isinstance(content[0], sympy.Symbol) and content[0].name not in seen:
                seen.add(content[0].name)
                self._host.append((i, content[0].name))
        for i, value in enumerate(graph.inputs):
            for d, size in enumerate(value.type.shape):
                if isinstance(size, sympy.Symbol) and size.name not in seen:
                    seen.add(size.name)
                    self._sizes.append((i, d, size.name))

    @property
    def names(self) -> tuple[str, ...]:
        """The symbols, in the order of the bindings."""
        return (*(name for _, name in self._host), *(name for _, _, name in self._sizes))

    def __call__(self, inputs: Sequence[Any]) -> dict[str, Any]:
        """Symbol name -> number."""
        bindings: dict[str, Any] = {name: inputs[i] for i, name in self._host}
        for i, d, name in self._sizes:
            bindings[name] = inputs[i].shape[d]
        return bindings


def describe(node: Node) -> str:
    """A node in messages: ``MyOp (node MyOp_1, FX node my_op)``, or the torch operator that it calls."""
    op = node.call.target if node.op == "torch_call" and node.call is not None else node.op
    return f"{op} (node {node.name}, FX node {node.origin.fx_node or '-'})"


def constant(graph: Graph, node: Node) -> torch.Tensor:
    """The tensor of a ``Const`` node."""
    value, type = node.attrs["value"], node.output.type
    if isinstance(value, Blob):
        blob: torch.Tensor = graph.blobs[value.name]
        return blob
    if type.dtype is DType.DT_STRING:
        # torch has no strings; kernels get the bytes, those of several strings separated by a zero.
        return torch.tensor(list("\0".join(value).encode()), dtype=torch.uint8, device=type.device)
    shape = [int(d) for d in type.shape]
    return torch.tensor(value, dtype=torch_dtype(type.dtype), device=type.device).reshape(shape)


def host_tensor(type: TensorType, bindings: Mapping[str, Any]) -> torch.Tensor:
    """A host value as a tensor, for operators that want one."""
    numbers = evaluate_all(type.content or (), bindings)
    return torch.tensor(numbers if type.rank else numbers[0], dtype=torch_dtype(type.dtype))


def host_flags(node: Node) -> tuple[bool, ...]:
    """For each flattened operand, whether the node takes it as Python numbers."""
    declared = host_inputs(node.op)
    call_slots = _host_slots(node)
    flags: list[bool] = []
    for i, operand in enumerate(node.inputs):
        host = i < len(declared) and declared[i]
        for _ in operand if isinstance(operand, tuple) else (operand,):
            flags.append(host or len(flags) in call_slots)
    return tuple(flags)


def _host_slots(node: Node) -> frozenset[int]:
    found: set[int] = set()

    def visit(template: Any) -> None:
        if isinstance(template, Slot):
            if template.host:
                found.add(template.index)
        elif isinstance(template, tuple | list):
            for t in template:
                visit(t)

    visit(tuple(node.attrs.values()))
    if node.call is not None:
        visit(node.call.args)
        visit([v for _, v in node.call.kwargs])
    return frozenset(found)


def nesting(node: Node) -> tuple[int | None, ...]:
    """For each input, how many operands it holds; None for one that is not a list."""
    return tuple(len(i) if isinstance(i, tuple) else None for i in node.inputs)


def nest(counts: Sequence[int | None], flat: Sequence[Any]) -> list[Any]:
    """Flattened operands as the inputs hold them: a list is a tuple."""
    rest = iter(flat)
    return [next(rest) if count is None else tuple(itertools.islice(rest, count)) for count in counts]


def host_numbers(value: Value, bindings: Mapping[str, Any], read: Callable[[Value], Any]) -> Any:
    """A host operand: from its content, or, where the content is unknown, from the tensor."""
    if value.type.content is not None:
        return host_operand(evaluate_all(value.type.content, bindings), value.type.rank)
    data = read(value)
    return data.tolist() if isinstance(data, torch.Tensor) else data


def restride(tensor: torch.Tensor, strides: Sequence[Dim], bindings: Mapping[str, Any]) -> torch.Tensor:
    """The same values in the strides that eager would have; copies only when they differ.

    Works on real tensors and while tracing (adds no guard). Strides of 0 are those of an expanded tensor; any other
    overlap of elements is not made, since nothing could be written into it.
    """
    wanted = [evaluate(s, bindings) for s in strides]
    sizes = list(tensor.shape)
    if known_true(tensor.numel() < 2) or _same_strides(tensor, wanted):
        return tensor
    expanded = [d for d, s in enumerate(wanted) if known_true(s == 0) and not known_true(sizes[d] == 1)]
    source = tensor
    for d in expanded:
        sizes[d] = 1
        source = source.narrow(d, 0, 1)
    if _may_overlap(sizes, wanted):
        return tensor
    result = torch.empty_strided(sizes, wanted, dtype=tensor.dtype, device=tensor.device).copy_(source)
    return result.expand(tensor.shape) if expanded else result


def _same_strides(tensor: torch.Tensor, wanted: Sequence[int]) -> bool:
    return all(
        known_true(size == 1) or known_true(a == b)
        for size, a, b in zip(tensor.shape, tensor.stride(), wanted, strict=True)
    )


def _may_overlap(sizes: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether several elements lie at one address, in the call that is compiled for."""
    hints = [(size_hint(size), size_hint(stride)) for size, stride in zip(sizes, strides, strict=True)]
    known = [(size, stride) for size, stride in hints if size is not None and stride is not None]
    return overlaps_itself([size for size, _ in known], [stride for _, stride in known])


def wanted_output(value: Any, spec: OutputSpec, bindings: Mapping[str, Any]) -> Any:
    """A graph output as the caller wants it."""
    if spec.kind == "tensor" and spec.strides is not None and isinstance(value, torch.Tensor):
        return restride(value, spec.strides, bindings)
    return value
