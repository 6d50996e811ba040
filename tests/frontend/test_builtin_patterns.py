"""Built-in replacements by fused operators of the device plug-in, which the test defines."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.frontend.fx_graphs import optimized, targets
from tests.frontend.npu_operators import npu_operators
from tests.passes.checking import logged
from torchair.config import Options
from torchair.frontend.builtin_patterns import builtin_replacements

npu: Any = torch.ops.npu


@pytest.fixture(autouse=True, scope="module")
def _plugin() -> Iterator[None]:
    with npu_operators():
        yield


def half(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).half()


X1, X2, G, S = half(2, 4, 32), half(2, 4, 32, seed=1), half(32, seed=2), half(32, seed=3).abs() + 1


def fused(function: Callable[..., Any], *args: Any, mode: str = "capture", options: Options | None = None) -> list[str]:
    """The operators of the plug-in in the optimized graph."""
    made = optimized(function, *args, mode=mode, options=options)
    return [n.target.__name__.removesuffix(".default") for n in made.gm.graph.nodes if "npu." in str(n.target)]


def _smooth(residual: bool, *epsilon: float) -> Callable[..., Any]:
    def function(x1: Tensor, x2: Tensor, g: Tensor, s: Tensor) -> Any:
        y, _, x = npu.npu_add_rms_norm(x1, x2, g, *epsilon)
        q, scale = npu.npu_dynamic_quant(y, smooth_scales=s)
        return (q, scale, x) if residual else (q, scale)

    return function


def _flattened(residual: bool, *epsilon: float) -> Callable[..., Any]:
    def function(x1: Tensor, x2: Tensor, g: Tensor, s: Tensor) -> Any:
        y, _, x = npu.npu_add_rms_norm(x1, x2, g, *epsilon)
        q, scale = npu.npu_dynamic_quant(y.flatten(0, 1))
        return (q + s.sum().int(), scale.view(-1, 1), x if residual else None)

    return function


def _cast(residual: bool, viewed: bool, cast: Callable[[Tensor], Tensor], *epsilon: float) -> Callable[..., Any]:
    def function(x1: Tensor, x2: Tensor, g: Tensor, s: Tensor) -> Any:
        y, _, x = npu.npu_add_rms_norm(x1, x2, g, *epsilon)
        wide = cast(y.view(-1, 32) if viewed else y)
        return (wide * s, x) if residual else wide * s

    return function


@pytest.mark.parametrize("mode", ["ge", "capture"])
@pytest.mark.parametrize("epsilon", [(), (1e-5,)])
@pytest.mark.parametrize("residual", [True, False])
def test_a_normalized_sum_that_is_quantized_or_cast(mode: str, residual: bool, epsilon: tuple[float, ...]) -> None:
    args = (X1, X2, G, S)
    assert fused(_smooth(residual, *epsilon), *args, mode=mode) == ["npu_add_rms_norm_dynamic_quant"]
    assert fused(_flattened(residual, *epsilon), *args, mode=mode) == ["npu_add_rms_norm_dynamic_quant"]
    for cast in (lambda y: y.float(), lambda y: npu._npu_dtype_cast(y, torch.float32)):
        for viewed in (True, False):
            assert fused(_cast(residual, viewed, cast, *epsilon), *args, mode=mode) == ["npu_add_rms_norm_cast"]


@pytest.mark.parametrize("dtype", [torch.qint8, torch.int8])
@pytest.mark.parametrize("zeros", [True, False])
@pytest.mark.parametrize("residual", [True, False])
def test_a_normalized_sum_that_is_quantized_by_given_scales(dtype: Any, zeros: bool, residual: bool) -> None:
    def function(x1: Tensor, x2: Tensor, g: Tensor, s: Tensor, z: Tensor) -> Any:
        y, _, x = npu.npu_add_rms_norm(x1, x2, g, 1e-5)
        q = npu.npu_quantize(y, s, z if zeros else None, dtype, -1, True)
        return (q, x + z) if residual else (q, z * 2)

    args = (X1, X2, G, S, half(32, seed=4))
    assert fused(function, *args) == ["npu_add_rms_norm_quant"]
    assert fused(function, *args, mode="ge") == ["npu_add_rms_norm", "npu_quantize"]


A, B = torch.randn(4, 3, 128), torch.randn(4, 128, 256)


@pytest.mark.parametrize("product", [torch.bmm, torch.matmul])
@pytest.mark.parametrize("dims", [(0, 1), (1, 0)])
def test_a_transposed_product(product: Any, dims: tuple[int, int]) -> None:
    def plain(a: Tensor, b: Tensor) -> Tensor:
        return product(a, b).transpose(*dims) + 1

    def both(a: Tensor, b: Tensor) -> Tensor:
        return product(a.transpose(*dims), b).transpose(*dims) + 1

    assert fused(plain, A, B) == ["npu_transpose_batchmatmul"]
    assert fused(both, A.transpose(0, 1).contiguous(), B) == ["npu_transpose_batchmatmul"]
    assert fused(plain, A, B, mode="ge") == []


def _other_use(x1: Tensor, x2: Tensor, g: Tensor, s: Tensor) -> Any:
    y, _, _ = npu.npu_add_rms_norm(x1, x2, g)
    q, scale = npu.npu_dynamic_quant(y, smooth_scales=s)
    return q, scale, y


def _on_streams(x1: Tensor, x2: Tensor, g: Tensor, s: Tensor) -> Any:
    y, _, _ = npu.npu_add_rms_norm(x1, x2, g)
    torch.ops.air.scope_enter(["_user_stream_label"], ["s"])
    q, scale = npu.npu_dynamic_quant(y, smooth_scales=s)
    torch.ops.air.scope_exit()
    return q, scale


def _around_a_token(x1: Tensor, x2: Tensor, g: Tensor, s: Tensor) -> Any:
    y, _, _ = npu.npu_add_rms_norm(x1, x2, g)
    token = torch.ops.air.record()
    q, scale = npu.npu_dynamic_quant(y, smooth_scales=s)
    torch.ops.air.wait([token])
    return q, scale


def test_near_misses() -> None:
    import torchair.torchops.scopes
    import torchair.torchops.streams  # noqa: F401

    args = (X1, X2, G, S)
    plain = ["npu_add_rms_norm", "npu_dynamic_quant"]
    assert fused(_other_use, *args) == plain
    with logged("torchair.frontend.pattern_fusion") as messages:
        assert fused(_on_streams, *args) == plain
    assert any("on the streams" in m for m in messages)
    with logged("torchair.frontend.pattern_fusion") as messages:
        assert fused(_around_a_token, *args) == plain
    assert any("record stands between" in m for m in messages)
    assert fused(_smooth(True), *args, options=Options(pattern_fusion_pass=False)) == plain
    double = _cast(True, False, lambda y: y.double())
    assert fused(double, *args) == ["npu_add_rms_norm"]

    def product(a: Tensor, b: Tensor) -> Tensor:
        return torch.bmm(a, b).transpose(0, 1) + 1

    assert fused(product, A[:, :, :64], B[:, :64]) == []
    assert fused(product, A, B[:, :, :100]) == []
    assert fused(product, A.double(), B.double()) == []
    assert fused(lambda a, b: torch.bmm(a, b).transpose(1, 2) + 1, A, B) == []
    assert fused(product, torch.randn(1, 1, 65536), torch.randn(1, 65536, 128)) == []


def test_quantization_that_the_fused_operator_does_not_do() -> None:
    def function(x1: Tensor, x2: Tensor, g: Tensor, s: Tensor, z: Tensor) -> Any:
        y, _, _ = npu.npu_add_rms_norm(x1, x2, g)
        return npu.npu_quantize(y, s, z, torch.qint8, -1, True)

    zeros = half(32)
    plain = ["npu_add_rms_norm", "npu_quantize"]
    assert fused(function, X1.float(), X2.float(), G.float(), S, zeros) == plain
    assert fused(function, X1, X2, G, S, torch.zeros(32, dtype=torch.int8)) == plain
    assert fused(function, X1, X2, G, S[:1], zeros) == plain
    assert fused(function, X1[..., :8], X2[..., :8], G[:8], S[:8], zeros[:8]) == plain


def test_symbolic_sizes() -> None:
    made = optimized(_smooth(True, 1e-5), X1, X2, G, S, dynamic=True)
    assert "npu_add_rms_norm_dynamic_quant.default" in targets(made)


def test_rules_belong_to_modes() -> None:
    ge, capture = builtin_replacements("ge"), builtin_replacements("capture")
    assert len(ge) == 8 + 16
    assert len(capture) == len(ge) + 16 + 8
