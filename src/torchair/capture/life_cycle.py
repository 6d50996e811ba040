"""One FX graph in capture mode: captured for each shape key, replayed, and run eagerly where it cannot be captured.

The path of a call that replays is short, since small graphs spend their time there: ``CapturedGraph.__call__`` looks up
the capture, ``Capture.run`` borrows an arena. Everything else is on the way to the first replay.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
import warnings
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, ClassVar

import torch
from torch import fx

from torchair import _torch_compat, contracts
from torchair.capture.bounds import BOUNDS, LAUNCH_BYTES, RUNS
from torchair.capture.graph_inputs import check_inputs
from torchair.capture.pools import Pool, named_pool, shared_pool
from torchair.capture.record import Recorder
from torchair.capture.values import KeySource, key_sources, key_symbols
from torchair.config import Options
from torchair.errors import CaptureError
from torchair.frontend import FxPassRecord
from torchair.frontend.reinplace import ReinplaceRecord
from torchair.logs import npugraph_ex_logger as logger
from torchair.native import PartitionRecord
from torchair.report import CaptureRecord, Fallback, Recapture
from torchair.runtime.huge_pages import ask_for_huge_pages
from torchair.runtime.instance import Arena, Entry, Instance, new_arena, new_entry
from torchair.runtime.plan import Plan
from torchair.source_lines import source_line

__all__ = ["Capture", "CapturedGraph", "Key", "StaticCapture", "Timing"]

Key = tuple[Any, ...]

#: Takes a plan that ran, when the run began, and when each step began and ended after that; all in nanoseconds.
Timing = Callable[[Plan, int, list[tuple[int, int]]], object]


class _Capturing:
    """Captures are made one at a time: several threads may call a graph for the first time."""

    def __init__(self) -> None:
        self.renew()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self.renew)

    def renew(self) -> None:
        """In a child process no thread is left that would give the lock back."""
        self.lock = threading.RLock()

    def __enter__(self) -> None:
        self.lock.acquire()

    def __exit__(self, *error: object) -> None:
        self.lock.release()


_capturing = _Capturing()

#: Pairs of operators that a warning names.
_SHOWN_PAIRS = 5

#: Recaptures that a graph remembers, the last ones.
_REMEMBERED = 1000


def _opaque_operators(graph: fx.Graph) -> dict[str, list[str]]:
    """The custom operators in a graph, and the user's lines that call them."""
    found: dict[str, list[str]] = {}
    for node in graph.nodes:
        if isinstance(node.target, _torch_compat.OpOverload) and not contracts.is_trusted(node.target):
            lines = found.setdefault(str(node.target), [])
            if (line := source_line(node)) and line not in lines:
                lines.append(line)
    return found


class Capture:
    """One plan, and an instance of it for each arena that it ran with.

    Attributes:
        plan: What runs; with ``one_lane`` in one thread, whatever lanes it has.
        pool: Where its runs borrow arenas.
        entry: Where calls replay it that need no Python, once there is one.
        checked: A replay showed that custom operators return what their fake kernels promise.
        timing: Called after each run, if it is not None, with the plan, when the run began in nanoseconds, and when
            each step began and ended, in nanoseconds from then.
    """

    __slots__ = ("_free", "_instances", "_one_lane", "_used", "checked", "entry", "plan", "pool", "timing")

    def __init__(self, plan: Plan, pool: Pool, *, one_lane: bool = False) -> None:
        self.plan = plan
        self._one_lane = one_lane
        self.pool = pool
        self.entry: Entry | None = None
        self.checked = False
        self.timing: Timing | None = None
        self._used = next(RUNS)
        self._free = pool.free
        self._instances: dict[Arena, Instance] = {}

    def run(self, args: list[Any]) -> list[Any]:
        """Replay; several threads may. The list is emptied."""
        self._used = next(RUNS)
        try:
            arena = self._free.pop()
        except IndexError:
            arena = self.pool.new_arena()
        try:
            instance = self._instances.get(arena)
            if instance is None:
                instance = self._instances[arena] = Instance(self.plan, arena, one_lane=self._one_lane)
            if self.timing is not None:
                return self._timed(instance, args, self.timing)
            try:
                return instance.replay(args)
            except Exception as error:
                instance.explain(error)
                raise
        finally:
            self._free.append(arena)

    def _timed(self, instance: Instance, args: list[Any], timing: Timing) -> list[Any]:
        begin = time.perf_counter_ns()
        results, times = instance.timed_run(args)
        timing(self.plan, begin, times)
        return results

    def point(self, entry: Entry) -> None:
        """Let calls replay it without Python."""
        self.entry = entry
        entry.point(self._free, self._instances)

    @property
    def used(self) -> int:
        """Orders captures by their last run."""
        return max(self._used, (self.entry and self.entry.used) or 0)

    @property
    def nbytes(self) -> int:
        """Bytes of memory for tensors that is its own."""
        return 0

    @property
    def memory(self) -> torch.device | None:
        """The device whose memory it holds: none."""
        return None

    @property
    def held_bytes(self) -> int:
        """Bytes that are free when it is dropped."""
        own_arena = 0 if self.pool.shared else self.plan.arena_bytes
        return LAUNCH_BYTES * len(self.plan.steps) + self.plan.static_bytes + own_arena


class StaticCapture(Capture):
    """A capture whose outputs lie in memory that the next run overwrites.

    One run after the other gets the same tensors. A run that begins before another one ends gets tensors of its own;
    so does one that is given results of an earlier run, which it would overwrite while it reads them.

    Args:
        plan: What runs.
        pool: Where its runs borrow arenas.
        memory: Where its outputs lie; captures that are given the same memory overwrite each other's outputs.
    """

    __slots__ = ("_idle", "_pairs", "_static")

    def __init__(self, plan: Plan, pool: Pool, memory: Arena | None = None, *, one_lane: bool = False) -> None:
        super().__init__(plan, pool, one_lane=one_lane)
        self._static: list[Arena] = [new_arena() if memory is None else memory]
        self._idle = [0]  # which of them no run uses, the first one last
        self._pairs: dict[tuple[Arena, int], Instance] = {}

    def run(self, args: list[Any]) -> list[Any]:
        """Replay; the list is emptied."""
        self._used = next(RUNS)
        place = self._take_place(args)
        try:
            arena = self._free.pop()
        except IndexError:
            arena = self.pool.new_arena()
        try:
            instance = self._pairs.get((arena, place))
            if instance is None:
                instance = self._pairs[arena, place] = Instance(
                    self.plan, arena, self._static[place], one_lane=self._one_lane
                )
            return instance.run(args) if self.timing is None else self._timed(instance, args, self.timing)
        finally:
            self._free.append(arena)
            self._idle.append(place)
            self._idle.sort(reverse=True)

    def point(self, entry: Entry) -> None:
        """Leave calls to :meth:`run`."""
        entry.clear()

    def _take_place(self, args: Sequence[Any]) -> int:
        """Memory for the outputs that no run uses and no argument lies in."""
        read = {
            _torch_compat.storage_id(arg)
            for arg in args
            if isinstance(arg, torch.Tensor) and arg.layout is torch.strided and arg.device.type == "cpu"
        }
        for at in range(len(self._idle) - 1, -1, -1):
            try:
                place = self._idle.pop(at)
            except IndexError:  # another thread took it
                continue
            if self._static[place].storage_id not in read:
                return place
            self._idle.append(place)
            self._idle.sort(reverse=True)
        self._static.append(new_arena())
        return len(self._static) - 1

    @property
    def nbytes(self) -> int:
        """Bytes of memory for tensors that is its own."""
        return sum(memory.nbytes for memory in self._static)


class CapturedGraph:
    """One FX graph, captured once for each shape key and replayed.

    Attributes:
        number: Counts the graphs of the process from 1.
        gm: The FX graph as it is captured.
        captures: What was captured, by shape key.
        recaptures: The last recaptures.
        fallbacks: Why the graph runs eagerly; empty while it is captured.
        fx_passes: A record of each pass over the FX graph.
        reinplaced: What writes in place, and what copies.
        native: What became native programs, with ``static_kernel_compile`` or ``super_kernel_optimize``.

    Args:
        on_plan: Called with each plan that is captured, before it runs.
        explicit_order: The user says himself which streams wait for which, so what he left out is warned about.
    """

    _boxed_call = True

    #: Its captures are plans.
    has_plans: ClassVar[bool] = True

    def __init__(
        self,
        number: int,
        gm: fx.GraphModule,
        options: Options,
        *,
        static_inputs: Collection[int] = (),
        training: bool = False,
        fx_passes: tuple[FxPassRecord, ...] = (),
        reinplaced: ReinplaceRecord | None = None,
        native: PartitionRecord | None = None,
        on_plan: Callable[[Plan], object] | None = None,
        explicit_order: bool = True,
    ) -> None:
        self.number = number
        self._on_plan = on_plan
        self._timing: Timing | None = None
        self.fx_passes = fx_passes
        self.reinplaced = reinplaced
        self.native = native
        self.gm = gm
        self.options = options
        self.static_inputs = frozenset(static_inputs)
        self.captures: dict[Key, Capture] = {}
        self.recaptures: deque[Recapture] = deque(maxlen=_REMEMBERED)
        self.fallbacks: list[Fallback] = []
        self.static_outputs = self._wants_static_outputs(training)
        self._checked = False
        self._asked_for_pages = False
        self._only: Capture | None = None  # the capture of a graph without symbolic sizes
        self._entry: Entry | None = None  # where calls replay it
        self._ready: dict[Key, Capture] = {}  # captures that are replayed without further questions
        self._read_key: Callable[[Sequence[Any]], Key] = _no_key
        self._pool: Pool | None = None
        self._symbols: list[Any] = []
        self._opaque = _opaque_operators(gm.graph)
        self._dropped: set[Key] = set()  # captures that the bounds of the process cost
        BOUNDS.add(self)
        if options.run_eagerly:
            self._fall_back("force_eager = True")
            return
        try:
            self._recorder = Recorder(
                gm, self.static_inputs, static_outputs=self.static_outputs, explicit_order=explicit_order
            )
            self._symbols = key_symbols(gm.graph)
            self._read_key = _key_reader(key_sources(gm.graph, self._symbols))
        except CaptureError as error:
            self._give_up(error)

    @property
    def name(self) -> str:
        """What logs and counters call it."""
        return f"graph_{self.number}"

    @property
    def operators(self) -> int:
        """How many operators it has."""
        return sum(node.op == "call_function" for node in self.gm.graph.nodes)

    @property
    def runs_eagerly(self) -> bool:
        """Whether its calls run the FX graph operator by operator, from now on."""
        return bool(self.fallbacks)

    def __call__(self, args: list[Any]) -> Sequence[Any]:
        """Run with the flat arguments of the FX graph; the list is emptied, so that inputs can be freed early."""
        capture = self.ready(args)
        return self._run(self._read_key(args), args) if capture is None else capture.run(args)

    def ready(self, args: Sequence[Any]) -> Capture | None:
        """The capture that a call with these arguments replays without further questions; None where there is none."""
        return self._only or self._ready.get(self._read_key(args))

    def replaying(self, otherwise: Callable[..., Any], written: Sequence[int] = ()) -> Callable[..., Any]:
        """A function of the arguments of the FX graph, one by one, that replays what is ready.

        Args:
            otherwise: Takes the calls for which nothing is.
            written: Arguments whose versions a replay increments, for autograd.
        """

        def call(*args: Any) -> Any:
            capture = self.ready(args)
            if capture is None:
                return otherwise(*args)
            torch.autograd.graph.increment_version([args[i] for i in written])
            return capture.run(list(args))

        self._entry = new_entry(RUNS)
        self._replay_only(self._only)
        return call if self._entry is None else self._entry.callable(call, list(written))

    def __repr__(self) -> str:
        state = "runs eagerly" if self.runs_eagerly else f"{len(self.captures)} captures"
        return f"<CapturedGraph {self.name}: {state}>"

    def check(self, args: Sequence[Any]) -> None:
        """Compare arguments with what the graph was compiled for.

        Raises:
            GraphInputError: The dtype, the sizes or the strides of a tensor differ.
            UnsupportedGraphError: A tensor has a layout that fake tensors do not show.
        """
        try:
            symbols = dict(zip(self._symbols, self._read_key(args), strict=True))
        except (IndexError, AttributeError):  # another number of inputs, or of dimensions, which the check reports
            symbols = {}
        check_inputs(self.gm.graph, args, symbols)
        self._checked = True

    def reset(self) -> None:
        """Drop all captures; the next call captures again. A graph that fell back for its captures starts anew."""
        with _capturing:
            self._drop()
            self.recaptures.clear()
            if self.fallbacks and self.fallbacks[0].reason.startswith(_LIMIT):
                self.fallbacks.clear()

    def plan_for(self, args: Sequence[Any]) -> Plan | None:
        """The plan that a call with these arguments replays; None where none is captured."""
        capture = self.captures.get(self._read_key(args))
        return None if capture is None else capture.plan

    def drop(self, key: Key) -> None:
        """Forget one capture; the next call with its key captures again."""
        self._ready.pop(key, None)
        self._replay_only(None)
        if self.captures.pop(key, None) is not None:
            self._dropped.add(key)

    def records(self) -> list[CaptureRecord]:
        """What is captured now."""
        return [record for record, _ in self.plans()]

    def plans(self) -> list[tuple[CaptureRecord, Plan]]:
        """What is captured now, with the plans."""
        return [
            (CaptureRecord(self.name, _text(key), len(c.plan.steps), c.nbytes, c.plan.arena_bytes), c.plan)
            for key, c in list(self.captures.items())
        ]

    @contextlib.contextmanager
    def timing(self, timing: Timing) -> Iterator[None]:
        """Time all runs, which go through Python as long as that lasts."""
        self._timing = timing
        self._replay_only(None)
        for capture in list(self.captures.values()):
            capture.timing = timing
        try:
            yield
        finally:
            self._timing = None
            for capture in list(self.captures.values()):
                capture.timing = None
            if self._replays_directly and not self._symbols:
                self._replay_only(self.captures.get(()))

    def pools(self) -> list[Pool]:
        """Where its captures borrow memory."""
        return list({id(c.pool): c.pool for c in list(self.captures.values())}.values())

    # --- on the way to a replay ---

    def _run(self, key: Key, args: list[Any]) -> Sequence[Any]:
        """A call that has no capture ready."""
        if not self._checked:
            self.check(args)
        if self.fallbacks:
            return self._run_eagerly(args)
        with _capturing:
            capture = self._capture_for(key, args)
        if capture is None:
            return self._run_eagerly(args)
        # Plans believe what fake kernels say, so the first replay of each is checked.
        if not self._opaque or capture.checked:
            return self._replay(capture, args)
        with contracts.verifying_results(self._opaque):
            results = self._replay(capture, args)
        capture.checked = True
        return results

    def _replay(self, capture: Capture, args: list[Any]) -> Sequence[Any]:
        return capture.run(args)

    def _capture_for(self, key: Key, args: Sequence[Any]) -> Capture | None:
        """The capture to replay, made if need be; None to run eagerly."""
        found = self.captures.get(key)
        if found is not None:
            reason = self._why_recapture(found, args)
            if reason is None:
                logger.debug(
                    "Find captured AclGraph{id: %s} of fx_graph %s with graph key {%s}",
                    id(found),
                    self.name,
                    _text(key),
                )
                return found
            logger.info("The current AclGraph needs to be recaptured: %s of fx_graph %s", reason, self.name)
            _torch_compat.counters("npugraph_ex")[f"recapture_due_to_{reason}_{self.name}"] += 1
            self.recaptures.append(Recapture(self.name, _text(key), reason))
        else:
            logger.debug("No find captured AclGraph of fx_graph %s with graph key {%s}", self.name, _text(key))
            if len(self.captures) >= self.options.capture.capture_limit:
                self._reach_limit(key)
                return None
        try:
            capture = self._record(key, args)
        except CaptureError as error:
            self._give_up(error, key)
            return None
        self.captures[key] = capture
        if self._timing is not None:
            capture.timing = self._timing
        if key in self._dropped:
            self._dropped.discard(key)
            self.recaptures.append(Recapture(self.name, _text(key), "it was dropped: captures held more than they may"))
        if found is None:
            _torch_compat.counters("npugraph_ex")[f"captured_{self.name}"] += 1
        logger.info("Success to capture fx_graph %s for graph key{%s}", self.name, _text(key))
        if self._replays_directly:
            self._ready[key] = capture
            self._replay_only(None if self._symbols or self._timing is not None else capture)
        BOUNDS.enforce(capture)
        return capture

    def _keep_bounds(self, newest: Any) -> None:
        """A capture grew: others may have to go."""
        with _capturing:
            BOUNDS.enforce(newest)

    def _replay_only(self, capture: Capture | None) -> None:
        """From now on replay a capture whatever the arguments are, or, for None, none."""
        self._only = capture
        if self._entry is not None:
            if capture is None:
                self._entry.clear()
            else:
                capture.point(self._entry)

    @property
    def _replays_directly(self) -> bool:
        """Whether a call that finds a capture needs nothing but to replay it."""
        return not self.options.capture.force_recapture

    def _why_recapture(self, capture: Capture, args: Sequence[Any]) -> str | None:
        """What the counters call the reason to capture an existing key again."""
        return "force_recapture" if self.options.capture.force_recapture else None

    def _record(self, key: Key, args: Sequence[Any]) -> Capture:
        """Capture the graph for a key."""
        plan = self._recorder.record(dict(zip(self._symbols, key, strict=False)))
        if self._on_plan is not None:
            self._on_plan(plan)
        self._warn_of_order(plan)
        return self._new_capture(plan, args)

    def _warn_of_order(self, plan: Plan) -> None:
        """Say where one stream uses what another one makes, and does not wait for it."""
        if plan.unordered:
            pairs = [
                f"{user.label} on stream {plan.lanes[user.lane] or 'default'} uses what {maker.label} on stream "
                f"{plan.lanes[maker.lane] or 'default'} makes{f' ({user.where})' if user.where else ''}"
                for maker, user in ((plan.steps[a], plan.steps[b]) for a, b in plan.unordered[:_SHOWN_PAIRS])
            ]
            more = len(plan.unordered) - len(pairs)
            logger.warning_once(
                f"{self.name}: a stream does not wait for what it uses. On the CPU it waits all the same; on a device "
                f"it would be a race. {'; '.join(pairs)}{f'; and {more} more' if more else ''}"
            )

    def _new_capture(self, plan: Plan, args: Sequence[Any]) -> Capture:
        if not self._asked_for_pages:
            self._asked_for_pages = True
            ask_for_huge_pages(args[i] for i in self.static_inputs if isinstance(args[i], torch.Tensor))
        pool = self._pool_for_capture()
        kind = StaticCapture if self.static_outputs else Capture
        return kind(plan, pool, one_lane=self.options.enable_single_stream)

    def _pool_for_capture(self) -> Pool:
        options = self.options.capture
        if options.use_graph_pool is not None:
            return named_pool(options.use_graph_pool)
        return shared_pool() if options.reuse_graph_pool_in_same_fx else Pool(shared=False)

    def _wants_static_outputs(self, training: bool) -> bool:
        if self.options.capture.clone_output is not False:
            return False
        if training:
            text = (
                "clone_output = False has no effect on graphs that are trained: the backward pass reads their outputs, "
                "which a later run would overwrite. They are fresh tensors."
            )
            logger.warning_once(text)
            warnings.warn(text, UserWarning, stacklevel=2)
        return not training

    # --- eager execution ---

    def _reach_limit(self, key: Key) -> None:
        limit = self.options.capture.capture_limit
        self._drop()
        reason = f"{_LIMIT}: {limit} shapes were captured, and a call needs another one"
        self._fall_back(reason, key)
        text = f"{reason}. {self.name} runs eagerly from now on. Raise capture_limit, or compile with fewer shapes."
        logger.warning(text)
        warnings.warn(text, UserWarning, stacklevel=2)

    def _give_up(self, error: CaptureError, key: Key | None = None) -> None:
        self._drop()
        self._fall_back("; ".join([error.what, *error.why]), key, "; ".join(error.where))
        text = f"{self.name} cannot be captured and runs eagerly: {self.fallbacks[-1].reason}"
        logger.warning(text)
        warnings.warn(text, UserWarning, stacklevel=2)

    def _fall_back(self, reason: str, key: Key | None = None, source: str = "") -> None:
        self.fallbacks.append(Fallback(self.name, reason, "" if key is None else _text(key), source))

    def _drop(self) -> None:
        self._replay_only(None)
        self._ready.clear()
        self.captures.clear()
        self._dropped.clear()
        counters = _torch_compat.counters("npugraph_ex")
        for counter in [c for c in counters if c.endswith(f"_{self.name}")]:
            del counters[counter]

    def _run_eagerly(self, args: list[Any]) -> Sequence[Any]:
        given = tuple(args)
        args.clear()
        with _torch_compat.below_autograd():
            results: Sequence[Any] = self.gm(*given)
        return results


_LIMIT = "capture_limit reached"


def _no_key(args: Sequence[Any]) -> Key:
    return ()


def _key_reader(sources: Sequence[KeySource]) -> Callable[[Sequence[Any]], Key]:
    """A function from the inputs of a call to its key; short where the key is made of inputs that are numbers."""
    if not sources:
        return _no_key
    if all(source.of == "number" for source in sources):
        positions = [source.position for source in sources]
        if len(positions) == 1:
            (only,) = positions
            return lambda args: (args[only],)
        return lambda args: tuple([args[i] for i in positions])
    reads = [source.read for source in sources]
    return lambda args: tuple([read(args) for read in reads])


def _text(key: Key) -> str:
    """The key as logs show it (specification, F-25)."""
    return str(list(key)) if key else "no_updated_input"
