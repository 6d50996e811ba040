"""Which nodes of an FX graph are sure to have run before others, when the graph runs on several streams."""

from __future__ import annotations

from collections.abc import Mapping

from torch import fx

from torchair.streams import is_record, is_wait, stream_of

__all__ = ["StreamOrder"]


class StreamOrder:
    """The order that streams, tokens, waits and data give, as vector clocks.

    A clock says of each stream how many of its operators have run. On one stream operators run in the graph's order.
    Across streams an operator runs after what its stream waits for, and after those that make what it reads.
    """

    def __init__(self, graph: fx.Graph) -> None:
        self._place: dict[fx.Node, tuple[str, int]] = {}
        self._clocks: dict[fx.Node, Mapping[str, int]] = {}
        now: dict[str, dict[str, int]] = {}
        for node in graph.nodes:
            if node.op != "call_function":
                continue
            label = stream_of(node)
            clock = now.setdefault(label, {})
            for source in node.all_input_nodes:
                _join(clock, self._clocks.get(source, {}))
            if not is_record(node) and not is_wait(node):
                clock[label] = clock.get(label, 0) + 1
                self._place[node] = label, clock[label]
            self._clocks[node] = dict(clock)

    @classmethod
    def of(cls, graph: fx.Graph) -> StreamOrder | None:
        """The order of a graph; None where everything runs on one stream, in the graph's order."""
        return cls(graph) if any(stream_of(node) for node in graph.nodes) else None

    def before(self, first: fx.Node, second: fx.Node) -> bool:
        """Whether a node is sure to have run when another one begins."""
        if first.op != "call_function":
            return first.op != "output"
        if second.op == "output":
            return True
        if first not in self._place or second not in self._clocks:
            return False
        label, number = self._place[first]
        return first is not second and self._clocks[second].get(label, 0) >= number


def _join(clock: dict[str, int], other: Mapping[str, int]) -> None:
    for label, number in other.items():
        clock[label] = max(clock.get(label, 0), number)
