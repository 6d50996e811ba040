"""Loads the built-in opset and converters on the first compile (importing torchair must stay cheap)."""

from __future__ import annotations

import functools
import importlib
import pkgutil

__all__ = ["load_converters"]


@functools.cache
def load_converters() -> None:
    """Import every module of the opset and of ``torchair.convert.aten`` and its neighbors."""
    for package in ("torchair.opset", "torchair.convert.aten"):
        for module in pkgutil.iter_modules(importlib.import_module(package).__path__):
            importlib.import_module(f"{package}.{module.name}")
