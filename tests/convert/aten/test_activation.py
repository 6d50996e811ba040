"""Activation functions and their gradients agree with eager, in the operators of Ascend IR."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch.nn import functional

from tests.convert.conversion import check, converted_graphs, converted_ops
from tests.convert.operands import FLOATS, all_of, dtypes, numbers

ACTIVATIONS: dict[str, Callable[..., Any]] = {
    "relu": functional.relu,
    "relu6": functional.relu6,
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "gelu": functional.gelu,
    "gelu(tanh)": lambda x: functional.gelu(x, approximate="tanh"),
    "silu": functional.silu,
    "mish": functional.mish,
    "softplus": functional.softplus,
    "softplus(2, 1)": lambda x: functional.softplus(x, 2.0, 1.0),
    "elu": functional.elu,
    "elu(0.3)": lambda x: functional.elu(x, 0.3),
    "celu": lambda x: functional.celu(x, 0.7),
    "selu": functional.selu,
    "leaky_relu": lambda x: functional.leaky_relu(x, 0.2),
    "hardtanh": functional.hardtanh,
    "hardswish": functional.hardswish,
    "hardsigmoid": functional.hardsigmoid,
    "logsigmoid": functional.logsigmoid,
    "threshold": lambda x: functional.threshold(x, 0.7123, 0.3),
    "threshold(0)": lambda x: functional.threshold(x, 0.0, 0.0),
    "prelu": lambda x: functional.prelu(x.reshape(1, 71), torch.full((1,), 0.2, dtype=x.dtype)),
    "prelu(channels)": lambda x: functional.prelu(x.reshape(1, 71), torch.arange(71).to(x.dtype)),
    "glu": lambda x: functional.glu(x[:70]),
    "glu(0)": lambda x: functional.glu(x[:70].reshape(2, 35), 0),
    "hardshrink": functional.hardshrink,
    "softshrink": functional.softshrink,
    "softsign": functional.softsign,
    "tanhshrink": functional.tanhshrink,
}


@dtypes((torch.float32, torch.bfloat16), FLOATS)
def test_activations(dtype: torch.dtype) -> None:
    check(functools.partial(all_of, ACTIVATIONS), numbers(dtype), unconverted_ops="error")


def test_activations_of_integers() -> None:
    functions: dict[str, Callable[..., Any]] = {
        "relu": functional.relu,
        "sigmoid": torch.sigmoid,
        "tanh": torch.tanh,
        "threshold": lambda x: functional.threshold(x, 3, 7),
    }
    check(functools.partial(all_of, functions), numbers(torch.int64), unconverted_ops="error")
    functions = {name: ACTIVATIONS[name] for name in ("sigmoid", "tanh")}
    check(functools.partial(all_of, functions), numbers(torch.bool), unconverted_ops="error")
    check(functools.partial(all_of, functions), numbers(torch.complex64), unconverted_ops="error", rtol=1e-6)


#: Forward and backward operator of those whose gradient is an operator, too.
WITH_GRADIENT = {
    "relu": ("Relu", "ReluGrad"),
    "sigmoid": ("Sigmoid", "SigmoidGrad"),
    "tanh": ("Tanh", "TanhGrad"),
    "gelu": ("GeluV2", "GeluGradV2"),
    "gelu(tanh)": ("GeluV2", "GeluGradV2"),
    "elu(0.3)": ("Elu", "EluGradV2"),
    "leaky_relu": ("LeakyRelu", "LeakyReluGrad"),
    "hardtanh": ("ClipByValueV2", "HardtanhGrad"),
    "hardswish": ("HardSwish", "HardSwishGrad"),
    "hardsigmoid": ("HardSigmoid", "HardSigmoidGrad"),
    "threshold": ("ThresholdV2", "ThresholdGradV2D"),
    "glu": ("GLU", "GLUGrad"),
}
FORWARD = {"logsigmoid": "LogSigmoid", "silu": "Swish", "mish": "Mish", "softplus": "SoftplusV2", "prelu": "PRelu"}


def one_each(names: Iterable[str], x: torch.Tensor) -> list[torch.Tensor]:
    """Activations of rows of ``x``, whose gradients then do not add up."""
    return [ACTIVATIONS[name](x[i]) for i, name in enumerate(names)]


def rows(dtype: torch.dtype) -> torch.Tensor:
    x = torch.nan_to_num(numbers(dtype), posinf=9.0, neginf=-9.0)
    return x.expand(len(ACTIVATIONS), 71).contiguous().requires_grad_()


@dtypes((torch.float32,), FLOATS)
def test_gradients_by_operators_are_eagers(dtype: torch.dtype) -> None:
    ops = [op for pair in WITH_GRADIENT.values() for op in pair]
    check(functools.partial(one_each, WITH_GRADIENT), rows(dtype), backward=True, ops=ops, unconverted_ops="error")


@dtypes((torch.float32,), FLOATS)
def test_decomposed_gradients(dtype: torch.dtype) -> None:
    names = [name for name in ACTIVATIONS if name not in WITH_GRADIENT]
    # PyTorch's decompositions of the gradients of softplus, mish and others round otherwise than its kernels.
    tolerance = {torch.float32: 1e-5, torch.float64: 1e-12, torch.bfloat16: 4e-2, torch.float16: 4e-3}[dtype]
    options: dict[str, Any] = {"unconverted_ops": "error", "rtol": tolerance, "atol": tolerance}
    ops = [*FORWARD.values(), "LogSigmoidGrad"]
    check(functools.partial(one_each, names), rows(dtype), backward=True, ops=ops, **options)


def test_gradient_of_a_result() -> None:
    """In-place activations keep the result, from which the gradient is computed."""

    def results(x: torch.Tensor) -> list[torch.Tensor]:
        return [
            functional.elu(x * 2, 0.5, inplace=True),
            functional.leaky_relu(x * 3, 0.5, inplace=True),
            functional.hardtanh(x * 4, -1, 2, inplace=True),
            torch.relu_(x * 5),
        ]

    ops = ["EluGradV2", "LeakyReluGrad", "HardtanhGrad", "ReluGrad"]
    check(results, torch.linspace(-3, 3, 31).requires_grad_(), backward=True, ops=ops, rtol=1e-6)


def test_attributes() -> None:
    (graph,) = converted_graphs(
        lambda x: functional.elu(functional.leaky_relu(functional.gelu(x, approximate="tanh"), 0.25), 0.5),
        torch.randn(4),
    )
    attrs = {node.op: dict(node.attrs) for node in graph}
    assert attrs["GeluV2"] == {"approximate": "tanh"}
    assert attrs["LeakyRelu"] == {"negative_slope": 0.25}
    assert attrs["Elu"] == {"alpha": 0.5, "scale": 1.0, "input_scale": 1.0}


def test_relu6_is_a_clamp() -> None:
    assert converted_ops(functional.relu6, torch.randn(4)) == ["ClipByValueV2"]
