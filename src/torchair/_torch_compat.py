"""The only module that imports private names of torch; each is explained, with a fallback where versions differ.

Supported: torch 2.6 and later. Tests: ``tests/test_torch_compat.py``.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import inspect
import re
import types
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import fx

__all__ = [
    "HigherOrderOperator",
    "PatternMatcher",
    "default_pattern_trace",
    "outside_of_compiles",
    "pattern_of",
    "trace_pattern",
    "decompose_auto_functionalized",
    "dynamo_traces_guard_scalar",
    "fake_evaluation",
    "outputs_made_from_inputs",
    "fake_calls",
    "storage_copy",
    "overload_names",
    "has_fake_kernel",
    "has_kernel",
    "find_packet",
    "register_ordered_effect",
    "find_overload",
    "intercepting_calls",
    "flatten_call",
    "fake_modes",
    "flash_attention_groups_heads",
    "lacks_fake_kernel",
    "dynamo_source_name",
    "is_builtin",
    "is_functionalized_by_kernel",
    "called_operators",
    "can_auto_functionalize",
    "OpOverload",
    "OpOverloadPacket",
    "aot_module_simplified",
    "compile_lock",
    "core_decompositions",
    "create_size_symbol",
    "detect_fake_mode",
    "disabled_autocast",
    "inductor_compile",
    "inductor_decompositions",
    "inductor_keeps_strides",
    "inductor_option_names",
    "inductor_settings",
    "is_fake",
    "is_auto_functionalized_v1",
    "is_auto_functionalized_v2",
    "is_composite",
    "is_run_and_save_rng_state",
    "is_run_with_rng_state",
    "is_with_effects",
    "known_int",
    "known_true",
    "make_boxed",
    "new_fake_mode",
    "new_guards",
    "no_dispatch_modes",
    "pytree",
    "python_decompositions",
    "required_storage_length",
    "settled_number",
    "size_hint",
    "slices_count_from_storage",
    "storage_id",
    "strides_tag",
    "symbolic_number",
    "functional_trace",
    "trace_functional",
    "traced_data_dependence",
    "without_alias_check",
    "copy_all",
    "end_failed_capture",
    "storage_over",
]


#: Trees of Python containers, and their leaves; public as ``torch.utils.pytree`` from 2.9 on, with other functions.
pytree = torch.utils._pytree

#: One overload of an operator, ``torch.ops.aten.add.Tensor``, and all of them, ``torch.ops.aten.add``.
OpOverload = torch._ops.OpOverload
OpOverloadPacket = torch._ops.OpOverloadPacket

#: An operator that takes functions or other operators, such as PyTorch's wrappers of operators that write.
HigherOrderOperator = torch._ops.HigherOrderOperator


def detect_fake_mode(inputs: Sequence[Any]) -> Any:
    """The ``FakeTensorMode`` of a compile in progress (or of the inputs), or None."""
    from torch._guards import detect_fake_mode as detect

    return detect(inputs)


def is_fake(tensor: torch.Tensor) -> bool:
    """Whether a tensor is fake: has a type, and no data."""
    from torch._subclasses.fake_tensor import FakeTensor

    return isinstance(tensor, FakeTensor)


def new_fake_mode() -> Any:
    """A ``FakeTensorMode`` with symbolic sizes, for graphs that do not come from Dynamo."""
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

    return FakeTensorMode(shape_env=ShapeEnv(), allow_non_fake_inputs=True)


def symbolic_number(fake_mode: Any, expr: Any, pytype: type = int) -> Any:
    """A ``SymInt``/``SymFloat``/``SymBool`` for an expression over the symbols of the mode's shape environment."""
    env = fake_mode.shape_env
    if pytype is bool:
        return env.create_symboolnode(expr)
    if pytype is float:
        return env.create_symfloatnode(expr, hint=None)
    return env.create_symintnode(expr, hint=None)


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


def is_composite(op: Any) -> bool:
    """True for operators that PyTorch itself takes apart before any backend sees them (CompositeImplicitAutograd)."""
    return bool(op._can_decompose())


_DECOMPOSING_KEYS = (torch._C.DispatchKey.CompositeImplicitAutograd, torch._C.DispatchKey.Autograd)


def has_python_decomposition(op: Any) -> bool:
    """Whether PyTorch decomposes an operator by a Python kernel; see :func:`python_decompositions`."""
    return any(key in op.py_kernels for key in _DECOMPOSING_KEYS)


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
    try:
        for op, kernels in saved.items():
            op.py_kernels = {key: kernel for key, kernel in kernels.items() if key not in (composite, autograd)}
            if (make := instead[op]) is not None:
                op.py_kernels[composite] = make(kernels.get(composite) or kernels[autograd])
            op._dispatch_cache.clear()
        yield
    finally:
        for op, kernels in saved.items():
            op.py_kernels = kernels
            op._dispatch_cache.clear()


def is_auto_functionalized_v1(target: Any) -> bool:
    """True for the higher-order operator that wraps a mutating operator without views (torch before 2.6, and lists)."""
    from torch._higher_order_ops.auto_functionalize import auto_functionalized

    return target is auto_functionalized


def is_auto_functionalized_v2(target: Any) -> bool:
    """True for the one that passes bases and how arguments are views of them."""
    from torch._higher_order_ops.auto_functionalize import auto_functionalized_v2

    return target is auto_functionalized_v2


@functools.cache
def flash_attention_groups_heads() -> bool:
    """Whether the CPU's flash attention takes fewer heads of keys than of queries (in 2.6 it reads beyond them)."""
    with no_dispatch_modes():
        query, key = torch.zeros(1, 2, 1, 8), torch.zeros(1, 1, 1, 8)
        chosen = torch._fused_sdp_choice(query, key, key, None, 0.0, False, enable_gqa=True)
    return bool(chosen == torch.nn.attention.SDPBackend.FLASH_ATTENTION.value)


def fake_modes(values: Iterable[Any]) -> list[Any]:
    """The fake modes that tensors are of, each once."""
    modes = [v.fake_mode for v in values if isinstance(v, torch.Tensor) and is_fake(v)]  # type: ignore[attr-defined]
    return list({id(mode): mode for mode in modes}.values())


def lacks_fake_kernel(error: BaseException) -> bool:
    """True for the error of fake tensors about an operator that has no fake kernel."""
    from torch._subclasses.fake_tensor import UnsupportedOperatorException

    return isinstance(error, UnsupportedOperatorException)


def flatten_call(
    args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[list[Any], Callable[[Sequence[Any]], tuple[tuple[Any, ...], dict[str, Any]]]]:
    """The leaves of a call's arguments, and a function that puts others in their place."""
    from torch.utils._pytree import tree_flatten, tree_unflatten

    flat, spec = tree_flatten((tuple(args), dict(kwargs)))
    return flat, lambda leaves: tree_unflatten(list(leaves), spec)


def intercepting_calls(function: Callable[[OpOverload, Sequence[Any], Mapping[str, Any]], Any]) -> Any:
    """A context in which ``function(overload, args, kwargs)`` is called instead of each operator, below autograd."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Interceptor(TorchDispatchMode):  # type: ignore[no-untyped-call]
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return function(func, args, kwargs or {})

    return Interceptor()  # type: ignore[no-untyped-call]


@contextlib.contextmanager
def without_alias_check() -> Iterator[None]:
    """Leave undeclared aliases of custom operators to our own check: PyTorch's raises only where CI is set."""
    from torch._functorch import config as functorch_config

    name = "error_on_custom_op_aliasing"
    if not hasattr(functorch_config, name):  # before 2.10
        yield
        return
    with functorch_config.patch({name: False}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r"[\s\S]*may not alias any inputs to this custom operator")
        yield


def find_overload(namespace: str, name: str) -> OpOverload | None:
    """The default overload of an operator, or None where nobody defined it."""
    if not torch._C._dispatch_has_kernel(f"{namespace}::{name}"):
        return None
    overload: OpOverload = getattr(getattr(torch.ops, namespace), name).default
    return overload


def dynamo_traces_guard_scalar() -> bool:
    """Whether a traced function may ask for the value of a symbolic number; 2.6 breaks the graph there.

    Looked up in the text of Dynamo, since importing it takes a second.
    """
    spec = importlib.util.find_spec("torch._dynamo")
    folders = list(spec.submodule_search_locations or ()) if spec is not None else []
    path = Path(folders[0], "variables", "torch.py") if folders else None
    return path is not None and path.exists() and "guard_scalar" in path.read_text(encoding="utf-8")


def overload_names(packet: OpOverloadPacket) -> list[str]:
    """Names of the overloads of an operator: ``["default", "out"]``."""
    return list(packet.overloads())  # type: ignore[no-untyped-call]


def storage_copy(tensor: torch.Tensor) -> torch.UntypedStorage:
    """A copy of all the memory that a tensor is a view of."""
    copy: torch.UntypedStorage = tensor.detach().untyped_storage().clone()  # type: ignore[no-untyped-call]
    return copy


def custom_operator_names() -> set[str]:
    """Names of the operators in the dispatcher that PyTorch does not define itself: ``"ns::my_op"``."""
    all_names = getattr(torch._C, "_dispatch_get_all_op_names", None)
    names = all_names() if all_names is not None else [s.name for s in torch._C._jit_get_all_schemas()]
    own = ("aten", "prim", "prims", "quantized", "mkldnn", "onednn", "profiler", "inductor", "c10d", "_c10d_functional")
    return {name.partition(".")[0] for name in names if name.partition("::")[0] not in own}


def find_packet(namespace: str, name: str) -> OpOverloadPacket | None:
    """An operator with its overloads, or None where nobody defined it."""
    packet = getattr(getattr(torch.ops, namespace), name, None)
    return packet if isinstance(packet, OpOverloadPacket) else None


def has_kernel(overload: OpOverload, key: str) -> bool:
    """Whether an operator can run on a device (``"CPU"``): by a kernel for it, or one for all devices."""
    found = torch._C._dispatch_has_kernel_for_dispatch_key
    name = _qualified(overload)
    return any(found(name, k) for k in (key, "CompositeExplicitAutograd", "CompositeImplicitAutograd"))


def _qualified(overload: OpOverload) -> str:
    """``"ns::name.overload"``, without ``default``, as the dispatcher knows it."""
    return str(overload.name())  # type: ignore[no-untyped-call]


def has_fake_kernel(overload: OpOverload) -> bool:
    """Whether something tells the types of an operator's results."""
    from torch._library.utils import has_fake_kernel as has

    return has(overload)


def register_ordered_effect(overload: OpOverload) -> None:
    """Say that an operator has a side effect: AOTAutograd keeps it, and its order among such operators."""
    from torch._higher_order_ops import effects

    # A public kind of effect since 2.9.
    kind = getattr(effects, "_EffectType", None) or effects.EffectType  # type: ignore[attr-defined]
    effects._register_effectful_op(overload, kind.ORDERED)


def can_auto_functionalize(overload: OpOverload) -> bool:
    """Whether PyTorch functionalizes a mutating operator on its own."""
    from torch._higher_order_ops.auto_functionalize import can_auto_functionalize as can

    return can(overload)


def is_functionalized_by_kernel(overload: OpOverload) -> bool:
    """Whether somebody registered a functionalization of an operator by hand, or it is composed of other operators."""
    has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key
    name = _qualified(overload)
    return has_kernel(name, "Functionalize") or has_kernel(name, "CompositeImplicitAutograd")


def is_builtin(overload: OpOverload) -> bool:
    """Whether an operator is one of PyTorch's own, whose mutations it functionalizes in other ways."""
    return overload.namespace in {"aten", "prim", "prims"}


def dynamo_source_name(placeholder: fx.Node) -> str:
    """What the user's code calls an input of a Dynamo graph (``"x"``, ``"self.cache"``); empty where nothing tells."""
    argument = placeholder.meta.get("grapharg")
    source = getattr(argument, "source", None)
    name = getattr(source, "name", "")
    text = str(name() if callable(name) else name)  # a method before 2.9
    # L['self']._buffers['cache'] -> self.cache
    text = re.sub(r"^[LG]\['(\w+)'\]", r"\1", text)
    return re.sub(r"\._(?:buffers|parameters|modules)\['(\w+)'\]", r".\1", text)


@functools.cache
def slices_count_from_storage() -> bool:
    """Whether ``auto_functionalized_v2`` counts the start of a slice from the start of the storage, not of the base.

    2.6 to 2.13 do, and then run the operator on the wrong rows of a base that begins elsewhere in its storage.
    """
    try:
        from torch._higher_order_ops.auto_functionalize import try_use_slice
    except ImportError:
        return False
    with no_dispatch_modes():
        base = torch.empty(10, device="meta")[4:]
        found = try_use_slice(base, base[1:3])  # type: ignore[no-untyped-call]
    return found is not None and found[1] == 5


def storage_id(tensor: torch.Tensor) -> int:
    """Identity of a tensor's storage, also of fake tensors (which have no data pointer)."""
    identity: int = tensor.untyped_storage()._cdata
    return identity


def required_storage_length(tensor: torch.Tensor) -> Any:
    """Elements of storage from its start to the tensor's last element (an int, or a ``SymInt`` for symbolic sizes)."""
    from torch._prims_common import compute_required_storage_length

    offset: Any = tensor.storage_offset()
    return compute_required_storage_length(tensor.size(), tensor.stride(), offset)


def no_dispatch_modes() -> Any:
    """A context in which no dispatch mode is active, so that constants made while compiling are real tensors."""
    from torch.utils._python_dispatch import _disable_current_modes

    return _disable_current_modes()


@contextlib.contextmanager
def fake_calls(fake_mode: Any) -> Iterator[None]:
    """A context in which operators called with fake tensors give types, whatever surrounds the compile in progress."""
    from torch._dispatch.python import enable_python_dispatcher

    with disabled_autocast(), torch.no_grad(), no_dispatch_modes(), fake_mode, enable_python_dispatcher():
        yield


# --- patterns in FX graphs ---------------------------------------------------------------------------------------


def trace_pattern(
    function: Callable[..., Any], args: Sequence[Any], decompositions: Mapping[Any, Callable[..., Any]]
) -> fx.GraphModule:
    """Trace a function of fake tensors into a graph of ATen operators, as AOTAutograd leaves them."""
    from torch._dispatch.python import enable_python_dispatcher
    from torch.fx.experimental.proxy_tensor import make_fx

    with disabled_autocast(), torch.no_grad(), enable_python_dispatcher():
        return make_fx(function, decomposition_table=dict(decompositions))(*args)


@contextlib.contextmanager
def outside_of_compiles() -> Iterator[None]:
    """A context that knows nothing of a compile in progress: neither its fake tensors nor its dispatch modes."""
    from torch._guards import tracing

    with tracing(None), no_dispatch_modes():
        yield


def default_pattern_trace() -> Any:
    """``torch._inductor.pattern_matcher.fwd_only``: what users give as ``trace_fn`` for a graph without gradients."""
    from torch._inductor.pattern_matcher import fwd_only

    return fwd_only


def pattern_of(gm: fx.GraphModule, names: Sequence[str], scalars: Mapping[str, float | int]) -> tuple[str, set[str]]:
    """What Inductor's matcher would look for: as text, and the names of the arguments that a match binds."""
    from torch._inductor.pattern_matcher import PatternPrettyPrinter, fx_to_pattern

    ignored = (int, float, list, torch.device, torch.dtype)
    pattern: Any = fx_to_pattern(gm, ignore_types=ignored, argnames=names, scalar_workaround=dict(scalars))
    text = PatternPrettyPrinter.run(pattern)
    return text, set(re.findall(r"KeywordArg\('(\w+)'", text))


class PatternMatcher:
    """Inductor's matcher of patterns in FX graphs, with replacements of ours.

    Args:
        name: What Inductor calls the pass.
    """

    def __init__(self, name: str) -> None:
        from torch._inductor.pattern_matcher import PatternMatcherPass

        self._pass: Any = PatternMatcherPass(pass_name=name)

    def add(
        self,
        search: Callable[..., Any],
        replace: Callable[..., Any],
        example_inputs: Sequence[Any],
        trace: Callable[..., fx.GraphModule],
        check: Callable[[Any], bool],
        accept: Callable[[Any], bool],
        *,
        scalars: Mapping[str, float | int],
        pattern: Any = None,
    ) -> None:
        """Add a replacement.

        Args:
            check: Looks at a match before the replacement is traced.
            accept: Looks at it afterwards: then ``replacement_graph`` is there.
        """
        from torch._inductor import pattern_matcher

        register: Any = pattern_matcher.register_replacement
        # Since 2.7; which replacements are equal was looked at when they were registered.
        more = {"skip_duplicates": True} if "skip_duplicates" in inspect.signature(register).parameters else {}
        known = {id(entry) for entry in self._entries()}
        with _no_patterns_seen():
            register(
                search,
                replace,
                list(example_inputs),
                trace,
                self._pass,
                extra_check=check,
                scalar_workaround=dict(scalars),
                search_fn_pattern=pattern,
                **more,
            )
        for entry in {id(entry): entry for entry in self._entries() if id(entry) not in known}.values():
            entry.extra_check = functools.partial(_both, entry.extra_check, accept)

    def _entries(self) -> list[Any]:
        return [entry for entries in self._pass.patterns.values() for entry in entries]

    def apply(self, gm: fx.GraphModule) -> int:
        """Replace what is found, and return how often; nodes may stand in the wrong order for a moment."""
        from torch._inductor.pattern_matcher import stable_topological_sort

        count = int(self._pass.apply(gm))
        if count:
            stable_topological_sort(gm.graph)
        for node in gm.graph.nodes:
            node.meta.pop("mutation_region_id", None)
        return count


@contextlib.contextmanager
def _no_patterns_seen() -> Iterator[None]:
    """2.6 refuses a pattern that any pass of the process has already."""
    from torch._inductor import pattern_matcher

    seen: Any = getattr(pattern_matcher, "_seen_patterns", set())
    saved = list(seen)
    seen.clear()
    try:
        yield
    finally:
        seen.clear()
        seen.update(saved)


def _both(first: Callable[[Any], Any], second: Callable[[Any], bool], match: Any) -> bool:
    return bool(first(match)) and second(match)


def is_run_and_save_rng_state(target: Any) -> bool:
    """True for the wrapper ``(op, *args) -> (state before, results)`` of operators that draw random numbers."""
    from torch._prims.rng_prims import run_and_save_rng_state

    return target is run_and_save_rng_state


def is_run_with_rng_state(target: Any) -> bool:
    """True for the wrapper ``(state, op, *args) -> results`` of operators that draw random numbers once more."""
    from torch._prims.rng_prims import run_with_rng_state

    return target is run_with_rng_state


def is_with_effects(target: Any) -> bool:
    """True for the higher-order operator that threads a token through operators with side effects."""
    from torch._higher_order_ops.effects import with_effects

    return target is with_effects


@contextlib.contextmanager
def fake_evaluation(fake_mode: Any) -> Iterator[None]:
    """Inside, operators compute with fake tensors of a mode; new symbols that they make are of no consequence."""
    from torch._dispatch.python import enable_python_dispatcher

    env = fake_mode.shape_env
    ignored = env.ignore_fresh_unbacked_symbols() if env is not None else contextlib.nullcontext()
    with no_dispatch_modes(), torch.no_grad(), fake_mode, enable_python_dispatcher(), ignored:
        yield


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


def known_true(condition: Any) -> bool:
    """Whether a condition on (symbolic) numbers holds for all their values, as far as is known; adds no guard."""
    if isinstance(condition, bool):
        return condition
    from torch.fx.experimental.symbolic_shapes import statically_known_true

    return statically_known_true(condition)


def known_int(number: Any) -> int | None:
    """The value of a (symbolic) integer that is the same in every call; adds no guard."""
    if isinstance(number, torch.SymInt):
        node: Any = number.node
        value: int | None = node.maybe_as_int()
        return value
    return int(number)


def size_hint(number: Any) -> int | None:
    """The value of a (symbolic) integer in the call that is being compiled for; adds no guard."""
    if isinstance(number, torch.SymInt):
        node: Any = number.node
        return int(node.hint) if node.has_hint() else None
    return int(number)


def create_size_symbol(fake_mode: Any, name: str, hint: int) -> Any:
    """A new symbolic size (2 or more) of a fake mode, for graphs that do not come from Dynamo."""
    from torch._dynamo.source import ConstantSource
    from torch.fx.experimental.symbolic_shapes import DimDynamic

    env, source = fake_mode.shape_env, ConstantSource(f"torchair_{name}")
    symbol = env.create_symbol(hint, source=source, dynamic_dim=DimDynamic.DYNAMIC)
    return env.create_symintnode(symbol, hint=hint, source=source)


def settled_number(number: Any) -> Any:
    """A symbolic number by the symbols that stand for it now.

    One may have been found equal to another since it was made; Inductor would name an input by the first, and read it
    by the other.
    """
    if not isinstance(number, torch.SymInt) or number.node.expr == number.node._expr:
        return number
    node: Any = number.node
    return node.shape_env.create_symintnode(node.expr, hint=size_hint(number))


def new_guards(fake_mode: Any) -> list[Any]:
    """What the shape environment assumed about its symbols while something was traced or compiled: sympy conditions."""
    return [guard.expr for guard in fake_mode.shape_env.guards]


def traced_data_dependence(error: BaseException) -> bool:
    """True when tracing failed because a size or a branch depends on the elements of a tensor."""
    from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException
    from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

    return isinstance(error, DataDependentOutputException | DynamicOutputShapeException | GuardOnDataDependentSymNode)


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
    return tuple(int(part) for part in torch.__version__.split(".")[:2]) >= (2, 13)


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


def called_operators(gm: fx.GraphModule) -> set[OpOverload]:
    """The operators that an FX graph calls, those that it calls in functional form too."""
    leaves = [leaf for node in gm.graph.nodes if node.op == "call_function" for leaf in (node.target, *node.args[:1])]
    return {leaf for leaf in leaves if isinstance(leaf, OpOverload)}


def disabled_autocast() -> Any:
    """A context in which operators run as they are called, without autocast."""
    return torch._C._DisableAutocast()


def extension_flags() -> list[str]:
    """Flags of the C++ compiler for a Python extension that uses torch's C++ interface."""
    import sysconfig

    from torch.utils import cpp_extension

    abi = int(getattr(torch._C, "_GLIBCXX_USE_CXX11_ABI", True))
    includes = [*cpp_extension.include_paths(), sysconfig.get_paths()["include"]]
    libraries = cpp_extension.library_paths()
    return [
        f"-D_GLIBCXX_USE_CXX11_ABI={abi}",
        *(f"-isystem{path}" for path in includes),
        *(flag for path in libraries for flag in (f"-L{path}", f"-Wl,-rpath,{path}")),
        *("-lc10", "-ltorch_cpu", "-ltorch", "-ltorch_python"),
    ]


def kernel_flags() -> list[str]:
    """Flags for a source that calls ATen's kernels for the instruction set of the CPU: which sets torch was built for.

    They decide a function's signature, so a wrong guess shows when the library is loaded.
    """
    import platform

    if platform.machine().lower() in ("x86_64", "amd64"):
        return ["-DHAVE_AVX2_CPU_DEFINITION", "-DHAVE_AVX512_CPU_DEFINITION"]
    return []


def extension_facts() -> list[str]:
    """What a compiled extension depends on besides its source, its flags and the compiler."""
    import sysconfig

    return [torch.__version__, str(torch.version.git_version), str(sysconfig.get_config_var("EXT_SUFFIX"))]


def native_out_variant(overload: OpOverload) -> OpOverload | None:
    """The overload that writes into given tensors, where PyTorch has one that was written, not generated.

    A generated one calls the functional overload and copies.
    """
    schema = overload._schema
    packet = overload.overloadpacket
    given = [(a.name, str(a.type)) for a in schema.arguments]
    for name in overload_names(packet):
        other: OpOverload = getattr(packet, name)
        arguments = other._schema.arguments
        written = arguments[len(given) :]
        if (
            len(written) == len(schema.returns)
            and [(a.name, str(a.type)) for a in arguments[: len(given)]] == given
            and all(a.kwarg_only and a.alias_info is not None and a.alias_info.is_write for a in written)
            and not any(a.alias_info is not None for a in arguments[: len(given)])
            and torch.Tag.generated not in other.tags
        ):
            return other
    return None


def sympy_number(value: int | float | bool) -> Any:
    """A Python number as torch's symbols take it."""
    import sympy

    return sympy.sympify(value)


def is_unbacked(symbol: Any) -> bool:
    """True for a size that is known only when an operator has run."""
    from torch.utils._sympy.symbol import SymT, symbol_is_type

    return bool(symbol_is_type(symbol, (SymT.UNBACKED_INT, SymT.UNBACKED_FLOAT)))


def changes_metadata(overload: OpOverload) -> bool:
    """Whether an operator gives one of its arguments other sizes or other memory."""
    return torch.Tag.inplace_view in overload.tags or overload._schema.name in ("aten::set_", "aten::resize_")


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


def current_backend() -> Any:
    """What ``torch.compile`` was given as ``backend``, as Dynamo keeps it, while it calls a backend; else None.

    One such object belongs to each call of ``torch.compile``; those of calls with equal arguments are equal.
    """
    tx = _current_translator()
    return None if tx is None else _innermost_backend(getattr(tx.output, "compiler_fn", None))


def current_code() -> types.CodeType | None:
    """The function whose frame Dynamo is compiling; for the rest of one behind a graph break, the whole function."""
    tx = _current_translator()
    return None if tx is None else _resumed_code(tx.f_code)


def _resumed_code(code: types.CodeType) -> types.CodeType:
    try:
        from torch._dynamo.resume_execution import ContinueExecutionCache

        known = ContinueExecutionCache.generated_code_metadata
        while code in known:
            code = known[code].code
    except (ImportError, AttributeError):
        pass  # another version keeps it elsewhere: the frame counts as a function of its own
    return code


def _current_translator() -> Any:
    try:
        from torch._dynamo.symbolic_convert import InstructionTranslator

        return InstructionTranslator.current_tx()
    except (ImportError, AttributeError):
        return None


def _innermost_backend(function: Any) -> Any:
    for _ in range(20):
        inner = getattr(function, "_torchdynamo_orig_backend", None)
        if inner is None:
            inner = getattr(function, "_torchdynamo_orig_callable", None)  # its name before 2.8
        if inner is None:
            return function
        function = inner
    return function


def recompile_reason() -> str:
    """Why Dynamo compiles a function once more, in its words; empty when it compiles it for the first time."""
    compile_id = torch._guards.CompileContext.current_compile_id()
    if compile_id is None or not compile_id.frame_compile_id:
        return ""
    from torch._dynamo.utils import get_metrics_context, guard_failures

    reason = getattr(get_metrics_context(), "_metrics", {}).get("recompile_reason")
    if not reason:
        tx = _current_translator()
        failed = guard_failures.get(tx.f_code) if tx is not None else None
        reason = failed[-1] if failed else ""
    return str(reason or "Dynamo does not say why")


def compiled_backend(compiled: Any) -> Any:
    """The object of :func:`current_backend` that belongs to a function or module that ``torch.compile`` returned.

    None for anything else.
    """
    context = getattr(compiled, "dynamo_ctx", None)
    callback = getattr(context, "callback", None)
    if callback is None and inspect.isfunction(compiled) and hasattr(compiled, "_torchdynamo_orig_callable"):
        cells = dict(zip(compiled.__code__.co_freevars, compiled.__closure__ or (), strict=False))
        for name in ("callback", "self"):
            if callback is None and name in cells:
                callback = cells[name].cell_contents
        callback = getattr(callback, "callback", callback)
    return None if callback is None else _innermost_backend(callback)


def compiled_code(compiled: Any) -> types.CodeType | None:
    """The code of the function inside what ``torch.compile`` returned."""
    inner = getattr(compiled, "_orig_mod", None)
    function = type(inner).forward if isinstance(inner, torch.nn.Module) else compiled
    for _ in range(20):
        further = getattr(function, "_torchdynamo_orig_callable", None)
        if further is None:
            break
        function = further
    return getattr(function, "__code__", None)


def counters(name: str) -> Any:
    """The counters of that name among those that Dynamo keeps: a ``collections.Counter``."""
    from torch._dynamo.utils import counters as all_counters

    return all_counters[name]


def below_autograd() -> Any:
    """A context in which operators run below autograd and below what tracks views and versions."""
    return (
        torch._C._AutoDispatchBelowADInplaceOrView()
        if hasattr(torch._C, "_AutoDispatchBelowADInplaceOrView")
        else torch._C._AutoDispatchBelowAutograd()
    )


def strides_tag() -> torch.Tag:
    """The tag of operators whose operands must have the strides that they were traced with."""
    tag: torch.Tag = getattr(torch.Tag, "needs_exact_strides", torch.Tag.needs_fixed_stride_order)
    return tag


def inductor_keeps_strides() -> bool:
    """Whether Inductor can give operators exactly eager's strides.

    Before 2.7 it makes operands contiguous, or keeps no more than the order of their strides.
    """
    return hasattr(torch.Tag, "needs_exact_strides")


def inductor_option_names() -> frozenset[str]:
    """The names that ``options=`` of ``torch.compile`` may have with PyTorch's own compiler."""
    from torch._inductor import list_options

    return frozenset(list_options())


@contextlib.contextmanager
def inductor_settings(**settings: Any) -> Iterator[None]:
    """Change Inductor's configuration for a while; settings that this version does not have are left out."""
    from torch._functorch import config as functorch_config
    from torch._inductor import config

    # 2.7 moved this one, which says how the operands of custom operators are laid out.
    layout = (
        {"custom_op_default_layout_constraint": settings.pop("custom_op_layout")}
        if "custom_op_layout" in settings
        else {}
    )
    with (
        config.patch({name: value for name, value in {**settings, **layout}.items() if hasattr(config, name)}),
        functorch_config.patch({name: value for name, value in layout.items() if hasattr(functorch_config, name)}),
    ):
        yield


def inductor_decompositions() -> Mapping[Any, Callable[..., Any]]:
    """Inductor's table of decompositions; depends on its configuration."""
    from torch._inductor.decomposition import select_decomp_table

    return select_decomp_table()


def compile_lock() -> Any:
    """The lock that Dynamo holds while it compiles; backward graphs may be compiled outside Dynamo."""
    from torch._dynamo.convert_frame import compile_lock as lock

    return lock


def _compile_metrics() -> Any:
    """The context in which Inductor may count; Dynamo opens it, and outside Dynamo 2.6 needs one too."""
    from torch._dynamo.utils import get_metrics_context

    context: Any = get_metrics_context()
    return contextlib.nullcontext() if context.in_progress() else context


def inductor_compile(gm: fx.GraphModule, fake_mode: Any) -> tuple[Callable[[list[Any]], Any], Any]:
    """Compile a functional FX graph of ATen operators.

    Args:
        gm: Traced by :func:`trace_functional`; the results that it returns come in the strides of their fake tensors.

    Returns:
        A function that takes the list of arguments and empties it, and the object that owns it.
    """
    from torch._guards import TracingContext, tracing
    from torch._inductor import compile_fx
    from torch._inductor.virtualized import V

    inputs = [node.meta["val"] for node in gm.graph.find_nodes(op="placeholder")]
    device = next(
        (i.device for i in inputs if isinstance(i, torch.Tensor) and i.device.type != "cpu"), torch.device("cpu")
    )
    passes: Any = compile_fx._recursive_joint_graph_passes
    options = {"input_device": device} if "input_device" in inspect.signature(passes).parameters else {}
    # A tracing context of its own: Inductor reports strides to the one of the compile in progress, which counts other
    # outputs.
    with (
        no_dispatch_modes(),
        V.set_fake_mode(fake_mode),
        tracing(TracingContext(fake_mode)),
        torch.no_grad(),
        _compile_metrics(),
    ):
        gm = passes(gm, **options) or gm
        output = next(iter(reversed(gm.graph.nodes)))
        output.meta["user_visible_output_idxs"] = [i for i, a in enumerate(output.args[0]) if isinstance(a, fx.Node)]
        compiled: Any = compile_fx.compile_fx_inner(gm, inputs, is_inference=True)
    # What stands around this callable in the object records timings; it costs more than a small graph.
    return getattr(compiled, "current_callable", None) or compiled, compiled


def copy_all(into: Sequence[torch.Tensor], values: Sequence[torch.Tensor]) -> None:
    """Copy tensors into others of the same sizes, in as few launches as the device allows, without waiting for it."""
    torch._foreach_copy_(list(into), list(values), non_blocking=True)


def storage_over(address: int, nbytes: int, device: torch.device) -> torch.UntypedStorage:
    """A storage over memory that somebody else owns; nothing keeps that memory alive.

    Raises:
        RuntimeError: This version of PyTorch cannot do it.
    """
    construct = getattr(torch._C, "_construct_storage_from_data_pointer", None)
    if construct is None:
        raise RuntimeError("This version of PyTorch cannot make a tensor over an address")
    storage: torch.UntypedStorage = construct(address, device, nbytes)
    return storage


def end_failed_capture(device: torch.device, pool: Any) -> None:
    """Let a device's allocator leave the pool of a capture whose end failed; where it knows no such capture, nothing.

    ``CUDAGraph.capture_end`` raises before it does this when an operator made the capture invalid.
    """
    known: dict[str, Any] = vars(torch._C)
    names = (
        f"_{device.type}_endAllocateToPool",
        f"_{device.type}_endAllocateCurrentStreamToPool",
    )  # now, and before 2.7
    ends = [known[name] for name in names if name in known]
    release = known.get(f"_{device.type}_releasePool")
    if not ends or release is None:
        return
    index = device.index or 0
    with contextlib.suppress(RuntimeError):
        ends[0](index, pool)
        release(index, pool)
