"""Which values of an FX graph lie in one memory, who reads them when, and what may be written where.

The graph computes with values: an operator that writes an operand instead of making a new tensor is right only where
nobody can tell. Positions are those of the nodes before anything was changed; decisions are made in this order.
"""

from __future__ import annotations

import operator
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx

from torchair import _torch_compat
from torchair._torch_compat import OpOverload
from torchair.frontend.reinplace_operators import SCATTERS, is_pointwise, reads_only_type, scattered_view
from torchair.frontend.stream_order import StreamOrder
from torchair.streams import is_wait, stream_of

__all__ = [
    "Memory",
    "Write",
    "fake",
    "is_dense",
    "known_equal",
    "same_elements",
    "same_type",
    "storage_of",
]

aten = torch.ops.aten


def fake(node: Any) -> Any:
    """The fake tensor or symbolic number that a node stands for; anything else is itself."""
    return node.meta.get("val") if isinstance(node, fx.Node) else node


def storage_of(value: Any) -> int | None:
    """Identity of the memory that a value lies in; None for what is no strided tensor."""
    if not isinstance(value, torch.Tensor) or value.layout is not torch.strided:
        return None
    return _torch_compat.storage_id(value)


def known_equal(a: Any, b: Any) -> bool:
    """Whether two (symbolic) numbers are equal, whatever the sizes are."""
    if isinstance(a, int) and isinstance(b, int):
        return a == b
    return a is b or _torch_compat.known_true(a == b)


def same_type(a: Any, b: Any) -> bool:
    """Whether two tensors are of one dtype, device, shape and strides."""
    return _of_one_shape(a, b) and all(map(known_equal, a.stride(), b.stride()))


def _of_one_shape(a: Any, b: Any) -> bool:
    return (
        isinstance(a, torch.Tensor)
        and isinstance(b, torch.Tensor)
        and (a.dtype, a.device, a.layout, a.is_conj(), a.is_neg())
        == (b.dtype, b.device, b.layout, b.is_conj(), b.is_neg())
        and a.dim() == b.dim()
        and all(map(known_equal, a.shape, b.shape))
    )


def same_elements(a: Any, b: Any) -> bool:
    """Whether two tensors of one memory are the same elements of it, in the same order."""
    return same_type(a, b) and storage_of(a) == storage_of(b) and known_equal(a.storage_offset(), b.storage_offset())


def is_dense(tensor: torch.Tensor) -> bool:
    """Whether a tensor fills the memory between its first and last element, and no two elements share a place."""
    dims = [(n, s) for n, s in zip(tensor.shape, tensor.stride(), strict=True) if not known_equal(n, 1)]
    hints = [_torch_compat.size_hint(s) for _, s in dims]
    if any(h is None for h in hints):
        return False
    expected: Any = 1
    for _, (size, stride) in sorted(zip(hints, dims, strict=True), key=lambda pair: int(pair[0] or 0)):
        if not known_equal(stride, expected):
            return False
        expected = expected * size
    return True


def _span(tensor: torch.Tensor) -> tuple[Any, Any]:
    """First byte of memory of a tensor, and the one behind its last (where the tensor is empty, anything)."""
    start: Any = tensor.storage_offset()
    width = tensor.element_size()
    length = sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride(), strict=True)) + 1
    return start * width, (start + length) * width


def _apart(a: torch.Tensor, b: torch.Tensor) -> bool:
    (a_start, a_end), (b_start, b_end) = _span(a), _span(b)
    return _torch_compat.known_true(a_end <= b_start) or _torch_compat.known_true(b_end <= a_start)


def _within(part: torch.Tensor, whole: torch.Tensor) -> bool:
    if same_elements(part, whole):
        return True
    (start, end), (whole_start, whole_end) = _span(part), _span(whole)
    return _torch_compat.known_true(whole_start <= start) and _torch_compat.known_true(end <= whole_end)


@dataclass(frozen=True, slots=True)
class Write:
    """A change that is considered: a node writes an operand, and what was its result is this operand from then on.

    Attributes:
        node: The node.
        written: The operand.
        results: The nodes that are the new value (one, but for wrappers of operators with several results).
        operands: What else the node reads.
        sees_writes: The operands that share memory with what is written may see the new elements, as in eager mode.
        region: The elements that are written, where these are not the operand as a whole.
        on_path: The new value ends in an input that the graph updates.
        replaces: The results cease to exist, rather than become a name for the operand.
    """

    node: fx.Node
    written: fx.Node
    results: Sequence[fx.Node]
    operands: Sequence[fx.Node] = ()
    sees_writes: bool = False
    region: torch.Tensor | None = None
    on_path: bool = False
    replaces: bool = False


@dataclass(slots=True)
class Memory:
    """What is known about the memory of a graph while operators are made to write it.

    Attributes:
        gm: The graph.
        intermediates: Whether memory that the graph makes may be written.
        inputs: Whether inputs that the graph updates may be written before its end.
        regenerated: Positions of graph outputs that the caller takes from an input anyway.
        fake_mode: The mode of the graph's fake tensors.

    Of its own notes, ``_strided`` is the memory of which there are views that may reach beyond their operands, and
    ``_counted`` that in which something counts positions from the start of the storage.
    """

    gm: fx.GraphModule
    intermediates: bool
    inputs: bool
    regenerated: Collection[int] = ()
    fake_mode: Any = None
    _order: dict[fx.Node, int] = field(default_factory=dict)
    _members: dict[int, dict[fx.Node, None]] = field(default_factory=dict)
    _reads: dict[fx.Node, deque[tuple[int, fx.Node]]] = field(default_factory=dict)
    _given: dict[int, list[fx.Node]] = field(default_factory=dict)
    _updates: dict[fx.Node, fx.Node] = field(default_factory=dict)
    _untouchable: dict[int, str] = field(default_factory=dict)
    _strided: set[int] = field(default_factory=set)
    _counted: set[int] = field(default_factory=set)
    _streams: StreamOrder | None = None
    _readers_of: dict[int, list[fx.Node]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        nodes = list(self.gm.graph.nodes)
        self.fake_mode = next(iter(_torch_compat.fake_modes(n.meta.get("val") for n in nodes)), None)
        self._order = {node: i for i, node in enumerate(nodes)}
        for node in nodes:
            self._take_in(node)
        for node in nodes:
            self._reads[node] = deque(sorted(self._readers(node), key=lambda read: read[0]))
        self._streams = StreamOrder.of(self.gm.graph)
        if self._streams is not None:
            for node in nodes:
                for storage in _storages(node):
                    self._readers_of.setdefault(storage, []).extend(
                        [node, *(user for _, user in self._reads[node] if not is_wait(user))]
                    )

    # --- facts ---

    def _take_in(self, node: fx.Node) -> None:
        for storage in _storages(node):
            self._members.setdefault(storage, {})[node] = None
            if node.op in ("placeholder", "get_attr"):
                self._given.setdefault(storage, []).append(node)
            if node.target is aten.as_strided.default:
                self._strided.add(storage)
        if node.target is aten.as_strided_scatter.default:
            self._strided |= _storages(node.args[0])  # type: ignore[arg-type]
        if _counts_positions(node):
            self._counted |= _storages(node.args[0])  # type: ignore[arg-type]
        if node.op == "get_attr" and "val" not in node.meta:
            for user in node.users:
                if isinstance(user.target, OpOverload) and any(r.alias_info for r in user.target._schema.returns):
                    self._forbid(user, f"it is the constant {node.target}")
        if self._is_update(node):
            placeholder: Any = node.args[0]
            if placeholder in self._updates:
                self._forbid(placeholder, "the graph updates it more than once")
            self._updates[placeholder] = node
            return
        for written in _written(node):
            self._forbid(written, f"%{node.name} writes it already")

    @staticmethod
    def _is_update(node: fx.Node) -> bool:
        """Whether a node is the ``copy_`` into an input with which AOTAutograd ends a graph."""
        if node.target is not aten.copy_.default or len(node.args) < 2:
            return False
        target, source = node.args[:2]
        return (
            isinstance(target, fx.Node)
            and target.op == "placeholder"
            and isinstance(source, fx.Node)
            and isinstance(fake(source), torch.Tensor)
        )

    def _forbid(self, node: fx.Node, why: str) -> None:
        for storage in _storages(node):
            self._untouchable.setdefault(storage, why)

    def _readers(self, node: fx.Node) -> Iterator[tuple[int, fx.Node]]:
        storages = _storages(node)
        for user in node.users:
            if reads_only_type(user) or _is_view(user, storages):
                continue
            if self._updates.get(node) is user and user.args[1] is not node:
                continue
            yield self._order[user], user

    def is_given(self, node: fx.Node) -> bool:
        """Whether a value lies in the memory of an input or a constant."""
        return not _storages(node).isdisjoint(self._given)

    def counts_positions(self, node: fx.Node) -> bool:
        """Whether something counts positions from the start of the storage of a tensor."""
        return not _storages(node).isdisjoint(self._counted)

    def updates(self) -> Iterable[tuple[fx.Node, fx.Node]]:
        """The inputs that the graph updates, each with the ``copy_`` that does it."""
        return list(self._updates.items())

    def is_update(self, node: fx.Node) -> bool:
        """Whether a node is such a ``copy_``."""
        return bool(node.args) and isinstance(node.args[0], fx.Node) and self._updates.get(node.args[0]) is node

    def position(self, node: fx.Node) -> int:
        """The place of a node in the graph as it was."""
        return self._order[node]

    # --- decisions ---

    def try_write(self, write: Write) -> str:
        """Decide about a change, and note it if it is allowed.

        Returns:
            Empty if it is allowed: then the fake values of the result and its views are those of the operand. Else the
            reason.
        """
        try:
            renewed = self._renewed(write)
        except Exception as e:  # noqa: BLE001  # any operator may be among the views; one that fails is a reason
            return f"a view of the result cannot be made of %{write.written.name}: {type(e).__name__}: {e}"
        if isinstance(renewed, str):
            return renewed
        reason = self._why_not(write, renewed)
        if not reason:
            self._note(write, renewed)
        return reason

    def _why_not(self, write: Write, renewed: dict[fx.Node, Any]) -> str:
        written, storage = fake(write.written), storage_of(fake(write.written))
        if storage is None:
            return "it is no strided tensor"
        if storage in self._untouchable:
            return self._untouchable[storage]
        if _torch_compat.is_expanded(written):
            return "several of its elements share memory"
        for result in write.results:
            if storage_of(fake(result)) == storage:
                return "its new value shares memory with the old one already"
        region = written if write.region is None else write.region
        if not write.sees_writes:
            for other in write.operands:
                if storage_of(fake(other)) == storage and not _harmless(write, other, region):
                    return f"the operator also reads %{other.name}, which shares memory with it"
        update = None
        if given := self._given.get(storage):
            refused, update = self._why_not_given(write, given, region)
            if refused:
                return refused
        elif not self.intermediates:
            return "inplace_pass=False"
        if self._streams is not None and (read := self._unordered_read(write, storage, self._streams)):
            return read
        if read := self._late_read(storage, write, renewed, None if update is None else self.position(update)):
            return read
        return "" if update is None else self._why_not_updated(write, renewed, update)

    def _why_not_given(
        self, write: Write, given: Sequence[fx.Node], region: torch.Tensor
    ) -> tuple[str, fx.Node | None]:
        """About memory that the caller gave: the reason, or else the ``copy_`` that ends in it."""
        if len(given) > 1:
            return f"several inputs share its memory: {', '.join(f'%{g.name}' for g in given)}", None
        (owner,) = given
        if owner.op == "get_attr":
            return f"it is the constant {owner.target}", None
        if not self.inputs:
            return "input_inplace_pass=False", None
        update = self._updates.get(owner)
        if update is None or not write.on_path:
            return f"the new value is not copied back into the input %{owner.name}", None
        if self.position(update) < self.position(write.node):
            return f"the input %{owner.name} is updated before", None
        whole = fake(owner)
        if storage_of(whole) in self._strided and not (is_dense(whole) and _within(region, whole)):
            return f"it may reach beyond the input %{owner.name}", None
        return "", update

    def _late_read(self, storage: int, write: Write, renewed: dict[fx.Node, Any], updated: int | None) -> str:
        """Who reads the old value after it would have been overwritten."""
        position = self.position(write.node)
        alive: dict[fx.Node, None] = {}
        late: list[tuple[fx.Node, fx.Node]] = []
        for member in self._members[storage]:
            reads = self._reads[member]
            while reads and reads[0][0] <= position:
                reads.popleft()
            if reads:
                alive[member] = None
                # What is read after the input is updated is the update, in place or not.
                late += [(member, reader) for at, reader in reads if updated is None or at <= updated]
        self._members[storage] = alive
        if not late:
            return ""
        putting_back = self._putting_back(storage, renewed)
        for member, reader in late:
            if putting_back.get(reader) is not member:
                return f"the value before the write is read later, by %{reader.name}"
        return ""

    def _unordered_read(self, write: Write, storage: int, order: StreamOrder) -> str:
        """Who may not be done with the old value, on another stream, when it would be overwritten."""
        position = self.position(write.node)
        for reader in self._readers_of.get(storage, ()):
            earlier = self._order.get(reader, position) < position
            if earlier and stream_of(reader) != stream_of(write.node) and not order.before(reader, write.node):
                stream = stream_of(reader) or "default"
                return f"%{reader.name} uses it on the stream {stream!r}, and nothing orders the two"
        return ""

    def _putting_back(self, storage: int, renewed: dict[fx.Node, Any]) -> dict[fx.Node, fx.Node]:
        """The scatters that only put the new value in the place of the old one, each with what it scatters into."""
        found: dict[fx.Node, fx.Node] = {}
        places = dict(renewed)
        ahead = list(renewed)
        while ahead:
            source = ahead.pop()
            for user in source.users:
                taken = scattered_view(user)
                if taken is None or taken[1] is not source or storage_of(fake(taken[0])) != storage:
                    continue
                base, _, view, args, kwargs = taken
                if base in _torch_compat.pytree.tree_leaves((args, kwargs)):
                    continue
                target = self.evaluate(view, (fake(base), *fx.map_arg(args, fake)), fx.map_arg(kwargs, fake))
                if same_elements(target, places[source]):
                    found[user], places[user] = base, fake(base)
                    ahead.append(user)
        return found

    def _why_not_updated(self, write: Write, renewed: dict[fx.Node, Any], update: fx.Node) -> str:
        """About an input: what becomes of the new value when the input is updated at the end of the graph."""
        owner, source = update.args[:2]
        new = renewed.get(source) if isinstance(source, fx.Node) else None
        is_final = new is not None
        if is_final and not same_elements(new, fake(owner)):
            return f"%{update.name} copies its memory in another order"
        at_update = self.position(update)
        for node in renewed:
            for at, reader in self._reads[node]:
                if at <= at_update:
                    continue
                if reader.op == "output":
                    if not self._is_regenerated(node, reader):
                        return f"the new value is returned, and must not be the input %{update.args[0]}"
                elif not is_final:
                    return f"the new value is read by %{reader.name} after another one is copied into the input"
        if not is_final and any(at > at_update for node in renewed for at, _ in self._reads[node]):
            return "the new value is returned after another one is copied into the input"
        return ""

    def _is_regenerated(self, node: fx.Node, output: fx.Node) -> bool:
        outputs: Any = output.args[0]
        return all(i in self.regenerated for i, value in enumerate(outputs) if value is node)

    # --- fake values ---

    def evaluating(self) -> AbstractContextManager[None]:
        """The context that :meth:`evaluate` needs; entering it once saves most of its time."""
        return nullcontext() if self.fake_mode is None else _torch_compat.fake_evaluation(self.fake_mode)

    @staticmethod
    def evaluate(target: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """What an operator makes of fake tensors."""
        return target(*args, **kwargs)

    def _renewed(self, write: Write) -> dict[fx.Node, Any] | str:
        """The fake values of the results and their views, were these in the memory of the operand; or why not."""
        written = fake(write.written)
        renewed: dict[fx.Node, Any] = {}
        alike = _of_one_shape if all(map(self._only_put_somewhere, write.results)) else same_type
        for result in write.results:
            if not alike(written, fake(result)):
                return f"the new value is of another type: {_described(fake(result))}, not {_described(written)}"
            renewed[result] = written
        if not write.results or not isinstance(written, torch.Tensor):
            return renewed
        storage = storage_of(fake(write.results[0]))
        moved = not known_equal(fake(write.results[0]).storage_offset(), written.storage_offset())
        if storage is None:
            return "the new value is no strided tensor"
        if moved and storage in self._counted:
            return "as_strided counts from the start of its storage"
        for node in self._members.get(storage, ()):
            if node in renewed or node is write.node:
                continue
            args, kwargs = _torch_compat.pytree.tree_map_only(
                fx.Node, lambda n: renewed.get(n, n.meta.get("val")), (node.args, node.kwargs)
            )
            if node.op != "call_function" or _written(node):
                return f"the new value shares memory with %{node.name}"
            value = self.evaluate(node.target, args, kwargs)  # type: ignore[arg-type]
            if not all(
                map(alike, _torch_compat.pytree.tree_leaves(value), _torch_compat.pytree.tree_leaves(fake(node)))
            ):
                return f"the view %{node.name} of it would be of another type"
            renewed[node] = value
        return renewed

    def _only_put_somewhere(self, node: fx.Node) -> bool:
        """Whether all that reads a value copies its elements, so that its strides do not matter."""
        for user in node.users:
            taken = scattered_view(user)
            put = (taken is not None and taken[1] is node) or (self.is_update(user) and user.args[1] is node)
            if (put and user.args[0] is not node) or (self.is_view(user) and self._only_put_somewhere(user)):
                continue
            return False
        return True

    def _note(self, write: Write, renewed: dict[fx.Node, Any]) -> None:
        members = self._members[_storage(write.written)]
        old = {storage_of(fake(result)) for result in write.results}
        for node, value in renewed.items():
            node.meta["val"] = value
            members[node] = None
        for storage in old - {None}:
            self._members.pop(storage, None)  # type: ignore[arg-type]
            if readers := self._readers_of.pop(storage, None):  # type: ignore[arg-type]
                self._readers_of.setdefault(_storage(write.written), []).extend(readers)
            for kind in (self._strided, self._counted):
                if storage in kind:
                    kind.add(_storage(write.written))
        if write.replaces:
            for result in write.results:
                self.replace(result, write.written)

    def rename(self, results: Sequence[fx.Node], copy: fx.Node, node: fx.Node) -> str:
        """Let a copy take the place of results of a node; returns why a view of them cannot be one of the copy."""
        write = Write(node, copy, results, replaces=True)
        renewed = self._renewed(write)
        if isinstance(renewed, str):
            return renewed
        self._note(write, renewed)
        return ""

    def replace(self, node: fx.Node, other: fx.Node) -> None:
        """Let all users of a node use another one, and erase it."""
        node.replace_all_uses_with(other)
        self._reads[other] = deque(sorted([*self._reads[other], *self._reads.pop(node, ())], key=lambda r: r[0]))
        for storage in _storages(other):
            self._members.setdefault(storage, {})[other] = None
        if self.is_update(node):
            self._updates.pop(node.args[0])  # type: ignore[arg-type]
        self.forget(node)

    def forget(self, node: fx.Node) -> None:
        """Erase a node without users, and the views that only it used."""
        operands = node.all_input_nodes
        for storage in _storages(node):
            self._members.get(storage, {}).pop(node, None)
        self._reads.pop(node, None)
        self.gm.graph.erase_node(node)
        for operand in operands:
            if not operand.users and self.is_view(operand):
                self.forget(operand)

    def is_view(self, node: fx.Node) -> bool:
        """Whether a node makes nothing but other names for the memory of one of its operands."""
        return any(_is_view(node, _storages(operand)) for operand in node.all_input_nodes)

    def knows(self, node: fx.Node) -> bool:
        """Whether a node is still in the graph."""
        return node in self._reads

    def pin(self, node: fx.Node) -> None:
        """Say that something counts positions from the start of the storage of a tensor."""
        self._counted |= _storages(node)

    def add(self, node: fx.Node, position: int) -> None:
        """Take note of a node that was added at a position, and of what it reads (nothing, later than that)."""
        self._order[node] = position
        self._reads[node] = deque()
        for storage in _storages(node):
            self._members.setdefault(storage, {})[node] = None


def _counts_positions(node: fx.Node) -> bool:
    """Whether a node counts from the start of the storage of its first operand."""
    if node.target is aten.sym_storage_offset.default:
        return True
    given = {aten.as_strided.default: 3, aten.as_strided_scatter.default: 4}.get(node.target)  # type: ignore[call-overload]
    if given is None:
        return False
    return (len(node.args) > given and node.args[given] is not None) or node.kwargs.get("storage_offset") is not None


def _storage(node: fx.Node) -> int:
    storage = storage_of(fake(node))
    assert storage is not None
    return storage


def _storages(node: fx.Node) -> set[int]:
    found = {storage_of(leaf) for leaf in _torch_compat.pytree.tree_leaves(fake(node))}
    return {storage for storage in found if storage is not None}


def _is_view(user: fx.Node, storages: set[int]) -> bool:
    """Whether a user makes nothing but other names for the memory of an operand."""
    if user.target is operator.getitem:
        return True
    if user.op != "call_function" or not isinstance(user.target, OpOverload) or user.target._schema.is_mutable:
        return False
    found = _storages(user)
    return len(found) == 1 and found == storages and _makes_tensors_only(user)


def _makes_tensors_only(node: fx.Node) -> bool:
    return all(isinstance(leaf, torch.Tensor) for leaf in _torch_compat.pytree.tree_leaves(fake(node)))


def _written(node: fx.Node) -> list[fx.Node]:
    """The operands that a node writes, or may write."""
    operands: Sequence[Any] = node.args
    target: Any = node.target
    if _torch_compat.is_with_effects(target):
        target, operands = node.args[1], node.args[2:]
    if node.op != "call_function" or not isinstance(target, OpOverload) or not target._schema.is_mutable:
        return []
    found = []
    arguments = target._schema.arguments
    for argument, value in [
        *zip(arguments, operands, strict=False),
        *((a, node.kwargs.get(a.name)) for a in arguments),
    ]:
        if argument.alias_info is not None and argument.alias_info.is_write:
            found += [leaf for leaf in _torch_compat.pytree.tree_leaves(value) if isinstance(leaf, fx.Node)]
    return found


def _harmless(write: Write, other: fx.Node, region: torch.Tensor) -> bool:
    """Whether an operator may read an operand in the memory that it writes."""
    value = fake(other)
    target = write.node.target
    if same_elements(value, region):
        # An element is read before it is written, and by nobody else; or a view is put where it is.
        return target in SCATTERS or (isinstance(target, OpOverload) and is_pointwise(target))
    return _apart(value, region)


def _described(value: Any) -> str:
    if not isinstance(value, torch.Tensor):
        return type(value).__name__
    return f"{value.dtype}{tuple(value.shape)} with strides {tuple(value.stride())}"
