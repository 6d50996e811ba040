"""Parts of a captured function (specification, F-41)."""

from __future__ import annotations

from torchair.torchops.contexts import limit_core_num

__all__ = ["limit_core_num"]
