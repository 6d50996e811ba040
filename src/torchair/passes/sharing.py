"""May a value be read in place of its copy? What every pass asks before it takes a copy, or a view, out of a graph."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from torchair.ir.graph import Graph, Node, Value
from torchair.ir.memory import Memory, depends_on, may_become_constant, may_overlap_itself, whole_memory

__all__ = ["Caller", "is_awaited", "is_free", "read_instead", "reading_problem", "sharing_problem"]


@dataclass(frozen=True, slots=True)
class Caller:
    """What the caller of a graph does with its inputs and outputs.

    Attributes:
        remade_outputs: Numbers of outputs that the caller makes again from an input (AOTAutograd does so with outputs
            that are inputs or views of them), so that they may lie in an input's memory.
        fixed_inputs: Numbers of inputs whose memory must not be used as if it were the graph's, although an update
            writes them at the end: expanded tensors, for one.
    """

    remade_outputs: Collection[int] = ()
    fixed_inputs: Collection[int] = ()


def sharing_problem(memory: Memory, copy: Value, source: Value, caller: Caller | None = None) -> str | None:
    """Why ``copy`` may not be replaced by ``source``, an earlier value with the same elements; None if it may.

    It may when in-place execution computes the same afterwards, and no tensors of the caller begin to share memory.
    """
    caller = caller or Caller()
    if not copy.type.same_tensor(source.type):
        return "the types differ"
    if (copy.type.device, copy.type.format) != (source.type.device, source.type.format):
        return "device or format differ"
    if copy.type.content is not None and copy.type.content != source.type.content:
        return "the numbers that the graph knows of it would be lost"
    if memory.is_plain(copy) and memory.is_plain(source):
        return None
    old, new = memory.group(source), memory.group(copy)
    graph = memory.graph
    if (problem := _outputs_problem(graph, copy, source, old, new, caller)) is not None:
        return problem
    members = tuple(dict.fromkeys((*old, *new)))
    stale = next(memory.stale_reads(members, (copy, source)), None)
    if stale is not None:
        return stale.text
    if memory.share(copy, source):
        return None
    return _write_problem(memory, members, source, caller) or _update_problem(graph, copy, source, old, new)


def reading_problem(memory: Memory, value: Value, reader: Node) -> str | None:
    """Why a node may not read an earlier value at its place; None if it may."""
    made = memory.position(value)
    for writer in memory.writers(memory.group(value)):
        if made < memory.place(writer) < memory.place(reader):
            return f"{writer.name} overwrites %{value.name} before"
    return None


def is_free(node: Node) -> bool:
    """True for a node that is only there for its results."""
    return not (node.side_effects or node.writes or node.binds or node.control)


def is_awaited(node: Node) -> bool:
    """True when another node waits for it by a control edge."""
    return bool(node.graph.waiters(node))


def read_instead(memory: Memory, copy: Value, source: Value) -> None:
    """Let every reader of ``copy`` read ``source``."""
    memory.join(copy, source)
    memory.graph.replace_all_uses_with(copy, source)


def _outputs_problem(
    graph: Graph, copy: Value, source: Value, old: Collection[Value], new: Collection[Value], caller: Caller
) -> str | None:
    """Tensors that the caller has must not begin to share memory."""
    returned = [(i, v) for i, v in enumerate(graph.outputs) if v is not None]
    if any(v is copy for _, v in returned):
        if source.producer is None:
            return f"the graph would return its input %{source.name}"
        if any(v is source for _, v in returned):
            return f"the graph would return %{source.name} twice"
    if copy in old:
        return None
    old_outputs = [v for _, v in returned if v in old]
    new_outputs = [v for _, v in returned if v in new]
    if old_outputs and new_outputs:
        return f"the outputs %{old_outputs[0].name} and %{new_outputs[0].name} would share memory"
    for values, others in ((old, new), (new, old)):
        given = next((v for v in values if v.producer is None), None)
        kept = next((v for i, v in returned if v in others and i not in caller.remade_outputs), None)
        if given is not None and kept is not None:
            return f"the output %{kept.name} would lie in the memory of the input %{given.name}"
    return None


def _write_problem(memory: Memory, members: Collection[Value], source: Value, caller: Caller) -> str | None:
    """What is overwritten in place has to be ours, each element at a place of its own, or an input that is updated."""
    writers = memory.writers(members)
    if not writers:
        return None
    name = writers[0].name
    fixed = next((v for v in members if may_become_constant(v)), None)
    if fixed is not None:
        return f"{name} would overwrite the constant %{fixed.name}"
    if may_overlap_itself(source):
        return f"{name} would write %{source.name}, of which several elements may lie at one place"
    inputs = [v for v in members if v.producer is None]
    if len(inputs) > 1:
        return f"{name} would write memory that may be of %{inputs[0].name} or %{inputs[1].name}"
    for value in inputs:
        update = next((u for target, u in memory.graph.updates if target is value), None)
        if value.type.content is not None:
            return f"{name} would overwrite the number %{value.name}"
        if update is None:
            return f"{name} would overwrite the input %{value.name}, which keeps its value"
        if value.index in caller.fixed_inputs:
            return f"the memory of the input %{value.name} is not to be written before the end"
        unrelated = next((w for w in writers if not depends_on(update, w)), None)
        if unrelated is not None:
            return f"{unrelated.name} would overwrite the input %{value.name}, which is to receive something else"
    return None


def _update_problem(
    graph: Graph, copy: Value, source: Value, old: Collection[Value], new: Collection[Value]
) -> str | None:
    """An update copies at the end: from the very same memory, which does nothing, or from memory that none writes."""
    targets = [target for target, _ in graph.updates]
    for target, update in graph.updates:
        others = old if update in new else new if update in old else ()
        for written in targets:
            if written not in others:
                continue
            if written is not target:
                return f"the update of %{target.name} would read memory of %{written.name}, which is updated too"
            whole = whole_memory(update)
            if (whole_memory(source) if whole is copy else whole) is not target:
                return f"the update of %{target.name} would read a part of its own memory, or all in another order"
    return None
