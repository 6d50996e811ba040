"""The text form of graphs: what it looks like, that it reads back to the same graph, what it says about bad text."""

# ruff: noqa: E501  (graphs as text)

from __future__ import annotations

import math
from typing import Any

import pytest
import sympy
from expecttest import assert_expected_inline
from hypothesis import given
from tests.ir.random_graphs import written_graphs

from torchair.errors import IRError, IRTextError
from torchair.ir.graph import Attr, Blob, Call, Graph, Literal, Origin, OutputSpec, Slot
from torchair.ir.text import from_text, structurally_equal, to_text
from torchair.ir.types import DType, Format, TensorType

FLOAT, INT64 = DType.DT_FLOAT, DType.DT_INT64
s0 = sympy.Symbol("s0", positive=True, integer=True)


def _full_graph() -> Graph:
    graph = Graph("graph_7")
    x = graph.add_input(TensorType.of(FLOAT, (s0, 4)), "x")
    n = graph.add_input(TensorType.of(INT64, (), content=(s0,)), "n")
    cache = graph.add_input(TensorType(DType.DT_BF16, (8, 4), "cuda:0", Format.FORMAT_FRACTAL_NZ), "cache")
    perm = graph.add_node(
        "Const", (), [TensorType.of(INT64, (2,), content=(1, 0))], attrs={"value": (1, 0)}, value_name="perm"
    )
    t = graph.add_node(
        "Transpose",
        (x, perm.output),
        [TensorType.of(FLOAT, (4, s0))],
        aliases=[(0, 0)],
        value_name="t",
        origin=Origin("t", "aten.t.default", "model.py:5, in forward: return x.t()  # 'a' \\ b"),
    )
    scatter = graph.add_node(
        "Scatter",
        (cache, t.output, None),
        [cache.type],
        attrs={
            "reduce": 'say "hi"\n',
            "axis": -0.0,
            "to": DType.DT_BF16,
            "w": Blob("const_0"),
            "z": (1j, [math.nan], ()),
        },
        output_names=["var"],
        writes=[(0, 0)],
        name="my.node",
    )
    graph.add_node(
        "Print",
        ((t.output, scatter.output),),
        [],
        side_effects=True,
        control=[scatter],
        scope={"_label": "s 1", "_on": True},
    )
    call = Call(
        "aten::nonzero_static.default",
        (Slot(0), (Slot(0), Slot(1, host=True), None), Attr("size")),
        (("dtype", Literal("dtype", "float32")),),
        (0,),
    )
    u0 = sympy.Symbol("u0", integer=True)
    two = graph.add_node(
        "torch_call",
        (t.output, n),
        [TensorType.of(INT64, (u0, 2)), TensorType.of(FLOAT, ())],
        attrs={"size": 3},
        call=call,
        binds=[("u0", 0, 0), ("zuf0", 1, None)],
        value_name="nz",
    )
    two.operand_strides = ((1, 4), None)
    graph.updates.append((cache, scatter.output))
    graph.set_outputs([t.output, None, n], [OutputSpec("tensor", (1, 4)), OutputSpec("none"), OutputSpec("int")])
    return graph


def test_everything_of_a_graph_is_in_the_text() -> None:
    graph = _full_graph()
    text = to_text(graph)
    assert_expected_inline(
        text,
        """\
graph graph_7(%x: float32[s0, 4], %n: int64[]{s0}, %cache: bfloat16[8, 4] in FRACTAL_NZ on cuda:0):
  %perm: int64[2]{1, 0} = Const(value=(1, 0))
  %t: float32[4, s0] = Transpose(%x, %perm) aliases %t=$0  # from t aten.t.default at model.py:5, in forward: return x.t()  # 'a' \\\\ b
  %my.node: bfloat16[8, 4] in FRACTAL_NZ on cuda:0 = Scatter<my.node>(%cache, %t, None, reduce="say \\"hi\\"\\n", axis=-0.0, to=bfloat16, w=blob("const_0"), z=(complex(0.0, 1.0), [nan], ())) -> var writes %my.node=$0
  Print([%t, %my.node]) side_effects after my.node scope(_label="s 1", _on=True)
  %nz_0: int64[u0, 2], %nz_1: float32[] = torch_call(%t, %n, size=3) binds u0=%nz_0[0], zuf0=%nz_1 strides $0=(1, 4) call aten::nonzero_static.default($0, ($0, $1.item, None), $size, dtype=dtype("float32")) writing $0
  update %cache <- %my.node
  return %t strides (1, 4), None, %n as int
""",
    )
    assert structurally_equal(from_text(text), graph)
    assert to_text(from_text(text)) == text


@given(written_graphs())
def test_any_graph_reads_back(graph: Graph) -> None:
    text = to_text(graph)
    back = from_text(text)
    assert structurally_equal(back, graph)
    assert structurally_equal(graph, back)
    assert to_text(back) == text


def test_what_a_person_writes() -> None:
    graph = from_text(
        """
        # Comments and line ends do not matter.
        graph g(%x: float32[2, n],):
          %a: float32[2, n] = Add(
            %x,   # the first
            %x,
          )  # not an origin
          %b: float32[2, n] = Add(%a, %x)  # at here
          Print([%a, %b,], n=1,) side_effects
          return %b
        """
    )
    assert_expected_inline(
        to_text(graph),
        """\
graph g(%x: float32[2, n]):
  %a: float32[2, n] = Add(%x, %x)
  %b: float32[2, n] = Add<Add_1>(%a, %x)  # at here
  Print([%a, %b], n=1) side_effects
  return %b
""",
    )
    assert graph.nodes[0].origin == Origin()
    assert graph.nodes[1].origin == Origin(source="here")


def test_the_name_of_a_node_is_written_when_nothing_tells_it() -> None:
    graph = Graph()
    x = graph.add_input(TensorType.of(FLOAT), "x")
    for value_name, name in ((None, None), ("add", None), ("Add_9", None), ("a", "Add_9"), ("b", None), (None, "a b")):
        graph.add_node("Add", (x, x), [x.type], value_name=value_name, name=name)
    assert_expected_inline(
        to_text(graph),
        """\
graph graph_1(%x: float32[]):
  %Add: float32[] = Add(%x, %x)
  %add: float32[] = Add<Add_1>(%x, %x)
  %Add_9: float32[] = Add<Add_2>(%x, %x)
  %a: float32[] = Add<Add_9>(%x, %x)
  %b: float32[] = Add<Add_3>(%x, %x)
  %"a b": float32[] = Add<"a b">(%x, %x)
  return
""",
    )
    back = from_text(to_text(graph))
    assert [n.name for n in back] == [n.name for n in graph]


def test_new_names_stay_unique_after_reading() -> None:
    graph = from_text("graph g(%x: float32[]): %Add: float32[] = Add(%x) return %Add")
    node = graph.add_node("Add", (graph.inputs[0],), [graph.inputs[0].type])
    assert (node.name, node.output.name) == ("Add_1", "Add_1")


def test_names_are_plain_strings() -> None:
    node = from_text("graph g(): %a: float32[] = Foo<Bar>(k=bool) -> z return %a").nodes[0]
    assert {type(s) for s in (node.name, node.op, node.output.name, *node.output_names, *node.attrs)} == {str}


def test_use_lists_are_right_after_reading() -> None:
    graph = from_text("graph g(%x: float32[]): %a: float32[] = Foo(%x, [%x]) return %a")
    assert [(u.node.name, u.index, u.element) for u in graph.inputs[0].uses] == [("Foo", 0, None), ("Foo", 1, 0)]


def test_blobs_are_given_by_name() -> None:
    text = 'graph g(): %w: float32[2] = Const(value=blob("w")) return %w'
    assert from_text(text, {"w": "the tensor"}).blobs == {"w": "the tensor"}
    assert from_text(text).blobs == {}
    with pytest.raises(IRTextError) as raised:
        from_text(text, {"v": "the tensor"})
    assert_expected_inline(
        str(raised.value),
        """\
The text of an IR graph cannot be read [TA302]
  why:
    line 1, column 41: no blob called 'w' was given
  where:
    graph g(): %w: float32[2] = Const(value=blob("w")) return %w
                                            ^""",
    )


_GOOD = (
    "graph g(%x: float32[2]): %a: float32[2] = Foo(%x, axis=1) -> y writes %a=$0 update %x <- %a return %a as tensor"
)


@pytest.mark.parametrize(
    "old, new, place, why, fix",
    [
        ("float32[2])", "floot32[2])", "floot32", "'floot32' is not a dtype", "Did you mean float32 or float6_e3m2?"),
        ("Foo(%x", "Foo(%X", "%X", "no value called %X is defined above", ""),
        ("Foo(%x", "Foo(%a", "%a,", "no value called %a is defined above", ""),
        ("%a: float32", "%x: float32", "%x: float32[2] =", "%x is defined twice", ""),
        ("%a: float32[2] =", "%a: float32[2], %a: float32[2] =", "%a: float32[2] =", "%a is defined twice", ""),
        ("axis=1", "axis=1, axis=2", "axis=2", "attribute 'axis' is given twice", ""),
        ("axis=1", "axis=1, %x", "%x)", "operands come before attributes", ""),
        ("axis=1", "axis", "axis", "found 'axis', expected a value such as %x, None or name=value", ""),
        ("axis=1", "axis=$dim", "$dim", "references to operands and attributes are for the call of a node", ""),
        ("axis=1", "axis=($1.item, 2)", "$1", "the node has 1 operands, counted from $0", ""),
        (
            "axis=1",
            'axis=dtype("f")',
            "dtype(",
            'dtype(...) is not a value; values: complex(1.0, 2.0), blob("name"), in a call also dtype("float32")',
            "",
        ),
        (
            "axis=1",
            "axis=floaty",
            "floaty",
            "found 'floaty', expected a number, a string, True, False, None, inf, nan or a dtype",
            "Did you mean float64 or float32 or float16?",
        ),
        (
            "axis=1",
            'axis="1',
            '"1',
            "found '\"', expected '(', '-', '[', a name, a number, a quoted string, an attribute such as $dim, an operand number such as $0",
            "",
        ),
        ("-> y", "-> y, z", "%a: float32[2] =", "1 outputs have 2 names", ""),
        ("-> y", "after Bar", "Bar", "no node called 'Bar' is above", ""),
        ("-> y", "-> y -> z", "-> z", "'output_names' stands twice on one node", ""),
        ("-> y", "scope(a=1)", "a=1", "a scope attribute is a string, True or False", ""),
        ("-> y", "binds u0=%x", "%x writes", "%x is not an output of this node", ""),
        ("-> y", "binds u0=%a[1]", "1] writes", "%a has 1 dimensions", ""),
        ("-> y", "call f($1)", "$1", "the node has 1 operands, counted from $0", ""),
        ("-> y", "call f($0.size)", "size", "found 'size', expected 'item'", ""),
        ("-> y", "call f($axes)", "$axes", "the node has no attribute 'axes'", "Did you mean axis?"),
        ("-> y", "call f(a=1, 2)", "2) writes", "positional arguments come before keywords", ""),
        ("writes %a=$0", "writes %a=0", "0 update", "found '0', expected an operand number such as $0", ""),
        ("writes %a=$0", "writes %a=$1", "$1", "the node has 1 operands, counted from $0", ""),
        ("as tensor", "as tensr", "tensr", "'tensr' is not a kind of output", "Kinds: tensor, none, int, float, bool."),
        ("float32[2])", "float32[2] in XY)", "XY", "'XY' is not a format", ""),
        ("Foo(", "Foo<Bar>(%x) %b: float32[2] = Foo<Bar>(", "<Bar>(%x, ", "'Bar' is the name of another node", ""),
        ("Foo(", 'Foo<"">(', "<", "a node needs a name", ""),
        (
            "graph g",
            "symbols s0: intger graph g",
            "intger",
            "'intger' says nothing about a number",
            "Use integer, real, positive, nonnegative or any.",
        ),
        ("graph g", "symbols s0: integer, s0: real graph g", "s0: real", "s0 is declared twice", ""),
        ("graph g", "symbols s0: integer !rational graph g", "s0:", "s0: no number is all of that", ""),
        ("graph", "grpah", "grpah", "found 'grpah', expected 'graph', 'symbols'", ""),
        ("return %a", "return a", "a as", "no value called a is defined above", ""),
    ],
)
def test_bad_text_is_refused_with_its_place(old: str, new: str, place: str, why: str, fix: str) -> None:
    from_text(_GOOD)
    bad = _GOOD.replace(old, new, 1)
    assert bad != _GOOD
    with pytest.raises(IRTextError) as raised:
        from_text(bad)
    assert raised.value.why == (f"line 1, column {bad.index(place) + 1}: {why}",)
    assert raised.value.fix == fix


def test_the_error_shows_the_place() -> None:
    with pytest.raises(IRTextError) as raised:
        from_text("graph g(\n  %x: float32[2],\n  %y: float23[2],\n): return")
    assert_expected_inline(
        str(raised.value),
        """\
The text of an IR graph cannot be read [TA302]
  why:
    line 3, column 7: 'float23' is not a dtype
  fix:
    Did you mean float32 or float6_e2m3 or float64?
  where:
      %y: float23[2],
          ^""",
    )


def test_the_error_shows_a_part_of_a_long_line() -> None:
    inputs = ", ".join(f"%x{i}: float32[{i}]" for i in range(50))
    with pytest.raises(IRTextError) as raised:
        from_text(f"graph g({inputs.replace('float32[25]', 'flt')}): return")
    assert_expected_inline(
        str(raised.value),
        """\
The text of an IR graph cannot be read [TA302]
  why:
    line 1, column 473: found ',', expected '['
  where:
    ...], %x23: float32[23], %x24: float32[24], %x25: flt, %x26: float32[26], %x27: float32[27], %x28: floa...
                                                         ^""",
    )


def test_unfinished_text() -> None:
    with pytest.raises(IRTextError) as raised:
        from_text("graph g(%x: float32[2]):\n  %a: float32[2] = Foo(%x)\n")
    assert_expected_inline(
        str(raised.value),
        """\
The text of an IR graph cannot be read [TA302]
  why:
    line 3, column 1: found the end of the text, expected '->', 'after', 'aliases', 'binds', 'call', 'return', 'scope', 'side_effects', 'strides', 'update', 'writes', a name, a quoted string, a value such as %x
  where:
    ^""",
    )


class _Odd:
    def __repr__(self) -> str:
        return "<odd>"


@pytest.mark.parametrize("value", [_Odd(), {1: 2}, b"x"])
def test_an_attribute_of_another_kind_cannot_be_written(value: Any) -> None:
    graph = Graph()
    graph.add_node("Foo", (), [], attrs={"a": (1, value)})
    with pytest.raises(IRError) as raised:
        to_text(graph)
    assert str(raised.value) == (
        "An attribute is of a kind that the IR does not have [TA301]\n"
        "  why:\n"
        f"    {value!r} is a {type(value).__name__}"
    )


def test_comparison_sees_every_difference() -> None:
    text = to_text(_full_graph())
    changes = [
        ("graph_7", "graph_8"), ("%x", "%X"), ("[s0, 4]", "[s0, 5]"), ("cuda:0", "cuda:1"), ("FRACTAL_NZ", "NCHW"),
        ("-0.0", "0.0"), ("value=(1, 0)", "value=(1, 0.0)"), ("value=(1, 0)", "value=[1, 0]"), ("value=(1, 0)", "value=(True, 0)"),
        ("float32[s0", "float16[s0"), ("{s0}", "{s1}"), ("my.node", "my.nodes"), ("-> var", "-> ref"), ("writes", "aliases"),
        ("side_effects", ""), ('"s 1"', '"s 2"'), ("after my.node", ""), ("$1.item", "$1"), ('"float32"', '"float64"'),
        ("writing $0", ""), ("writing $0", "writing $1"), ("zuf0=", "zuf1="), ("u0=%nz_0[0]", "u0=%nz_0[1]"), ("model.py", "other.py"),
        ("from t ", "from u "), ("as int", "as float"), ("strides (1, 4)", "strides (1, 5)"), ("$0=(1, 4)", "$0=(1, 5)"),
        ("%t, None", "%t, %t"), ("%t, None", "%t, %x"), ("[%t,", "[%x,"), ("nan", "inf"), ("update %cache <- %my.node", ""),
        ('blob("const_0")', 'blob("const_1")'), ("1.0)", "2.0)"), ("%my.node: bfloat16[8, 4]", "%my.node: bfloat16[8, 5]"),
    ]  # fmt: skip
    for old, new in changes:
        assert old in text, old
        changed = text.replace(old, new)
        assert not structurally_equal(from_text(changed), from_text(text)), (old, new)


def test_comparison_ignores_the_order_of_attributes() -> None:
    a = from_text("graph g(): Foo(a=1, b=nan) return")
    b = from_text("graph g(): Foo(b=nan, a=1) return")
    assert structurally_equal(a, b)
