"""The user's passes, before and after ours (specification, F-17)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from torch import fx

from torchair.frontend.fx_pass import FxPass

__all__ = ["CustomPass", "CustomPostPass", "CustomPrePass"]

#: ``(gm, example_inputs, config) -> None``: edits the graph in place.
CustomPass = Callable[[fx.GraphModule, Sequence[Any], Any], None]


class _Custom(FxPass):
    """The user's function runs on the graph; what it returns is ignored."""

    uses_fuel: ClassVar[bool] = False

    def __init__(self, function: CustomPass, inputs: Sequence[Any], config: Any, log: logging.Logger) -> None:
        self.function = function
        self.inputs = inputs
        self.config = config
        self.log = log

    def run(self, gm: fx.GraphModule) -> int:
        before = _calls(gm.graph)
        self.log.debug("before %s, graph is %s", self.name, gm.graph)
        self.function(gm, self.inputs, self.config)
        self.log.debug("after %s, graph is %s", self.name, gm.graph)
        after = _calls(gm.graph)
        return sum(before.get(node) != call for node, call in after.items()) + len(before.keys() - after.keys())


def _calls(graph: fx.Graph) -> dict[fx.Node, tuple[Any, ...]]:
    return {node: (node.target, node.args, node.kwargs) for node in graph.nodes}


class CustomPrePass(_Custom):
    """The user's function runs before all other passes."""

    name: ClassVar[str] = "post_grad_custom_pre_pass"


class CustomPostPass(_Custom):
    """The user's function runs after all other passes."""

    name: ClassVar[str] = "post_grad_custom_post_pass"
