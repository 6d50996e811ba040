"""What a region of a graph computes, one entry for each value that lies in memory.

Element-by-element values that nothing needs in memory are no entries: they are part of the expressions that use them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import sympy
import torch

from torchair.native.expressions import Buffer, Expr

__all__ = [
    "Attention",
    "Compute",
    "ElementOf",
    "Operation",
    "Product",
    "Reduce",
    "Shape",
    "Strided",
    "Update",
    "label_of",
]

Shape: TypeAlias = "tuple[sympy.Expr, ...]"
#: Index -> the value of the element there.
ElementOf: TypeAlias = Callable[[Sequence[sympy.Expr]], Expr]


@dataclass(eq=False, slots=True)
class Compute:
    """Each element of ``out`` from its index."""

    out: Buffer
    shape: Shape
    element: ElementOf
    label: str = ""

    @property
    def writes(self) -> tuple[Buffer, ...]:
        return (self.out,)


@dataclass(eq=False, slots=True)
class Update:
    """Elements of an existing tensor: for each index of ``shape``, the element at ``position(index)``.

    Attributes:
        out: Memory that existed before.
        position: Where in ``out``, in elements.
        accumulate: Add to what is there.
        disjoint: Other updates of the same memory write other elements of it.
    """

    out: Buffer
    shape: Shape
    element: ElementOf
    position: Callable[[Sequence[sympy.Expr]], sympy.Expr]
    accumulate: bool = False
    disjoint: bool = False
    label: str = ""

    @property
    def writes(self) -> tuple[Buffer, ...]:
        return (self.out,)


@dataclass(eq=False, slots=True)
class Reduce:
    """A reduction over some axes of an index space.

    Attributes:
        out: The result, of the kept sizes in order.
        kind: ``"sum"``, ``"prod"``, ``"max"``, ``"min"``, ``"any"``, ``"all"``, ``"argmax"``, ``"argmin"``.
        kept: Sizes of the result.
        reduced: Sizes of the axes that are gone.
        element: ``(kept index, reduced index)``, joined, to the element.
        order: Axes of the operand, kept ones first, then reduced ones; tells which of them is innermost in memory.
        dtype: In which it accumulates.
        count: For ``argmax`` and ``argmin``: a reduced index to the number that it is in the result.
    """

    out: Buffer
    kind: str
    kept: Shape
    reduced: Shape
    element: ElementOf
    order: tuple[int, ...]
    dtype: torch.dtype
    count: Callable[[Sequence[sympy.Expr]], sympy.Expr] | None = None
    label: str = ""

    @property
    def writes(self) -> tuple[Buffer, ...]:
        return (self.out,)


@dataclass(frozen=True, eq=False, slots=True)
class Strided:
    """A tensor in memory that begins somewhere in a buffer.

    Attributes:
        start: Its first element, counted from the first of the buffer.
        strides: In elements; 0 where it is broadcast.
    """

    buffer: Buffer
    start: sympy.Expr
    strides: tuple[sympy.Expr, ...]


@dataclass(eq=False, slots=True)
class Product:
    """A matrix product of few rows: ``out[m, n] = sum_k left[m, k] * right[k, n]``.

    Attributes:
        out: ``[m, n]``.
        left, right: ``[m, k]`` and ``[k, n]``.
        sizes: ``(m, k, n)``; m is a small number.
    """

    out: Buffer
    left: Strided
    right: Strided
    sizes: tuple[int, sympy.Expr, sympy.Expr]
    label: str = ""

    @property
    def writes(self) -> tuple[Buffer, ...]:
        return (self.out,)


@dataclass(eq=False, slots=True)
class Attention:
    """Attention of few query rows over keys and values in memory.

    Attributes:
        out: ``[batch, heads, rows, depth]``.
        query, key, value: ``[batch, heads, rows, depth]``, and ``[batch, key heads, length, depth]`` twice.
        mask: ``[batch, heads, rows, length]``, added to the scores, or True where attended.
        sizes: ``(batch, heads, key heads, rows, length, depth)``.
    """

    out: Buffer
    query: Strided
    key: Strided
    value: Strided
    mask: Strided | None
    sizes: tuple[sympy.Expr, ...]
    scale: float
    causal: bool
    label: str = ""

    @property
    def writes(self) -> tuple[Buffer, ...]:
        return (self.out,)


Operation: TypeAlias = "Compute | Update | Reduce | Product | Attention"


def label_of(operation: Operation) -> str:
    """For comments and messages."""
    return operation.label or type(operation).__name__
