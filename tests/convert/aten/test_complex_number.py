"""Complex numbers agree with eager, in the operators of Ascend IR."""

from __future__ import annotations

from typing import Any

import torch

from tests.convert.conversion import check, converted_ops
from tests.convert.operands import COMPLEX, dtypes


@dtypes((torch.complex64,), COMPLEX)
def test_complex_numbers(dtype: torch.dtype) -> None:
    z = torch.randn(3, 4, dtype=dtype)

    def parts(z: torch.Tensor) -> Any:
        real = torch.view_as_real(z)
        return (
            real + 1,
            z.real * 2,
            z.imag * 2,
            z.conj() * 1,
            z.conj().imag + 1,
            torch.conj_physical(z),
            torch.conj_physical(real),
            torch.complex(z.real, z.imag) + 0,
            torch.view_as_complex(real * 2),
            z.abs(),
            z.resolve_conj() + 1,
            torch.real(z.t()) + 1,
        )

    check(parts, z, unconverted_ops="error")
    check(parts, z.t(), unconverted_ops="error")


def test_views_of_an_argument() -> None:
    """Results that are views of an argument share its memory, as in eager."""
    z = torch.randn(3, dtype=torch.complex64)
    check(lambda z: (torch.view_as_real(z), z.conj(), z.imag), z)
    check(lambda x: torch.view_as_complex(x), torch.randn(3, 2))
    check(lambda z: torch.view_as_real(z).mul_(2), z)


def test_operators() -> None:
    z = torch.randn(3, dtype=torch.complex64)
    assert converted_ops(lambda z: torch.complex(z.real, z.imag) + 1, z)[-2:] == ["Complex", "Add"]
    assert converted_ops(lambda z: torch.conj_physical(z), z) == ["Conj"]
    assert converted_ops(torch.abs, z) == ["ComplexAbs"]
