"""A region of an FX graph in the making: loop values of its nodes, and the operations that compute those in memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import sympy
import torch
from torch import fx

from torchair import _torch_compat
from torchair.native.expressions import Buffer, Builder, Expr
from torchair.native.operations import Compute, Operation, Shape

__all__ = ["LoopValue", "Region", "Unsupported", "compute_dtype", "sympy_shape"]

#: Longest chain of operators that becomes one expression.
_LONGEST_CHAIN = 48
#: What the expression of one element costs at most, in additions. One that reads other elements of computed values
#: contains what computes each of them: halving and joining in turn (a parallel scan) makes it double and double again.
_MOST_COST = 400


class Unsupported(Exception):  # noqa: N818  # not an error: the node runs as it is
    """A node that there is no code for; the argument says why."""


def compute_dtype(dtype: torch.dtype) -> torch.dtype:
    """In which dtype arithmetic on elements of a dtype happens."""
    return torch.float32 if dtype in (torch.bfloat16, torch.float16) else dtype


def sympy_shape(sizes: Sequence[Any]) -> Shape:
    """Sizes (numbers and ``SymInt``) as sympy expressions.

    One that the graph's guards say is 1 (``Eq(s0//4, 1)``, where PyTorch has broadcast) is 1.
    """
    return tuple(sympy.S.One if _is_guarded_one(s) else _torch_compat.sympy_number(s) for s in sizes)


def _is_guarded_one(size: Any) -> bool:
    return _torch_compat.size_hint(size) in (None, 1) and _torch_compat.known_true(size == 1)


@dataclass(eq=False, slots=True)
class LoopValue:
    """A tensor as a function from an index to an element.

    Attributes:
        shape: Its sizes.
        dtype: Its dtype, and that of its elements.
        element: ``(index, mask)`` to the element; where the mask is false it is anything, but nothing is read.
        buffer: Where it lies, if it does, in the strides that an index of ``shape`` takes.
        reads: Buffers that it reads.
        is_view: It is the contents of one buffer, whatever these are when it is read.
        depth: Operators in the longest chain in it.
        cost: Of one element, in additions.
    """

    shape: Shape
    dtype: torch.dtype
    element: Callable[[Sequence[sympy.Expr], Expr | None], Expr]
    buffer: Buffer | None = None
    reads: frozenset[Buffer] = frozenset()
    depth: int = 0
    cost: int = 0
    is_view: bool = False

    def computed(self) -> LoopValue:
        """The same elements as a value of its own: no view, and not yet in memory."""
        return replace(self, buffer=None, is_view=False)


class _Values(dict["fx.Node", Any]):
    """Loop values of nodes; a tuple for a node with several results."""

    def __init__(self) -> None:
        super().__init__()
        self._readers: dict[Buffer, dict[fx.Node, None]] = {}

    def __setitem__(self, node: fx.Node, value: Any) -> None:
        super().__setitem__(node, value)
        for part in value if isinstance(value, tuple) else (value,):
            if isinstance(part, LoopValue) and not part.is_view:
                for buffer in part.reads:
                    self._readers.setdefault(buffer, {})[node] = None

    def readers(self, buffer: Buffer) -> list[fx.Node]:
        """Nodes whose values read a buffer, or did when they were set first, in order."""
        return list(self._readers.get(buffer, ()))


@dataclass(eq=False, slots=True)
class Region:
    """What is known while the nodes of a region are lowered.

    Attributes:
        builder: Makes expressions.
        operations: In order.
        values: Loop values of nodes; a tuple for a node with several results.
        inputs: Tensors from outside, by node.
        errors: Where kernels report indices out of range.
        label: The operator that is being lowered.
        where: The user's line of it.
        barriers: Results of products and attention: what is made of them is no part of any earlier function.
        is_read_after: Whether a node, or a view of it, is read after another node, or outside of the region.
    """

    builder: Builder = field(default_factory=Builder)
    operations: list[Operation] = field(default_factory=list)
    values: _Values = field(default_factory=_Values)
    inputs: dict[fx.Node, Buffer] = field(default_factory=dict)
    errors: Buffer = field(
        default_factory=lambda: Buffer("errors", torch.int64, (sympy.Integer(8),), (sympy.S.One,), "errors")
    )
    label: str = ""
    where: str = ""
    barriers: set[Buffer] = field(default_factory=set)
    is_read_after: Callable[[fx.Node, fx.Node], bool] = lambda node, write: True
    _count: int = 0

    @property
    def place(self) -> str:
        """The current operator, and the user's line of it: for messages of what fails when it runs."""
        return f"{self.label}, at {self.where}" if self.where else self.label

    def value(self, node: fx.Node) -> LoopValue:
        """The tensor of a node."""
        found = self.values.get(node)
        if found is None:
            found = self.values[node] = self.from_buffer(self.input(node))
        assert isinstance(found, LoopValue), f"{node} is no single tensor"
        return found

    def input(self, node: fx.Node) -> Buffer:
        """The memory of a tensor that comes from outside."""
        if node not in self.inputs:
            tensor = node.meta["val"]
            self.inputs[node] = Buffer(
                node.name, tensor.dtype, sympy_shape(tensor.shape), sympy_shape(tensor.stride()), "input"
            )
        return self.inputs[node]

    def from_buffer(self, buffer: Buffer) -> LoopValue:
        """A tensor in memory."""

        def element(index: Sequence[sympy.Expr], mask: Expr | None) -> Expr:
            return self.builder.load(buffer, buffer.offset(index), mask)

        return LoopValue(buffer.shape, buffer.dtype, element, buffer, frozenset({buffer}), is_view=True)

    def new_buffer(self, shape: Shape, dtype: torch.dtype, strides: Shape | None = None) -> Buffer:
        """Memory for a result; contiguous unless strides are given."""
        self._count += 1
        return Buffer(f"b{self._count}", dtype, shape, strides or contiguous_strides(shape))

    def realize(self, value: LoopValue, strides: Shape | None = None) -> LoopValue:
        """The value in memory; in these strides, where given."""
        if value.buffer is not None and (strides is None or value.buffer.strides == strides):
            return value
        out = self.new_buffer(value.shape, value.dtype, strides)
        element = value.element
        self.operations.append(Compute(out, value.shape, lambda index: element(index, None), self.label))
        return self.from_buffer(out)

    def bounded(self, value: LoopValue) -> LoopValue:
        """The value, in memory if its chain of operators is long, or computing it costs much."""
        return self.realize(value) if value.depth >= _LONGEST_CHAIN or value.cost >= _MOST_COST else value

    def before_write(self, buffer: Buffer, write: fx.Node) -> None:
        """Compute what still has to see the old contents of a buffer."""
        for node in self.values.readers(buffer):
            found = self.values[node]
            parts = found if isinstance(found, tuple) else (found,)
            late = [isinstance(v, LoopValue) and not v.is_view and buffer in v.reads for v in parts]
            if any(late) and self.is_read_after(node, write):
                kept = tuple(self.realize(v) if is_late else v for v, is_late in zip(parts, late, strict=True))
                self.values[node] = kept if isinstance(found, tuple) else kept[0]


def contiguous_strides(shape: Shape) -> Shape:
    """Strides of a tensor in order."""
    strides: list[sympy.Expr] = []
    step: sympy.Expr = sympy.S.One
    for size in reversed(shape):
        strides.append(step)
        step = step * sympy.Max(size, 1) if size.free_symbols else step * max(int(size), 1)
    return tuple(reversed(strides))


def product(sizes: Sequence[sympy.Expr]) -> sympy.Expr:
    """The number of elements."""
    if all(s.is_Integer for s in sizes):
        return sympy.Integer(math.prod(int(s) for s in sizes))
    return sympy.Mul(*sizes)
