"""A device module without a device: it records calls on CPU tensors, as ``torch.cuda`` records launches.

While capturing, operators have no effect: what they write is put back, and what they return has no meaningful content.
Their results come from a pool with blocks that are used again as soon as nobody has them, as on a device. A replay runs
the recorded calls at the recorded addresses. What the tests look at (pools, streams, modes, order) is in ``log``.
"""

from __future__ import annotations

import contextlib
import itertools
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map

aten = torch.ops.aten

_ALLOCATIONS = {
    aten.empty.memory_format,
    aten.empty_strided.default,
    aten.empty_like.default,
    aten.new_empty.default,
    aten.new_empty_strided.default,
}

#: Need the host to wait for the device.
_SYNCHRONIZING = {aten._local_scalar_dense.default, aten.nonzero.default, aten.equal.default}


class _Block:
    def __init__(self, address: int, nbytes: int, arena: _Arena) -> None:
        self.arena = arena
        self.__array_interface__ = {"shape": (nbytes,), "typestr": "|u1", "data": (address, False), "version": 3}


def _at(address: int, nbytes: int, arena: _Arena) -> torch.Tensor:
    """Bytes at an address, which may be used again by others."""
    if nbytes == 0:
        return torch.empty(0, dtype=torch.uint8)
    return torch.from_numpy(np.asarray(_Block(address, nbytes, arena)))


def _like(t: torch.Tensor, data: torch.Tensor, offset: Any) -> torch.Tensor:
    found = torch.empty(0, dtype=t.dtype).set_(data.untyped_storage(), offset, t.shape, t.stride())
    found = found.conj() if t.is_conj() else found
    return aten._neg_view.default(found) if t.is_neg() else found


class _Arena:
    """The memory of one pool: first fit, blocks of 64 bytes."""

    def __init__(self, size: int = 1 << 18) -> None:
        self._memory = np.zeros(size + 64, dtype=np.uint8)
        self.start = -(-self._memory.ctypes.data // 64) * 64
        self._used: dict[int, int] = {}
        self.peak = 0

    def block(self, nbytes: int) -> torch.Tensor:
        if nbytes == 0:
            return torch.empty(0, dtype=torch.uint8)
        at, length = 0, -(-nbytes // 64) * 64
        for begin in sorted(self._used):
            if begin - at >= length:
                break
            at = begin + self._used[begin]
        self._used[at] = length
        self.peak = max(self.peak, at + length)
        owner = _Block(self.start + at, nbytes, self)
        weakref.finalize(owner, self._used.pop, at)
        data = torch.from_numpy(np.asarray(owner))
        data.fill_(0xCD)
        return data

    @property
    def in_use(self) -> int:
        return sum(self._used.values())


class _Recording(TorchDispatchMode):
    """Writes calls down instead of running them."""

    def __init__(self, graph: FakeGraph, arena: _Arena) -> None:
        super().__init__()
        self.graph, self.arena = graph, arena
        self.invalid = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        self.graph.device.log.append(("operator", str(func), self.graph.device.current_stream().name))
        if func._schema.name == "aten::set_":
            return func(*args, **kwargs)
        if func in _SYNCHRONIZING:
            self.invalid = True
            raise RuntimeError("CUDA error: operation not permitted when stream is capturing\nmore of it")
        given = [v for v in tree_flatten((args, kwargs))[0] if isinstance(v, torch.Tensor)]
        before = {}
        for t in given:
            storage = t.untyped_storage()
            before[storage.data_ptr()] = storage, storage.clone()
        state = torch.get_rng_state()
        result = func(*args, **kwargs)
        torch.set_rng_state(state)
        for storage, content in before.values():
            if storage.nbytes():
                storage.copy_(content)
        fresh: list[torch.Tensor] = []

        def placed(value: Any) -> Any:
            if not isinstance(value, torch.Tensor):
                return value
            if any(value is t for t in given) or (value.numel() and value.untyped_storage().data_ptr() in before):
                return value
            found = _like(value, self.arena.block(value.untyped_storage().nbytes()), value.storage_offset())
            fresh.append(found)
            return found

        returned = tree_map(placed, result)
        if func in _ALLOCATIONS:
            deterministic: Any = torch.utils.deterministic
            if torch.are_deterministic_algorithms_enabled() and deterministic.fill_uninitialized_memory:
                self.graph.calls.append((aten.fill_.Scalar, (self._raw(returned), 7), {}, None))
        elif fresh or func._schema.is_mutable:
            raw_args, raw_kwargs, outputs = tree_map(self._raw, (args, kwargs, returned))
            self.graph.calls.append((func, raw_args, raw_kwargs, None if func._schema.is_mutable else outputs))
        return returned

    def _raw(self, value: Any) -> Any:
        """The tensor at its address, without keeping its memory."""
        if not isinstance(value, torch.Tensor):
            return value
        storage = value.untyped_storage()
        return _like(value, _at(storage.data_ptr(), storage.nbytes(), self.arena), value.storage_offset())


class FakeGraph:
    """``torch.cuda.CUDAGraph``."""

    device: FakeDevice
    fails: Exception | None = None

    def __init__(self) -> None:
        self.calls: list[tuple[Any, Any, Any, Any]] = []

    def replay(self) -> None:
        self.device.log.append(("replay", self.device.current_stream().name))
        if self.fails is not None:
            raise self.fails
        with torch.no_grad():
            for func, args, kwargs, outputs in self.calls:
                result = func(*args, **kwargs)
                if outputs is not None:
                    for into, value in zip(tree_flatten(outputs)[0], tree_flatten(result)[0], strict=True):
                        into.copy_(value)

    def reset(self) -> None:
        self.calls.clear()

    def register_generator_state(self, generator: Any) -> None:
        raise NotImplementedError


class FakeStream:
    """``torch.cuda.Stream``."""

    def __init__(self, device: FakeDevice) -> None:
        self.name = f"stream{next(device.numbers)}"
        self._device = device

    def wait_stream(self, other: FakeStream) -> None:
        self._device.log.append(("wait", self.name, other.name))

    def record_event(self) -> str:
        event = f"event{next(self._device.numbers)}"
        self._device.log.append(("record", self.name, event))
        return event

    def wait_event(self, event: str) -> None:
        self._device.log.append(("wait", self.name, event))


class FakeDevice:
    """``torch.cuda``.

    Attributes:
        log: What was called, in order.
        arenas: Memory of each pool, by handle.
    """

    __name__ = "torch.fake"

    def __init__(self) -> None:
        self.numbers = itertools.count(1)
        self.log: list[tuple[Any, ...]] = []
        self.arenas: dict[Any, _Arena] = {}
        self.graphs: list[weakref.ref[FakeGraph]] = []
        self._default = self._current = FakeStream(self)
        self.CUDAGraph = type("CUDAGraph", (FakeGraph,), {"device": self})

    def events(self, kind: str) -> list[tuple[Any, ...]]:
        return [entry for entry in self.log if entry[0] == kind]

    def graph_pool_handle(self) -> tuple[int, int]:
        return 0, next(self.numbers)

    def Stream(self, device: Any = None) -> FakeStream:
        return FakeStream(self)

    def current_stream(self, device: Any = None) -> FakeStream:
        return self._current

    def set_stream(self, stream: FakeStream) -> None:
        self._current = stream

    @contextlib.contextmanager
    def stream(self, stream: FakeStream) -> Iterator[None]:
        previous, self._current = self._current, stream
        yield
        self._current = previous

    def current_blas_handle(self) -> int:
        self.log.append(("blas", self._current.name))
        return 1

    def memory_reserved(self, device: Any = None) -> int:
        return sum(arena.peak for arena in self.arenas.values())

    def graph(
        self, graph: FakeGraph, pool: Any = None, stream: Any = None, capture_error_mode: str = "global"
    ) -> _Capturing:
        self.graphs.append(weakref.ref(graph))
        return _Capturing(self, graph, pool, stream, capture_error_mode)


class _Capturing:
    """``torch.cuda.graph``, with what it leaves undone when a capture is not valid any more."""

    def __init__(self, device: FakeDevice, graph: FakeGraph, pool: Any, stream: FakeStream, mode: str) -> None:
        self._device, self._graph, self._pool, self._stream, self._mode = device, graph, pool, stream, mode

    def __enter__(self) -> None:
        self._device.log.append(("capture", self._pool, self._stream.name, self._mode))
        self._previous = self._device.current_stream()
        self._device.set_stream(self._stream)
        arena = self._device.arenas.setdefault(self._pool or (next(self._device.numbers), 0), _Arena())
        self._recording = _Recording(self._graph, arena)
        self._recording.__enter__()

    def __exit__(self, *error: object) -> None:
        self._recording.__exit__(*error)
        if self._recording.invalid:
            raise RuntimeError("CUDA error: operation failed due to a previous error during capture")
        self._device.set_stream(self._previous)
        self._device.log.append(("captured",))
