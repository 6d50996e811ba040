"""Updates of inputs through views: turning them back into the operators that write (specification, F-19)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import fx

from torchair import _torch_compat
from torchair._torch_compat import OpOverload
from torchair.frontend.aliasing import share_memory
from torchair.frontend.fx_pass import FxPass
from torchair.frontend.new_nodes import call

__all__ = ["RecoverInplaceViews"]

#: Operators of the device plug-in with a variant that writes the first argument: the name with an underscore.
_UPDATES = ("scatter_update", "npu_scatter_nd_update", "npu_quant_scatter")

_aten = torch.ops.aten

#: Views that keep the order of elements, so that a value of the first shape comes back unchanged.
_RESHAPING = frozenset({_aten.view.default, _aten.reshape.default, _aten._unsafe_view.default})


@dataclass(slots=True)
class RecoverInplaceViews(FxPass):
    """``copy_(x, view(update(view(x), ...)))`` on a graph input becomes ``update_(view(x), ...)``.

    Only for operators of the device plug-in that update a cache, where both variants exist. Left alone: inputs that
    something else reads, and intermediate values that something else reads.
    """

    name: ClassVar[str] = "recover-inplace-views"

    def run(self, gm: fx.GraphModule) -> int:
        variants = dict(_variants())
        if not variants:
            return 0
        count = 0
        for copy in gm.graph.find_nodes(op="call_function", target=_aten.copy_.default):
            update = _update(copy, variants)
            if update is None:
                continue
            with gm.graph.inserting_before(update):
                call(gm.graph, variants[update.target], update.args, dict(update.kwargs), update)
            back = copy.args[1]
            for node in (copy, *((back,) if back is not update else ()), update):
                gm.graph.erase_node(node)
            count += 1
        return count


def _variants() -> Iterator[tuple[Any, OpOverload]]:
    for name in _UPDATES:
        plain = _torch_compat.find_overload("npu", name)
        writing = _torch_compat.find_overload("npu", f"{name}_")
        if plain is not None and writing is not None:
            yield plain, writing


def _update(copy: fx.Node, variants: dict[Any, OpOverload]) -> fx.Node | None:
    """The update whose result a ``copy_`` puts into the input that it was computed from, if nothing else reads them."""
    target, source = copy.args[:2]
    if copy.users or not isinstance(target, fx.Node) or not isinstance(source, fx.Node) or target.op != "placeholder":
        return None
    if target.meta["val"].shape != source.meta["val"].shape or len(source.users) != 1:
        return None
    update = source.args[0] if source.target in _RESHAPING else None
    if not isinstance(update, fx.Node) or update.target not in variants or len(update.users) != 1:
        return None
    view = update.args[0] if update.args else None
    if not isinstance(view, fx.Node) or view.target not in _RESHAPING or view.args[0] is not target:
        return None
    # A reshape that copies is no view: what is written into it does not reach the input.
    single = len(view.users) == 1 and update.all_input_nodes.count(view) == 1 and share_memory(view, target)
    return update if single and set(target.users) == {view, copy} else None
