"""Random programs that write memory through views: eager, native code in both modes, and capture mode agree.

Matrices, some of them views of others, are written whole, by rows, columns, diagonals, transposed and flat, between
values that are read through other views of the same memory, and calls that no native program takes in. What a program
wrote under one name must be seen under every other.
"""

from __future__ import annotations

import random

import hypothesis
import pytest
import torch
from hypothesis import Phase, given, settings, strategies as st
from torch import Tensor
from torch._dynamo.exc import BackendCompilerFailed

from tests.conformance.op_db import CAPTURE, STATIC, backend
from tests.pipeline.agreement import assert_agrees, copies
from tests.properties.programs import Program, Registers

pytestmark = pytest.mark.usefixtures("support")

#: New registers, ``{x}`` and ``{y}`` are some of before. ``cumsum`` and ``sort`` are calls between native programs.
_VALUES = (
    "{x} * 2 - {y}",
    "{x} + {y}",
    "{x}.clone()",
    "torch.zeros_like({x})",
    "torch.where({x} > {y}, {x}, -{y})",
    "{x}.amax(-1, keepdim=True)",
    "{x} @ {y}",
    "{x}.cumsum(0)",
    "{x}.sort(-1).values + 0",
)
_VIEWS = (
    "{x}.t()",
    "{x}[1:]",
    "{x}[0]",
    "{x}[:, 1::2]",
    "{x}[:, 0:3]",
    "{x}.view(-1)",
    "{x}.view(-1)[::3]",
    "{x}.diagonal()",
    "{x}.unsqueeze(0)",
    "{x}.view(2, 3, -1)",
    "{x}.transpose(0, -1)",
    "{x}.split(2)[1]",
    "{x}.unbind(-1)[0]",
)
#: Where a write goes: the register, or a view of it that has no name.
_PLACES = ("{p}", "{p}", "{p}", *(v.replace("{x}", "{p}") for v in _VIEWS))
_WRITES = (
    "{place}.add_({x})",
    "{place}.sub_({x}, alpha=2)",
    "{place}.mul_(-1)",
    "{place}.copy_({x})",
    "{place}.copy_({place}.flip(0))",
    "{place}.zero_()",
    "{place}.fill_(2)",
    "{place}.clamp_(-3, 3)",
    "{place}.masked_fill_({x} > 1, 3)",
    "{place}.add_({x}.sum() % 3)",
    "{place}.add_({x}.cumsum(0) % 3)",
    "{place}.index_fill_(0, torch.tensor([1]), 4)",
    "{place}.index_add_(0, torch.tensor([1, 1]), {x}[:2])",
    "{place}.index_copy_(-1, torch.tensor([1]), {x}[..., :1])",
    "{place}.scatter_(0, {x}.long().abs() % 2, {x})",
    "{place}.scatter_add_(-1, {x}.long().abs() % 2, {x})",
    "{place}.index_put_((torch.tensor([1, 0]),), {x}, accumulate=True)",
)
_SIZE = 6
_ARGUMENTS = 4
_SEEDS = (0, 1)


def _arguments(seed: int, dtype: torch.dtype, related: bool) -> list[Tensor]:
    """Three matrices and a row of small whole numbers, which every dtype represents; two may share memory."""
    generator = torch.Generator().manual_seed(seed)

    def make(*shape: int) -> Tensor:
        return torch.randint(-4, 5, shape, generator=generator).to(dtype)

    first = make(_SIZE, _SIZE)
    second = first.t() if related else make(_SIZE, _SIZE)
    return [first, second, make(_SIZE + 1, _SIZE)[1:], make(_SIZE)]


@st.composite
def _programs(draw: st.DrawFn, size: int, related: bool) -> Program:
    # Hypothesis would spend its choices on steps that eager refuses.
    return _program(random.Random(draw(st.integers(0, 2**32))), size, related)


def _program(rng: random.Random, size: int, related: bool) -> Program:
    regs = Registers([_arguments(seed, torch.int64, related) for seed in _SEEDS])
    lines: list[str] = []
    while len(lines) < size:
        x, y, p = (rng.randrange(len(regs)) for _ in range(3))
        kind = rng.choice(("value", "view", "write", "write"))
        templates = {"value": _VALUES, "view": _VIEWS, "write": _WRITES}[kind]
        # What shares memory with the place that is written is copied first, as eager mode asks for.
        value = f"r{x}.clone()" if kind == "write" and _shares(regs, p, x) else f"r{x}"
        place = rng.choice(_PLACES).format(p=f"r{p}")
        expression = rng.choice(templates).format(x=value, y=f"r{y}", place=place)
        made = f"r{len(regs)} = {expression}"
        if regs.accepts(expression, write=kind == "write"):
            lines.append(expression if kind == "write" else made)
    # AOTAutograd fails on results that are views of arguments that share memory, whatever the backend.
    copied = ".clone()" if related else ""
    results = [f"r{r}{copied}" for r in rng.sample(range(len(regs)), rng.randint(1, min(5, len(regs))))]
    return Program(_ARGUMENTS, (*lines, f"return [{', '.join(results)}]"))


def _shares(regs: Registers, one: int, other: int) -> bool:
    values = regs.values[0]
    return values[one].untyped_storage().data_ptr() == values[other].untyped_storage().data_ptr()


def _check(program: Program, engine: str, dtype: torch.dtype, related: bool, dynamic: bool | None = None) -> None:
    torch._dynamo.reset()
    given = [_arguments(seed, dtype, related) for seed in _SEEDS]
    try:
        torch.compile(program.function, backend="aot_eager", fullgraph=True)(*copies(given[0]))
    except (AssertionError, RuntimeError, IndexError, BackendCompilerFailed):
        # Without its writes in place a value may have strides that ``view`` refuses.
        hypothesis.reject()
    torch._dynamo.reset()
    compiled = torch.compile(program.function, backend=backend(engine), fullgraph=True, dynamic=dynamic)
    for arguments in given:  # the second call replays
        # AOTAutograd makes values that replace what was written in place; their strides may be others.
        assert_agrees(program.function, compiled, arguments, strides=False)


# Making an example smaller would take many compiles; a failure prints the whole program.
_ONCE = settings(phases=[Phase.explicit, Phase.reuse, Phase.generate])
_CASES = st.booleans().flatmap(lambda related: st.tuples(_programs(14, related), st.just(related)))
_DTYPES = st.sampled_from([torch.float32, torch.float32, torch.int64, torch.float64])


@pytest.mark.parametrize("engine", ["native", STATIC, CAPTURE, "reference"])
@settings(_ONCE, max_examples=8)
@given(_CASES, _DTYPES, st.sampled_from([None, True]))
def test_programs(engine: str, case: tuple[Program, bool], dtype: torch.dtype, dynamic: bool | None) -> None:
    _check(case[0], engine, dtype, case[1], dynamic)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("engine", ["native", STATIC, CAPTURE, "reference"])
@settings(_ONCE, max_examples=400)
@given(_CASES, _DTYPES, st.sampled_from([None, True]))
def test_programs_at_length(engine: str, case: tuple[Program, bool], dtype: torch.dtype, dynamic: bool | None) -> None:
    _check(case[0], engine, dtype, case[1], dynamic)
