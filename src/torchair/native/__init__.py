"""Native code: parts of FX graphs compiled to C++, run in one parallel region. See ``partition.py`` for the flow."""

from __future__ import annotations

from torchair.native.partition import PartitionRecord, replace_regions

__all__ = ["PartitionRecord", "replace_regions"]
