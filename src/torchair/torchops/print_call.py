"""``torchair.ops.npu_print`` (specification, F-78)."""

from __future__ import annotations

from typing import Any

import torch

from torchair import _torch_compat
from torchair.torchops.printing import print_
from torchair.torchops.refusing import refuse_type, refuse_value

__all__ = ["npu_print"]

#: A tuple: Dynamo of torch 2.6 does not trace ``str | bool``.
_PRINTABLE = (str, bool, float, int)

_CAN_GUARD = _torch_compat.dynamo_traces_guard_scalar()


def npu_print(*args: Any, summarize_size: int = 3, tensor_detail: bool = False) -> None:
    """Print text and tensor values while a graph runs, without a graph break; in eager mode at once.

    Prints keep their order among themselves, and see a tensor as it is at that place of the program.

    Args:
        args: Tensors and strings, bools, floats and ints, at least one tensor; joined by one space.
        summarize_size: How many elements of a dimension are shown at each end; -1 for all.
        tensor_detail: Show shape and dtype too.

    Raises:
        ArgumentTypeError: An argument is of another kind.
        ArgumentError: There is no tensor, or ``summarize_size`` is 0 or less than -1.
    """
    parts: list[str] = []
    tensors: list[torch.Tensor] = []
    for position, arg in enumerate(args):
        if isinstance(arg, torch.Tensor):
            tensors.append(arg)
        elif isinstance(arg, _PRINTABLE):
            parts.append(str(_constant(arg)))
        else:
            refuse_type(
                "npu_print takes tensors, strings, bools, floats and ints",
                f"argument {position} is {arg!r}, a {type(arg).__name__}",
                "Convert it to a string first.",
            )
    if not tensors:
        refuse_value(
            "npu_print needs at least one tensor",
            f"it was given {', '.join(map(repr, args)) or 'nothing'}",
            "Use print() for text alone.",
        )
    if isinstance(summarize_size, bool) or not isinstance(summarize_size, int):
        refuse_type(
            "The summarize_size of npu_print is an int",
            f"it was given {summarize_size!r}, a {type(summarize_size).__name__}",
            "Give the number of elements at each end, or -1 for all.",
        )
    if summarize_size == 0 or summarize_size < -1:
        refuse_value(
            "The summarize_size of npu_print is out of range",
            f"it was given {summarize_size}",
            "Give a positive number, or -1 for all elements.",
        )
    if not isinstance(tensor_detail, bool):
        refuse_type(
            "The tensor_detail of npu_print is a bool",
            f"it was given {tensor_detail!r}, a {type(tensor_detail).__name__}",
            "tensor_detail=True",
        )
    placeholder = "{}"
    while any(placeholder in part for part in parts):
        placeholder = "{" + placeholder + "}"
    texts = iter(parts)
    template = " ".join([placeholder if isinstance(arg, torch.Tensor) else next(texts) for arg in args])
    print_(tensors, template, placeholder, summarize_size, tensor_detail)


def _constant(arg: str | bool | float) -> str | bool | float:
    """A number of the traced function as it is now: text is made while tracing, and a graph is compiled for it."""
    if _CAN_GUARD and torch.compiler.is_compiling() and not isinstance(arg, (str, bool)):
        return torch.fx.experimental.symbolic_shapes.guard_scalar(arg)  # Dynamo has loaded this module
    return arg
