"""The errors about the arguments of a compiled graph, which both modes raise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from torchair.errors import GraphInputError, UnsupportedGraphError

__all__ = ["refuse_hidden_layouts", "refuse_inputs"]


def refuse_hidden_layouts(inputs: Sequence[Any], names: Sequence[str]) -> None:
    """Refuse tensors whose layout fake tensors do not show: graphs are compiled as if they were strided.

    Raises:
        UnsupportedGraphError: Names the inputs.
    """
    hidden = [i for i, given in enumerate(inputs) if isinstance(given, torch.Tensor) and given.is_mkldnn]
    if hidden:
        raise UnsupportedGraphError(
            "A compiled graph cannot take a tensor of the layout mkldnn",
            why=[f"input {i} (%{names[i]}) is one" for i in hidden],
            fix="Pass x.to_dense(), or keep such tensors out of the compiled region.",
        )


def refuse_inputs(problems: Sequence[str]) -> None:
    """Raise for inputs that a graph was not compiled for, if there are any.

    Args:
        problems: One line for each.

    Raises:
        GraphInputError: There are.
    """
    if problems:
        raise GraphInputError(
            "A compiled graph was called with inputs that it was not compiled for",
            why=problems,
            fix="Call it with tensors like the example inputs; compile with symbolic sizes (dynamic=True) for others.",
        )
