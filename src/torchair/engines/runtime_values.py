"""What every engine that runs lowerings needs.

Symbols bound from inputs, host operands, outputs as the caller wants them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import sympy
import torch

from torchair.ir import Blob, Dim, Graph, Node, OutputSpec, Slot, TensorType, Value
from torchair.ir.symbols import evaluate, evaluate_all
from torchair.opset.infer import host_inputs, host_operand
from torchair.opset.torch_types import torch_dtype

__all__ = ["SymbolBinder", "constant", "host_flags", "host_tensor", "restride", "wanted_output"]


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

    def __call__(self, inputs: Sequence[Any]) -> dict[str, Any]:
        """Symbol name -> number."""
        bindings: dict[str, Any] = {name: inputs[i] for i, name in self._host}
        for i, d, name in self._sizes:
            bindings[name] = inputs[i].shape[d]
        return bindings


def constant(graph: Graph, node: Node) -> torch.Tensor:
    """The tensor of a ``Const`` node."""
    value, type = node.attrs["value"], node.output.type
    if isinstance(value, Blob):
        blob: torch.Tensor = graph.blobs[value.name]
        return blob
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


def host_numbers(value: Value, bindings: Mapping[str, Any], read: Callable[[Value], Any]) -> Any:
    """A host operand: from its content, or, where the content is unknown, from the tensor."""
    if value.type.content is not None:
        return host_operand(evaluate_all(value.type.content, bindings), value.type.rank)
    data = read(value)
    return data.tolist() if isinstance(data, torch.Tensor) else data


def restride(tensor: torch.Tensor, strides: Sequence[Dim], bindings: Mapping[str, Any]) -> torch.Tensor:
    """The same values in the strides that eager would have; copies only when they differ."""
    wanted = tuple(evaluate(s, bindings) for s in strides)
    if tensor.numel() < 2 or _same_strides(tensor, wanted):
        return tensor
    result = torch.empty_strided(tensor.shape, wanted, dtype=tensor.dtype, device=tensor.device)
    return result.copy_(tensor) if _is_injective(tensor.shape, wanted) else tensor


def _same_strides(tensor: torch.Tensor, wanted: Sequence[int]) -> bool:
    return all(size == 1 or a == b for size, a, b in zip(tensor.shape, tensor.stride(), wanted, strict=True))


def _is_injective(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """False for expanded tensors: several elements would share memory."""
    return all(stride != 0 or size <= 1 for size, stride in zip(shape, strides, strict=True))


def wanted_output(value: Any, spec: OutputSpec, bindings: Mapping[str, Any]) -> Any:
    """A graph output as the caller wants it."""
    if spec.kind == "tensor" and spec.strides is not None and isinstance(value, torch.Tensor):
        return restride(value, spec.strides, bindings)
    return value
