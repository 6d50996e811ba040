"""Passes over the AOT graph: the user's before and after ours, and the check that scopes are paired."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

from torch import fx

from torchair.errors import ScopeError
from torchair.logs import logger

__all__ = ["check_scopes", "optimize_fx"]

#: ``(gm, example_inputs, config) -> None``: edits the graph in place (specification, F-17).
CustomPass = Callable[[fx.GraphModule, Sequence[Any], Any], None]


def optimize_fx(
    gm: fx.GraphModule,
    inputs: Sequence[Any],
    config: Any,
    *,
    pre_pass: CustomPass | None = None,
    post_pass: CustomPass | None = None,
) -> fx.GraphModule:
    """Run the FX passes on a private copy of the graph.

    Args:
        inputs: Fake inputs, passed on to the user's passes.
        config: The user's config object, passed on likewise.

    Raises:
        ScopeError: A scope is opened and not closed, or the other way round.
    """
    if pre_pass is not None or post_pass is not None:
        gm = fx.GraphModule(gm, copy.deepcopy(gm.graph))
    for title, custom in (("post_grad_custom_pre_pass", pre_pass), ("post_grad_custom_post_pass", post_pass)):
        if custom is not None:
            logger.debug(f"before {title}, graph is {gm.graph}")
            custom(gm, inputs, config)
            gm.graph.lint()
            gm.recompile()
            logger.debug(f"after {title}, graph is {gm.graph}")
    check_scopes(gm.graph)
    logger.debug(f"after fx graph optimization, graph is {gm.graph}")
    return gm


def check_scopes(graph: fx.Graph) -> None:
    """Every ``scope_enter`` needs a ``scope_exit`` after it (specification, F-24).

    Raises:
        ScopeError: Names the marker without a partner.
    """
    opened: list[fx.Node] = []
    lonely: list[str] = []
    for node in graph.nodes:
        target = str(node.target)
        if target in ("air.scope_enter.default", "npugraph_ex.scope_enter.default"):
            opened.append(node)
        elif target in ("air.scope_exit.default", "npugraph_ex.scope_exit.default"):
            if opened:
                opened.pop()
            else:
                lonely.append(f"{node.name}: a scope is closed that was not opened")
    lonely += [f"{node.name}{node.args}: the scope is never closed" for node in opened]
    if lonely:
        raise ScopeError(
            "Scopes are not paired in the graph",
            why=lonely,
            fix=(
                "Either a custom pass inserts scope_enter without scope_exit, or there is a graph break inside a\n"
                "`with torchair.scope...` block: move the block so that it lies whole in one graph\n"
                "(fullgraph=True shows where)."
            ),
        )
