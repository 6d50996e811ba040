"""``Plan``: a captured graph as a list of launches over slots; what the C++ runtime or its Python twin replays.

A plan is data, and made once for each shape key. It has no memory: :func:`torchair.runtime.instance.instantiate` makes
a replayable instance of it over an arena, one for each run that goes on at the same time.

A slot holds a value. Slots ``0 .. inputs - 1`` are the inputs of a call. *Held* slots are set when an instance is made:
constants, memory of the arena, views of those. All others live from the launch that writes them to the last that reads
them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from torchair._torch_compat import OpOverload

__all__ = ["Buffer", "Call", "Callback", "Item", "Launch", "Native", "Plan", "Pointer", "Slot", "Step", "slots_in"]


@dataclass(frozen=True, slots=True)
class Slot:
    """An argument that is read from a slot.

    Attributes:
        index: Which slot.
        number: It holds a number, which is converted to what the operator takes there: where a tensor is expected, to
            one that does not take part in type promotion.
    """

    index: int
    number: bool = False


@dataclass(frozen=True, slots=True)
class Buffer:
    """Memory of the arena as a tensor.

    Attributes:
        slot: Where it is held.
        dtype: Its dtype.
        offset: Where it begins in the arena, in bytes.
        sizes: Its shape.
        strides: Its strides, in elements.
        static: It lies in memory of the instance's own, which the next run overwrites but no other graph does.
    """

    slot: int
    dtype: torch.dtype
    offset: int
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    static: bool = False


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a dispatcher operator.

    Attributes:
        op: The overload; one that writes into given tensors (``out=``) has them among its arguments.
        args: One for each argument of the schema: a :class:`Slot`, a list with slots among its elements, or a constant.
        results: Slot of each result, -1 for one that nobody reads; empty when no result is wanted.
        may_alias: The schema says that results may be views of arguments.
    """

    op: OpOverload
    args: tuple[Any, ...]
    results: tuple[int, ...]
    may_alias: bool = False

    @property
    def reads(self) -> Sequence[int]:
        """Slots of the arguments."""
        return slots_in(self.args)

    @property
    def writes(self) -> Sequence[int]:
        """Slots of the results."""
        return self.results


@dataclass(frozen=True, slots=True)
class Item:
    """One element of the list or tuple in a slot."""

    container: int
    index: int
    result: int

    @property
    def reads(self) -> Sequence[int]:
        """The slot of the list."""
        return (self.container,)

    @property
    def writes(self) -> Sequence[int]:
        """The slot of the element."""
        return (self.result,)


@dataclass(frozen=True, slots=True)
class Callback:
    """A call of a Python function with one list, the values of ``args``; it returns the list of ``results``."""

    function: Callable[[list[Any]], list[Any]]
    args: tuple[int, ...]
    results: tuple[int, ...]

    @property
    def reads(self) -> Sequence[int]:
        """Slots of the arguments."""
        return self.args

    @property
    def writes(self) -> Sequence[int]:
        """Slots of the results."""
        return self.results


@dataclass(frozen=True, slots=True)
class Pointer:
    """An entry of the table of pointers of a native program: a byte of the tensor in a slot.

    Attributes:
        written: The program writes there.
    """

    slot: int
    offset: int
    written: bool


@dataclass(frozen=True, slots=True)
class Native:
    """A run of a native program.

    Attributes:
        program: The same as a Python function: takes the values of ``args``, returns the list of ``results``.
        args: Slots of its arguments.
        results: Slots of its results.
        fresh: Dtype, sizes and strides of the results that each run allocates, by slot; the others are held.
        given: Dtype, sizes and strides that it was compiled for, by slot of an argument.
        workspace: Slot of its workspace.
        errors: Bytes at the beginning of the workspace where it reports; see ``messages``.
        messages: What each int64 there means when it is not zero.
        stages: The stages, as the runner takes them, and how many.
        sizes: The table of sizes.
        pointers: The table of pointers.
        runner: Address of the C function that runs it; see ``runtime/native.h``.
        workers: At most so many threads run it; 0: all that there are.
    """

    program: Callable[..., list[Any]]
    args: tuple[int, ...]
    results: tuple[int, ...]
    fresh: Mapping[int, tuple[torch.dtype, tuple[int, ...], tuple[int, ...]]]
    given: Mapping[int, tuple[torch.dtype, tuple[int, ...], tuple[int, ...]]]
    workspace: int
    errors: int
    messages: tuple[str, ...]
    stages: bytes
    count: int
    sizes: tuple[int, ...]
    pointers: tuple[Pointer, ...]
    runner: int
    workers: int = 0

    @property
    def reads(self) -> Sequence[int]:
        """Slots of the arguments."""
        return self.args

    @property
    def writes(self) -> Sequence[int]:
        """Slots of the results."""
        return self.results


Launch = Call | Item | Callback | Native


def slots_in(args: Sequence[Any]) -> list[int]:
    """The slots among arguments, those in lists too."""
    found: list[int] = []
    for arg in args:
        if isinstance(arg, Slot):
            found.append(arg.index)
        elif isinstance(arg, list | tuple):
            found += slots_in(arg)
    return found


@dataclass(frozen=True, slots=True)
class Step:
    """A launch of the body of a plan.

    Attributes:
        launch: What runs.
        release: Slots that nobody reads after it.
        label: What errors and traces call it: operator and node.
        where: The user's source line; empty where it is not known.
        lane: Which lane runs it.
        after: Positions in ``Plan.steps`` of steps of other lanes that are finished before it starts: of each lane the
            last one, and none that the others imply.
        cores: How many workers it may use; 0: all.
        limit: The same, when all steps run on one lane and it need not share cores with others.
    """

    launch: Launch
    release: tuple[int, ...]
    label: str
    where: str = ""
    lane: int = 0
    after: tuple[int, ...] = ()
    cores: int = 0
    limit: int = 0


@dataclass(frozen=True, slots=True)
class Plan:
    """A captured graph.

    Attributes:
        slots: Number of slots.
        inputs: Number of inputs.
        constants: Values of slots that are constant.
        buffers: Values that lie in the arena.
        arena_bytes: Size of the arena that it needs.
        static_bytes: Size of the memory that holds static outputs.
        held_views: Views of held slots; they run when an instance is made.
        kept_views: Views of inputs that rarely change; they run again when one of ``watched`` is another tensor.
        watched: Inputs that rarely change: parameters and buffers.
        steps: The launches of a run, in program order, which is always a legal one. The steps of one lane run one after
            the other, those of several lanes at the same time as far as ``Step.after`` lets them.
        outputs: Slots of the outputs.
        specs: Dtype, sizes and strides of the tensors in slots, where these are known: a launch whose arguments are as
            promised may run its kernel directly.
        lanes: Label of each lane. The first one, of the default stream, runs in the thread of the caller, the others in
            threads of their own.
        unordered: Steps of two lanes, maker and user of a value, that are in order only because the recorder saw that
            they have to be: what the user wrote does not say so.
    """

    slots: int
    inputs: int
    constants: Mapping[int, Any]
    buffers: Sequence[Buffer]
    arena_bytes: int
    static_bytes: int
    held_views: Sequence[Call | Item]
    kept_views: Sequence[Call]
    watched: Sequence[int]
    steps: Sequence[Step]
    outputs: Sequence[int]
    specs: Mapping[int, tuple[torch.dtype, tuple[int, ...], tuple[int, ...]]] = field(default_factory=dict)
    lanes: tuple[str, ...] = ("",)
    unordered: tuple[tuple[int, int], ...] = ()

    def __str__(self) -> str:
        buffers = f"{len(self.buffers)} buffers in {self.arena_bytes} bytes"
        views = f"{len(self.held_views)} views made ahead, {len(self.kept_views)} kept"
        lines = [
            f"{self.inputs} inputs, {len(self.steps)} launches, {buffers}, {views}",
            *(f"  {self._lane(i, step)}{_shown(step)}" for i, step in enumerate(self.steps)),
            f"  return {', '.join(f'${slot}' for slot in self.outputs)}",
        ]
        return "\n".join(lines)

    def _lane(self, position: int, step: Step) -> str:
        """Where and when a step runs, in plans of several lanes."""
        if len(self.lanes) == 1:
            return ""
        lane = self.lanes[step.lane] or "default"
        after = f" after {', '.join(map(str, step.after))}" if step.after else ""
        cores = f" on {step.cores} cores" if step.cores else ""
        return f"{position} [{lane}{after}{cores}] "


def _shown(step: Step) -> str:
    launch = step.launch
    if isinstance(launch, Item):
        return f"${launch.result} = ${launch.container}[{launch.index}]"
    args = launch.args if isinstance(launch, Call) else tuple(Slot(a) for a in launch.args)
    name = str(launch.op) if isinstance(launch, Call) else f"python: {step.label}"
    if isinstance(launch, Native):
        name = f"native program of {launch.count} stages"
    left = ", ".join("_" if r < 0 else f"${r}" for r in launch.results)
    return f"{left + ' = ' if left else ''}{name}({', '.join(_argument(a) for a in args)})"


def _argument(value: Any) -> str:
    if isinstance(value, Slot):
        return f"${value.index}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(_argument(v) for v in value)}]"
    return repr(value)
