"""Types of IR values: dtype, format, symbolic shape and, for small host integers, the content itself.

This is the bottom of the IR: it knows sympy (what torch's symbolic sizes are made of), but not torch tensors. The one
table that relates dtypes of torch, NumPy and Ascend stands here.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TypeAlias

import sympy

__all__ = ["DType", "Dim", "Format", "TensorType", "as_dim"]

#: A size or host number: a plain number where it is known, else an expression of Dynamo's symbols.
Dim: TypeAlias = "int | float | bool | sympy.Basic"


class DType(enum.IntEnum):
    """Element types with the numbers of the public API (``torchair.ge.DataType``).

    The serialized graph has another numbering: :attr:`proto`. Source: feature specification, F-51 and D-16.
    """

    DT_FLOAT = 0
    DT_FLOAT16 = 1
    DT_INT8 = 2
    DT_INT32 = 3
    DT_UINT8 = 4
    DT_INT16 = 6
    DT_UINT16 = 7
    DT_UINT32 = 8
    DT_INT64 = 9
    DT_UINT64 = 10
    DT_DOUBLE = 11
    DT_BOOL = 12
    DT_STRING = 13
    DT_DUAL_SUB_INT8 = 14
    DT_DUAL_SUB_UINT8 = 15
    DT_COMPLEX64 = 16
    DT_COMPLEX128 = 17
    DT_QINT8 = 18
    DT_QINT16 = 19
    DT_QINT32 = 20
    DT_QUINT8 = 21
    DT_QUINT16 = 22
    DT_RESOURCE = 23
    DT_STRING_REF = 24
    DT_DUAL = 25
    DT_VARIANT = 26
    DT_BF16 = 27
    DT_UNDEFINED = 28
    DT_INT4 = 29
    DT_UINT1 = 30
    DT_INT2 = 31
    DT_UINT2 = 32
    DT_COMPLEX32 = 33
    DT_HIFLOAT8 = 34
    DT_FLOAT8_E5M2 = 35
    DT_FLOAT8_E4M3FN = 36
    DT_FLOAT8_E8M0 = 37
    DT_FLOAT6_E3M2 = 38
    DT_FLOAT6_E2M3 = 39
    DT_FLOAT4_E2M1 = 40
    DT_FLOAT4_E1M2 = 41
    DT_MAX = 42

    @property
    def torch_name(self) -> str | None:
        """Name of the torch dtype (``"float32"``), or None where torch has none."""
        row = _TABLE.get(self)
        return row[0] if row else None

    @property
    def short_name(self) -> str:
        """Name in the text form: torch's where there is one, else the enum's without ``DT_``, in lower case."""
        return self.torch_name or self.name.removeprefix("DT_").lower()

    @property
    def itemsize(self) -> int:
        """Bytes of one element; 0 where it is not a whole number of bytes."""
        row = _TABLE.get(self)
        return row[1] if row else 0

    @property
    def is_floating_point(self) -> bool:
        return self.kind == "f"

    @property
    def is_complex(self) -> bool:
        return self.kind == "c"

    @property
    def is_integer(self) -> bool:
        """Signed or unsigned integers, without bool."""
        return self.kind == "i"

    @property
    def kind(self) -> str:
        """``"b"`` bool, ``"i"`` integer, ``"f"`` floating point, ``"c"`` complex, ``""`` anything else."""
        row = _TABLE.get(self)
        return row[2] if row else ""

    @classmethod
    def from_name(cls, name: str) -> DType:
        """The dtype of a short name (``"float32"``).

        Raises:
            KeyError: No dtype has that name.
        """
        return _BY_NAME[name]


#: dtype -> (torch name, bytes of an element, kind)
_TABLE: dict[DType, tuple[str, int, str]] = {
    DType.DT_FLOAT: ("float32", 4, "f"),
    DType.DT_FLOAT16: ("float16", 2, "f"),
    DType.DT_BF16: ("bfloat16", 2, "f"),
    DType.DT_DOUBLE: ("float64", 8, "f"),
    DType.DT_FLOAT8_E5M2: ("float8_e5m2", 1, "f"),
    DType.DT_FLOAT8_E4M3FN: ("float8_e4m3fn", 1, "f"),
    DType.DT_FLOAT8_E8M0: ("float8_e8m0fnu", 1, "f"),
    DType.DT_INT8: ("int8", 1, "i"),
    DType.DT_INT16: ("int16", 2, "i"),
    DType.DT_INT32: ("int32", 4, "i"),
    DType.DT_INT64: ("int64", 8, "i"),
    DType.DT_UINT8: ("uint8", 1, "i"),
    DType.DT_UINT16: ("uint16", 2, "i"),
    DType.DT_UINT32: ("uint32", 4, "i"),
    DType.DT_UINT64: ("uint64", 8, "i"),
    DType.DT_BOOL: ("bool", 1, "b"),
    DType.DT_COMPLEX32: ("complex32", 4, "c"),
    DType.DT_COMPLEX64: ("complex64", 8, "c"),
    DType.DT_COMPLEX128: ("complex128", 16, "c"),
    DType.DT_QINT8: ("qint8", 1, ""),
    DType.DT_QINT32: ("qint32", 4, ""),
    DType.DT_QUINT8: ("quint8", 1, ""),
}
_BY_NAME: dict[str, DType] = {member.short_name: member for member in DType}


class Format(enum.Enum):
    """Physical layout of a tensor. Source: feature specification, F-52."""

    FORMAT_UNDEFINED = -1
    FORMAT_NCHW = 0
    FORMAT_NHWC = 1
    FORMAT_ND = 2
    FORMAT_NC1HWC0 = 3
    FORMAT_FRACTAL_Z = 4
    FORMAT_NC1HWC0_C04 = 12
    FORMAT_HWCN = 16
    FORMAT_NDHWC = 27
    FORMAT_FRACTAL_NZ = 29
    FORMAT_NCDHW = 30
    FORMAT_NDC1HWC0 = 32
    FORMAT_FRACTAL_Z_3D = 33
    FORMAT_NC = 35
    FORMAT_NCL = 47
    FORMAT_FRACTAL_NZ_C0_16 = 50
    FORMAT_FRACTAL_NZ_C0_2 = 52
    FORMAT_FRACTAL_NZ_C0_4 = 53
    FORMAT_FRACTAL_NZ_C0_8 = 54


def as_dim(value: Dim) -> Dim:
    """Normalize a size: numbers of sympy become Python numbers, so that equal sizes compare and print alike."""
    if isinstance(value, bool | int | float):
        return value
    if value is sympy.true or value is sympy.false:
        return value is sympy.true
    if value.is_Integer:
        return int(value)
    if value.is_Float or value.is_Rational:
        return float(value)
    return value


@dataclass(frozen=True, slots=True)
class TensorType:
    """The type of an IR value.

    Attributes:
        dtype: Element type.
        shape: Sizes, each an int or an expression of symbols.
        device: Torch's name of the device type and index (``"cpu"``, ``"cuda:0"``).
        format: Physical layout, ND unless a pass chose another.
        content: For host numbers (sizes, axes, permutations) the elements in row-major order; else None.
    """

    dtype: DType
    shape: tuple[Dim, ...]
    device: str = "cpu"
    format: Format = Format.FORMAT_ND
    content: tuple[Dim, ...] | None = None

    @classmethod
    def of(
        cls, dtype: DType, shape: Iterable[Dim] = (), *, device: str = "cpu", content: Iterable[Dim] | None = None
    ) -> TensorType:
        """Make a type with normalized sizes."""
        return cls(
            dtype,
            tuple(as_dim(d) for d in shape),
            device,
            content=None if content is None else tuple(as_dim(d) for d in content),
        )

    def __str__(self) -> str:
        """``float32[2, s0]``, for messages; the text form shows more."""
        return f"{self.dtype.short_name}[{', '.join(str(d) for d in self.shape)}]"

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def is_static(self) -> bool:
        """True when every size is a number."""
        return all(isinstance(d, int) for d in self.shape)

    @property
    def symbols(self) -> frozenset[sympy.Symbol]:
        """Symbols of the sizes and of the content."""
        found: set[sympy.Symbol] = set()
        for d in (*self.shape, *(self.content or ())):
            if isinstance(d, sympy.Basic):
                found |= d.free_symbols
        return frozenset(found)

    def with_content(self, content: Iterable[Dim] | None) -> TensorType:
        """The same type with other host content."""
        return replace(self, content=None if content is None else tuple(as_dim(d) for d in content))

    def same_tensor(self, other: TensorType) -> bool:
        """True when dtype and shape agree (content, device and format aside)."""
        return self.dtype == other.dtype and self.shape == other.shape
