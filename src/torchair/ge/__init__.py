"""What converters use: tensors, constants, IR operators by name, and what users declare about operators.

Every built-in Ascend IR operator is a function here: ``torchair.ge.Add(x, y)``. They work inside converters only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torchair.convert.custom_op import custom_op
from torchair.convert.results import TensorSpec
from torchair.ge import attr
from torchair.ir import DType as DataType, Format, Value as Tensor
from torchair.opset.declarations import declare_op, register_kernel
from torchair.opset.functions import Cast, Clone, Const

if TYPE_CHECKING:
    from torchair.opset.operator import AscendOp

__all__ = [
    "Cast",
    "Clone",
    "Const",
    "DataType",
    "Format",
    "Tensor",
    "TensorSpec",
    "attr",
    "custom_op",
    "declare_op",
    "register_kernel",
]


def __getattr__(name: str) -> AscendOp | Any:
    from torchair.opset.loading import find_operator

    return find_operator(__name__, name)


def __dir__() -> list[str]:
    from torchair.opset.loading import operator_names

    return sorted({*__all__, *operator_names()})
