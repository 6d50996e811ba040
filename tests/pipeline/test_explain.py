"""What became of a compiled function: ``torchair.explain`` finds its graphs, says why, and keeps nothing alive."""

from __future__ import annotations

import gc
import re
import weakref
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from expecttest import assert_expected_inline
from torch import nn

import npugraph_ex
import torchair
from tests.conformance.op_db import backend as ge_backend
from torchair import _torch_compat
from torchair.errors import ArgumentTypeError
from torchair.pipeline.origin import short_reason


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def text_of(explanation: torchair.pipeline.explain.Explanation) -> str:
    """The text without numbers that depend on what ran before."""
    text = str(explanation)
    for i, name in enumerate(dict.fromkeys(re.findall(r"graph_\d+", text)), 1):
        text = re.sub(rf"\b{name}\b", f"graph_{'ABCDEFG'[i - 1]}", text)
    text = re.sub(r"^(  graph_\w: )\d+/\d+: ", r"\1N/N: ", text, flags=re.MULTILINE)
    text = text.replace("'L['x']'", "'x'")  # before 2.13
    text = re.sub(r"the pool is \d+ in \d+ arenas?$", "the pool is N", text, flags=re.MULTILINE)
    return re.sub(r"bytes held: \d+", "bytes held: N", text)


def affine(x: torch.Tensor) -> torch.Tensor:
    return torch.tanh(x) * 2 + 1


def test_a_backend_by_name() -> None:
    run = torch.compile(affine, backend="npugraph_ex", dynamic=False)
    assert torchair.explain(run).graphs == ()
    for n in (3, 4, 3):
        run(torch.ones(n))
    found = torchair.explain(run)
    assert len(found.graphs) == 2
    assert len(found.captures) == 2
    (recompile,) = found.recompiles
    assert "size mismatch at index 0. expected 3, actual 4" in recompile.reason
    assert found.fallbacks == ()
    assert found.recaptures == ()
    assert found.bytes_held > 0
    assert_expected_inline(
        text_of(found),
        """\
graphs: 2
  graph_A of affine: 3 operators, 1 capture
  graph_B of affine: 3 operators, 1 capture
captures: 2
  graph_A no_updated_input: 3 launches, 128 bytes of the pool
  graph_B no_updated_input: 3 launches, 128 bytes of the pool
recompiles: 1
  graph_B: N/N: tensor 'x' size mismatch at index 0. expected 3, actual 4
recaptures: none
fallbacks: none
pools: 1
  2 captures take 256 bytes apart, 128 shared; the peak of the pool is N
bytes held: N""",
    )


def test_other_compiled_functions_are_left_out() -> None:
    first = torch.compile(affine, backend="npugraph_ex")
    second = torch.compile(lambda x: x + 1, backend="npugraph_ex")
    first(torch.ones(3))
    second(torch.ones(3))
    assert len(torchair.explain(first).graphs) == len(torchair.explain(second).graphs) == 1
    assert torchair.explain(first).graphs != torchair.explain(second).graphs


def test_equal_calls_of_torch_compile_share_graphs() -> None:
    first = torch.compile(affine, backend="npugraph_ex")
    first(torch.ones(3))
    second = torch.compile(affine, backend="npugraph_ex")
    second(torch.ones(3))
    assert torchair.explain(second).graphs == torchair.explain(first).graphs
    assert len(torchair.explain(second).graphs) == 1


def test_graph_breaks_and_functions_that_are_called() -> None:
    @torch._dynamo.disable
    def outside(x: torch.Tensor) -> torch.Tensor:
        return x

    def inner(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        torch._dynamo.graph_break()
        return y * 3

    def broken(x: torch.Tensor) -> torch.Tensor:
        return inner(outside(x + 1)) - 1

    run = torch.compile(broken, backend="npugraph_ex")
    run(torch.ones(3))
    assert len(torchair.explain(run).graphs) == 4


def test_a_module() -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.ReLU())
    run = torch.compile(model, backend="npugraph_ex")
    run(torch.ones(2, 3)).sum().backward()
    found = torchair.explain(run)
    assert len(found.graphs) == 2  # forward and backward


def test_a_module_that_is_compiled_in_place() -> None:
    class Model(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return affine(x)

    model = Model()
    model.compile(backend="npugraph_ex")
    model(torch.ones(2, 3))
    assert len(torchair.explain(model).graphs) == 1


def test_ge_mode() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x) + torch.special.bessel_j0(x)

    made = ge_backend("reference")
    run = torch.compile(program, backend=made)
    run(torch.ones(3))
    found = torchair.explain(run)
    assert torchair.explain(made) == found
    assert found.torch_calls == {"aten.special_bessel_j0.default": 1}
    assert_expected_inline(
        text_of(found),
        """\
graphs: 1
  graph_A of program: 3 operators, reference engine
captures: none
recompiles: none
recaptures: none
fallbacks: none
converted: 2
  aten.relu.default
  aten.add.Tensor
run as torch operators: 1
  aten.special_bessel_j0.default
without an Ascend IR form: 1
  aten.special_bessel_j0.default: no converter is registered (1 node)
bytes held: N""",
    )


def test_fallbacks_and_recaptures_say_why() -> None:
    config = npugraph_ex.CompilerConfig()
    config.capture_limit = 1
    run = torch.compile(affine, backend=npugraph_ex.get_npu_backend(compiler_config=config), dynamic=True)
    run(torch.ones(3))
    with pytest.warns(UserWarning, match="capture_limit reached"):
        run(torch.ones(4))
    found = torchair.explain(run)
    (fallback,) = found.fallbacks
    assert fallback.reason == "capture_limit reached: 1 shapes were captured, and a call needs another one"
    assert fallback.key == "[4]"
    again = torch.compile(lambda x: x - 1, backend="npugraph_ex", options={"force_recapture": True})
    for _ in range(3):
        again(torch.ones(3))
    assert [r.reason for r in torchair.explain(again).recaptures] == ["force_recapture"] * 2
    assert "no_updated_input: force_recapture (2 times)" in str(torchair.explain(again))


def test_another_engine_is_a_fallback() -> None:
    config = torchair.CompilerConfig()
    run = torch.compile(
        lambda x: x.nonzero() + 1,
        backend=torchair.get_npu_backend(compiler_config=config),
        fullgraph=True,
        dynamic=True,
    )
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        run(torch.tensor([0.0, 1.0]))
    (fallback,) = torchair.explain(run).fallbacks
    assert "it runs on the reference engine: native cannot take it, since the size of a result" in str(fallback)


def test_reset_drops_captures() -> None:
    config = npugraph_ex.CompilerConfig()
    config.use_graph_pool = npugraph_ex.graph_pool_handle()
    run = torch.compile(affine, backend=npugraph_ex.get_npu_backend(compiler_config=config))
    other = torch.compile(lambda x: torch.tanh(x) - 1, backend="npugraph_ex")
    x = torch.ones(3)
    run(x)
    other(x)
    torchair.explain(run).reset()
    assert torchair.explain(run).captures == ()
    assert torchair.explain(run).bytes_held == 0
    assert len(torchair.explain(other).captures) == 1
    torch.testing.assert_close(run(x), affine(x))
    assert len(torchair.explain(run).captures) == 1
    torchair.reset()
    assert torchair.explain(run).captures == torchair.explain(other).captures == ()
    torch.testing.assert_close(run(x), affine(x))


def test_nothing_is_kept_alive() -> None:
    def inside() -> tuple[Any, ...]:
        def program(x: torch.Tensor) -> torch.Tensor:
            return torch.tanh(x) + 5

        run = torch.compile(program, backend="npugraph_ex")
        run(torch.ones(3))
        found = torchair.explain(run)
        assert len(found.graphs) == 1
        return found, found._alive[0], weakref.ref(program)

    found, graph, program = inside()
    torch._dynamo.reset()
    gc.collect()
    assert graph() is None
    assert program() is None
    found.reset()


def test_what_is_not_compiled_is_refused() -> None:
    with pytest.raises(ArgumentTypeError, match="a function"):
        torchair.explain(affine)
    assert torchair.explain(torchair.get_npu_backend()).graphs == ()


class _User(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(3, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return affine(self.inner(x))


def test_modules_of_one_class_that_are_compiled_in_place_share_graphs() -> None:
    class Own(nn.Module):  # with code of its own, which no other test compiled
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * 2 + 1

    for _ in range(2):  # Dynamo reuses what it compiled for the first
        model = Own()
        model.compile(backend="npugraph_ex")
        assert str(torchair.explain(model)).startswith(("graphs: none yet: call it first\n", "graphs: 1\n"))
        model(torch.ones(2, 3))
        assert len(torchair.explain(model).graphs) == 1


def test_a_module_of_pytorch_that_is_compiled_in_place() -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.Sequential(_User()), _User())
    model.compile(backend="npugraph_ex")
    model(torch.ones(2, 3))
    assert {graph.function for graph in torchair.explain(model).graphs} == {"forward"}  # those of the user's modules

    alone = nn.Sequential(nn.Linear(3, 3), nn.ReLU())
    alone.compile(backend="npugraph_ex")
    alone(torch.ones(2, 3))
    assert str(torchair.explain(alone)).startswith("graphs: none: Dynamo leaves out modules of PyTorch's own")
    returned = torch.compile(alone, backend="npugraph_ex")
    returned(torch.ones(2, 3))
    assert len(torchair.explain(returned).graphs) == 1  # as the text says


def test_what_was_not_called_yet() -> None:
    text = str(torchair.explain(torch.compile(affine, backend="npugraph_ex")))
    assert text.startswith("graphs: none yet: call it first\ncaptures: none\n")


def test_one_operator() -> None:
    run = torch.compile(torch.tanh, backend="npugraph_ex")
    run(torch.ones(3))
    assert str(torchair.explain(run).graphs[0]).endswith(": 1 operator, 1 capture")


@pytest.mark.parametrize("backend", ["npugraph_ex", "torchair"])
def test_the_recompile_limit_is_a_fallback(backend: str) -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(x) * 3

    run = torch.compile(program, backend=backend, dynamic=False)
    limit, _ = _torch_compat.recompile_limit()
    with torch._dynamo.config.patch({limit: 3}):
        for n in (2, 3):
            run(torch.ones(n))
        assert torchair.explain(run).fallbacks == ()
        for n in (4, 5, 6):
            torch.testing.assert_close(run(torch.ones(n)), program(torch.ones(n)))
        found = torchair.explain(run)
    assert len(found.graphs) == 3
    (fallback,) = found.fallbacks
    assert fallback.graph == found.graphs[-1].name
    assert fallback.reason == (
        "Dynamo compiled program 3 times, its recompile_limit: further shapes and numbers run eagerly (with "
        "fullgraph=True they raise); compile with dynamic=True, pass numbers that change as tensors, or raise "
        f"torch._dynamo.config.{limit}"
    )
    assert torchair.explain(run).fallbacks == ()  # the limit is 8 again


def test_the_recompile_limit_behind_a_graph_break() -> None:
    def program(x: torch.Tensor, n: int) -> torch.Tensor:
        y = torch.tanh(x)
        torch._dynamo.graph_break()
        return y.repeat(n) + n

    run = torch.compile(program, backend="npugraph_ex", dynamic=False)
    with torch._dynamo.config.patch({_torch_compat.recompile_limit()[0]: 2}):
        for n in (2, 3, 4):
            run(torch.ones(3), n)
        found = torchair.explain(run)
    assert found.fallbacks
    assert all("Dynamo compiled program 2 times" in fallback.reason for fallback in found.fallbacks)


def test_functions_of_pytorch_have_their_own_graphs_only() -> None:
    first, second = (torch.compile(function, backend="npugraph_ex") for function in (torch.tanh, torch.sin))
    assert str(torchair.explain(first)).startswith("graphs: none of its own: call it first")
    for run in (first, second):
        run(torch.ones(3))
    assert len(torchair.explain(first).graphs) == len(torchair.explain(second).graphs) == 1


def test_modules_of_pytorch_share_one_recompile_limit() -> None:
    limit, _ = _torch_compat.recompile_limit()
    with torch._dynamo.config.patch({limit: 2}):
        for n in (2, 3, 4):
            run = torch.compile(nn.Linear(3, n), backend="npugraph_ex")
            run(torch.ones(3))
        found = torchair.explain(run)
    assert found.graphs == ()
    assert str(found).startswith("graphs: none: Dynamo compiles it no more\n")
    (fallback,) = found.fallbacks
    own = "inner (which stands for all functions and modules of PyTorch's own)"
    assert fallback.reason.startswith(f"Dynamo compiled {own} 2 times, its recompile_limit: ")


_ZERO_ONE = (
    "0/0: 2 <= x.size()[0]  # y = x + 1  # m.py:3 in f (user code shown is first use of this value--the guard itself "
    "is not due user code but due to 0/1 specialization in the framework; to avoid specialization try "
    "torch._dynamo.decorators.mark_unbacked(tensor, dim))"
)
_RACE = (
    "0/0: Unexpected recompilation: runtime guards failed even though they passed during recompilation-reason "
    "analysis. Please open an issue with a minimal repro: https://github.com/pytorch/pytorch"
)


@pytest.mark.parametrize(
    ("given", "short"),
    [
        ("", ""),
        ("0/1: tensor 'x' size mismatch at index 0", "0/1: tensor 'x' size mismatch at index 0"),
        (
            '0/0: p == 0                # k[:, p] = x  # m.py:27 in put\nUser stack trace:\n  File "m.py", line 27\n',
            "0/0: p == 0  # k[:, p] = x  # m.py:27 in put",
        ),
        (
            "1/2: pos == 2  # k[:, pos] = x  # m.py:27 in put (_dynamo/utils.py:4231 in run_node)",
            "1/2: pos == 2  # k[:, pos] = x  # m.py:27 in put",
        ),
        (_ZERO_ONE, "0/0: 2 <= x.size()[0]  # y = x + 1  # m.py:3 in f"),
        (_RACE, "0/0: several threads compiled at once"),
    ],
)
def test_reasons_in_one_line(given: str, short: str) -> None:
    assert short_reason(given) == short


def test_the_reason_of_a_recompile_is_one_line() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(x) + 1

    run = torch.compile(program, backend="npugraph_ex", dynamic=True)
    for n in (4, 1):
        run(torch.ones(n))
    (recompile,) = torchair.explain(run).recompiles
    assert "size()[0]" in recompile.reason or "size mismatch" in recompile.reason
    assert "\n" not in recompile.reason
    assert "user code shown" not in recompile.reason
