"""Random functions with streams, tokens, waits, events, in-place updates and core limits agree with eager mode.

Most of the time of an example is that of compiling, so several functions are compiled as one.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, Phase, given, settings, strategies as st
from torch import Tensor

import npugraph_ex
import torchair
from torchair.pipeline.explain import captured_graphs

#: Tests pass what annotations forbid.
ops: Any = torchair.ops
scope: Any = torchair.scope

_tags = itertools.count()


@dataclass(frozen=True)
class Statement:
    """One line of a function: what it does, on which stream, with which values."""

    kind: str
    stream: str
    first: int
    second: int
    limited: bool


#: Values stay in [-1, 1].
_VALUES = ["sin", "add", "mul", "mm", "sort", "sum", "t"]
_UPDATES = ["add_", "mul_", "add_t", "copy_"]
_ORDER = ["record", "wait", "wait_x", "event", "wait_event", "keep", "npu_wait"]

STATEMENTS = st.lists(
    st.builds(
        Statement,
        st.sampled_from([*_VALUES, *_UPDATES, *_ORDER]),
        st.sampled_from(["", "a", "b"]),
        st.integers(0, 9),
        st.integers(0, 9),
        st.booleans(),
    ),
    min_size=2,
    max_size=12,
)


def run(statements: Sequence[Statement], event: Any, x: Tensor, w: Tensor) -> tuple[Tensor, ...]:
    """The function that the statements are; ``event`` is one with a tag, for capture mode."""
    values, tokens = [x, w, (x + w) * 0.5], []
    recorded = False
    for s in statements:
        with contextlib.ExitStack() as stack:
            if s.stream:
                stack.enter_context(scope.npu_stream_switch(s.stream))
            if s.limited:
                stack.enter_context(scope.limit_core_num(1, 1))
            a, b = values[s.first % len(values)], values[s.second % len(values)]
            if s.kind == "sin":
                values.append(a.sin())
            elif s.kind == "add":
                values.append((a + b) * 0.5)
            elif s.kind == "mul":
                values.append(a * b)
            elif s.kind == "mm":
                values.append((a @ b) * 0.25)
            elif s.kind == "sort":
                values.append(torch.sort(a).values)
            elif s.kind == "sum":
                values.append(torch.cumsum(a, 0) * 0.25)
            elif s.kind == "t":
                values.append(a.t())
            elif s.kind == "add_":
                w.mul_(0.5).add_(a * 0.5)
            elif s.kind == "mul_":
                a.mul_(0.75)
            elif s.kind == "add_t":
                w[1:].t().mul_(0.5).add_(b[:, 1:] * 0.5)
            elif s.kind == "copy_":
                w.copy_(a * 0.5 + 0.25)
            elif s.kind == "record":
                tokens.append(ops.record())
            elif s.kind == "wait" and tokens:
                ops.wait([tokens[s.first % len(tokens)]])
            elif s.kind == "wait_x":
                ops.wait([a])
            elif s.kind == "event" and event is not None:
                ops.npu_tagged_event_record(event)
                recorded = True
            elif s.kind == "wait_event" and recorded:
                ops.npu_tagged_event_wait(event)
            elif s.kind == "keep" and event is not None:
                ops.npu_record_tagged_stream(a, s.stream or "default")
            elif s.kind == "npu_wait":
                # Not for eager mode.
                values.append((scope.npu_wait_tensor(a, b) if torch.compiler.is_compiling() else a) + 0)
    return tuple(v + 0 for v in values)


@dataclass(frozen=True)
class Effort:
    """How much is tried: in each compiled function so many of ours, and how many of those.

    The first example that Hypothesis makes is the smallest there is, and counts for nothing.
    """

    functions: int
    compiled: int


EFFORT = {
    "reference": Effort(4, 6),
    "capture": Effort(4, 6),
    "native": Effort(12, 3),
    "inductor": Effort(3, 3),
}


def _backend(engine: str) -> Any:
    if engine == "capture":
        return npugraph_ex.get_npu_backend()
    config = torchair.CompilerConfig()
    config.engine = engine
    return torchair.get_npu_backend(compiler_config=config)


def _delay(compiled: Any, seed: int) -> None:
    """Let steps of plans begin and end late, so that lanes come in another order."""
    for _, graph in captured_graphs(compiled):
        for capture in graph.captures.values():
            for instance in capture._instances.values():
                instance.core.delay_steps(seed, 100 if seed else 0)


def agree(engine: str, functions: Sequence[Sequence[Statement]], calls: int = 4) -> None:
    """Functions, compiled as one, do what eager mode does."""
    capture = engine == "capture"
    events = [ops.npu_create_tagged_event(f"test_random_streams {next(_tags)}") if capture else None for _ in functions]

    def all_of(xs: list[Tensor], ws: list[Tensor]) -> list[tuple[Tensor, ...]]:
        return [run(s, event, x, w) for s, event, x, w in zip(functions, events, xs, ws, strict=True)]

    torch.compiler.reset()
    compiled = torch.compile(all_of, backend=_backend(engine), fullgraph=True)
    with torch.no_grad():
        for seed in range(calls):
            xs, ws = ([torch.rand(4, 4) for _ in functions] for _ in range(2))
            inputs, copies = (xs, ws), ([x.clone() for x in xs], [w.clone() for w in ws])
            torch.testing.assert_close(compiled(*inputs), all_of(*copies))
            torch.testing.assert_close(inputs, copies)
            if engine in ("capture", "native"):
                _delay(compiled, seed + 1)


def _check(engine: str, effort: Effort) -> None:
    found = 0

    @given(st.lists(STATEMENTS, min_size=effort.functions, max_size=effort.functions))
    @settings(
        max_examples=effort.compiled,
        deadline=None,
        # Shrinking compiles hundreds of times; the reference engine and capture mode find small examples.
        phases=list(Phase) if effort.functions < 5 else [Phase.explicit, Phase.reuse, Phase.generate],
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example],
    )
    def check(functions: list[list[Statement]]) -> None:
        nonlocal found
        agree(engine, functions)
        found += sum(len({s.stream for s in statements}) > 1 for statements in functions)

    check()
    assert found >= effort.functions * (effort.compiled - 1) // 2  # most have several streams


@pytest.mark.parametrize("engine", EFFORT)
def test_random_streams(engine) -> None:
    _check(engine, EFFORT[engine])


@pytest.mark.slow
@pytest.mark.parametrize("engine", EFFORT)
def test_many_random_streams(engine) -> None:
    effort = EFFORT[engine]
    _check(engine, Effort(effort.functions, 5 * effort.compiled))
