"""Instances of plans: the C++ one, and its twin in Python for machines without a compiler."""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Callable, Iterator, Sequence
from types import ModuleType
from typing import Any, Protocol

import torch

from torchair import _torch_compat
from torchair.config import Environment
from torchair.errors import ExecutionError, Rejection, TorchAirError
from torchair.runtime.extension import load_extension
from torchair.runtime.plan import Call, Callback, Item, Launch, Native, Plan, Slot
from torchair.runtime.python_lanes import run_lanes

__all__ = ["Arena", "Entry", "Instance", "new_arena", "new_entry"]


class Arena(Protocol):
    """Memory that the instances of one pool use in turn."""

    @property
    def nbytes(self) -> int:
        """Bytes that it holds."""

    @property
    def storage_id(self) -> int:
        """Identity of its storage, as of :func:`torchair._torch_compat.storage_id`."""

    def reserve(self, nbytes: int) -> None:
        """Hold at least so many bytes; tensors that were made over it stay valid."""


def new_arena() -> Arena:
    """An empty arena for the runtime of this machine."""
    extension = load_extension()
    if isinstance(extension, ModuleType):
        arena: Arena = extension.Arena()
        return arena
    return _PythonArena()


class Entry(Protocol):
    """Where calls find what to replay, so that they need no Python."""

    @property
    def used(self) -> int | None:
        """The number of the last run."""

    def point(self, free: list[Arena], instances: dict[Arena, Instance]) -> None:
        """Replay from now on.

        Args:
            free: Arenas that no run uses; a run takes the last one, and gives it back.
            instances: The instance over each arena; a call over another one is left to others.
        """

    def clear(self) -> None:
        """Leave all calls to others."""

    def callable(self, otherwise: Callable[..., Any], written: list[int]) -> Callable[..., Any]:
        """A function that takes the inputs one by one and returns the list of outputs.

        Args:
            otherwise: What takes the calls that are left to others.
            written: Inputs whose versions it increments.
        """


def new_entry(runs: Iterator[int]) -> Entry | None:
    """An entry that leaves all calls to others at first; None where there is no C++ runtime.

    Args:
        runs: Numbers that order all runs of the process.
    """
    extension = load_extension()
    if isinstance(extension, Rejection):
        return None
    entry: Entry = extension.Entry(runs)
    return entry


class Instance:
    """A plan over an arena, ready to run. One run at a time.

    Args:
        plan: What runs.
        arena: Where its intermediate values lie; enlarged to what the plan needs.
        static: Where its static outputs lie, likewise; memory of its own when omitted.
        one_lane: Run all steps in the thread of the caller, whatever lanes the plan has.

    Attributes:
        plan: What runs.
        arena: Where its intermediate values lie.
        core: What runs it.
        replay: :meth:`run` without words for what fails; who calls it calls :meth:`explain` then.
    """

    def __init__(self, plan: Plan, arena: Arena, static: Arena | None = None, *, one_lane: bool = False) -> None:
        self.plan = plan
        self.arena = arena
        arena.reserve(plan.arena_bytes)
        self._static = (new_arena() if static is None else static) if plan.static_bytes else None
        if self._static is not None:
            self._static.reserve(plan.static_bytes)
        extension = load_extension()
        if isinstance(extension, Rejection):
            assert isinstance(arena, _PythonArena)
            self.core: Any = _PythonCore(plan, arena, self._static)
        else:
            self.core = _native_core(extension, plan, arena, self._static)
        if one_lane or Environment.read().single_lane:
            self.core.use_one_lane()
        self.replay: Callable[[list[Any]], list[Any]] = self.core.run

    def run(self, inputs: list[Any]) -> list[Any]:
        """Run the plan; the list is emptied.

        Raises:
            ExecutionError: A launch failed; with the operator's name and the user's line. The instance can be used
                again.
        """
        try:
            return self.replay(inputs)
        except Exception as error:
            self.explain(error)
            raise

    def timed_run(self, inputs: list[Any]) -> tuple[list[Any], list[tuple[int, int]]]:
        """Run the plan; also when each step began and ended, in nanoseconds from the begin of the run."""
        self.core.time_steps(True)
        try:
            return self.run(inputs), self.core.times
        finally:
            self.core.time_steps(False)

    def explain(self, error: BaseException) -> None:
        """Name the launch that failed in the last run; leave alone what ends a program (``KeyboardInterrupt``).

        Raises:
            ExecutionError: It did; nothing is raised for errors of ours, and for those outside launches.
        """
        failed = self.core.failed
        if failed >= 0 and isinstance(error, Exception) and not isinstance(error, TorchAirError):
            step = self.plan.steps[failed]
            raise ExecutionError.of(error, step.label, where=step.where) from error


def _native_core(extension: ModuleType, plan: Plan, arena: Any, static: Any) -> Any:
    core = extension.PlanInstance(plan.slots, plan.inputs, arena, _products_are_exact())
    for slot, value in plan.constants.items():
        core.hold(slot, value)
    for slot, spec in plan.specs.items():
        core.describe(slot, *spec)
    for b in plan.buffers:
        core.hold_buffer(b.slot, static if b.static else arena, b.dtype, b.offset, b.sizes, b.strides)
    for view in plan.held_views:
        if isinstance(view, Item):
            core.hold_item(view.container, view.index, view.result)
        else:
            core.hold_views(*_name(view), _encoded(view), view.results)
    for view in plan.kept_views:
        core.add_kept_view(*_name(view), _encoded(view), view.results)
    core.watch(plan.watched)
    for step in plan.steps:
        launch = step.launch
        core.place(step.lane, step.after, step.cores, step.limit)
        if isinstance(launch, Call):
            core.add_call(*_name(launch), _encoded(launch), launch.results, step.release, launch.may_alias)
        elif isinstance(launch, Item):
            core.add_item(launch.container, launch.index, launch.result, step.release)
        elif isinstance(launch, Native):
            core.add_native(
                launch.runner,
                launch.stages,
                launch.count,
                launch.sizes,
                [(p.slot, p.offset, p.written) for p in launch.pointers],
                [(slot, *spec) for slot, spec in launch.fresh.items()],
                [(slot, *spec) for slot, spec in launch.given.items()],
                launch.workspace,
                launch.errors,
                launch.messages,
                launch.results,
                step.release,
            )
        else:
            core.add_callback(launch.function, launch.args, launch.results, step.release)
    core.finish(plan.outputs)
    return core


def _products_are_exact() -> bool:
    """Whether products of float32 are what BLAS gives: no setting lets PyTorch round their operands."""
    try:
        if torch.get_float32_matmul_precision() != "highest":
            return False
    except RuntimeError:  # set for single backends
        return False
    matmul = getattr(torch.backends.mkldnn, "matmul", None)  # since 2.9
    return getattr(matmul, "fp32_precision", "none") in ("none", "ieee")


def _name(call: Call) -> tuple[str, str]:
    schema = call.op._schema
    return schema.name, schema.overload_name


def _encoded(call: Call) -> list[Any]:
    """Arguments as the C++ side reads them.

    ``(0, constant)``, ``(1, slot)``, ``(2, [of these])``, or ``(3, slot)`` for a slot with a number.
    """
    return [_encode(arg) for arg in call.args]


def _encode(arg: Any) -> tuple[int, Any]:
    if isinstance(arg, Slot):
        return 3 if arg.number else 1, arg.index
    if isinstance(arg, list | tuple) and any(isinstance(a, Slot) for a in arg):
        return 2, [_encode(a) for a in arg]
    return 0, arg


# --- without a compiler ------------------------------------------------------------------------------------------


class _PythonArena:
    def __init__(self) -> None:
        self.storage = torch.UntypedStorage(0)  # type: ignore[no-untyped-call]

    @property
    def nbytes(self) -> int:
        return self.storage.nbytes()

    @property
    def storage_id(self) -> int:
        return int(self.storage._cdata)

    def reserve(self, nbytes: int) -> None:
        if nbytes > self.storage.nbytes():
            self.storage.resize_(nbytes)

    def tensor(self, dtype: torch.dtype, offset: int, sizes: Sequence[int], strides: Sequence[int]) -> torch.Tensor:
        with torch.inference_mode(mode=False):
            return torch.empty(0, dtype=dtype).set_(self.storage, offset // dtype.itemsize, sizes, strides)


class _PythonCore:
    """What ``PlanInstance`` of ``plan.cpp`` does, in Python.

    ``Step.cores`` is not kept: from Python, PyTorch's number of threads is set for all threads of the process.
    """

    def __init__(self, plan: Plan, arena: _PythonArena, static: Any) -> None:
        self.failed = -1
        self._plan = plan
        self._arena = arena
        self._held: dict[int, Any] = dict(plan.constants)
        for b in plan.buffers:
            self._held[b.slot] = (static if b.static else arena).tensor(b.dtype, b.offset, b.sizes, b.strides)
        with torch.inference_mode(mode=False), _torch_compat.below_autograd():
            for view in plan.held_views:
                self._launch(view, self._held)
        self._watched: list[Any] = []
        self._one_lane = False
        self._delays: tuple[random.Random, float] | None = None
        self._times = False
        self.times: list[tuple[int, int]] = []

    def use_one_lane(self) -> None:
        self._one_lane = True

    def delay_steps(self, seed: int, most_microseconds: int) -> None:
        self._delays = (random.Random(seed), most_microseconds * 1e-6) if most_microseconds else None

    def time_steps(self, on: bool) -> None:
        self._times = on

    def run(self, inputs: list[Any]) -> list[Any]:
        self.failed = -1
        if len(inputs) != self._plan.inputs:
            raise RuntimeError(f"the plan takes {self._plan.inputs} inputs, not {len(inputs)}")
        slots = {**self._held, **dict(enumerate(inputs))}
        inputs.clear()
        steps = self._plan.steps
        self.times = [(-1, -1)] * len(steps) if self._times else []
        began = time.perf_counter_ns()

        def step(position: int) -> None:
            self._delay()
            start = time.perf_counter_ns() - began
            self._launch(steps[position].launch, slots)
            for slot in steps[position].release:
                slots.pop(slot, None)
            if self._times:
                self.times[position] = start, time.perf_counter_ns() - began
            self._delay()

        with self._state():
            for view in self._plan.kept_views:
                self._launch(view, slots)
            if len(self._plan.lanes) > 1 and not self._one_lane and not _torch_compat.has_dispatch_modes():
                failure = run_lanes(self._plan, step, self._state_of_others())
                if failure is not None:
                    self.failed, error = failure
                    raise error
            else:
                for i in range(len(steps)):
                    self.failed = i
                    step(i)
        self.failed = -1
        return [slots[slot] for slot in self._plan.outputs]

    @staticmethod
    @contextlib.contextmanager
    def _state() -> Iterator[None]:
        with torch.no_grad(), _torch_compat.below_autograd(), _torch_compat.disabled_autocast():
            yield

    def _state_of_others(self) -> Callable[[], contextlib.AbstractContextManager[None]]:
        """What a thread enters to have the state of this one."""
        inference = torch.is_inference_mode_enabled()

        @contextlib.contextmanager
        def state() -> Iterator[None]:
            with torch.inference_mode(inference), self._state():
                yield

        return state

    def _delay(self) -> None:
        if self._delays is not None:
            random_numbers, most = self._delays
            time.sleep(max(0.0, random_numbers.uniform(-most, most)))

    def _launch(self, launch: Launch, slots: dict[int, Any]) -> None:
        if isinstance(launch, Item):
            slots[launch.result] = slots[launch.container][launch.index]
            return
        if isinstance(launch, Native):
            for slot, value in zip(launch.results, launch.program(*(slots[a] for a in launch.args)), strict=True):
                if slot in launch.fresh:
                    slots[slot] = value
                else:
                    slots[slot].copy_(value)
            return
        if isinstance(launch, Callback):
            results = launch.function([slots[a] for a in launch.args])
        else:
            given = [_read(arg, slots) for arg in launch.args]
            names = launch.op._schema.arguments
            positional = [v for v, a in zip(given, names, strict=True) if not a.kwarg_only]
            named = {a.name: v for v, a in zip(given, names, strict=True) if a.kwarg_only}
            returned = launch.op(*positional, **named)
            results = list(returned) if len(launch.op._schema.returns) > 1 else [returned]
            if not launch.may_alias:
                results = [self._own(r) for r in results]
        slots.update((slot, value) for slot, value in zip(launch.results, results, strict=False) if slot >= 0)

    def _own(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            shares = value.layout is torch.strided and value.untyped_storage()._cdata == self._arena.storage._cdata
            return value.clone() if shares else value
        return [self._own(v) for v in value] if isinstance(value, list | tuple) else value


def _read(arg: Any, slots: dict[int, Any]) -> Any:
    if isinstance(arg, Slot):
        return slots[arg.index]
    return [_read(a, slots) for a in arg] if isinstance(arg, list | tuple) else arg
