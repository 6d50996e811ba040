"""Normalizations and their gradients agree with eager, running statistics included."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F

from tests.convert.conversion import check, check_samples, converted_ops, reference_backend
from tests.convert.operands import dtypes
from tests.convert.single_call import check_overload

HALF = (torch.bfloat16, torch.float16)


def random(*shape: int, dtype: torch.dtype = torch.float32, grad: bool = False, seed: int = 0) -> torch.Tensor:
    x = torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)
    return x.requires_grad_(grad)


# --- layer normalization ---


def layer_norms(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> list[torch.Tensor]:
    return [
        F.layer_norm(x, (6,), weight, bias),
        F.layer_norm(x, (6,), weight, eps=1e-3),
        F.layer_norm(x, (6,), None, bias),
        F.layer_norm(x, (4, 6)),
    ]


@dtypes((torch.float32, torch.bfloat16), (torch.float64, torch.float16))
def test_layer_norm(dtype: torch.dtype) -> None:
    args = [random(3, 4, 6, dtype=dtype), random(6, dtype=dtype, seed=1), random(6, dtype=dtype, seed=2)]
    check(layer_norms, *args, unconverted_ops="error", ops=["LayerNormV4"])
    check(layer_norms, *(a.requires_grad_() for a in args), backward=True, ops=["LayerNormGradV3"])


def test_all_results_of_layer_norm() -> None:
    def fn(x: torch.Tensor, weight: torch.Tensor) -> Any:
        return torch.native_layer_norm(x, (6,), weight, weight, 1e-5)

    check(fn, random(3, 4, 6), random(6, seed=1), unconverted_ops="error")
    check(fn, random(3, 4, 6, dtype=torch.bfloat16), random(6, dtype=torch.bfloat16), unconverted_ops="error")


@pytest.mark.parametrize("dtype", HALF)
def test_half_precision_with_float32_parameters(dtype: torch.dtype) -> None:
    args = random(3, 4, 6, dtype=dtype, grad=True), random(6, grad=True, seed=1), random(6, grad=True, seed=2)
    check(lambda x, w, b: F.layer_norm(x, (6,), w, b), *args, backward=True)
    group = random(2, 6, 3, dtype=dtype, grad=True), random(6, grad=True, seed=1), random(6, grad=True, seed=2)
    check(lambda x, w, b: F.group_norm(x, 3, w, b), *group, backward=True)


def test_half_precision_with_float32_parameters_is_normalized_in_float32() -> None:
    args = random(3, 4, 6, dtype=torch.bfloat16), random(6), random(6)
    assert converted_ops(lambda x, w, b: F.layer_norm(x, (6,), w, b), *args) == ["Cast", "LayerNormV4", "Cast"]


def test_symbolic_sizes_of_layer_norm() -> None:
    args = random(3, 4, 6, grad=True), random(6, grad=True, seed=1), random(6, grad=True, seed=2)

    def fn(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> list[torch.Tensor]:
        return [F.layer_norm(x, x.shape[2:], weight, bias), F.layer_norm(x, x.shape[1:])]

    check(fn, *args, dynamic=True, backward=True)


def test_empty_batch_of_layer_norm() -> None:
    check(layer_norms, random(0, 4, 6, grad=True), random(6, grad=True), random(6, grad=True), backward=True)


# --- RMS normalization, which a CPU takes apart before conversion ---


def test_rms_norm_agrees() -> None:
    def fn(x: torch.Tensor, weight: torch.Tensor) -> list[torch.Tensor]:
        return [F.rms_norm(x, (6,), weight), F.rms_norm(x, (4, 6)), F.rms_norm(x, (6,), weight, eps=1e-3)]

    check(fn, random(3, 4, 6, grad=True), random(6, grad=True, seed=1), backward=True, rtol=1e-5, atol=1e-6)
    check(fn, random(3, 4, 6, dtype=torch.bfloat16), random(6, dtype=torch.bfloat16), unconverted_ops="error")


@dtypes((torch.float32, torch.bfloat16))
def test_rms_norm_as_one_operator(dtype: torch.dtype) -> None:
    x, weight = random(3, 4, 6, dtype=dtype), random(6, dtype=dtype, seed=1)
    overloads = [getattr(torch.ops.aten, name, None) for name in ("rms_norm", "_fused_rms_norm")]
    for packet in filter(None, overloads):  # the second since torch 2.8
        assert check_overload(packet.default, x, [6], weight, 1e-3) == ["RmsNorm"]
        assert check_overload(packet.default, x, [4, 6], None, None) == ["Fill", "RmsNorm"]


# --- group normalization ---


def group_norms(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> list[torch.Tensor]:
    return [F.group_norm(x, 3, weight, bias), F.group_norm(x, 1, weight), F.group_norm(x, 6, weight, eps=1e-3)]


@dtypes((torch.float32, torch.bfloat16), (torch.float64, torch.float16))
def test_group_norm(dtype: torch.dtype) -> None:
    args = [random(2, 6, 3, 5, dtype=dtype), random(6, dtype=dtype, seed=1), random(6, dtype=dtype, seed=2)]
    check(group_norms, *args, unconverted_ops="error", ops=["GroupNormV2"])
    check(lambda x, _, bias: F.group_norm(x, 2, None, bias), *args, unconverted_ops="error")
    check(group_norms, *(a.requires_grad_() for a in args), backward=True, ops=["GroupNormGrad"])


def test_group_norm_without_parameters() -> None:
    # Eager takes another formula then; Ascend IR has ones and zeros. They differ in the last bit.
    check(lambda x: F.group_norm(x, 3), random(2, 6, 3, 5, grad=True), backward=True, rtol=1e-6, atol=1e-6)


def test_symbolic_sizes_of_group_norm() -> None:
    args = random(2, 6, 3, grad=True), random(6, grad=True, seed=1), random(6, grad=True, seed=2)
    check(lambda x, w, b: F.group_norm(x, 3, w, b), *args, dynamic=True, backward=True)


def test_a_group_norm_of_another_layout_stays_a_torch_call() -> None:
    def fn(x: torch.Tensor) -> Any:
        return torch.native_group_norm(x, None, None, 2, 6, 5, 3, 1e-5)

    (graph,) = check(fn, random(12, 5))
    assert [n.op for n in graph] == ["torch_call"]


# --- batch normalization ---


def functional(training: bool) -> Any:
    def fn(x: torch.Tensor, weight: Any, bias: Any, mean: Any, var: Any) -> torch.Tensor:
        return F.batch_norm(x, mean, var, weight, bias, training=training, momentum=0.3, eps=1e-3)

    return fn


@pytest.mark.parametrize("training", [True, False], ids=["training", "eval"])
@pytest.mark.parametrize("affine", [True, False], ids=["affine", "plain"])
@dtypes((torch.float32,), (torch.float64, torch.bfloat16))
def test_batch_norm(training: bool, affine: bool, dtype: torch.dtype) -> None:
    parameters = [random(6, dtype=dtype, seed=s) if affine else None for s in (1, 2)]
    statistics = [random(6, dtype=dtype, seed=3), random(6, dtype=dtype, seed=4).abs()]
    x = random(4, 6, 3, 5, dtype=dtype)
    op = "BatchNormV3" if training else "BNInfer"
    check(functional(training), x, *parameters, *statistics, unconverted_ops="error", ops=[op])
    differentiable = [p if p is None else p.requires_grad_() for p in (x, *parameters)]
    check(functional(training), *differentiable, *statistics, backward=True, ops=["BatchNormGradV3"])


@pytest.mark.parametrize("training", [True, False], ids=["training", "eval"])
@pytest.mark.parametrize("dtype", HALF)
def test_batch_norm_of_half_precision_with_float32_statistics(training: bool, dtype: torch.dtype) -> None:
    parameters = random(6, grad=True, seed=1), random(6, grad=True, seed=2)
    statistics = random(6, seed=3), random(6, seed=4).abs()
    x = random(4, 6, 3, dtype=dtype, grad=True)
    # Eager's mixed kernel adds in another order than its float32 kernel, so that a result may round to the neighbor.
    tolerance = 0.01 if dtype is torch.bfloat16 else 2e-3
    check(functional(training), x, *parameters, *statistics, backward=True, rtol=tolerance, atol=1e-6)
    check(functional(training), x.detach(), None, None, *statistics, rtol=tolerance, atol=1e-6)


def test_batch_norm_without_statistics() -> None:
    x = random(4, 6, 3, 5, grad=True)
    check(functional(True), x, None, None, None, None, backward=True, ops=["BatchNormV3", "BatchNormGradV3"])
    check(functional(True), x.detach(), random(6), random(6), None, None, unconverted_ops="error")


def test_a_module_in_training_updates_its_buffers() -> None:
    modules = [torch.nn.BatchNorm1d(6) for _ in range(2)]
    x = random(8, 6)
    compiled = torch.compile(modules[1], fullgraph=True, backend=reference_backend())
    for _ in range(3):
        torch.testing.assert_close(compiled(x), modules[0](x), rtol=0, atol=0)
    torch.testing.assert_close(modules[1].state_dict(), modules[0].state_dict(), rtol=0, atol=0)
    assert modules[1].num_batches_tracked == 3


def test_symbolic_sizes_of_batch_norm() -> None:
    args = random(4, 6, 3, 5, grad=True), random(6, grad=True), random(6, grad=True), random(6), random(6).abs()
    check(functional(True), *args, dynamic=True, backward=True)
    check(functional(False), *(a.detach() for a in args), dynamic=True)


def test_channels_last() -> None:
    x = random(4, 6, 3, 5).to(memory_format=torch.channels_last)
    check(functional(True), x, random(6), random(6), random(6), random(6).abs())
    check(lambda x: [F.group_norm(x, 3), F.instance_norm(x), F.layer_norm(x, (3, 5))], x, rtol=1e-6, atol=1e-6)


def test_the_ir_operators() -> None:
    x = random(2, 6, 4)
    assert converted_ops(lambda x: F.layer_norm(x, (4,)), x) == ["LayerNormV4"]
    assert converted_ops(lambda x: F.group_norm(x, 3), x) == ["Fill", "Fill", "GroupNormV2"]
    args = x, random(6), random(6), random(6), random(6).abs()
    assert converted_ops(functional(False), *args) == ["BNInfer"]
    # In place, since nothing reads the statistics from before the update.
    assert converted_ops(functional(True), *args) == ["BatchNormV3"]


NAMES = ["nn.functional." + n for n in ("layer_norm", "group_norm", "batch_norm", "instance_norm", "rms_norm")]


@pytest.mark.slow  # the first sample of every entry is among the conformance tests
@pytest.mark.parametrize("name", [*NAMES, "native_layer_norm", "native_batch_norm"])
def test_op_info_samples(name: str) -> None:
    check_samples(name, torch.float32, rtol=1e-6, atol=1e-6)
