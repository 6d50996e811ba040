"""Compare a compiled function with eager: results, mutations, dtypes, strides, and which tensors share memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

__all__ = ["assert_agrees", "copies", "sharing"]


def copies(args: Any) -> Any:
    """Copies of tensors that keep strides, offsets, and which of them are views of one base."""
    bases: dict[int, torch.Tensor] = {}

    def copy(t: torch.Tensor) -> torch.Tensor:
        key = t.untyped_storage().data_ptr()
        if key not in bases:
            flat = torch.empty(0, dtype=t.dtype).set_(t.untyped_storage())
            bases[key] = flat.clone()
        made = torch.as_strided(bases[key], t.shape, t.stride(), t.storage_offset())
        return made.requires_grad_(t.requires_grad)

    with torch.no_grad():
        return pytree.tree_map_only(torch.Tensor, copy, args)


def sharing(leaves: Sequence[Any]) -> list[int]:
    """For each leaf the first one that has the same storage (itself, if it is alone); -1 for what is no tensor."""
    first: dict[int, int] = {}
    found = []
    for i, leaf in enumerate(leaves):
        if not isinstance(leaf, torch.Tensor) or leaf.numel() == 0:
            found.append(-1)
        else:
            found.append(first.setdefault(leaf.untyped_storage().data_ptr(), i))
    return found


def assert_agrees(
    function: Callable[..., Any],
    compiled: Callable[..., Any],
    args: Sequence[Any],
    *,
    rtol: float = 0.0,
    atol: float = 0.0,
    strides: bool = True,
    aliasing: bool = True,
) -> None:
    """Call both on copies of the arguments and compare everything that a caller can see."""
    mine, theirs = copies(list(args)), copies(list(args))
    torch.manual_seed(3)
    want = function(*theirs)
    torch.manual_seed(3)
    got = compiled(*mine)
    want_leaves, want_spec = pytree.tree_flatten((want, theirs))
    got_leaves, got_spec = pytree.tree_flatten((got, mine))
    assert got_spec == want_spec
    for g, w in zip(got_leaves, want_leaves, strict=True):
        if not isinstance(w, torch.Tensor):
            assert type(g) is type(w)
            assert g == w
            continue
        assert g.requires_grad == w.requires_grad
        torch.testing.assert_close(g, w, rtol=rtol, atol=atol, equal_nan=True, check_stride=False)
        if strides and w.numel() > 1:
            assert [s for s, n in zip(g.stride(), g.shape, strict=True) if n > 1] == [
                s for s, n in zip(w.stride(), w.shape, strict=True) if n > 1
            ]
    if aliasing:
        assert sharing(got_leaves) == sharing(want_leaves)
