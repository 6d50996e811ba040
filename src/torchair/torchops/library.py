"""How operators of ours are registered."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from torchair import _torch_compat
from torchair._torch_compat import OpOverload

__all__ = ["define"]

NAMESPACE = "air"

#: Fragments: a real device plug-in may have defined operators in the same namespaces.
_libraries: dict[str, Any] = {
    name: torch.library.Library(name, "FRAGMENT")  # type: ignore[no-untyped-call]
    for name in (NAMESPACE, "npugraph_ex")
}


def define(
    schema: str,
    kernel: Callable[..., Any],
    fake: Callable[..., Any],
    *,
    namespace: str = NAMESPACE,
    kept: bool = False,
    ordered: bool = False,
    backward: Callable[..., Any] | None = None,
    tags: Sequence[torch.Tag] = (),
) -> OpOverload:
    """Define an operator of ours, unless it exists.

    Args:
        schema: Name, arguments and results.
        kernel: Runs it on any device.
        fake: Runs it on fake tensors.
        namespace: ``"air"`` or ``"npugraph_ex"``.
        kept: Graphs keep it although nothing reads its result.
        ordered: Graphs keep it and its order among others that are ordered.
        backward: ``(ctx, *gradients) -> gradients`` of its arguments.
        tags: What PyTorch should know about it.
    """
    name = schema.partition("(")[0]
    found = _torch_compat.find_overload(namespace, name)
    if found is not None:
        return found
    library = _libraries[namespace]
    library.define(schema, tags=tuple(tags))
    library.impl(name, kernel, "CompositeExplicitAutograd")
    torch.library.register_fake(f"{namespace}::{name}", fake, lib=library)
    if backward is not None:
        torch.library.register_autograd(f"{namespace}::{name}", backward, lib=library)
    overload: OpOverload = getattr(getattr(torch.ops, namespace), name).default
    if kept or ordered:
        torch.fx.node.has_side_effect(overload)
    if ordered:
        _torch_compat.register_ordered_effect(overload)
    return overload
