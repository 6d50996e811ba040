"""Super kernels that became more than one launch: why, and what the user wants to happen then."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping

import torch
from torch import fx

from torchair.config.texts import SuperKernelOptions
from torchair.errors import EngineCompileError
from torchair.logs import get_logger
from torchair.native.scopes import Mark
from torchair.native.units import Unit
from torchair.report import SuperKernel
from torchair.source_lines import source_line

__all__ = ["kernels_to_give_up", "options_of", "super_kernel", "why_apart"]

_log = get_logger(__name__)


def options_of(unit: Unit, marks: Mapping[fx.Node, Mark]) -> SuperKernelOptions:
    """The options of a super kernel: those of its first scope."""
    return next(marks[n].options for n in unit.nodes if n in marks)


def super_kernel(unit: Unit, marks: Mapping[fx.Node, Mark], after: str) -> SuperKernel:
    """The record of a super kernel."""
    names = list(dict.fromkeys(marks[n].node for n in unit.nodes if n in marks))
    return SuperKernel(unit.kernel, f"sk_{unit.kernel}_start_{names[0]}_end_{names[-1]}", len(names), after)


def why_apart(unit: Unit, refused: Mapping[fx.Node, str]) -> str:
    """What stands between a unit and the one of the same super kernel before it."""
    node = unit.after
    if node is None:
        return "a super kernel that waits for it, and that it waits for"
    return f"{node.target}: {refused.get(node) or 'it is outside of the scope'}"


def kernels_to_give_up(
    units: Iterable[Unit], marks: Mapping[fx.Node, Mark], refused: Mapping[fx.Node, str], given_up: Collection[str]
) -> set[str]:
    """Super kernels that must be one launch (``strict-scope-check=bypass``), and are not.

    Args:
        given_up: Those that were given up before.

    Raises:
        EngineCompileError: One of them must not be given up either (``abort``).
    """
    parts: dict[str, list[Unit]] = {}
    for unit in units:
        parts.setdefault(unit.kernel, []).append(unit)
    options = {mark.kernel: mark.options for mark in reversed(list(marks.values())) if mark.kernel}
    options.update((kernel, options_of(found[0], marks)) for kernel, found in parts.items())
    left = {(m.kernel, f"{n.target}: {refused[n]}"): None for n, m in marks.items() if _is_left(n, refused)}
    found = set()
    for kernel, said in options.items():
        reasons = [why_apart(unit, refused) for unit in parts.get(kernel, ())[1:]]
        reasons += [reason for of, reason in left if of == kernel]
        if said.strict_scope_check is None or kernel in given_up or not reasons:
            continue
        reasons = list(dict.fromkeys(reasons))
        aborts = said.strict_scope_check == "abort"
        level = logging.ERROR if aborts else logging.WARNING
        _log.log(level, "super_kernel_scope %r is not one super kernel: %s", kernel, "; ".join(reasons))
        if aborts:
            nodes = [unit.after for unit in parts.get(kernel, ())[1:] if unit.after is not None]
            nodes += [n for n, m in marks.items() if m.kernel == kernel and _is_left(n, refused)]
            raise EngineCompileError(
                "A super kernel is not one launch",
                why=[f"super_kernel_scope {kernel!r} has strict-scope-check=abort", *reasons],
                fix="Take these operators out of the scope, or leave the option out.",
                where=list(dict.fromkeys(line for line in map(source_line, nodes) if line)),
            )
        found.add(kernel)
    return found


def _is_left(node: fx.Node, refused: Mapping[fx.Node, str]) -> bool:
    """Whether a node stays a call, on tensors."""
    return node in refused and isinstance(node.meta.get("val"), (torch.Tensor, list, tuple))
