"""What a converter returns, against what the operator's fake kernel promised."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import sympy
import torch
from torch import fx

from torchair._torch_compat import OpOverload
from torchair.convert.errors import definition
from torchair.convert.schemas import OperatorSchema
from torchair.errors import ArgumentError, ConverterResultError
from torchair.ir import DType, TensorType, Value
from torchair.opset.torch_types import dtype_of, host_type, tensor_type

if TYPE_CHECKING:
    from torchair.convert.driver import Driver

__all__ = ["TensorSpec", "check_results", "flatten", "tensor_specs"]

_FIX = (
    "Return one tensor for each result of the operator, with its dtype and shape; cast with\n"
    "torchair.ge.Cast(y, dst_type=meta_outputs.dtype), with meta_outputs a parameter of the converter.\n"
    "If the converter is right, the operator's meta function is wrong."
)


class TensorSpec:
    """What FX says about a result, passed to converters as ``meta_outputs``.

    Attributes:
        dtype: ``torchair.ge.DataType`` value.
        rank: Number of dimensions.
        size: Sizes as a list of ints.
    """

    def __init__(self, meta: torch.Tensor) -> None:
        self._meta = meta
        self.dtype: DType = dtype_of(meta.dtype)
        self.rank: int = meta.dim()

    @property
    def size(self) -> list[int]:
        """Sizes.

        Raises:
            ArgumentError: A size is symbolic (one converter must serve static and dynamic shapes).
        """
        if not all(isinstance(s, int) for s in self._meta.shape):
            raise ArgumentError(
                "The size of a result is symbolic",
                why=f"meta_outputs.size was read, and the result has the shape {list(self._meta.shape)}",
                fix="Use rank and dtype, or compute sizes in the graph with torchair.ge.Shape(x).",
            )
        return list(self._meta.shape)

    @property
    def type(self) -> TensorType:
        """The full type with symbolic sizes."""
        return tensor_type(self._meta)

    @property
    def device(self) -> torch.device:
        return self._meta.device

    def __repr__(self) -> str:
        return f"TensorSpec(dtype={self.dtype.name}, shape={list(self._meta.shape)})"


def tensor_specs(val: Any) -> Any:
    """``meta["val"]`` as converters see it: specs for tensors, the plain value for symbolic numbers."""
    if isinstance(val, torch.Tensor):
        return TensorSpec(val)
    if isinstance(val, list | tuple):
        return [tensor_specs(v) for v in val]
    return val


def flatten(value: Any) -> list[Any]:
    """Leaves of nested lists and tuples."""
    return [leaf for v in value for leaf in flatten(v)] if isinstance(value, list | tuple) else [value]


def check_results(
    driver: Driver,
    overload: OpOverload,
    node: fx.Node,
    result: Any,
    val: Any,
    *,
    by: str = "converter",
    fix: str = "",
) -> Any:
    """Compare the results of a conversion with the promised ones, and complete types that nothing told.

    Args:
        overload: The operator that was converted.
        result: What its converter returned.
        val: What its fake kernel promised.
        by, fix: What made the result, and how to mend it, for the error.

    Returns:
        The results in the structure of ``val``.

    Raises:
        ConverterResultError: Another number of results, or another dtype or shape.
    """
    expected = [v for v in flatten(val) if v is not None]
    given = [v for v in flatten(result) if v is not None]
    problems = []
    if len(expected) != len(given):
        problems.append(f"it returned {_results(len(given))}, {overload} has {len(expected)}")
    else:
        for i, promised in enumerate(expected):
            wanted = tensor_type(promised) if isinstance(promised, torch.Tensor) else host_type(promised)
            if isinstance(given[i], bool | int | float | complex):
                given[i] = driver.builder.const(given[i], wanted.dtype)
            value = given[i]
            if not isinstance(value, Value):
                problems.append(f"result {i} is a {type(value).__name__}, not a torchair.ge.Tensor")
            elif value.dtype is DType.DT_UNDEFINED:
                driver.graph.set_type(value, wanted)
            elif (difference := _difference(driver, value.type, wanted)) is not None:
                problems.append(f"result {i} is {difference}")
            if isinstance(value, Value) and value.producer is not None:
                value.producer.binds += tuple(driver.symbols.bind([wanted], value.index))
    if problems:
        raise ConverterResultError(
            "The results of a converter are not those of the operator",
            why=[f"{by} of {overload} (FX node {node.name}): {p}" for p in problems] + _place(driver, overload, by),
            fix=fix or (_FIX if len(expected) == len(given) else _count_fix(overload)),
            where=driver.builder.origin.source,
        )
    for value in given:
        named = value.name == node.name or value.name.startswith(f"{node.name}_")
        if value.producer is not None and value.producer in driver.builder.added[-1:] and not named:
            driver.graph.take_value_name(value, node.name)
    return _unflatten(val, iter(given))


def _place(driver: Driver, overload: OpOverload, by: str) -> list[str]:
    """Where the converter is defined."""
    converter = driver.converters.get(overload) if by == "converter" else None
    place = definition(converter.function) if converter is not None else ""
    return [f"at {place}"] if place else []


def _count_fix(overload: OpOverload) -> str:
    """How to return as many results as the operator has."""
    schema = OperatorSchema.of(overload)
    names = [f"out{i}" for i in range(len(schema.returns))]
    text = f"Return the results of {schema.overload._schema}: " + (
        "none." if not names else f"return {', '.join(names)}"
    )
    if schema.written:
        written = ", ".join(repr(a.name) for a in schema.written)
        text += (
            f"\nDo not return the written {written}: the graph takes a new value from the output of the IR operator "
            "that has the name of the input."
        )
    return text


def _results(count: int) -> str:
    return {0: "no result", 1: "1 result"}.get(count, f"{count} results")


def _difference(driver: Driver, got: TensorType, wanted: TensorType) -> str | None:
    if got.dtype != wanted.dtype or got.rank != wanted.rank:
        return f"{_show(got)}, promised {_show(wanted)}"
    for a, b in zip(got.shape, wanted.shape, strict=True):
        if a != b and not same_size(driver.builder.types.fake_mode, a, b):
            return f"{_show(got)}, promised {_show(wanted)}"
    return None


def same_size(fake_mode: Any, a: Any, b: Any) -> bool:
    """Whether two sizes are equal, by the values seen at compile time where expressions differ only in form."""
    if not isinstance(a, sympy.Basic) and not isinstance(b, sympy.Basic):
        return bool(a == b)
    env = fake_mode.shape_env
    if env is None:
        return False
    hints = [env.size_hint(d, allow_none=True) if isinstance(d, sympy.Basic) else d for d in (a, b)]
    return any(h is None for h in hints) or bool(hints[0] == hints[1])


def _show(type: TensorType) -> str:
    return f"{type.dtype.short_name}[{', '.join(str(d) for d in type.shape)}]"


def _unflatten(structure: Any, leaves: Any) -> Any:
    if isinstance(structure, list | tuple):
        return tuple(_unflatten(s, leaves) for s in structure)
    return None if structure is None else next(leaves)
