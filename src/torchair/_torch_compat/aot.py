"""AOTAutograd, decompositions and functionalization."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import fx

from torchair._torch_compat.operators import _DECOMPOSING_KEYS, has_python_decomposition, is_auto_functionalized_v2
from torchair._torch_compat.types import OpOverload

__all__ = [
    "aot_module_simplified",
    "aot_phase",
    "called_operators",
    "core_decompositions",
    "decompose_auto_functionalized",
    "disabled_autocast",
    "make_boxed",
    "outputs_made_from_inputs",
    "python_decompositions",
    "static_input_positions",
    "written_if_wrapper_is_empty",
]


def aot_module_simplified(gm: fx.GraphModule, inputs: Sequence[Any], **kwargs: Any) -> Callable[..., Any]:
    """AOTAutograd: see ``torch._functorch.aot_autograd.aot_module_simplified``."""
    from torch._functorch.aot_autograd import aot_module_simplified as aot

    compiled: Callable[..., Any] = aot(gm, inputs, **kwargs)
    return compiled


def make_boxed(function: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a function as taking one list of arguments (AOTAutograd then lets go of its own references)."""
    function._boxed_call = True  # type: ignore[attr-defined]
    return function


@functools.cache
def core_decompositions() -> Mapping[Any, Callable[..., Any]]:
    """PyTorch's table of decompositions into core ATen operators.

    Made once: since 2.6 PyTorch's object collects all composite operators when it is first read, in 50 ms.
    """
    from torch._decomp import core_aten_decompositions

    table: Any = core_aten_decompositions()
    return dict(table.items())


@contextlib.contextmanager
def python_decompositions(instead: Mapping[Any, Callable[[Any], Any] | None]) -> Iterator[None]:
    """While tracing, replace the Python kernels by which PyTorch decomposes operators below its tables.

    ``torch._decomp`` attaches such kernels to some operators (``upsample_nearest2d`` and its kind); tracing then never
    shows them, with or without a decomposition table. ``torch.export`` changes the same attributes for the same end.

    Args:
        instead: Operator to a function that makes a kernel from PyTorch's, or to None for no kernel. Operators that
            have none stay as they are.
    """
    composite, autograd = _DECOMPOSING_KEYS
    saved = {op: op.py_kernels for op in instead if has_python_decomposition(op)}
    _replaced_kernels.append(saved)
    try:
        for op, kernels in saved.items():
            op.py_kernels = {key: kernel for key, kernel in kernels.items() if key not in (composite, autograd)}
            if (make := instead[op]) is not None:
                op.py_kernels[composite] = make(kernels.get(composite) or kernels[autograd])
            op._dispatch_cache.clear()
        yield
    finally:
        _replaced_kernels.pop()
        for op, kernels in saved.items():
            op.py_kernels = kernels
            op._dispatch_cache.clear()


#: Kernels that :func:`python_decompositions` has replaced, a dict for each call that goes on.
_replaced_kernels: list[dict[Any, Any]] = []


@contextlib.contextmanager
def own_python_kernels() -> Iterator[None]:
    """PyTorch's kernels, also inside :func:`python_decompositions`.

    For what looks them up once and for all: Inductor's table of decompositions, when it is imported.
    """
    current = {op: op.py_kernels for saved in _replaced_kernels for op in saved}
    for saved in reversed(_replaced_kernels):
        for op, kernels in saved.items():
            op.py_kernels = kernels
    try:
        yield
    finally:
        for op, kernels in current.items():
            op.py_kernels = kernels


def outputs_made_from_inputs() -> frozenset[int]:
    """Positions of the outputs of the graph being compiled that AOTAutograd takes from an input, whatever they are.

    To be asked by the compiler of an inference or forward graph, while AOTAutograd calls it.
    """
    context = torch._guards.TracingContext.try_get()
    metadata = None if context is None else context.fw_metadata
    if metadata is None:
        return frozenset()
    first = len(metadata.tokens) + len(metadata.mutated_inp_runtime_indices)
    kinds = [info.output_type.name for info in metadata.output_info]
    return frozenset(first + i for i, kind in enumerate(kinds) if kind in ("is_input", "alias_of_input"))


def decompose_auto_functionalized(gm: fx.GraphModule, nodes: Iterable[fx.Node], fake_mode: Any) -> None:
    """Let PyTorch replace wrappers of mutating operators by copies of all that they write, and the operators.

    All wrappers in the graph must be among the nodes: before 2.13 PyTorch copies nothing where it was told nothing.
    """
    from torch._inductor.fx_passes.post_grad import decompose_auto_functionalized as decompose
    from torch._inductor.virtualized import V

    for node in nodes:
        if is_auto_functionalized_v2(node.target):
            bases: Any = node.kwargs.get("_all_bases") or ()
            node.meta["only_clone_these_tensors"] = list(range(len(bases)))
        else:
            op: Any = node.args[0]
            written = [a.name for a in op._schema.arguments if a.alias_info is not None and a.alias_info.is_write]
            node.meta["only_clone_these_tensors"] = written
    untyped: Any = decompose
    with V.set_fake_mode(fake_mode):
        untyped(gm.graph)


def called_operators(gm: fx.GraphModule) -> set[OpOverload]:
    """The operators that an FX graph calls, those that it calls in functional form too."""
    leaves = [leaf for node in gm.graph.nodes if node.op == "call_function" for leaf in (node.target, *node.args[:1])]
    return {leaf for leaf in leaves if isinstance(leaf, OpOverload)}


def disabled_autocast() -> Any:
    """A context in which operators run as they are called, without autocast."""
    return torch._C._DisableAutocast()


def static_input_positions() -> list[int]:
    """Which inputs of the graph that AOTAutograd is compiling are parameters and buffers; empty outside a compile."""
    context = torch._guards.TracingContext.try_get()
    metadata = getattr(context, "fw_metadata", None)
    return list(getattr(metadata, "static_input_indices", None) or ())


def aot_phase() -> str:
    """What AOTAutograd is compiling: ``"inference"``, ``"forward"``, ``"backward"``, ``"joint"``; empty outside it."""
    from torch._functorch._aot_autograd.logging_utils import get_aot_compilation_context

    graphs: list[str] = get_aot_compilation_context()[0]
    return graphs[-1].rpartition("_")[2] if graphs else ""  # "0_forward"


def written_if_wrapper_is_empty(graph: fx.GraphModule, original: fx.GraphModule) -> tuple[int, ...] | None:
    """What the wrapper around a graph that AOTAutograd is compiling has to do, if that is little.

    It then also switches autograd and autocast off, and looks at the results of the first call.

    Args:
        graph: The graph that it is compiling.
        original: Dynamo's graph.

    Returns:
        Numbers of the inputs whose versions it increments, since the graph writes them, where it otherwise only hands
        arguments and results on; None where it does more.
    """
    context = torch._guards.TracingContext.try_get()
    metadata = getattr(context, "fw_metadata", None)
    if metadata is None or aot_phase() != "inference" or not isinstance(original, fx.GraphModule):
        return None
    work = (
        metadata.tokens,
        metadata.mutated_inp_runtime_indices,
        metadata.num_outputs_aliased,
        metadata.num_intermediate_bases,
        metadata.dynamic_outputs,
        metadata.is_rng_op_functionalized,
        metadata.grad_enabled_mutation is not None,
        any(
            type(meta).__name__ == "SubclassCreationMeta"
            for meta in (*metadata.subclass_inp_meta, *metadata.subclass_fw_graph_out_meta)
        ),
    )
    if any(work) or _arity(graph) != _arity(original):  # parameters are passed, and each input once
        return None
    return tuple(metadata.mutated_graph_handled_indices_seen_by_autograd)


def _arity(gm: fx.GraphModule) -> tuple[int, int]:
    """Number of inputs, and of outputs."""
    (outputs,) = next(n for n in gm.graph.nodes if n.op == "output").args
    return len(list(gm.graph.find_nodes(op="placeholder"))), len(outputs) if isinstance(outputs, list | tuple) else -1
