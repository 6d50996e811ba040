"""A graph under construction, as a converter sees it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from torchair.convert.custom_op import Conversion
from torchair.ir import DType, TensorType, Value
from torchair.ir.graph import Graph
from torchair.opset.builder import GraphBuilder, building
from torchair.opset.prototype import Prototype, prototypes

__all__ = ["conversion", "declared"]


@contextlib.contextmanager
def conversion(*shapes: tuple[int, ...], overload=None, require_prototype=False) -> Iterator[list[Value]]:
    """Inputs of these shapes in a graph under construction; ``overload`` is the torch operator under conversion."""
    builder = GraphBuilder(Graph())
    values = [builder.graph.add_input(TensorType.of(DType.DT_FLOAT, shape), f"x{i}") for i, shape in enumerate(shapes)]
    if overload is not None:
        builder.conversion = Conversion(overload, require_prototype, lambda prototype: None)
        builder.owned_from = 0
    with building(builder):
        yield values


@contextlib.contextmanager
def declared(declare) -> Iterator[Prototype]:
    """What ``declare`` declares, for the time of a test."""
    prototype = declare()
    try:
        yield prototype
    finally:
        prototypes.forget(prototype.name)
