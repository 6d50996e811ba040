"""TorchAir: a graph-mode backend for ``torch.compile`` that converts PyTorch graphs to Ascend IR and runs them.

Importing this package is cheap and has no effect: names are loaded when they are first used (PEP 562), and the
backend names ``"torchair"`` and ``"npu"`` come from entry points.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torchair import configs, core, customop, ge, inference, llm_datadist, ops, scope, tools, trace
    from torchair.config import CompilerConfig
    from torchair.convert.registry import register_fx_node_ge_converter
    from torchair.convert.supported import declare_supported
    from torchair.customop.check import check_operator
    from torchair.frontend.blocked_layouts import npu_format_cast_via_cpu
    from torchair.frontend.internal_format import use_internal_format_weight
    from torchair.frontend.replacement import register_replacement
    from torchair.later import (
        dynamo_export,
        patch_for_hcom,
    )
    from torchair.logs import logger
    from torchair.pipeline.backends import get_compiler, get_npu_backend
    from torchair.pipeline.explain import explain, reset
    from torchair.pipeline.record_trace import record_trace

__version__ = "0.1.0"

#: Public name -> module that defines it.
_HOMES = {
    "CompilerConfig": "torchair.config",
    "check_operator": "torchair.customop.check",
    "declare_supported": "torchair.convert.supported",
    "dynamo_export": "torchair.later",
    "explain": "torchair.pipeline.explain",
    "get_compiler": "torchair.pipeline.backends",
    "get_npu_backend": "torchair.pipeline.backends",
    "logger": "torchair.logs",
    "npu_format_cast_via_cpu": "torchair.frontend.blocked_layouts",
    "patch_for_hcom": "torchair.later",
    "record_trace": "torchair.pipeline.record_trace",
    "register_fx_node_ge_converter": "torchair.convert.registry",
    "register_replacement": "torchair.frontend.replacement",
    "reset": "torchair.pipeline.explain",
    "use_internal_format_weight": "torchair.frontend.internal_format",
}
_SUBMODULES = ("configs", "core", "customop", "ge", "inference", "llm_datadist", "ops", "scope", "tools", "trace")

__all__ = [
    "CompilerConfig",
    "check_operator",
    "configs",
    "core",
    "customop",
    "declare_supported",
    "dynamo_export",
    "explain",
    "ge",
    "get_compiler",
    "get_npu_backend",
    "inference",
    "llm_datadist",
    "logger",
    "npu_format_cast_via_cpu",
    "ops",
    "patch_for_hcom",
    "record_trace",
    "register_fx_node_ge_converter",
    "register_replacement",
    "reset",
    "scope",
    "tools",
    "trace",
    "use_internal_format_weight",
]


def __getattr__(name: str) -> Any:
    if name in _SUBMODULES:
        return importlib.import_module(f"{__name__}.{name}")
    if name in _HOMES:
        value = getattr(importlib.import_module(_HOMES[name]), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
