"""Replacing groups of operators by others: ours and the user's (specification, F-21 and F-22)."""

from __future__ import annotations

import contextlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from torch import fx

from torchair import _torch_compat
from torchair._torch_compat import OpOverload
from torchair.errors import ReplacementError
from torchair.frontend.aliasing import tensors
from torchair.frontend.builtin_patterns import builtin_replacements
from torchair.frontend.dead_nodes import drop_dead_nodes
from torchair.frontend.fake_values import NodeError, described, differs
from torchair.frontend.fx_pass import FxPass
from torchair.frontend.noop_ops import RemoveNoopOps
from torchair.frontend.replacement import Replacement, returned, trace_arguments
from torchair.frontend.scope_pairs import stream_labels
from torchair.logs import get_logger
from torchair.streams import orders_streams

__all__ = ["FusePatterns"]

_log = get_logger(__name__)

#: Where a replacement carries the source line of what it replaces; Inductor copies this dictionary.
_LINE = "torchair_stack_trace"


@dataclass(slots=True)
class FusePatterns(FxPass):
    """``search_fn(x, y)`` becomes ``replace_fn(x, y)``, for each registered replacement.

    Found are operators whose intermediate results nothing else reads. Left alone: matches that lie on several streams,
    and those that ``extra_check`` refuses.

    Attributes:
        mode: ``"ge"`` or ``"capture"``.
        registered: The user's replacements.
        decompositions: The table that the graph was traced with.
        remove_noop_ops: Whether operators that change nothing were removed from the graph.
    """

    name: ClassVar[str] = "fuse-patterns"
    mode: str = "ge"
    registered: Sequence[Replacement] = ()
    decompositions: Mapping[Any, Callable[..., Any]] = field(default_factory=dict)
    remove_noop_ops: bool = True

    def run(self, gm: fx.GraphModule) -> int:
        rules = [*self.registered, *builtin_replacements(self.mode)]
        if not rules:  # and so Inductor's matcher is not imported, which takes two seconds
            return 0
        before = set(gm.graph.nodes)
        with _lock, _torch_compat.outside_of_compiles():
            count = _matcher(rules, self.decompositions, self.remove_noop_ops).run(gm)
        for node in gm.graph.nodes:
            if node not in before:
                # They were traced with arguments of the same types, in other memory.
                node.meta.pop("val", None)
                node.meta.pop("tensor_meta", None)
                line = node.meta.get("custom", {}).get(_LINE)
                if line:
                    node.meta["stack_trace"] = line
                    node.meta["custom"] = {k: v for k, v in node.meta["custom"].items() if k != _LINE}
        return count


class _Matcher:
    """Replacements, traced for graphs of one kind."""

    def __init__(
        self,
        rules: Sequence[Replacement],
        decompositions: Mapping[Any, Callable[..., Any]],
        remove_noop_ops: bool,
    ) -> None:
        self.rules = tuple(rules)
        self.decompositions = dict(decompositions)
        self._remove_noop_ops = remove_noop_ops
        self._matcher = _torch_compat.PatternMatcher("torchair_fuse_patterns")
        self._labels = _Labels()
        for rule in rules:
            self._add(rule)

    def _add(self, rule: Replacement) -> None:
        modes = _torch_compat.fake_modes(tensors(trace_arguments(rule)))
        try:
            with modes[0] if modes else contextlib.nullcontext():
                self._matcher.add(
                    rule.search,
                    rule.replace,
                    rule.inputs,
                    lambda function, args, **_: self._trace(rule, function, args),
                    lambda match: self._check(rule, match),
                    lambda match: _accept(rule, match),
                    scalars=rule.scalars,
                    pattern=rule.pattern,
                )
        except Exception as e:
            raise ReplacementError(
                "A registered replacement of a pattern cannot be traced for this mode",
                why=[rule.name, f"{type(e).__name__}: {e}"],
                fix="Write its functions with the operators that the mode leaves in graphs.",
            ) from e

    def _trace(self, rule: Replacement, function: Callable[..., Any], args: Sequence[Any]) -> fx.GraphModule:
        gm = rule.trace_function(function, args, self.decompositions)
        if rule.trace is None:
            if self._remove_noop_ops:
                RemoveNoopOps(_log).run(gm)
            drop_dead_nodes(gm.graph)
            gm.recompile()
        return gm

    def _check(self, rule: Replacement, match: Any) -> bool:
        labels, marker = self._labels.of(match.nodes), self._labels.between(match.nodes)
        if len(labels) > 1:
            _log.debug("%s does not replace %s: they are on the streams %s", rule.name, match.nodes, sorted(labels))
            return False
        if marker is not None:
            _log.debug("%s does not replace %s: %s stands between them", rule.name, match.nodes, marker)
            return False
        if rule.pattern is None and any(_says_more(p, n) for p, n in match.ctx.pattern_to_node.items()):
            return False
        try:
            return bool(rule.check(match))
        except Exception as e:
            reason = f"extra_check of {rule.name} raised {type(e).__name__}: {e}"
            raise NodeError(match.output_node(), reason, fix="Return False for what the rule is not for.") from e

    def run(self, gm: fx.GraphModule) -> int:
        self._labels = _Labels()
        return self._matcher.apply(gm)


class _Labels:
    """Stream labels of nodes, looked up again when a replacement has made new ones."""

    def __init__(self) -> None:
        self._seen: set[fx.Node] = set()
        self._labels: dict[fx.Node, str] = {}
        self._places: dict[fx.Node, int] = {}
        self._markers: list[tuple[int, fx.Node]] = []

    def of(self, nodes: Sequence[fx.Node]) -> set[str]:
        """The labels of some nodes of one graph, the empty one for none."""
        if not self._seen.issuperset(nodes):
            everything = list(nodes[0].graph.nodes)
            self._seen = set(everything)
            self._labels = stream_labels(nodes[0].graph)
            self._places = {node: i for i, node in enumerate(everything)}
            self._markers = [(i, node) for i, node in enumerate(everything) if orders_streams(node)]
        return {self._labels.get(node, "") for node in nodes}

    def between(self, nodes: Sequence[fx.Node]) -> fx.Node | None:
        """What orders streams, and stands between some nodes that :meth:`of` knows."""
        places = [self._places[node] for node in nodes]
        return next((node for at, node in self._markers if min(places) < at < max(places)), None)


def _says_more(pattern: Any, node: Any) -> bool:
    """Whether a call has keyword arguments that the pattern has not: Inductor's matcher does not look at these."""
    if not isinstance(node, fx.Node) or not isinstance(node.target, OpOverload):
        return False
    defaults = {a.name: a.default_value for a in node.target._schema.arguments}
    extra = node.kwargs.keys() - getattr(pattern, "kwargs", node.kwargs).keys()
    return any(isinstance(node.kwargs[name], fx.Node) or node.kwargs[name] != defaults[name] for name in extra)


def _accept(rule: Replacement, match: Any) -> bool:
    """Compare types, and let the replacement come from the user's line of what it replaces.

    Raises:
        NodeError: The replacement has results of other types.
    """
    replaced = [n for n in match.output_nodes() if n is not None]
    before = [leaf for n in replaced for leaf in _flat(n.meta.get("val"))]
    after = [leaf for n in returned(match.replacement_graph) if isinstance(n, fx.Node) for leaf in _flat(n.meta["val"])]
    if len(before) != len(after) or any(map(differs, before, after)):
        raise NodeError(
            replaced[0],
            f"the replacement for {rule.name} returns {', '.join(map(described, after))} where "
            f"{', '.join(map(described, before))} is replaced",
            fix="Let replace_fn return the same types for all shapes that extra_check accepts.",
        )
    lines = [n.meta["stack_trace"] for n in (*replaced, *match.nodes) if n.meta.get("stack_trace")]
    for node in match.replacement_graph.graph.nodes if lines else ():
        node.meta["custom"] = {**node.meta.get("custom", {}), _LINE: lines[0]}
    return True


def _flat(value: Any) -> list[Any]:
    return [leaf for item in value for leaf in _flat(item)] if isinstance(value, list | tuple) else [value]


_lock = threading.Lock()
_matchers: OrderedDict[Any, _Matcher] = OrderedDict()


def _matcher(
    rules: Sequence[Replacement], decompositions: Mapping[Any, Callable[..., Any]], remove_noop_ops: bool
) -> _Matcher:
    """A matcher for these, which may have been made before; tracing takes a while. The caller holds the lock."""
    # What is in the key by its identity is held by the matcher.
    table = frozenset((op, id(function)) for op, function in decompositions.items())
    key = (tuple(map(id, rules)), table, remove_noop_ops)
    if key not in _matchers:
        _matchers[key] = _Matcher(rules, decompositions, remove_noop_ops)
        while len(_matchers) > 8:
            _matchers.popitem(last=False)
    _matchers.move_to_end(key)
    return _matchers[key]
