"""Hypothesis strategies: symbolic sizes, types, and whole graphs with everything that text can show."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import sympy
from hypothesis import strategies as st
from torch.utils._sympy import functions as fn

from torchair.ir.graph import Attr, Blob, Call, Graph, Literal, Node, Operand, Origin, OutputSpec, Slot, Value
from torchair.ir.types import DType, Format, TensorType

_DTYPES = [DType.DT_FLOAT, DType.DT_INT64, DType.DT_BOOL, DType.DT_BF16, DType.DT_COMPLEX64, DType.DT_FLOAT8_E5M2]
_NAMES = ["x", "mul_1", "Add", "Add_1", "a b", 'say "hi"\n', "ключ", "return"]
_OPS = ["Add", "Reshape", "torch_call", "update", "My Op"]


def symbols() -> st.SearchStrategy[sympy.Symbol]:
    """Sizes, integers that may be negative, floats."""
    return st.sampled_from(
        [
            sympy.Symbol("s0", integer=True, positive=True),
            sympy.Symbol("s1", integer=True, positive=True),
            sympy.Symbol("s2", integer=True),
            sympy.Symbol("u0", integer=True),
            sympy.Symbol("zf0", real=True),
        ]
    )


def _combine(children: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    two = st.tuples(children, children)
    divisor = st.tuples(children, st.integers(2, 5).map(sympy.Integer))

    def made(arguments: st.SearchStrategy[Any], function: Callable[..., Any]) -> st.SearchStrategy[Any]:
        def call(args: tuple[Any, ...]) -> Any:
            try:
                return function(*args)
            except ValueError:  # some functions refuse infinite numbers
                return args[0]

        return arguments.map(call)

    return st.one_of(
        made(two, operator.add),
        made(two, operator.sub),
        made(two, operator.mul),
        made(two, lambda a, b: sympy.Mul(a, b, evaluate=False)),
        made(two, fn.Max),
        made(two, fn.Min),
        made(two, lambda a, b: fn.Where(sympy.Eq(a, b), a, b)),
        made(divisor, fn.FloorDiv),
        made(divisor, fn.PythonMod),
        made(divisor, lambda a, b: fn.FloorDiv(a, b, evaluate=False)),
        made(st.tuples(children), lambda a: a**2),
        made(st.tuples(children), lambda a: fn.ToFloat(a) * 0.5),
        made(st.tuples(children), lambda a: fn.TruncToInt(fn.ToFloat(a))),
    )


def dims() -> st.SearchStrategy[Any]:
    """Numbers and expressions."""
    leaves = st.one_of(symbols(), st.integers(-3, 9).map(sympy.Integer), st.floats(0.5, 2.5).map(sympy.Float))
    return st.one_of(st.integers(-9, 9), st.recursive(leaves, _combine, max_leaves=5))


def types() -> st.SearchStrategy[TensorType]:
    """Types with everything that a type may have."""
    content = st.one_of(dims(), st.booleans(), st.floats())
    return st.builds(
        TensorType,
        st.sampled_from(_DTYPES),
        st.lists(dims(), max_size=3).map(tuple),
        st.sampled_from(["cpu", "cpu", "cuda:0", "meta", "My:Device"]),
        st.sampled_from([Format.FORMAT_ND, Format.FORMAT_ND, Format.FORMAT_FRACTAL_NZ]),
        st.none() | st.lists(content, max_size=3).map(tuple),
    )


def literals() -> st.SearchStrategy[Any]:
    """Attribute values."""
    leaves = st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(),
        st.complex_numbers(),
        st.text(),
        st.sampled_from([DType.DT_FLOAT, DType.DT_UNDEFINED, DType.DT_MAX, Format.FORMAT_NCHW, Blob("w"), Blob("a b")]),
    )
    return st.recursive(leaves, lambda c: st.lists(c, max_size=3) | st.lists(c, max_size=3).map(tuple), max_leaves=6)


@st.composite
def written_graphs(draw: st.DrawFn) -> Graph:
    """Graphs with everything that text can show. Well formed, but their effects and symbols make no sense."""
    graph = Graph(draw(st.sampled_from(["graph_1", "a b", "graph"])))
    values: list[Value] = [
        graph.add_input(draw(types()), draw(st.sampled_from(_NAMES))) for _ in range(draw(st.integers(0, 3)))
    ]
    for _ in range(draw(st.integers(0, 4))):
        node = _node(draw, graph, values)
        values.extend(node.outputs)
    outputs = draw(st.lists(st.sampled_from([None, *values]), max_size=3))
    if draw(st.booleans()):
        kinds = st.sampled_from(["tensor", "none", "int", "float", "bool"])
        specs = st.builds(OutputSpec, kinds, st.none() | st.lists(dims(), max_size=2).map(tuple))
        graph.set_outputs(outputs, [draw(specs) for _ in outputs])
    else:
        graph.set_outputs(outputs)
    if values and graph.inputs:
        pairs = st.tuples(st.sampled_from(graph.inputs), st.sampled_from(values))
        graph.updates = draw(st.lists(pairs, max_size=2))
    return graph


def _node(draw: st.DrawFn, graph: Graph, values: list[Value]) -> Node:
    operands: list[Operand] = []
    for _ in range(draw(st.integers(0, 3))):
        kinds: list[st.SearchStrategy[Any]] = [st.none(), st.just(())]
        if values:
            kinds += [st.sampled_from(values), st.lists(st.sampled_from(values), max_size=2).map(tuple)]
        operands.append(draw(st.one_of(kinds)))
    flat = sum(len(o) if isinstance(o, tuple) else 1 for o in operands)
    slot = st.builds(Slot, st.integers(0, flat - 1), st.booleans()) if flat else st.none()
    values_of = literals() | slot | st.tuples(slot)
    attrs = draw(st.dictionaries(st.sampled_from(["axis", "strides", "in", "a b", "None"]), values_of, max_size=3))
    node = graph.add_node(
        draw(st.sampled_from(_OPS)),
        operands,
        [draw(types()) for _ in range(draw(st.integers(0, 2)))],
        attrs=attrs,
        value_name=draw(st.none() | st.sampled_from(_NAMES)),
        side_effects=draw(st.booleans()),
        scope=draw(
            st.dictionaries(st.sampled_from(["_user_stream_label", "a b"]), st.text() | st.booleans(), max_size=2)
        ),
        origin=draw(st.builds(Origin, *[st.text() | st.sampled_from(["", "at", "from x at y"])] * 3)),
        control=draw(st.lists(st.sampled_from(graph.nodes), max_size=2)) if len(graph) else (),
    )
    if draw(st.booleans()):
        node.output_names = tuple(draw(st.sampled_from(["y", "out 1", "writes"])) for _ in node.outputs)
    slots, outputs = range(len(node.operands)), range(len(node.outputs))
    if slots and outputs:
        pairs = st.lists(st.tuples(st.sampled_from(outputs), st.sampled_from(slots)), max_size=2).map(tuple)
        node.writes, node.aliases = draw(pairs), draw(pairs)
    if outputs and draw(st.booleans()):
        output = draw(st.sampled_from(outputs))
        rank = node.outputs[output].rank
        node.binds = (
            (
                draw(st.sampled_from(["u0", "a b"])),
                output,
                draw(st.none() | st.integers(0, rank - 1)) if rank else None,
            ),
        )
    if slots:
        strides = st.lists(dims(), max_size=2).map(tuple)
        node.operand_strides = draw(st.just(()) | st.tuples(*[st.none() | strides for _ in slots]))
    if draw(st.booleans()):
        parts: list[st.SearchStrategy[Any]] = [
            literals(),
            st.just(Literal("dtype", "float32")),
            st.just(Literal("device", "a:1")),
        ]
        if slots:
            parts.append(st.builds(Slot, st.sampled_from(slots), st.booleans()))
        if node.attrs:
            parts.append(st.sampled_from([Attr(name) for name in node.attrs]))
        tree = st.recursive(st.one_of(parts), lambda c: st.lists(c, max_size=2).map(tuple), max_leaves=4)
        node.call = Call(
            draw(st.sampled_from(["aten::add.Tensor", "my op"])),
            draw(st.lists(tree, max_size=2).map(tuple)),
            tuple(draw(st.dictionaries(st.sampled_from(["dim", "writing"]), tree, max_size=2)).items()),
            draw(st.lists(st.sampled_from(slots), max_size=2).map(tuple)) if slots else (),
        )
    return node
