"""What ``torchair.scope`` said about the nodes of an FX graph: which super kernel, and how many cores at most."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from torch import fx

from torchair.config import CoreCounts, core_counts, core_limit
from torchair.config.texts import SuperKernelOptions, parse_super_kernel_options
from torchair.errors import ConfigValueError
from torchair.logs import get_logger
from torchair.native.schedule import Group
from torchair.streams import SCOPE

__all__ = ["SCOPE_KEYS", "Mark", "launch_limit", "least_limit", "limit_workers", "mark", "mark_of"]

_log = get_logger(__name__)

#: Attributes of IR nodes that the native engine acts on.
SCOPE_KEYS = frozenset({"_super_kernel_scope", "_super_kernel_options", "_op_aicore_num", "_op_vectorcore_num"})

#: Options of super kernels that mean nothing here: caches are coherent, and every worker comes to every barrier.
_WITHOUT_EFFECT = ("feed_sync_all", "dcci_before_kernel_start", "dcci_after_kernel_end", "dcci_disable_on_kernel")


@dataclass(frozen=True, slots=True)
class Mark:
    """What is known of an FX node.

    Attributes:
        node: Name of the IR node that it is made for.
        kernel: Name of its super kernel; empty outside of one.
        options: Options of that.
        limit: Cores that it may use at most; None: nobody said.
    """

    node: str
    kernel: str = ""
    options: SuperKernelOptions = field(default_factory=SuperKernelOptions)
    limit: CoreCounts | None = None


def mark(made: Iterable[fx.Node], node: str, attributes: Mapping[str, str | bool]) -> None:
    """Note the scope of an IR node at the FX nodes that were made for it.

    Raises:
        ArgumentError: A number of cores is out of range.
        ConfigValueError: The options of a super kernel cannot be read.
    """
    kernel = str(attributes.get("_super_kernel_scope", ""))
    options = SuperKernelOptions()
    if kernel and (text := str(attributes.get("_super_kernel_options", ""))):
        options = parse_super_kernel_options(text, f"options of super_kernel({kernel!r})")
    found = Mark(node, kernel, options, core_limit(attributes))
    for fx_node in made:
        fx_node.meta[SCOPE] = found


def mark_of(node: fx.Node) -> Mark | None:
    """What is known of an FX node; None outside of scopes."""
    found = node.meta.get(SCOPE)
    return found if isinstance(found, Mark) else None


def least_limit(marks: Iterable[Mark], default: CoreCounts | None) -> CoreCounts | None:
    """The limit that all nodes of a program keep; ``default``: that of nodes without one."""
    limits = {m.limit or default for m in marks} - {None}
    if not limits:
        return None
    known = [limit for limit in limits if limit is not None]
    return CoreCounts(min(n.cube for n in known), min(n.for_vector for n in known))


def launch_limit(kernel: str, options: SuperKernelOptions, limit: CoreCounts | None) -> CoreCounts | None:
    """The limit of a super kernel: what its options say, within the limit of its nodes.

    Raises:
        ConfigValueError: The numbers in the options have another ratio than a launch can have, or are too large.
    """
    for name in _WITHOUT_EFFECT:
        if getattr(options, name):
            text = name.replace("_", "-")
            _log.info_once("super_kernel(%r): option %s is recorded, no effect on any device yet", kernel, text)
    if options.debug_aic_num is None and options.debug_aiv_num is None:
        return limit
    cube, vector = options.debug_aic_num or 0, options.debug_aiv_num or 0
    bound = limit or core_counts()
    problems = []
    if cube and vector not in (0, cube, 2 * cube):
        problems.append(f"debug-aic-num:debug-aiv-num = {cube}:{vector}; allowed ratios are 1:0, 0:1, 1:1 and 1:2")
    for key, number, most in (("aic", cube, bound.cube), ("aiv", vector, bound.for_vector)):
        if number > most:
            of = "the core limit of its operators" if limit else "the number of cores"
            problems.append(f"debug-{key}-num = {number} is more than {most}, {of}")
    if problems:
        raise ConfigValueError(
            "A super kernel cannot be launched on so many cores",
            why=[f"super_kernel({kernel!r}): {problem}" for problem in problems],
            fix="Give smaller numbers, or leave them out.",
        )
    return CoreCounts(cube or vector, vector or cube)


def limit_workers(groups: Sequence[Group], limit: CoreCounts | None) -> None:
    """Let no more workers take part in functions than a limit allows for their kind."""
    if limit is None:
        return
    for group in groups:
        if group.attention is not None or (group.products and group.members):
            most = limit.for_mixed
        else:
            most = limit.cube if group.products else limit.for_vector
        group.workers = min(group.workers or most, most)
