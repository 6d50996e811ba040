"""Tensors over memory of others, for transferring caches between processes (specification, F-88)."""

from __future__ import annotations

from torchair.runtime.foreign_memory import create_npu_tensors

__all__ = ["create_npu_tensors"]
