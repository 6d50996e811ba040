"""Values that a graph takes in from its parameters: computed once for each state of them (specification, F-66)."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import torch

from torchair import _torch_compat
from torchair.engines.reference import ReferenceExecutable
from torchair.logs import logger
from torchair.passes import Prologue

__all__ = ["FrozenValues"]


class FrozenValues:
    """The results of a prologue, made again when a parameter was replaced or updated in place.

    A parameter is unchanged while its address and its version counter are. ``parameter.data.mul_(2)`` changes neither;
    ``with torch.no_grad(): parameter.mul_(2)`` and ``load_state_dict`` change the counter.

    Args:
        prologue: What computes them.
        inputs: A fake tensor for each input of the graph that the prologue was taken out of.
        fake_mode: Their mode.

    Attributes:
        fakes: A fake tensor for each value.
        computed: How often they were computed.
    """

    def __init__(self, prologue: Prologue, inputs: Sequence[Any], fake_mode: Any) -> None:
        self._name = prologue.graph.name
        self._reads = prologue.reads
        self._run = ReferenceExecutable(prologue.graph)
        self._lock = threading.Lock()
        # In one tuple, since several threads may call the graph: the state of the parameters, and the values for it.
        self._known: tuple[object, tuple[torch.Tensor, ...]] = (None, ())
        # Keeps the memory of the parameters as they were, so that no other tensor gets an address that is remembered.
        self._held: list[torch.Tensor] = []
        self.computed = 0
        # A second executable: the first run of one checks what operators return, and fake results check nothing.
        with fake_mode:
            self.fakes: tuple[torch.Tensor, ...] = tuple(
                ReferenceExecutable(prologue.graph)(*(inputs[i] for i in prologue.reads))
            )

    def __call__(self, inputs: Sequence[Any]) -> tuple[torch.Tensor, ...]:
        """The values for the inputs of a call."""
        read = [inputs[i] for i in self._reads]
        try:
            state = [p.data_ptr() for p in read], [p._version for p in read]
        except RuntimeError:  # tensors made in inference mode have no version counter
            logger.warning_once(
                "%s: parameters that were made in torch.inference_mode() tell no changes, so that what is made of "
                "them is computed in each call",
                self._name,
            )
            return self._computed(read)
        known, values = self._known
        if state == known:
            return values
        with self._lock:
            known, values = self._known
            if state != known:
                if known is not None:
                    logger.warning_once(
                        "%s: a frozen or packed parameter was replaced or updated, so that what is made of it is made "
                        "again; leave frozen_parameter (or use_internal_format_weight) out where that happens often",
                        self._name,
                    )
                values = self._computed(read)
                self._held = [p.detach() for p in read]
                self._known = state, values
            return values

    def _computed(self, read: Sequence[torch.Tensor]) -> tuple[torch.Tensor, ...]:
        self.computed += 1
        with torch.no_grad(), _torch_compat.below_autograd():
            results = self._run(*read)
        # As they are: the memory of a packed weight lives as long as the very tensor that stands for it.
        return tuple(_laid_out(r, fake) for r, fake in zip(results, self.fakes, strict=True))


def _laid_out(value: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """The same elements in the strides that the graph was compiled for."""
    strides = [int(s) for s in like.stride()]
    if list(value.stride()) == strides and not value.storage_offset():
        return value
    placed = torch.empty_strided([int(s) for s in like.shape], strides, dtype=value.dtype, device=value.device)
    return placed.copy_(value)
