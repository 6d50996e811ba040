"""One elementwise operator on each tensor of a list.

The numbers that take part are host inputs, so that the lowerings pass torch the same Python numbers as eager does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from torchair.ir import Value
from torchair.opset.operator import AscendOp, DynamicOutput, HostInts, ascend_op

__all__ = [
    "FOREACH_BINARY", "FOREACH_TERNARY", "FOREACH_UNARY", "ROUNDING_MODES", "ForeachLerpScalar", "ForeachNorm",
    "ForeachPowScalarAndTensor", "ForeachRoundOffNumber",
]  # fmt: skip

_SOURCE = "CANN op_proto: foreach operators"
_Y = (DynamicOutput("y"),)


def _define(name: str, signature: Callable[..., Any], doc: str, **constraints: Any) -> AscendOp[list[Value]]:
    signature.__name__ = signature.__qualname__ = name
    signature.__doc__ = (
        f"{doc}\n\nShapes: each result is as its tensors, which broadcast. dtypes: equal in all lists.\n"
    )
    return ascend_op(outputs=_Y, source=_SOURCE, **constraints)(signature)


def _unary(name: str, function: Callable[[Tensor], Tensor]) -> AscendOp[list[Value]]:
    def signature(x: Sequence[Value]) -> list[Value]:
        raise NotImplementedError

    op = _define(name, signature, f"``torch.{function.__name__}`` of each tensor.")
    op.lower(lambda x: [function(t) for t in x])
    return op


#: Operators on one list, by the name of the torch function.
FOREACH_UNARY = {
    name: _unary(f"Foreach{name.capitalize()}", getattr(torch, name))
    for name in (
        "abs", "acos", "asin", "atan", "cos", "cosh", "erf", "erfc", "exp", "expm1", "log", "log10", "log1p", "log2",
        "sigmoid", "sin", "sinh", "tan", "tanh",
    )
}  # fmt: skip


def _lists(name: str, function: Callable[..., Tensor], *, alpha: bool = False) -> AscendOp[list[Value]]:
    """``Foreach...List``: corresponding tensors of two lists."""

    def signature(x1: Sequence[Value], x2: Sequence[Value]) -> list[Value]:
        raise NotImplementedError

    def with_alpha(x1: Sequence[Value], x2: Sequence[Value], alpha: Value) -> list[Value]:
        raise NotImplementedError

    doc = f"``torch.{function.__name__}`` of corresponding tensors of two lists"
    if not alpha:
        op = _define(name, signature, f"{doc}.")
        op.lower(lambda x1, x2: [function(a, b) for a, b in zip(x1, x2, strict=True)])
    else:
        op = _define(name, with_alpha, f"{doc}, ``alpha`` times the second.", alpha=HostInts)
        op.lower(lambda x1, x2, alpha: [function(a, b, alpha=_only(alpha)) for a, b in zip(x1, x2, strict=True)])
    return op


def _scalar(name: str, function: Callable[..., Tensor]) -> AscendOp[list[Value]]:
    """``Foreach...Scalar``: one number for all tensors."""

    def signature(x: Sequence[Value], scalar: Value) -> list[Value]:
        raise NotImplementedError

    op = _define(name, signature, f"``torch.{function.__name__}`` of each tensor and one number.", scalar=HostInts)
    op.lower(lambda x, scalar: [function(t, _only(scalar)) for t in x])
    return op


def _scalar_list(name: str, function: Callable[..., Tensor]) -> AscendOp[list[Value]]:
    """``Foreach...ScalarList``: one number for each tensor."""

    def signature(x: Sequence[Value], scalars: Value) -> list[Value]:
        raise NotImplementedError

    doc = f"``torch.{function.__name__}`` of each tensor and its number in ``scalars`` ``[n]``."
    op = _define(name, signature, doc, scalars=HostInts)
    op.lower(lambda x, scalars: [function(t, s) for t, s in zip(x, scalars, strict=True)])
    return op


def _only(number: Any) -> Any:
    """The number of a host input that is 0-d or ``[1]``."""
    return number[0] if isinstance(number, Sequence) else number


#: For each torch function of two operands, its operators ``List``, ``Scalar`` and ``ScalarList``.
FOREACH_BINARY = {
    name: {
        "List": _lists(f"Foreach{name.capitalize()}List", function, alpha=name in ("add", "sub")),
        "Scalar": _scalar(f"Foreach{name.capitalize()}Scalar", number),
        "ScalarList": _scalar_list(f"Foreach{name.capitalize()}ScalarList", number),
    }
    for name, function, number in (
        ("add", torch.add, torch.add),
        ("sub", torch.sub, torch.sub),
        ("mul", torch.mul, torch.mul),
        ("div", torch.div, torch.div),
        ("maximum", torch.maximum, torch.clamp_min),
        ("minimum", torch.minimum, torch.clamp_max),
        ("pow", torch.pow, torch.pow),
    )
}


@ascend_op(outputs=_Y, scalar=HostInts, source=_SOURCE)
def ForeachPowScalarAndTensor(scalar: Value, x: Sequence[Value]) -> list[Value]:
    """``scalar`` to the power of each tensor.

    Shapes: ``scalar`` is 0-d or ``[1]``; each result is as its tensor. dtypes: floats, equal.
    """
    raise NotImplementedError


@ForeachPowScalarAndTensor.lower
def _(scalar: Any, x: Sequence[Tensor]) -> list[Tensor]:
    return [torch.pow(_only(scalar), t) for t in x]


#: ``roundMode`` of :data:`ForeachRoundOffNumber` and the torch function. Source: numbers of AscendC's ``RoundMode``.
ROUNDING_MODES: dict[int, Callable[[Tensor], Tensor]] = {
    1: torch.round,
    2: torch.floor,
    3: torch.ceil,
    5: torch.trunc,
}


@ascend_op(outputs=_Y, roundMode=HostInts, source=_SOURCE)
def ForeachRoundOffNumber(x: Sequence[Value], roundMode: Value) -> list[Value]:
    """Each tensor rounded: to the nearest (1), down (2), up (3) or toward zero (5).

    Shapes: ``roundMode`` is 0-d or ``[1]``; each result is as its tensor. dtypes: floats, equal.
    """
    raise NotImplementedError


@ForeachRoundOffNumber.lower
def _(x: Sequence[Tensor], roundMode: Any) -> list[Tensor]:
    mode = _only(roundMode)
    if mode not in ROUNDING_MODES:
        raise ValueError(
            f"roundMode is {mode}; the modes with a meaning here are {', '.join(map(str, ROUNDING_MODES))}"
        )
    return [ROUNDING_MODES[mode](t) for t in x]


@ascend_op(outputs=_Y, scalar=HostInts, source=_SOURCE)
def ForeachNorm(x: Sequence[Value], scalar: Value) -> list[Value]:
    """The vector norm of order ``scalar`` of each tensor.

    Shapes: ``scalar`` is 0-d or ``[1]``; the results are 0-d. dtypes: floats, equal.
    """
    raise NotImplementedError


@ForeachNorm.lower
def _(x: Sequence[Tensor], scalar: Any) -> list[Tensor]:
    return [torch.linalg.vector_norm(t, _only(scalar)) for t in x]


# --- three operands ---


@ascend_op(outputs=_Y, weight=HostInts, source=_SOURCE)
def ForeachLerpScalar(x1: Sequence[Value], x2: Sequence[Value], weight: Value) -> list[Value]:
    """``x1 + weight * (x2 - x1)`` of corresponding tensors.

    Shapes: ``weight`` is 0-d or ``[1]``; each result is as its tensors. dtypes: floats, equal.
    """
    raise NotImplementedError


@ForeachLerpScalar.lower
def _(x1: Sequence[Tensor], x2: Sequence[Tensor], weight: Any) -> list[Tensor]:
    return [torch.lerp(a, b, _only(weight)) for a, b in zip(x1, x2, strict=True)]


def _opmath(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """The same, with half precision computed in float32 and rounded once, where a tensor stands for torch's number."""

    def compute(a: Tensor, b: Tensor, c: Tensor, number: Any) -> Tensor:
        half = a.dtype in (torch.bfloat16, torch.float16)
        wide = [t.float() if half else t for t in (a, b, c)]
        return function(*wide, number).to(a.dtype)

    return compute


def _with_number(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """``addcmul`` or ``addcdiv`` with a Python number or a 0-d tensor."""

    def compute(a: Tensor, b: Tensor, c: Tensor, number: Any) -> Tensor:
        if isinstance(number, Tensor):
            return function(a, torch.mul(b, number), c)
        return function(a, b, c, value=number)

    return compute


def _three(name: str, function: Callable[..., Tensor]) -> dict[str, AscendOp[list[Value]]]:
    """The operators ``Scalar``, ``ScalarList`` and ``List`` (numbers in a tensor) of ``addcmul`` or ``addcdiv``."""

    def scalar(x1: Sequence[Value], x2: Sequence[Value], x3: Sequence[Value], scalar: Value) -> list[Value]:
        raise NotImplementedError

    def scalars(x1: Sequence[Value], x2: Sequence[Value], x3: Sequence[Value], scalars: Value) -> list[Value]:
        raise NotImplementedError

    def from_tensor(x1: Sequence[Value], x2: Sequence[Value], x3: Sequence[Value], scalars: Value) -> list[Value]:
        raise NotImplementedError

    doc = f"``torch.{function.__name__}`` of corresponding tensors of three lists, with"
    compute = _opmath(_with_number(function))
    one = _define(f"{name}Scalar", scalar, f"{doc} one number.", scalar=HostInts)
    one.lower(lambda x1, x2, x3, scalar: [compute(*t, _only(scalar)) for t in zip(x1, x2, x3, strict=True)])
    several = _define(f"{name}ScalarList", scalars, f"{doc} a number each in ``scalars`` ``[n]``.", scalars=HostInts)
    several.lower(lambda x1, x2, x3, scalars: [compute(*t) for t in zip(x1, x2, x3, scalars, strict=True)])
    tensor = _define(f"{name}List", from_tensor, f"{doc} an element each of the tensor ``scalars`` ``[n]``.")
    tensor.lower(
        lambda x1, x2, x3, scalars: [compute(*t, scalars[i]) for i, t in enumerate(zip(x1, x2, x3, strict=True))]
    )
    return {"Scalar": one, "ScalarList": several, "Tensor": tensor}


#: ``addcmul`` and ``addcdiv`` by the overload of the torch operator.
FOREACH_TERNARY = {
    "addcmul": _three("ForeachAddcmul", torch.addcmul),
    "addcdiv": _three("ForeachAddcdiv", torch.addcdiv),
}
