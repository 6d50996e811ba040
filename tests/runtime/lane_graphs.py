"""FX graphs with streams, as frontends leave them, and random ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from hypothesis import strategies as st
from torch import fx
from torch._subclasses.fake_tensor import FakeTensorMode

import torchair.torchops.streams  # noqa: F401  registers record and wait
from torchair.capture.record import record
from torchair.runtime.plan import Plan
from torchair.streams import set_stream

__all__ = ["SIZE", "Builder", "random_graphs", "two_branches"]

aten = torch.ops.aten
SIZE = 8


@torch.library.custom_op("lane_tests::python", mutates_args=())
def python_operator(x: torch.Tensor, scale: float) -> torch.Tensor:
    """An operator with a kernel in Python."""
    return x * scale


@python_operator.register_fake
def _(x: torch.Tensor, scale: float) -> torch.Tensor:
    return torch.empty_like(x)


class Builder:
    """Makes a graph node by node."""

    def __init__(self, *inputs: torch.Tensor) -> None:
        self.graph = fx.Graph()
        self._mode = FakeTensorMode()
        self.inputs = [self._placed(self.graph.placeholder(f"x{i}"), x) for i, x in enumerate(inputs)]

    def _placed(self, node: fx.Node, value: torch.Tensor) -> fx.Node:
        node.meta["val"] = self._mode.from_tensor(value)
        return node

    def call(self, op: Callable[..., Any], *args: Any, stream: str = "", **kwargs: Any) -> fx.Node:
        """A call on a stream."""
        node = self.graph.call_function(op, args, kwargs)
        given, named = fx.map_arg((args, kwargs), lambda n: n.meta["val"])
        with self._mode:
            node.meta["val"] = op(*given, **named)
        node.meta["stack_trace"] = f'  File "model.py", line {len(self.graph.nodes)}, in forward\n    {node.name}'
        set_stream(node, stream)
        return node

    def record(self, stream: str = "") -> fx.Node:
        """A token for what was issued on a stream."""
        return self.call(torch.ops.npugraph_ex.record.default, stream=stream)

    def wait(self, *what: fx.Node, stream: str = "") -> fx.Node:
        """Let the next operator on a stream wait."""
        return self.call(torch.ops.npugraph_ex.wait.default, list(what), stream=stream)

    def finish(self, *outputs: fx.Node) -> fx.GraphModule:
        """The graph."""
        self.graph.output(tuple(outputs))
        self.graph.lint()
        return fx.GraphModule(torch.nn.Module(), self.graph)

    def plan(self, *outputs: fx.Node, **options: Any) -> Plan:
        """What is recorded of the graph."""
        return record(self.finish(*outputs), {}, explicit_order=True, **options)


def two_branches(x: torch.Tensor, length: int = 4, op: Callable[..., Any] = aten.mm.default) -> fx.GraphModule:
    """Two chains of binary operators on streams of their own, and their sum."""
    b = Builder(x)
    (given,) = b.inputs
    first = second = given
    for _ in range(length):
        first = b.call(op, first, given)
        second = b.call(op, second, given, stream="side")
    b.wait(b.record(stream="side"))
    return b.finish(b.call(aten.add.Tensor, first, second))


_UNARY = (aten.sin.default, aten.neg.default, aten.relu.default, aten.sigmoid.default)
_BINARY = (aten.add.Tensor, aten.mul.Tensor, aten.maximum.default, aten.mm.default)
_VIEWS = (aten.t.default, aten.alias.default)
_STREAMS = ("", "a", "b")


@st.composite
def random_graphs(draw: st.DrawFn, *, waits: bool = True) -> tuple[fx.GraphModule, list[torch.Tensor]]:
    """A graph over square matrices, with in-place updates, views, random numbers, Python kernels, and order that is
    sometimes written and sometimes left out; and its inputs."""
    inputs = [torch.randn(SIZE, SIZE, generator=torch.Generator().manual_seed(i)) / 4 for i in range(3)]
    b = Builder(*inputs)
    values = list(b.inputs)
    memory = {v: v for v in values}  # whose a view is
    tokens: list[fx.Node] = []
    for _ in range(draw(st.integers(4, 24))):
        stream = draw(st.sampled_from(_STREAMS))
        kind = draw(st.integers(0, 13))
        one, other = (values[draw(st.integers(0, len(values) - 1))] for _ in range(2))
        if kind <= 3:
            values.append(b.call(draw(st.sampled_from(_UNARY)), one, stream=stream))
        elif kind <= 6:
            values.append(b.call(draw(st.sampled_from(_BINARY)), one, other, stream=stream))
        elif kind == 7:
            values.append(b.call(draw(st.sampled_from(_VIEWS)), one, stream=stream))
            memory[values[-1]] = memory[one]
        elif kind == 8:
            # A new node, which shows the written value; others may still read the old name.
            values.append(b.call(aten.add_.Tensor, one, 0.5, stream=stream))
            memory[values[-1]] = memory[one]
        elif kind == 9 and memory[one] is not memory[other]:
            values.append(b.call(aten.copy_.default, one, other, stream=stream))
            memory[values[-1]] = memory[one]
        elif kind == 10:
            values.append(b.call(aten.rand_like.default, one, stream=stream))
        elif kind == 11:
            values.append(b.call(torch.ops.lane_tests.python.default, one, 0.5, stream=stream))
        elif kind == 12 and waits:
            tokens.append(b.record(stream=stream))
        elif kind == 13 and waits:
            b.wait(draw(st.sampled_from([*tokens, *values])), stream=stream)
        memory.setdefault(values[-1], values[-1])
    outputs = draw(st.lists(st.sampled_from(values), min_size=1, max_size=3, unique=True))
    return b.finish(*outputs), inputs


def clones(values: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Copies."""
    return [v.clone() for v in values]
