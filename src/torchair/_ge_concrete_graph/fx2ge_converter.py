"""Upstream's path to the converter registry."""

from __future__ import annotations

from torchair.convert.registry import Converter, register_fx_node_ge_converter
from torchair.convert.supported import declare_supported

__all__ = ["Converter", "declare_supported", "register_fx_node_ge_converter"]
