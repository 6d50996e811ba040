"""Products with packed weights: the weight as it is goes along, so that a product is always right.

``air::pack_linear_weight`` makes a packed copy and returns a ticket for it, a tensor with a number. The copy lives as
long as that tensor. ``air::packed_linear`` takes the weight and its ticket; where the copy is gone (another thread has
packed a newer weight meanwhile), it multiplies with the weight itself.
"""

from __future__ import annotations

import itertools
import weakref
from typing import Any

import torch
from torch import Tensor

from torchair import _torch_compat
from torchair.torchops.library import define

__all__ = ["PACK", "PACKED_LINEAR", "can_pack", "packed_weights"]

_numbers = itertools.count(1)
#: Ticket -> the product with that copy.
_packed: dict[int, Any] = {}


def can_pack(dtype: torch.dtype, rows: int | None) -> bool:
    """Whether packed weights of that dtype are of use; ``rows`` of the other operand, None where they are not known."""
    return _torch_compat.linear_packer(dtype, rows) is not None


def packed_weights() -> int:
    """How many copies there are."""
    return len(_packed)


def _pack(weight: Tensor, rows: int) -> Tensor:
    pack = _torch_compat.linear_packer(weight.dtype, rows or None)
    assert pack is not None
    number = next(_numbers)
    _packed[number] = pack(weight.detach().contiguous())
    ticket = torch.tensor([number])
    weakref.finalize(ticket, _packed.pop, number, None)
    return ticket


def _packed_linear(x: Tensor, weight: Tensor, bias: Tensor | None, ticket: Tensor) -> Tensor:
    product = _packed.get(int(ticket))
    if product is None:
        return torch.nn.functional.linear(x, weight, bias)
    result: Tensor = product(x.contiguous(), bias)
    return result


def _fake_linear(x: Tensor, weight: Tensor, bias: Tensor | None, ticket: Tensor) -> Tensor:
    return x.new_empty(x.shape[0], weight.shape[0])


#: ``rows`` is 0 where they are not known.
PACK = define(
    "pack_linear_weight(Tensor weight, int rows) -> Tensor",
    _pack,
    lambda weight, rows: weight.new_empty(1, dtype=torch.int64),
)
PACKED_LINEAR = define(
    "packed_linear(Tensor x, Tensor weight, Tensor? bias, Tensor ticket) -> Tensor", _packed_linear, _fake_linear
)
