"""Operators on text: a string is a 0-d value of the graph, and a uint8 tensor of its bytes when it runs."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from torchair.ir import DType, TensorType, Value
from torchair.opset.operator import ascend_op
from torchair.torchops.printing import print_text, string_format

__all__ = ["PrintV2", "StringFormat"]


@ascend_op(source="CANN op_proto: string_ops.h")
def StringFormat(x: Sequence[Value], *, template: str = "%s", placeholder: str = "%s", summarize: int = 3) -> Value:
    """``template`` with the text of a tensor in place of each ``placeholder``.

    Shapes: ``x`` are any, the result is 0-d. dtypes: ``x`` are bool, integers or floats, the result is a string.
    """
    raise NotImplementedError


@StringFormat.lower
def _(x: list[Tensor], *, template: str, placeholder: str, summarize: int) -> Tensor:
    text: Tensor = string_format(list(x), template, placeholder, summarize)
    return text


@StringFormat.infer
def _(x: Sequence[TensorType], *, template: str, placeholder: str, summarize: int) -> TensorType:
    return TensorType.of(DType.DT_STRING)


@ascend_op(outputs=(), side_effects=True, source="CANN op_proto: logging_ops.h")
def PrintV2(x: Value, *, output_stream: str = "stderr") -> None:
    """Print a text.

    Shapes: ``x`` is 0-d. dtypes: ``x`` is a string.
    """
    raise NotImplementedError


@PrintV2.lower
def _(x: Tensor, *, output_stream: str) -> None:
    print_text(x)


@PrintV2.infer
def _(x: TensorType, *, output_stream: str) -> tuple[()]:
    return ()
