"""Upstream's path to ``dtype_promote``."""

from __future__ import annotations

from torchair.convert.promotion import dtype_promote

__all__ = ["dtype_promote"]
