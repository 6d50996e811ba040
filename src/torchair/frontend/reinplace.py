"""Operators write in place again where AOTAutograd made them functional (specification, F-19, F-35 and F-36).

AOTAutograd turns every write into a new value: a row written into a KV cache becomes a copy of the cache, and at the
end of the graph the whole copy goes back into the input. Here an operator writes its operand again where nobody reads
the old value afterwards, and the copies go.

PyTorch has such a pass for Inductor (``reinplace_inplaceable_ops``). It is not used: it overlooks readers of the new
value behind the copy that ends the graph. With 2.13, ``y = x.index_put((i,), v); x.copy_(w); return y`` returns ``w``,
and ``x.copy_(y)`` in its place returns ``x`` itself where eager mode returns a tensor of its own. Inductor's pass also
leaves out what it would rather fuse.

A pass that removes copies must have left alone those whose source, or whose result, is written or handed to an operator
that writes its arguments: an operand that shares memory with what such an operator writes sees the write.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx

from torchair import _torch_compat
from torchair._torch_compat import OpOverload
from torchair.frontend.fake_values import OldValues
from torchair.frontend.new_nodes import inherit
from torchair.frontend.reinplace_memory import (
    Memory,
    Write,
    fake,
    known_equal,
    same_elements,
    storage_of,
)
from torchair.frontend.reinplace_operators import copies_much, in_place_overload, scattered_view
from torchair.frontend.reinplace_wrapped import Emitter, Wrapper
from torchair.source_lines import source_line

__all__ = ["KeptCopy", "ReinplaceRecord", "reinplace"]

aten = torch.ops.aten


@dataclass(frozen=True, slots=True)
class KeptCopy:
    """A value that is copied, since it cannot be written in place.

    Attributes:
        operator: The operator that would write it: ``"ns::accumulate"``.
        argument: Its argument.
        node: The node of the graph as it was.
        reason: Why it is not written.
        source: The user's line.
    """

    operator: str
    argument: str
    node: str
    reason: str
    source: str = ""

    def __str__(self) -> str:
        where = f" ({self.source})" if self.source else ""
        return f"{self.operator} copies its argument {self.argument!r}: {self.reason}{where}"


@dataclass(slots=True)
class ReinplaceRecord:
    """What the pass did.

    Attributes:
        in_place: Operators of PyTorch that now write in place, by name.
        wrapped: Custom operators that write an argument itself, by name.
        copies_removed: Copies into inputs, and into views, that were found to copy a value onto itself.
        kept: What is copied still, and why.
    """

    in_place: Counter[str] = field(default_factory=Counter)
    wrapped: Counter[str] = field(default_factory=Counter)
    copies_removed: int = 0
    kept: list[KeptCopy] = field(default_factory=list)

    @property
    def rewrites(self) -> int:
        """How many operators write in place, and copies are gone."""
        return self.in_place.total() + self.wrapped.total() + self.copies_removed


def reinplace(
    gm: fx.GraphModule,
    *,
    intermediates: bool,
    inputs: bool,
    regenerated: Collection[int] = (),
    keep: Callable[[fx.Node], bool] | None = None,
) -> ReinplaceRecord:
    """Let operators write in place, and take functionalized custom operators apart.

    Args:
        gm: An AOT-level graph: functional, but for ``copy_`` into inputs; edited in place. Its nodes have fake values,
            which tell who shares memory with whom, before and after.
        intermediates: Whether values that the graph makes may be overwritten (option ``inplace_pass``).
        inputs: Whether inputs that the graph updates may be written by the operators themselves (option
            ``input_inplace_pass``). An input that an operator writes may be half written when a later operator raises,
            just as in eager mode.
        regenerated: Positions of outputs that AOTAutograd replaces by views of inputs
            (:func:`torchair._torch_compat.outputs_made_from_inputs`); such an output may lie in an input.
        keep: Whether an operator that could become its in-place form stays as it is; what is left is a ``copy_`` of its
            result.

    Raises:
        MutationError: A custom operator's arguments share memory in a way that the graph cannot express.
    """
    return _Reinplacing(gm, Memory(gm, intermediates, inputs, regenerated), keep).run()


@dataclass(slots=True)
class _Reinplacing:
    gm: fx.GraphModule
    memory: Memory
    keep: Callable[[fx.Node], bool] | None
    record: ReinplaceRecord = field(default_factory=ReinplaceRecord)
    _on_path: set[fx.Node] = field(default_factory=set)
    _starts: dict[fx.Node, list[Any]] = field(default_factory=dict)

    def run(self) -> ReinplaceRecord:
        nodes = [node for node in self.gm.graph.nodes if node.op == "call_function"]
        opaque: set[fx.Node] = set()
        for node in nodes:
            if _is_wrapper(node):
                self._starts[node] = Wrapper.starts(node)
                if Wrapper.of(node, self._starts[node]) is None:
                    opaque.add(node)
                    fx.map_arg(node.kwargs.get("_all_bases"), self.memory.pin)
        for _, update in self.memory.updates():
            self._follow(update)
        if not _torch_compat.positions_survive_writes():
            self._doubt_starts()
        with self.memory.evaluating():
            for node in nodes:
                if self.memory.knows(node) and node not in opaque:
                    self._visit(node)
        if opaque:
            self._take_apart(opaque)
        self.gm.graph.lint()
        self.gm.recompile()
        return self.record

    def _doubt_starts(self) -> None:
        """Forget where bases begin that are new values of inputs which begin elsewhere."""
        origins: dict[fx.Node, fx.Node] = {}
        for wrapper in self._starts:
            for number, base in enumerate(wrapper.kwargs.get("_all_bases") or ()):  # type: ignore[arg-type]
                if not isinstance(base, fx.Node) or wrapper not in self._on_path:
                    continue
                origin = _origin(base, origins)
                if not known_equal(fake(origin).storage_offset(), fake(base).storage_offset()):
                    self._starts[wrapper][number] = None

    def _take_apart(self, wrappers: Collection[fx.Node]) -> None:
        """Let PyTorch replace wrappers; the fake values that it computes are those of the graph before."""
        before = OldValues.of(self.gm.graph)
        _torch_compat.decompose_auto_functionalized(self.gm, wrappers, self.memory.fake_mode)
        origins: dict[fx.Node | None, fx.Node] = {}
        last = None
        for node in before.calls:
            last = node if self.memory.knows(node) and node not in wrappers else last
            if node in wrappers:
                origins.setdefault(last, node)
        for node in self.gm.graph.nodes:
            if node in before.calls:
                last = node
                continue
            node.meta.pop("val", None)
            if last in origins:
                inherit(node, origins[last])
        before.renew(self.gm)

    def _follow(self, update: fx.Node) -> None:
        """Note the operators whose results end in an input, back to where the old value of the input is read."""
        owner, source = update.args[:2]
        home = storage_of(fake(owner))
        ahead: list[Any] = [source]
        while ahead:
            node = ahead.pop()
            if not isinstance(node, fx.Node) or node in self._on_path or node.op != "call_function":
                continue
            if storage_of(fake(node)) == home:
                continue
            self._on_path.add(node)
            if _is_wrapper(node):
                fx.map_arg(Wrapper.written(node), ahead.append)
            elif scattered_view(node) is not None:
                ahead += node.args[:2]
            elif isinstance(node.args[0], fx.Node) and (self.memory.is_view(node) or _can_write(node)):
                ahead.append(node.args[0])

    def _visit(self, node: fx.Node) -> None:
        if self.memory.is_update(node):
            if same_elements(*map(fake, node.args[:2])):
                self.record.copies_removed += 1
                self.memory.replace(node, node.args[0])  # type: ignore[arg-type]
        elif _is_wrapper(node):
            self._unwrap(node)
        elif scattered_view(node) is not None:
            self._scatter(node)
            if self.memory.knows(node):
                self._copy_truly(node)
        elif isinstance(node.target, OpOverload):
            self._plain(node, node.target)
            if node.target is aten.copy.default and self.memory.knows(node):
                self._copy_truly(node)

    # --- the three kinds of operators ---

    def _plain(self, node: fx.Node, overload: OpOverload) -> None:
        """``r = op(x, ...)`` becomes ``op_(x, ...)``."""
        in_place = in_place_overload(overload)
        written = node.args[0] if node.args else None
        if in_place is None or not isinstance(written, fx.Node) or storage_of(fake(node)) is None:
            return
        if self.keep is not None and self.keep(node):
            return
        local = copies_much(overload) or any(
            (taken := scattered_view(user)) is not None and taken[1] is node for user in node.users
        )
        on_path = node in self._on_path
        if not local and not on_path:
            return
        operands: list[fx.Node] = []
        fx.map_arg((node.args[1:], node.kwargs), operands.append)
        if overload is aten.copy.default and len(operands) == 1 and same_elements(fake(operands[0]), fake(written)):
            write = Write(node, written, [node], on_path=on_path, replaces=True)
            if not self._refused(write, overload, str(overload._schema.arguments[0].name)):
                self.record.copies_removed += 1
            return
        write = Write(node, written, [node], operands, on_path=on_path)
        if not self._refused(write, overload, str(overload._schema.arguments[0].name)):
            node.target = in_place
            self.record.in_place[str(in_place)] += 1

    def _scatter(self, node: fx.Node) -> None:
        """``r = x.slice_scatter(y, ...)`` becomes ``x.slice(...).copy_(y)``, or nothing if ``y`` lies there already."""
        taken = scattered_view(node)
        assert taken is not None
        base, source, view, args, kwargs = taken
        region = self.memory.evaluate(view, (fake(base), *fx.map_arg(args, fake)), fx.map_arg(kwargs, fake))
        write = Write(node, base, [node], [source], region=region, on_path=node in self._on_path)
        overload: Any = node.target
        if self._refused(write, overload, "self"):
            return
        if same_elements(fake(source), region):
            self.record.copies_removed += 1
        else:
            self.record.in_place[str(overload)] += 1
            graph = self.gm.graph
            with graph.inserting_before(node):
                target = graph.call_function(view, (base, *args), kwargs)
                copy = graph.call_function(aten.copy_.default, (target, source))
            for added in (target, copy):
                added.meta = {**node.meta, "val": region}
                self.memory.add(added, self.memory.position(node))
        self.memory.replace(node, base)

    def _copy_truly(self, node: fx.Node) -> None:
        """A scatter that stays becomes the copy that it is, where its kernel may betray its fake value.

        The kernels keep the distance of their operand from the start of its storage. Their fake values have none, and
        that of an input is another in each call; what was traced behind them (``as_strided``) counts from there.
        """
        taken = scattered_view(node)
        base, source = node.args[:2]
        assert isinstance(base, fx.Node)
        same = known_equal(fake(base).storage_offset(), fake(node).storage_offset())
        if same and not self.memory.is_given(base):
            return
        if _torch_compat.is_expanded(fake(base)):
            return  # nothing can be copied into it
        if self.memory.counts_positions(node) and not isinstance(fake(node).storage_offset(), int):
            return  # such a position cannot be given to the copy
        emitter = Emitter(self.memory, node)
        copy = emitter.copy(base, [node])
        if taken is None:
            target = copy
        elif taken[2] is aten.as_strided.default:
            size, stride, *offset = (*taken[3], *taken[4].values())
            ahead = emitter.difference(offset[0], fake(base).storage_offset(), base) if offset else 0
            target = emitter.place(copy, size, stride, ahead)
        else:
            target = emitter.call(taken[2], copy, *taken[3], **taken[4])
        emitter.call(aten.copy_.default, target, source)
        reason = self.memory.rename([node], copy, node)
        assert not reason, f"the copy of {base} in the place of {node}: {reason}"

    def _unwrap(self, node: fx.Node) -> None:
        wrapper = Wrapper.of(node, self._starts[node])
        assert wrapper is not None
        overload, copied = wrapper.overload, set()
        on_path = node in self._on_path
        operands = wrapper.operands
        for base in wrapper.bases:
            others = [b.node for b in wrapper.bases if b is not base]
            shared = [b for b in others if storage_of(fake(b)) == storage_of(fake(base.node))]
            write = Write(
                node,
                base.node,
                base.results,
                [*operands, *shared],
                sees_writes=not shared,
                on_path=on_path,
                replaces=True,
            )
            if self._refused(write, overload, base.argument):
                copied.add(base.number)
        if len(copied) < len(wrapper.bases):
            self.record.wrapped[str(overload._schema.name)] += 1
        wrapper.expand(self.memory, copied)

    def _refused(self, write: Write, overload: OpOverload, argument: str) -> bool:
        name, source = write.node.name, source_line(write.node)
        reason = self.memory.try_write(write)
        if reason:
            self.record.kept.append(KeptCopy(str(overload._schema.name), argument, name, reason, source))
        return bool(reason)


def _is_wrapper(node: fx.Node) -> bool:
    return _torch_compat.is_auto_functionalized_v1(node.target) or _torch_compat.is_auto_functionalized_v2(node.target)


def _origin(node: fx.Node, known: dict[fx.Node, fx.Node]) -> fx.Node:
    """The tensor whose new value a value may be, before all writes."""
    seen: list[fx.Node] = []
    while node not in known:
        seen.append(node)
        before: Any = node.args[0] if node.op == "call_function" and node.args else None
        if node.target is operator.getitem and isinstance(before, fx.Node) and _is_wrapper(before):
            bases: Any = list(Wrapper.written(before))
            position: Any = node.args[1]
            before = bases[position - len(fake(before))] if -len(bases) <= position - len(fake(before)) else None
        if not isinstance(before, fx.Node) or not isinstance(fake(before), torch.Tensor):
            break
        node = before
    origin = known.get(node, node)
    known.update(dict.fromkeys(seen, origin))
    return origin


def _can_write(node: fx.Node) -> bool:
    return isinstance(node.target, OpOverload) and in_place_overload(node.target) is not None
