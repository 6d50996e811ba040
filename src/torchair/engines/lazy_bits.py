"""Arguments that say "negative" or "conjugate" by a bit, and not in their elements.

``torch.imag(x.conj())`` is such a tensor. Code that reads memory takes its elements for what they are not, and Dynamo's
guards do not tell these tensors from others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

__all__ = ["inputs_with_lazy_bits", "resolve"]

#: The dtypes of complex tensors and of their real and imaginary parts.
_DTYPES = (torch.float16, torch.float32, torch.float64, torch.complex32, torch.complex64, torch.complex128)


def inputs_with_lazy_bits(inputs: Sequence[Any]) -> tuple[int, ...]:
    """Numbers of the inputs that may have such a bit in some call."""
    return tuple(i for i, given in enumerate(inputs) if isinstance(given, torch.Tensor) and given.dtype in _DTYPES)


def resolve(inputs: list[Any], positions: Sequence[int]) -> dict[int, tuple[torch.Tensor, torch.Tensor]]:
    """Put tensors without bits in the place of those that have one.

    Args:
        inputs: The arguments of a call; changed.
        positions: Which of them to look at.

    Returns:
        For each input that had a bit, the tensor and its replacement, of the same strides.
    """
    replaced = {}
    for i in positions:
        given = inputs[i]
        # AOTAutograd passes None for the tokens that order side effects.
        if given is not None and (given.is_neg() or given.is_conj()):
            inputs[i] = _plain(given.detach())
            replaced[i] = given, inputs[i]
    return replaced


def _plain(tensor: torch.Tensor) -> torch.Tensor:
    result = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=tensor.device)
    target, source = result, tensor
    for dim, stride in enumerate(tensor.stride()):
        if stride == 0 and tensor.shape[dim] > 1:  # expanded: one element stands for all
            target, source = target.narrow(dim, 0, 1), source.narrow(dim, 0, 1)
    target.copy_(source)
    return result
