"""The reference engine on graphs written down as text."""

from __future__ import annotations

import gc
import weakref

import pytest
import torch

from tests.engines.graphs import OPTIONS, read, reference, registered
from torchair.engines.reference import ReferenceEngine
from torchair.errors import ExecutionError, MissingKernelError
from torchair.ir import Node


def test_computes_nodes_in_order() -> None:
    run = reference(
        """graph g(%x: float32[s0, 4], %y: float32[s0, 4]):
             %a: float32[s0, 4] = Add(%x, %y)
             %c: float32[] = Const(value=(3.0,))
             %m: float32[s0, 4] = Mul(%a, %c)
             return %m
        """
    )
    x, y = torch.randn(2, 5, 4).unbind()
    assert torch.equal(run(x, y)[0], (x + y) * 3)
    assert torch.equal(run(x[:1], y[:1])[0], (x[:1] + y[:1]) * 3)


def test_sizes_are_numbers_that_follow_the_inputs() -> None:
    run = reference(
        """graph g(%n: int64[]{s0}, %x: float32[s0, 4]):
             %size: int64[1]{4*s0} = HostInts()
             %flat: float32[4*s0] = Reshape(%x, %size, axis=0, num_axes=-1)
             %more: int64[]{s0 + 1} = HostInts()
             return %flat, %more as int, %n as int
        """
    )
    x = torch.randn(3, 4)
    flat, more, n = run(3, x)
    assert torch.equal(flat, x.reshape(-1))
    assert (more, n) == (4, 3)


def test_kinds_of_outputs() -> None:
    run = reference(
        """graph g(%x: float32[2]):
             %a: float32[2] = Add(%x, %x)
             %yes: bool[]{True} = Const(value=(True,))
             %half: float64[]{0.5} = Const(value=(0.5,))
             return %a, None, %x, %a, %yes as bool, %half as float
        """
    )
    x = torch.randn(2)
    first, nothing, same, again, yes, half = run(x)
    assert torch.equal(first, x + x)
    assert nothing is None
    assert same is x
    assert again is first
    assert yes is True
    assert half == 0.5


def test_outputs_come_in_the_strides_that_are_asked_for() -> None:
    run = reference(
        """graph g(%x: float32[2, 3], %y: float32[3]):
             %a: float32[2, 3] = Add(%x, %x)
             %b: float32[2, 3] = Add(%y, %x)
             return %a strides (1, 2), %a strides (3, 1), %a strides (8, 2), %b strides (0, 1)
        """
    )
    x, y = torch.zeros(2, 3), torch.randn(3)
    results = run(x, y)
    assert [r.stride() for r in results] == [(1, 2), (3, 1), (8, 2), (0, 1)]
    assert torch.equal(results[3], y.expand(2, 3))


def test_a_constant_output_may_be_written_by_the_caller() -> None:
    graph = read(
        """graph g():
             %small: float32[2] = Const(value=(1.0, 2.0))
             %big: float32[100] = Const(value=blob("big"))
             return %small, %big
        """,
        big=torch.arange(100.0),
    )
    run = reference(graph)
    for _ in range(2):
        small, big = run()
        assert torch.equal(small, torch.tensor([1.0, 2.0]))
        assert torch.equal(big, torch.arange(100.0))
        small.zero_()
        big.zero_()


def test_updates_read_what_was_there_before_all_of_them() -> None:
    run = reference(
        """graph g(%x: float32[2], %y: float32[2], %z: float32[2, 2]):
             %perm: int64[2]{1, 0} = Const(value=(1, 0))
             %t: float32[2, 2] = Transpose(%z, %perm)
             update %x <- %y
             update %y <- %x
             update %z <- %t
             return
        """
    )
    x, y, z = torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0]), torch.arange(4.0).view(2, 2)
    assert list(run(x, y, z)) == []
    assert x.tolist() == [3, 4]
    assert y.tolist() == [1, 2]
    assert z.tolist() == [[0, 2], [1, 3]]


def test_an_operator_that_writes_its_operand() -> None:
    run = reference(
        """graph g(%x: float32[4], %v: float32[2]):
             %size: int64[1]{2} = Const(value=(2,))
             %stride: int64[1]{2} = Const(value=(2,))
             %at: int64[1]{1} = Const(value=(1,))
             %copy: float32[4] = TensorMove(%x)
             %view: float32[2] = AsStrided(%copy, %size, %stride, %at)
             %new: float32[2] = Assign(%view, %v, validate_shape=True, use_locking=False) -> ref writes %new=$0
             %all: float32[4] = ViewCopy(%copy, %size, %stride, %at, %new, %size, %stride, %at) -> dst writes %all=$0
             return %all
        """
    )
    x = torch.zeros(4)
    assert run(x, torch.tensor([5.0, 6.0]))[0].tolist() == [0, 5, 0, 6]
    assert x.tolist() == [0, 0, 0, 0]


def test_a_kernel_takes_absent_and_listed_operands_and_attributes() -> None:
    seen = []

    def kernel(x: torch.Tensor, y: None, z: list[torch.Tensor], *, k: list[int], d: torch.dtype) -> torch.Tensor:
        seen.append((y, len(z), k, d))
        x.add_(1)
        return x * 2

    inputs = [("x",), ("y", "optional"), ("z", "dynamic")]
    attrs = [("k", "ListInt"), ("d", "DataType")]
    with registered("RefAccumulate", kernel, inputs=inputs, outputs=["x", "o"], attrs=attrs):
        run = reference(
            """graph g(%x: float32[2], %y: float32[2]):
                 %a: float32[2], %b: float32[2]
                   = RefAccumulate(%x, None, [%y, %y], k=(1, 2), d=int32) -> x, o writes %a=$0
                 return %a, %b
            """
        )
        x = torch.zeros(2)
        a, b = run(x, x.clone())
    assert a is x
    assert a.tolist() == [1, 1]
    assert b.tolist() == [2, 2]
    assert seen == [(None, 2, [1, 2], torch.int32)]


def test_opaque_operands_come_in_eagers_strides() -> None:
    seen = []

    def kernel(x: torch.Tensor) -> torch.Tensor:
        seen.append(x.stride())
        return x.clone()

    with registered("RefStrides", kernel, inputs=[("x",)]):
        graph = read(
            """graph g(%x: float32[2, 3]):
                 %a: float32[2, 3] = RefStrides(%x) strides $0=(1, 2)
                 %b: float32[2, 3] = RefStrides<Second>(%x)
                 return %a, %b
            """
        )
        x = torch.randn(2, 3)
        results = reference(graph)(x)
    assert seen == [(1, 2), (3, 1)]
    assert all(torch.equal(r, x) for r in results)


def test_values_are_freed_after_their_last_use() -> None:
    alive: list[weakref.ref[torch.Tensor]] = []

    def kernel(x: torch.Tensor) -> torch.Tensor:
        gc.collect()
        counted = sum(ref() is not None for ref in alive)
        result = x + 1
        alive.append(weakref.ref(result))
        assert counted <= 1
        return result

    with registered("RefStep", kernel, inputs=[("x",)]):
        lines = [f"%v{i + 1}: float32[8] = RefStep<s{i}>(%v{i})" for i in range(5)]
        run = reference("graph g(%v0: float32[8]):\n  " + "\n  ".join(lines) + "\n  return %v5\n")
        assert run(torch.zeros(8))[0].tolist() == [5] * 8
    assert len(alive) == 5


def test_sizes_that_depend_on_data() -> None:
    run = reference(
        """graph g(%x: float32[5]):
             %n: int64[u0, 1] = torch_call(%x) binds u0=%n[0] call aten::nonzero.default($0)
             %size: int64[1]{u0} = HostInts()
             %flat: int64[u0] = Reshape(%n, %size, axis=0, num_axes=-1)
             return %flat
        """
    )
    assert run(torch.tensor([0.0, 1.0, 0.0, 2.0, 3.0]))[0].tolist() == [1, 3, 4]


def test_an_observer_sees_each_nodes_outputs() -> None:
    run = reference(
        """graph g(%x: float32[2]):
             %a: float32[2] = Add(%x, %x)
             %b: float32[2] = Mul(%a, %a)
             return %b
        """
    )
    seen: list[tuple[str, list[float]]] = []

    def observe(node: Node, outputs: object) -> None:
        assert isinstance(outputs, list)
        seen.append((node.op, outputs[0].tolist()))

    run.observer = observe
    run(torch.ones(2))
    assert seen == [("Add", [2, 2]), ("Mul", [4, 4])]


def test_a_failing_operator_is_named() -> None:
    def kernel(x: torch.Tensor) -> torch.Tensor:
        raise ValueError("no such thing")

    with registered("RefFails", kernel, inputs=[("x",)]):
        run = reference(
            """graph g(%x: float32[2]):
                 %a: float32[2] = RefFails(%x)  # from fails my::fails.default at model.py:3, in f: return fails(x)
                 return %a
            """
        )
        with pytest.raises(ExecutionError) as caught:
            run(torch.ones(2))
    assert str(caught.value) == (
        "An operator failed while the compiled graph ran [TA403]\n"
        "  why:\n"
        "    RefFails (node RefFails, FX node fails)\n"
        "    ValueError: no such thing\n"
        "  fix:\n"
        "    Compare with eager mode: the same operator fails there too if its inputs are wrong.\n"
        "  where:\n"
        "    model.py:3, in f: return fails(x)"
    )
    assert isinstance(caught.value.__cause__, ValueError)


def test_a_wrong_number_of_results_is_an_error() -> None:
    with registered("RefTwice", lambda x: (x, x), inputs=[("x",)]):
        run = reference("graph g(%x: float32[2]):\n  %a: float32[2] = RefTwice(%x)\n  return %a\n")
        with pytest.raises(ExecutionError, match=r"RefTwice .* returned 2, 1 are declared"):
            run(torch.ones(2))


def test_a_node_that_nothing_computes_is_refused_before_the_first_run() -> None:
    graph = read("graph g(%x: float32[2]):\n  %a: float32[2] = NobodyKnowsThis(%x)\n  return %a\n")
    (node,) = graph
    rejection = ReferenceEngine().supports(node)
    assert rejection is not None
    assert rejection.reason == "NobodyKnowsThis has no lowering and no kernel"
    with pytest.raises(MissingKernelError, match="NobodyKnowsThis"):
        ReferenceEngine().compile(graph, OPTIONS)


def test_close_releases_constants() -> None:
    big = torch.arange(100.0)
    graph = read('graph g():\n  %b: float32[100] = Const(value=blob("big"))\n  return %b\n', big=big)
    run = reference(graph)
    alive = weakref.ref(big)
    run.close()
    graph.blobs.clear()
    del big
    gc.collect()
    assert alive() is None
