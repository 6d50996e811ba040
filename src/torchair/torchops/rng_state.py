"""``torch.ops.air.get_rng_state`` and ``set_rng_state``: the state of torch's random generator, in a graph.

Activation checkpointing needs them: what the forward graph drew, the backward graph draws again.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from torchair.torchops.library import define

__all__ = ["get_rng_state", "set_rng_state"]

# The tag keeps graphs from merging two calls, dropping one, or moving them across operators that draw.
_TAGS = (torch.Tag.nondeterministic_seeded,)


def _generators(device: str) -> Any:
    """The module that has the state of a kind of device."""
    return torch if device == "cpu" else torch.get_device_module(device)


def _get(device: str) -> Tensor:
    state: Tensor = _generators(device).get_rng_state()
    return state


def _fake_get(device: str) -> Tensor:
    return torch.empty(_get(device).numel(), dtype=torch.uint8)


def _set(state: Tensor, device: str) -> None:
    # The state lies in the memory of the host, whatever device it is of.
    _generators(device).set_rng_state(state.cpu())


def _fake_set(state: Tensor, device: str) -> None:
    return None


get_rng_state: Any = define("get_rng_state(str device) -> Tensor", _get, _fake_get, kept=True, tags=_TAGS)
set_rng_state: Any = define("set_rng_state(Tensor state, str device) -> ()", _set, _fake_set, kept=True, tags=_TAGS)
