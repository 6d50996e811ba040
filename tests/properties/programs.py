"""Random programs: lines over registers ``r0``, ``r1``, … that eager accepts, made into a function."""

from __future__ import annotations

import functools
import linecache
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from tests.pipeline.agreement import copies

__all__ = ["Program", "Registers"]


@dataclass(frozen=True)
class Program:
    """A function by its source: its arguments are the first registers."""

    arguments: int
    lines: tuple[str, ...]

    def __repr__(self) -> str:
        head = f"def program({', '.join(f'r{i}' for i in range(self.arguments))}):"
        return "\n    ".join([head, *self.lines]) + "\n"

    @functools.cached_property
    def function(self) -> Callable[..., Any]:
        source = repr(self)
        name = f"<program {abs(hash(source))}>"
        linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
        scope: dict[str, Any] = {"torch": torch}
        exec(compile(source, name, "exec"), scope)
        return scope["program"]


class Registers:
    """The values of a program so far, for each set of arguments, as eager computes them."""

    def __init__(self, arguments: Sequence[Sequence[Tensor]]) -> None:
        self.values = [list(given) for given in arguments]

    def __len__(self) -> int:
        return len(self.values[0])

    def accepts(self, expression: str, *, write: bool) -> bool:
        """Whether eager takes a step, whatever the arguments, and the values stay small."""
        results, after = [], []
        for before in self.values:
            # A write that is not taken must not have happened.
            regs = copies(before) if write else before
            try:
                # A line that a test has written down.
                result = eval(expression, {"torch": torch, **{f"r{i}": r for i, r in enumerate(regs)}})  # noqa: S307
            except (RuntimeError, IndexError, ValueError):
                return False
            if result.numel() == 0 or result.numel() > 5000 or not result.isfinite().all() or result.abs().max() > 50:
                return False
            results.append(result)
            after.append(regs)
        self.values = after
        if not write:
            for regs, result in zip(self.values, results, strict=True):
                regs.append(result)
        return True

    def rank(self, number: int) -> int:
        return self.values[0][number].dim()

    def is_expanded(self, number: int) -> bool:
        value = self.values[0][number]
        return any(stride == 0 and size > 1 for size, stride in zip(value.shape, value.stride(), strict=True))
