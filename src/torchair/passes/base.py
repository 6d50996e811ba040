"""What a graph pass is, and the runner that runs passes in order."""

from __future__ import annotations

import abc
import difflib
import logging
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from torchair.errors import PassError, Rejection
from torchair.ir.graph import Graph, Node
from torchair.ir.memory import Memory
from torchair.ir.text import to_text
from torchair.ir.verify import verify
from torchair.logs import get_logger

__all__ = ["GraphPass", "PassObserver", "PassRecord", "PassRunner", "RewritePass"]

_log = get_logger(__name__)


class GraphPass(abc.ABC):
    """A transformation of a graph, in place.

    The first line of a subclass's docstring says what stands before and after. Options are dataclass fields. The graph
    is valid before and after. A pass does not say whether it changed anything: every edit raises ``graph.revision``.

    Attributes:
        name: What ``disabled_passes``, logs and dumps call it: ``"fold-transpose-into-matmul"``.
    """

    name: ClassVar[str]

    @abc.abstractmethod
    def run(self, graph: Graph) -> None:
        """Transform the graph."""

    @classmethod
    def summary(cls) -> str:
        """The first line of the docstring."""
        return (cls.__doc__ or "").strip().partition("\n")[0]


class RewritePass(GraphPass):
    """A pass that looks at one node after the other, and changes the graph around those that it may.

    Each node that is left alone although it is of the right kind has a reason, which is logged at DEBUG.
    """

    def run(self, graph: Graph) -> None:
        memory = Memory(graph)
        for node in graph:
            if node not in graph or not self.matches(node):
                continue
            refused = self.check(memory, node)
            if refused is None:
                self.rewrite(memory, node)
            else:
                _log.debug("%s leaves %s (%s): %s", self.name, node.name, node.op, refused.reason)

    @abc.abstractmethod
    def matches(self, node: Node) -> bool:
        """True for a node of the kind that the pass is about."""

    @abc.abstractmethod
    def check(self, memory: Memory, node: Node) -> Rejection | None:
        """Why the node has to stay as it is, or None."""

    @abc.abstractmethod
    def rewrite(self, memory: Memory, node: Node) -> None:
        """Change the graph, and keep ``memory`` right."""


@dataclass(frozen=True, slots=True)
class PassRecord:
    """What became of one pass.

    Attributes:
        name: Name of the pass.
        seconds: Time that it took.
        nodes_before: Number of nodes before.
        nodes_after: Number of nodes after.
        changed: It edited the graph.
        skipped: Why it did not run: ``"disabled"`` or ``"no fuel"``; empty when it ran.
    """

    name: str
    seconds: float
    nodes_before: int
    nodes_after: int
    changed: bool
    skipped: str = ""

    def __str__(self) -> str:
        if self.skipped:
            return f"{self.name}: left out ({self.skipped})"
        nodes = f"{self.nodes_before} -> {self.nodes_after} nodes" if self.changed else "no change"
        return f"{self.name}: {nodes}, {1e3 * self.seconds:.2f} ms"


#: Called after each pass that changed the graph, with its text before and after.
PassObserver = Callable[[PassRecord, str, str], None]


@dataclass(slots=True)
class PassRunner:
    """Runs passes in order, and keeps a record of each.

    Attributes:
        passes: The passes.
        disabled_passes: Names of passes to leave out.
        pass_fuel: How many passes may change the graph; then the others are left out. So a wrong pass is found by
            halving: the least fuel that shows the fault ends at that pass. None: no limit.
        verify: Verify the graph before the first pass and after each that changed it.
        waive: Verifier rules that the graph may break.
        observer: See :data:`PassObserver`.
    """

    passes: Sequence[GraphPass]
    disabled_passes: Collection[str] = ()
    pass_fuel: int | None = None
    verify: bool = False
    waive: Collection[str] = ()
    observer: PassObserver | None = None
    _changing: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        names = [p.name for p in self.passes]
        unknown = [name for name in self.disabled_passes if name not in names]
        if unknown:
            raise PassError(
                "There is no graph pass of that name",
                why=[f"{name!r} was to be disabled" for name in unknown],
                fix=_similar(unknown, names),
            )

    def run(self, graph: Graph) -> tuple[PassRecord, ...]:
        """Run the passes.

        Raises:
            PassError: A pass raised, or left a graph behind that is not well formed; names the pass. The graph is then
                in the state in which the pass left it.
        """
        if self.verify:
            verify(graph, self.waive)
        self._changing = 0
        text = to_text(graph) if self._shows_text else ""
        records = []
        for graph_pass in self.passes:
            record = self._run_one(graph_pass, graph)
            records.append(record)
            if record.changed and self._shows_text:
                before, text = text, to_text(graph)
                _log.debug("%s, before:\n%s", record.name, before)
                _log.debug("%s, after:\n%s", record.name, text)
                if self.observer is not None:
                    self.observer(record, before, text)
        return tuple(records)

    @property
    def _shows_text(self) -> bool:
        return self.observer is not None or _log.isEnabledFor(logging.DEBUG)

    def _run_one(self, graph_pass: GraphPass, graph: Graph) -> PassRecord:
        name, nodes, revision = graph_pass.name, len(graph), graph.revision
        skipped = ""
        if name in self.disabled_passes:
            skipped = "disabled"
        elif self.pass_fuel is not None and self._changing >= self.pass_fuel:
            skipped = "no fuel"
        if skipped:
            return PassRecord(name, 0.0, nodes, nodes, changed=False, skipped=skipped)
        start = time.perf_counter()
        try:
            graph_pass.run(graph)
        except Exception as e:
            raise PassError(
                "A graph pass failed",
                why=f"{name}: {type(e).__name__}: {e}",
                fix=_how_to_go_on(name),
            ) from e
        record = PassRecord(name, time.perf_counter() - start, nodes, len(graph), changed=graph.revision != revision)
        self._changing += record.changed
        if record.changed and self.verify:
            self._verify_after(name, graph)
        return record

    def _verify_after(self, name: str, graph: Graph) -> None:
        try:
            verify(graph, self.waive)
        except Exception as e:
            raise PassError(
                "A graph pass left a graph behind that is not well formed",
                why=[f"{name}:", *str(e).splitlines()],
                fix=_how_to_go_on(name),
            ) from e


def _how_to_go_on(name: str) -> str:
    return f"This is a defect of the pass. Leave it out with config.debug.disabled_passes = [{name!r}]."


def _similar(unknown: Iterable[str], known: Sequence[str]) -> str:
    close = {match: None for name in unknown for match in difflib.get_close_matches(name, known, n=1)}
    return f"Did you mean {' and '.join(close)}?" if close else f"Passes: {', '.join(known)}."
