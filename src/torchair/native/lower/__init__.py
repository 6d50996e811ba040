"""ATen operators as loop values: one function for each overload, one module a family."""

from __future__ import annotations

import functools
import importlib

from torchair.native.lower.registry import Lowering, lowering_of

__all__ = ["Lowering", "load_lowerings", "lowering_of"]


@functools.cache
def load_lowerings() -> None:
    """Import the modules that register."""
    for family in (
        "pointwise",
        "views",
        "creation",
        "reductions",
        "indexing",
        "joining",
        "products",
        "writes",
        "pooling",
    ):
        importlib.import_module(f"torchair.native.lower.{family}")
