"""What tests of native programs share: functions traced to FX graphs, and graphs with native programs in them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx
from torch.fx.experimental.proxy_tensor import make_fx

from torchair import _torch_compat
from torchair.engines.native import NativeExecutable
from torchair.frontend.reinplace import reinplace
from torchair.native import PartitionRecord, replace_regions

__all__ = ["assert_close", "check", "copies", "least_precision", "lowered", "native", "traced"]

#: How much results of fused kernels may differ from those of single operators.
_TOLERANCES = {
    torch.float32: {"rtol": 5e-5, "atol": 2e-5},
    torch.float64: {"rtol": 1e-7, "atol": 1e-7},
    torch.bfloat16: {"rtol": 1.6e-2, "atol": 1e-2},
    torch.float16: {"rtol": 2e-3, "atol": 1e-3},
}


def traced(function: Callable[..., Any], arguments: Sequence[Any], *, mode: str = "fake") -> fx.GraphModule:
    """The function as ATen operators that write its arguments at the end, as engines trace it.

    Args:
        mode: ``"fake"``, or ``"symbolic"`` for sizes that are symbols.
    """
    decompositions = _torch_compat.inductor_decompositions()
    table = {op: function for op, function in decompositions.items() if op not in NativeExecutable.whole}
    trace: Any = make_fx
    with torch.no_grad():
        gm: fx.GraphModule = trace(torch.func.functionalize(function), table, mode)(*arguments)
    gm.graph.eliminate_dead_code()
    gm.recompile()
    return gm


def least_precision(gm: fx.GraphModule) -> torch.dtype:
    """The dtype whose rounding may show in all results, whatever their dtype.

    16-bit floats where matrices of them are multiplied: other orders of summation round to other numbers. Also
    where they have a power: eager mode rounds the exponent to 16 bits, too, and native code does not.
    """
    tensors = {n: t for n in gm.graph.nodes if isinstance(t := n.meta.get("val"), torch.Tensor)}
    for node in gm.graph.nodes:
        last = node.args[-1] if node.args else None
        is_product = any(p in str(node.target) for p in ("mm", "bmm", "attention"))
        first = node.args[0] if node.args else None
        if "pow" in str(node.target) and first in tensors and tensors[first].dtype in (torch.bfloat16, torch.float16):
            return torch.bfloat16
        if is_product and last in tensors and tensors[last].dtype in (torch.bfloat16, torch.float16):
            return torch.bfloat16
    return torch.float32 if any(t.dtype is torch.float32 for t in tensors.values()) else torch.float64


def native(gm: fx.GraphModule, *, in_place: bool = False) -> tuple[fx.GraphModule, PartitionRecord]:
    """The graph with native programs, which are not compiled yet.

    Args:
        in_place: Arguments are written where the graph allows it; changes ``gm``.
    """
    if in_place:
        with _torch_compat.no_dispatch_modes():
            reinplace(gm, intermediates=True, inputs=True)
    return replace_regions(gm, compile=False)


def assert_close(
    got: Sequence[torch.Tensor], want: Sequence[torch.Tensor], *, precision: torch.dtype = torch.float64
) -> None:
    """Same dtypes, sizes and strides; values within rounding.

    Args:
        precision: What values were rounded to on the way, whatever they are now.
    """
    assert len(got) == len(want)
    for g, w in zip(got, want, strict=True):
        assert (g.dtype, g.shape) == (w.dtype, w.shape)
        assert w.numel() < 2 or all(
            n == 1 or a == b for n, a, b in zip(w.shape, g.stride(), w.stride(), strict=True)
        ), f"strides {g.stride()} instead of {w.stride()} for {tuple(w.shape)}"
        known = [_TOLERANCES[d] for d in (w.dtype, precision) if w.is_floating_point()]
        tolerance = max(known, key=lambda t: t["rtol"], default={})
        torch.testing.assert_close(
            g, w, equal_nan=True, check_stride=False, rtol=tolerance.get("rtol"), atol=tolerance.get("atol")
        )


def copies(arguments: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """The same tensors elsewhere in memory."""
    return [torch.empty_strided(t.shape, t.stride(), dtype=t.dtype).copy_(t) for t in arguments]


def lowered(function: Callable[..., Any], *arguments: torch.Tensor) -> tuple[fx.GraphModule, PartitionRecord]:
    """A function traced and with native programs, which write arguments where the function does."""
    return native(traced(function, copies(arguments)), in_place=True)


def check(function: Callable[..., Any], *arguments: torch.Tensor) -> PartitionRecord:
    """Run on copies and compare results and arguments with eager."""
    module, record = lowered(function, *arguments)
    got, want = copies(arguments), copies(arguments)
    assert_close([*module(*got), *got], [*function(*want), *want])
    assert record.programs
    return record
