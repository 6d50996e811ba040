"""Records of what a compile did, which errors, logs and reports show."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from torchair.errors import Rejection

__all__ = [
    "CaptureRecord",
    "ConversionReport",
    "Fallback",
    "GraphRecord",
    "NativeCode",
    "PoolRecord",
    "Recapture",
    "Recompile",
    "Refused",
    "SuperKernel",
]


@dataclass(frozen=True, slots=True)
class Refused:
    """One FX node without an Ascend IR form."""

    target: str
    node: str
    rejection: Rejection
    source: str = ""


@dataclass(slots=True)
class ConversionReport:
    """What became of the nodes of one FX graph.

    Attributes:
        converted: Nodes per target that a registered converter converted.
        auto_converted: Nodes per target that automatic conversion converted.
        torch_calls: Nodes per target that run as their torch operator, outside Ascend IR; not exportable.
        refused: Why those have no Ascend IR form, one entry a node.
        derived: IR operators whose prototype was derived from a torch schema.
    """

    converted: Counter[str] = field(default_factory=Counter)
    auto_converted: Counter[str] = field(default_factory=Counter)
    torch_calls: Counter[str] = field(default_factory=Counter)
    refused: list[Refused] = field(default_factory=list)
    derived: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        lines = [
            f"converted: {sum(self.converted.values())} nodes of {len(self.converted)} operators",
            f"converted automatically: {_list(self.auto_converted)}",
            f"run as torch operators: {_list(self.torch_calls)}",
        ]
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class GraphRecord:
    """One graph that was compiled.

    Attributes:
        name: ``"graph_1"``; each mode counts its own.
        mode: ``"npugraph_ex"`` or ``"max-autotune"``.
        function: The function that it is from.
        operators: How many operators it has.
        state: How it runs.
    """

    name: str
    mode: str
    function: str
    operators: int
    state: str

    def __str__(self) -> str:
        of = f" of {self.function}" if self.function else ""
        operators = f"{self.operators} operator{'' if self.operators == 1 else 's'}"
        return f"{self.name}{of}: {operators}, {self.state}"


@dataclass(frozen=True, slots=True)
class SuperKernel:
    """A super kernel that the native engine made: one launch.

    Attributes:
        scope: Name of the scope.
        name: Its own name: ``"sk_<scope>_start_<first node>_end_<last node>"``.
        operators: How many nodes of the IR graph it computes.
        after: Why it does not belong to the one before it, of the same scope; empty for the first.
    """

    scope: str
    name: str
    operators: int
    after: str = ""

    def __str__(self) -> str:
        operators = f"{self.operators} operator{'' if self.operators == 1 else 's'}"
        return f"{self.name}: {operators}{f', split by {self.after}' if self.after else ''}"


@dataclass(frozen=True, slots=True)
class NativeCode:
    """What became C++ of a graph on the native engine.

    Attributes:
        graph: Name of the graph.
        programs: How many programs; each is one run of compiled code.
        functions: How many C++ functions these call in a row.
        left: Torch operators that are calls between programs, each with the reason.
        super_kernels: Those of the programs that are parts of ``torchair.scope.super_kernel``.
    """

    graph: str
    programs: int
    functions: int
    left: tuple[tuple[str, str], ...]
    super_kernels: tuple[SuperKernel, ...] = ()

    def __str__(self) -> str:
        programs = f"{self.programs} program{'' if self.programs == 1 else 's'}"
        functions = f"{self.functions} function{'' if self.functions == 1 else 's'}"
        left = "".join(f"\n    calls {operator}: {reason}" for operator, reason in self.left)
        kernels = "".join(f"\n    super kernel {kernel}" for kernel in self.super_kernels)
        return f"{self.graph}: {programs} of {functions}{kernels}{left}"


@dataclass(frozen=True, slots=True)
class CaptureRecord:
    """One capture of a graph that is kept.

    Attributes:
        graph: Name of the graph: ``"graph_1"``.
        key: The sizes that it is for: ``"[4, 8]"``, or ``"no_updated_input"``.
        launches: How many launches a replay makes.
        nbytes: Memory of its own: static outputs. That for intermediate values is the pool's.
        arena_nbytes: Memory of the pool that a run uses.
    """

    graph: str
    key: str
    launches: int
    nbytes: int
    arena_nbytes: int

    def __str__(self) -> str:
        launches = f"{self.launches} launch{'' if self.launches == 1 else 'es'}"
        own = f", {self.nbytes} of its own" if self.nbytes else ""
        return f"{self.graph} {self.key}: {launches}, {self.arena_nbytes} bytes of the pool{own}"


@dataclass(frozen=True, slots=True)
class PoolRecord:
    """Memory that captures use in turn.

    Attributes:
        captures: How many of these captures use it.
        apart_nbytes: What they would take if each had memory of its own.
        largest_nbytes: What the largest of them takes.
        nbytes: What the pool holds, which is its peak: it grows only. Other functions may use it, too.
        arenas: The most runs that went on at the same time; each took an arena of its own.
    """

    captures: int
    apart_nbytes: int
    largest_nbytes: int
    nbytes: int
    arenas: int

    @property
    def shared_nbytes(self) -> int:
        """Bytes that need not be there, since captures use the same ones."""
        return max(self.apart_nbytes - self.largest_nbytes, 0)

    def __str__(self) -> str:
        captures = f"{self.captures} capture{'' if self.captures == 1 else 's'}"
        arenas = f"{self.arenas} arena{'' if self.arenas == 1 else 's'}"
        need = f"{self.apart_nbytes} bytes apart, {self.largest_nbytes} shared"
        take = "takes" if self.captures == 1 else "take"
        return f"{captures} {take} {need}; the peak of the pool is {self.nbytes} in {arenas}"


@dataclass(frozen=True, slots=True)
class Recapture:
    """A capture that took the place of an earlier one for the same key.

    Attributes:
        graph: Name of the graph.
        key: The sizes that it is for.
        reason: ``"force_recapture"``, or what changed.
    """

    graph: str
    key: str
    reason: str

    def __str__(self) -> str:
        return f"{self.graph} {self.key}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Recompile:
    """Dynamo compiled a function once more.

    Attributes:
        graph: Name of the graph that it gave.
        reason: The guard that failed, in Dynamo's words.
    """

    graph: str
    reason: str

    def __str__(self) -> str:
        return f"{self.graph}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Fallback:
    """A graph, or a part of one, that does not run the way that the mode promises.

    Attributes:
        graph: Name of the graph.
        reason: Why.
        key: The sizes of the call that it happened at; empty when it happened at compilation.
        source: The user's line, where one is the cause.
    """

    graph: str
    reason: str
    key: str = ""
    source: str = ""

    def __str__(self) -> str:
        at = f" at {self.key}" if self.key else ""
        return f"{self.graph}{at}: {self.reason}" + (f" ({self.source})" if self.source else "")


def _list(counts: Counter[str]) -> str:
    return ", ".join(f"{name} ({n})" for name, n in counts.most_common()) or "none"
