"""What orders nodes: ``npu_wait_tensor`` as an ``Identity``, ``record`` and ``wait`` as control edges (F-73, F-79)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import fx

from torchair._torch_compat import OpOverload
from torchair.ir import Node, Value
from torchair.logs import logger
from torchair.opset.memory import Identity
from torchair.streams import is_record, is_wait

if TYPE_CHECKING:
    from torchair.convert.driver import Driver

__all__ = ["StreamOrder", "convert_wait_tensor", "is_event", "is_wait_tensor"]

_WAIT_TENSOR = ("air.wait_tensor.default", "npugraph_ex.wait_tensor.default")

#: Not operators that run, so that nothing waits for them or through them.
_PASSIVE = ("Const", "HostInts")


def is_wait_tensor(node: fx.Node) -> bool:
    """True for the call of ``npu_wait_tensor``."""
    return str(node.target) in _WAIT_TENSOR


def convert_wait_tensor(driver: Driver, node: fx.Node) -> Value:
    """Make every later use of the tensor wait for the producer of ``dependency``, whether through the result or not."""
    waiting, dependency = node.args[:2]
    value, awaited = driver.lower_args(waiting), driver.lower_args(dependency)
    result: Value = Identity(value, dependencies=[awaited])
    if isinstance(waiting, fx.Node):
        driver.env[waiting] = result
    return result


def is_event(node: fx.Node) -> bool:
    """True for events with tags, and for PyTorch's own streams and events, which only capture mode has."""
    if isinstance(node.target, OpOverload):
        return str(node.target._schema.name).startswith(
            ("npugraph_ex::tagged_", "npugraph_ex::record_tagged_", "streams::")
        )
    return getattr(node.target, "__name__", "") == "control_deps"  # so PyTorch orders operators around its events


@dataclass(slots=True)
class StreamOrder:
    """What was issued last on each stream, and what the next node on each stream has to wait for."""

    _last: dict[str, Node] = field(default_factory=dict)
    _waiting: dict[str, list[Node]] = field(default_factory=dict)
    _tokens: dict[fx.Node, Node | None] = field(default_factory=dict)

    def handle(self, driver: Driver, node: fx.Node, stream: str) -> bool:
        """Convert ``record`` or ``wait`` on a stream; False for any other node."""
        if is_record(node):
            # A token is a constant that nobody reads, unless the graph returns it.
            driver.env[node] = driver.builder.const(torch.empty(0))
            self._tokens[node] = self._last.get(stream)
            return True
        if is_wait(node):
            awaited: Any = node.args[0]
            makers = [self._tokens[a] if a in self._tokens else _maker(driver.env[a]) for a in awaited]
            self._waiting.setdefault(stream, []).extend(m for m in makers if m is not None)
            driver.env[node] = None
            return True
        return False

    def note(self, driver: Driver, added: Sequence[Node]) -> None:
        """Take in the nodes that were made for an FX node."""
        running = [node for node in added if node.op not in _PASSIVE]
        for node in running:
            awaited = self._waiting.pop(node.stream, None)
            if awaited:
                driver.graph.wait_for(node, [other for other in awaited if other is not node])
                edges = [f"{other.name}->{node.name}" for other in node.control]
                logger.info("Add record-wait generated control edges: %s to op: %s", edges, node.name)
            self._last[node.stream] = node


def _maker(value: Any) -> Node | None:
    """Who makes a value; None for inputs and constants."""
    node = value.producer if isinstance(value, Value) else None
    return None if node is None or node.op in _PASSIVE else node
