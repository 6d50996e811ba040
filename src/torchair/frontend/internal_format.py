"""Weights that the user wants packed (specification, F-87): marked, never changed."""

from __future__ import annotations

from typing import Any

import torch

from torchair.errors import ArgumentTypeError
from torchair.ir.types import Format
from torchair.logs import logger

__all__ = ["internal_format", "use_internal_format_weight"]

#: The attribute of a marked tensor.
_MARK = "_torchair_internal_format"


def use_internal_format_weight(model: torch.nn.Module) -> None:
    """Let compiled graphs keep packed copies of a model's weights, to multiply with.

    Call it before the first call of the compiled model. Weights, their values and the ``state_dict`` stay as they are.
    A copy is made when a graph first runs, and again after a weight was replaced or updated in place. Which products
    use one, and what that brings, is in ``docs/graph-passes.md``.

    Weights of ``torch.nn.Linear`` get the format ``FRACTAL_NZ``, float16 weights of ungrouped ``torch.nn.Conv2d``
    ``FRACTAL_Z``; convolutions on CPU run with weights as they are.

    Raises:
        ArgumentTypeError: It is no module.
    """
    if not isinstance(model, torch.nn.Module):
        raise ArgumentTypeError(
            "use_internal_format_weight takes a model",
            why=f"a {type(model).__name__} was given, not a torch.nn.Module",
            fix="torchair.use_internal_format_weight(model)",
        )
    marked = 0
    for module in model.modules():
        if (format := _wanted(module)) is not None:
            setattr(module.weight, _MARK, format)
            marked += 1
    logger.info("use_internal_format_weight: %d weights are marked", marked)


def internal_format(tensor: Any) -> Format | None:
    """The format that a weight is marked with; None for one that is not marked."""
    found = getattr(tensor, _MARK, None)
    return found if isinstance(found, Format) else None


def _wanted(module: torch.nn.Module) -> Format | None:
    if isinstance(module, torch.nn.Linear):
        return Format.FORMAT_FRACTAL_NZ
    half = isinstance(module, torch.nn.Conv2d) and module.weight.dtype is torch.float16
    return Format.FORMAT_FRACTAL_Z if half and module.groups == 1 else None
