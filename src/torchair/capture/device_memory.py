"""Memory of device graphs: tensors at addresses that a graph remembers, and pools that its captures share.

A captured graph knows addresses, not tensors. What it reads and writes must stay where it was, for as long as the
graph lives; but two graphs that never run at once may use the same memory.
"""

from __future__ import annotations

import threading
import weakref
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from torchair import _torch_compat
from torchair.capture.values import reach

__all__ = [
    "DevicePool",
    "Held",
    "Layout",
    "fresh_copy",
    "overlapping",
    "overlapping_any",
    "span",
    "whole_span",
]

aten = torch.ops.aten


def span(tensor: torch.Tensor) -> int:
    """Elements from the first to the last of a strided tensor."""
    return reach(tensor.shape, tensor.stride())


def whole_span(tensor: torch.Tensor) -> torch.Tensor:
    """All elements between the first and the last one, as one dimension."""
    return tensor.as_strided((span(tensor),), (1,), tensor.storage_offset())


def fresh_copy(tensor: torch.Tensor) -> torch.Tensor:
    """A copy with the same strides, also where elements share places."""
    if _torch_compat.overlaps_itself(tensor.shape, tensor.stride()):
        return whole_span(tensor).clone().as_strided(tensor.shape, tensor.stride(), 0)
    return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=tensor.device).copy_(tensor)


@dataclass(frozen=True, slots=True)
class Layout:
    """How a tensor lies in its storage."""

    dtype: torch.dtype
    device: torch.device
    size: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int
    conj: bool
    neg: bool

    @classmethod
    def of(cls, t: torch.Tensor) -> Layout:
        return cls(
            t.dtype, t.device, tuple(t.shape), tuple(t.stride()), int(t.storage_offset()), t.is_conj(), t.is_neg()
        )

    def over(self, storage: torch.UntypedStorage, offset: int | None = None) -> torch.Tensor:
        """A tensor of this layout in a storage, at another offset (elements) if one is given."""
        at = self.offset if offset is None else offset
        with torch.inference_mode(mode=False), torch.no_grad():
            found = torch.empty(0, dtype=self.dtype, device=self.device)
            found.set_(storage, at, self.size, self.stride)
            if self.conj:
                found = aten._conj.default(found)
            if self.neg:
                found = aten._neg_view.default(found)
        return found

    def within(self, base: torch.Tensor, before: Layout) -> torch.Tensor:
        """The view of ``base`` that a tensor of this layout is of a tensor of layout ``before``."""
        moved = base.storage_offset() - before.offset
        if (self.dtype, self.conj, self.neg) == (base.dtype, base.is_conj(), base.is_neg()):
            return base.as_strided(self.size, self.stride, self.offset + moved)
        offset = (self.offset * self.dtype.itemsize + moved * base.dtype.itemsize) // self.dtype.itemsize
        return self.over(base.untyped_storage(), offset)


class _Lender:
    """Device memory in the form that ``torch.as_tensor`` takes; the tensor keeps this object, and so what it keeps."""

    def __init__(self, address: int, nbytes: int, keep: Any) -> None:
        self.keep = keep
        self.__cuda_array_interface__ = {"shape": (nbytes,), "typestr": "|u1", "data": (address, False), "version": 2}
        self.__array_interface__ = self.__cuda_array_interface__ | {"version": 3}


def _storage_at(address: int, nbytes: int, device: torch.device, keep: Any) -> torch.UntypedStorage:
    if device.type == "cuda":
        return torch.as_tensor(_Lender(address, nbytes, keep), device=device).untyped_storage()
    if device.type == "cpu":
        return torch.from_numpy(np.asarray(_Lender(address, nbytes, keep))).untyped_storage()
    return _torch_compat.storage_over(address, nbytes, device)


class Held:
    """A tensor that a captured graph reads or writes at a fixed address.

    Args:
        tensor: The tensor, which keeps its memory until :meth:`let_go`.
    """

    def __init__(self, tensor: torch.Tensor) -> None:
        self.layout = Layout.of(tensor)
        self.address = tensor.untyped_storage().data_ptr()
        self.nbytes = tensor.untyped_storage().nbytes()
        self.shared = False
        self.overlaps_itself = _torch_compat.overlaps_itself(self.layout.size, self.layout.stride)
        self._tensor: torch.Tensor | None = tensor
        self._target: torch.Tensor | None = None
        self._alive: weakref.ref[torch.Tensor] = weakref.ref(tensor)

    def let_go(self) -> None:
        """Hold the tensor weakly: when nobody uses it, other captures may use its memory."""
        if self.nbytes and not self.shared:
            self._tensor, self._target, self.shared = None, None, True

    def get(self, keep: Any) -> torch.Tensor:
        """The tensor; made anew at the same address if nobody had it any more.

        Args:
            keep: What owns the memory; lives as long as a tensor that is made.
        """
        found = self._tensor if self._tensor is not None else self._alive()
        if found is None:
            found = self.layout.over(_storage_at(self.address, self.nbytes, self.layout.device, keep))
            self._alive = weakref.ref(found)
        return found

    def target(self, keep: Any) -> torch.Tensor:
        """What a new value is copied into."""
        if self._target is None:
            self._target = self.as_copied(self.get(keep))
        return self._target

    def as_copied(self, value: torch.Tensor) -> torch.Tensor:
        """A value as it lies in memory: without lazy conjugation and negation, and each place once."""
        if self.overlaps_itself:
            value = whole_span(value)
        if self.layout.conj:
            value = value.conj()
        if self.layout.neg:
            value = aten._neg_view.default(value)
        return value.resolve_conj().resolve_neg() if value.is_conj() or value.is_neg() else value

    @property
    def is_made_anew(self) -> bool:
        """Nobody has the tensor now."""
        return self._tensor is None and self._alive() is None


class _Order:
    """Whose turn it is among captures that use the same memory."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.last_stream: Any = None


@dataclass(frozen=True, slots=True)
class _Given:
    """What a handle of the user's stands for on a device."""

    handle: Any
    order: _Order


#: The handles that users gave, for each device module.
_given: weakref.WeakKeyDictionary[Any, dict[Any, _Given]] = weakref.WeakKeyDictionary()


def _pool_of(module: Any, handle: tuple[int, int]) -> _Given:
    """What a handle stands for: itself if the device's ``graph_pool_handle()`` gave it, else a pool of its own.

    Handles of devices are ``(0, n)``. ``(n, 0)`` is how devices number the pool of a graph that was given none, so a
    handle of that form, such as our own ``graph_pool_handle()`` gives, would hit upon the memory of a stranger.
    """
    known = _given.setdefault(module, {})
    if handle in known:
        return known[handle]
    first, second = handle
    return known.setdefault(handle, _Given(module.graph_pool_handle() if first or not second else handle, _Order()))


class DevicePool:
    """Memory of the captures of one FX graph.

    Args:
        device_module: ``torch.cuda`` or another that has device graphs.
        handle: A handle that the user gave, of the device's ``graph_pool_handle()`` or of ours: every graph with it
            uses the same pool.
        reuse: Captures of this graph use the same memory in turn. Without effect where the user gave a handle.
    """

    def __init__(self, device_module: Any, handle: tuple[int, int] | None = None, *, reuse: bool = True) -> None:
        self._module = device_module
        self.overlays = reuse and handle is None
        self._held: weakref.WeakKeyDictionary[Any, list[Held]] = weakref.WeakKeyDictionary()
        self._handle: Any = None
        self.order = _Order()
        if handle is not None:
            given = _pool_of(device_module, handle)
            self._handle, self.order = given.handle, given.order
        elif reuse:
            self._handle = device_module.graph_pool_handle()
        self.warned = False

    def open(self) -> Any:
        """The handle for the next capture. What earlier captures hold becomes free for it where nobody uses it."""
        if self.overlays:
            for held in self._held.values():
                for one in held:
                    one.let_go()
        return self._module.graph_pool_handle() if self._handle is None else self._handle

    def add(self, owner: Any, held: list[Held]) -> None:
        """Remember what a capture holds, as long as that lives."""
        self._held[owner] = held

    def lends(self, tensor: torch.Tensor) -> bool:
        """Whether a tensor lies in memory that captures of this pool use in turn."""
        address = tensor.data_ptr()
        return any(
            one.shared and one.address <= address < one.address + one.nbytes
            for held in self._held.values()
            for one in held
        )


def overlapping(into: Sequence[torch.Tensor], values: Sequence[torch.Tensor]) -> bool:
    """Whether a value lies in memory that another one is to be copied into."""
    areas = sorted(_area(t) for t in into)
    starts = [start for start, _ in areas]
    for target, value in zip(into, values, strict=True):
        start, end = _area(value)
        if (start, end) == _area(target):
            continue
        at = bisect_left(starts, end)
        if any(stop > start for _, stop in areas[:at]):
            return True
    return False


def overlapping_any(value: torch.Tensor, others: Sequence[Any], *, but: int) -> bool:
    """Whether a tensor shares memory with another one of a list, its own position excepted."""
    start, end = _area(value)
    for i, other in enumerate(others):
        if (
            i != but
            and isinstance(other, torch.Tensor)
            and (other.device, other.layout) == (value.device, value.layout)
        ):
            first, last = _area(other)
            if first < end and start < last:
                return True
    return False


def _area(tensor: torch.Tensor) -> tuple[int, int]:
    start = tensor.data_ptr()
    return start, start + span(tensor) * tensor.dtype.itemsize
