"""What runs the IR operators that converters make: one-to-one converters, kernels, and none."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

import torchair
from tests.convert.conversion import check, reference_backend
from tests.custom_operators import define, ops
from torchair import ge
from torchair.convert import converters
from torchair.errors import MissingKernelError, TorchAirError
from torchair.ge import attr
from torchair.ir import Graph, Node
from torchair.opset.kernels import kernels


def numbers(*shape: int) -> Tensor:
    return torch.arange(float(torch.Size(shape).numel())).reshape(shape)


@contextlib.contextmanager
def converter(overload: Any, function: Callable[..., Any], **options: Any) -> Iterator[None]:
    torchair.register_fx_node_ge_converter(overload, **options)(function)
    try:
        yield
    finally:
        converters.forget(overload)


def only_node(graph: Graph, op: str) -> Node:
    (node,) = [node for node in graph if node.op == op]
    return node


def refused(program: Callable[..., Any], *args: Any) -> TorchAirError:
    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed) as caught, torch.no_grad():
        torch.compile(program, backend=reference_backend(), fullgraph=True)(*args)
    error = caught.value.inner_exception
    assert isinstance(error, TorchAirError), error
    return error


define(
    "blend(Tensor x, Tensor y, float a, int n) -> Tensor",
    lambda x, y, a, n: x - y * a + n,
    lambda x, y, a, n: torch.empty_like(x),
)


def every(a, n):
    """All numbers of the operator, as attributes."""
    return {"a": attr.Float(a), "n": attr.Int(n)}


@pytest.mark.parametrize(
    "function",
    [
        lambda x, y, a, n: ge.custom_op("Blend", x, y, a, n),
        lambda x, y, a, n: ge.custom_op("Other", x, y, a, n),
        lambda x, y, a, n: ge.custom_op(
            "Swapped",
            inputs={"y": y, "x": x},
            outputs=["z"],
            attrs={"n": attr.Int(n), "a": attr.Float(a)},
        ),
        lambda x, y, a, n: ge.custom_op(
            "Renamed",
            inputs={"x1": x, "x2": y},
            outputs=["z"],
            attrs={"alpha": attr.Float(a), "shift": attr.Int(n), "mode": attr.Str("fast")},
        ),
        lambda x, y, a, n: ge.custom_op(
            "Tensors", inputs={"x": x, "a": ge.Const(a), "y": y}, outputs=["z"], attrs={"n": attr.Int(n)}
        ),
        lambda x, y, a, n: ge.custom_op("Listed", inputs={"xs": [x, y]}, outputs=["z"], attrs=every(a, n)),
        lambda x, y, a, n: ge.custom_op(
            "Optional", inputs={"w": None, "x": x, "y": y}, outputs=["z"], attrs=every(a, n)
        ),
    ],
)
def test_one_to_one(function) -> None:
    with converter(ops.blend.default, function):
        (graph,) = check(lambda x, y: ops.blend(x, y, 0.5, 3), numbers(2, 3), numbers(2, 3))
        check(lambda x: ops.blend(x, x, 0.5, 3), numbers(2, 3))
        check(lambda x, y: ops.blend(x, y, 0.5, 3), numbers(2, 3), numbers(2, 3), dynamic=True)
    (call,) = [node.call for node in graph if node.call is not None]
    assert call.target == "custom_operators::blend.default"


def test_results_in_another_order() -> None:
    def function(x):
        b, a = ge.custom_op("Two", inputs={"x": x}, outputs=["b", "a"])
        return a, b

    with converter(ops.two.default, function):
        (graph,) = check(lambda x: ops.two(x), numbers(2, 3))
    (call,) = [node.call for node in graph if node.call is not None]
    assert call.order == (1, 0)


def test_a_list_of_results() -> None:
    def function(x, n, *, meta_outputs):
        return ge.custom_op("Pieces", inputs={"x": x}, outputs=[("ys", len(meta_outputs))], attrs={"n": attr.Int(n)})

    with converter(ops.pieces.default, function):
        check(lambda x: ops.pieces(x, 3), numbers(2, 3))


def test_symbolic_attributes() -> None:
    def function(x, n, sizes):
        return ge.custom_op("Sized", x, n, sizes)

    with converter(ops.sized.default, function):
        check(lambda x: ops.sized(x, x.shape[0], [x.shape[1], 2]), numbers(2, 3), dynamic=True)


def test_in_place_with_results() -> None:
    """Guide: the converter returns only the results, here the second output."""
    with converter(ops.my_inplace.default, lambda x, y: ge.custom_op("MyInplace", x, y)[1]):
        (graph,) = check(lambda x, y: (ops.my_inplace(x[0], y), x + 1), numbers(2, 3), numbers(3))
    assert graph.count("TensorMove") == 0


def test_in_place_without_results() -> None:
    def function(xs, value):
        ge.custom_op("FillAll", inputs={"xs": xs}, outputs=[("xs", len(xs))], attrs={"value": attr.Float(value)})

    with converter(ops.fill_all.default, function):
        check(lambda x: (ops.fill_all([x[0], x[1:]], 2.0), x + 1), numbers(4, 3))


def test_optional_and_listed_arguments_in_place() -> None:
    def function(x, y, ys):
        return ge.custom_op("WriteSome", inputs={"x": x, "y": y, "ys": ys}, outputs=["x", ("ys", len(ys)), "out"])[-1]

    with converter(ops.write_some.default, function):
        check(lambda x, y: (ops.write_some(x, y, [x]), x * 2), numbers(3), numbers(3))
        check(lambda x, y: (ops.write_some(None, y, [x[0], x[1]]), x * 2), numbers(4, 3), numbers(3))


def test_a_chain_of_operators_in_place() -> None:
    def function(x, y):
        first = ge.Assign(x, ge.Add(x, ge.Const(1.0)))
        ge.Assign(first, ge.Add(first, y))

    with converter(ops.accumulate.default, function):
        (graph,) = check(lambda x, y: (ops.accumulate(x[1], y), x * 2), numbers(4, 3), numbers(3))
    assert graph.count("Assign") == 2


def test_built_in_operators_compute_a_custom_one() -> None:
    def function(x, factor):
        return ge.Mul(x, factor)

    with converter(ops.scaled.default, function):
        (graph,) = check(lambda x: ops.scaled(x, 2.5), numbers(2, 3))
    assert [node.op for node in graph] == ["Const", "Mul"]


def test_supports_sees_the_call() -> None:
    seen: list[Any] = []

    def supports(node):
        seen.append((node.target, [a.meta["val"].shape for a in node.all_input_nodes]))
        return

    with converter(ops.accumulate.default, lambda x, y: ge.custom_op("Accumulate", x, y) and None, supports=supports):
        check(lambda x, y: (ops.accumulate(x[1], y), x * 2), numbers(4, 3), numbers(3))
    assert seen == [(ops.accumulate.default, [(3,), (3,)])]


def test_a_rejected_custom_operator_converts_automatically() -> None:
    def supports(node):
        return torchair.errors.Rejection("not today")

    with converter(ops.two.default, lambda x: 1 / 0, supports=supports):
        (graph,) = check(lambda x: ops.two(x), numbers(2, 3))
    only_node(graph, "Two")


# --- kernels ---


@contextlib.contextmanager
def kernel(op: str, function: Callable[..., Any], **options: Any) -> Iterator[None]:
    ge.register_kernel(op, **options)(function)
    try:
        yield
    finally:
        kernels.forget(op)


def test_a_kernel_in_the_middle_of_a_converter() -> None:
    def function(x, y, a, n):
        t = ge.custom_op("Difference", inputs={"x": x, "y": y}, outputs=["z"], attrs={"a": attr.Float(a)})
        return ge.Add(t, ge.Const(float(n)))

    with converter(ops.blend.default, function):
        error = refused(lambda x, y: ops.blend(x, y, 0.5, 3), numbers(2, 3), numbers(2, 3))
        assert isinstance(error, MissingKernelError)
        with kernel("Difference", lambda x, y, *, a: x - y * a):
            check(lambda x, y: ops.blend(x, y, 0.5, 3), numbers(2, 3), numbers(2, 3))
        with kernel("Difference", lambda x, y, *, a: x - y * a, fake=lambda x, y, *, a: torch.empty_like(x)):
            (graph,) = check(lambda x, y: ops.blend(x, y, 0.5, 3), numbers(2, 3), numbers(2, 3))
    assert only_node(graph, "Difference").output.shape == (2, 3)


def test_a_kernel_with_numpy() -> None:
    with kernel("Blend", lambda x, y, *, a, n: torch.from_numpy(x.numpy() - y.numpy() * a + n)):
        check(lambda x, y: ops.blend(x, y, 0.5, 3), numbers(2, 3), numbers(2, 3))


def test_a_kernel_of_a_built_in_operator() -> None:
    with kernel("Mul", lambda x1, x2: x1 + x2):
        compiled = torch.compile(lambda x: x * x, backend=reference_backend())
        assert compiled(numbers(3)).tolist() == [0.0, 2.0, 4.0]


# --- what nothing computes ---


@pytest.mark.parametrize(
    "function",
    [
        lambda x, y, a, n: ge.custom_op("NoKernel", ge.Add(x, y), y, a, n),
        lambda x, y, a, n: ge.custom_op("NoKernel", inputs={"x": x}, outputs=["z"]),
        lambda x, y, a, n: ge.Add(ge.custom_op("NoKernel", x, y, a, n), x),
        lambda x, y, a, n: ge.custom_op("NoKernel", inputs={"x": x, "y": y}, outputs=["w", "z"])[1],
        lambda x, y, a, n: ge.custom_op("NoKernel", inputs={"x": x, "y": y, "z": ge.Add(x, y)}, outputs=["w"]),
        # What a converter gets wrong must not be hidden by the torch operator's kernel.
        lambda x, y, a, n: ge.custom_op("NoKernel", inputs={"x": y, "y": x}, outputs=["z"], attrs=every(a, n)),
        lambda x, y, a, n: ge.custom_op("NoKernel", inputs={"u": y, "v": x}, outputs=["z"], attrs=every(a, n)),
        lambda x, y, a, n: ge.custom_op("NoKernel", inputs={"x": x, "y": y}, outputs=["z"], attrs=every(a * 100, 7)),
        lambda x, y, a, n: ge.custom_op("NoKernel", inputs={"x": x, "y": y}, outputs=["z"]),
    ],
)
def test_a_converter_that_is_not_one_to_one(function) -> None:
    with converter(ops.blend.default, function):
        error = refused(lambda x, y: ops.blend(x, y, 0.5, 3), numbers(2, 3), numbers(2, 3))
    assert isinstance(error, MissingKernelError)
    assert isinstance(error, NotImplementedError)
    assert "NoKernel (node NoKernel) has no lowering, and no kernel is registered for it" in error.why
    assert '@torchair.ge.register_kernel("NoKernel")' in error.fix
    assert "test_kernels.py" in error.where[0]


def test_the_next_compile_works() -> None:
    with converter(ops.two.default, lambda x: ge.custom_op("NoKernel", ge.Add(x, x))):
        refused(lambda x: ops.two(x), numbers(2, 3))
    check(lambda x: ops.two(x), numbers(2, 3))
