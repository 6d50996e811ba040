"""Engines: what runs an IR graph.

Adding one touches this folder only; third parties use the entry points ``torchair.engines``.
"""

from __future__ import annotations

from torchair.engines.base import BoxedExecutable, Engine, Executable
from torchair.engines.select import compile_on, engine_names, select_engine

__all__ = ["BoxedExecutable", "Engine", "Executable", "compile_on", "engine_names", "select_engine"]
