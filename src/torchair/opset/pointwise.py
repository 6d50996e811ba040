"""How elementwise operators that one torch function computes are defined: many differ only in name and function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import sympy
from torch import Tensor

from torchair.ir import Dim, DType, TensorType, Value
from torchair.ir.expressions import FUNCTIONS
from torchair.opset.operator import AscendOp, ascend_op

__all__ = ["binary", "host_arithmetic", "unary"]

#: Smallest and largest number of the integer dtypes in which host numbers are computed.
_RANGES = {DType.DT_INT32: (-(2**31), 2**31 - 1), DType.DT_INT64: (-(2**63), 2**63 - 1)}


def unary(
    name: str,
    function: Callable[[Tensor], Tensor],
    meaning: str,
    *,
    dtypes: str = "any number, the result's is the same",
    source: str = "CANN op_proto: elewise_calculation_ops.h",
) -> AscendOp[Value]:
    """Define an operator ``name(x) -> y``.

    Args:
        meaning: First sentence of the docstring.
        dtypes: What the docstring says about dtypes.
    """

    def signature(x: Value) -> Value:
        raise NotImplementedError

    op = _define(
        name, signature, f"{meaning}\n\nShapes: ``x`` and the result are any, equal. dtypes: {dtypes}.\n", source
    )
    op.lower(lambda x: function(x))
    return op


def binary(
    name: str,
    function: Callable[[Tensor, Tensor], Tensor],
    meaning: str,
    *,
    dtypes: str = "any number, equal; the result's is the same",
    content: Callable[[Any, Any], Any] | None = None,
    source: str = "CANN op_proto: elewise_calculation_ops.h",
) -> AscendOp[Value]:
    """Define an operator ``name(x1, x2) -> y``.

    Args:
        meaning: First sentence of the docstring.
        dtypes: What the docstring says about dtypes.
        content: The same on two host numbers, so that sizes computed with the operator stay symbolic.
    """

    def signature(x1: Value, x2: Value) -> Value:
        raise NotImplementedError

    op = _define(name, signature, f"{meaning}\n\nShapes: broadcast. dtypes: {dtypes}.\n", source)
    op.lower(lambda x1, x2: function(x1, x2))
    if content is not None:
        rule = content
        op.content(lambda x1, x2: host_arithmetic(rule, x1, x2))
    return op


def _define(name: str, signature: Callable[..., Value], doc: str, source: str) -> AscendOp[Value]:
    signature.__name__ = signature.__qualname__ = name
    signature.__doc__ = doc
    return ascend_op(source=source)(signature)


def host_arithmetic(rule: Callable[..., Any], *types: TensorType) -> Sequence[Dim] | None:
    """Apply ``rule`` to the host numbers of 0-d values and vectors; None where they are not known, or would wrap.

    Args:
        rule: Takes one number (or expression) of each value.
    """
    if any(t.content is None or t.rank > 1 or t.dtype not in _RANGES for t in types):
        return None
    contents = [t.content for t in types if t.content is not None]
    count = max(map(len, contents))
    if any(len(c) not in (1, count) for c in contents):
        return None
    results = [rule(*(c[i if len(c) > 1 else 0] for c in contents)) for i in range(count)]
    low, high = _RANGES[types[0].dtype]
    if any(r is None or (not isinstance(r, sympy.Basic) and not low <= r <= high) for r in results):
        return None
    return results


def floor_division(a: Any, b: Any) -> Any:
    """``a // b`` on host numbers; None for a division by zero."""
    if not isinstance(a, sympy.Basic) and not isinstance(b, sympy.Basic):
        return a // b if b else None
    return FUNCTIONS["FloorDiv"](sympy.sympify(a), sympy.sympify(b)) if b != 0 else None


def larger(a: Any, b: Any) -> Any:
    """The larger of two host numbers."""
    return _extremum(max, "Max", a, b)


def smaller(a: Any, b: Any) -> Any:
    """The smaller of two host numbers."""
    return _extremum(min, "Min", a, b)


def _extremum(plain: Callable[..., Any], symbolic: str, a: Any, b: Any) -> Any:
    if not isinstance(a, sympy.Basic) and not isinstance(b, sympy.Basic):
        return plain(a, b)
    return FUNCTIONS[symbolic](sympy.sympify(a), sympy.sympify(b))
