"""The arguments of a call against what the FX graph was compiled for (specification, F-25)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import fx

from torchair.capture.values import Numbers
from torchair.frontend.call_inputs import refuse_hidden_layouts, refuse_inputs

__all__ = ["check_inputs"]


def check_inputs(graph: fx.Graph, args: Sequence[Any], symbols: Mapping[Any, int]) -> None:
    """Compare dtypes, sizes and strides with those of the graph's inputs.

    Strides of dimensions with one element, and those of empty tensors, say nothing and are not compared.

    Args:
        graph: The FX graph.
        args: The flat arguments.
        symbols: Values of symbolic sizes in this call.

    Raises:
        GraphInputError: Something differs; all of it is listed.
        UnsupportedGraphError: A tensor has a layout that fake tensors, for which graphs are compiled, do not show.
    """
    inputs = list(graph.find_nodes(op="placeholder"))
    if len(args) != len(inputs):
        refuse_inputs([f"it takes {len(inputs)} inputs, not {len(args)}"])
    refuse_hidden_layouts(args, [node.name for node in inputs])
    numbers = Numbers(symbols)
    problems = []
    for i, (node, given) in enumerate(zip(inputs, args, strict=True)):
        expected = node.meta.get("val")
        # AOTAutograd passes None for the tokens that order side effects.
        if not isinstance(expected, torch.Tensor) or given is None:
            continue
        if not isinstance(given, torch.Tensor):
            problems.append(f"input {i} (%{node.name}) is a {type(given).__name__}, not a tensor")
        elif _differs(given, expected, numbers):
            sizes, strides = _numbers(numbers, expected.shape), _strides(numbers, expected)
            problems.append(
                f"input {i} (%{node.name}) is {_shown(given.dtype, given.shape, _strides(None, given))}, "
                f"compiled for {_shown(expected.dtype, sizes, strides)}"
            )
    refuse_inputs(problems)


def _differs(given: torch.Tensor, expected: torch.Tensor, numbers: Numbers) -> bool:
    if given.dtype != expected.dtype or given.dim() != expected.dim() or given.layout != expected.layout:
        return True
    pairs = zip(given.shape, _numbers(numbers, expected.shape), strict=True)
    if any(want is not None and size != want for size, want in pairs):
        return True
    if given.layout is not torch.strided or given.numel() == 0:
        return False
    strides = zip(given.shape, given.stride(), _strides(numbers, expected), strict=True)
    return any(size > 1 and want is not None and stride != want for size, stride, want in strides)


def _numbers(numbers: Numbers, values: Sequence[Any]) -> list[int | None]:
    return [numbers.value(v) for v in values]


def _strides(numbers: Numbers | None, tensor: torch.Tensor) -> list[int | None]:
    if tensor.layout is not torch.strided:
        return []
    return list(tensor.stride()) if numbers is None else _numbers(numbers, tensor.stride())


def _shown(dtype: torch.dtype, sizes: Sequence[int | None], strides: Sequence[int | None]) -> str:
    text = ", ".join("?" if size is None else str(size) for size in sizes)
    at = ", ".join("?" if stride is None else str(stride) for stride in strides)
    return f"{str(dtype).removeprefix('torch.')}[{text}]" + (f" with strides [{at}]" if strides else "")
