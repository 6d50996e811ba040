"""The inductor engine under torch.compile: results, memory, sizes and the compile itself, against eager."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch._dynamo.testing import CompileCounterWithBackend

import torchair
from tests import custom_operators
from tests.pipeline.agreement import assert_agrees
from torchair.config import CompilerConfig
from torchair.pipeline.ge_mode import CompiledGraph, compile_graph

ops = custom_operators.ops
seen: list[Any] = []


def _note(x: torch.Tensor, k: int) -> None:
    seen.append((k, x.sum().item()))


def _strides(x: torch.Tensor) -> torch.Tensor:
    return torch.tensor(x.stride())


def _fail(x: torch.Tensor) -> torch.Tensor:
    raise ValueError("the kernel is broken")


custom_operators.define(
    "inductor_strides(Tensor x) -> Tensor", _strides, lambda x: x.new_empty(x.dim(), dtype=torch.int64)
)
custom_operators.define("inductor_fail(Tensor x) -> Tensor", _fail, torch.empty_like)
custom_operators.define("inductor_note(Tensor x, int k) -> ()", _note, lambda x, k: None)


def backend(engine: str = "inductor") -> Callable[..., Any]:
    config = CompilerConfig()
    config.engine = engine
    return torchair.get_npu_backend(compiler_config=config)


def compiled(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    return torch.compile(function, backend=backend(), fullgraph=True, **options)


@pytest.fixture
def executables(monkeypatch: pytest.MonkeyPatch) -> list[CompiledGraph]:
    """The compiled graphs, as they are made."""
    found: list[CompiledGraph] = []

    def recording(*args: Any, **kwargs: Any) -> Any:
        result = compile_graph(*args, **kwargs)
        assert isinstance(result, CompiledGraph)
        found.append(result)
        return result

    monkeypatch.setattr("torchair.pipeline.backends.compile_graph", recording)
    return found


# --- results ---


def test_one_graph_of_many_kinds_of_operators() -> None:
    def program(x: torch.Tensor, y: torch.Tensor, i: torch.Tensor, b: torch.Tensor) -> Any:
        z = torch.softmax(x @ y, -1)
        return (
            z,
            z.std(),
            x.argmax(0),
            i // 3,
            i % 3,
            i & 5,
            x.double().cumsum(0),
            x.sort(0),
            x.topk(2),
            torch.where(b, x, 0),
            x.t(),
            x.unsqueeze(0).expand(2, 4, 5),
            x[1:, ::2],
            x.half() * 2,
            b.any(),
            torch.cat([x, x + 1], 1).split([3, 7], 1),
            x + torch.tensor([1.5, 2, 3, 4, 5]),
        )

    args = (torch.randn(4, 5), torch.randn(5, 6), torch.randint(-9, 9, (4,)), torch.randn(4, 5) > 0)
    assert_agrees(program, compiled(program), args, rtol=1e-5, atol=1e-5)


def test_outputs_of_every_kind() -> None:
    def program(x: torch.Tensor, y: torch.Tensor, n: int) -> Any:
        z = x + y
        return z, z, None, x, y, n * 2, x.shape[0] + n, 2.5, True, z.t(), z[0], x.t()

    run = compiled(program, dynamic=True)
    for n in (3, 4):
        assert_agrees(program, run, (torch.randn(n, 4), torch.randn(n, 4), n))


def test_constants_large_and_small(executables: list[CompiledGraph]) -> None:
    big = torch.randn(100, 7)

    def program(x: torch.Tensor) -> Any:
        return torch.tensor([1, 2]), x + big, x * torch.tensor([1.0, 2, 3, 4, 5, 6, 7]), torch.tensor(2.0)

    run = compiled(program)
    args = (torch.randn(100, 7),)
    assert_agrees(program, run, args)
    for result in run(*args):
        result.zero_()
    assert_agrees(program, run, args)
    assert run(*args)[0].tolist() == [1, 2]


def test_no_nodes_and_no_inputs() -> None:
    assert_agrees(lambda x: x, compiled(lambda x: x), (torch.randn(2),))
    assert_agrees(lambda: torch.ones(3), compiled(lambda: torch.ones(3)), ())


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_low_precision_is_rounded_after_each_operator(dtype: torch.dtype) -> None:
    def program(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        for _ in range(4):
            x = (x * y + x).sin() * 1.7 - y / 3
        return x

    x, y = torch.randn(2, 64, 64).to(dtype).unbind()
    wanted = program(x, y)
    ours = (compiled(program)(x, y).float() - wanted.float()).abs().sum()
    torch._dynamo.reset()
    plain = (torch.compile(program)(x, y).float() - wanted.float()).abs().sum()
    assert plain > 0, "Inductor itself rounds as eager does, and this test shows nothing"
    assert ours <= plain
    if tuple(map(int, torch.__version__.split(".")[:2])) >= (2, 13):
        assert ours == 0


def test_identities_keep_negative_zero_and_own_memory() -> None:
    def program(x: torch.Tensor) -> Any:
        return x + 0, x * 1, x - 0.0, x / 1

    x = torch.tensor([-0.0, 0.0, float("nan"), 1.0])
    assert_agrees(program, compiled(program), (x,))
    assert [torch.signbit(r)[0].item() for r in compiled(program)(x)] == [
        torch.signbit(r)[0].item() for r in program(x)
    ]


def test_random_operators_draw_what_eager_draws() -> None:
    def program(x: torch.Tensor) -> Any:
        a = torch.rand_like(x)
        b = torch.bernoulli(x.abs().clamp(0, 1))
        c = torch.randn(3)
        return c, b * 2, (a - torch.rand_like(x)).sin(), torch.randint(0, 10, (4,))

    run = compiled(program)
    args = (torch.randn(4, 5),)
    assert_agrees(program, run, args, rtol=1e-6, atol=1e-6)
    torch.manual_seed(5)
    first = run(*args)[0]
    assert not torch.equal(run(*args)[0], first)
    torch.manual_seed(5)
    assert torch.equal(run(*args)[0], first)


@pytest.mark.parametrize("dynamic", [None, True])
def test_training(dynamic: bool | None) -> None:
    def program(x: torch.Tensor, w: torch.Tensor) -> Any:
        n = x.shape[0] * x.shape[1]
        y = (x.reshape(n, -1) @ w).tanh().view(x.shape[0], x.shape[1], -1)
        return torch.nn.functional.pad(y, (0, 0, 1, 1)).sum(1), y[:, : x.shape[1] // 2] * x.shape[0]

    run = compiled(program, dynamic=dynamic)
    for shape in ((3, 4), (5, 7), (6, 6)):
        x, w = torch.randn(*shape, 5), torch.randn(5, 6)
        grads = []
        for function in (program, run):
            a, b = x.clone().requires_grad_(), w.clone().requires_grad_()
            first, second = function(a, b)
            grads.append(torch.autograd.grad(first.sum() + second.square().sum(), (a, b)))
        torch.testing.assert_close(grads[1], grads[0], rtol=1e-4, atol=1e-4)


# --- memory ---


def test_written_inputs_and_views_of_them() -> None:
    def program(x: torch.Tensor, y: torch.Tensor) -> Any:
        x.add_(y)
        x[1:].mul_(2)
        v = x.t()
        v[0].zero_()
        z = x + y
        z.view(-1).sub_(1)
        return x, v, z, z.view(-1), x.sum()

    assert_agrees(program, compiled(program), (torch.randn(4, 4), torch.randn(4, 4)), rtol=1e-5, atol=1e-6)


def test_written_inputs_are_read_before_they_are_written() -> None:
    def program(x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> Any:
        t = x.clone()
        x.copy_(y.t())
        y.copy_(z)
        z.copy_(t)
        z[1:].copy_(z[:-1].clone())
        return t, x - y

    args = tuple(torch.randn(33, 33) for _ in range(3))
    assert_agrees(program, compiled(program), args)


def test_custom_operators_write_inputs_views_lists_and_optionals() -> None:
    def program(x: torch.Tensor, y: torch.Tensor) -> Any:
        first = ops.my_inplace(x[0], y)
        second = ops.my_inplace(x.t()[1], y[:4])
        ops.accumulate(x[2], x[2])
        total = ops.write_some(None, y[0], [x[3], x[:, 2]])
        ops.fill_all([x[1, :2], y[3:]], 7.0)
        return first, second, total, x.sum()

    assert_agrees(program, compiled(program), (torch.randn(4, 5), torch.randn(5)), rtol=1e-5, atol=1e-6)


def test_arguments_may_begin_anywhere_in_their_storage() -> None:
    def program(x: torch.Tensor, y: torch.Tensor) -> Any:
        ops.accumulate(x.t(), y[0])
        x[1:].mul_(2)
        return x * 2

    run = compiled(program)
    storage = torch.randn(6, 3, 4)
    for i in (0, 3, 5):
        wanted, got = storage.clone(), storage.clone()
        y = torch.randn(2, 3)
        assert torch.equal(run(got[i], y), program(wanted[i], y))
        assert torch.equal(got, wanted)


def test_arguments_in_the_same_memory() -> None:
    def program(x: torch.Tensor, y: torch.Tensor) -> Any:
        x.add_(10)
        return x + y, y * 2

    run = compiled(program)
    base = torch.randn(12)
    assert_agrees(program, run, (base[:8], base[4:]))
    assert_agrees(program, run, (base, base))


def test_opaque_operators_see_eagers_strides() -> None:
    def program(x: torch.Tensor) -> Any:
        y = x + 1
        views = (x.t(), y, y.t(), x.expand(3, 4, 5)[:, 0], x[:, ::2], (x * 2).permute(1, 0))
        return [ops.inductor_strides(v) for v in views]

    assert_agrees(program, compiled(program), (torch.randn(4, 5),))


def test_arguments_of_any_strides() -> None:
    def program(x: torch.Tensor, y: torch.Tensor) -> Any:
        return x + y, x.reshape(-1), x.t() @ y, y.sum(0)

    args = (torch.randn(6, 4).t()[::2], torch.randn(2).expand(6, 2).t())
    assert_agrees(program, compiled(program), (args[0], torch.randn(4, 6)[::2]), rtol=1e-5, atol=1e-5)
    assert_agrees(program, compiled(program), args, rtol=1e-5, atol=1e-5)


def test_memory_of_arguments_is_freed_while_the_graph_runs(executables: list[CompiledGraph]) -> None:
    alive: list[bool] = []
    first = torch.randn(8)
    references = [weakref.ref(first)]

    def kernel(x: torch.Tensor) -> torch.Tensor:
        alive.append(references[-1]() is not None)
        return x.clone()

    custom_operators.define("inductor_look(Tensor x) -> Tensor", kernel, torch.empty_like)

    def program(x: torch.Tensor) -> torch.Tensor:
        y = x.sin()
        return ops.inductor_look(y) + 1

    compiled(program)(first)
    boxed = [torch.randn(8)]
    references.append(weakref.ref(boxed[0]))
    executables[0](boxed)
    assert boxed == []
    assert alive == [True, False]


# --- sizes ---


def test_one_compile_serves_all_sizes() -> None:
    def program(x: torch.Tensor, y: torch.Tensor, n: int) -> Any:
        z = x[:n].reshape(-1) + y.sum()
        return z, x.shape[0] * n, torch.arange(n), x.mean(0), x.new_zeros(x.shape[1] * 2)

    torch._dynamo.reset()
    ours: Any = CompileCounterWithBackend("eager")
    eager = CompileCounterWithBackend("eager")
    ours.backend = backend()
    first = torch.compile(program, backend=eager, fullgraph=True, dynamic=True)
    second = torch.compile(program, backend=ours, fullgraph=True, dynamic=True)
    for rows, columns, n in ((8, 5, 3), (9, 7, 4), (20, 6, 6), (7, 7, 7), (8, 31, 2)):
        args = (torch.randn(rows, columns), torch.randn(3, rows), n)
        first(*args)
        assert_agrees(program, second, args, rtol=1e-5, atol=1e-5)
    assert ours.frame_count == eager.frame_count == 1


def test_empty_tensors_and_tensors_of_one_element() -> None:
    def program(x: torch.Tensor) -> Any:
        return x.sum(), x + 1, x.reshape(-1), x.mean(0), x.t()

    run = compiled(program, dynamic=True)
    for rows in (0, 1, 3):
        assert_agrees(program, run, (torch.randn(rows, 4),), rtol=1e-6, atol=1e-6)


def test_numbers_as_arguments() -> None:
    def program(x: torch.Tensor, a: float, n: int) -> Any:
        return x * a, a * 2, n + 1, x[n:]

    run = compiled(program, dynamic=True)
    for a, n in ((1.5, 1), (2.5, 2), (0.5, 3)):
        assert_agrees(program, run, (torch.randn(5), a, n))


# --- side effects ---


@pytest.fixture
def effectful() -> Iterator[None]:
    from torch._higher_order_ops import effects

    op = ops.inductor_note.default
    try:
        kind: Any = effects.EffectType  # type: ignore[attr-defined]
    except AttributeError:  # an older version
        kind = effects._EffectType
    handle: Any = effects._register_effectful_op(op, kind.ORDERED)
    seen.clear()
    yield
    if handle is None:
        effects._deregister_effectful_op(op)  # type: ignore[attr-defined]
    else:
        handle.destroy()


@pytest.mark.usefixtures("effectful")
def test_operators_with_side_effects_run_once_and_in_order() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        ops.inductor_note(x, 1)
        y = x * 2
        ops.inductor_note(y, 2)
        ops.inductor_note(x, 3)
        return y

    run = compiled(program)
    with torch.no_grad():
        run(torch.ones(2))
        assert seen == [(1, 2), (2, 4), (3, 2)]
        run(torch.full((2,), 2.0))
    assert seen[3:] == [(1, 4), (2, 8), (3, 4)]


# --- failures ---


def test_a_size_known_only_from_data_is_refused() -> None:
    def program(x: torch.Tensor) -> Any:
        return x.nonzero()

    with (
        torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True),
        pytest.raises(Exception, match="TA406") as caught,
    ):
        compiled(program)(torch.randn(5))
    text = str(caught.value)
    assert "The inductor engine cannot run a graph [TA406]" in text
    assert "the size of a result of aten::nonzero.default (node torch_call, FX node nonzero)" in text
    assert 'config.engine = "reference"' in text
    assert f"{__file__}:" in text
    assert "in program: return x.nonzero()" in text


def test_a_failure_at_run_time_names_the_operator() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        y = x.sin()
        return ops.inductor_fail(y)

    run = compiled(program)
    with pytest.raises(torchair.errors.ExecutionError) as caught:
        run(torch.randn(3))
    error = caught.value
    assert "inductor_fail" in error.why[0].lower().replace("inductorfail", "inductor_fail")
    assert error.why[1] == "ValueError: the kernel is broken"
    assert error.where == (
        f"{__file__}:{program.__code__.co_firstlineno + 2}, in program: return ops.inductor_fail(y)",
    )
    assert isinstance(error.__cause__, ValueError)


def test_a_failed_compile_does_not_spoil_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        return (x + 1).exp()

    def broken(*args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("the compiler is broken")

    with monkeypatch.context() as patch:
        patch.setattr("torch._inductor.compile_fx.compile_fx_inner", broken)
        with pytest.raises(Exception, match=r"failed to compile a graph \[TA407\](.|\n)*the compiler is broken"):
            compiled(program)(torch.randn(3))
    torch._dynamo.reset()
    assert torch._guards.TracingContext.try_get() is None
    assert_agrees(program, compiled(program), (torch.randn(3),), rtol=1e-6, atol=1e-6)


def test_inductors_configuration_is_as_before() -> None:
    from torch._inductor import config

    before = config.save_config_portable()
    compiled(lambda x: x + 1)(torch.randn(3))
    assert config.save_config_portable() == before


# --- lifetime ---


def test_closing_and_collecting(executables: list[CompiledGraph]) -> None:
    big = torch.randn(1000)

    def program(x: torch.Tensor) -> torch.Tensor:
        return x + torch.ops.aten.clone(constant())

    def constant() -> torch.Tensor:
        return big

    run = compiled(program)
    run(torch.randn(1000))
    (graph,) = executables
    executable = weakref.ref(graph.executable)
    graph.executable.close()
    with pytest.raises(torchair.errors.ExecutionError, match="called after it was closed"):
        graph([torch.randn(1000)] * 2)
    executables.clear()
    del graph, run
    torch._dynamo.reset()
    gc.collect()
    assert executable() is None


def test_a_compiled_function_is_collected() -> None:
    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = torch.nn.Linear(3, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.linear(x)

    model = Model()
    weight = weakref.ref(model.linear.weight)
    run = torch.compile(model, backend=backend(), fullgraph=True)
    run(torch.randn(2, 3)).sum().backward()
    del model, run
    torch._dynamo.reset()
    gc.collect()
    assert weight() is None


def test_threads_share_a_compiled_function() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        return (x.sin() + x).sum()

    run = compiled(program)
    inputs = [torch.randn(50, 50) for _ in range(8)]
    run(inputs[0])
    results: list[Any] = [None] * 8

    def work(i: int) -> None:
        results[i] = [run(inputs[i]) for _ in range(20)]

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for x, got in zip(inputs, results, strict=True):
        torch.testing.assert_close(torch.stack(got), program(x).expand(20), rtol=1e-5, atol=1e-3)  # a sum near 0
