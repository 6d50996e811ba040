"""What became of a compiled function: ``torchair.explain``; and ``torchair.reset``."""

from __future__ import annotations

import dataclasses
import types
import weakref
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from torchair import _torch_compat
from torchair.capture.life_cycle import CapturedGraph
from torchair.capture.pools import Pool
from torchair.engines.native import NativeExecutable
from torchair.engines.opaque_ops import stands_for
from torchair.errors import ArgumentTypeError, Rejection
from torchair.native import PartitionRecord
from torchair.native.support import load_support
from torchair.pipeline.ge_mode import CompiledGraph
from torchair.pipeline.origin import Origin
from torchair.report import CaptureRecord, Fallback, GraphRecord, NativeCode, PoolRecord, Recapture, Recompile, Refused
from torchair.trace import Trace, plan_trace

__all__ = ["AnyGraph", "Explanation", "captured_graphs", "explain", "note", "reset"]

AnyGraph = CompiledGraph | CapturedGraph

_graphs: weakref.WeakKeyDictionary[AnyGraph, Origin] = weakref.WeakKeyDictionary()


def note(graph: AnyGraph, origin: Origin) -> None:
    """Remember where a graph comes from, as long as it lives."""
    _graphs[graph] = origin


@dataclass(frozen=True, slots=True)
class Explanation:
    """What became of a compiled function so far; printing it shows everything.

    Attributes:
        graphs: The graphs that Dynamo made of it, in order of compilation.
        captures: What is captured now, one entry a graph and shape key; the plans of the native engine, too.
        pools: The memory that these captures share.
        recompiles: When Dynamo compiled once more, and the guard that failed.
        recaptures: When an existing key was captured again, and why; the last 1000 of each graph.
        fallbacks: What runs otherwise than the mode promises, and why.
        bytes_held: Memory of the captures: arenas of the pools that they use, and static outputs.
        converted: FX nodes by operator that a registered converter converted to Ascend IR.
        auto_converted: Those that automatic conversion converted.
        torch_calls: Those that run as their torch operator.
        refused: Why those have no Ascend IR form.
        native: What the native engine compiled to C++, and what it calls.
    """

    graphs: tuple[GraphRecord, ...]
    captures: tuple[CaptureRecord, ...]
    recompiles: tuple[Recompile, ...]
    recaptures: tuple[Recapture, ...]
    fallbacks: tuple[Fallback, ...]
    bytes_held: int
    converted: Counter[str]
    auto_converted: Counter[str]
    torch_calls: Counter[str]
    refused: tuple[Refused, ...]
    native: tuple[NativeCode, ...] = ()
    pools: tuple[PoolRecord, ...] = ()
    _alive: tuple[weakref.ref[AnyGraph], ...] = field(repr=False, compare=False, default=())
    _none: str = field(repr=False, compare=False, default="none")

    def traces(self) -> dict[str, Trace]:
        """The plan of each capture as a trace in logical time; ``"graph_1 [4, 8]"`` to the trace.

        ``record_trace`` gives those of real runs.
        """
        found = {}
        for reference in self._alive:
            graph = reference()
            captured = None if graph is None else _captured(graph)
            if graph is not None and captured is not None:
                for record, plan in captured.plans():
                    name = f"{_name(graph)} {record.key}"
                    found[name] = plan_trace(plan, name)
        return found

    def reset(self) -> None:
        """Drop the captures of these graphs; the next call captures again."""
        for reference in self._alive:
            graph = reference()
            captured = None if graph is None else _captured(graph)
            if captured is not None:
                captured.reset()

    def __str__(self) -> str:
        refused = Counter(f"{r.target}: {r.rejection.reason}" for r in self.refused)
        sections: list[tuple[str, Sequence[object]]] = [
            ("graphs", self.graphs),
            ("captures", self.captures),
            ("recompiles", self.recompiles),
            ("recaptures", _counted(self.recaptures)),
            ("fallbacks", self.fallbacks),
            ("pools", self.pools),
        ]
        if any(graph.mode != "npugraph_ex" for graph in self.graphs):
            sections += [
                ("converted", _operators(self.converted)),
                ("converted automatically", _operators(self.auto_converted)),
                ("run as torch operators", _operators(self.torch_calls)),
                ("without an Ascend IR form", [f"{text} ({_number(n, 'node')})" for text, n in refused.items()]),
            ]
        sections.append(("native code", self.native))
        lines = []
        for title, rows in sections:
            if title in _ALWAYS or rows:
                none = self._none if title == "graphs" else "none"
                lines.append(f"{title}: {len(rows) or none}")
                lines += [f"  {row}" for row in rows]
        lines.append(f"bytes held: {self.bytes_held}")
        return "\n".join(lines)


_ALWAYS = ("graphs", "captures", "recompiles", "recaptures", "fallbacks")


def _counted(records: Iterable[Recapture]) -> list[str]:
    return [f"{text} ({n} times)" if n > 1 else text for text, n in Counter(map(str, records)).items()]


def _number(n: int, what: str) -> str:
    return f"{n} {what}" if n == 1 else f"{n} {what}s"


def _operators(counts: Counter[str]) -> list[str]:
    return [f"{name} ({n} nodes)" if n > 1 else name for name, n in counts.most_common()]


def explain(compiled: Any) -> Explanation:
    """What became of a compiled function so far: graphs, captures, recompiles and fallbacks, with reasons.

    Args:
        compiled: What ``torch.compile`` returned (function or module), a backend of :func:`get_npu_backend`, or what
            ``compile_fx`` or a compiler of :func:`get_compiler` returned.

    Raises:
        ArgumentTypeError: It is something else.

    Example:
        >>> f = torch.compile(model, backend="npugraph_ex")
        >>> f(x)
        >>> print(torchair.explain(f))
    """
    listed, none, late = _graphs_of(compiled)
    found = sorted(listed, key=lambda pair: pair[0].number)
    graphs = [graph for graph, _ in found]
    captured = [(_name(g), inner) for g in graphs if (inner := _captured(g)) is not None]
    reports = [g.report for g in graphs if isinstance(g, CompiledGraph)]
    pools = {id(pool): pool for _, graph in captured for pool in graph.pools()}
    captures = [dataclasses.replace(record, graph=name) for name, graph in captured for record in graph.records()]
    return Explanation(
        graphs=tuple(_record(graph, origin) for graph, origin in found),
        captures=tuple(captures),
        recompiles=tuple(_recompiles(found)),
        recaptures=tuple(dataclasses.replace(r, graph=n) for n, graph in captured for r in list(graph.recaptures)),
        fallbacks=(*(f for graph in graphs for f in _fallbacks(graph)), *_limited(found), *late),
        bytes_held=sum(pool.nbytes for pool in pools.values()) + sum(record.nbytes for record in captures),
        converted=sum((r.converted for r in reports), Counter[str]()),
        auto_converted=sum((r.auto_converted for r in reports), Counter[str]()),
        torch_calls=sum((r.torch_calls for r in reports), Counter[str]()),
        refused=tuple(r for report in reports for r in report.refused),
        native=tuple(_native_code(_name(g), record) for g in graphs if (record := _programs(g)) is not None),
        pools=tuple(_pool_record(pool, [graph for _, graph in captured]) for pool in pools.values()),
        _alive=tuple(weakref.ref(graph) for graph in graphs),
        _none=none,
    )


def captured_graphs(compiled: Any) -> list[tuple[str, CapturedGraph]]:
    """What holds the plans of a compiled function, with the names of the graphs.

    Raises:
        ArgumentTypeError: It is not compiled.
    """
    graphs = [graph for graph, _ in _graphs_of(compiled)[0]]
    return [
        (_name(g), captured) for g in graphs if (captured := _captured(g)) is not None and not captured.runs_eagerly
    ]


def reset() -> None:
    """Drop all captures of the process, and the memory that they hold; the next call of each graph captures again.

    What Dynamo compiled stays; ``torch.compiler.reset()`` drops that.
    """
    for graph in list(_graphs):
        captured = _captured(graph)
        if captured is not None:
            captured.reset()


_NOT_CALLED = "none yet: call it first"
_REUSED = "none of its own: call it first, unless it shares those of an equal call of torch.compile"
_TOO_LATE = "none: Dynamo compiles it no more"
_LEFT_OUT = (
    "none: Dynamo leaves out modules of PyTorch's own that are compiled in place, such as nn.Sequential; "
    "use what torch.compile(module) returns, or compile a module that holds it"
)


def _graphs_of(compiled: Any) -> tuple[list[tuple[AnyGraph, Origin]], str, list[Fallback]]:
    """The graphs of what was given, what to say where there are none, and why it will have none."""
    # A module that was compiled in place, or a graph that a compiler of ours made.
    inner = getattr(compiled, "_compiled_call_impl", None) or getattr(compiled, "graph", None)
    if isinstance(inner, CompiledGraph | CapturedGraph):
        return [(inner, _graphs[inner])], _NOT_CALLED, []
    given = getattr(compiled, "_compiled_call_impl", None) or compiled
    listed = getattr(given, "graphs", None)
    if isinstance(listed, list):
        return [(graph, _graphs[graph]) for graph in listed if graph in _graphs], _NOT_CALLED, []
    backend = _torch_compat.compiled_backend(given)
    if backend is None:
        raise ArgumentTypeError(
            "torchair.explain takes what torch.compile returned",
            why=f"it was given {_shown(compiled)}, which is not compiled",
            fix='f = torch.compile(model, backend="npugraph_ex"); f(x); print(torchair.explain(f))',
        )
    wrapper = _torch_compat.shared_wrapper(given)
    codes = _torch_compat.compiled_codes(given) if wrapper is None else ()
    found = [(graph, origin) for graph, origin in list(_graphs.items()) if origin.belongs_to(backend, codes)]
    late = [] if found else list(_too_late(codes if wrapper is None else (wrapper,), wrapper is not None))
    if late:
        return found, _TOO_LATE, late
    return found, _REUSED if wrapper is not None else _NOT_CALLED if codes else _LEFT_OUT, []


def _too_late(codes: Iterable[types.CodeType], shared: bool) -> Iterator[Fallback]:
    """Why something has no graphs: Dynamo compiled its code for others, and compiles it no more."""
    for code in codes:
        own = (
            f"{code.co_name} (which stands for all functions and modules of PyTorch's own)" if shared else code.co_name
        )
        if reason := _limit_reached(code, own):
            yield Fallback(code.co_name, reason)


def _shown(value: Any) -> str:
    return f"a {type(value).__name__}" + (f" ({value.__name__})" if hasattr(value, "__name__") else "")


def _record(graph: AnyGraph, origin: Origin) -> GraphRecord:
    if isinstance(graph, CapturedGraph):
        state = "runs eagerly" if graph.runs_eagerly else _number(len(graph.captures), "capture")
        return GraphRecord(graph.name, "npugraph_ex", origin.function, graph.operators, state)
    return GraphRecord(graph.graph.name, "max-autotune", origin.function, len(graph.graph), f"{graph.engine} engine")


def _captured(graph: AnyGraph) -> CapturedGraph | None:
    """What holds the plans of a graph; None where another engine than the native one runs it."""
    if isinstance(graph, CapturedGraph):
        return graph
    return graph.executable.captured if isinstance(graph.executable, NativeExecutable) else None


def _fallbacks(graph: AnyGraph) -> Iterator[Fallback]:
    yield from graph.fallbacks
    captured = _captured(graph)
    if captured is not None and captured is not graph:
        yield from (dataclasses.replace(f, graph=_name(graph)) for f in captured.fallbacks)
    if isinstance(graph, CapturedGraph) and graph.native is not None and isinstance(found := load_support(), Rejection):
        option = graph.options.capture.native_code
        yield Fallback(graph.name, f"none of its operators became native code ({option}): {found.reason}")


def _pool_record(pool: Pool, graphs: Iterable[CapturedGraph]) -> PoolRecord:
    captures = [c for graph in graphs if graph.has_plans for c in list(graph.captures.values())]
    taken = [c.plan.arena_bytes for c in captures if c.pool is pool]
    return PoolRecord(len(taken), sum(taken), max(taken, default=0), pool.nbytes, pool.arenas)


def _programs(graph: AnyGraph) -> PartitionRecord | None:
    """What became C++ of a graph, if that was asked for."""
    if isinstance(graph, CapturedGraph):
        return graph.native
    return graph.executable.record if isinstance(graph.executable, NativeExecutable) else None


def _native_code(name: str, record: PartitionRecord) -> NativeCode:
    functions = sum(len(program.kernels) for program in record.programs)
    left = tuple((stands_for(operator), reason) for operator, reason in record.left.items())
    return NativeCode(name, len(record.programs), functions, left, tuple(record.super_kernels))


def _recompiles(found: Iterable[tuple[AnyGraph, Origin]]) -> list[Recompile]:
    seen: dict[int, Recompile] = {}
    for graph, origin in found:
        if origin.reason:  # forward and backward graph have one origin
            seen.setdefault(id(origin), Recompile(_name(graph), origin.reason))
    return list(seen.values())


def _limited(found: Iterable[tuple[AnyGraph, Origin]]) -> Iterator[Fallback]:
    """What Dynamo compiled so often that it leaves further calls to eager mode."""
    last: dict[int, tuple[AnyGraph, Origin, types.CodeType]] = {}
    for graph, origin in found:
        frame = None if origin.frame is None else origin.frame()
        if frame is not None:
            last[id(frame)] = graph, origin, frame
    for graph, origin, frame in last.values():
        if reason := _limit_reached(frame, origin.function):
            yield Fallback(_name(graph), reason)


def _limit_reached(code: types.CodeType, name: str) -> str:
    setting, limit = _torch_compat.recompile_limit()
    count = _torch_compat.compile_count(code)
    if count < limit:
        return ""
    return (
        f"Dynamo compiled {name} {count} times, its recompile_limit: further shapes and numbers run eagerly (with "
        "fullgraph=True they raise); compile with dynamic=True, pass numbers that change as tensors, or raise "
        f"torch._dynamo.config.{setting}"
    )


def _name(graph: AnyGraph) -> str:
    return graph.name if isinstance(graph, CapturedGraph) else graph.graph.name
