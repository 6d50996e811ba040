"""Loads the built-in opset and converters on the first compile (importing torchair must stay cheap)."""

from __future__ import annotations

import functools
import importlib

from torchair.opset.loading import import_all, load_operators

__all__ = ["load_converters", "load_operators"]


@functools.cache
def load_converters() -> None:
    """Import every module of the opset, of ``torchair.convert.aten`` and of its neighbors."""
    load_operators()
    for package in ("torchair.convert.aten", "torchair.convert.air"):
        import_all(package)
    # Custom passes may insert scope markers without importing torchair.scope.
    importlib.import_module("torchair.torchops.scopes")
