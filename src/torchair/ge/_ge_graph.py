"""Upstream's path to the graph classes: ``from torchair.ge._ge_graph import Tensor, TensorSpec, DataType``."""

from __future__ import annotations

from torchair.convert.results import TensorSpec
from torchair.ir import DType as DataType, Graph, Value as Tensor
from torchair.opset.builder import current_builder

__all__ = ["DataType", "Tensor", "TensorSpec", "get_default_ge_graph"]


def get_default_ge_graph() -> Graph:
    """The graph under construction.

    Raises:
        NoGraphError: No conversion is in progress.
    """
    return current_builder("get_default_ge_graph").graph
