"""Compile caches for capture and replay (specification, F-83)."""

from __future__ import annotations

from torchair.inference import cache_compile, readable_cache

__all__ = ["cache_compile", "readable_cache"]
