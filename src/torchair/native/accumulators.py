"""Reductions as C++ variables: how they begin, take an element, and end."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import sympy
import torch

from torchair.native.formulas import VALUE_TYPES, constant_text
from torchair.native.operations import Reduce
from torchair.native.schedule import Group, Member
from torchair.native.statements import indented, plain

__all__ = ["STREAMS", "Accumulator", "counted_index"]

#: How many partial results a reduction of cheap values has at once. An addition takes four cycles, and one that waits
#: for the one before would leave the processor idle for three of them.
STREAMS = 4


def counted_index(member: Member, group: Group) -> sympy.Expr | None:
    """What ``argmax`` or ``argmin`` returns for an element, by loop variables; None for other members."""
    if not isinstance(member.operation, Reduce) or member.operation.count is None:
        return None
    inner = iter(group.variables[len(group.rows) :])
    return member.operation.count([sympy.S.Zero if size == 1 else next(inner) for size in member.operation.reduced])


class Accumulator:
    """The variables of one reduction.

    Args:
        member: The reduction.
        group: What it is a part of.
        name: A new name for it.
        column: Loop variable over results that are computed together; empty where one is.

    Attributes:
        is_serial: Its iterations must keep their order.
    """

    def __init__(self, member: Member, group: Group, name: str, column: str = "") -> None:
        assert isinstance(member.operation, Reduce)
        self.member = member
        self._operation = member.operation
        self._kind = member.operation.kind
        if member.operation.dtype is torch.bool and self._kind in ("max", "min"):
            self._kind = "any" if self._kind == "max" else "all"
        self._type = VALUE_TYPES[member.operation.dtype]
        # GCC 12 vectorizes no reduction of bool among wider numbers.
        self._is_wide_flag = self._kind in ("any", "all") and member.value.op != "load"
        if self._is_wide_flag:
            self._type = "int32_t"
        self._nan_type = "int64_t" if member.operation.dtype is torch.float64 else "int32_t"
        self._group = group
        self._column = f"[{column} - first]" if column else ""
        self._total, self._part, self._nan = name, f"{name}_part", f"{name}_nan"
        self._floating = member.operation.dtype.is_floating_point
        self.is_serial = self._kind.startswith("arg")

    @property
    def _wide(self) -> str:
        """The type in which sums of blocks are added."""
        return "double" if self._floating and self._kind in ("sum", "prod") else self._type

    def _identity(self) -> str:
        dtype = self._operation.dtype
        if self._kind == "sum":
            return constant_text(0, dtype)
        if self._kind == "prod":
            return constant_text(1, dtype)
        if dtype is torch.bool:
            is_true = self._kind in ("all", "argmin")
            return str(int(is_true)) if self._is_wide_flag else "true" if is_true else "false"
        if self._floating:
            return constant_text(-math.inf if self._kind.endswith("max") else math.inf, dtype)
        info = torch.iinfo(dtype)
        return constant_text(info.min if self._kind.endswith("max") else info.max, dtype)

    # --- by rows ---

    def found_at_once(self, name: str, count: str, body: Sequence[str], value: str) -> list[str] | None:
        """The statements that find the place of an extreme among all elements of a row; None where that is not it.

        Args:
            name: The loop variable.
            count: How many elements there are, not 0.
            body: What computes an element.
            value: Its name.
        """
        if not self.is_serial or self._operation.dtype is torch.bool:
            return None
        head = f"const int64_t {self._total}_at = tair::{self._kind}_over<{self._type}>({count}, [&](int64_t {name}) {{"
        return [head, *indented([*body, f"return {value};"]), "});"]

    def declarations(self) -> list[str]:
        lines = [f"{self._wide} {self._total} = {self._identity()};"]
        if self.is_serial:
            lines.append(f"int64_t {self._total}_at = -1;")
        elif self._floating and self._kind in ("max", "min"):
            lines.append(f"{self._nan_type} {self._nan} = 0;")
        return lines

    def _parts(self, streams: int) -> list[str]:
        return [f"{self._part}{stream or ''}" for stream in range(streams)]

    def begin_block(self, streams: int = 1) -> list[str]:
        if self.is_serial:
            return []
        # A product of a few dozen numbers leaves the range of float32, and infinity times 0 is not a number.
        kind = self._wide if self._kind == "prod" else self._type
        return [f"{kind} {', '.join(f'{p} = {self._identity()}' for p in self._parts(streams))};"]

    def clauses(self, streams: int = 1) -> list[str]:
        if self.is_serial:
            return []
        sign = {"sum": "+", "prod": "*", "max": "max", "min": "min", "any": "|", "all": "&"}[self._kind]
        found = [f"reduction({sign}:{', '.join(self._parts(streams))})"]
        if self._floating and self._kind in ("max", "min"):
            found.append(f"reduction(|:{self._nan})")
        return found

    def step(self, value: str, position: Callable[[sympy.Expr], str], stream: int = 0) -> list[str]:
        """Take one element.

        Args:
            value: Its name.
            position: The text of a position.
            stream: Which of the partial results takes it; see :data:`STREAMS`.
        """
        if self.is_serial:
            return self._arg_step(value, position)
        part = f"{self._total}{self._column}" if self._column else f"{self._part}{stream or ''}"
        nan = f"{self._nan}{self._column}"
        if self._kind in ("max", "min"):
            sign = ">" if self._kind == "max" else "<"
            lines = [f"{part} = {value} {sign} {part} ? {value} : {part};"]
            return [*lines, f"{nan} |= {value} != {value} ? 1 : 0;"] if self._floating else lines
        if self._kind in ("any", "all"):
            return [f"{part} {'|' if self._kind == 'any' else '&'}= {value}{' ? 1 : 0' if self._is_wide_flag else ''};"]
        if self._floating:
            return [f"{part} {'+' if self._kind == 'sum' else '*'}= {value};"]
        return [f"{part} = tair::{'add' if self._kind == 'sum' else 'multiply'}<{self._type}>({part}, {value});"]

    def _arg_step(self, value: str, position: Callable[[sympy.Expr], str]) -> list[str]:
        counted = counted_index(self.member, self._group)
        assert counted is not None
        at = plain(position(counted))
        best, place = f"{self._total}{self._column}", f"{self._total}_at{self._column}"
        sign = ">" if self._kind == "argmax" else "<"
        # The first of several, and the first NaN before all numbers.
        better = f"{place} < 0 || {value} {sign} {best}"
        if self._floating:
            better = f"{place} < 0 || (!({best} != {best}) && ({value} {sign} {best} || {value} != {value}))"
        return [f"if ({better}) {{", f"  {best} = {value};", f"  {place} = {at};", "}"]

    def end_block(self, streams: int = 1) -> list[str]:
        return [] if self.is_serial else [self._joined(part) for part in self._parts(streams)]

    def _joined(self, part: str) -> str:
        total = self._total
        if self._kind in ("max", "min"):
            sign = ">" if self._kind == "max" else "<"
            return f"{total} = {part} {sign} {total} ? {part} : {total};"
        if self._kind in ("any", "all"):
            return f"{total} {'|' if self._kind == 'any' else '&'}= {part};"
        if self._floating:
            return f"{total} {'+' if self._kind == 'sum' else '*'}= {part};"
        return f"{total} = tair::{'add' if self._kind == 'sum' else 'multiply'}<{self._type}>({total}, {part});"

    def final(self) -> str:
        """The result, in the dtype of the operation's output."""
        total = f"{self._total}{self._column}"
        if self.is_serial:
            return f"{self._total}_at{self._column}"
        if self._floating and self._kind in ("max", "min"):
            nan = constant_text(math.nan, self._operation.dtype)
            total = f"({self._nan}{self._column} ? {nan} : {total})"
        elif self._floating and self._operation.dtype is not torch.float64:
            total = f"static_cast<{self._type}>({total})"
        return f"tair::cast<{VALUE_TYPES[self.member.out.dtype]}>({total})"

    def result(self, name: str) -> str:
        return f"const {VALUE_TYPES[self.member.out.dtype]} {name} = {self.final()};"

    # --- by columns ---

    def array_declarations(self, count: int) -> list[str]:
        names = [(self._wide, self._total, self._identity())]
        if self.is_serial:
            names.append(("int64_t", f"{self._total}_at", "-1"))
        elif self._floating and self._kind in ("max", "min"):
            names.append((self._nan_type, self._nan, "0"))
        return [
            line
            for type, name, value in names
            for line in (f"{type} {name}[{count}];", f"for ({type}& x : {name}) x = {value};")
        ]
