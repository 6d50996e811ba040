"""``static_kernel_compile``: native programs inside a captured graph."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import torchair
from tests.custom_operators import define, ops

pytestmark = pytest.mark.usefixtures("support")


def compiled(function: Any, **options: Any) -> Any:
    dynamic = options.pop("dynamic", None)
    options = {"static_kernel_compile": True, **options}
    return torch.compile(function, backend="npugraph_ex", fullgraph=True, dynamic=dynamic, options=options)


def _layer(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return torch.softmax(torch.nn.functional.gelu(torch.nn.functional.linear(x, w, b)) * 2, -1)


def test_operators_become_one_launch_and_agree_with_eager() -> None:
    function = compiled(_layer)
    for _ in range(3):
        given = torch.randn(2, 16), torch.randn(32, 16), torch.randn(32)
        torch.testing.assert_close(function(*given), _layer(*given))
    (code,) = torchair.explain(function).native
    assert (code.programs, code.left) == (1, ())
    assert "native code: 1\n  graph_" in str(torchair.explain(function))


def test_without_the_option_nothing_is_native() -> None:
    function = torch.compile(_layer, backend="npugraph_ex", fullgraph=True)
    function(torch.randn(2, 16), torch.randn(32, 16), torch.randn(32))
    assert not torchair.explain(function).native


def test_inputs_are_written_in_place_and_counted() -> None:
    def step(cache: Tensor, at: Tensor, x: Tensor) -> Tensor:
        cache.index_copy_(0, at, x)
        return torch.tanh(cache).sum(0)

    function = compiled(step)
    ours, theirs = torch.zeros(8, 4), torch.zeros(8, 4)
    for n in (3, 0, 7):
        x, at = torch.randn(1, 4), torch.tensor([n])
        version, address = ours._version, ours.data_ptr()
        torch.testing.assert_close(function(ours, at, x), step(theirs, at, x))
        assert torch.equal(ours, theirs)
        assert ours._version > version
        assert ours.data_ptr() == address


def test_an_index_out_of_range_raises() -> None:
    function = compiled(lambda x, i: x[i] * 2)
    x = torch.randn(4, 3)
    torch.testing.assert_close(function(x, torch.tensor([1, -1])), x[torch.tensor([1, -1])] * 2)
    with pytest.raises(IndexError, match="out of range"):
        function(x, torch.tensor([1, 4]))


def test_sizes_that_change() -> None:
    function = compiled(_layer, dynamic=True)
    for rows in (5, 1, 9, 2, 5):
        given = torch.randn(rows, 16), torch.randn(32, 16), torch.randn(32)
        torch.testing.assert_close(function(*given), _layer(*given))


def test_random_and_custom_operators_stay_calls() -> None:
    define("double_it(Tensor x) -> Tensor", lambda x: x * 2, torch.empty_like)

    def noisy(x: Tensor) -> Tensor:
        return ops.double_it(torch.nn.functional.dropout(x.exp(), 0.5, training=True) + 1).sin()

    function = compiled(noisy)
    x = torch.randn(100)
    for seed in (1, 2):
        torch.manual_seed(seed)
        want = noisy(x)
        torch.manual_seed(seed)
        torch.testing.assert_close(function(x), want)
    (code,) = torchair.explain(function).native
    assert "custom_operators.double_it.default" in dict(code.left)


def test_trains_like_eager() -> None:
    torch.manual_seed(0)
    ours = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 1))
    theirs = copy.deepcopy(ours)
    function = compiled(ours)
    for _ in range(3):
        x = torch.randn(4, 8)
        for run, module in ((function, ours), (theirs, theirs)):
            module.zero_grad()
            run(x).square().sum().backward()
        for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
            torch.testing.assert_close(a.grad, b.grad, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("options", [{"force_eager": True}, {"clone_output": False}], ids=str)
def test_other_options_beside_it(options: dict[str, Any]) -> None:
    function = compiled(_layer, **options)
    given = torch.randn(2, 16), torch.randn(32, 16), torch.randn(32)
    for _ in range(3):
        torch.testing.assert_close(function(*given), _layer(*given))
    assert bool(torchair.explain(function).native) == ("force_eager" not in options)


def test_every_call_can_be_verified() -> None:
    function = compiled(_layer, verify_every=1)
    for _ in range(3):
        given = torch.randn(2, 16), torch.randn(32, 16), torch.randn(32)
        torch.testing.assert_close(function(*given), _layer(*given))


def _signs(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    sign = torch.copysign((a < b).float(), b + 1)  # PyTorch's meta function promises other strides than it returns
    return sign * 2 + a, sign.sum(0)


def test_strides_that_an_operator_promises_and_does_not_return() -> None:
    for dynamic in (None, True):
        torch.compiler.reset()
        function = compiled(_signs, dynamic=dynamic)
        for _ in range(2):
            given = torch.randn(2, 63), torch.randn(63, 2).t()
            torch.testing.assert_close(function(*given), _signs(*given), check_stride=False)


def test_super_kernel_optimize_is_native_code_too(caplog: pytest.LogCaptureFixture, monkeypatch: Any) -> None:
    monkeypatch.setattr(torchair.logs.npugraph_ex_logger, "propagate", True)
    function = compiled(_layer, static_kernel_compile=False, super_kernel_optimize=True)
    given = torch.randn(2, 16), torch.randn(32, 16), torch.randn(32)
    with caplog.at_level("INFO", logger="npugraph_ex"):
        torch.testing.assert_close(function(*given), _layer(*given))
    (code,) = torchair.explain(function).native
    assert code.programs == 1
    number = code.graph.removeprefix("graph_")
    assert f"Success to optimize AclGraph{{id: {number}}} with super kernel." in caplog.messages


def _with_a_scope(x: Tensor, w: Tensor, options: str = "", *, sort: bool = False) -> Tensor:
    with torchair.scope.super_kernel("layer", options):
        y = torch.relu(torch.softmax(x * 3 + 1, -1) @ w)
        if sort:
            y = torch.sort(y)[0]  # stays a call
    return y.sin()


def test_scopes_of_super_kernels() -> None:
    x, w = torch.randn(4, 8), torch.randn(8, 8)
    function = compiled(_with_a_scope)
    torch.testing.assert_close(function(x, w), _with_a_scope(x, w))
    (code,) = torchair.explain(function).native
    assert [k.scope for k in code.super_kernels] == ["layer"]
    assert code.programs == 2, "the range, and what comes after it"


def test_a_strict_scope_that_does_not_become_one() -> None:
    with pytest.raises(Exception, match="TA407"):
        compiled(_with_a_scope)(torch.randn(4, 8), torch.randn(8, 8), "strict-scope-check=abort", sort=True)


def test_scopes_without_native_code(caplog: pytest.LogCaptureFixture, monkeypatch: Any) -> None:
    monkeypatch.setattr("torchair.logs._said", set())
    monkeypatch.setattr(torchair.logs.npugraph_ex_logger, "propagate", True)
    monkeypatch.setattr(torchair.logger, "propagate", True)
    x, w = torch.randn(4, 8), torch.randn(8, 8)
    with caplog.at_level("INFO", logger="torchair"):
        function = torch.compile(_with_a_scope, backend="npugraph_ex")
        torch.testing.assert_close(function(x, w), _with_a_scope(x, w))
    assert "torchair.scope.super_kernel: no effect in capture mode without static_kernel_compile" in caplog.messages
