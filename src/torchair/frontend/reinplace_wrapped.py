"""Mutating custom operators: PyTorch's automatic functionalization (v1 and v2), undone.

A wrapper says which tensors are written (bases), and where in them each written argument lies. Positions are read
once, relative to the first element of the base: where a base begins in its storage changes when it is another tensor.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx

from torchair import _torch_compat
from torchair._torch_compat import OpOverload
from torchair.errors import MutationError
from torchair.frontend.reinplace_memory import Memory, fake, is_dense, known_equal, same_type, storage_of
from torchair.source_lines import source_line

__all__ = ["Base", "Emitter", "Wrapper"]

aten = torch.ops.aten


@dataclass(frozen=True, slots=True)
class _View:
    """Where a written argument lies.

    Attributes:
        base: Number of the base.
        size: Sizes; None for the base itself. As FX arguments: numbers, or nodes that are numbers.
        stride: Strides.
        offset: Elements from the first element of the base, or of its storage.
        from_storage: Where the base began in its storage when ``offset`` was counted from the start of the storage.
        slicing: ``(dim, start, end)`` in place of the others.
        slices_storage: ``start`` and ``end`` count from the start of the storage. PyTorch means them for the base; they
            still tell where the argument lies.
    """

    base: int
    size: Any = None
    stride: Any = None
    offset: Any = 0
    from_storage: Any = 0
    slicing: tuple[Any, Any, Any] | None = None
    slices_storage: bool = False


@dataclass(slots=True)
class Base:
    """A tensor that a wrapped operator writes.

    Attributes:
        argument: The argument that it belongs to, for reports.
        results: The nodes that are its new value.
    """

    number: int
    argument: str
    node: fx.Node
    results: list[fx.Node] = field(default_factory=list)


@dataclass(slots=True)
class Wrapper:
    """A call of a mutating operator in functional form.

    Attributes:
        node: The node of the graph.
        overload: The operator.
        bases: The tensors that it writes.
    """

    node: fx.Node
    overload: OpOverload
    bases: list[Base] = field(default_factory=list)
    _views: dict[str, Any] = field(default_factory=dict)
    _plain: dict[str, Any] = field(default_factory=dict)
    _starts: Sequence[Any] = ()
    _guessed: bool = False

    @staticmethod
    def starts(node: fx.Node) -> list[Any]:
        """Where the bases of a node begin in their storages; to be asked before anything is changed."""
        bases: Any = node.kwargs.get("_all_bases") or []
        return [None if base is None else fake(base).storage_offset() for base in bases]

    @classmethod
    def of(cls, node: fx.Node, starts: Sequence[Any]) -> Wrapper | None:
        """Read a node; None for other nodes, and for wrappers that only PyTorch can take apart.

        These are wrappers of higher-order operators, and of operators that fill their results (``out=``).

        Args:
            starts: What :meth:`starts` returned, with None where PyTorch may have counted from elsewhere.
        """
        v2 = _torch_compat.is_auto_functionalized_v2(node.target)
        if not v2 and not _torch_compat.is_auto_functionalized_v1(node.target):
            return None
        overload = node.args[0]
        if not isinstance(overload, OpOverload):
            return None
        if v2 and any(f"_{a.name}_dtype" in node.kwargs for a in overload._schema.arguments):
            return None
        wrapper = cls(node, overload, _starts=starts)
        wrapper._read_v2() if v2 else wrapper._read_v1()
        return wrapper

    @staticmethod
    def written(node: fx.Node) -> Any:
        """The operands whose memory a wrapper says is written."""
        if "_all_bases" in node.kwargs:
            return node.kwargs["_all_bases"]
        arguments = node.args[0]._schema.arguments if isinstance(node.args[0], OpOverload) else ()
        return [node.kwargs.get(a.name) for a in arguments if a.alias_info is not None and a.alias_info.is_write]

    @property
    def operands(self) -> list[fx.Node]:
        """The tensors that the operator only reads."""
        found: list[fx.Node] = []
        fx.map_arg(self._plain, found.append)
        return found

    # --- reading ---

    def _written_arguments(self) -> Iterator[tuple[str, bool]]:
        for argument in self.overload._schema.arguments:
            if argument.alias_info is not None and argument.alias_info.is_write:
                yield argument.name, "List" in str(argument.type)

    def _read_v1(self) -> None:
        kwargs = {name: value for name, value in self.node.kwargs.items() if not name.startswith("_only_clone")}
        returns = len(self.overload._schema.returns) or 1
        for position, (name, is_list) in enumerate(self._written_arguments()):
            given: Any = kwargs.pop(name, None)
            results = self._results(returns + position)
            if not is_list:
                self._views[name] = None if given is None else self._add_base(name, given, results)
                continue
            inner = [[u for r in results for u in r.users if u.args[1] == i] for i in range(len(given or ()))]
            self._views[name] = (
                None if given is None else [self._add_base(name, g, r) for g, r in zip(given, inner, strict=True)]
            )
        self._plain = kwargs

    def _add_base(self, name: str, node: fx.Node, results: list[fx.Node]) -> _View:
        self.bases.append(Base(len(self.bases), name, node, results))
        return _View(len(self.bases) - 1)

    def _read_v2(self) -> None:
        kwargs: dict[str, Any] = dict(self.node.kwargs)
        kwargs.pop("_only_clone_these_bases", None)
        returns = len(self.overload._schema.returns) or 1
        bases = kwargs.pop("_all_bases", [])
        numbers: dict[int, int] = {}
        for i, node in enumerate(bases):
            if node is not None:
                numbers[i] = len(self.bases)
                self.bases.append(Base(len(self.bases), "", node, self._results(returns + i)))
        for name, is_list in self._written_arguments():
            if is_list:
                length = kwargs.pop(f"_{name}_length")
                self._views[name] = (
                    None
                    if length is None
                    else [self._read_view(kwargs, name, f"_{name}_{i}", numbers) for i in range(length)]
                )
            else:
                self._views[name] = self._read_view(kwargs, name, f"_{name}", numbers)
        self._plain = kwargs

    def _read_view(self, kwargs: dict[str, Any], name: str, prefix: str, numbers: dict[int, int]) -> _View | None:
        index = kwargs.pop(f"{prefix}_base_index")
        if index is None:
            return None
        base = self.bases[numbers[index]]
        base.argument = ", ".join(dict.fromkeys([*filter(None, [base.argument]), name]))
        kwargs.pop(f"{prefix}_alias", None)
        start = self._starts[index]
        if start is None and (f"{prefix}_storage_offset" in kwargs or f"{prefix}_slice_dim" in kwargs):
            raise self._refusal(
                f"it writes {base.argument!r}, a view of an input that begins inside its storage, which was "
                "written before; PyTorch may have counted the position of the view from another place",
                f"Call the compiled function with a clone() of what {base.argument} is a view of.",
            )
        if f"{prefix}_storage_offset" in kwargs:
            size, stride, offset = (kwargs.pop(f"{prefix}_{part}") for part in ("size", "stride", "storage_offset"))
            return _View(base.number, size, stride, offset, start)
        if f"{prefix}_slice_dim" in kwargs:
            dim, first, end = (kwargs.pop(f"{prefix}_slice_{part}") for part in ("dim", "start", "end"))
            if not known_equal(start, 0) and _torch_compat.slices_count_from_storage():
                self._guessed = True
                return _View(base.number, from_storage=start, slicing=(dim, first, end), slices_storage=True)
            return _View(base.number, slicing=(dim, first, end))
        return _View(base.number)

    def _results(self, index: int) -> list[fx.Node]:
        return [u for u in self.node.users if u.target is operator.getitem and u.args[1] == index]

    def _refusal(self, why: str, fix: str) -> MutationError:
        return MutationError(
            "An operator writes memory in a way that a graph cannot express",
            why=[f"schema: {self.overload._schema}", why],
            fix=fix,
            where=source_line(self.node),
        )

    # --- writing ---

    def expand(self, memory: Memory, copied: set[int]) -> None:
        """Replace the wrapper by copies of some bases and a call of the operator.

        Args:
            copied: Numbers of the bases to copy; the others are written themselves, and their results are gone.

        Raises:
            MutationError: The types that PyTorch promised for the results are wrong, or an argument that the operator
                only reads lies in a copied base as another dtype.
        """
        emitter = Emitter(memory, self.node)
        tensors = [b.node for b in self.bases]
        storages = {storage_of(fake(b.node)): b.number for b in self.bases if b.number in copied}
        originals = list(tensors)
        for base in self.bases:
            if base.number in copied:
                tensors[base.number] = emitter.copy(base.node, base.results)
        kwargs: dict[str, Any] = {}
        for name, value in self._plain.items():

            def seen(node: fx.Node, name: str = name) -> fx.Node:
                return self._plain_argument(emitter, name, node, storages, originals, tensors)

            kwargs[name] = fx.map_arg(value, seen)
        for name, view in self._views.items():
            kwargs[name] = (
                [self._argument(emitter, v, tensors) for v in view]
                if isinstance(view, list)
                else self._argument(emitter, view, tensors)
            )
        self._call(emitter, kwargs)
        for base in self.bases:
            reason = memory.rename(base.results, tensors[base.number], self.node) if base.number in copied else ""
            if reason:
                raise self._refusal(reason, f"Pass {base.argument}.clone().")
        for user in list(self.node.users):  # lists of written tensors (v1), empty by now
            if not user.users:
                memory.forget(user)
        assert not self.node.users, f"%{self.node.name} has results that nothing replaces: {list(self.node.users)}"
        memory.forget(self.node)

    def _argument(self, emitter: Emitter, view: _View | None, tensors: Sequence[fx.Node]) -> fx.Node | None:
        if view is None:
            return None
        base = tensors[view.base]
        if view.slicing is not None and not view.slices_storage:
            return emitter.call(aten.slice.Tensor, base, *view.slicing)
        if view.slicing is not None:
            dim, first, end = view.slicing
            size, stride = emitter.sizes(base), emitter.strides(base)
            size[dim] = emitter.computed(operator.sub, end, first)
            offset = emitter.computed(operator.mul, first, stride[dim])
        elif view.size is not None:
            size, stride, offset = view.size, view.stride, view.offset
        else:
            return base
        ahead = emitter.difference(offset, view.from_storage, self.bases[view.base].node)
        return emitter.place(base, size, stride, ahead)

    def _plain_argument(
        self,
        emitter: Emitter,
        name: str,
        value: fx.Node,
        copied: dict[Any, int],
        originals: Sequence[fx.Node],
        tensors: Sequence[fx.Node],
    ) -> fx.Node:
        """An argument that is only read; one that lies in the memory of a base sees the writes, as in eager mode."""
        number = copied.get(storage_of(fake(value)))
        if number is None:
            return value
        if value is originals[number]:
            return tensors[number]
        whole, part = fake(originals[number]), fake(value)
        if part.dtype != whole.dtype or part.is_conj() or part.is_neg():
            raise self._refusal(
                f"argument {name!r} lies in the memory of an argument that is written, as another dtype",
                f"Pass {name}.clone().",
            )
        base = tensors[number]
        offset = emitter.start(value, part.storage_offset())
        ahead = emitter.difference(offset, whole.storage_offset(), originals[number])
        return emitter.place(base, emitter.sizes(value), emitter.strides(value), ahead)

    def _call(self, emitter: Emitter, kwargs: dict[str, Any]) -> None:
        """The call of the operator, in the place of the wrapper."""
        node, schema = self.node, self.overload._schema
        args: list[Any] = []
        for argument in schema.arguments:  # positional, as far as they go
            if argument.kwarg_only or argument.name not in kwargs:
                break
            args.append(kwargs.pop(argument.name))
        returns = len(schema.returns)
        promised = tuple(fake(node) or ())[:returns]
        if returns and self._guessed:
            self._check_promise(emitter, args, kwargs, promised)
        val = None if not returns else promised[0] if returns == 1 else promised
        call = emitter.add(self.overload, tuple(args), kwargs, val)
        for user in list(node.users):
            if (
                user.target is not operator.getitem
                or not isinstance(user.args[1], int)
                or user.args[1] >= max(returns, 1)
            ):
                continue
            if returns == 1:
                emitter.memory.replace(user, call)
            elif returns:
                user.replace_input_with(node, call)

    def _check_promise(
        self, emitter: Emitter, args: Sequence[Any], kwargs: dict[str, Any], promised: Sequence[Any]
    ) -> None:
        values = fx.map_arg((list(args), kwargs), fake)
        made = emitter.memory.evaluate(self.overload, *values)
        made = made if isinstance(made, tuple) else (made,)
        if not all(map(same_type, made, promised)):
            raise MutationError(
                "PyTorch functionalizes a slice of an input wrongly",
                why=(
                    f"{self.overload} writes a slice of an input that begins inside its storage; PyTorch counts the "
                    "slice from the start of the storage, and so misjudges the shapes of the operator's results"
                ),
                fix="Call the compiled function with a clone() of that input.",
                where=source_line(self.node),
            )


@dataclass(slots=True)
class Emitter:
    """Adds nodes before a node, with its metadata."""

    memory: Memory
    before: fx.Node

    def add(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], val: Any) -> fx.Node:
        """Add a node whose fake value is known."""
        graph = self.before.graph
        with graph.inserting_before(self.before):
            node = graph.call_function(target, args, kwargs)
        node.meta = {**self.before.meta, "val": val}
        self.memory.add(node, self.memory.position(self.before))
        return node

    def call(self, target: Any, *args: Any, **kwargs: Any) -> fx.Node:
        """Add a node."""
        val = self.memory.evaluate(target, *fx.map_arg((args, kwargs), fake))
        return self.add(target, args, kwargs, val)

    def sizes(self, node: fx.Node) -> list[Any]:
        """The sizes of a tensor as FX arguments."""
        shape = fake(node).shape
        return [n if isinstance(n, int) else self.call(aten.sym_size.int, node, i) for i, n in enumerate(shape)]

    def strides(self, node: fx.Node) -> list[Any]:
        """Its strides likewise."""
        strides = fake(node).stride()
        return [n if isinstance(n, int) else self.call(aten.sym_stride.int, node, i) for i, n in enumerate(strides)]

    def computed(self, function: Callable[[Any, Any], Any], a: Any, b: Any) -> Any:
        """A number made of two others."""
        if isinstance(b, int) and b == 0 and function in (operator.add, operator.sub):
            return a
        return function(a, b) if isinstance(a, int) and isinstance(b, int) else self.call(function, a, b)

    def difference(self, offset: Any, start: Any, original: fx.Node) -> Any:
        """How far an offset is from a start, as an FX argument.

        Args:
            original: A tensor that begins at the start, if that is symbolic.
        """
        if (known := _torch_compat.known_int(fake(offset) - start)) is not None:
            return known
        if isinstance(start, int) or known_equal(start, fake(original).storage_offset()):
            return self.computed(operator.sub, offset, self.start(original, start))
        raise self.unknown_start()

    def place(self, base: fx.Node, size: Sequence[Any], stride: Sequence[Any], ahead: Any) -> fx.Node:
        """The view of a base that begins ``ahead`` elements behind the base's first one.

        No position is counted from the start of the storage: where an input begins in its storage may be another in
        each call, and nothing guards it.
        """
        whole = fake(base)
        if isinstance(ahead, int):
            for dim, (length, step) in enumerate(zip(whole.shape, whole.stride(), strict=True)):
                numbers = (length, step, *size, *stride)
                others = [i for i in range(whole.dim()) if i != dim]
                if (
                    all(isinstance(n, int) for n in numbers)
                    and step
                    and ahead % step == 0
                    and 0 <= ahead // step < length
                    and [*size] == [whole.shape[i] for i in others]
                    and [*stride] == [whole.stride(i) for i in others]
                ):
                    return self.call(aten.select.int, base, dim, ahead // step)
        if not isinstance(ahead, int) or (ahead and 0 not in size):
            flat = self.call(aten.as_strided.default, base, [self.computed(operator.add, ahead, 1)], [1])
            base = self.call(aten.slice.Tensor, flat, 0, ahead)
        return self.call(aten.as_strided.default, base, list(size), list(stride))

    def unknown_start(self) -> MutationError:
        """The error about a tensor whose place in its storage cannot be computed."""
        return MutationError(
            "An operator writes memory in a way that a graph cannot express",
            why="a tensor that is written begins at a symbolic position of its storage",
            fix="Call the compiled function with a clone() of it.",
            where=source_line(self.before),
        )

    def copy(self, node: fx.Node, results: Sequence[fx.Node]) -> fx.Node:
        """A copy in the same strides.

        Where something counts positions in the results, that become this copy, from the start of their storage, the
        copy begins where they do; else at the start.
        """
        value = fake(node)
        start: Any = 0
        if results and self.memory.counts_positions(results[0]):
            start = fake(results[0]).storage_offset()
        if (
            known_equal(start, 0)
            and is_dense(value)
            # Strides of axes of size 1 are not always kept.
            and same_type(self.memory.evaluate(aten.clone.default, (value,), {}), value)
        ):
            return self.call(aten.clone.default, node)
        if not isinstance(start, int):
            raise self.unknown_start()
        sizes, strides = self.sizes(node), self.strides(node)
        length: Any = 1
        for size, stride in zip(sizes, strides, strict=True):
            length = self.computed(operator.add, length, self._product(self.computed(operator.sub, size, 1), stride))
        flat = self.call(aten.as_strided.default, node, [0 if 0 in sizes else length], [1])
        if start:
            flat = self.call(aten.constant_pad_nd.default, flat, [start, 0])
            return self.call(aten.as_strided.default, flat, sizes, strides, start)
        flat = self.call(aten.clone.default, flat)
        return self.call(aten.as_strided.default, flat, sizes, strides)

    def _product(self, a: Any, b: Any) -> Any:
        return 0 if 0 in (a, b) else self.computed(operator.mul, a, b)

    def start(self, node: fx.Node, offset: Any) -> Any:
        """Where a tensor begins in its storage, as an FX argument."""
        return offset if isinstance(offset, int) else self.call(aten.sym_storage_offset.default, node)
