"""Activation checkpointing with operators that draw random numbers (dropout, attention).

AOTAutograd wraps such an operator so that the backward graph draws what the forward graph drew: the forward graph
returns the state of the generator from before the call, the backward graph calls with that state and puts the present
one back. The wrappers are higher-order operators. Written out as separate operators, which keep their order, they run
on every engine.
"""

from __future__ import annotations

import copy
import operator
from typing import Any

import torch
from torch import fx

from torchair import _torch_compat
from torchair.torchops.rng_state import get_rng_state, set_rng_state

__all__ = ["expand_rng_wrappers"]


def expand_rng_wrappers(gm: fx.GraphModule) -> fx.GraphModule:
    """The graph with calls of ``air.get_rng_state`` and ``air.set_rng_state`` in place of the wrappers.

    Args:
        gm: An AOT-level graph; it is not changed.

    Returns:
        A copy; the graph itself where nothing is to be done.
    """
    if not any(_wrapped(node) for node in gm.graph.nodes):
        return gm
    gm = _torch_compat.graph_module(gm, copy.deepcopy(gm.graph))
    fake_mode = _torch_compat.detect_fake_mode(
        [val for node in gm.graph.nodes if isinstance(val := node.meta.get("val"), torch.Tensor)]
    )
    for node in list(gm.graph.nodes):
        if _wrapped(node):
            _Expansion(gm.graph, node, fake_mode).run()
    gm.graph.lint()
    gm.recompile()
    return gm


def _wrapped(node: fx.Node) -> bool:
    """True for a wrapped call of an operator."""
    return _saves(node) or _torch_compat.is_run_with_rng_state(node.target)


def _saves(node: fx.Node) -> bool:
    return _torch_compat.is_run_and_save_rng_state(node.target)


class _Expansion:
    """One wrapped call."""

    def __init__(self, graph: fx.Graph, node: fx.Node, fake_mode: Any) -> None:
        self.graph = graph
        self.node = node
        self.fake_mode = fake_mode
        # Where the operator comes from: PyTorch leaves it at the item of the results, if at all.
        sources = (node, *(user for user in node.users if user.target is operator.getitem))
        self.meta = {key: entry for source in sources for key, entry in source.meta.items() if key != "val"}
        self.state, self.overload, *self.args = (None, *node.args) if _saves(node) else node.args
        tensors = (n.meta.get("val") for n in node.all_input_nodes if n is not self.state)
        devices: list[Any] = [
            node.kwargs.get("device"),
            *(t.device for t in tensors if isinstance(t, torch.Tensor)),
            "cpu",
        ]
        self.device = next(torch.device(device).type for device in devices if device is not None)

    def run(self) -> None:
        with self.graph.inserting_before(self.node):
            present = self._call(get_rng_state, self.device)
            if self.state is None:
                result = self._call(self.overload, *self.args, **self.node.kwargs)
                self._hand_out(present, result)
                return
            self._call(set_rng_state, self.state, self.device)
            result = self._call(self.overload, *self.args, **self.node.kwargs)
            self._call(set_rng_state, present, self.device)
        self.node.replace_all_uses_with(result)
        self.graph.erase_node(self.node)

    def _hand_out(self, state: fx.Node, result: fx.Node) -> None:
        """Replace the items of the pair that the wrapper returns."""
        for user in list(self.node.users):
            assert user.target is operator.getitem, f"{user} reads the pair that {self.node} returns"
            user.replace_all_uses_with((state, result)[user.args[1]])  # type: ignore[index]
            self.graph.erase_node(user)
        self.graph.erase_node(self.node)

    def _call(self, overload: Any, *args: Any, **kwargs: Any) -> fx.Node:
        made = self.graph.call_function(overload, args, kwargs)
        made.meta = dict(self.meta)
        vals = fx.map_arg((args, kwargs), self._fake)
        with _torch_compat.fake_calls(self.fake_mode):
            made.meta["val"] = overload(*vals[0], **vals[1])
        return made

    def _fake(self, node: fx.Node) -> Any:
        val = node.meta["val"]
        # Before 2.7 the state of the generator stands in the graph as a real tensor.
        real = isinstance(val, torch.Tensor) and not _torch_compat.is_fake(val)
        return self.fake_mode.from_tensor(val, static_shapes=True) if real else val
