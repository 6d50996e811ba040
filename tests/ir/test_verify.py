"""The verifier: every rule finds what it is there for, alone, and lets right graphs pass."""

# ruff: noqa: E501  (graphs as text)

from __future__ import annotations

import pytest
import sympy
from expecttest import assert_expected_inline

from torchair.errors import IRError
from torchair.ir.graph import Attr, Blob, Call, Graph, Literal, OutputSpec, Slot, Use, Value
from torchair.ir.text import from_text
from torchair.ir.types import DType, TensorType
from torchair.ir.verify import RULES, verify, violations

FLOAT = TensorType.of(DType.DT_FLOAT, (2,))

INPLACE = """
graph g(%cache: float32[4, 2], %x: float32[2]):
  %size: int64[1]{2} = Const(value=(2,))
  %stride: int64[1]{1} = Const(value=(1,))
  %at: int64[]{4} = Const(value=(4,))
  %view: float32[2] = AsStrided(%cache, %size, %stride, %at) aliases %view=$0
  %view_1: float32[2] = MyInplace(%view, %x) -> x writes %view_1=$0
  %cache_1: float32[4, 2] = ViewCopy(%cache, %size, %stride, %at, %view_1, %size, %stride, %at) -> dst writes %cache_1=$0
  %sum: float32[] = ReduceSum(%cache_1)
  update %cache <- %cache_1
  return %sum
"""


def _broken(graph: Graph) -> list[str]:
    return [f"{v.rule}: {v.message}" for v in violations(graph)]


def _graph() -> Graph:
    return from_text("graph g(%x: float32[2]): %a: float32[2] = Foo(%x, k=1) %b: float32[2] = Bar(%a, [%x]) return %b")


@pytest.mark.parametrize(
    "text",
    [
        "graph g(): return",
        "graph g(%x: float32[2]): return %x, None",
        INPLACE,
        "graph g(%x: float32[s0], %n: int64[]{s1}): %a: float32[s0 + 2*s1] = Foo(%x) return %a",
        "graph g(%x: float32[4]): %a: int64[u0] = NonZero(%x) binds u0=%a[0] %b: int64[2*u0] = Foo(%a) return %b",
        "graph g(%x: float32[2]): %a: float32[2] = Foo(%x) writes %a=$0 update %x <- %a return %a",
        "graph g(%x: float32[2]): Print(%x) side_effects Print() side_effects after Print return",
    ],
)
def test_right_graphs_pass(text: str) -> None:
    verify(from_text(text))


def test_everything_wrong_is_listed_with_the_users_lines() -> None:
    graph = from_text(
        """
        graph g(%x: float32[2]):
          %a: float32[2] = Foo(%x) writes %a=$0  # at model.py:3, in forward: foo_(x)
          %b: float32[s5] = Bar(%x)  # at model.py:4, in forward: bar(x)
          return %b
        """
    )
    with pytest.raises(IRError) as raised:
        verify(graph)
    assert_expected_inline(
        str(raised.value),
        """\
An IR graph is not well formed [TA301]
  why:
    symbols: the type of %b has s5, which no input and no node before tells
    writes: Bar reads %x after Foo has overwritten its memory
    written-inputs: Foo overwrites memory of the input %x, which has no update
  where:
    model.py:4, in forward: bar(x)
    model.py:3, in forward: foo_(x)""",
    )


def test_each_rule_is_waived_alone() -> None:
    graph = from_text('graph g(%x: float32[2]): %a: float32[s5] = Foo(%x, w=blob("w")) return %a')
    assert _broken(graph) == [
        "symbols: the type of %a has s5, which no input and no node before tells",
        "blobs: Foo needs the constant tensor 'w'",
    ]
    assert [v.rule for v in violations(graph, ["symbols"])] == ["blobs"]
    verify(graph, ["symbols", "blobs"])


def test_waiving_an_unknown_rule() -> None:
    with pytest.raises(IRError) as raised:
        verify(Graph(), ["write"])
    assert str(raised.value) == (
        "There is no verifier rule of that name [TA301]\n"
        "  why:\n"
        "    'write' was to be waived\n"
        "  fix:\n"
        "    Did you mean writes?"
    )


def test_every_rule_says_what_it_asks() -> None:
    assert all(rule.__doc__ for rule in RULES.values())


# --- structure ---


def test_order() -> None:
    graph = _graph()
    graph.move_before(graph.nodes[1], graph.nodes[0])
    assert _broken(graph) == ["order: Bar reads %a, which only a later node makes"]


def test_a_value_from_nowhere() -> None:
    graph = _graph()
    stray = Value(graph, FLOAT, None, 0, "stray")
    graph.nodes[0].set_input(0, stray)
    assert _broken(graph) == ["order: Foo reads %stray, which nothing in the graph makes"]


def test_uses() -> None:
    graph = _graph()
    x, (foo, bar) = graph.inputs[0], graph.nodes
    del x._uses[Use(foo, 0)]
    x._uses[Use(bar, 0)] = None
    assert _broken(graph) == [
        "uses: %x lists a use by Bar (input 0), which does not read it",
        "uses: %x does not list its use by Foo (input 0)",
    ]


def test_producers() -> None:
    graph = _graph()
    foo, bar = graph.nodes
    foo.outputs = bar.outputs
    graph.inputs[0].index = 3
    assert [m for m in _broken(graph) if m.startswith("producers")] == [
        "producers: %x is number 0 of the graph's inputs, but says something else",
        "producers: %b is number 0 of Foo, but says something else",
        "producers: %b is made by Foo and again by Bar",
    ]
    other = _graph()
    other.inputs[0].graph = graph
    other.nodes[0].graph = graph
    assert [m for m in _broken(other) if m.startswith("producers")] == [
        "producers: %x belongs to another graph",
        "producers: Foo belongs to another graph",
    ]


def test_names() -> None:
    graph = _graph()
    graph.nodes[1].name = "Foo"
    graph.nodes[1].output.name = "a"
    graph.inputs[0].name = ""
    assert _broken(graph) == [
        "names: 2 nodes are called 'Foo'",
        "names: 1 values are called ''",
        "names: 2 values are called 'a'",
    ]


def test_node_fields() -> None:
    graph = _graph()
    foo, bar = graph.nodes
    foo.output_names = ("y", "z")
    foo.operand_strides = (None, None)
    foo.writes = ((0, 1),)
    foo.aliases = ((1, 0),)
    foo.binds = (("u0", 0, 1), ("u1", 2, None))
    bar.call = Call("f", (Slot(2), (Attr("dim"), None)), (("k", Slot(3)),), writes=(4,))
    bar.attrs["size"] = (Slot(5),)
    assert _broken(graph) == [
        "node-fields: Foo has 1 outputs and 2 names for them",
        "node-fields: Foo has 1 operands and strides for 2",
        "node-fields: writes of Foo: it has no output 0 or no operand 1",
        "node-fields: aliases of Foo: it has no output 1 or no operand 0",
        "node-fields: Foo binds u0 to dimension 1 of its output 0, which is not there",
        "node-fields: Foo binds u1 to dimension None of its output 2, which is not there",
        "node-fields: Bar refers to its operand 2, and has 2",
        "node-fields: Bar refers to its operand 3, and has 2",
        "node-fields: Bar refers to its operand 4, and has 2",
        "node-fields: Bar refers to its operand 5, and has 2",
        "node-fields: the call of Bar refers to an attribute 'dim', which the node does not have",
    ]


def test_a_write_of_an_absent_operand() -> None:
    graph = from_text("graph g(): %a: float32[2] = Foo(None) writes %a=$0 return %a")
    assert _broken(graph) == ["node-fields: writes of Foo: it has no output 0 or no operand 0"]


def test_attributes() -> None:
    graph = _graph()
    graph.nodes[0].set_attr("k", (1, [2.0], {3}))
    graph.nodes[1].set_attr(
        "good", (1, 2.0, True, None, "s", 1j, DType.DT_BOOL, Blob("w"), (Slot(0),), Literal("dtype", "bool"))
    )
    graph.blobs["w"] = object()
    assert _broken(graph) == [
        "attributes: attribute 'k' of Foo holds a list ([2.0])",
        "attributes: attribute 'k' of Foo holds a set ({3})",
    ]


def test_control() -> None:
    graph = _graph()
    foo, bar = graph.nodes
    foo.control = (bar,)
    bar.control = (_graph().nodes[0],)
    assert _broken(graph) == [
        "control: Foo waits for Bar, which stands later",
        "control: Bar waits for Foo, which is not in the graph",
    ]


def test_outputs_and_updates() -> None:
    graph = _graph()
    stray = _graph().nodes[0].output
    b, x = graph.nodes[1].output, graph.inputs[0]
    graph.outputs = [stray, None]
    graph.output_specs = [OutputSpec("none"), OutputSpec("tensor"), OutputSpec()]
    graph.updates = [(x, b), (x, stray), (b, b)]
    assert _broken(graph) == [
        "outputs: output 0, %a, is not made in the graph",
        "outputs: there are 2 outputs and 3 specifications of them",
        "outputs: an output of kind 'none' is %a",
        "outputs: an output of kind 'tensor' is None",
        "outputs: %x is updated 2 times",
        "outputs: %x is updated with %a, which is not made in the graph",
        "outputs: %b is updated, and is not a graph input",
    ]


def test_an_update_of_another_type() -> None:
    graph = from_text("graph g(%x: float32[2]): %a: float16[2] = Foo(%x) update %x <- %a return")
    assert _broken(graph) == ["outputs: %x is updated with %a of another type: float32[2] with float16[2]"]


# --- meaning ---


@pytest.mark.parametrize(
    "text, message",
    [
        ("graph g(%x: float32[s0 + 1]): return", "the type of %x has s0, which no input and no node before tells"),
        (
            "graph g(%x: float32[s0]): %a: int64[u0] = Foo(%x) %b: int64[1] = Item(%a) binds u0=%b return",
            "the type of %a has u0, which no input and no node before tells",
        ),
        (
            "graph g(%x: float32[2]): Foo(%x) strides $0=(s7,) return",
            "a stride of Foo has s7, which no input and no node before tells",
        ),
        (
            "graph g(%x: float32[2]): return %x strides (s7,)",
            "a stride of an output has s7, which no input and no node tells",
        ),
    ],
)
def test_symbols(text: str, message: str) -> None:
    assert _broken(from_text(text)) == [f"symbols: {message}"]


def test_symbols_of_one_name() -> None:
    graph = from_text("graph g(%x: float32[s0]): %a: float32[s0] = Foo(%x) return %a")
    graph.set_type(graph.nodes[0].output, TensorType(DType.DT_FLOAT, (sympy.Symbol("s0", integer=True),)))
    assert _broken(graph) == ["symbols: the type of %a has another s0, with other assumptions"]


def test_contents() -> None:
    assert _broken(from_text("graph g(%x: int64[2]{1}, %y: int64[]{1}, %z: int64[s0]{s0, 1}): return")) == [
        "contents: %x is int64[2]{1}: 1 numbers"
    ]


def _edited(old: str, new: str) -> list[str]:
    assert old in INPLACE
    return _broken(from_text(INPLACE.replace(old, new)))


def test_reads_after_a_write() -> None:
    read = "graph g(%x: float32[2]): %v: float32[2] = View(%x) aliases %v=$0 %a: float32[2] = Foo(%x) writes %a=$0 {0} update %x <- %a {1}"
    reads = {
        ("", "return %a"): [],
        ("%b: float32[2] = Bar(%x)", "return %b"): ["writes: Bar reads %x after Foo has overwritten its memory"],
        ("%b: float32[2] = Bar(%v)", "return %b"): ["writes: Bar reads %v after Foo has overwritten its memory"],
        ("%b: float32[2] = Bar(%a)", "return %b"): [],
        ("", "return %v"): ["writes: the graph returns or stores %v after Foo has overwritten its memory"],
        ("", "return %x"): ["writes: the graph returns or stores %x after Foo has overwritten its memory"],
    }
    for (node, result), expected in reads.items():
        assert _broken(from_text(read.replace("{0}", node).replace("{1}", result))) == expected


def test_a_node_may_read_what_it_overwrites_as_in_eager_mode() -> None:
    text = "graph g(%x: float32[2]): %v: float32[2] = View(%x) aliases %v=$0 %a: float32[2] = Foo(%x, %v) writes %a=$0 update %x <- %a return"
    assert _broken(from_text(text)) == []
    assert _broken(from_text(text.replace("Foo(%x, %v)", "Foo(%x, %x)"))) == []


def test_a_view_copy_from_its_own_memory() -> None:
    text = INPLACE.replace("  %view_1: float32[2] = MyInplace(%view, %x) -> x writes %view_1=$0\n", "").replace(
        "%view_1", "%view"
    )
    assert _broken(from_text(text)) == ["writes: ViewCopy reads %view while it overwrites memory that may be the same"]


def test_a_write_back_may_read_its_base() -> None:
    assert _edited("%sum", "%sum") == []


@pytest.mark.parametrize(
    "old, new, expected",
    [
        # another place than the view's
        ("ViewCopy(%cache, %size, %stride, %at", "ViewCopy(%cache, %size, %stride, %stride", "writes: ViewCopy reads %cache after MyInplace has overwritten its memory"),
        # not what was written through the view
        ("%view_1, %size", "%view, %size", "writes: ViewCopy reads %view after MyInplace has overwritten its memory"),
        # a reader between the write and the write-back
        ("%cache_1: float32", "%y: float32[4, 2] = Foo(%cache) %cache_1: float32", "writes: Foo reads %cache after MyInplace has overwritten its memory"),
    ],
)  # fmt: skip
def test_other_reads_of_a_written_base(old: str, new: str, expected: str) -> None:
    assert expected in _edited(old, new)


def test_a_base_that_was_overwritten_as_a_whole_is_not_put_back() -> None:
    found = _edited("%cache_1: float32", "%c: float32[4, 2] = Fill(%cache) writes %c=$0 %cache_1: float32")
    assert "writes: ViewCopy reads %cache after Fill has overwritten its memory" in found


TWO_VIEWS = """
graph g(%cache: float32[4, 2], %x: float32[2]):
  %size: int64[1]{2} = Const(value=(2,))
  %one: int64[1]{1} = Const(value=(1,))
  %at0: int64[]{0} = Const(value=(0,))
  %at4: int64[]{4} = Const(value=(4,))
  %a: float32[2] = AsStrided(%cache, %size, %one, %at0) aliases %a=$0
  %b: float32[2] = AsStrided(%cache, %size, %one, %at4) aliases %b=$0
  %a1: float32[2], %b1: float32[2] = MyInplace(%a, %b, %x) writes %a1=$0, %b1=$1
  %c1: float32[4, 2] = ViewCopy(%cache, %size, %one, %at0, %a1, %size, %one, %at0) writes %c1=$0
  %c2: float32[4, 2] = ViewCopy(%c1, %size, %one, %at4, %b1, %size, %one, %at4) writes %c2=$0
  update %cache <- %c2
  return
"""


def test_two_views_are_put_back_one_after_the_other() -> None:
    assert _broken(from_text(TWO_VIEWS)) == []


@pytest.mark.parametrize(
    "old, new",
    [
        # Between the two, memory already holds what only the second puts there.
        ("  %c2", "  %y: float32[4, 2] = Foo(%c1)\n  %c2"),
        ("return", "return %c1"),
        ("update %cache <- %c2", "update %cache <- %c1"),
        ("ViewCopy(%c1,", "ViewCopy(%cache,"),
    ],
)
def test_a_half_written_base_is_not_read(old: str, new: str) -> None:
    found = _broken(from_text(TWO_VIEWS.replace(old, new)))
    assert "writes: ViewCopy reads %cache after MyInplace has overwritten its memory" in found


def test_two_operators_write_slices_of_one_cache() -> None:
    text = TWO_VIEWS.replace(
        "%a1: float32[2], %b1: float32[2] = MyInplace(%a, %b, %x) writes %a1=$0, %b1=$1",
        "%a1: float32[2] = MyInplace(%a, %x) writes %a1=$0 %b1: float32[2] = MyInplace(%b, %x) writes %b1=$0",
    )
    # %b was made before %a was written, and nothing shows that they do not meet.
    assert _broken(from_text(text)) == [
        "writes: ViewCopy reads %cache after MyInplace_1 has overwritten its memory",
        "writes: MyInplace_1 reads %b after MyInplace has overwritten its memory",
        "writes: ViewCopy reads %a1 after MyInplace_1 has overwritten its memory",
    ]


def test_written_inputs() -> None:
    head = "graph g(%x: float32[2]): %a: float32[2] = Foo(%x) writes %a=$0 %b: float32[2] = Bar()"
    assert _broken(from_text(f"{head} return %a")) == [
        "written-inputs: Foo overwrites memory of the input %x, which has no update"
    ]
    assert _broken(from_text(f"{head} update %x <- %b return %a")) == [
        "written-inputs: Foo overwrites memory of the input %x, and the update of %x with %b does not come from it"
    ]


def test_constants() -> None:
    text = "graph g(): %c: float32[2] = Const(value=(1.0, 2.0)) %v: float32[2] = View(%c) aliases %v=$0 %a: float32[2] = Foo(%v) writes %a=$0 return %a"
    assert _broken(from_text(text)) == ["constants: Foo overwrites memory of %c, which is a constant"]
    host = "graph g(%n: int64[]{s0}): %a: int64[] = Foo(%n) writes %a=$0 update %n <- %a return"
    assert "constants: Foo overwrites memory of %n, which is a constant" in _broken(from_text(host))
