"""Sizes that are graph inputs, though an input tensor has them (specification, F-20)."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import fx

from torchair.frontend.fx_pass import FxPass
from torchair.logs import logger

__all__ = ["RewriteSymbolicInputs"]

_SIZE = torch.ops.aten.sym_size.int


@dataclass(slots=True)
class RewriteSymbolicInputs(FxPass):
    """Uses of an input ``s0`` that is also the size of an input tensor become ``sym_size(x, 0)``.

    The placeholder stays, without users. Conversion then makes no input of it, so a call passes fewer arguments.
    """

    name: ClassVar[str] = "rewrite-symbolic-inputs"
    log: logging.Logger = logger

    def run(self, gm: fx.GraphModule) -> int:
        graph = gm.graph
        self.log.debug("before sym input optimization, graph is %s", graph)
        placeholders = graph.find_nodes(op="placeholder")
        sizes: dict[Any, tuple[fx.Node, int]] = {}
        for node in placeholders:
            value = node.meta.get("val")
            if isinstance(value, torch.Tensor):
                for dim, size in enumerate(value.shape):
                    if (expr := _symbol(size)) is not None:
                        sizes.setdefault(expr, (node, dim))
        count = 0
        last = placeholders[-1] if placeholders else None
        for node in placeholders:
            expr = _symbol(node.meta.get("val"))
            if expr is None or expr not in sizes or not node.users:
                continue
            assert last is not None
            with graph.inserting_after(last):
                read = graph.call_function(_SIZE, sizes[expr])
            read.meta["val"] = node.meta["val"]
            node.replace_all_uses_with(read)
            last = read
            count += 1
        self.log.debug("after sym input optimization, graph is %s", graph)
        return count


def _symbol(value: Any) -> Any:
    """The symbol that a symbolic integer is; None for other values, expressions among them."""
    if not isinstance(value, torch.SymInt):
        return None
    expr: Any = value.node.expr
    return expr if expr.is_Symbol else None
