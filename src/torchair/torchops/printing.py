"""Printing text and tensor values in the order of a graph (specification, F-78).

``torch.ops.air.print`` is what a traced function holds. In GE mode it becomes ``StringFormat`` and ``PrintV2``, which
run ``torch.ops.air.string_format`` and ``torch.ops.air.print_text``; a text travels as the bytes of a uint8 tensor.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from torchair.torchops.library import define

__all__ = ["format_tensor", "format_text", "print_", "print_text", "string_format"]

#: Whole numbers below this are written with all digits.
_WHOLE = 1e18

#: Characters of the longest number (``-1.23456789e-308``) with what separates it.
_NUMBER = 26


def format_tensor(x: Tensor, summarize: int, *, detail: bool = False) -> str:
    """A tensor's value as text.

    Args:
        summarize: How many elements of a dimension are shown at each end; -1 for all.
        detail: Add shape and dtype: ``tensor([0 1], shape=[2], dtype=torch.int64)``.
    """
    values = x.detach().to("cpu")
    values = values.float() if values.dtype is torch.bfloat16 else values
    text = _rows(values, summarize)
    return f"tensor({text}, shape={list(x.shape)}, dtype={x.dtype})" if detail else text


def _rows(x: Tensor, summarize: int) -> str:
    if x.dim() == 0:
        return _number(x.item())
    count = x.shape[0]
    cut = summarize >= 0 and count > 2 * summarize
    shown = [*range(summarize), None, *range(count - summarize, count)] if cut else range(count)
    parts = ["..." if i is None else _rows(x[i], summarize) for i in shown]
    return f"[{(' ' if x.dim() == 1 else chr(10) + ' ').join(parts)}]"


def _number(value: bool | int | float) -> str:
    if not isinstance(value, float):
        return str(int(value))
    return f"{value:.0f}" if value.is_integer() and abs(value) < _WHOLE else f"{value:.9g}"


def format_text(
    template: str, placeholder: str, tensors: Sequence[Tensor], summarize: int, *, detail: bool = False
) -> str:
    """The template with a tensor's text in place of each placeholder."""
    first, *rest = template.split(placeholder)
    texts = [format_tensor(x, summarize, detail=detail) for x in tensors]
    return first + "".join(text + part for text, part in zip(texts, rest, strict=True))


def _print(
    x: list[Tensor], template: str, placeholder: str = "{}", summarize_size: int = 3, tensor_detail: bool = False
) -> None:
    _write(format_text(template, placeholder, x, summarize_size, detail=tensor_detail))


def _write(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def _string_format(x: list[Tensor], template: str, placeholder: str, summarize: int) -> Tensor:
    data = format_text(template, placeholder, x, summarize).encode()
    result = torch.zeros(_capacity(x, template, placeholder, summarize), dtype=torch.uint8)
    result[: len(data)] = torch.frombuffer(bytearray(data), dtype=torch.uint8)
    return result


def _capacity(x: Sequence[Tensor], template: str, placeholder: str, summarize: int) -> Any:
    """Bytes that a text can take at most; a function of sizes alone, so that graphs know it."""
    total: Any = len(template.encode()) + 1
    for tensor in x:
        elements: Any = 1
        rows: Any = 1
        for size in tensor.shape:
            shown = size if summarize < 0 else torch.sym_min(size, 2 * summarize + 1)  # type: ignore[no-untyped-call]
            elements, rows = elements * shown, rows * (shown + 1)
        # Each number, and for each row its brackets, its separator and possibly "...".
        total = total + elements * _NUMBER + rows * 8 + _NUMBER
    return total


def _fake_format(x: list[Tensor], template: str, placeholder: str, summarize: int) -> Tensor:
    return torch.empty(_capacity(x, template, placeholder, summarize), dtype=torch.uint8, device="cpu")


def _print_text(x: Tensor) -> None:
    _write(bytes(x.tolist()).rstrip(b"\0").decode())


print_: Any = define(
    'print(Tensor[] x, str template, str placeholder="{}", int summarize_size=3, bool tensor_detail=False) -> ()',
    _print,
    lambda *args, **kwargs: None,
    ordered=True,
)
string_format: Any = define(
    "string_format(Tensor[] x, str template, str placeholder, int summarize) -> Tensor", _string_format, _fake_format
)
print_text: Any = define("print_text(Tensor x) -> ()", _print_text, lambda x: None, ordered=True)
