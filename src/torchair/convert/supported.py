"""``declare_supported``: the call patterns for which a converter is known to work (specification, F-60).

A declaration restricts nothing at run time. It is shown in coverage reports, and ``torchair.customop.cases`` runs each
case eagerly and compiled.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from torchair.convert.registry import Converter
from torchair.errors import ArgumentError

__all__ = [
    "BF16",
    "BOOL",
    "C64",
    "F16",
    "F32",
    "F64",
    "I8",
    "I16",
    "I32",
    "I64",
    "U8",
    "Support",
    "T",
    "TensorCase",
    "declare_supported",
]


class TensorCase:
    """A tensor argument of a :class:`Support`: random values, or given ones.

    Attributes:
        dtype: Element type.
        shape: Sizes; None for given values.
        value_range: Bounds of random values.
        value: Given values.
    """

    def __init__(
        self,
        dtype: torch.dtype,
        shape: tuple[int, ...] | None,
        value_range: tuple[float, float] | None = None,
        value: Any = None,
    ) -> None:
        self.dtype = dtype
        self.shape = shape
        self.value_range = value_range
        self.value = value

    def tensor(self, generator: torch.Generator | None = None) -> torch.Tensor:
        """A tensor of this kind.

        Args:
            generator: Draws the values, so that cases are the same in each run.
        """
        if self.shape is None:
            return torch.tensor(self.value, dtype=self.dtype)
        low, high = self.value_range or self._default_range()
        values = torch.rand(self.shape, generator=generator, dtype=torch.float64) * (high - low) + low
        if self.dtype is torch.bool:
            return values > 0.5
        if self.dtype.is_complex:
            other = torch.rand(self.shape, generator=generator, dtype=torch.float64) * (high - low) + low
            return torch.complex(values, other).to(self.dtype)
        return values.to(self.dtype) if self.dtype.is_floating_point else values.floor().to(self.dtype)

    def _default_range(self) -> tuple[float, float]:
        if self.dtype in (torch.bool, torch.uint8):
            return 0, 1 if self.dtype is torch.bool else 10
        return (-1, 1) if self.dtype.is_floating_point or self.dtype.is_complex else (-10, 10)

    def __repr__(self) -> str:
        name = str(self.dtype).removeprefix("torch.")
        return f"T({self.value!r}, {name})" if self.shape is None else f"{name}{list(self.shape)}"


def _kind(dtype: torch.dtype) -> Callable[..., TensorCase]:
    def make(*dims: Any, value_range: Any = None) -> TensorCase:
        if any(isinstance(d, bool) or not isinstance(d, int) or d < 0 for d in dims):
            raise ArgumentError(
                "The sizes of a tensor descriptor are ints of at least 0",
                why=f"it was given {dims}",
                fix="F32(2, 3) stands for a float32 tensor of two rows and three columns.",
            )
        bounds = None
        if value_range is not None:
            if not isinstance(value_range, list | tuple) or len(value_range) != 2:
                raise ArgumentError(
                    "A value_range has two bounds",
                    why=f"it was given {value_range!r}",
                    fix="F32(2, 3, value_range=(0, 1))",
                )
            bounds = (value_range[0], value_range[1])
        return TensorCase(dtype, dims, bounds)

    make.__doc__ = f"A {str(dtype).removeprefix('torch.')} tensor of these sizes, with values in ``value_range``."
    return make


F32 = _kind(torch.float32)
F16 = _kind(torch.float16)
BF16 = _kind(torch.bfloat16)
F64 = _kind(torch.float64)
I8 = _kind(torch.int8)
I16 = _kind(torch.int16)
I32 = _kind(torch.int32)
I64 = _kind(torch.int64)
U8 = _kind(torch.uint8)
C64 = _kind(torch.complex64)
BOOL = _kind(torch.bool)


def T(value: Any, *, dtype: torch.dtype = torch.float32) -> TensorCase:
    """A tensor with given values."""
    return TensorCase(dtype, None, None, value)


class Support:
    """One call pattern: positional and keyword arguments, tensors given by descriptors.

    Raises:
        ArgumentError: An argument is a real tensor.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        for arg in (*args, *kwargs.values()):
            _refuse_tensors(arg)
        self.args = args
        self.kwargs = kwargs

    def call(self, seed: int = 0) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Arguments of a call: tensors in place of their descriptors, the same for each seed."""
        generator = torch.Generator().manual_seed(seed)
        return (
            tuple(_made(a, generator) for a in self.args),
            {name: _made(a, generator) for name, a in self.kwargs.items()},
        )

    def __repr__(self) -> str:
        parts = [*map(repr, self.args), *(f"{k}={v!r}" for k, v in self.kwargs.items())]
        return f"Support({', '.join(parts)})"


def _refuse_tensors(arg: Any) -> None:
    if isinstance(arg, list | tuple):
        for item in arg:
            _refuse_tensors(item)
    elif isinstance(arg, torch.Tensor):
        raise ArgumentError(
            "A Support describes tensors, it does not hold them",
            why=f"it was given a tensor of {arg.dtype} {list(arg.shape)}",
            fix="F32(2, 3), or T([1.0, 2.0]) for given values.",
        )


def _made(arg: Any, generator: torch.Generator) -> Any:
    if isinstance(arg, TensorCase):
        return arg.tensor(generator)
    return type(arg)(_made(a, generator) for a in arg) if isinstance(arg, list | tuple) else arg


def declare_supported(cases: Sequence[Support]) -> Callable[[Converter], Converter]:
    """Declare the call patterns for which a converter is known to work; stands above its registration.

    ::

        @declare_supported([Support(F32(2, 2), F32(2, 2)), Support(F16(4), 2, alpha=3)])
        @register_fx_node_ge_converter(torch.ops.ns.my_op.default)
        def convert_my_op(x, y, *, alpha=1): ...

    Raises:
        ArgumentError: ``cases`` are no :class:`Support`, or what is decorated is no converter.
    """
    wrong = [c for c in cases if not isinstance(c, Support)] if isinstance(cases, list | tuple) else [cases]
    if wrong:
        raise ArgumentError(
            "declare_supported takes a list of Support",
            why=f"it was given {wrong[0]!r}, a {type(wrong[0]).__name__}",
            fix="@declare_supported([Support(F32(2, 2))])",
        )

    def declare(converter: Converter) -> Converter:
        if not isinstance(converter, Converter):
            raise ArgumentError(
                "declare_supported decorates a converter",
                why=f"it decorates {converter!r}, a {type(converter).__name__}",
                fix="Put it above @register_fx_node_ge_converter(...).",
            )
        converter.supported_declaration = tuple(cases)
        return converter

    return declare
