"""Random functions with streams, tokens, waits, events, in-place updates and core limits agree with eager mode."""

from __future__ import annotations

import contextlib
import itertools
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from hypothesis import given, settings, strategies as st
from torch import Tensor

import npugraph_ex
import torchair

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


STATEMENTS = st.lists(
    st.builds(
        Statement,
        st.sampled_from(["sin", "add", "mul", "mm", "sort", "add_", "record", "wait", "event", "wait_event", "wait_x"]),
        st.sampled_from(["", "a", "b"]),
        st.integers(0, 9),
        st.integers(0, 9),
        st.booleans(),
    ),
    min_size=2,
    max_size=12,
)


def run(statements: list[Statement], event: Any, x: Tensor, w: Tensor) -> tuple[Tensor, ...]:
    """The function that the statements are."""
    values, tokens = [x, w, x + w], []
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
                values.append(a + b)
            elif s.kind == "mul":
                values.append(a * b * 0.5)
            elif s.kind == "mm":
                values.append((a @ b) * 0.125)
            elif s.kind == "sort":
                values.append(torch.sort(a).values)
            elif s.kind == "add_":
                w.add_(a)
            elif s.kind == "record":
                tokens.append(ops.record())
            elif s.kind == "wait" and tokens:
                ops.wait([tokens[s.first % len(tokens)]])
            elif s.kind == "event" and event is not None:
                ops.npu_tagged_event_record(event)
                recorded = True
            elif s.kind == "wait_event" and recorded:
                ops.npu_tagged_event_wait(event)
            elif s.kind == "wait_x":
                ops.wait([a])
    return tuple(v + 0 for v in values)


@pytest.mark.parametrize("engine", ["reference", "native", "capture"])
def test_random_streams(engine) -> None:
    @given(STATEMENTS)
    @settings(max_examples=3 if engine == "native" else 12, deadline=None)  # native code takes seconds to compile
    def check(statements: list[Statement]) -> None:
        event = None
        if engine == "capture":
            backend: Any = npugraph_ex.get_npu_backend()
            event = ops.npu_create_tagged_event(f"test_random_streams {next(_tags)}")
        else:
            config = torchair.CompilerConfig()
            config.engine = engine
            backend = torchair.get_npu_backend(compiler_config=config)
        torch.compiler.reset()
        compiled = torch.compile(lambda x, w: run(statements, event, x, w), backend=backend, fullgraph=True)
        with torch.no_grad():
            for _ in range(3):
                x, w = torch.rand(4, 4), torch.rand(4, 4)
                mine, theirs = w.clone(), w.clone()
                torch.testing.assert_close(compiled(x, mine), run(statements, event, x, theirs))
                torch.testing.assert_close(mine, theirs)

    check()
