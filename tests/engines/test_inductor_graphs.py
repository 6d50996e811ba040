"""The inductor engine on graphs written down as text, outside Dynamo, against the reference engine."""

from __future__ import annotations

import pytest
import torch

from tests.engines.graphs import OPTIONS, assert_engines_agree, inductor, read, reference, registered
from torchair.engines.inductor import InductorEngine
from torchair.errors import (
    EngineCompileError,
    ExecutionError,
    GraphInputError,
    MissingKernelError,
    OutputCheckError,
    UnsupportedGraphError,
)
from torchair.ir.text import to_text

# --- sizes ---

_SIZES = """graph g(%x: float32[s0, s1], %y: float32[s1]):
  %n: int64[1]{s0*s1} = HostInts()
  %a: float32[s0, s1] = Add(%x, %y)
  %flat: float32[s0*s1] = Reshape(%a, %n, axis=0, num_axes=-1)
  %last: int64[]{s0 + 1} = HostInts()
  update %x <- %a
  return %flat, %last as int, %a strides (1, s0), None
"""


def test_one_compile_serves_all_sizes_but_0_and_1() -> None:
    calls = [(torch.randn(n, m), torch.randn(m)) for n, m in ((5, 4), (2, 9), (7, 7), (100, 3))]
    run = assert_engines_agree(_SIZES, *calls)
    assert len(run._variants) == 1
    run = assert_engines_agree(_SIZES, *[(torch.randn(n, m), torch.randn(m)) for n, m in ((0, 3), (1, 4), (0, 5))])
    assert len(run._variants) == 3


def test_a_compile_that_assumed_something_is_not_used_where_it_does_not_hold() -> None:
    # Tracing the slice compares its end with the size: the first compile is for more than 10 rows.
    run = assert_engines_agree(
        """graph g(%x: float32[s0, 4]):
             %s: float32[Min(10, s0), 4] = torch_call(%x) call aten::slice.Tensor($0, 0, 0, 10)
             return %s
        """,
        (torch.randn(16, 4),),
        (torch.randn(12, 4),),
        (torch.randn(7, 4),),
        (torch.randn(5, 4),),
    )
    assert len(run._variants) == 2


def test_arguments_in_other_strides_are_read_and_written() -> None:
    text = """graph g(%x: float32[3, 4], %y: float32[3, 4]):
                %a: float32[3, 4] = Add(%x, %y)
                update %x <- %a
                return %a
           """
    run = inductor(text)
    x, y = torch.randn(4, 3).t(), torch.randn(3, 8)[:, ::2]
    wanted = x + y
    (result,) = run(x, y)
    assert torch.equal(result, wanted)
    assert torch.equal(x, wanted)
    assert x.stride() == (1, 3)


def test_host_numbers_that_are_not_sizes() -> None:
    assert_engines_agree(
        """graph g(%f: float64[]{f0}, %n: int64[]{s0}, %x: float32[4]):
             %a: float32[4] = torch_call(%x, %f) call aten::mul.Scalar($0, $1.item)
             %twice: float64[]{2*f0} = HostInts()
             %whole: int64[2]{s0, 3} = HostInts()
             return %a, %twice as float, %n as int, %whole
        """.replace("graph g", "symbols f0: !integer\ngraph g"),
        (1.5, 4, torch.randn(4)),
        (2.5, 0, torch.randn(4)),
    )


def test_wrong_arguments() -> None:
    run = inductor(_SIZES)
    with pytest.raises(GraphInputError) as caught:
        run(torch.randn(3, 4), torch.randn(5))
    assert str(caught.value) == (
        "A compiled graph was called with other arguments than it has inputs [TA404]\n"
        "  why:\n"
        "    %y has the shape [5], the graph says float32[s1]\n"
        "  fix:\n"
        "    Pass one argument for each input of the graph, of its dtype and shape."
    )
    for args, text in [
        ((torch.randn(3, 4),), "2 arguments are expected, 1 were given"),
        ((torch.randn(3, 4), 1), "%y is a tensor, int was given"),
        ((torch.randn(3, 4), torch.arange(4)), r"%y is torch.int64 \[4\]"),
        ((torch.randn(12), torch.randn(4)), r"%x is torch.float32 \[12\]"),
    ]:
        with pytest.raises(GraphInputError, match=text):
            run(*args)
    base = torch.randn(16)
    with pytest.raises(GraphInputError, match="%x, which the graph writes, and %y share memory"):
        run(base.view(4, 4), base[:4])


# --- memory ---


def test_operators_write_their_operands() -> None:
    x, v = torch.zeros(4), torch.tensor([5.0, 6.0])
    assert_engines_agree(
        """graph g(%x: float32[4], %v: float32[2]):
             %size: int64[1]{2} = Const(value=(2,))
             %stride: int64[1]{2} = Const(value=(2,))
             %at: int64[1]{1} = Const(value=(1,))
             %copy: float32[4] = TensorMove(%x)
             %view: float32[2] = AsStrided(%copy, %size, %stride, %at) aliases %view=$0
             %new: float32[2] = Assign(%view, %v, validate_shape=True, use_locking=False) -> ref writes %new=$0
             %all: float32[4] = ViewCopy(%copy, %size, %stride, %at, %new, %size, %stride, %at) -> dst writes %all=$0
             return %all, %new
        """,
        (x, v),
    )
    # Without the copy, the argument itself is written.
    run = assert_engines_agree(
        """graph g(%x: float32[4], %v: float32[2]):
             %size: int64[1]{2} = Const(value=(2,))
             %stride: int64[1]{2} = Const(value=(2,))
             %at: int64[1]{1} = Const(value=(1,))
             %view: float32[2] = AsStrided(%x, %size, %stride, %at) aliases %view=$0
             %new: float32[2] = Assign(%view, %v, validate_shape=True, use_locking=False) -> ref writes %new=$0
             %all: float32[4] = ViewCopy(%x, %size, %stride, %at, %new, %size, %stride, %at) -> dst writes %all=$0
             update %x <- %all
             return
        """,
        (x, v),
    )
    run(x, v)
    assert x.tolist() == [0, 5, 0, 6]


def test_updates_read_what_was_there_before_all_of_them() -> None:
    assert_engines_agree(
        """graph g(%x: float32[33, 33], %y: float32[33, 33], %z: float32[33, 33]):
             %perm: int64[2]{1, 0} = Const(value=(1, 0))
             %t: float32[33, 33] = Transpose(%z, %perm) aliases %t=$0
             %u: float32[33, 33] = Transpose<again>(%x, %perm) aliases %u=$0
             update %x <- %y
             update %y <- %u
             update %z <- %t
             return
        """,
        tuple(torch.randn(33, 33) for _ in range(3)),
    )


def test_a_constant_output_may_be_written_by_the_caller() -> None:
    run = inductor(
        read(
            """graph g(%x: float32[2]):
                 %small: float32[2] = Const(value=(1.0, 2.0))
                 %one: float32[] = Const(value=(1.0,))
                 %big: float32[100] = Const(value=blob("big"))
                 %sum: float32[2] = Add(%x, %small)
                 return %small, %one, %big, %sum
            """,
            big=torch.arange(100.0),
        )
    )
    x = torch.zeros(2)
    for _ in range(2):
        small, one, big, total = run(x)
        assert small.tolist() == total.tolist() == [1, 2]
        assert one.item() == 1
        assert torch.equal(big, torch.arange(100.0))
        for result in (small, one, big):
            result.zero_()


# --- kernels ---


def test_a_users_kernel_runs_inside_the_graph() -> None:
    seen = []

    def kernel(x: torch.Tensor, y: None, z: list[torch.Tensor], *, k: list[list[int]], d: torch.dtype) -> torch.Tensor:
        seen.append((y, len(z), k, d))
        x.add_(1)
        return x * 3

    inputs = [("x",), ("y", "optional"), ("z", "dynamic")]
    attrs = [("k", "ListListInt"), ("d", "DataType")]
    with registered("GraphAccumulate", kernel, inputs=inputs, outputs=["x", "o"], attrs=attrs):
        assert_engines_agree(
            """graph g(%x: float32[s0, 4], %y: float32[s0, 4]):
                 %m: float32[s0, 4] = TensorMove(%x)
                 %a: float32[s0, 4], %b: float32[s0, 4]
                   = GraphAccumulate(%m, None, [%x, %y], k=((1, 2), (3,)), d=int32) -> x, o writes %a=$0
                 %c: float32[s0, 4] = Add(%a, %b)
                 update %y <- %a
                 return %c, %a
            """,
            *[(torch.randn(n, 4), torch.randn(n, 4)) for n in (5, 1, 7)],
        )
    assert seen == [(None, 2, [[1, 2], [3]], torch.int32)] * (2 * 2 * 3)  # the reference and another engine, twice


def test_kernels_take_host_numbers_and_return_what_the_compiler_must_not_share() -> None:
    def kernel(x: torch.Tensor, sizes: list[int], *, scale: float) -> tuple[torch.Tensor, torch.Tensor]:
        assert sizes == [2 * x.shape[0], 7]
        return x.t() * scale, x  # not dense, and an operand itself

    inputs = [("x",), ("sizes", "required", True)]
    with registered("GraphSizes", kernel, inputs=inputs, outputs=["y", "z"], attrs=[("scale", "Float")]):
        run = inductor(
            """graph g(%x: float32[s0, 4]):
                 %n: int64[2]{2*s0, 7} = HostInts()
                 %y: float32[4, s0], %z: float32[s0, 4] = GraphSizes(%x, %n, scale=2.5)
                 return %y, %z
            """
        )
        for n in (3, 5):
            x = torch.randn(n, 4)
            y, z = run(x)
            assert torch.equal(y, x.t() * 2.5)
            assert torch.equal(z, x)
            assert z.data_ptr() != x.data_ptr()


def test_a_compiled_graph_keeps_the_kernel_that_it_was_compiled_with() -> None:
    text = "graph g(%x: float32[2]):\n  %a: float32[2] = GraphVersion(%x)\n  return %a\n"
    with registered("GraphVersion", lambda x: x + 1, inputs=[("x",)]):
        first = inductor(text)
    with registered("GraphVersion", lambda x: x + 2, inputs=[("x",)]):
        second = inductor(text)
        assert first(torch.zeros(2))[0].tolist() == [1, 1]
        assert second(torch.zeros(2))[0].tolist() == [2, 2]


def test_a_kernel_that_returns_something_else_than_promised() -> None:
    with registered("GraphWrong", lambda x: x.double()[:1], inputs=[("x",)]):
        run = inductor("graph g(%x: float32[s0]):\n  %a: float32[s0] = GraphWrong(%x)\n  return %a\n")
        with pytest.raises(OutputCheckError) as caught:
            run(torch.zeros(3))
    assert str(caught.value) == (
        "An operator returned a result of another type than its meta function promised [TA405]\n"
        "  why:\n"
        "    GraphWrong, result 0: torch.float64 [1], promised torch.float32 [3]\n"
        "  fix:\n"
        "    Correct the kernel, or the meta function of the torch operator."
    )


def test_a_failing_kernel_is_named() -> None:
    def kernel(x: torch.Tensor) -> torch.Tensor:
        raise ValueError("no such thing")

    with registered("GraphFails", kernel, inputs=[("x",)]):
        run = inductor(
            """graph g(%x: float32[2]):
                 %a: float32[2] = GraphFails(%x)  # from fails my::fails.default at model.py:3, in f: return fails(x)
                 return %a
            """
        )
        with pytest.raises(ExecutionError) as caught:
            run(torch.zeros(2))
    assert caught.value.why == ("GraphFails", "ValueError: no such thing")
    assert caught.value.where == ("model.py:3, in f: return fails(x)",)
    assert isinstance(caught.value.__cause__, ValueError)


def test_kernels_see_the_strides_that_the_graph_asks_for() -> None:
    def kernel(x: torch.Tensor) -> torch.Tensor:
        return torch.tensor(x.stride())

    with registered("GraphStrides", kernel, inputs=[("x",)]):
        assert_engines_agree(
            """graph g(%x: float32[s0, 3], %y: float32[3]):
                 %a: float32[s0, 3] = Add(%x, %y)
                 %p: int64[2] = GraphStrides<p>(%a) strides $0=(1, s0)
                 %q: int64[2] = GraphStrides<q>(%a) strides $0=(8, 2)
                 %r: int64[2] = GraphStrides<r>(%x) strides $0=(0, 1)
                 return %p, %q, %r
            """,
            *[(torch.randn(3).expand(n, 3).contiguous(), torch.randn(3)) for n in (4, 6)],
        )


def test_side_effects_run_in_order_even_if_nothing_reads_them() -> None:
    order: list[int] = []

    def kernel(x: torch.Tensor, *, k: int) -> torch.Tensor:
        order.append(k)
        return x + k

    with registered("GraphEffect", kernel, inputs=[("x",)], attrs=[("k", "Int")]):
        run = inductor(
            """graph g(%x: float32[2]):
                 %a: float32[2] = GraphEffect<a>(%x, k=3) side_effects
                 %b: float32[2] = GraphEffect<b>(%x, k=1) side_effects
                 %c: float32[2] = GraphEffect<c>(%x, k=2) side_effects
                 %d: float32[2] = torch_call(%x) side_effects call aten::bernoulli.default($0)
                 %e: float32[2] = torch_call<again>(%x) side_effects call aten::rand_like.default($0)
                 return %b, %e
            """
        )
        for _ in range(2):
            order.clear()
            torch.manual_seed(0)
            b, e = run(torch.ones(2))
            assert order == [3, 1, 2]
            assert b.tolist() == [2, 2]
            torch.manual_seed(0)
            torch.bernoulli(torch.ones(2))
            assert torch.equal(e, torch.rand(2))


# --- what is refused ---


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            """graph g(%x: float32[5]):
                 %n: int64[u0, 1] = torch_call(%x) binds u0=%n[0] call aten::nonzero.default($0)
                 return %n""",
            "the size of a result of aten::nonzero.default (node torch_call, FX node -) is known only when it has run",
        ),
        (
            """graph g(%x: float32[6], %n: int64[1]):
                 %r: float32[6] = Reshape(%x, %n, axis=0, num_axes=-1)
                 return %r""",
            "Reshape (node Reshape, FX node -) takes the numbers in %n, which are known only at run time",
        ),
        (
            "graph g(%x: int64[]):\n  return %x as int",
            "the number %x, which the graph returns, is known only at run time",
        ),
        ("graph g(%x: qint8[5]):\n  return %x", "the input %x is qint8"),
        (
            """graph g(%x: float32[5]):
                 %h: qint8[5] = Cast(%x, dst_type=qint8)
                 return""",
            "a result of Cast (node Cast, FX node -) is qint8",
        ),
    ],
)
def test_supports_says_beforehand_what_is_refused(text: str, reason: str) -> None:
    graph = read(text)
    rejection = InductorEngine().supports_graph(graph)
    assert rejection is not None
    assert rejection.reason == reason
    assert rejection.fix == 'config.engine = "reference"'
    with pytest.raises(UnsupportedGraphError) as caught:
        InductorEngine().compile(graph, OPTIONS)
    assert str(caught.value) == (
        f'The inductor engine cannot run a graph [TA406]\n  why:\n    {reason}\n  fix:\n    config.engine = "reference"'
    )
    refused = [InductorEngine().supports(node) for node in graph]
    assert refused in ([], [rejection])


def test_a_sparse_constant_or_result_is_refused() -> None:
    graph = read('graph g():\n  %c: float32[3, 3] = Const(value=blob("c"))\n  return %c\n', c=torch.eye(3).to_sparse())
    with pytest.raises(UnsupportedGraphError, match="a constant is sparse_coo"):
        InductorEngine().compile(graph, OPTIONS)
    text = """graph g(%x: float32[3, 3]):
                %s: float32[3, 3] = torch_call(%x) call aten::_to_sparse.default($0)
                %d: float32[3, 3] = torch_call<back>(%s) call aten::_to_dense.default($0)
                return %d
           """
    with pytest.raises(UnsupportedGraphError, match=r"aten::_to_sparse.default .*\n *a result of it is sparse_coo"):
        inductor(text)
    x = torch.eye(3)
    assert torch.equal(reference(text)(x)[0], x)


def test_a_node_that_nothing_computes() -> None:
    with pytest.raises(MissingKernelError, match="NobodyKnowsThis"):
        inductor("graph g(%x: float32[2]):\n  %a: float32[2] = NobodyKnowsThis(%x)\n  return %a\n")


def test_a_node_that_cannot_be_traced() -> None:
    text = """graph g(%x: float32[2], %y: float32[3]):
                %a: float32[2] = Add(%x, %y)  # from add aten.add.Tensor at model.py:3, in f: return x + y
                return %a
           """
    with pytest.raises(EngineCompileError) as caught:
        inductor(text)
    error = caught.value
    assert error.what == "The inductor engine failed to trace an operator"
    assert error.why[0] == "Add (node Add, FX node add)"
    assert "broadcast" in error.why[1]
    assert error.where == ("model.py:3, in f: return x + y",)
    assert_engines_agree("graph g(%x: float32[2]):\n  %a: float32[2] = Add(%x, %x)\n  return %a\n", (torch.randn(2),))


def test_a_compile_does_not_change_the_graph() -> None:
    graph = read(_SIZES)
    text, revision = to_text(graph), graph.revision
    InductorEngine().compile(graph, OPTIONS)
    assert (to_text(graph), graph.revision) == (text, revision)


def test_closed() -> None:
    run = inductor("graph g(%x: float32[2]):\n  %a: float32[2] = Add(%x, %x)\n  return %a\n")
    run(torch.randn(2))
    run.close()
    with pytest.raises(ExecutionError, match="called after it was closed"):
        run(torch.randn(2))
