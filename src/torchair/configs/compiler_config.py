"""Upstream's longer path to the same class: ``from torchair.configs.compiler_config import CompilerConfig``."""

from __future__ import annotations

from torchair.config import CompilerConfig

__all__ = ["CompilerConfig"]
