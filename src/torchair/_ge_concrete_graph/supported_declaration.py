"""Upstream's path to the descriptors of ``declare_supported``."""

from __future__ import annotations

from torchair.convert.supported import BF16, BOOL, C64, F16, F32, F64, I8, I16, I32, I64, U8, Support, T

__all__ = ["BF16", "BOOL", "C64", "F16", "F32", "F64", "I8", "I16", "I32", "I64", "Support", "T", "U8"]
