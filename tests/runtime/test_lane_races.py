"""What runs lanes has no race: recorded plans, step by step over plain memory, under ThreadSanitizer."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
import torch
from hypothesis import Phase, given, settings

from tests.runtime.lane_graphs import random_graphs, two_branches
from torchair.build import find_compiler
from torchair.capture.record import record
from torchair.config import Environment
from torchair.errors import Rejection
from torchair.runtime import order
from torchair.runtime.plan import Plan

_SOURCE = Path(__file__).with_name("run_lanes.cpp")
_INCLUDE = Path(order.__file__).parent


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``run_lanes.cpp``, with ThreadSanitizer."""
    compiler = find_compiler(Environment.read().cxx)
    if isinstance(compiler, Rejection):
        pytest.skip(compiler.reason)
    path = tmp_path_factory.mktemp("lanes") / "run_lanes"
    flags = ["-std=c++17", "-O1", "-g", "-fsanitize=thread", "-Wall", "-Wextra", "-Werror", f"-I{_INCLUDE}", "-pthread"]
    command = [*compiler.command, *flags, str(_SOURCE), "-o", str(path)]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    if "cannot find" in built.stderr and "tsan" in built.stderr:
        pytest.skip("the compiler has no ThreadSanitizer")
    assert built.returncode == 0, built.stderr
    return path


def _cells(regions: Sequence[order.Region], numbers: dict[object, int]) -> list[int]:
    """Numbers of the cells that stand for memory: of the arena one for 64 bytes."""
    names: list[object] = []
    for region in regions:
        names += (
            [(region.of, block) for block in range(region.begin // 64, -(-region.end // 64))]
            if region.end
            else [region]
        )
    return [numbers.setdefault(name, len(numbers)) for name in names]


def _text(plan: Plan, runs: int, throws_at: int = -1, without: tuple[int, int] | None = None) -> str:
    """A plan as the program reads it; ``without`` a wait of a step."""
    numbers: dict[object, int] = {}
    lines = []
    for i, (step, (reads, writes)) in enumerate(zip(plan.steps, order.accesses(plan), strict=True)):
        after = [a for a in step.after if (i, a) != without]
        lists = [after, _cells(sorted(reads, key=str), numbers), _cells(sorted(writes, key=str), numbers)]
        lines.append(" ".join(map(str, [step.lane, *(n for part in lists for n in (len(part), *part))])))
    head = f"{len(plan.lanes)} {len(plan.steps)} {len(numbers)} {runs} {throws_at}"
    return "\n".join([head, *lines, ""])


def _run(program: Path, text: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([program], input=text, capture_output=True, text=True, timeout=300, check=False)


def _check_random_plans(program: Path, count: int) -> None:
    @settings(max_examples=count, deadline=None, phases=[Phase.generate])
    @given(made=random_graphs())
    def check(made: tuple[torch.fx.GraphModule, list[torch.Tensor]]) -> None:
        plan = record(made[0], {})
        for throws_at in (-1, len(plan.steps) // 2):
            done = _run(program, _text(plan, 30, throws_at if plan.steps else -1))
            assert done.returncode == 0, done.stdout + done.stderr

    check()


def test_random_plans_have_no_race(program: Path) -> None:
    _check_random_plans(program, 8)


@pytest.mark.slow
def test_many_random_plans_have_no_race(program: Path) -> None:
    _check_random_plans(program, 60)


def _waits(plan: Plan) -> Iterator[tuple[int, int]]:
    return ((i, a) for i, step in enumerate(plan.steps) for a in step.after)


def test_a_missing_wait_is_a_race(program: Path) -> None:
    """The checker finds what it looks for."""
    plan = record(two_branches(torch.ones(4, 4), 3), {})
    (wait,) = _waits(plan)
    assert _run(program, _text(plan, 60)).returncode == 0
    done = _run(program, _text(plan, 60, without=wait))
    assert done.returncode != 0
    assert "data race" in done.stderr or "differs" in done.stdout
