"""Built-in replacements by fused operators of the device plug-in (specification, F-21)."""

from __future__ import annotations

from torchair.frontend.replacement import Replacement

__all__ = ["builtin_replacements"]


def builtin_replacements(mode: str) -> tuple[Replacement, ...]:
    """Built-in replacements."""
    return ()
