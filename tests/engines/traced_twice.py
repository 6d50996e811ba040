"""Traces with copies of what was traced before, compared with traces without."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from unittest import mock

import torch

from torchair import _torch_compat
from torchair.engines import traced as traced_module
from torchair.engines.fx_trace import TracedGraph, trace_graph
from torchair.engines.inductor import InductorExecutable
from torchair.engines.repeats import Repeats
from torchair.ir import Graph
from torchair.source_lines import SOURCE
from torchair.streams import SCOPE

__all__ = ["Count", "assert_same", "traced_twice"]


@dataclass(slots=True)
class Count:
    """What was seen.

    Attributes:
        traces: Graphs that were traced.
        copied: Nodes that got copies of what was traced for others.
    """

    traces: int = 0
    copied: int = 0


@contextlib.contextmanager
def traced_twice() -> Iterator[Count]:
    """The inductor engine traces each graph with copies and without, compares both, and runs the first as it is."""
    count = Count()

    def trace(graph: Graph, inputs: Sequence[Any], fake_mode: Any, engine: str, whole: frozenset[Any]) -> TracedGraph:
        # The first trace fills the cache of fake tensors, from which sizes come out in another form.
        trace_graph(graph, inputs, fake_mode, engine, whole, repeat=False)
        without = trace_graph(graph, inputs, fake_mode, engine, whole, repeat=False)
        found = trace_graph(graph, inputs, fake_mode, engine, whole)
        assert_same(found, without)
        count.traces += 1
        return found

    def copy(self: Repeats, *args: Any) -> Any:
        count.copied += 1
        return real_copy(self, *args)

    def compiled(self: Any, traced: TracedGraph, fake_mode: Any) -> tuple[Any, Any]:
        return lambda args: traced.module(*args), None

    real_copy = Repeats.copy
    with (
        mock.patch.object(traced_module, "trace_graph", trace),
        mock.patch.object(Repeats, "copy", copy),
        mock.patch.object(InductorExecutable, "_compiled", compiled),
    ):
        yield count


def assert_same(a: TracedGraph, b: TracedGraph) -> None:
    """Compare code, what is known of each node, and all that belongs to the module."""
    assert a.module.code == b.module.code
    first, second = list(a.module.graph.nodes), list(b.module.graph.nodes)
    assert [n.name for n in first] == [n.name for n in second]
    for node, other in zip(first, second, strict=True):
        assert node.meta.keys() == other.meta.keys(), node
        assert _described(node.meta.get("val")) == _described(other.meta.get("val")), node
        for key in ("tensor_meta", SOURCE, SCOPE):
            assert str(node.meta.get(key)) == str(other.meta.get(key)), node
    assert _sharing(first) == _sharing(second)
    assert (a.used, a.has_effects, a.outputs, a.written, a.late) == (
        b.used,
        b.has_effects,
        b.outputs,
        b.written,
        b.late,
    )
    assert all(map(torch.equal, a.constants, b.constants))


def _described(val: Any) -> Any:
    if isinstance(val, torch.Tensor):
        assert _torch_compat.is_fake(val)
        numbers = [str(n) for n in (*val.shape, *val.stride(), val.storage_offset())]
        return val.dtype, val.device, val.dim(), numbers, val.requires_grad, type(val)
    if isinstance(val, list | tuple):
        return type(val), [_described(v) for v in val]
    return str(val)


def _sharing(nodes: Sequence[Any]) -> list[int]:
    """For each tensor of the nodes, the first one that lies in the same memory."""
    first: dict[int, int] = {}
    found: list[int] = []
    for node in nodes:
        val = node.meta.get("val")
        for tensor in val if isinstance(val, list | tuple) else [val]:
            if isinstance(tensor, torch.Tensor):
                found.append(first.setdefault(_torch_compat.storage_id(tensor), len(found)))
    return found
