"""What an operator wrote in place has one name: its argument, also after the write.

``b = add_(a, x)`` is ``a`` itself. A program that knew both would have two names for one memory, and not see under one
what is written under the other.
"""

from __future__ import annotations

import torch
from torch import fx

from torchair.native.node_kinds import writes

__all__ = ["name_once"]


def name_once(graph: fx.Graph) -> None:
    """Let those that read the result of an operator that returns its argument read the argument, in place."""
    for node in graph.nodes:
        if node.op == "call_function" and (argument := _argument_returned(node)) is not None:
            node.replace_all_uses_with(argument)


def _argument_returned(node: fx.Node) -> fx.Node | None:
    """The first argument, where an operator writes it and returns it; ``squeeze_`` and its like show it otherwise."""
    if not writes(node) or not node.args or torch.Tag.inplace_view in node.target.tags:  # type: ignore[union-attr]
        return None
    schema, first = node.target._schema, node.args[0]  # type: ignore[union-attr]
    given = schema.arguments[0].alias_info
    made = schema.returns[0].alias_info if len(schema.returns) == 1 else None
    same = given is not None and made is not None and given.is_write and given.before_set == made.before_set
    return first if same and isinstance(first, fx.Node) else None
