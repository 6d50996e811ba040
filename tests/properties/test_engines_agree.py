"""Random small programs: eager, the engines of GE mode, and capture mode agree.

A program is a list of steps over registers: elementwise operators, broadcasting, reductions, views, casts, and writes
to arguments, to views of them and to values. Each runs with several sizes, and everything that a caller can see is
compared: results, their strides, which of them share memory, and what became of the arguments.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from hypothesis import Phase, given, settings, strategies as st

from tests.conformance.op_db import CAPTURE, backend
from tests.pipeline.agreement import assert_agrees
from tests.properties.programs import Program, Registers

#: Lines of programs: ``{x}`` and ``{y}`` are registers, ``{d}`` is an axis of ``{x}``. Values stay small, so that no
#: step makes rounding differences large.
_STEPS = {
    "unary": (
        "-{x}",
        "{x}.abs()",
        "{x}.sin()",
        "{x}.tanh()",
        "{x}.sigmoid()",
        "{x}.relu()",
        "({x} / 2).square()",
        "(-{x}.abs()).exp()",
        "{x}.double()",
        "{x}.float()",
        "{x}.clone()",
        "{x}.contiguous()",
        "torch.nn.functional.gelu({x})",
    ),
    "binary": (
        "{x} + {y}",
        "{x} - {y}",
        "{x} * {y}",
        "torch.maximum({x}, {y})",
        "({x} + {y}) / 2",
        "torch.add({x}, {y}, alpha=2)",
        "torch.cat([{x}, {y}], 0)",
        "({x} @ {y}).tanh()",
    ),
    "axis": (
        "{x}.sum({d}).tanh()",
        "{x}.mean({d}, keepdim=True)",
        "{x}.amax({d})",
        "{x}.softmax({d})",
        "{x}.cumsum({d}).sin()",
        "{x}.flip({d})",
        "{x}.unsqueeze({d})",
        "{x}.select({d}, 1)",
        "{x}.narrow({d}, 1, {x}.shape[{d}] - 1)",
        "{x}.chunk(2, {d})[1]",
        "torch.stack([{x}, {x}], {d})",
        "{x}.roll(1, {d})",
    ),
    "view": (
        "{x}.t()",
        "{x}.reshape(-1)",
        "{x}[..., ::2]",
        "{x}.unsqueeze(0).expand(3, *{x}.shape)",
        "{x}[1:]",
        "{x}.transpose(0, -1)",
    ),
    "write": (
        "{x}.add_({y})",
        "{x}.mul_({y}.tanh())",
        "{x}.copy_({y})",
        "{x}.zero_()",
        "{x}[1].copy_({y}[0] * 2)",
        "{x}[:2].add_({y}[-1])",
        "{x}.t().sub_({y}.t() / 3)",
    ),
}

#: Rows and columns of the arguments; never equal, so that no size is taken for another.
_SIZES = ((5, 4), (7, 3), (6, 9))


def arguments(rows: int, columns: int) -> list[torch.Tensor]:
    """Arguments of a program: matrices, one of them transposed, vectors, and a single number."""
    generator = torch.Generator().manual_seed(rows * 10 + columns)

    def make(*shape: int) -> torch.Tensor:
        return torch.rand(shape, generator=generator) * 2 - 1

    return [make(rows, columns), make(columns, rows).t(), make(columns), make(rows, 1), make(), make(rows, columns)]


ARGUMENTS = 6


@st.composite
def programs(draw: st.DrawFn, size: int) -> Program:
    """Programs of at most ``size`` steps."""
    regs = Registers([arguments(*sizes) for sizes in _SIZES])
    lines: list[str] = []
    for _ in range(size):
        kind = draw(st.sampled_from(["unary", "binary", "binary", "axis", "view", "write"]))
        template = draw(st.sampled_from(_STEPS[kind]))
        x, y = (draw(st.integers(0, len(regs) - 1)) for _ in range(2))
        axis = draw(st.integers(0, max(regs.rank(x) - 1, 0)))
        expression = template.format(x=f"r{x}", y=f"r{y}", d=axis)
        made = f"r{len(regs)} = {expression}"
        if kind == "write" and regs.is_expanded(x):
            continue  # Refused by GE mode (PyTorch drops such writes): tests/frontend/test_expanded_writes.py.
        if regs.accepts(expression, write=kind == "write"):
            lines.append(expression if kind == "write" else made)
    results = draw(st.lists(st.integers(0, len(regs) - 1), min_size=1, max_size=5))
    lines.append(f"return [{', '.join(f'r{r}' for r in results)}]")
    return Program(ARGUMENTS, tuple(lines))


def _check(program: Program, engine: str, dynamic: bool | None, sizes: Sequence[tuple[int, int]] = _SIZES) -> None:
    torch._dynamo.reset()
    compiled = torch.compile(program.function, backend=backend(engine), fullgraph=True, dynamic=dynamic)
    for some in sizes:
        assert_agrees(program.function, compiled, arguments(*some), rtol=2e-4, atol=1e-5)


# Making an example smaller would take many compiles; a failure prints the whole program.
_ONCE = settings(phases=[Phase.explicit, Phase.reuse, Phase.generate])


@settings(_ONCE, max_examples=12)
@given(programs(12), st.sampled_from([None, True]))
def test_reference(program: Program, dynamic: bool | None) -> None:
    _check(program, "reference", dynamic)


@settings(_ONCE, max_examples=12)
@given(programs(20), st.sampled_from([None, True]))
def test_capture_mode(program: Program, dynamic: bool | None) -> None:
    _check(program, CAPTURE, dynamic)


@settings(_ONCE, max_examples=5)
@given(programs(30), st.sampled_from([None, True]))
def test_inductor(program: Program, dynamic: bool | None) -> None:
    # Without dynamic sizes every size is another compile.
    _check(program, "inductor", dynamic, _SIZES if dynamic else _SIZES[:1])


@settings(_ONCE, max_examples=8)
@given(programs(30), st.sampled_from([None, True]))
def test_native(program: Program, dynamic: bool | None) -> None:
    _check(program, "native", dynamic, _SIZES if dynamic else _SIZES[:1])


@pytest.mark.slow
@pytest.mark.timeout(3600)
@settings(_ONCE, max_examples=200)
@given(programs(30), st.sampled_from([None, True]))
def test_native_at_length(program: Program, dynamic: bool | None) -> None:
    _check(program, "native", dynamic)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@settings(_ONCE, max_examples=200)
@given(programs(20), st.sampled_from([None, True]))
def test_reference_at_length(program: Program, dynamic: bool | None) -> None:
    _check(program, "reference", dynamic)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@settings(_ONCE, max_examples=60)
@given(programs(30), st.sampled_from([None, True]))
def test_inductor_at_length(program: Program, dynamic: bool | None) -> None:
    _check(program, "inductor", dynamic)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@settings(_ONCE, max_examples=300)
@given(programs(30), st.sampled_from([None, True]))
def test_capture_mode_at_length(program: Program, dynamic: bool | None) -> None:
    _check(program, CAPTURE, dynamic)
