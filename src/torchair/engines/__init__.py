"""Engines: what runs an IR graph.

Adding one touches this folder only; third parties use the entry points ``torchair.engines``.
"""

from __future__ import annotations

from torchair.engines.base import Engine, Executable
from torchair.engines.select import engine_names, select_engine

__all__ = ["Engine", "Executable", "engine_names", "select_engine"]
