"""Converters of operators on lists of tensors.

Lists whose tensors all have the dtype of the results become one ``Foreach`` operator. Lists that mix or change dtypes,
and what no ``Foreach`` operator computes, become the operators of the single tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from torchair._torch_compat import OpOverload
from torchair.convert.arguments import numbers_known
from torchair.convert.aten import activation, elementwise  # noqa: F401  (they register the converters of single tensors)
from torchair.convert.registry import Converter, converters, register_fx_node_ge_converter
from torchair.convert.results import TensorSpec
from torchair.convert.torch_calls import schema_arguments
from torchair.ir import DType, Value
from torchair.opset.builder import current_builder
from torchair.opset.foreach import (
    FOREACH_BINARY,
    FOREACH_TERNARY,
    FOREACH_UNARY,
    ForeachLerpScalar,
    ForeachNorm,
    ForeachPowScalarAndTensor,
    ForeachRoundOffNumber,
)
from torchair.opset.operator import AscendOp

aten = torch.ops.aten

#: Makes the result for one tensor from the arguments at its place in each list (others as they are) and its meta.
Single = Callable[..., Value]


def _converter(overload: OpOverload) -> Converter:
    found = converters.get(overload)
    assert found is not None, overload
    return found


def _single(overload: OpOverload) -> Single:
    """The converter of an operator on single tensors, which takes all arguments by position."""
    converter = _converter(overload)
    schema = overload._schema.arguments

    def convert(*args: Any, meta_outputs: TensorSpec) -> Value:
        positional = [v for v, a in zip(args, schema, strict=False) if not a.kwarg_only]
        keywords = {a.name: v for v, a in zip(args, schema, strict=False) if a.kwarg_only}
        if converter.takes_meta_outputs:
            keywords["meta_outputs"] = meta_outputs
        result: Value = converter(*positional, **keywords)
        return result

    return convert


def _register(overload: OpOverload | None, single: Single, fused: Callable[..., list[Value]] | None = None) -> None:
    """Register the converter of an operator on lists.

    Args:
        single: What one tensor of each list becomes.
        fused: The ``Foreach`` operator, whose inputs are the arguments in order.
    """
    if overload is None:
        return

    def convert(*args: Any, meta_outputs: Sequence[TensorSpec], **kwargs: Any) -> list[Value]:
        arguments = [value for _, value in schema_arguments(overload, args, kwargs)]
        if fused is not None and _fits(arguments, meta_outputs):
            return fused(*(_operand(a, meta_outputs[0].dtype) for a in arguments))
        return [
            single(*(a[i] if isinstance(a, list | tuple) else a for a in arguments), meta_outputs=meta)
            for i, meta in enumerate(meta_outputs)
        ]

    convert.__doc__ = str(overload._schema)
    register_fx_node_ge_converter(overload)(convert)


def _fits(arguments: Sequence[Any], metas: Sequence[TensorSpec]) -> bool:
    """Whether all tensors and results have one dtype, which is float or integer, and all numbers are known and real."""
    leaves = [leaf for a in arguments for leaf in (a if isinstance(a, list | tuple) else [a])]
    listed = {v.dtype for a in arguments if isinstance(a, list | tuple) for v in a if isinstance(v, Value)}
    (dtype, *others) = listed | {m.dtype for m in metas}
    numbers = [n for n in leaves if not isinstance(n, Value)]
    return (
        not others
        and (dtype.is_floating_point or dtype.is_integer)
        and all(isinstance(n, int | float) for n in numbers)
        and not any(v.rank == 0 and v.type.content is not None for v in leaves if isinstance(v, Value))
    )


def _operand(argument: Any, dtype: DType) -> Any:
    """A list of tensors as it is; numbers as host values: float32 (float64 for float64), int64 for integers."""
    leaf = argument[0] if isinstance(argument, list | tuple) else argument
    if isinstance(leaf, Value):
        return argument
    kind = dtype if dtype is DType.DT_DOUBLE else DType.DT_FLOAT if dtype.is_floating_point else DType.DT_INT64
    return current_builder().host(argument, kind)


# --- one list ---

for _name, _op in FOREACH_UNARY.items():
    _register(getattr(aten, f"_foreach_{_name}").default, _single(getattr(aten, _name).default), _op)
for _name in ("frac", "lgamma", "neg", "reciprocal", "rsqrt", "sign", "sqrt"):
    _packet = getattr(aten, f"_foreach_{_name}", None)
    _register(getattr(_packet, "default", None), _single(getattr(aten, _name).default))


def _round_off(mode: int) -> Callable[[Sequence[Value]], list[Value]]:
    return lambda x: ForeachRoundOffNumber(x, mode)


for _name, _mode in {"round": 1, "floor": 2, "ceil": 3, "trunc": 5}.items():
    _register(getattr(aten, f"_foreach_{_name}").default, _single(getattr(aten, _name).default), _round_off(_mode))

# --- two operands ---


def _at_least(x: Value, number: Any, *, meta_outputs: TensorSpec) -> Value:
    result: Value = elementwise.clamp(x, number, None, meta_outputs=meta_outputs)
    return result


def _at_most(x: Value, number: Any, *, meta_outputs: TensorSpec) -> Value:
    result: Value = elementwise.clamp(x, None, number, meta_outputs=meta_outputs)
    return result


#: Operator of lists -> how single tensors combine, and a tensor and a number.
_TWO: dict[str, tuple[Single, Single]] = {
    "add": (_single(aten.add.Tensor), _single(aten.add.Scalar)),
    "sub": (_single(aten.sub.Tensor), _single(aten.sub.Scalar)),
    "mul": (_single(aten.mul.Tensor), _single(aten.mul.Scalar)),
    "div": (_single(aten.div.Tensor), _single(aten.div.Scalar)),
    "maximum": (_single(aten.maximum.default), _at_least),
    "minimum": (_single(aten.minimum.default), _at_most),
    "pow": (_single(aten.pow.Tensor_Tensor), _single(aten.pow.Tensor_Scalar)),
}
_ALIASES = {"clamp_min": "maximum", "clamp_max": "minimum"}

for _name in (*_TWO, *_ALIASES):
    _same = _ALIASES.get(_name, _name)
    _packet = getattr(aten, f"_foreach_{_name}")
    _tensors, _numbers = _TWO[_same]
    _register(_packet.List, _tensors, FOREACH_BINARY[_same]["List"])
    _register(_packet.Scalar, _numbers, FOREACH_BINARY[_same]["Scalar"])
    _register(_packet.ScalarList, _numbers, FOREACH_BINARY[_same]["ScalarList"])
_register(aten._foreach_pow.ScalarAndTensor, _single(aten.pow.Scalar), ForeachPowScalarAndTensor)

# --- three operands ---


def _register_ternary(name: str, fused: dict[str, AscendOp[list[Value]]], converter: Converter) -> None:
    packet = getattr(aten, f"_foreach_{name}")

    def single(a: Value, b: Value, c: Value, value: Any, *, meta_outputs: TensorSpec) -> Value:
        result: Value = converter(a, b, c, value=value, meta_outputs=meta_outputs)
        return result

    _register(packet.Scalar, single, fused["Scalar"])
    _register(packet.ScalarList, single, fused["ScalarList"])


for _name, _ops in FOREACH_TERNARY.items():
    _register_ternary(_name, _ops, _converter(getattr(aten, _name).default))
_register(aten._foreach_lerp.Scalar, _single(aten.lerp.Scalar), ForeachLerpScalar)
_register(getattr(aten._foreach_lerp, "ScalarList", None), _single(aten.lerp.Scalar))
_register(aten._foreach_lerp.List, _single(aten.lerp.Tensor))


@register_fx_node_ge_converter(aten._foreach_norm.Scalar, supports=numbers_known("ord"))
def foreach_norm(
    self: list[Value], ord: Any = 2, dtype: torch.dtype | None = None, *, meta_outputs: list[TensorSpec]
) -> list[Value]:
    """aten::_foreach_norm.Scalar(Tensor[] self, Scalar ord=2, ScalarType? dtype=None) -> Tensor[]"""
    if _fits([self, ord], meta_outputs):
        return ForeachNorm(self, _operand(ord, meta_outputs[0].dtype))
    norm = _converter(aten.linalg_vector_norm.default)
    return [norm(x, ord, None, False, dtype=dtype, meta_outputs=m) for x, m in zip(self, meta_outputs, strict=True)]
