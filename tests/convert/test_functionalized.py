"""Operators that write their arguments: equal to eager, arguments included, and without copies that protect nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import torchair
from tests.convert.conversion import check, reference_backend
from tests.custom_operators import define, ops
from torchair import _torch_compat
from torchair.config import CompilerConfig
from torchair.errors import MutationError

define(
    "scaled_(Tensor(a!) x, float f) -> Tensor(a!)",
    lambda x, f: x.mul_(f),
    lambda x, f: x,
    tags=(torch.Tag.inplace,) if hasattr(torch.Tag, "inplace") else (),
)


def numbers(*shape: int) -> Tensor:
    return torch.arange(float(torch.Size(shape).numel())).reshape(shape)


#: Name -> (program, arguments, copies that have to stay).
PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[Any, ...], int | None]] = {
    "input": (lambda x, y: (ops.my_inplace(x, y), x * 2), (numbers(4, 3), numbers(4, 3)), 0),
    "row": (lambda x, y: (ops.my_inplace(x[1], y[0]), x * 2), (numbers(4, 3), numbers(4, 3)), 0),
    "rows": (lambda x, y: (ops.my_inplace(x[1:3], y[1:3]), x * 2), (numbers(4, 3), numbers(4, 3)), 0),
    "transposed": (lambda x, y: (ops.my_inplace(x.t(), y), x * 2), (numbers(4, 3), numbers(3, 4)), 0),
    "flat": (lambda x, y: (ops.my_inplace(x.view(-1)[2:7], y), x * 2), (numbers(4, 3), numbers(5)), 0),
    "every second": (lambda x, y: (ops.my_inplace(x[::2, ::2], y), x + 1), (numbers(4, 3), numbers(2, 2)), 0),
    "transposed input": (lambda x, y: (ops.my_inplace(x[0], y), x + 1), (numbers(4, 3).t(), numbers(4)), 0),
    "other dtype": (
        lambda x, y: (ops.accumulate(x.view(torch.int32), y), x + 1),
        (numbers(4, 3), torch.ones(4, 3, dtype=torch.int32)),
        1,
    ),
    "two views that meet": (lambda x: (ops.exchange(x[0:3], x[1:4]), x * 2), (numbers(4, 3),), 0),
    "two views that do not meet": (lambda x: (ops.exchange(x[0:2], x[2:4]), x * 2), (numbers(4, 3),), 0),
    "the same twice": (lambda x: (ops.exchange(x, x), x * 2), (numbers(4, 3),), 0),
    "the same view twice": (lambda x: (ops.exchange(x[1], x[1]), x * 2), (numbers(4, 3),), 0),
    "read and written": (lambda x: (ops.accumulate(x, x), x * 2), (numbers(4, 3),), None),
    "read through a view": (lambda x: (ops.accumulate(x[0], x[1]), x * 2), (numbers(4, 3),), None),
    "read transposed": (lambda x: (ops.accumulate(x, x.t()), x * 2), (numbers(3, 3),), None),
    "read through a view that meets": (lambda x: (ops.accumulate(x[1:], x[:3]), x * 2), (numbers(4, 3),), None),
    "a list": (lambda x: (ops.fill_all([x[0], x[1], x[2:]], 1.5), x * 2), (numbers(4, 3),), 0),
    "a list of inputs": (lambda x, y: (ops.fill_all([x, y], 1.5), x + y), (numbers(3), numbers(3)), 0),
    "the same in a list": (lambda x: (ops.fill_all([x, x], 1.5), x * 2), (numbers(4, 3),), 0),
    "optional": (lambda x, y: (ops.write_some(x, y, []), x * 2), (numbers(4, 3), numbers(4, 3)), 0),
    "absent": (lambda x, y: (ops.write_some(None, y, [x]), x * 2), (numbers(4, 3), numbers(4, 3)), 0),
    "optional and list": (
        lambda x, y: (ops.write_some(x[0], y, [x[1], x[2]]), x * 2),
        (numbers(4, 3), numbers(3)),
        0,
    ),
    "a clone whose source is written": (
        lambda x, y: (c := x.clone(), ops.accumulate(x, y), c * 2),
        (numbers(4, 3), numbers(4, 3)),
        1,
    ),
    "a clone of a view": (
        lambda x, y: (c := x[1].clone(), ops.accumulate(c[1:], y), c * 2),
        (numbers(4, 3), numbers(2)),
        1,
    ),
    "an intermediate": (lambda x, y: (c := x * 2, ops.accumulate(c[1], y), c + 1), (numbers(4, 3), numbers(3)), 1),
    "an old view": (lambda x, y: (v := x[0], ops.accumulate(x, y), v * 2), (numbers(4, 3), numbers(4, 3)), None),
    "an old value": (lambda x, y: (v := x * 2, ops.accumulate(x, y), v + x), (numbers(4, 3), numbers(4, 3)), 0),
    "one after the other": (
        lambda x, y: (ops.accumulate(x[0], y), ops.accumulate(x[1], x[0]), x + 1),
        (numbers(4, 3), numbers(3)),
        None,
    ),
    "the written argument is returned": (
        lambda x, y: (ops.accumulate(x, y), x)[1],
        (numbers(4, 3), numbers(4, 3)),
        None,
    ),
    "in a loop": (
        lambda x, y: [ops.my_inplace(x[i], y) for i in range(3)],
        (numbers(4, 3), numbers(3)),
        0,
    ),
    "an empty slice": (lambda x, y: (ops.my_inplace(x[2:2], y), x * 2), (numbers(4, 3), numbers(0, 3)), None),
    "0-d": (lambda x, y: (ops.my_inplace(x, y), x * 2), (numbers(1)[0], numbers(1)[0]), 0),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_equals_eager(name: str) -> None:
    program, args, copies = PROGRAMS[name]
    with torch.no_grad():
        (graph,) = check(program, *args)
    if copies is not None:
        assert graph.count("TensorMove") == copies


@pytest.mark.parametrize(
    "name", ["rows", "transposed", "flat", "two views that meet", "read through a view", "a list", "in a loop"]
)
def test_equals_eager_with_symbolic_sizes(name: str) -> None:
    program, args, _ = PROGRAMS[name]
    with torch.no_grad():
        check(program, *args, dynamic=True)


def run(program: Callable[..., Any], args: Callable[[], tuple[Any, ...]], *, engine: str = "reference") -> None:
    """Compare with eager where arguments are views of each other, or begin inside their storage."""
    config = CompilerConfig()
    config.engine = engine
    backend = torchair.get_npu_backend(compiler_config=config)
    torch._dynamo.reset()
    expected_args, actual_args = args(), args()
    with torch.no_grad():
        expected = program(*expected_args[1:])
        actual = torch.compile(program, backend=backend, fullgraph=True)(*actual_args[1:])
    torch.testing.assert_close(actual, expected, rtol=0, atol=0)
    torch.testing.assert_close(actual_args[0], expected_args[0], rtol=0, atol=0)


def inside() -> tuple[Any, ...]:
    whole = numbers(6, 3)
    return whole, whole[2:], torch.ones(2, 3)


def views() -> tuple[Any, ...]:
    whole = numbers(4, 3)
    return whole, whole[0:2], whole[1:3], torch.ones(2, 3)


@pytest.mark.parametrize("engine", ["reference", pytest.param("inductor", marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "program",
    [
        lambda x, y: (ops.my_inplace(x[0:2], y), x * 2),
        lambda x, y: (ops.accumulate(x.view(-1)[3:9].view(2, 3), y), x * 2),
        lambda x, y: (ops.my_inplace(x[::2], y), x * 2),
    ],
)
def test_an_input_that_begins_inside_its_storage(program, engine) -> None:
    """PyTorch up to 2.13 counts such slices from the start of the storage: aot_eager and Inductor write other rows."""
    run(program, inside, engine=engine)


@pytest.mark.parametrize("engine", ["reference", pytest.param("inductor", marks=pytest.mark.slow)])
def test_inputs_that_are_views_of_one_base(engine) -> None:
    run(lambda a, b, y: (ops.accumulate(a, y), b + 1), views, engine=engine)
    run(lambda a, b, y: (ops.exchange(a, b), a + y), views, engine=engine)


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_equals_eager_on_inductor(name: str) -> None:
    program, args, _ = PROGRAMS[name]
    run(program, lambda: (args[0], *(a.clone() for a in args)), engine="inductor")


def test_several_steps_write_one_cache_in_place() -> None:
    def step(cache: Tensor, x: Tensor, at: int) -> Tensor:
        ops.accumulate(cache[at : at + 1], x)
        return cache.sum()

    backend = reference_backend()
    compiled = torch.compile(step, backend=backend, fullgraph=True, dynamic=True)
    expected, actual = torch.zeros(8, 4), torch.zeros(8, 4)
    address = actual.data_ptr()
    with torch.no_grad():
        for at in range(2, 6):
            x = torch.full((1, 4), float(at))
            torch.testing.assert_close(compiled(actual, x, at), step(expected, x, at), rtol=0, atol=0)
    torch.testing.assert_close(actual, expected, rtol=0, atol=0)
    assert actual.data_ptr() == address
    assert [graph.graph.count("TensorMove") for graph in backend.graphs] == [0] * len(backend.graphs)


@pytest.mark.skipif(not hasattr(torch.Tag, "inplace"), reason="this torch has no tag for operators in place")
@pytest.mark.parametrize(
    "program", [lambda x: (ops.scaled_(x, 2.0) + 1, x), lambda x: (ops.scaled_(x[0], 2.0) + 1, x + 1)]
)
def test_operators_in_place_that_return_their_argument(program) -> None:
    (graph,) = check(program, numbers(4, 3))
    assert graph.count("TensorMove") == 0
    (node,) = [n for n in graph if n.op == "Scaled"]
    assert node.output_names == ("x",)


@pytest.mark.skipif(not hasattr(torch.Tag, "out"), reason="this torch has no tag for operators that fill a buffer")
def test_operators_that_fill_a_buffer() -> None:
    define(
        "into(Tensor x, *, Tensor(a!) out) -> Tensor(a!)",
        lambda x, *, out: out.copy_(x * 2),
        lambda x, *, out: out,
        tags=(torch.Tag.out,),
    )
    check(lambda x: ops.into(x, out=torch.empty(4, 3)) + 1, numbers(4, 3), dynamic=True)
    check(lambda x, out: (ops.into(x, out=out), out + 1)[1], numbers(4, 3), numbers(4, 3))
    check(lambda x, out: (ops.into(x, out=out[1]), out + 1)[1], numbers(3), numbers(4, 3))


def test_first_version_of_functionalization() -> None:
    from torch._inductor import config

    with config.patch(enable_auto_functionalized_v2=False):
        check(lambda x, y: (ops.my_inplace(x, y), x * 2), numbers(4, 3), numbers(4, 3))
        check(lambda x, y: (ops.my_inplace(x[1], y), x * 2), numbers(4, 3), numbers(3))
        check(lambda x, y: (ops.fill_all([x, y], 1.5), x + y), numbers(3), numbers(3))
        check(lambda x, y: (ops.write_some(None, y, [x]), x + y), numbers(3), numbers(3))
        error = refused(lambda x: (ops.exchange(x[:2], x[1:]), x + 1), numbers(3, 3))
    assert "the written arguments 'x' and 'y' share memory" in str(error)


def test_training_through_a_written_buffer() -> None:
    def program(x: Tensor, cache: Tensor) -> Tensor:
        ops.accumulate(cache, x.detach())
        return (x * 2).sum()

    x = numbers(4, 3).requires_grad_()
    check(program, x, numbers(4, 3), backward=True)


# --- hand-written pairs (specification, F-114) ---


def _pair_kernel(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    x = x.clone()
    return ops.pair(x, y), x


@pytest.fixture(scope="module")
def _pair():
    library = torch.library.Library("custom_operators", "FRAGMENT")
    define("pair(Tensor(a!) x, Tensor y) -> Tensor", lambda x, y: x.add_(y) * 2, lambda x, y: torch.empty_like(x))
    define(
        "pair_functional(Tensor x, Tensor y) -> (Tensor, Tensor)",
        _pair_kernel,
        lambda x, y: (torch.empty_like(x), torch.empty_like(x)),
    )

    def functionalized(x: Tensor, y: Tensor) -> Tensor:
        z, new = ops.pair_functional(x, y)
        x.copy_(new)
        return z

    library.impl("pair", functionalized, "Functionalize")
    yield
    library._destroy()


@pytest.mark.usefixtures("_pair")
def test_a_hand_written_pair_with_a_converter() -> None:
    @torchair.register_fx_node_ge_converter(ops.pair_functional.default)
    def convert(x, y):
        new, z = torchair.ge.custom_op("Pair", inputs={"x": torchair.ge.Clone(x), "y": y}, outputs=["x", "z"])
        return z, new

    try:
        (graph,) = check(lambda x, y: (ops.pair(x, y), x + 1), numbers(4, 3), numbers(4, 3))
    finally:
        from torchair.convert import converters

        converters.forget(ops.pair_functional.default)
    (node,) = [n for n in graph if n.op == "Pair"]
    assert node.output_names == ("x", "z")
    assert node.call is not None
    assert node.call.order == (1, 0)


@pytest.mark.usefixtures("_pair")
def test_a_hand_written_pair_converts_automatically() -> None:
    from tests.ge.building import declared

    with declared(lambda: torchair.ge.declare_op("Pair", inputs=["x", "y"], outputs=["z", "x"])):
        (graph,) = check(lambda x, y: (ops.pair(x, y), x + 1), numbers(4, 3), numbers(4, 3))
    (node,) = [n for n in graph if n.op == "Pair"]
    assert node.writes == ((1, 0),)


# --- refused ---


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
def test_a_slice_that_pytorch_believes_to_end_behind_its_base(dynamic: bool) -> None:
    """Its fake results have the wrong shape, so everything after them would be wrong."""
    whole = numbers(6, 3)
    error = refused(lambda x, y: ops.my_inplace(x[2:4], y), whole[2:], torch.ones(2, 3), dynamic=dynamic)
    assert "writes the argument 'x', a slice of an input that begins inside its storage" in str(error)


#: Writes that PyTorch describes as views of an input's new value.
AFTER_A_WRITE: dict[str, Callable[[Tensor], Any]] = {
    "transposed": lambda x: (x.t().mul_(0.5), ops.fill_all([x[1:3][0], x[1:3][1]], 0.5)),
    "rows": lambda x: (x[1:].mul_(0.5), ops.fill_all([x[1], x[2]], 0.5)),
    "a row": lambda x: (x[0].add_(1), ops.my_inplace(x[1], x[1] * 2)),
    "a row, then rows": lambda x: (x[0].add_(1), ops.my_inplace(x[1:3], x[1:3] * 2)),
    "an element": lambda x: (x[0].fill_(5.0), ops.my_inplace(x[1], x[1] * 2)),
    "all": lambda x: (x.copy_(2 - x), ops.my_inplace(x[1], x[1] * 2)),
    "whole": lambda x: (x[:].mul_(0.5), ops.fill_all([x[1:]], 0.5)),
    "a copy": lambda x: (x.copy_(torch.ones_like(x)), ops.accumulate(x[1], x[2] * 2)),
    "by the operator": lambda x: (ops.my_inplace(x[0], x[0] * 2), ops.accumulate(x[1:3], x[1:3] * 2)),
    "an intermediate": lambda x: (c := x * 2, ops.my_inplace(c[1:3], x[1:3] * 2), x.copy_(c)),
}


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("name", AFTER_A_WRITE)
def test_a_view_of_an_input_inside_its_storage_that_was_written_before(name: str, dynamic: bool) -> None:
    """PyTorch before 2.13 may count its position from two places, and does not tell which."""
    torch._dynamo.reset()
    compiled = torch.compile(AFTER_A_WRITE[name], backend=reference_backend(), fullgraph=True, dynamic=dynamic)
    for start in (2, 3):
        expected, actual = numbers(8, 3) + start, numbers(8, 3) + start
        with torch.no_grad():
            AFTER_A_WRITE[name](expected[start : start + 5])
            if _torch_compat.positions_survive_writes():
                compiled(actual[start : start + 5])
                torch.testing.assert_close(actual, expected, rtol=0, atol=0)
            else:
                with pytest.raises(torch._dynamo.exc.BackendCompilerFailed) as caught:
                    compiled(actual[start : start + 5])
                assert isinstance(caught.value.inner_exception, MutationError)
                assert "PyTorch before 2.13 may have counted the position of the view" in str(caught.value)


@pytest.mark.parametrize("name", AFTER_A_WRITE)
def test_a_view_of_an_input_that_was_written_before(name: str) -> None:
    torch._dynamo.reset()
    expected, actual = numbers(5, 3), numbers(5, 3)
    with torch.no_grad():
        AFTER_A_WRITE[name](expected)
        torch.compile(AFTER_A_WRITE[name], backend=reference_backend(), fullgraph=True)(actual)
    torch.testing.assert_close(actual, expected, rtol=0, atol=0)


def refused(program: Callable[..., Any], *args: Any, dynamic: bool | None = None) -> MutationError:
    torch._dynamo.reset()
    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed) as caught, torch.no_grad():
        torch.compile(program, backend=reference_backend(), fullgraph=True, dynamic=dynamic)(*args)
    error = caught.value.inner_exception
    assert isinstance(error, MutationError), error
    return error


def test_returned_memory_that_the_schema_does_not_tell() -> None:
    define("returns_x(Tensor(a!) x) -> Tensor", lambda x: x.add_(1), lambda x: x)
    error = refused(lambda x: ops.returns_x(x) + 1, numbers(3))
    assert "result 0 lies in the memory of an argument that it writes (x)" in str(error)


@pytest.mark.parametrize(
    ("program", "args", "name"),
    [
        (lambda x, y: ops.accumulate(x, y), (numbers(3).expand(2, 3), numbers(2, 3)), "the input x"),
        (lambda x, y: ops.accumulate(x.expand(2, 3), y), (numbers(3), numbers(2, 3)), "the result of"),
        (
            lambda x, y: ops.fill_all([y, x], 1.0),
            (numbers(3).expand(2, 3), numbers(2, 3)),
            "'xs', which is the input x",
        ),
    ],
)
def test_expanded_arguments(program, args, name) -> None:
    error = refused(program, *args)
    assert name in str(error)
    assert "several of its elements lie at one place of memory" in str(error)
    assert "test_functionalized.py" in error.where[0]


def test_expanded_inputs_of_aten_operators() -> None:
    error = refused(lambda x: x.add_(1), numbers(3).expand(2, 3))
    assert "expanded inputs: x" in str(error)


def test_the_next_compile_works() -> None:
    refused(lambda x, y: ops.accumulate(x, y), numbers(3).expand(2, 3), numbers(2, 3))
    check(lambda x, y: (ops.accumulate(x, y), x), numbers(2, 3), numbers(2, 3))
