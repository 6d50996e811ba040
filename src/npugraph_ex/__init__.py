"""Capture and replay of graphs: a public facade over ``torchair`` (specification, F-05, decision 10).

This version has the names and the configuration. Compiling in this mode raises ``UnavailableFeatureError``.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from torch import fx

    from npugraph_ex import inference, scope
    from torchair.config import NpuGraphExConfig as CompilerConfig
    from torchair.logs import npugraph_ex_logger as logger

__all__ = [
    "CompilerConfig",
    "compile_fx",
    "get_compiler",
    "get_npu_backend",
    "inference",
    "logger",
    "register_replacement",
    "scope",
]

_INSTEAD = "torchair.get_npu_backend() runs graphs in GE mode."

#: Public name -> module that defines it, and its name there.
_HOMES = {
    "CompilerConfig": ("torchair.config", "NpuGraphExConfig"),
    "logger": ("torchair.logs", "npugraph_ex_logger"),
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


def compile_fx(
    gm: fx.GraphModule, example_inputs: Sequence[Any] | None = None, options: Mapping[str, Any] | None = None
) -> NoReturn:
    """Compile an AOT graph for capture and replay; not in this version.

    Raises:
        UnavailableFeatureError: Always.
    """
    raise _unavailable("npugraph_ex.compile_fx", "torchair.get_compiler() compiles AOT graphs in GE mode.")


def get_npu_backend(
    *,
    compiler_config: CompilerConfig | None = None,
    custom_decompositions: Mapping[Any, Callable[..., Any]] | None = None,
) -> NoReturn:
    """A backend for ``torch.compile`` that captures and replays; not in this version.

    Raises:
        UnavailableFeatureError: Always.
    """
    raise _unavailable("npugraph_ex.get_npu_backend", _INSTEAD)


def get_compiler(compiler_config: CompilerConfig | None = None) -> NoReturn:
    """A compiler of AOT graphs that captures and replays; not in this version.

    Raises:
        UnavailableFeatureError: Always.
    """
    raise _unavailable("npugraph_ex.get_compiler", "torchair.get_compiler() compiles AOT graphs in GE mode.")


def register_replacement(*args: Any, **kwargs: Any) -> NoReturn:
    """Register a replacement of a pattern in FX graphs; not in this version.

    Raises:
        UnavailableFeatureError: Always.
    """
    raise _unavailable(
        "npugraph_ex.register_replacement",
        "A custom pass edits the FX graph: config.post_grad_custom_post_pass of torchair.CompilerConfig.",
    )


def _unavailable(name: str, instead: str) -> Exception:
    from torchair.errors import unavailable

    return unavailable(name, instead)
