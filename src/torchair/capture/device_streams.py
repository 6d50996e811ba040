"""Streams of a graph while a device records it: nodes run on the streams that their labels name, in the user's order.

All streams begin behind what the capture's own stream has done, and that one waits for all of them at the end, so that
a capture is closed, and whoever replays it finds the results on one stream.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch import fx

from torchair.streams import is_record, is_wait, stream_of

__all__ = ["DeviceStreams", "side_streams"]

#: Streams beside those of captures, used by all captures in turn, so that one can use memory that another one freed. By
#: module and device.
_streams: dict[tuple[int, torch.device], list[Any]] = {}


def side_streams(module: Any, device: torch.device, count: int) -> list[Any]:
    """So many streams of a device."""
    found = _streams.setdefault((id(module), device), [])
    while len(found) < count:
        found.append(module.Stream(device=device))
    return found[:count]


class DeviceStreams:
    """The streams of a graph.

    Args:
        graph: With labels in ``meta``.
        module: The device module.
        device: Where the graph runs.

    Attributes:
        sides: The streams beside the one that the capture is on.
    """

    def __init__(self, graph: fx.Graph, module: Any, device: torch.device) -> None:
        labels = dict.fromkeys(stream_of(n) for n in graph.nodes if n.op == "call_function")
        labels.pop("", None)
        self.sides: list[Any] = side_streams(module, device, len(labels))
        self._of = dict(zip(labels, self.sides, strict=True))
        self._module, self._device = module, device
        self._main: Any = None
        self._events: dict[fx.Node, Any] = {}
        self._awaited = {used for n in graph.nodes if is_wait(n) for used in n.all_input_nodes if not is_record(used)}
        self._crossing: list[Any] = []

    @contextlib.contextmanager
    def forked(self) -> Iterator[None]:
        """While a graph runs; on the stream of the capture."""
        self._main = self._module.current_stream(self._device)
        self._events.clear()
        for side in self.sides:
            side.wait_stream(self._main)
        yield
        for side in self.sides:
            self._main.wait_stream(side)
        # Now whoever uses their memory again comes after all streams.
        self._crossing.clear()

    @contextlib.contextmanager
    def around(self, node: fx.Node, used: list[Any]) -> Iterator[None]:
        """While a node runs, with the values that it takes."""
        label = stream_of(node)
        if any(n.op == "call_function" and stream_of(n) != label for n in node.all_input_nodes):
            # The allocator knows the stream that made a value, not the one that reads it.
            self._crossing.append(used)
        side = self._of.get(label)
        with contextlib.nullcontext() if side is None else self._module.stream(side):
            yield
        if node in self._awaited:
            self._events[node] = self._stream(label).record_event()

    def is_event(self, node: fx.Node) -> bool:
        """Whether a node is a record or a wait: does it, and says so."""
        if is_record(node):
            self._events[node] = self._stream(stream_of(node)).record_event()
            return True
        if is_wait(node):
            for used in node.all_input_nodes:
                if used in self._events:
                    self._stream(stream_of(node)).wait_event(self._events[used])
            return True
        return False

    def _stream(self, label: str) -> Any:
        return self._of.get(label, self._main)
