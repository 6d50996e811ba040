"""Element by element: arithmetic, comparisons, functions, conversions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import sympy
import torch
from torch import fx

from torchair import _torch_compat
from torchair._torch_compat import OpOverload
from torchair.native.expressions import Expr
from torchair.native.lower.registry import Lowering, arguments, lowers
from torchair.native.region import LoopValue, Region, Unsupported, compute_dtype, sympy_shape

__all__ = ["broadcast_element", "mixed", "number_expr", "pointwise"]

aten = torch.ops.aten
prims = torch.ops.prims


def number_expr(region: Region, value: Any, dtype: torch.dtype) -> Expr:
    """A Python or symbolic number as an element of a dtype."""
    if isinstance(value, fx.Node):
        value = value.meta["val"]
    if isinstance(value, torch.SymInt):
        return region.builder.cast(region.builder.index(sympy.sympify(value.node.expr)), dtype)
    if isinstance(value, torch.SymFloat | torch.SymBool | complex):
        raise Unsupported(f"it takes a {type(value).__name__}")
    if isinstance(value, int) and not isinstance(value, bool) and not -(2**63) <= value < 2**63:
        raise Unsupported("it takes a number beyond int64")
    if not dtype.is_floating_point and isinstance(value, float):
        raise Unsupported("it converts a floating-point number to integers")
    return region.builder.constant(value, dtype)


def is_tensor(argument: Any) -> bool:
    """Whether an argument of a call is a tensor."""
    return isinstance(argument, fx.Node) and isinstance(argument.meta.get("val"), torch.Tensor)


def broadcast_element(
    value: LoopValue, index: Sequence[sympy.Expr], shape: Sequence[sympy.Expr], mask: Expr | None
) -> Expr:
    """The element of a tensor at an index of the shape that it is broadcast to."""
    own = index[len(index) - len(value.shape) :]
    offset = len(shape) - len(value.shape)
    return value.element(
        [sympy.S.Zero if size == 1 and shape[offset + d] != 1 else own[d] for d, size in enumerate(value.shape)], mask
    )


def pointwise(
    region: Region,
    node: fx.Node,
    operands: Sequence[Any],
    formula: Callable[..., Expr],
    compute: torch.dtype | None = None,
    *,
    wide_numbers: bool = False,
) -> LoopValue:
    """The value of an element-by-element operator.

    Args:
        operands: Tensors (as nodes) and numbers.
        formula: Takes one element of each, in the dtype of the computation; its result is converted to the node's.
        compute: Into which dtype operands are converted; when omitted, what PyTorch promotes them to.
        wide_numbers: Among 16-bit floats, numbers take part unrounded. As eager's CPU kernels do it, which differ.
    """
    given = compute or promoted(operands)
    wanted = compute_dtype(given)
    if wanted.is_complex:
        raise Unsupported("it computes in complex numbers")
    numbers = wanted if wide_numbers else given
    return mixed(region, node, [(o, wanted if is_tensor(o) else numbers) for o in operands], formula)


def operand_value(region: Region, node: fx.Node, shape: Sequence[sympy.Expr]) -> LoopValue:
    """An operand; one that is costly and used for several elements is computed once, in memory."""
    value = region.value(node)
    padded = [sympy.S.One] * (len(shape) - len(value.shape)) + list(value.shape)
    repeated = any(a == 1 and b != 1 for a, b in zip(padded, shape, strict=True))
    if repeated and value.buffer is None and value.cost > 2:
        value = region.values[node] = region.realize(value)
    return value


def promoted(operands: Sequence[Any]) -> torch.dtype:
    """The dtype that PyTorch promotes operands to."""
    plain = [o.meta["val"] if isinstance(o, fx.Node) else o for o in operands]
    return _torch_compat.promoted_dtype([p for p in plain if p is not None])


# --- one operand ---

_FLOAT_FUNCTIONS = {
    "exp": aten.exp, "exp2": aten.exp2, "expm1": aten.expm1, "log": aten.log, "log2": aten.log2, "log10": aten.log10,
    "log1p": aten.log1p, "sin": aten.sin, "cos": aten.cos, "tan": aten.tan, "asin": aten.asin, "acos": aten.acos,
    "atan": aten.atan, "sinh": aten.sinh, "cosh": aten.cosh, "tanh": aten.tanh, "asinh": aten.asinh,
    "acosh": aten.acosh, "atanh": aten.atanh, "erf": aten.erf, "erfc": aten.erfc, "sqrt": aten.sqrt,
    "rsqrt": aten.rsqrt, "reciprocal": aten.reciprocal, "sigmoid": aten.sigmoid,
}  # fmt: skip

_SAME_DTYPE = {
    "neg": aten.neg, "abs": aten.abs, "sign": aten.sign, "floor": aten.floor, "ceil": aten.ceil, "trunc": aten.trunc,
    "round": aten.round, "bitwise_not": aten.bitwise_not, "relu": aten.relu,
}  # fmt: skip

_PREDICATES = {"isnan": aten.isnan, "isinf": aten.isinf, "signbit": aten.signbit}


def _function(
    name: str, *, dtype: torch.dtype | None = None, predicate: bool = False
) -> Callable[[Region, fx.Node], LoopValue]:
    def lower(region: Region, node: fx.Node) -> LoopValue:
        (operand,) = node.args[:1]
        result: torch.dtype = node.meta["val"].dtype
        if result.is_complex:
            raise Unsupported("its result is complex")
        compute = dtype or (None if predicate else result)

        def formula(x: Expr) -> Expr:
            out = torch.bool if predicate else x.dtype
            if name in ("floor", "ceil", "trunc", "round") and not x.dtype.is_floating_point:
                return x
            if name == "relu":
                zero = region.builder.constant(0, x.dtype)
                return region.builder.op("max", zero, x, dtype=x.dtype)  # of equal ones the second: -0.0 stays
            if name == "neg" and x.dtype is torch.bool:
                raise Unsupported("it negates a bool")
            return region.builder.op(name, x, dtype=out)

        return pointwise(region, node, [operand], formula, compute)

    return lower


for _name, _packet in {**_FLOAT_FUNCTIONS, **_SAME_DTYPE}.items():
    lowers(_packet.default)(_function(_name))
for _name, _packet in _PREDICATES.items():
    lowers(_packet.default)(_function(_name, predicate=True))


@lowers(aten.logical_not.default)
def _logical_not(region: Region, node: fx.Node) -> LoopValue:
    return pointwise(
        region, node, node.args[:1], lambda x: region.builder.op("logical_not", x, dtype=torch.bool), torch.bool
    )


# --- conversions ---


@lowers(prims.convert_element_type.default, aten._to_copy.default, aten.clone.default, aten.lift_fresh_copy.default)
def _convert(region: Region, node: fx.Node) -> LoopValue:
    source: torch.dtype = node.args[0].meta["val"].dtype  # type: ignore[union-attr]
    return pointwise(region, node, node.args[:1], lambda x: x, source)


@lowers(aten.copy.default)
def _copy(region: Region, node: fx.Node) -> LoopValue:
    source: torch.dtype = node.args[1].meta["val"].dtype  # type: ignore[union-attr]
    return pointwise(region, node, node.args[1:2], lambda x: x, source)


# --- two operands ---


def _binary(name: str, *, predicate: bool = False, real: bool = False) -> Callable[[Region, fx.Node], LoopValue]:
    def lower(region: Region, node: fx.Node) -> LoopValue:
        given = arguments(node)
        operands = list(node.args[:2])
        dtype: torch.dtype = node.meta["val"].dtype
        alpha = given.get("alpha", 1)

        def formula(a: Expr, b: Expr) -> Expr:
            if alpha != 1:
                b = region.builder.op("mul", b, number_expr(region, alpha, b.dtype), dtype=b.dtype)
            if a.dtype is torch.bool and name in ("add", "sub", "mul"):
                if name == "sub":
                    raise Unsupported("it subtracts bools")
                return region.builder.op("logical_or" if name == "add" else "logical_and", a, b, dtype=torch.bool)
            if a.dtype.is_floating_point and name.startswith("bitwise"):
                raise Unsupported("it takes the bits of floating-point numbers")
            return region.builder.op(name, a, b, dtype=torch.bool if predicate else a.dtype)

        return pointwise(region, node, operands, formula, dtype if real else None, wide_numbers=name in ("mul", "div"))

    return lower


def _overloads(packet: Any, *names: str) -> list[OpOverload]:
    return [getattr(packet, n) for n in names if n in packet.overloads()]


_BINARY = {
    "add": aten.add, "sub": aten.sub, "mul": aten.mul, "bitwise_and": aten.bitwise_and, "bitwise_or": aten.bitwise_or,
    "bitwise_xor": aten.bitwise_xor, "max": aten.maximum, "min": aten.minimum, "fmax": aten.fmax, "fmin": aten.fmin,
}  # fmt: skip
_COMPARISONS = {"eq": aten.eq, "ne": aten.ne, "lt": aten.lt, "le": aten.le, "gt": aten.gt, "ge": aten.ge}
_REAL = {"atan2": aten.atan2, "hypot": aten.hypot}

for _name, _packet in _BINARY.items():
    lowers(*_overloads(_packet, "default", "Tensor", "Scalar"))(_binary(_name))
for _name, _packet in _COMPARISONS.items():
    lowers(*_overloads(_packet, "Tensor", "Scalar"))(_binary(_name, predicate=True))
for _name, _packet in _REAL.items():
    lowers(_packet.default)(_binary(_name, real=True))
_div: Lowering = lowers(aten.div.Scalar)(_binary("div", real=True))


@lowers(aten.div.Tensor)
def _div_tensor(region: Region, node: fx.Node) -> LoopValue:
    if not _is_softmax(node):
        divided: LoopValue = _div(region, node)
        return divided

    def formula(a: Expr, b: Expr) -> Expr:
        # One division a row. The sum is 1 at least, so that the reciprocal is a normal number.
        builder = region.builder
        return builder.op("mul", a, builder.op("div", builder.constant(1, b.dtype), b, dtype=b.dtype), dtype=a.dtype)

    return pointwise(region, node, node.args[:2], formula)


def _is_softmax(node: fx.Node) -> bool:
    """Whether exponentials of what is at most 0 are divided by their sum."""
    above, below = node.args[:2]
    if not isinstance(above, fx.Node) or not isinstance(below, fx.Node):
        return False
    if below.target is not aten.sum.dim_IntList or below.args[0] is not above or above.target is not aten.exp.default:
        return False
    shifted: Any = above.args[0]
    if not isinstance(shifted, fx.Node) or shifted.target is not aten.sub.Tensor or shifted.kwargs:
        return False
    given, largest = shifted.args[:2]
    return (
        isinstance(largest, fx.Node)
        and largest.target is aten.amax.default
        and largest.args[0] is given
        and (tuple(largest.args[1:2]) == tuple(below.args[1:2]))
    )


@lowers(aten.div.Tensor_mode, aten.div.Scalar_mode)
def _div_mode(region: Region, node: fx.Node) -> LoopValue:
    mode = arguments(node)["rounding_mode"]
    dtype: torch.dtype = node.meta["val"].dtype
    if not dtype.is_floating_point:
        raise Unsupported("integers are divided, and a zero must raise")
    name = {None: "div", "floor": "div_floor", "trunc": "div_trunc"}[mode]
    return pointwise(region, node, node.args[:2], lambda a, b: region.builder.op(name, a, b, dtype=a.dtype), dtype)


@lowers(aten.fmod.Tensor, aten.fmod.Scalar, aten.remainder.Tensor, aten.remainder.Scalar)
def _modulo(region: Region, node: fx.Node) -> LoopValue:
    if not promoted(node.args[:2]).is_floating_point:
        raise Unsupported("integers are divided, and a zero must raise")
    name = str(node.target).split(".")[1]
    return pointwise(region, node, node.args[:2], lambda a, b: region.builder.op(name, a, b, dtype=a.dtype))


@lowers(aten.logical_and.default, aten.logical_or.default, aten.logical_xor.default)
def _logical(region: Region, node: fx.Node) -> LoopValue:
    name = str(node.target).split(".")[1]
    return pointwise(
        region, node, node.args[:2], lambda a, b: region.builder.op(name, a, b, dtype=torch.bool), torch.bool
    )


@lowers(aten.pow.Tensor_Tensor, aten.pow.Tensor_Scalar, aten.pow.Scalar)
def _pow(region: Region, node: fx.Node) -> LoopValue:
    base, exponent = node.args[:2]
    dtype: torch.dtype = node.meta["val"].dtype
    if not dtype.is_floating_point:
        raise Unsupported("it raises integers to a power")
    builder = region.builder

    def formula(a: Expr, *rest: Expr) -> Expr:
        def op(name: str, *args: Expr) -> Expr:
            return builder.op(name, *args, dtype=a.dtype)

        if rest:
            return op("pow", a, rest[0])
        number = float(exponent)  # type: ignore[arg-type]
        # The special cases of ATen's kernel, which round otherwise than pow does.
        simple = {2.0: lambda: op("mul", a, a), 3.0: lambda: op("mul", op("mul", a, a), a), 0.5: lambda: op("sqrt", a),
                  -0.5: lambda: op("rsqrt", a), -1.0: lambda: op("reciprocal", a), 1.0: lambda: a,
                  -2.0: lambda: op("reciprocal", op("mul", a, a))}  # fmt: skip
        if abs(number) == 0.5 and dtype is torch.float16:
            return op("pow", a, builder.constant(number, a.dtype))  # as ATen for this dtype: -inf ** 0.5 is inf
        return simple[number]() if number in simple else op("pow", a, builder.constant(number, a.dtype))

    is_number = isinstance(exponent, int | float) and not isinstance(exponent, bool)
    return pointwise(region, node, [base] if is_number else [base, exponent], formula, dtype)


# --- more operands ---


@lowers(aten.where.self, aten.where.ScalarOther, aten.where.ScalarSelf, aten.where.Scalar)
def _where(region: Region, node: fx.Node) -> LoopValue:
    condition, a, b = node.args[:3]
    if condition.meta["val"].dtype is not torch.bool:  # type: ignore[union-attr]
        raise Unsupported("its condition is not bool")
    dtype: torch.dtype = node.meta["val"].dtype
    builder = region.builder
    # Rounded values are selected, not computed with.
    return mixed(
        region,
        node,
        [(condition, torch.bool), (a, dtype), (b, dtype)],
        lambda c, x, y: builder.op("where", c, x, y, dtype=x.dtype),
    )


@lowers(aten.clamp.default, aten.clamp_min.default, aten.clamp_max.default, aten.clamp.Tensor, aten.clamp_min.Tensor,
        aten.clamp_max.Tensor)  # fmt: skip
def _clamp(region: Region, node: fx.Node) -> LoopValue:
    given = arguments(node)
    low, high = given.get("min"), given.get("max")
    operands = [node.args[0], *(b for b in (low, high) if b is not None)]
    builder = region.builder

    def formula(x: Expr, *bounds: Expr) -> Expr:
        rest = list(bounds)
        if low is not None:
            x = builder.op("max", rest.pop(0), x, dtype=x.dtype)  # of equal ones the second: -0.0 stays
        if high is not None:
            x = builder.op("min", rest.pop(0), x, dtype=x.dtype)
        return x

    return pointwise(region, node, operands, formula)


def _fma(region: Region, node: fx.Node) -> LoopValue:
    return pointwise(region, node, node.args[:3], lambda a, b, c: region.builder.op("fma", a, b, c, dtype=a.dtype))


if hasattr(prims, "fma"):  # not in 2.6
    lowers(prims.fma.default)(_fma)


def mixed(
    region: Region, node: fx.Node, operands: Sequence[tuple[Any, torch.dtype]], formula: Callable[..., Expr]
) -> LoopValue:
    """As :func:`pointwise`, with a dtype for each operand."""
    builder = region.builder
    result: torch.Tensor = node.meta["val"]
    shape = sympy_shape(result.shape)
    values = [(operand_value(region, o, shape) if is_tensor(o) else o, dtype) for o, dtype in operands]
    for v, dtype in values:
        if not isinstance(v, LoopValue):
            number_expr(region, v, dtype)

    def element(index: Sequence[sympy.Expr], mask: Expr | None) -> Expr:
        args = [
            builder.cast(broadcast_element(v, index, shape, mask), compute_dtype(dtype))
            if isinstance(v, LoopValue)
            else builder.cast(number_expr(region, v, dtype), compute_dtype(dtype))
            for v, dtype in values
        ]
        return builder.cast(formula(*args), result.dtype)

    tensors = [v for v, _ in values if isinstance(v, LoopValue)]
    sample = element([sympy.Symbol(f"i{d}", integer=True, nonnegative=True) for d in range(len(shape))], None)
    reads: frozenset[Any] = frozenset().union(*(v.reads for v in tensors))
    depth = 1 + max((v.depth for v in tensors), default=0)
    return region.bounded(LoopValue(shape, result.dtype, element, reads=reads, depth=depth, cost=sample.cost))
