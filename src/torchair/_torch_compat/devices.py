"""Devices and their graphs."""

from __future__ import annotations

import contextlib
from typing import Any

import torch

__all__ = [
    "device_is_available",
    "end_failed_capture",
    "private_device_name",
]


def end_failed_capture(device: torch.device, pool: Any) -> None:
    """Let a device's allocator leave the pool of a capture whose end failed; where it knows no such capture, nothing.

    ``CUDAGraph.capture_end`` raises before it does this when an operator made the capture invalid.
    """
    known: dict[str, Any] = vars(torch._C)
    names = (
        f"_{device.type}_endAllocateToPool",
        f"_{device.type}_endAllocateCurrentStreamToPool",
    )  # now, and before 2.7
    ends = [known[name] for name in names if name in known]
    release = known.get(f"_{device.type}_releasePool")
    if not ends or release is None:
        return
    index = device.index or 0
    with contextlib.suppress(RuntimeError):
        ends[0](index, pool)
        release(index, pool)


def private_device_name() -> str | None:
    """What a device plug-in calls its devices (``"npu"``); None where there is no plug-in."""
    name: str = torch._C._get_privateuse1_backend_name()
    return name if name != "privateuseone" else None


def device_is_available(kind: str) -> bool:
    """Whether there is a device of a kind (``"cuda"``, or what a plug-in calls its own)."""
    module = getattr(torch, kind, None)
    available = getattr(module, "is_available", None)
    return bool(available()) if callable(available) else False
