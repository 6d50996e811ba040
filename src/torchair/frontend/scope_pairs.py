"""Whether every scope that a graph opens is closed (specification, F-24)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from torch import fx

from torchair._torch_compat import OpOverload
from torchair.config import core_limit
from torchair.errors import ArgumentError, ScopeError
from torchair.source_lines import source_line

__all__ = ["ENTER", "EXIT", "check_limit", "check_scopes", "stream_labels"]

ENTER = ("air::scope_enter", "npugraph_ex::scope_enter")
EXIT = ("air::scope_exit", "npugraph_ex::scope_exit")
_BEGIN, _END = "super_kernel_scope_begin", "super_kernel_scope_end"
_STREAM = "_user_stream_label"

#: What an inner scope of the same name must not say otherwise: key of the name -> keys of the options.
_OPTIONS = {
    _STREAM: ("_user_stream_priority", "_enable_inner_parallel"),
    "_super_kernel_scope": ("_super_kernel_options",),
}


def check_scopes(graph: fx.Graph) -> None:
    """Every scope that is opened must be closed, and the other way round.

    ``scope_exit`` closes the scope that was opened last. Ranges for super kernels are paired by name, in any order.

    Raises:
        ScopeError: Names the markers without a partner, or two of which one lies in the other, for the same stream or
            super kernel with other options.
    """
    opened: list[fx.Node] = []
    ranges: dict[Any, list[fx.Node]] = {}
    lonely: list[tuple[fx.Node, str]] = []
    for node in graph.nodes:
        marker = _marker(node)
        if marker in ENTER:
            for outer in opened:
                _refuse_contradiction(outer, node)
            opened.append(node)
        elif marker in EXIT:
            if opened:
                opened.pop()
            else:
                lonely.append((node, "a scope is closed that was not opened"))
        elif marker == _BEGIN:
            ranges.setdefault(_name(node), []).append(node)
        elif marker == _END:
            if ranges.get(_name(node)):
                ranges[_name(node)].pop()
            else:
                lonely.append((node, "a range for a super kernel is closed that was not opened"))
    lonely += [(node, "the scope is never closed") for node in opened]
    lonely += [(n, "the range for a super kernel is never closed") for nodes in ranges.values() for n in nodes]
    if lonely:
        raise ScopeError(
            "Scopes are not paired in the graph",
            why=[f"{node.name}{node.args or ''}: {problem}" for node, problem in lonely],
            fix=(
                "Either a custom pass inserts scope_enter without scope_exit, or there is a graph break inside a\n"
                "`with torchair.scope...` block: move the block so that it lies whole in one graph\n"
                "(fullgraph=True shows where)."
            ),
            where=list(Counter(line for node, _ in lonely if (line := source_line(node)))),
        )


def _refuse_contradiction(outer: fx.Node, inner: fx.Node) -> None:
    """Refuse a scope inside another one of the same name with other options."""
    before, after = (dict(zip(*n.args[:2], strict=False)) for n in (outer, inner))
    for name, options in _OPTIONS.items():
        if not after.get(name) or before.get(name) != after[name]:
            continue
        differing = [key for key in options if key in before and key in after and before[key] != after[key]]
        if differing:
            raise ScopeError(
                "A scope contradicts the one around it",
                why=[
                    f"both have {name}={after[name]!r}",
                    *(f"{key}: {before[key]!r} outside, {after[key]!r} inside" for key in differing),
                ],
                fix="Give both the same options, or the inner one another name.",
                where=[line for line in dict.fromkeys(map(source_line, (outer, inner))) if line],
            )


def check_limit(node: fx.Node, attributes: Mapping[str, object]) -> None:
    """Refuse a scope that limits cores to a number that this machine does not have.

    Raises:
        ArgumentError: With the user's line.
    """
    try:
        core_limit(attributes)
    except ArgumentError as e:
        raise ArgumentError(e.what, why=e.why, fix=e.fix, where=source_line(node)) from e


def stream_labels(graph: fx.Graph) -> dict[fx.Node, str]:
    """The stream label of each node inside a scope that has one; the innermost counts."""
    labels: dict[fx.Node, str] = {}
    stack: list[str] = []
    for node in graph.nodes:
        marker = _marker(node)
        if marker in ENTER:
            keys, values = node.args[:2]
            own = dict(zip(keys, values, strict=False))
            stack.append(str(own.get(_STREAM, stack[-1] if stack else "")))
        elif marker in EXIT and stack:
            stack.pop()
        elif stack and stack[-1]:
            labels[node] = stack[-1]
    return labels


def _marker(node: fx.Node) -> str:
    """What kind of marker a node is; empty for others. Super-kernel markers come in more than one namespace."""
    if not isinstance(node.target, OpOverload):
        return ""
    name = str(node.target._schema.name)
    short = name.rpartition("::")[2].lstrip("_")
    return short if short in (_BEGIN, _END) else name


def _name(node: fx.Node) -> Any:
    return node.args[0] if node.args else next(iter(node.kwargs.values()), "")
