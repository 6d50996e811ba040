"""``torchair.ge.Const``, ``Cast`` and ``Clone``: what converters use beside operators (specification, F-54 to F-56)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from torchair.errors import ArgumentError
from torchair.ir import DType, Value
from torchair.opset.builder import current_builder
from torchair.opset.cast import Cast as CastOperator
from torchair.opset.memory import TensorMove
from torchair.opset.torch_types import dtype_of

__all__ = ["Cast", "Clone", "Const"]


def Const(v: Any, dtype: int | torch.dtype | None = None, node_name: str | None = None, readable: bool = True) -> Value:
    """A constant in the graph.

    Args:
        v: A number, a (nested) list of numbers, a string, a NumPy array or a torch tensor.
        dtype: By default float32 for a Python float, int64 for an int, bool for a bool, float64 for a list with floats,
            int32 for an empty list, and an array's or tensor's own.
        node_name: Exact name of the node.
        readable: Keep the value as text in the attribute ``_readable_value``, for dumps.

    Raises:
        ArgumentError: ``v`` is a tensor of the graph or nothing that a constant holds; the name is empty or taken.
        NoGraphError: No conversion is in progress.
    """
    builder = current_builder("Const")
    value = builder.const(v, _dtype("Const", dtype), node_name=node_name)
    if readable and value.producer is not None:
        value.producer.set_attr("_readable_value", _readable(v))
    return value


def Cast(
    x: Any, *, dst_type: int | torch.dtype, dependencies: Sequence[Value] = (), node_name: str | None = None
) -> Value:
    """``x`` with elements of another dtype.

    Args:
        x: A tensor; a Python number or list becomes a constant first.
        dst_type: A ``torchair.ge.DataType``, or a torch dtype.
        dependencies: Tensors whose producers must run before.
        node_name: Exact name of the node.

    Raises:
        ArgumentError: An argument is not of that kind; the name is empty or taken.
        NoGraphError: No conversion is in progress.
    """
    builder = current_builder("Cast")
    _check_dependencies("Cast", dependencies)
    target = _dtype("Cast", dst_type)
    if target is None:
        raise _not_a_dtype("Cast", dst_type)
    value = x if isinstance(x, Value) else builder.const(x)
    result: Value = CastOperator(value, dst_type=target, dependencies=dependencies, node_name=node_name)
    return result


def Clone(x: Value, *, dependencies: Sequence[Value] = (), node_name: str | None = None) -> Value:
    """A copy of ``x`` in memory of its own (``TensorMove``), for operators that write their input in place.

    Args:
        x: A tensor.
        dependencies: Tensors whose producers must run before.
        node_name: Exact name of the node.

    Raises:
        ArgumentError: An argument is not of that kind; the name is empty or taken.
        NoGraphError: No conversion is in progress.
    """
    current_builder("Clone")
    _check_dependencies("Clone", dependencies)
    if not isinstance(x, Value):
        raise ArgumentError(
            "A function of torchair.ge takes a tensor of the graph",
            why=f"Clone was given {x!r}, a {type(x).__name__}",
            fix="torchair.ge.Const(value) makes a tensor of a Python value.",
        )
    result: Value = TensorMove(x, dependencies=dependencies, node_name=node_name)
    return result


def _check_dependencies(function: str, dependencies: Any) -> None:
    wrong = dependencies
    if isinstance(dependencies, list | tuple):
        wrong = next((d for d in dependencies if not isinstance(d, Value)), None)
        if wrong is None:
            return
    raise ArgumentError(
        "The dependencies of a node are tensors of the graph",
        why=f"{function} was given dependencies={dependencies!r}, where {wrong!r} is a {type(wrong).__name__}",
        fix="Pass a list of tensors whose producers must run before.",
    )


def _dtype(function: str, dtype: Any) -> DType | None:
    if dtype is None:
        return None
    if isinstance(dtype, torch.dtype):
        return dtype_of(dtype)
    if isinstance(dtype, int) and not isinstance(dtype, bool) and dtype in DType._value2member_map_:
        return DType(dtype)
    raise _not_a_dtype(function, dtype)


def _not_a_dtype(function: str, dtype: Any) -> ArgumentError:
    return ArgumentError(
        "A dtype is a torchair.ge.DataType or a torch.dtype",
        why=f"{function} was given {dtype!r}",
        fix="torchair.ge.DataType.DT_FLOAT",
    )


def _readable(value: Any) -> str:
    text = str(value.tolist()) if hasattr(value, "tolist") and value.size and _count(value) <= 64 else str(value)
    return " ".join(text.split())


def _count(value: Any) -> int:
    return int(value.numel() if isinstance(value, torch.Tensor) else value.size)
