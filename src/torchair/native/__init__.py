"""Native code: parts of FX graphs compiled to C++, run in one parallel region. See ``partition.py`` for the flow."""

from __future__ import annotations

from torchair.native.launch import bound_launch
from torchair.native.partition import PartitionRecord, fuses_with_copy, replace_regions
from torchair.native.program import NativeProgram

__all__ = ["NativeProgram", "PartitionRecord", "bound_launch", "fuses_with_copy", "replace_regions"]
