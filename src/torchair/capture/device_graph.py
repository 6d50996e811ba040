"""Capture and replay of an FX graph as a device graph: ``torch.cuda.graph``, or what another device module offers.

The graph is run once while the device records its launches instead of doing them; a replay does them all again, with
the same addresses. So whatever the graph reads must be copied to where it was, or still be there, and results are where
they were. Nothing of the graph runs before the capture: a library that must be ready before (cuBLAS, cuDNN) is made
ready by a call of its own.
"""

from __future__ import annotations

import contextlib
import threading
import warnings
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx

from torchair import _torch_compat
from torchair.capture.bounds import RUNS
from torchair.capture.device_limits import refusals
from torchair.capture.device_memory import (
    DevicePool,
    Held,
    Layout,
    fresh_copy,
    overlapping,
    overlapping_any,
)
from torchair.capture.device_streams import DeviceStreams
from torchair.capture.values import reach
from torchair.errors import CaptureError, ExecutionError
from torchair.source_lines import source_line

__all__ = ["DeviceCapture", "has_device_graphs"]

#: Only one capture may be under way in a process.
_capturing = threading.RLock()

#: Captures of a device use one stream, so that what one frees another can use. By module and device.
_streams: dict[tuple[int, torch.device], Any] = {}


def has_device_graphs(module: Any) -> bool:
    """Whether a device module offers graphs as ``torch.cuda`` does."""
    parts = (getattr(module, "graph", None), getattr(module, "graph_pool_handle", None), _graph_class(module))
    return all(callable(part) for part in parts)


def _graph_class(module: Any) -> Any:
    """``CUDAGraph``, ``NPUGraph``, ``XPUGraph``: the class of a module's graphs; None where it has none."""
    short = str(getattr(module, "__name__", "")).rpartition(".")[2]
    return getattr(module, f"{short.upper()}Graph", None) or getattr(module, "CUDAGraph", None)


def _advances_random(module: Any) -> bool:
    """Whether a replay draws new random numbers, from the default generator, as eager would."""
    return module is torch.cuda or hasattr(_graph_class(module), "register_generator_state")


@dataclass(frozen=True, slots=True)
class _View:
    """An output that lies in the memory of an input.

    Attributes:
        position: Which input.
        layout: Of the output.
        base: Of the input in the capture.
    """

    position: int
    layout: Layout
    base: Layout


@dataclass(eq=False)
class _Record:
    """One capture.

    Attributes:
        fixed: Inputs used in place, with the addresses and layouts that they had, by position.
        buffers: Inputs that are copied in, by position.
        kept: Inputs of the capturing call that later ones are copied into, by position.
        numbers: Inputs that are no tensors.
        host: Tensors of the host that the capture read, copied.
        outputs: ``Held`` is a result in the pool, a function takes the result from the inputs of the call.
        nbytes: Device memory that the capture added.
    """

    graph: Any
    fixed: dict[int, tuple[int, Layout]] = field(default_factory=dict)
    buffers: dict[int, Held] = field(default_factory=dict)
    kept: dict[int, Held] = field(default_factory=dict)
    numbers: dict[int, Any] = field(default_factory=dict)
    host: dict[int, torch.Tensor] = field(default_factory=dict)
    outputs: list[Callable[[Sequence[Any]], Any] | _View | Held] = field(default_factory=list)
    nbytes: int = 0

    def held(self) -> list[Held]:
        """Everything in the pool."""
        return [*self.buffers.values(), *{id(o): o for o in self.outputs if isinstance(o, Held)}.values()]


class DeviceCapture:
    """An FX graph, captured on a device for inputs of one shape, and replayed.

    Args:
        gm: The graph, after all passes.
        example_inputs: Inputs of the first call; real tensors.
        device_module: ``torch.cuda``, or another that :func:`has_device_graphs`.
        pool: Memory that captures share. None: a pool of its own.
        capture_error_mode: ``"global"``, ``"thread_local"`` or ``"relaxed"``, as the device module takes it.
        clone_input: Inputs that are neither static nor mutated are copied into buffers; if not, into the tensors of the
            first call.
        clone_output: Results are copied; if not, the next run overwrites them.
        static_inputs: Positions of parameters and buffers, which are used where they are.
        mutated_inputs: Positions of inputs that the graph writes.
        frozen_parameter: Parameters are promised to stay where they are.
        device: Where the graph runs; None: the device of the first input that belongs to the module.
        on_recapture: Told the reason of each recapture: ``"mutated_input_change"``, ``"parameter_change"`` or
            ``"host_value_change"``.

    Attributes:
        used: Orders captures by their last run.
        held_bytes: Device memory that this capture added to its pool, and the tensors of the first call that it keeps.

    Raises:
        CaptureError: The graph cannot be captured. Nothing has run, and the device is ready for another capture.
    """

    def __init__(
        self,
        gm: fx.GraphModule,
        example_inputs: Sequence[Any],
        *,
        device_module: Any,
        pool: DevicePool | None = None,
        capture_error_mode: str = "global",
        clone_input: bool = True,
        clone_output: bool | None = None,
        static_inputs: Collection[int] = (),
        mutated_inputs: Collection[int] = (),
        frozen_parameter: bool = False,
        device: torch.device | None = None,
        on_recapture: Callable[[str], None] | None = None,
    ) -> None:
        self._gm = gm
        self._module = device_module
        self._device = _device(device_module, example_inputs) if device is None else device
        self._pool = DevicePool(device_module) if pool is None else pool
        self._error_mode = capture_error_mode
        self._clone_input = clone_input
        self._clone_output = bool(clone_output)
        self._written = frozenset(mutated_inputs)
        self._static = frozenset(static_inputs) - self._written
        self._frozen = frozen_parameter
        self._on_recapture = on_recapture
        self._inputs = [n for n in gm.graph.nodes if n.op == "placeholder"]
        (returned,) = next(n for n in gm.graph.nodes if n.op == "output").args
        self._returned = list(returned) if isinstance(returned, list | tuple) else [returned]
        self.used = next(RUNS)
        self.held_bytes = 0
        self._record: _Record | None = self._capture(list(example_inputs))

    @property
    def memory(self) -> torch.device:
        """The device whose memory it holds."""
        return self._device

    def close(self) -> None:
        """Forget the capture. Its memory goes when nobody has a result of it any more."""
        self._record = None
        self.held_bytes = 0

    def run(self, inputs: list[Any]) -> list[Any]:
        """Copy the inputs in, and replay; the list is emptied.

        Captures again where a replay would use addresses, or values of the host, that are not this call's.

        Raises:
            CaptureError: The inputs are not of the shapes that were captured, or another capture failed.
            ExecutionError: The device refused the replay.
        """
        self.used = next(RUNS)
        with self._pool.order.lock:
            record = self._current(inputs)
            try:
                self._follow_last_run()
                self._copy_in(record, inputs)
                record.graph.replay()
            except Exception as error:
                raise ExecutionError.of(error, f"the replay of a graph on {self._device}") from error
            outputs = self._outputs_of(record, inputs)
        inputs.clear()
        return outputs

    def why_recapture(self, inputs: Sequence[Any]) -> str | None:
        """The reason why these inputs need another capture; None where they do not."""
        record = self._record
        if record is None:
            return None
        for i, (address, layout) in record.fixed.items():
            moved = inputs[i].data_ptr() != address or inputs[i].stride() != layout.stride
            if moved and i in self._written:
                return "mutated_input_change"
            if moved and not self._frozen:
                return "parameter_change"
        if any(type(inputs[i]) is not type(v) or inputs[i] != v for i, v in record.numbers.items()):
            return "host_value_change"
        if any(not torch.equal(inputs[i], v) for i, v in record.host.items()):
            return "host_value_change"
        return None

    # --- replay ---

    def _current(self, inputs: list[Any]) -> _Record:
        """The capture for these inputs, made anew where it must be."""
        if self._record is None:
            raise CaptureError("A captured graph was run after it was closed", fix="Compile the model again.")
        self._check(self._record, inputs)
        reason = self.why_recapture(inputs)
        if reason is not None:
            if self._on_recapture is not None:
                self._on_recapture(reason)
            self._record = self._capture(inputs)
        return self._record

    def _check(self, record: _Record, inputs: Sequence[Any]) -> None:
        wrong = []
        if len(inputs) != len(self._inputs):
            wrong.append(f"{len(inputs)} inputs, captured with {len(self._inputs)}")
        else:
            for layouts in (
                ((i, layout) for i, (_, layout) in record.fixed.items()),
                ((i, held.layout) for i, held in (*record.buffers.items(), *record.kept.items())),
            ):
                wrong.extend(text for i, layout in layouts if (text := _mismatch(i, layout, inputs[i])))
        if wrong:
            raise CaptureError(
                "A captured graph was given other inputs than it was captured with",
                why=wrong,
                fix="Capture it again for these inputs.",
            )

    def _follow_last_run(self) -> None:
        """Let the current stream wait for the last replay that used this memory, if that was on another one."""
        order = self._pool.order
        stream = self._module.current_stream(self._device)
        if order.last_stream is not None and order.last_stream != stream:
            stream.wait_stream(order.last_stream)
        order.last_stream = stream

    def _copy_in(self, record: _Record, inputs: Sequence[Any]) -> None:
        into, values = [], []
        for i, held in record.buffers.items():
            into.append(held.target(record.graph))
            values.append(held.as_copied(inputs[i]))
        for i, held in record.kept.items():
            if inputs[i].data_ptr() != held.address + held.layout.offset * held.layout.dtype.itemsize:
                into.append(held.target(record.graph))
                values.append(held.as_copied(inputs[i]))
        if not into:
            return
        with torch.no_grad(), _torch_compat.below_autograd():
            if self._pool.overlays and overlapping(into, values):
                values = [v.clone() for v in values]
            _torch_compat.copy_all(into, values)

    def _outputs_of(self, record: _Record, inputs: Sequence[Any]) -> list[Any]:
        outputs = []
        made: dict[int, torch.Tensor] = {}
        for output in record.outputs:
            if isinstance(output, Held):
                if id(output) not in made:
                    made[id(output)] = self._result(record, output)
                outputs.append(made[id(output)])
            elif isinstance(output, _View):
                with torch.no_grad():
                    outputs.append(output.layout.within(inputs[output.position], output.base))
            else:
                outputs.append(output(inputs))
        return outputs

    def _result(self, record: _Record, held: Held) -> torch.Tensor:
        if self._clone_output:
            with torch.inference_mode(mode=False), torch.no_grad(), _torch_compat.below_autograd():
                return fresh_copy(held.get(record.graph))
        if held.is_made_anew and not self._pool.warned:
            self._pool.warned = True
            warnings.warn(
                "A result of a captured graph lies in memory that captures of other shapes use as well: the next run "
                "overwrites what you keep of it. Copy it, or set clone_output=True.",
                UserWarning,
                stacklevel=4,
            )
        return held.get(record.graph)

    # --- capture ---

    def _capture(self, inputs: list[Any]) -> _Record:
        """Run the graph once while the device records."""
        refused = refusals(self._gm, self._device, repeats_random=_advances_random(self._module))
        if refused:
            raise _cannot([r.reason for r in refused])
        handle = self._pool.open()
        self._refuse_lent(inputs)
        record = _Record(_graph_class(self._module)())
        streams = DeviceStreams(self._gm.graph, self._module, self._device)
        runner = _Runner(self._gm, streams)
        notes: list[str] = []
        with (
            _capturing,
            self._on_device(),
            torch.inference_mode(mode=False),
            torch.no_grad(),
            _torch_compat.below_autograd(),
        ):
            try:
                with self._recording(record.graph, handle, notes, streams.sides):
                    before = self._reserved()
                    used = self._take(record, inputs)
                    with streams.forked():
                        results = runner.run(*used)
                    record.nbytes = self._reserved() - before
            except Exception as error:  # noqa: BLE001 (an operator may raise anything)
                cause = runner.error or error
                where = "" if runner.at is None else source_line(runner.at)
                raise _cannot([f"{runner.place} raised {_first_line(cause)}", *notes], where) from cause
        self._note_outputs(record, used, results)
        if not self._counts_memory:
            record.nbytes = sum(held.nbytes for held in record.held())
        self._pool.add(record, record.held())
        self.held_bytes = record.nbytes + sum(held.nbytes for held in record.kept.values())
        return record

    def _refuse_lent(self, inputs: Sequence[Any]) -> None:
        """Memory that captures use in turn cannot also be what a capture finds there."""
        lent = [
            i
            for i, value in enumerate(inputs)
            if self._is_in_place(i) and self._is_ours(value) and self._pool.lends(value)
        ]
        if lent:
            raise _cannot(
                [f"input {i}, used in place, is a result of a capture that shares its memory" for i in lent],
                fix="Pass a clone of it, or set clone_output=True.",
            )

    def _is_ours(self, value: Any) -> bool:
        return isinstance(value, torch.Tensor) and value.device == self._device

    def _is_in_place(self, position: int) -> bool:
        return position in self._static or position in self._written or not self._clone_input

    @contextlib.contextmanager
    def _recording(self, graph: Any, handle: Any, notes: list[str], sides: Sequence[Any]) -> Iterator[None]:
        """The capture context; leaves the device ready for another one, also where this one failed.

        Args:
            graph: What is captured.
            handle: Of the pool.
            notes: Told where the device is not ready.
            sides: Streams that the capture uses besides its own.
        """
        module, device = self._module, self._device
        stream = _capture_stream(module, device)
        for used in (stream, *sides):
            self._prepare_libraries(used)
        previous = module.current_stream(device)
        ended = False
        try:
            with module.graph(graph, pool=handle, stream=stream, capture_error_mode=self._error_mode):
                yield
            ended = True
        finally:
            if not ended:
                # The end of a capture that is no longer valid raises before it restores the stream.
                module.set_stream(previous)
                notes.extend(self._recover(graph, handle))

    def _recover(self, graph: Any, handle: Any) -> list[str]:
        """After a failed capture: leave its pool, and show by a small capture that another one works.

        That one also resets the random generator, which older versions of PyTorch leave in the state of capturing.
        """
        with contextlib.suppress(Exception):
            graph.reset()
        _torch_compat.end_failed_capture(self._device, handle)
        _streams.pop((id(self._module), self._device), None)
        previous = self._module.current_stream(self._device)
        try:
            probe = _graph_class(self._module)()
            with self._module.graph(probe, stream=_capture_stream(self._module, self._device)):
                torch.zeros(1, device=self._device)
        except Exception as error:  # noqa: BLE001 (a second failure is told with the first)
            self._module.set_stream(previous)
            return [f"after that the device takes no other capture: {_first_line(error)}"]
        return []

    def _prepare_libraries(self, stream: Any) -> None:
        """Make handles and work spaces of libraries, which cannot be made while capturing."""
        module = self._module
        with module.stream(stream):
            blas = getattr(module, "current_blas_handle", None)
            if blas is not None:
                blas()
            if module is torch.cuda and any("conv" in str(n.target) for n in self._gm.graph.nodes):
                image = torch.zeros(1, 1, 1, 1, device=self._device)
                torch.nn.functional.conv2d(image, image)

    def _on_device(self) -> Any:
        index: int | None = self._device.index
        return contextlib.nullcontext() if index is None else self._module.device(index)

    @property
    def _counts_memory(self) -> bool:
        return hasattr(self._module, "memory_reserved")

    def _reserved(self) -> int:
        return int(self._module.memory_reserved(self._device)) if self._counts_memory else 0

    def _take(self, record: _Record, inputs: Sequence[Any]) -> list[Any]:
        """What the graph is captured with. Called while capturing, so that buffers lie in the pool."""
        used = list(inputs)
        for i, (node, value) in enumerate(zip(self._inputs, inputs, strict=True)):
            if all(user.op == "output" for user in node.users):
                continue
            if not isinstance(value, torch.Tensor):
                record.numbers[i] = value
            elif not self._is_ours(value):
                record.host[i] = value.detach().clone()
            elif i in self._static or i in self._written:
                record.fixed[i] = value.data_ptr(), Layout.of(value)
            elif self._clone_input or overlapping_any(value, inputs, but=i):
                used[i] = _buffer(value, keeps_offset=self._reads_offsets)
                record.buffers[i] = Held(used[i])
            else:
                used[i] = value.detach()
                record.kept[i] = Held(used[i])
        return used

    @property
    def _reads_offsets(self) -> bool:
        return any("as_strided" in str(n.target) or "storage_offset" in str(n.target) for n in self._gm.graph.nodes)

    def _note_outputs(self, record: _Record, used: Sequence[Any], results: Any) -> None:
        storages = {
            v.untyped_storage().data_ptr(): i
            for i, v in enumerate(used)
            if isinstance(v, torch.Tensor) and v.layout is torch.strided and v.untyped_storage().nbytes()
        }
        positions = {node: i for i, node in enumerate(self._inputs)}
        results = list(results) if isinstance(results, list | tuple) else [results]
        held: dict[int, Held] = {}
        for node, value in zip(self._returned, results, strict=True):
            if isinstance(node, fx.Node) and node in positions:
                record.outputs.append(_input_at(positions[node]))
            elif not isinstance(value, torch.Tensor):
                record.outputs.append(_value(value))
            elif (at := storages.get(value.untyped_storage().data_ptr())) is not None:
                record.outputs.append(_View(at, Layout.of(value), Layout.of(used[at])))
            else:
                record.outputs.append(held.setdefault(id(value), Held(value)))


class _Runner(fx.Interpreter):
    """Runs a graph on its streams, and remembers where it is."""

    def __init__(self, gm: fx.GraphModule, streams: DeviceStreams) -> None:
        super().__init__(gm)
        self._streams = streams
        self.extra_traceback = False
        self.at: fx.Node | None = None
        self.error: Exception | None = None

    def run_node(self, n: fx.Node) -> Any:
        self.at = n
        try:
            if self._streams.is_event(n):
                return torch.empty(0)
            with self._streams.around(n, [self.env[used] for used in n.all_input_nodes]):
                return super().run_node(n)
        except Exception as error:
            self.error = error
            raise

    @property
    def place(self) -> str:
        """What ran last, in words."""
        if self.at is None:
            return "the beginning of the capture"
        return "the end of the capture" if self.error is None else f"{self.at.target} (node {self.at.name})"


def _input_at(position: int) -> Callable[[Sequence[Any]], Any]:
    return lambda inputs: inputs[position]


def _value(value: Any) -> Callable[[Sequence[Any]], Any]:
    return lambda _: value


def _device(module: Any, inputs: Sequence[Any]) -> torch.device:
    for value in inputs:
        if isinstance(value, torch.Tensor) and getattr(torch, value.device.type, None) is module:
            return value.device
    raise _cannot(["no input lies on the device"])


def _capture_stream(module: Any, device: torch.device) -> Any:
    key = id(module), device
    if key not in _streams:
        _streams[key] = module.Stream(device=device)
    return _streams[key]


def _buffer(value: torch.Tensor, *, keeps_offset: bool) -> torch.Tensor:
    """Memory for an input. Nothing may be launched for it: the graph would do that again in each replay."""
    layout = Layout.of(value)
    offset = layout.offset if keeps_offset else 0
    settings: Any = torch.utils.deterministic
    filled, settings.fill_uninitialized_memory = settings.fill_uninitialized_memory, False
    try:
        length = offset + reach(layout.size, layout.stride)
        memory = torch.empty_strided((length,), (1,), dtype=layout.dtype, device=layout.device)
    finally:
        settings.fill_uninitialized_memory = filled
    return layout.over(memory.untyped_storage(), offset)


def _mismatch(position: int, layout: Layout, value: Any) -> str:
    if not isinstance(value, torch.Tensor):
        return f"input {position}: {type(value).__name__}, captured with a tensor"
    if value.shape != layout.size or value.dtype != layout.dtype or value.device != layout.device:
        return (
            f"input {position}: {value.dtype} {list(value.shape)} on {value.device}, "
            f"captured with {layout.dtype} {list(layout.size)} on {layout.device}"
        )
    if value.stride() != layout.stride and _torch_compat.overlaps_itself(layout.size, layout.stride):
        return f"input {position}: strides {value.stride()}, captured with {layout.stride}"
    return ""


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__


def _cannot(why: Sequence[str], where: str = "", fix: str = "") -> CaptureError:
    return CaptureError("A graph cannot be captured on its device", why=why, where=where, fix=fix)
