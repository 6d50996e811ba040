"""``register_replacement``: what users register, in both packages."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from expecttest import assert_expected_inline
from torch import Tensor
from torch._inductor.pattern_matcher import CallFunction, KeywordArg, fwd_only
from torch._subclasses import FakeTensorMode

import npugraph_ex
import torchair
from tests.frontend.fx_graphs import optimized, record, result, targets
from torchair.config import Options
from torchair.errors import PassError, ReplacementError
from torchair.frontend.replacement import replacements

aten = torch.ops.aten
X, Y = torch.randn(3, 4), torch.randn(3, 4)


def fakes(*shapes: tuple[int, ...], dtype: torch.dtype = torch.float32) -> list[Tensor]:
    with FakeTensorMode():
        return [torch.empty(shape, dtype=dtype) for shape in shapes]


def search(x: Tensor, y: Tensor) -> Tensor:
    return torch.relu(x + y)


def replace(x: Tensor, y: Tensor) -> Tensor:
    return torch.clamp_min(y + x, 0)


@pytest.fixture(autouse=True)
def _registries() -> Iterator[None]:
    saved = {mode: dict(registry._replacements) for mode, registry in replacements.items()}
    yield
    for mode, registry in replacements.items():
        registry._replacements = saved[mode]


def function(x: Tensor, y: Tensor) -> Tensor:
    return torch.relu(x.sin() + y).t() * 2


@pytest.mark.parametrize("mode, package", [("ge", torchair), ("capture", npugraph_ex)])
def test_a_package_is_a_mode(mode: str, package: Any) -> None:
    package.register_replacement(search, replace, fakes((2, 2), (2, 2)))
    made = optimized(function, X, Y, mode=mode)
    assert_expected_inline(
        result(made),
        """\
sin = aten.sin.default(arg0_1)
add_tensor = aten.add.Tensor(arg1_1, sin)
clamp_min_default = aten.clamp_min.default(add_tensor, 0)
t = aten.t.default(clamp_min_default)
mul = aten.mul.Tensor(t, 2)
return [mul]
""",
    )
    (node,) = made.gm.graph.find_nodes(op="call_function", target=aten.clamp_min.default)
    assert "return torch.relu(x.sin() + y)" in node.meta["stack_trace"]
    other = optimized(function, X, Y, mode="capture" if mode == "ge" else "ge")
    assert record(other, "fuse-patterns").rewrites == 0
    off = optimized(function, X, Y, mode=mode, options=Options(pattern_fusion_pass=False))
    assert record(off, "fuse-patterns").skipped == "switched off: pattern_fusion_pass=False"


def test_every_occurrence_of_any_shape() -> None:
    npugraph_ex.register_replacement(search, replace, fakes((2, 2), (2, 2)))

    def three(x: Tensor, y: Tensor) -> Tensor:
        for _ in range(3):
            x = torch.relu(x + y[0])
        return x

    assert record(optimized(three, X.double(), Y.double()), "fuse-patterns").rewrites == 3
    assert record(optimized(three, X, Y, dynamic=True), "fuse-patterns").rewrites == 3


def _intermediate_read(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    z = x + y
    return torch.relu(z), z


@pytest.mark.parametrize(
    "program",
    [
        _intermediate_read,
        lambda x, y: torch.relu(torch.add(x, y, alpha=2)),
        lambda x, y: torch.relu(x - y),
        lambda x, y: torch.sigmoid(x + y),
    ],
)
def test_near_misses(program: Callable[..., Any]) -> None:
    npugraph_ex.register_replacement(search, replace, fakes((2, 2), (2, 2)))
    assert record(optimized(program, X, Y), "fuse-patterns").rewrites == 0


def test_extra_check() -> None:
    def accepts(match: Any) -> bool:
        return bool(match.kwargs["x"].meta["val"].shape[-1] % 4 == 0)

    npugraph_ex.register_replacement(search, replace, fakes((2, 2), (2, 2)), extra_check=accepts)
    assert record(optimized(function, X, Y), "fuse-patterns").rewrites == 1
    assert record(optimized(function, X[:, :3], Y[:, :3]), "fuse-patterns").rewrites == 0


def test_numbers() -> None:
    def scaled(x: Tensor, factor: float) -> Tensor:
        return torch.tanh(x * factor)

    def again(x: Tensor, factor: float) -> Tensor:
        return torch.tanh(torch.sub(x * 0, x, alpha=-factor))

    npugraph_ex.register_replacement(scaled, again, fakes((2, 2)), scalar_workaround={"factor": 0.12345})
    made = optimized(lambda x: torch.tanh(x * 3.0) + torch.tanh(x * 5.0), X)
    assert targets(made).count("sub.Tensor") == 2
    assert "alpha=-3.0" in result(made)
    assert "alpha=-5.0" in result(made)


def test_several_results() -> None:
    def two(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        z = x + y
        return torch.sin(z), torch.cos(z)

    def other(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        z = y + x
        return torch.cos(1.5707963267948966 - z), torch.cos(z)

    npugraph_ex.register_replacement(two, other, fakes((2, 2), (2, 2)))

    def program(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        a, b = two(x, y)
        return a.exp(), b.t()

    gm = optimized(lambda x, y: (two(x, y)[1] * 2, x), X, Y)
    assert record(gm, "fuse-patterns").rewrites == 0
    from tests.frontend.fx_graphs import aot_graph
    from torchair.frontend import optimize_fx

    graph, inputs = aot_graph(program, X, Y)
    made = optimize_fx(graph, inputs, None, Options(), mode="capture")
    assert record(made, "fuse-patterns").rewrites == 1
    torch.testing.assert_close(made.gm(X, Y), program(X, Y))


def test_patterns_are_traced_with_the_decompositions_of_the_graph() -> None:
    def silu(x: Tensor) -> Tensor:
        return torch.nn.functional.silu(x) * 2

    def other(x: Tensor) -> Tensor:
        return torch.sigmoid(x) * x * 2

    npugraph_ex.register_replacement(silu, other, fakes((2, 2)))
    from tests.frontend.fx_graphs import aot_graph
    from torchair._torch_compat import core_decompositions
    from torchair.frontend import optimize_fx

    for table in ({}, core_decompositions()):
        gm, inputs = aot_graph(lambda x: torch.nn.functional.silu(x) * 2, X, decompositions=table)
        made = optimize_fx(gm, inputs, None, Options(), mode="capture", decompositions=table)
        assert record(made, "fuse-patterns").rewrites == 1, table


def test_operators_that_change_nothing_are_removed_from_patterns_too() -> None:
    npugraph_ex.register_replacement(
        lambda x, y: torch.relu((x + y)[:]), lambda x, y: torch.clamp_min(y + x, 0), fakes((2, 2), (2, 2))
    )
    assert record(optimized(function, X, Y), "fuse-patterns").rewrites == 1
    with_slice = lambda x, y: torch.relu((x + y)[:])  # noqa: E731
    made = optimized(with_slice, X, Y, options=Options(remove_noop_ops=False))
    assert record(made, "fuse-patterns").rewrites == 1


def test_a_trace_function_of_the_users_own() -> None:
    called: list[Any] = []

    def trace(f: Any, inputs: Any) -> Any:
        called.append(f)
        return torch.fx.experimental.proxy_tensor.make_fx(f)(*inputs)

    npugraph_ex.register_replacement(search, replace, fakes((2, 2), (2, 2)), trace)
    assert called[:2] == [replace, search]
    assert record(optimized(function, X, Y), "fuse-patterns").rewrites == 1
    replacements["capture"].forget(search)
    npugraph_ex.register_replacement(search, replace, fakes((2, 2), (2, 2)), trace_fn=fwd_only)
    assert record(optimized(function, X, Y), "fuse-patterns").rewrites == 1


def test_a_pattern_that_is_given() -> None:
    pattern = CallFunction(aten.relu.default, CallFunction(aten.sub.Tensor, KeywordArg("x"), KeywordArg("y")))
    npugraph_ex.register_replacement(
        search, lambda x, y: torch.clamp_min(x - y, 0), fakes((2, 2), (2, 2)), search_fn_pattern=pattern
    )
    assert record(optimized(lambda x, y: torch.relu(x - y) * 2, X, Y), "fuse-patterns").rewrites == 1


def test_real_example_inputs_are_not_read() -> None:
    npugraph_ex.register_replacement(search, replace, [torch.full((2, 2), float("nan"))] * 2)
    assert record(optimized(function, X, Y), "fuse-patterns").rewrites == 1


def test_duplicates() -> None:
    torchair.register_replacement(search, replace, fakes((2, 2), (2, 2)))
    npugraph_ex.register_replacement(search, replace, fakes((2, 2), (2, 2)))
    with pytest.raises(ReplacementError, match="Duplicate pattern"):
        torchair.register_replacement(search, replace, fakes((2, 2), (2, 2)))
    torchair.register_replacement(search, replace, fakes((2, 2), (2, 2)), skip_duplicates=True)
    assert len(replacements["ge"].snapshot()) == 1
    npugraph_ex.register_replacement(lambda x, y: torch.relu(y * x), replace, fakes((2, 2), (2, 2)))
    assert len(replacements["capture"].snapshot()) == 2


def test_results_of_another_type_than_what_is_replaced() -> None:
    def widened(x: Tensor, y: Tensor) -> Tensor:
        return torch.clamp_min(x + y, 0).to(torch.float32)

    npugraph_ex.register_replacement(search, widened, fakes((2, 2), (2, 2)))
    assert record(optimized(function, X, Y), "fuse-patterns").rewrites == 1
    with pytest.raises(PassError, match=r"float32\[3, 4\] where float64\[3, 4\] is replaced") as caught:
        optimized(function, X.double(), Y.double())
    assert "return torch.relu(x.sin() + y)" in caught.value.where[0]


def test_an_extra_check_that_fails() -> None:
    npugraph_ex.register_replacement(
        search, replace, fakes((2, 2), (2, 2)), extra_check=lambda match: match.kwargs["z"]
    )
    with pytest.raises(PassError, match=r"extra_check of search .* raised KeyError"):
        optimized(function, X, Y)


def test_the_compiled_function_runs_the_replacement() -> None:
    calls = operator.itemgetter(0)
    torchair.register_replacement(search, replace, fakes((2, 2), (2, 2)))
    config = torchair.CompilerConfig()
    config.engine = "reference"
    backend = torchair.get_npu_backend(compiler_config=config)
    with torch.no_grad():
        actual = torch.compile(function, backend=backend, fullgraph=True)(X, Y)
    torch.testing.assert_close(actual, function(X, Y))
    graph = calls(backend.graphs)
    assert [r.rewrites for r in graph.fx_passes if r.name == "fuse-patterns"] == [1]
    assert graph.graph.count("Relu") == 0
