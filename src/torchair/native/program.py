"""A region of a graph, compiled: a list of stages over tables of pointers and sizes."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import sympy
import torch

from torchair.errors import Rejection
from torchair.native.emit import Kernel
from torchair.native.expressions import Buffer
from torchair.native.library import addresses
from torchair.native.region import product
from torchair.native.schedule import Group
from torchair.native.support import Stage, load_support
from torchair.runtime.memory import Lifetime, plan_offsets

__all__ = ["BoundProgram", "NativeProgram", "Output", "compile_programs"]


@dataclass(frozen=True, slots=True)
class Output:
    """A tensor that a program makes."""

    buffer: Buffer
    device: torch.device


@dataclass(frozen=True, slots=True, eq=False)
class BoundProgram:
    """A program for given sizes.

    Attributes:
        stages: An array of ``tair::Stage``.
        pointers: For each entry of the table of pointers, which memory (0: an argument, 1: an output, 2: the
            workspace), and which argument or output, or at which byte of the workspace.
        sizes: The table of sizes.
        errors: Bytes at the beginning of the workspace that must be zero; after a run, an int64 for each stage that is
            not zero where an index was out of range.
        workspace: Bytes of the workspace.
        inputs: Dtype, sizes and strides of each tensor argument.
        outputs: Dtype, sizes and strides of each output.
    """

    stages: Any
    pointers: tuple[tuple[int, int], ...]
    sizes: Any
    errors: int
    workspace: int
    inputs: tuple[tuple[torch.dtype, tuple[int, ...], tuple[int, ...]], ...]
    outputs: tuple[tuple[torch.dtype, tuple[int, ...], tuple[int, ...]], ...]


@dataclass(slots=True, eq=False, repr=False)
class NativeProgram:
    """What replaces a region of an FX graph; called with the tensors and numbers that the region takes.

    Attributes:
        inputs: One for each tensor argument.
        symbols: What each argument tells: ``(argument, which of its sizes and then strides or None for its value,
            symbol)``.
        outputs: What a call returns.
        written: Numbers of arguments that it writes.
    """

    groups: Sequence[Group]
    kernels: Sequence[Kernel]
    inputs: Sequence[Buffer]
    symbols: Sequence[tuple[int, int | None, sympy.Symbol]]
    outputs: Sequence[Output]
    written: Sequence[int]
    _addresses: list[int] = field(default_factory=list)
    _bound: dict[tuple[int, ...], BoundProgram] = field(default_factory=dict)

    __name__ = "native"

    def __call__(self, *arguments: Any) -> list[torch.Tensor]:
        """Run, without a plan."""
        values = [
            a if d is None else (*a.shape, *a.stride())[d] for a, d in ((arguments[i], d) for i, d, _ in self.symbols)
        ]
        key = tuple(int(v) for v in values)
        bound = self._bound.get(key)
        if bound is None:
            known = {symbol: sympy.Integer(v) for (_, _, symbol), v in zip(self.symbols, key, strict=True)}
            bound = self._bound[key] = self.bind(known)
        outputs = [torch.empty_strided(sizes, strides, dtype=dtype) for dtype, sizes, strides in bound.outputs]
        workspace = torch.zeros(bound.workspace + 64, dtype=torch.uint8)
        base = -(-workspace.data_ptr() // 64) * 64
        tensors = [_placed(a, *spec) for a, spec in zip(arguments, bound.inputs, strict=False)]
        given = [t.data_ptr() for t in tensors]
        made = [o.data_ptr() for o in outputs]
        bases = (given, made)
        table = [base + n if kind == 2 else bases[kind][n] for kind, n in bound.pointers]
        support = load_support()
        assert not isinstance(support, Rejection)
        support.handle.torchair_run_program(
            bound.stages,
            len(self.groups),
            (ctypes.c_void_p * max(len(table), 1))(*table),
            bound.sizes,
            torch.get_num_threads(),
        )
        for i in self.written:
            if tensors[i] is not arguments[i]:
                arguments[i].copy_(tensors[i])
            torch.autograd.graph.increment_version(arguments[i])
        self._raise_errors(workspace)
        return outputs

    def _raise_errors(self, workspace: torch.Tensor) -> None:
        start = -workspace.data_ptr() % 64
        flags = workspace[start : start + 8 * len(self.kernels)].view(torch.int64)
        if not bool(flags.any()):
            return
        raise IndexError(self.messages[next(i for i, flag in enumerate(flags.tolist()) if flag)])

    @property
    def workers(self) -> int:
        """At most so many threads run it; 0: all that there are."""
        limits = [group.workers for group in self.groups]
        return 0 if 0 in limits else max(limits, default=0)

    @property
    def messages(self) -> list[str]:
        """For each stage, what an index out of range means."""
        return [f"an index is out of range in {'; '.join(kernel.checks)}" for kernel in self.kernels]

    def bind(self, known: Mapping[sympy.Symbol, sympy.Expr]) -> BoundProgram:
        """The program for given values of the symbols of sizes."""
        known = dict(known)  # as xreplace wants it

        def number(e: sympy.Expr) -> int:
            return int(e if e.is_Integer else e.xreplace(known))

        if not self._addresses:
            compile_programs([self])
        positions = {b: (0, i) for i, b in enumerate(self.inputs)}
        positions.update({o.buffer: (1, i) for i, o in enumerate(self.outputs)})
        lives: dict[Buffer, list[int]] = {}
        for step, kernel in enumerate(self.kernels, 1):
            for b in kernel.pointers:
                if b not in positions and b.role != "errors":
                    lives.setdefault(b, [step, step])[1] = step
        spans = self._barrier_spans()
        lifetimes = [
            Lifetime(spans[first - 1][0], spans[last - 1][1], max(number(product(b.shape)), 1) * b.dtype.itemsize)
            for b, (first, last) in lives.items()
        ]
        order = sorted(range(len(lifetimes)), key=lambda i: lifetimes[i].first)
        offsets, total = plan_offsets([lifetimes[i] for i in order])
        errors = -(-8 * len(self.kernels) // 64) * 64
        buffers = list(lives)
        positions.update({buffers[i]: (2, errors + o) for i, o in zip(order, offsets, strict=True)})
        pointers: list[tuple[int, int]] = []
        sizes: list[int] = []
        stages = (Stage * max(len(self.groups), 1))()
        for i, (group, kernel) in enumerate(zip(self.groups, self.kernels, strict=True)):
            stages[i] = Stage(self._addresses[i], len(pointers), len(sizes), group.workers, int(group.barrier))
            pointers += [(2, 8 * i) if b.role == "errors" else positions[b] for b in kernel.pointers]
            sizes += [number(s) for s in kernel.sizes]
        given, made = (
            tuple((b.dtype, tuple(map(number, b.shape)), tuple(map(number, b.strides))) for b in buffers)
            for buffers in (self.inputs, [o.buffer for o in self.outputs])
        )
        table = (ctypes.c_int64 * max(len(sizes), 1))(*sizes)
        return BoundProgram(stages, tuple(pointers), table, errors, errors + total, given, made)

    def _barrier_spans(self) -> list[tuple[int, int]]:
        """For each stage, the first and last stage that may run at the same time as it."""
        starts = []
        first = 0
        for i, group in enumerate(self.groups):
            if group.barrier:
                first = i
            starts.append(first)
        ends = [0] * len(starts)
        last = len(starts) - 1
        for i in range(len(starts) - 1, -1, -1):
            ends[i] = last
            if self.groups[i].barrier:
                last = i - 1
        return list(zip(starts, ends, strict=True))


def _placed(tensor: torch.Tensor, dtype: torch.dtype, sizes: Sequence[int], strides: Sequence[int]) -> torch.Tensor:
    """The tensor in the strides that a program was compiled for; as ``runtime/native.h`` does it in a plan."""
    if (tensor.dtype, tuple(tensor.shape)) != (dtype, sizes):
        raise RuntimeError(f"a tensor is {tensor.dtype} {list(tensor.shape)}, promised was {dtype} {list(sizes)}")
    pairs = zip(sizes, tensor.stride(), strides, strict=True)
    if tensor.numel() == 0 or all(size == 1 or a == b for size, a, b in pairs):
        return tensor
    own = [1 if stride == 0 else size for size, stride in zip(sizes, strides, strict=True)]
    first = tensor[tuple(slice(0, size) for size in own)]
    return torch.empty_strided(own, strides, dtype=dtype).copy_(first)


def compile_programs(programs: Sequence[NativeProgram]) -> None:
    """Compile the kernels of programs; together is faster than one by one.

    Raises:
        BuildError: There is no compiler, or a function does not compile.
    """
    found = iter(addresses([k for program in programs for k in program.kernels]))
    for program in programs:
        program._addresses = [next(found) for _ in program.kernels]
