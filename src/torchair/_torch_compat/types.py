"""Classes of operators."""

from __future__ import annotations

import torch

__all__ = [
    "HigherOrderOperator",
    "OpOverload",
    "OpOverloadPacket",
]


#: One overload of an operator, ``torch.ops.aten.add.Tensor``, and all of them, ``torch.ops.aten.add``.
OpOverload = torch._ops.OpOverload


OpOverloadPacket = torch._ops.OpOverloadPacket


#: An operator that takes functions or other operators, such as PyTorch's wrappers of operators that write.
HigherOrderOperator = torch._ops.HigherOrderOperator
