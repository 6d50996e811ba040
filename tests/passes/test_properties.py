"""Random graphs keep their results through every pass, also where operators write in place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st
from tests.passes.checking import same_results

from torchair.ir.graph import Call, Graph, Slot, Value
from torchair.ir.text import from_text, to_text
from torchair.ir.types import DType, TensorType
from torchair.ir.verify import verify
from torchair.opset.builder import GraphBuilder, building
from torchair.opset.infer import TypeInference
from torchair.opset.operator import operators
from torchair.passes import (
    EliminateCommonSubexpressions,
    EliminateDeadNodes,
    FoldTransposeIntoMatMul,
    GraphPass,
    MergeReshapes,
    MergeTransposes,
    PassRunner,
    Reinplace,
    RemoveIdentities,
    default_passes,
)

#: Shared: it remembers the types of what it has seen.
_TYPES = TypeInference()
_SHAPES = ((2, 3), (3, 2), (6,), (2, 2))


class _Program:
    """Builds one random graph as conversion would: functional, but for writes to copies."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw
        self.graph = Graph()
        self.builder = GraphBuilder(self.graph, _TYPES)
        self.values = [
            self.graph.add_input(TensorType.of(DType.DT_FLOAT, shape), name)
            for name, shape in (("x", (2, 3)), ("y", (2, 3)), ("z", (3, 2)), ("w", (6,)))
        ]

    def pick(self, shape: tuple[int, ...] | None = None) -> Value:
        return self.draw(st.sampled_from([v for v in self.values if shape is None or v.shape == shape]))

    def matrix(self) -> Value:
        return self.draw(st.sampled_from([v for v in self.values if v.rank == 2]))

    # Each adds something and returns a new value.

    def unary(self) -> Value:
        return self.op(self.draw(st.sampled_from(["Neg", "Abs", "Identity", "TensorMove"])), self.pick())

    def binary(self) -> Value:
        a = self.pick()
        return self.op(self.draw(st.sampled_from(["Add", "Mul"])), a, self.pick(a.shape))

    def cast(self) -> Value:
        return self.op("Cast", self.pick(), dst_type=DType.DT_FLOAT)

    def transpose(self) -> Value:
        return self.op("Transpose", self.matrix(), self.draw(st.sampled_from([[1, 0], [1, 0], [0, 1]])))

    def reshape(self) -> Value:
        a = self.pick()
        shapes = [s for s in (*_SHAPES, a.shape) if _numel(s) == _numel(a.shape)]
        return self.op("Reshape", a, list(self.draw(st.sampled_from(shapes))))

    def matmul(self) -> Value:
        a = self.matrix()
        fitting = [v for v in self.values if v.rank == 2 and v.shape[0] == a.shape[1]]
        if not fitting:
            return self.op("Neg", a)
        return self.op("MatMul", a, self.draw(st.sampled_from(fitting)))

    def write_all(self) -> Value:
        a = self.pick()
        return self.inplace(self.op("TensorMove", a), self.pick(a.shape))

    def write_rows(self) -> Value:
        """Write one or two pieces of a tensor through views, by one operator or by two."""
        a = self.pick()
        base = self.op("TensorMove", a)
        assert base.producer is not None
        base.producer.operand_strides = (_contiguous(a.shape),)
        offsets = self.draw(st.sampled_from([(0,), (2,), (0, 2), (2, 0)]))
        geometries = [([2], [1], offset) for offset in offsets]
        views = [self.op("AsStrided", base, *geometry) for geometry in geometries]
        addend = self.op("AsStrided", self.contiguous(self.pick()), [2], [1], 1)
        written = self.inplace_all(views, addend)
        for geometry, value in zip(geometries, written, strict=True):
            base = self.op("ViewCopy", base, *geometry, value, *geometry)
        return base

    def contiguous(self, a: Value) -> Value:
        copy = self.op("TensorMove", a)
        assert copy.producer is not None
        copy.producer.operand_strides = (_contiguous(a.shape),)
        return copy

    def op(self, name: str, *args: Any, **kwargs: Any) -> Value:
        with building(self.builder):
            result: Value = operators[name](*args, **kwargs)
        return result

    def inplace(self, target: Value, addend: Value) -> Value:
        return self.inplace_all([target], addend)[0]

    def inplace_all(self, targets: list[Value], addend: Value) -> tuple[Value, ...]:
        name = "add_" if len(targets) == 1 else "add_both_"
        slots = tuple(range(len(targets)))
        node = self.graph.add_node(
            "MyInplace",
            [*targets, addend],
            [t.type for t in targets],
            writes=[(i, i) for i in slots],
            call=Call(
                f"torchair_pass_tests::{name}.default", tuple(Slot(i) for i in range(len(targets) + 1)), writes=slots
            ),
        )
        return node.outputs

    def finish(self) -> Graph:
        outputs = self.draw(st.lists(st.sampled_from(self.values), max_size=3))
        self.graph.set_outputs(outputs)
        targets = self.draw(st.lists(st.sampled_from(self.graph.inputs), max_size=3, unique_by=id))
        self.graph.updates = [(target, self.pick(target.shape)) for target in targets]
        return self.graph


def _numel(shape: tuple[int, ...]) -> int:
    count = 1
    for size in shape:
        count *= size
    return count


def _contiguous(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(_numel(shape[i + 1 :]) for i in range(len(shape)))


@st.composite
def programs(draw: st.DrawFn) -> Graph:
    program = _Program(draw)
    steps: list[Callable[[], Value]] = [
        program.unary,
        program.binary,
        program.cast,
        program.transpose,
        program.reshape,
        program.matmul,
        program.write_all,
        program.write_rows,
    ]
    for _ in range(draw(st.integers(1, 9))):
        program.values.append(draw(st.sampled_from(steps))())
    return program.finish()


def _copy(graph: Graph) -> Graph:
    return from_text(to_text(graph))


_EACH: list[GraphPass] = [
    MergeTransposes(),
    MergeReshapes(),
    RemoveIdentities(),
    FoldTransposeIntoMatMul(),
    EliminateCommonSubexpressions(),
    Reinplace(),
    EliminateDeadNodes(),
]


@pytest.mark.parametrize("graph_pass", _EACH, ids=lambda p: p.name)
@settings(max_examples=40)
@given(programs())
def test_a_pass_keeps_results_and_finds_nothing_more_the_second_time(graph_pass: GraphPass, graph: Graph) -> None:
    verify(graph)
    before = _copy(graph)
    graph_pass.run(graph)
    verify(graph)
    same_results(before, graph)
    revision = graph.revision
    graph_pass.run(graph)
    assert graph.revision == revision


@settings(max_examples=150)
@given(programs(), st.permutations(_EACH))
def test_passes_in_any_order_keep_results(graph: Graph, passes: list[GraphPass]) -> None:
    before = _copy(graph)
    PassRunner(passes, verify=True).run(graph)
    same_results(before, graph)


@settings(max_examples=60)
@given(programs())
def test_the_default_order_keeps_results(graph: Graph) -> None:
    before = _copy(graph)
    PassRunner(default_passes(), verify=True).run(graph)
    same_results(before, graph)
