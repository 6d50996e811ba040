"""Capture and replay of graphs: a public facade over ``torchair`` (specification, F-05, decision 10).

``torch.compile(model, backend="npugraph_ex", options={...})`` needs no import of this package.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from npugraph_ex import inference, scope
    from torchair.capture.bounds import set_capture_bounds
    from torchair.capture.pools import graph_pool_handle
    from torchair.config import NpuGraphExConfig as CompilerConfig
    from torchair.frontend.replacement import register_capture_replacement as register_replacement
    from torchair.logs import npugraph_ex_logger as logger
    from torchair.pipeline.backends import (
        compile_fx,
        get_capture_backend as get_npu_backend,
        get_capture_compiler as get_compiler,
    )
    from torchair.torchops.saving import save_npugraph_tensor

__all__ = [
    "CompilerConfig",
    "compile_fx",
    "get_compiler",
    "get_npu_backend",
    "graph_pool_handle",
    "inference",
    "logger",
    "register_replacement",
    "save_npugraph_tensor",
    "scope",
    "set_capture_bounds",
]

#: Public name -> module that defines it, and its name there.
_HOMES = {
    "CompilerConfig": ("torchair.config", "NpuGraphExConfig"),
    "compile_fx": ("torchair.pipeline.backends", "compile_fx"),
    "get_compiler": ("torchair.pipeline.backends", "get_capture_compiler"),
    "get_npu_backend": ("torchair.pipeline.backends", "get_capture_backend"),
    "graph_pool_handle": ("torchair.capture.pools", "graph_pool_handle"),
    "logger": ("torchair.logs", "npugraph_ex_logger"),
    "save_npugraph_tensor": ("torchair.torchops.saving", "save_npugraph_tensor"),
    "set_capture_bounds": ("torchair.capture.bounds", "set_capture_bounds"),
    "register_replacement": ("torchair.frontend.replacement", "register_capture_replacement"),
}


def __getattr__(name: str) -> Any:
    if name in ("inference", "scope"):
        return importlib.import_module(f"{__name__}.{name}")
    if name in _HOMES:
        module, there = _HOMES[name]
        value = getattr(importlib.import_module(module), there)
        globals()[name] = value
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
