"""Mutating custom operators: expands PyTorch's automatic functionalization (v1 and v2) into Ascend IR.

AOTAutograd wraps a mutating operator so that the FX graph stays functional. Here each base becomes a copy
(``TensorMove``), each argument a view of its base again, the operator's own converter runs on them, and what it wrote
through a view goes back into the base (``ViewCopy``). A pass later drops the copies that protect nothing, so a KV-cache
update stays in place.

All positions are counted from the first element of the base: where a tensor begins in its storage may differ between
FX and an engine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import fx

from torchair import _torch_compat
from torchair._torch_compat import OpOverload
from torchair.convert import torch_calls
from torchair.convert.results import flatten
from torchair.convert.schemas import OperatorSchema
from torchair.errors import MutationError
from torchair.ir import Node, Value
from torchair.opset.memory import AsStrided, TensorMove, ViewCopy
from torchair.opset.torch_types import dim_of

if TYPE_CHECKING:
    from torchair.convert.driver import Driver

__all__ = ["convert", "matches"]


def matches(node: fx.Node) -> bool:
    """True for PyTorch's functionalization wrappers."""
    return _torch_compat.is_auto_functionalized_v1(node.target) or _torch_compat.is_auto_functionalized_v2(node.target)


@dataclass(frozen=True, slots=True)
class _View:
    """An argument that lies in the memory of a base.

    Attributes:
        base: Number of the base.
        geometry: Sizes, strides and position in it; None for the base itself.
    """

    base: int
    geometry: tuple[Sequence[Any], Sequence[Any], Any] | None = None


@dataclass(slots=True)
class _Wrapped:
    """What a wrapper says about the call of the operator in it.

    Attributes:
        bases: The tensors whose memory is written, as FX arguments; None for an absent one.
        views: For each written argument where it lies (a list of these for a list of tensors, None for an absent one).
        plain: The other arguments by name, as FX arguments.
        buffers: Written arguments that are only filled (``out=``): made from size, stride, dtype and device.
    """

    bases: list[Any] = field(default_factory=list)
    views: dict[str, Any] = field(default_factory=dict)
    plain: dict[str, Any] = field(default_factory=dict)
    buffers: dict[str, tuple[Any, Any, Any, Any]] = field(default_factory=dict)


def convert(driver: Driver, node: fx.Node) -> Any:
    """Convert a wrapped call.

    Returns:
        The operator's results, then the new value of each base (v2) or of each written argument (v1).

    Raises:
        MutationError: The operator is not an overload, its arguments share memory in a way that the graph cannot
            express, or its converter does not write an argument that it should.
    """
    overload = node.args[0]
    if not isinstance(overload, OpOverload):
        raise MutationError(
            "A higher-order operator that writes its arguments has no Ascend IR form",
            why=str(overload),
            fix="Keep it out of the compiled region with a graph break.",
            where=driver.builder.origin.source,
        )
    schema = OperatorSchema.of(overload)
    if _torch_compat.is_auto_functionalized_v2(node.target):
        _refuse_unknown_positions(driver, schema, node)
        wrapped = _read_v2(schema, node)
        _refuse_truncated_slices(driver, schema, node)
    else:
        wrapped = _read_v1(driver, schema, node)
    return _Expansion(driver, node, schema, wrapped).run()


def _refuse_unknown_positions(driver: Driver, schema: OperatorSchema, node: fx.Node) -> None:
    """Where PyTorch does not tell what the position of a written view in its base was counted from.

    It describes a view of an input that was written before as one of the input's new value, and before 2.13 may count
    from where the input began in its storage. Nothing in the graph says so, so every base that may be such a new value
    is taken for one.

    Raises:
        MutationError: An argument is such a view.
    """
    if _torch_compat.positions_survive_writes():
        return
    bases: Any = node.kwargs["_all_bases"]
    inputs = [_meta(n) for n in node.graph.find_nodes(op="placeholder")]
    inside = [t for t in inputs if _is_strided(t) and not _torch_compat.known_true(t.storage_offset() == 0)]
    for key in node.kwargs:
        prefix = key.removesuffix("_storage_offset").removesuffix("_slice_dim")
        if prefix == key:
            continue
        base = bases[node.kwargs[f"{prefix}_base_index"]]
        if base.op != "placeholder" and any(_may_be_new_value(_meta(base), t) for t in inside):
            (name,) = (a.name for a in schema.written if _belongs(prefix, a.name, a.is_list))
            raise MutationError(
                "An operator writes memory in a way that a graph cannot express",
                why=[
                    f"schema: {schema.overload._schema}",
                    (
                        f"it writes {name!r}, a view of a tensor that may be an input which begins inside its storage "
                        "and was written before; PyTorch before 2.13 may have counted the position of the view from "
                        "another place"
                    ),
                ],
                fix=f"Call the compiled function with a clone() of what {name} is a view of.",
                where=driver.builder.origin.source,
            )


def _belongs(prefix: str, name: str, is_list: bool) -> bool:
    """Whether keywords with this prefix describe an argument, or an item of it."""
    return prefix == f"_{name}" or (is_list and prefix.rpartition("_")[0] == f"_{name}")


def _is_strided(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.layout is torch.strided


def _may_be_new_value(value: torch.Tensor, old: torch.Tensor) -> bool:
    """Whether a tensor may be what another one is after a write: of the same dtype and sizes, as far as is known."""
    if value.dtype != old.dtype or value.dim() != old.dim():
        return False
    return not any(_torch_compat.known_true(a != b) for a, b in zip(value.shape, old.shape, strict=True))


def _refuse_truncated_slices(driver: Driver, schema: OperatorSchema, node: fx.Node) -> None:
    """Where PyTorch counts a slice from the wrong place, it may end behind its base; then the results' types are wrong.

    Raises:
        MutationError: The operator has results, and an argument is such a slice.
    """
    bases: Any = node.kwargs["_all_bases"]
    for argument in schema.written if schema.returns else ():
        for prefix in [key.removesuffix("_slice_end") for key in node.kwargs if key.endswith("_slice_end")]:
            if prefix != f"_{argument.name}" and not prefix.startswith(f"_{argument.name}_"):
                continue
            dim, end = (_meta(node.kwargs[f"{prefix}_slice_{part}"]) for part in ("dim", "end"))
            size = _meta(bases[node.kwargs[f"{prefix}_base_index"]]).shape[dim]
            if _torch_compat.known_true(end > size):
                raise MutationError(
                    "PyTorch functionalizes a slice of an input wrongly",
                    why=(
                        f"{schema.overload} writes the argument {argument.name!r}, a slice of an input that begins "
                        "inside its storage; PyTorch counts the slice from the start of the storage, and so misjudges "
                        "the shapes of the operator's results"
                    ),
                    fix="Call the compiled function with a clone() of that input.",
                    where=driver.builder.origin.source,
                )


@dataclass(slots=True)
class _Expansion:
    """One wrapped call on its way into the IR.

    Attributes:
        copies: For each base its copy, later its new value.
        written: Each written argument with its name, where it lies, and its value before the call.
    """

    driver: Driver
    node: fx.Node
    schema: OperatorSchema
    wrapped: _Wrapped
    copies: list[Value | None] = field(default_factory=list)
    written: list[tuple[str, _View | None, Value]] = field(default_factory=list)

    def run(self) -> Any:
        driver, node = self.driver, self.node
        returns = len(self.schema.returned_arguments)
        val = node.meta.get("val")
        promised = list(val) if isinstance(val, list | tuple) else [val]
        results_val = promised[0] if returns == 1 else tuple(promised[:returns]) if returns else None
        self._refuse_returned_memory(promised[:returns], promised[returns:])
        self.copies = [self._copy(base) for base in self.wrapped.bases]
        kwargs: dict[str, Any] = {name: self._plain(name, value) for name, value in self.wrapped.plain.items()}
        for name, entry in self.wrapped.views.items():
            kwargs[name] = [self._view(name, v) for v in entry] if isinstance(entry, list) else self._view(name, entry)
        for name, buffer in self.wrapped.buffers.items():
            kwargs[name] = self._buffer(name, *buffer)
        start = len(driver.builder.added)
        results = driver.convert_overload(node, self.schema.overload, (), kwargs, results_val, call=self._plain_call)
        self._write_back(driver.builder.added[start:])
        if self.wrapped.buffers:  # the results are the buffers, and the wrapper returns nothing else
            return results
        leading = tuple(results) if returns > 1 else (results,)
        if _torch_compat.is_auto_functionalized_v2(node.target):
            return (*leading, *self.copies)
        return (*leading, *(self._new_values(self.wrapped.views[a.name]) for a in self.schema.written))

    def _new_values(self, entry: Any) -> Any:
        if isinstance(entry, list):
            return [self._new_values(v) for v in entry]
        return None if entry is None else self.copies[entry.base]

    # --- arguments ---

    def _copy(self, base: Any) -> Value | None:
        if base is None:
            return None
        copy: Value = TensorMove(self.driver.lower_args(base))
        # Positions in the copy are computed with eager's strides, so the copy has to have them.
        assert copy.producer is not None
        copy.producer.operand_strides = (tuple(dim_of(s) for s in _meta(base).stride()),)
        return copy

    def _view(self, name: str, view: _View | None) -> Value | None:
        if view is None:
            return None
        base = self.copies[view.base]
        assert base is not None
        value = base if view.geometry is None else self._as_strided(base, view.geometry)
        self.written.append((name, view, value))
        return value

    def _plain(self, name: str, value: Any) -> Any:
        """An argument that is only read; one that lies in the memory of a base sees the writes, as in eager mode."""
        if isinstance(value, list | tuple):
            return [self._plain(name, v) for v in value]
        meta = _meta(value) if isinstance(value, fx.Node) else None
        if isinstance(meta, torch.Tensor) and meta.layout is torch.strided:
            for number, base in enumerate(self.wrapped.bases):
                if base is not None and _torch_compat.storage_id(_meta(base)) == _torch_compat.storage_id(meta):
                    copy, whole = self.copies[number], _meta(base)
                    assert copy is not None
                    if value is base:
                        return copy
                    if meta.dtype != whole.dtype or meta.is_conj() or meta.is_neg():
                        raise self._refusal(
                            f"argument {name!r} lies in the memory of an argument that is written, as another dtype",
                            f"Pass {name}.clone().",
                        )
                    offset = meta.storage_offset() - whole.storage_offset()
                    return self._as_strided(copy, (list(meta.shape), list(meta.stride()), offset))
        return self.driver.lower_args(value)

    def _buffer(self, name: str, size: Any, stride: Any, dtype: torch.dtype, device: torch.device) -> Value:
        empty = torch.ops.aten.empty_strided.default
        with self.driver.builder.types.fake_mode:
            meta = torch.empty_strided(_numbers(size), _numbers(stride), dtype=dtype, device=device)
        kwargs = {"dtype": dtype, "device": device}
        value: Value = torch_calls.convert(self.driver, self.node, empty, (size, stride), kwargs, meta)
        self.written.append((name, None, value))
        return value

    def _as_strided(self, base: Value, geometry: tuple[Sequence[Any], Sequence[Any], Any]) -> Value:
        view: Value = AsStrided(base, *self._geometry(geometry))
        return view

    def _geometry(self, geometry: tuple[Sequence[Any], Sequence[Any], Any]) -> tuple[Value, Value, Value]:
        size, stride, offset = (self.driver.lower_args(g) for g in geometry)
        host = self.driver.builder.host_ints
        return host(size), host(stride), host([offset])

    def _plain_call(self) -> fx.Node:
        """The call as FX would write it without the wrapper, for ``supports=`` of converters."""
        graph = fx.Graph()
        bases = self.wrapped.bases

        def stand_in(value: Any) -> Any:
            if isinstance(value, list | tuple):
                return [stand_in(v) for v in value]
            if isinstance(value, _View):
                with self.driver.builder.types.fake_mode:
                    base = _meta(bases[value.base])
                    meta = base
                    if value.geometry is not None:
                        size, stride, offset = value.geometry
                        meta = torch.as_strided(base, size, stride, offset + base.storage_offset())
            elif isinstance(value, fx.Node):
                meta = _meta(value)
            else:
                return value
            node = graph.placeholder(f"arg{len(graph.nodes)}")
            node.meta["val"] = meta
            return node

        given = {**self.wrapped.plain, **self.wrapped.views}
        return graph.call_function(self.schema.overload, (), {name: stand_in(v) for name, v in given.items()})

    # --- results ---

    def _write_back(self, added: Sequence[Node]) -> None:
        for name, view, value in self.written:
            new = _last_write(added, value)
            if new is value:
                raise self._not_written(name)
            if view is None:
                continue
            if view.geometry is None:
                self.copies[view.base] = new
            else:
                geometry = self._geometry(view.geometry)
                self.copies[view.base] = ViewCopy(self.copies[view.base], *geometry, new, *geometry)

    def _not_written(self, name: str) -> MutationError:
        return MutationError(
            "A converter does not write an argument that its operator writes",
            why=(
                f"{self.schema.overload} writes {name!r} (its schema says so), and no node that its converter added "
                f"has an output named like the input that {name!r} went into"
            ),
            fix=(
                "Use an Ascend IR operator whose prototype lists the written input also as an output:\n\n"
                f'torchair.ge.declare_op("MyOp", inputs=["{name}"], outputs=["{name}"])\n\n'
                f"or write a new value of it: torchair.ge.Assign({name}, new_value)"
            ),
            where=self.driver.builder.origin.source,
        )

    def _refuse_returned_memory(self, results: Sequence[Any], bases: Sequence[Any]) -> None:
        """An operator whose result is one of the arguments that it writes, and whose schema does not say so."""
        written = {_torch_compat.storage_id(b) for b in flatten(list(bases)) if isinstance(b, torch.Tensor)}
        for number, (result, argument) in enumerate(zip(results, self.schema.returned_arguments, strict=True)):
            if argument is None and any(
                isinstance(r, torch.Tensor) and _torch_compat.storage_id(r) in written for r in flatten(result)
            ):
                raise self._refusal(
                    f"result {number} lies in the memory of an argument that it writes "
                    f"({', '.join(a.name for a in self.schema.written)})",
                    "An operator must not return what it writes: return nothing, or a tensor of its own.",
                )

    def _refusal(self, why: str, fix: str) -> MutationError:
        return MutationError(
            "An operator writes memory in a way that a graph cannot express",
            why=[f"schema: {self.schema.overload._schema}", why],
            fix=fix,
            where=self.driver.builder.origin.source,
        )


def _last_write(added: Sequence[Node], value: Value) -> Value:
    """The value of an argument after the last node that writes it; the argument itself when none does."""
    for node in added:
        operands = node.operands
        for output, operand in node.writes:
            if operands[operand] is value:
                value = node.outputs[output]
                break
    return value


# --- reading the wrappers ---


def _read_v1(driver: Driver, schema: OperatorSchema, node: fx.Node) -> _Wrapped:
    """Every written tensor is its own base."""
    wrapped = _Wrapped(plain={k: v for k, v in node.kwargs.items() if not k.startswith("_only_clone")})
    storages: dict[int, str] = {}
    for argument in schema.written:
        given = wrapped.plain.pop(argument.name, None)
        items = list(given) if isinstance(given, list | tuple) else [given]
        views: list[_View | None] = []
        for item in items:
            views.append(None if item is None else _View(len(wrapped.bases)))
            if item is not None:
                wrapped.bases.append(item)
                first = storages.setdefault(_torch_compat.storage_id(_meta(item)), argument.name)
                if len(storages) < len(wrapped.bases):
                    raise MutationError(
                        "An operator writes memory in a way that a graph cannot express",
                        why=[
                            f"schema: {schema.overload._schema}",
                            f"the written arguments {first!r} and {argument.name!r} share memory",
                            "PyTorch's first version of automatic functionalization does not tell how",
                        ],
                        fix="torch._inductor.config.enable_auto_functionalized_v2 = True",
                        where=driver.builder.origin.source,
                    )
        wrapped.views[argument.name] = views if isinstance(given, list | tuple) else views[0]
    return wrapped


def _read_v2(schema: OperatorSchema, node: fx.Node) -> _Wrapped:
    """Arguments are views of ``_all_bases``, as ``_x_base_index`` with ``_x_size`` ... or ``_x_slice_dim`` ..."""
    kwargs: dict[str, Any] = dict(node.kwargs)
    wrapped = _Wrapped(bases=list(kwargs.pop("_all_bases")))
    kwargs.pop("_only_clone_these_bases", None)
    for argument in schema.written:
        name = argument.name
        if f"_{name}_dtype" in kwargs:
            size, stride, dtype, device = (
                kwargs.pop(f"_{name}_{part}") for part in ("size", "stride", "dtype", "device")
            )
            wrapped.buffers[name] = (size, stride, dtype, device)
        elif argument.is_list:
            length = kwargs.pop(f"_{name}_length")
            views = (
                None if length is None else [_read_view(kwargs, f"_{name}_{i}", wrapped.bases) for i in range(length)]
            )
            wrapped.views[name] = views
        else:
            wrapped.views[name] = _read_view(kwargs, f"_{name}", wrapped.bases)
    wrapped.plain = kwargs
    return wrapped


def _read_view(kwargs: dict[str, Any], prefix: str, bases: Sequence[Any]) -> _View | None:
    index = kwargs.pop(f"{prefix}_base_index")
    if index is None:
        return None
    kwargs.pop(f"{prefix}_alias", None)
    base = _meta(bases[index])
    if f"{prefix}_storage_offset" in kwargs:
        size, stride, offset = (_meta(kwargs.pop(f"{prefix}_{part}")) for part in ("size", "stride", "storage_offset"))
        return _View(index, ([_meta(s) for s in size], [_meta(s) for s in stride], offset - base.storage_offset()))
    if f"{prefix}_slice_dim" in kwargs:
        dim, start, end = (_meta(kwargs.pop(f"{prefix}_slice_{part}")) for part in ("dim", "start", "end"))
        size = list(base.shape)
        size[dim] = end - start
        offset = start * base.stride()[dim]
        if _torch_compat.slices_count_from_storage():
            offset -= base.storage_offset()
        return _View(index, (size, list(base.stride()), offset))
    return _View(index)


def _meta(value: Any) -> Any:
    """What an FX node stands for: a fake tensor, or a symbolic number (geometry is arithmetic on symbols)."""
    return value.meta["val"] if isinstance(value, fx.Node) else value


def _numbers(values: Sequence[Any]) -> list[Any]:
    return [_meta(v) for v in values]
