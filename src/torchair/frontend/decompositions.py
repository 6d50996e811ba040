"""Which operators AOTAutograd decomposes (specification, decision 32)."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import Any

import torch

from torchair import _torch_compat
from torchair.frontend.mixed_norms import float32_normalizations

__all__ = ["converted_kept_whole", "decomposition_table"]


def decomposition_table(
    converted: Container[Any], custom: Mapping[Any, Callable[..., Any]]
) -> dict[Any, Callable[..., Any]]:
    """PyTorch's core ATen table without the overloads that have a converter; the user's entries win.

    An operator that draws random numbers is not decomposed either (``bernoulli``): what its decomposition draws need
    not be what eager draws from the same seed.

    Args:
        converted: Overloads that have a converter.
        custom: Overload to decomposition.
    """
    table = {op: f for op, f in _torch_compat.core_decompositions().items() if op not in converted and not _draws(op)}
    table.update(float32_normalizations())
    table.update(custom)
    return table


def _draws(op: Any) -> bool:
    return torch.Tag.nondeterministic_seeded in op.tags and not _torch_compat.is_composite(op)


def converted_kept_whole(
    converted: Iterable[Any], custom: Mapping[Any, Callable[..., Any]]
) -> contextlib.AbstractContextManager[None]:
    """While AOTAutograd traces: PyTorch's decompositions outside its tables leave converted operators whole.

    Resizing of images is of that kind. Models call its overload ``vec``, which becomes the one that has the converter.
    The user's decompositions win here, too.
    """
    instead = dict(_kernels_instead(frozenset(converted)))
    instead.update((op, lambda _, function=function: function) for op, function in custom.items())
    return _torch_compat.python_decompositions(instead)


@functools.lru_cache(maxsize=8)
def _kernels_instead(converted: frozenset[Any]) -> dict[Any, Callable[[Any], Any] | None]:
    instead: dict[Any, Callable[[Any], Any] | None] = {}
    for op in converted:
        instead[op] = None
        if "vec" in op.overloadpacket.overloads():
            instead[op.overloadpacket.vec] = functools.partial(_sizes_from_scales, op)
    return {op: make for op, make in instead.items() if _torch_compat.has_python_decomposition(op)}


def _sizes_from_scales(resize: Callable[..., Any], decompose: Callable[..., Any]) -> Callable[..., Any]:
    """``upsample_*.vec`` in terms of the overload that takes sizes and one scale for each."""

    def decomposition(input: torch.Tensor, output_size: Sequence[Any] | None, *rest: Any) -> Any:
        *flags, scales = rest
        sizes = output_size or [_scaled(n, s) for n, s in zip(input.shape[2:], scales, strict=True)]
        if input.requires_grad and not all(isinstance(n, int) for n in (*input.shape, *sizes)):
            # The gradient of a whole resize has no meta function for symbolic sizes (bilinear, torch 2.13).
            return decompose(input, output_size, *rest)
        return resize(input, sizes, *flags, *(scales or [None] * len(sizes)))

    return decomposition


def _scaled(size: Any, scale: float) -> Any:
    return size * int(scale) if scale == int(scale) else torch.sym_int(size * scale)  # type: ignore[no-untyped-call]
