"""What an operator wrote in place has one name: its argument, also after the write.

``b = add_(a, x)`` is ``a`` itself. A program that knew both would have two names for one memory, and not see under one
what is written under the other.
"""

from __future__ import annotations

import torch
from torch import fx

from torchair._torch_compat import OpOverload

__all__ = ["name_once"]


def name_once(graph: fx.Graph) -> None:
    """Let those that read the result of an operator that returns its argument read the argument, in place."""
    for node in graph.nodes:
        if (argument := _argument_returned(node)) is not None:
            node.replace_all_uses_with(argument)


def _argument_returned(node: fx.Node) -> fx.Node | None:
    """The first argument, where an operator writes it and returns it; ``squeeze_`` and its like show it otherwise."""
    target, first = node.target, node.args[0] if node.args else None
    if not isinstance(target, OpOverload) or torch.Tag.inplace_view in target.tags:
        return None
    given, returns = target._schema.arguments[0].alias_info, target._schema.returns
    made = returns[0].alias_info if len(returns) == 1 else None
    same = given is not None and made is not None and given.is_write and given.before_set == made.before_set
    return first if same and isinstance(first, fx.Node) else None
