"""Dynamo: what it compiles, why it compiles again."""

from __future__ import annotations

import importlib.util
import inspect
import re
import types
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import fx

__all__ = [
    "GRAPH_BREAK_TAKES_TEXT",
    "break_graph",
    "compile_count",
    "compiled_backend",
    "compiled_codes",
    "counters",
    "current_backend",
    "current_code",
    "current_frame_code",
    "current_stream_number",
    "debug_directory",
    "dynamo_source_name",
    "dynamo_traces_guard_scalar",
    "numbers_streams",
    "recompile_limit",
    "recompile_reason",
    "shared_wrapper",
]


def dynamo_traces_guard_scalar() -> bool:
    """Whether a traced function may ask for the value of a symbolic number; 2.6 breaks the graph there."""
    return "guard_scalar" in _text_of_dynamo("variables", "torch.py")


def _text_of_dynamo(*file: str) -> str:
    """The text of a file of Dynamo, since importing it takes a second."""
    spec = importlib.util.find_spec("torch._dynamo")
    folders = list(spec.submodule_search_locations or ()) if spec is not None else []
    path = Path(folders[0], *file) if folders else None
    return path.read_text(encoding="utf-8") if path is not None and path.exists() else ""


#: Whether a traced function can say why it breaks the graph, with :func:`break_graph`.
GRAPH_BREAK_TAKES_TEXT = "def graph_break(msg" in _text_of_dynamo("decorators.py")


def break_graph(text: str) -> None:
    """Let what follows run eagerly; with ``fullgraph=True`` Dynamo raises its ``Unsupported``, with this text.

    For functions that Dynamo traces.
    """
    torch._dynamo.graph_break(msg=text)


def dynamo_source_name(placeholder: fx.Node) -> str:
    """What the user's code calls an input of a Dynamo graph (``"x"``, ``"self.cache"``); empty where nothing tells."""
    argument = placeholder.meta.get("grapharg")
    source = getattr(argument, "source", None)
    name = getattr(source, "name", "")
    text = str(name() if callable(name) else name)  # a method before 2.9
    # L['self']._buffers['cache'] -> self.cache
    text = re.sub(r"^[LG]\['(\w+)'\]", r"\1", text)
    return re.sub(r"\._(?:buffers|parameters|modules)\['(\w+)'\]", r".\1", text)


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


def current_frame_code() -> types.CodeType | None:
    """The code object that Dynamo is compiling: for the rest of a function behind a graph break, one of its own."""
    tx = _current_translator()
    return None if tx is None else tx.f_code


def numbers_streams() -> bool:
    """Whether Dynamo numbers the streams and events of a graph; so it takes those of the CPU, too."""
    return importlib.util.find_spec("torch._dynamo.graph_bytecode_inputs") is not None


def current_stream_number() -> int | None:
    """The number that Dynamo gives the stream that is current when it begins a graph; None where it gives it none.

    Newer versions number the streams and events of a graph; without an accelerator there is no current stream.
    """
    accelerator = getattr(torch, "accelerator", None)
    if accelerator is None or not accelerator.is_available():
        return None
    try:
        from torch._dynamo.graph_bytecode_inputs import CURRENT_STREAM_INDEX
    except ImportError:
        return None
    return int(CURRENT_STREAM_INDEX)


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


def compiled_codes(compiled: Any) -> tuple[types.CodeType, ...]:
    """The code of the function inside what ``torch.compile`` returned.

    Several, or none, for a module of PyTorch's own that was compiled in place: Dynamo leaves its frames out, and
    compiles only those of the user's modules inside.
    """
    inner = getattr(compiled, "_orig_mod", None)
    function = type(inner).forward if isinstance(inner, torch.nn.Module) else compiled
    for _ in range(20):
        further = getattr(function, "_torchdynamo_orig_callable", None)
        if further is None:
            break
        function = further
    module = getattr(function, "__self__", None)
    if isinstance(module, torch.nn.Module) and getattr(function, "__name__", "") == "_call_impl":
        return tuple(dict.fromkeys(_module_codes(module)))
    code = getattr(function, "__code__", None)
    return () if code is None else (code,)


def shared_wrapper(compiled: Any) -> types.CodeType | None:
    """The code that Dynamo compiles in place of a function or module of PyTorch's own: one for all of them."""
    function = compiled.forward if isinstance(getattr(compiled, "_orig_mod", None), torch.nn.Module) else compiled
    for _ in range(20):
        code = getattr(function, "__code__", None)
        if code is not None and code.co_name == "inner" and code.co_filename.endswith("external_utils.py"):
            return code  # type: ignore[no-any-return]  # getattr gives Any
        function = getattr(function, "_torchdynamo_orig_callable", None)
    return None


def _module_codes(module: torch.nn.Module) -> Iterator[types.CodeType]:
    code = getattr(type(module).forward, "__code__", None)
    if code is not None and not _is_left_out(code):
        yield code
        return
    for child in module.children():
        yield from _module_codes(child)


def _is_left_out(code: types.CodeType) -> bool:
    try:
        from torch._dynamo import trace_rules

        return bool(trace_rules.check(code))
    except (ImportError, AttributeError):
        return False


def recompile_limit() -> tuple[str, int]:
    """How often Dynamo compiles one code object before it leaves further calls to eager mode.

    Returns:
        The name of that setting of ``torch._dynamo.config``, and its value.
    """
    config = torch._dynamo.config
    name = "recompile_limit" if hasattr(config, "recompile_limit") else "cache_size_limit"  # its old name
    return name, int(getattr(config, name))


def compile_count(code: types.CodeType) -> int:
    """How many compilations of a code object Dynamo keeps, as it counts them against :func:`recompile_limit`.

    Those that are guarded by other objects (another module, say) count apart, and the largest number is given.
    """
    try:
        from torch._dynamo.eval_frame import _debug_get_cache_entry_list

        entries = _debug_get_cache_entry_list(code)
    except (ImportError, AttributeError):
        return 0
    return max(Counter(map(_guarded_objects, entries)).values(), default=0)


def _guarded_objects(entry: Any) -> frozenset[tuple[str, int]]:
    objects = getattr(getattr(entry, "guard_manager", None), "id_matched_objs", None) or {}
    return frozenset((name, id(reference())) for name, reference in objects.items() if callable(reference))


def counters(name: str) -> Any:
    """The counters of that name among those that Dynamo keeps: a ``collections.Counter``."""
    from torch._dynamo.utils import counters as all_counters

    return all_counters[name]


def debug_directory() -> Path:
    """Where this process writes what is for debugging: ``torch_compile_debug/run_${time}-pid_${pid}``."""
    from torch._dynamo.utils import get_debug_dir

    return Path(get_debug_dir())
