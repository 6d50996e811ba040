"""What a device graph cannot hold: found in the FX graph, before a device is asked.

A device graph repeats the launches of one run. Whatever the host did in that run (reading a value, computing on the
CPU, printing) is not repeated, so a graph that does it runs eagerly instead.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from typing import Any

import torch
from torch import fx

from torchair import _torch_compat
from torchair._torch_compat import HigherOrderOperator, OpOverload
from torchair.capture.values import aliases_arguments, call_arguments, tensor_leaves, written_arguments
from torchair.errors import Rejection
from torchair.source_lines import source_line
from torchair.torchops.library import NAMESPACE

__all__ = ["device_of", "refusals", "written_inputs"]

#: Operators of our own that act in Python each time they run.
_HOST_EFFECTS = frozenset(
    f"{NAMESPACE}::{name}" for name in ("print", "string_format", "print_text", "get_rng_state", "set_rng_state")
)

#: Operators that move what they read between host and device, and wait for it.
_MOVES = frozenset({"aten::_to_copy", "aten::copy_", "aten::copy", "prims::device_put"})

_INDEXING = frozenset({"aten::index", "aten::index_put", "aten::index_put_", "aten::_unsafe_index"})

_BRANCHES = frozenset({"cond", "while_loop", "scan", "map_impl", "associative_scan"})


def device_of(gm: fx.GraphModule) -> torch.device | None:
    """The first device that is not the CPU among the values of a graph; None where all lie on the CPU."""
    for node in gm.graph.nodes:
        for tensor in tensor_leaves(node.meta.get("val")):
            if tensor.device.type not in ("cpu", "meta"):
                return tensor.device
    return None


def written_inputs(graph: fx.Graph) -> list[int]:
    """Positions of the inputs that a graph writes in place, also through views."""
    inputs = {node: i for i, node in enumerate(n for n in graph.nodes if n.op == "placeholder")}
    memory: dict[fx.Node, frozenset[int]] = {node: frozenset({i}) for node, i in inputs.items()}
    written: set[int] = set()
    for node in graph.nodes:
        if node.op != "call_function":
            continue
        target = node.target
        if isinstance(target, OpOverload):
            given = call_arguments(target, node)
            shared = _nodes([given[i] for i in aliases_arguments(target)])
            for used in _nodes([given[i] for i in written_arguments(target)]):
                written |= memory.get(used, frozenset())
        else:
            shared = node.all_input_nodes
            if isinstance(target, HigherOrderOperator):  # which of its arguments it writes is not known
                for used in shared:
                    written |= memory.get(used, frozenset())
        memory[node] = frozenset().union(*(memory.get(n, frozenset()) for n in shared))
    return sorted(written)


def refusals(gm: fx.GraphModule, device: torch.device, *, repeats_random: bool) -> list[Rejection]:
    """Why a graph cannot be captured on a device; empty when nothing is known against it.

    Args:
        gm: The graph, with fake tensors in ``meta["val"]``.
        device: Where it runs.
        repeats_random: Graphs of this device advance the random generator when they are replayed.
    """
    found = []
    for node in gm.graph.nodes:
        reason = _reason(node, device, repeats_random)
        if reason:
            where = source_line(node)
            found.append(Rejection(f"{_name(node)} (node {node.name}) {reason}" + (f"; {where}" if where else "")))
    return found


def _reason(node: fx.Node, device: torch.device, repeats_random: bool) -> str:
    if node.op == "placeholder":
        return _input_reason(node, device)
    if node.op != "call_function" or node.target is operator.getitem:
        return ""
    if any(_is_unbacked(n) for n in _numbers(node.meta.get("val"))):
        return "has a result whose value or size is known only when it has run"
    target = node.target
    if _torch_compat.is_with_effects(target):
        return "has an effect on the host, which a replay would not repeat"
    if isinstance(target, HigherOrderOperator):
        return "chooses its branch on the host" if target.__name__ in _BRANCHES else ""
    if not isinstance(target, OpOverload):
        return ""
    return _operator_reason(node, target, device, repeats_random)


def _input_reason(node: fx.Node, device: torch.device) -> str:
    for tensor in tensor_leaves(node.meta.get("val")):
        if tensor.device.type == "cpu":
            continue
        if tensor.device != device and device.type != "cpu":
            return f"lies on {tensor.device}, the graph on {device}"
        if tensor.layout is not torch.strided:
            return f"has the layout {tensor.layout}, whose memory cannot be kept at one address"
    return ""


def _operator_reason(node: fx.Node, op: OpOverload, device: torch.device, repeats_random: bool) -> str:
    name = op._schema.name
    if name in _HOST_EFFECTS:
        return "acts on the host, which a replay would not repeat"
    if torch.Tag.data_dependent_output in op.tags:
        return "reads a value on the host"
    given = call_arguments(op, node)
    if torch.Tag.nondeterministic_seeded in op.tags and not repeats_random and _draws(op, given):
        return f"draws random numbers, which graphs of {device.type} would repeat"
    if name in _INDEXING and any(t.dtype in (torch.bool, torch.uint8) for t in _used(_nodes(given[1]))):
        return "indexes with a mask, so the size of what it reads is known only when it has run"
    if device.type == "cpu":
        return ""
    on_host = [t for t in _used(node.all_input_nodes) if t.device.type == "cpu"]
    if any(t.device.type == "cpu" for t in tensor_leaves(node.meta.get("val"))):
        return "computes or copies to the host, which a replay would not repeat"
    if on_host and name in _MOVES:
        return "copies from the host and waits for it"
    if any(t.ndim for t in on_host):
        return "reads memory of the host"
    if any(t.device.type == "cpu" for t in _used(_nodes([given[i] for i in written_arguments(op)]))):
        return "writes memory of the host"
    return ""


def _draws(op: OpOverload, given: list[Any]) -> bool:
    """Whether a call draws random numbers; attention does so only for dropout."""
    chances = [v for a, v in zip(op._schema.arguments, given, strict=True) if a.name == "dropout_p"]
    return not chances or any(c != 0 for c in chances)


def _name(node: fx.Node) -> str:
    return "the input" if node.op == "placeholder" else str(node.target)


def _nodes(value: Any) -> list[fx.Node]:
    found: list[fx.Node] = []
    fx.map_arg(value, found.append)
    return found


def _used(nodes: list[fx.Node]) -> Iterator[torch.Tensor]:
    for node in nodes:
        yield from tensor_leaves(node.meta.get("val"))


def _numbers(value: Any) -> Iterator[Any]:
    """The symbolic numbers in ``meta["val"]``, sizes of tensors included."""
    symbolic: Any = torch.SymInt | torch.SymFloat | torch.SymBool
    if isinstance(value, symbolic):
        yield value
    elif isinstance(value, torch.Tensor):
        sizes: tuple[Any, ...] = tuple(value.shape)
        yield from (size for size in sizes if isinstance(size, torch.SymInt))
    elif isinstance(value, list | tuple):
        for v in value:
            yield from _numbers(v)


def _is_unbacked(number: Any) -> bool:
    return any(_torch_compat.is_unbacked(s) for s in number.node.expr.free_symbols)
