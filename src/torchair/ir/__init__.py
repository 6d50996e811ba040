"""The Ascend IR in memory: types, values, nodes, graphs, their text form and their verifier."""

from __future__ import annotations

from torchair.ir.graph import Attr, Blob, Call, Graph, Literal, Node, Operand, Origin, OutputSpec, Slot, Use, Value
from torchair.ir.types import Dim, DType, Format, TensorType, as_dim

__all__ = [
    "Attr",
    "Blob",
    "Call",
    "DType",
    "Dim",
    "Format",
    "Graph",
    "Literal",
    "Node",
    "Operand",
    "Origin",
    "OutputSpec",
    "Slot",
    "TensorType",
    "Use",
    "Value",
    "as_dim",
]
