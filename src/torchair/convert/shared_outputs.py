"""Results that lie in one memory: the value that they are views of has to have the strides that FX promises of it.

An engine's kernel may make a value in another order of memory than PyTorch's fake kernel says. For one result that is
put right at the end of the graph, by a copy. Views that are returned beside their base would be copied each for itself,
and no longer be views of it. So the base is put right where it is made, and views are made of that::

    %v = ScatterElementsV2(%copy, ...) writes %v=$0
    %base = Identity(%v) aliases %base=$0 strides $0=[4, 1]
"""

from __future__ import annotations

from collections import Counter

import torch
from torch import fx

from torchair.frontend.reinplace_memory import fake, storage_of
from torchair.ir import Value
from torchair.opset.memory import Identity
from torchair.opset.torch_types import dim_of

__all__ = ["shared_bases", "with_strides"]


def shared_bases(gm: fx.GraphModule) -> frozenset[fx.Node]:
    """The nodes that make memory in which several results of a graph lie."""
    (output,) = gm.graph.find_nodes(op="output")
    returned = Counter(storage_of(fake(arg)) for arg in output.args[0] if isinstance(arg, fx.Node))
    first: dict[int, fx.Node] = {}
    for node in gm.graph.nodes:
        storage = storage_of(fake(node))
        if storage is not None and returned[storage] > 1:
            first.setdefault(storage, node)
    return frozenset(node for node in first.values() if node.op == "call_function")


def with_strides(value: Value, promised: torch.Tensor) -> Value:
    """``value`` itself, or a copy where an engine made it in other strides than the promised ones."""
    result: Value = Identity(value)
    node = result.producer
    assert node is not None
    node.operand_strides = (tuple(dim_of(s) for s in promised.stride()),)
    return result
