"""FX to Ascend IR: the converter registry, the driver, and our converters."""

from __future__ import annotations

from torchair.convert.registry import Converter, converters, register_fx_node_ge_converter

__all__ = ["Converter", "converters", "register_fx_node_ge_converter"]
