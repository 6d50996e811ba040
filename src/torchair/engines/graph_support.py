"""What the inductor engine cannot take, found before anything is compiled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from torchair.engines.runtime_values import describe, host_flags
from torchair.errors import Rejection
from torchair.ir import DType, Graph, Node, TensorType

__all__ = ["FIX", "obstacle", "supports_graph", "supports_node"]

FIX = 'config.engine = "reference"'


def supports_graph(graph: Graph, inputs: Sequence[Any] = ()) -> Rejection | None:
    """Why Inductor cannot run a graph, or None.

    Args:
        inputs: The fake tensors of the compile in progress, one for each graph input, where there is one.
    """
    found = obstacle(graph, inputs)
    return None if found is None else found[0]


def obstacle(graph: Graph, inputs: Sequence[Any] = ()) -> tuple[Rejection, str] | None:
    """Why Inductor cannot run a graph, with the user's line where that is known."""
    for value, given in zip(graph.inputs, inputs, strict=False):
        if isinstance(given, torch.Tensor) and given.layout is not torch.strided:
            return Rejection(f"the input %{value.name} is {_layout(given)}", FIX), ""
    for value in graph.inputs:
        if (reason := _refused_type(value.type)) is not None:
            return Rejection(f"the input %{value.name} is {reason}", FIX), ""
    for node in graph:
        if (rejection := supports_node(node)) is not None:
            return rejection, node.origin.source
    for output, spec in zip(graph.outputs, graph.output_specs, strict=True):
        if output is not None and spec.kind != "tensor" and output.type.content is None:
            return Rejection(f"the number %{output.name}, which the graph returns, is known only at run time", FIX), ""
    for blob in graph.blobs.values():
        if isinstance(blob, torch.Tensor) and blob.layout is not torch.strided:
            return Rejection(f"a constant is {_layout(blob)}", FIX), ""
    return None


def supports_node(node: Node) -> Rejection | None:
    """Why Inductor cannot run a node, or None."""
    at = describe(node)
    if node.binds:
        return Rejection(f"the size of a result of {at} is known only when it has run", FIX)
    for value, host in zip(node.operands, host_flags(node), strict=True):
        if value is not None and host and value.type.content is None:
            return Rejection(f"{at} takes the numbers in %{value.name}, which are known only at run time", FIX)
    for value in node.outputs:
        if (reason := _refused_type(value.type)) is not None:
            return Rejection(f"a result of {at} is {reason}", FIX)
    return None


def _refused_type(type: TensorType) -> str | None:
    dtype = type.dtype
    if dtype is DType.DT_STRING:  # its bytes are a tensor
        return None
    if dtype.torch_name is None or not dtype.kind:
        return dtype.short_name
    return None


def _layout(tensor: torch.Tensor) -> str:
    return str(tensor.layout).removeprefix("torch.")
