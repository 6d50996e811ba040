"""Which engine runs a graph: ``config.engine``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.metadata import entry_points
from typing import Any

import torch

from torchair.build import find_compiler
from torchair.config import Environment, Options
from torchair.engines.base import Engine, Executable
from torchair.errors import EngineError, Rejection, UnsupportedGraphError
from torchair.ir import Graph
from torchair.logs import logger, warn_once
from torchair.native.support import load_support

__all__ = ["compile_on", "engine_names", "select_engine"]


def _reference() -> Engine:
    from torchair.engines.reference import ReferenceEngine

    return ReferenceEngine()


def _inductor() -> Engine:
    from torchair.engines.inductor import InductorEngine

    return InductorEngine()


def _native() -> Engine:
    from torchair.engines.native import NativeEngine

    return NativeEngine()


_BUILTIN: dict[str, Callable[[], Engine]] = {
    "reference": _reference,
    "inductor": _inductor,
    "native": _native,
}


def engine_names() -> tuple[str, ...]:
    """Names that ``config.engine`` takes, ``"auto"`` apart."""
    return (*_BUILTIN, *(e.name for e in entry_points(group="torchair.engines")))


def select_engine(name: str, device: str = "cpu") -> Engine:
    """The engine of that name.

    ``"auto"`` is native on CPUs and inductor on other devices where C++ can be compiled, else reference with one
    warning.

    Args:
        name: What ``config.engine`` says.
        device: Type of the device that the graph is for.

    Raises:
        EngineError: There is no such engine, or it cannot run here.
    """
    if name == "auto":
        missing = _missing_compiler(device)
        if missing is not None:
            warn_once(
                f"Graphs run on the reference engine, which is slow: {missing.reason}.\n{missing.fix}\n"
                'config.engine = "reference" says that this is wanted.'
            )
        name = "reference" if missing is not None else "native" if device == "cpu" else "inductor"
    if name in _BUILTIN:
        return _BUILTIN[name]()
    for entry in entry_points(group="torchair.engines"):
        if entry.name == name:
            engine: Engine = entry.load()()
            return engine
    raise EngineError(
        "There is no engine of that name",
        why=f"config.engine is {name!r}; known: auto, {', '.join(engine_names())}",
        fix='config.engine = "auto"',
    )


def compile_on(
    name: str,
    graph: Graph,
    options: Options,
    inputs: Sequence[Any] = (),
    *,
    on_fallback: Callable[[str], None] = lambda reason: None,
) -> tuple[Executable, str]:
    """Compile a graph on the engine of that name.

    With ``"auto"``, a graph that cannot be compiled runs on the reference engine, with a warning that says why. An
    engine that was chosen by name is not left.

    Args:
        inputs: As :meth:`torchair.engines.base.Engine.compile` takes them.
        on_fallback: Told why another engine runs the graph, or why the native engine compiles nothing of it.

    Returns:
        The executable, and the name of the engine that made it.

    Raises:
        EngineError: There is no such engine, or it cannot run here.
        UnsupportedGraphError: The engine was chosen by name and cannot run the graph.
    """
    device = _device(graph, inputs)
    engine = select_engine(name, device)
    if name in ("auto", "native") and (missing := _missing_compiler(device)) is not None:
        _say_missing(name, missing, on_fallback)
    try:
        executable = engine.compile(graph, options, inputs)
        _log_without_effect(graph, options, engine.name)
        return executable, engine.name
    except UnsupportedGraphError as e:
        if name != "auto":
            raise
        reasons = "; ".join(e.why)
    on_fallback(f"it runs on the reference engine: {engine.name} cannot take it, since {reasons}")
    logger.warning_once(
        f"A graph runs on the reference engine, which is slow: {engine.name} cannot take it, since {reasons}. "
        'Choose config.engine = "reference" to say that this is wanted.'
    )
    reference = _reference()
    _log_without_effect(graph, options, reference.name)
    return reference.compile(graph, options, inputs), reference.name


def _log_without_effect(graph: Graph, options: Options, engine: str) -> None:
    """Log what only the native engine acts on: scopes, and limits of cores."""
    if engine not in ("inductor", "reference"):
        return
    found = dict.fromkeys(_SCOPES[key] for node in graph for key in node.scope if key in _SCOPES)
    if options.aicore_num != (None, None):
        found["config.ge_config.aicore_num"] = None
    for name in found:
        logger.info_once("%s: recorded, no effect on the %s engine; the native engine acts on it", name, engine)


#: What an attribute of a node comes from.
_SCOPES = {"_super_kernel_scope": "torchair.scope.super_kernel", "_op_aicore_num": "torchair.scope.limit_core_num"}


def _device(graph: Graph, inputs: Sequence[Any]) -> str:
    """Type of the device that a graph is for: another one than the CPU where any of its tensors lies there."""
    devices = {t.device.type for t in (*inputs, *graph.blobs.values()) if isinstance(t, torch.Tensor)}
    return min(devices - {"cpu"}, default="cpu")


def _missing_compiler(device: str) -> Rejection | None:
    """Why no C++ can be compiled for graphs on such a device."""
    # What native code needs is more than a compiler: its library has to be built, or to be in the cache.
    found = load_support() if device == "cpu" else find_compiler(Environment.read().cxx)
    return found if isinstance(found, Rejection) else None


def _say_missing(name: str, missing: Rejection, on_fallback: Callable[[str], None]) -> None:
    """Say what becomes of a graph without a compiler."""
    if name == "auto":
        on_fallback(f"it runs on the reference engine: {missing.reason}")
        return
    on_fallback(f"none of its operators became native code: {missing.reason}")
    warn_once(
        f'config.engine = "native" runs graphs as calls of PyTorch\'s operators: {missing.reason}.\n{missing.fix}'
    )
