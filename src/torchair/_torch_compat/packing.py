"""Weights in the layouts that oneDNN and MKL multiply with, as Inductor's freezing uses them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import fx

__all__ = ["linear_packer", "tensors_given"]

Linear = Callable[[torch.Tensor, "torch.Tensor | None"], torch.Tensor]


def linear_packer(dtype: torch.dtype, rows: int | None) -> Callable[[torch.Tensor], Linear] | None:
    """What packs a weight ``[n, k]``, for inputs ``[rows, k]``; None where this build of PyTorch cannot.

    It returns ``(input, bias) -> result``. Half precision goes to oneDNN, and takes any number of rows; float32 goes to
    MKL, whose layout is for one number of rows, and which is the faster one there.
    """
    if dtype is torch.float32:
        if rows is None or not _has_mkl():
            return None
        return functools.partial(_mkl, rows)
    return _onednn if dtype in _onednn_dtypes() else None


@functools.cache
def _has_mkl() -> bool:
    return bool(torch._C.has_mkl) and _exists("mkl", "_mkl_linear", "_mkl_reorder_linear_weight")


@functools.cache
def _onednn_dtypes() -> frozenset[torch.dtype]:
    available = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    if not available or not _exists("mkldnn", "_linear_pointwise", "_reorder_linear_weight"):
        return frozenset()
    checks = {torch.bfloat16: "_is_mkldnn_bf16_supported", torch.float16: "_is_mkldnn_fp16_supported"}
    return frozenset(d for d, check in checks.items() if _exists("mkldnn", check) and _supported(check))


def _supported(check: str) -> bool:
    return bool(getattr(torch.ops.mkldnn, check)())


def _exists(namespace: str, *names: str) -> bool:
    return all(hasattr(getattr(torch.ops, namespace), name) for name in names)


def _mkl(rows: int, weight: torch.Tensor) -> Linear:
    packed = torch.ops.mkl._mkl_reorder_linear_weight(weight, rows)

    def run(x: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
        # Other numbers of rows would read the weight as it was.
        assert x.shape[0] == rows
        result: torch.Tensor = torch.ops.mkl._mkl_linear(x, packed, weight, bias, rows)
        return result

    return run


def _onednn(weight: torch.Tensor) -> Linear:
    packed = torch.ops.mkldnn._reorder_linear_weight(weight, None)

    def run(x: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
        result: torch.Tensor = torch.ops.mkldnn._linear_pointwise(x, packed, bias, "none", [], "")
        return result

    return run


def tensors_given(gm: fx.GraphModule) -> list[Any]:
    """For each input of a graph that Dynamo is compiling, the user's object; None where it is not known."""
    found: list[Any] = []
    for node in gm.graph.find_nodes(op="placeholder"):
        argument = node.meta.get("grapharg")
        found.append(getattr(argument, "example", None))
    return found
