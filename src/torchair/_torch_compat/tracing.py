"""Functions traced to functional FX graphs, writes kept in the order that Inductor needs."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import fx

from torchair._torch_compat.aot import disabled_autocast
from torchair._torch_compat.calls import no_dispatch_modes
from torchair._torch_compat.extension import torch_version
from torchair._torch_compat.operators import is_auto_functionalized_v1, is_auto_functionalized_v2
from torchair._torch_compat.symbols import known_true
from torchair._torch_compat.tensors import storage_id
from torchair._torch_compat.types import OpOverload

__all__ = [
    "functional_trace",
    "graph_module",
    "trace_functional",
    "trace_length",
    "traced_nodes",
]


def graph_module(root: torch.nn.Module, graph: fx.Graph) -> fx.GraphModule:
    """A module for a graph, whose Python code is written when somebody calls or reads it: most are only edited."""
    from torch.fx._lazy_graph_module import _LazyGraphModule

    return _LazyGraphModule(root, graph)


# --- Inductor ----------------------------------------------------------------------------------------------------


def functional_trace(
    program: Callable[..., tuple[Sequence[Any], Mapping[int, Any]]],
    inputs: Sequence[Any],
    fake_mode: Any,
    decompositions: Mapping[Any, Callable[..., Any]],
) -> fx.GraphModule:
    """Trace a program into an FX graph that writes nothing, but for ``copy_`` into inputs at its end.

    AOTAutograd does the same for inference graphs; its further layers (metadata, aliases of outputs, synthetic bases)
    have already been applied to a graph that comes from it, and would cost time on every call.

    Args:
        program: Takes the inputs and returns ``(outputs, updates)``: tensors and numbers, and new values of inputs by
            position. It may also write inputs and views of them.
        inputs: Fake tensors and (symbolic) numbers.
        decompositions: Operator overloads to functions.
    """
    from torch._dispatch.python import enable_python_dispatcher
    from torch._subclasses.functional_tensor import FunctionalTensor, FunctionalTensorMode
    from torch.fx._lazy_graph_module import _use_lazy_graph_module
    from torch.fx.experimental.proxy_tensor import make_fx

    def plain(value: Any) -> Any:
        if not isinstance(value, FunctionalTensor):
            return value
        torch._sync(value)  # type: ignore[attr-defined, no-untyped-call]
        return torch._from_functional_tensor(value.elem)

    def traced(*args: Any) -> list[Any]:
        with FunctionalTensorMode():
            wrapped = [FunctionalTensor.to_functional(a) if isinstance(a, torch.Tensor) else a for a in args]
            outputs, updates = program(*wrapped)
            results = [plain(output) for output in outputs]
            new = {i: after for i, w in enumerate(wrapped) if (after := plain(w)) is not args[i]}
            new.update((i, plain(value)) for i, value in updates.items())
        written = {storage_id(args[i]) for i in new}
        # A value that lies in the memory of a written input is saved before any is written.
        saved = {
            i: value.clone() if value is not args[i] and storage_id(value) in written else value
            for i, value in new.items()
        }
        for i, value in saved.items():
            if value is not args[i]:
                torch.ops.aten.copy_.default(args[i], value)
        return results

    with disabled_autocast(), torch.no_grad(), no_dispatch_modes(), fake_mode, enable_python_dispatcher():
        plain_inputs = [i.detach() if isinstance(i, torch.Tensor) and i.requires_grad else i for i in inputs]
        with _use_lazy_graph_module(True):
            return make_fx(traced, decomposition_table=dict(decompositions))(*plain_inputs)


def trace_functional(
    program: Callable[..., tuple[Sequence[Any], Mapping[int, Any]]],
    inputs: Sequence[Any],
    fake_mode: Any,
    decompositions: Mapping[Any, Callable[..., Any]],
) -> tuple[fx.GraphModule, dict[int, int]]:
    """Trace a program as :func:`functional_trace` does, and work around what Inductor gets wrong.

    Returns:
        The module, and the numbers of results that must be copied into an input after it ran, by the number of the
        input. The module returns the program's outputs, then such results and others that must exist beside the inputs.
    """
    gm = functional_trace(program, inputs, fake_mode, decompositions)
    late = {} if _inductor_orders_writes() else _take_out_copies(gm)
    _protect_copies(gm, fake_mode)
    return gm, late


def _inductor_orders_writes() -> bool:
    """Whether Inductor fuses no write of an input with a read of its other elements.

    2.6 does: ``z[1:].copy_(z[:-1].clone())`` on an argument goes wrong with ``torch.compile``. 2.13 does not; versions
    between the two were not tried.
    """
    return torch_version() >= (2, 13)


def _take_out_copies(gm: fx.GraphModule) -> dict[int, int]:
    """Return new values of inputs instead of writing them, for inputs that something reads that may be fused.

    Returns:
        The number of the result that goes into an input afterwards, by the number of the input.
    """
    aten = torch.ops.aten
    writers = (aten.copy_.default, aten.index_put.default, aten.scatter.src, aten.index_copy.default)
    output = gm.graph.output_node()
    results: Any = list(output.args[0])  # type: ignore[arg-type]
    late = {}
    for number, placeholder in enumerate(list(gm.graph.find_nodes(op="placeholder"))):
        copies = [u for u in placeholder.users if u.target is aten.copy_.default and u.args[0] is placeholder]
        fused = any(
            not (u.target in writers and u.args[0] is placeholder) and not is_auto_functionalized_v2(u.target)
            for u in placeholder.users
        )
        if copies and fused:
            (copy,) = copies
            late[number] = len(results)
            results.append(copy.args[1])
            gm.graph.erase_node(copy)
    output.args = (results,)
    return late


@functools.cache
def _protected_copy() -> OpOverload:
    """``torchair_ir::copy``: a clone that the passes over FX graphs do not know; compiled just as a clone is."""
    from torch._inductor.lowering import clone, register_lowering

    library: Any = torch.library.Library("torchair_ir", "FRAGMENT")  # type: ignore[no-untyped-call]
    library.define("copy(Tensor x) -> Tensor", tags=(torch.Tag.pt2_compliant_tag,))
    library.impl("copy", torch.clone, "CompositeExplicitAutograd")
    torch.library.register_fake("torchair_ir::copy", torch.clone, lib=library)
    _libraries.append(library)
    overload: OpOverload = torch.ops.torchair_ir.copy.default
    register_lowering(overload, type_promotion_kind=None)(lambda x: clone(x))
    return overload


_libraries: list[Any] = []


def _protect_copies(gm: fx.GraphModule, fake_mode: Any) -> None:
    """Keep Inductor from taking away the copies that protect memory from a later write.

    Its pass ``remove_noop_ops`` replaces a clone (also a ``cat`` of one tensor, and whatever else copies) by what was
    cloned. A later pass lets an operator write into that memory although the same operator reads the copy: with
    ``torch.compile``, ``x.index_add_(0, i, x.clone())`` and swapping two inputs go wrong. A copy that is no more than
    the operand that an operator writes is left to these passes: they make the operator write in place.
    """
    copies = _Copies(gm)
    for node in list(gm.graph.nodes):
        copies.see(node)
    for node in copies.endangered():
        with gm.graph.inserting_after(node):
            protected = gm.graph.call_function(_protected_copy(), (node,))
        with fake_mode:
            protected.meta = {**node.meta, "val": torch.clone(node.meta["val"])}
        for user in [user for user in node.users if user is not protected]:
            user.replace_input_with(node, protected)
    gm.recompile()


class _Copies:
    """Which nodes of a functional graph are copies that Inductor may take away, and what is written."""

    def __init__(self, gm: fx.GraphModule) -> None:
        from torch._inductor.fx_passes.post_grad import noop_registry
        from torch._inductor.fx_passes.reinplace import inplaceable_ops

        self._noops: Any = noop_registry
        self._inplaceable: Any = inplaceable_ops
        self._copies: list[fx.Node] = []
        #: For nodes that are copies or views: the node whose memory they are without the copies.
        self._roots: dict[fx.Node, fx.Node] = {}
        self._written: set[fx.Node] = set()

    def see(self, node: fx.Node) -> None:
        """Take in the next node of the graph."""
        source = self._source(node)
        self._roots[node] = self._roots[source] if source is not None else node
        if source is not None and not _shares_memory(node, source) and self._may_vanish(node):
            self._copies.append(node)
        self._written.update(self._roots[base] for base in self._bases(node))

    def endangered(self) -> list[fx.Node]:
        """The copies, of memory that is written, that something reads, or whose source begins inside its storage.

        Inductor finds an operator's argument in what was copied by its position in the storage: with ``torch.compile``,
        ``c = x[1].clone(); op_(c[1:])`` writes and returns another row.
        """
        written = [c for c in self._copies if self._roots[c] in self._written]
        return [c for c in written if not self._only_written(c) or self._begins_inside(c)]

    def _begins_inside(self, copy: fx.Node) -> bool:
        source = self._source(copy)
        offset: Any = 0 if source is None else source.meta["val"].storage_offset()
        return not (isinstance(offset, int) and offset == 0)

    def _source(self, node: fx.Node) -> fx.Node | None:
        """What a node hands on unchanged, or as a view."""
        if node.op != "call_function" or not node.args:
            return None
        source: Any = node.args[0]
        if node.target in self._noops:
            index: Any = self._noops[node.target][1]
            source = node.args[index] if isinstance(index, int) else index(node.args)
        elif not (isinstance(source, fx.Node) and _shares_memory(node, source)):
            return None
        return source if isinstance(source, fx.Node) and isinstance(node.meta.get("val"), torch.Tensor) else None

    def _may_vanish(self, node: fx.Node) -> bool:
        """Whether a node is of the very type of one that it comes from, perhaps by conversions there and back."""
        source = self._source(node)
        while source is not None:
            if _same_type(node, source):
                return True
            source = self._source(source)
        return False

    def _bases(self, node: fx.Node) -> list[fx.Node]:
        """What an operator writes, or could write if it ran in place."""
        if node.op != "call_function":
            return []
        bases: Any
        if is_auto_functionalized_v2(node.target):
            bases = node.kwargs["_all_bases"]
        elif is_auto_functionalized_v1(node.target):
            op: Any = node.args[0]
            bases = [node.kwargs.get(a.name) for a in op._schema.arguments if a.alias_info and a.alias_info.is_write]
        else:
            writes = node.target in self._inplaceable or "_scatter" in str(node.target)
            bases = node.args[:1] if writes or node.target is torch.ops.aten.copy_.default else ()
        found: list[fx.Node] = []
        fx.map_arg(bases, found.append)
        return found

    def _only_written(self, copy: fx.Node) -> bool:
        for user in copy.users:
            if self._source(user) is copy:
                if not self._only_written(user):
                    return False
                continue
            if copy not in self._bases(user):
                return False
            operands: list[fx.Node] = []
            fx.map_arg((user.args, user.kwargs), operands.append)
            if sum(self._roots[operand] is self._roots[copy] for operand in operands) > 1:
                return False
        return True


def _shares_memory(node: fx.Node, other: fx.Node) -> bool:
    a, b = node.meta.get("val"), other.meta.get("val")
    return isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor) and storage_id(a) == storage_id(b)


def _same_type(node: fx.Node, other: fx.Node) -> bool:
    a, b = node.meta.get("val"), other.meta.get("val")
    if not (isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor)):
        return False
    numbers = zip((*a.shape, *a.stride()), (*b.shape, *b.stride()), strict=False)
    return a.dtype == b.dtype and a.dim() == b.dim() and all(known_true(m == n) for m, n in numbers)


def traced_nodes(position: int = 0) -> list[fx.Node]:
    """The nodes that the trace that runs has made, from the one of a number on, in order.

    Call it inside a program of :func:`functional_trace`.
    """
    from torch.fx.experimental.proxy_tensor import get_proxy_mode

    mode = get_proxy_mode()
    assert mode is not None, "nothing is traced"
    nodes: Any = mode.tracer.graph.nodes
    return list(itertools.islice(reversed(nodes), len(nodes) - position))[::-1]


def trace_length() -> int:
    """How many nodes the trace that runs has made."""
    from torch.fx.experimental.proxy_tensor import get_proxy_mode

    mode = get_proxy_mode()
    return 0 if mode is None else len(mode.tracer.graph.nodes)
