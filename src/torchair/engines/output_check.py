"""Whether an opaque operator returned what the graph says (specification, F-69, decision 25)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import sympy
import torch

from torchair.errors import OutputCheckError, ShapeError
from torchair.ir import DType, Graph, Node, Value
from torchair.ir.symbols import evaluate
from torchair.opset.kernels import kernels
from torchair.opset.torch_types import torch_dtype

__all__ = ["check_node_results", "is_opaque"]


#: Types that nothing promised, or that are another type when they run.
_UNTYPED = (DType.DT_UNDEFINED, DType.DT_STRING)

#: PyTorch's own operators keep what their meta functions promise.
_TRUSTED = ("aten::", "prim::", "prims::", "_c10d_functional::", "inductor::")


def is_opaque(node: Node) -> bool:
    """True for nodes whose results come from a user's kernel, and whose types from a meta function."""
    by_call = node.call is not None and not node.call.target.startswith(_TRUSTED)
    return by_call or kernels.get(node.op) is not None


def check_node_results(graph: Graph, node: Node, results: Sequence[Any], bindings: Mapping[str, Any]) -> None:
    """Compare dtypes and shapes with the graph's.

    Args:
        results: One for each output.
        bindings: Values of the graph's symbols; sizes of others are not compared.

    Raises:
        OutputCheckError: They differ; names the node, both types, and the graph output where it is one.
    """
    why = []
    for value, result in zip(node.outputs, results, strict=True):
        if not isinstance(result, torch.Tensor) or value.type.content is not None or value.dtype in _UNTYPED:
            continue
        shape = [_size(dim, bindings) for dim in value.shape]
        wanted = torch_dtype(value.dtype)
        same_shape = len(shape) == result.dim() and all(
            a in (b, None) for a, b in zip(shape, result.shape, strict=True)
        )
        if same_shape and wanted == result.dtype:
            continue
        why.append(
            f"{node.op} (node {node.name}), result %{value.name}: {result.dtype} {list(result.shape)}, "
            f"promised {wanted} {_shown(shape)}"
        )
        why += [_net_output(i, result, wanted, shape, same_shape) for i in _positions(graph, value)]
    if why:
        raise OutputCheckError(
            "An operator returned a result of another type than its meta function promised",
            why=why,
            fix="Correct the kernel, or the meta function of the torch operator.",
            where=node.origin.source,
        )


def _net_output(index: int, result: torch.Tensor, dtype: Any, shape: Sequence[Any], same_shape: bool) -> str:
    if not same_shape:
        return (
            f"The dim of Ascend GE graph NetOutput: {list(result.shape)} is not equal to FX graph NetOutput: "
            f"{_shown(shape)}. (output {index})"
        )
    return (
        f"The dtype in num[{index}] net output of Ascend output: [{result.dtype}] is not equal to FX graph NetOutput: "
        f"[{dtype}]."
    )


def _positions(graph: Graph, value: Value) -> list[int]:
    return [i for i, output in enumerate(graph.outputs) if output is value]


def _size(dim: Any, bindings: Mapping[str, Any]) -> Any:
    """A size, or None where nothing tells it yet."""
    if not isinstance(dim, sympy.Basic):
        return dim
    try:
        return evaluate(dim, bindings)
    except ShapeError:
        return None


def _shown(shape: Sequence[Any]) -> str:
    return f"[{', '.join('?' if size is None else str(size) for size in shape)}]"
