"""FX to Ascend IR: the converter registry, the driver, and our converters."""

from __future__ import annotations

from torchair.convert.registry import Converter, converters, register_fx_node_ge_converter
from torchair.convert.supported import declare_supported

__all__ = ["Converter", "converters", "declare_supported", "register_fx_node_ge_converter"]
