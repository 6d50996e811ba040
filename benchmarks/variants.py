"""The ways to run a workload: eager, PyTorch's compiler, and ours."""

from __future__ import annotations

import functools
import importlib.util
import os
import shutil
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import torch

from benchmarks.harness import Unavailable, Variant

__all__ = ["DEFAULTS", "VARIANTS"]

_Compile = Callable[[Callable[..., Any]], Callable[..., Any]]
_NOTHING: Mapping[str, Any] = MappingProxyType({})


def _need_compiler(device: torch.device) -> None:
    """Inductor makes C++ on CPU and Triton kernels on CUDA."""
    if device.type == "cuda":
        if importlib.util.find_spec("triton") is None:
            raise Unavailable("triton is not installed")
    elif shutil.which(os.environ.get("CXX", "g++")) is None and shutil.which("clang++") is None:
        raise Unavailable("there is no C++ compiler")


def _need_cuda(device: torch.device) -> None:
    if device.type != "cuda":
        raise Unavailable("needs --device cuda")
    _need_compiler(device)


def _need_backend(name: str) -> Callable[[torch.device], None]:
    def require(_: torch.device) -> None:
        if name not in torch.compiler.list_backends():
            raise Unavailable(f"there is no backend {name!r}")

    return require


def _compiled(backend: str, options: Mapping[str, Any] = _NOTHING) -> _Compile:
    # fullgraph: a variant that falls back to eager at a graph break would be timed as something it is not.
    def compile_(function: Callable[..., Any]) -> Callable[..., Any]:
        compiled: Callable[..., Any] = torch.compile(
            function, backend=backend, fullgraph=True, options=dict(options) or None
        )
        return compiled

    return compile_


def _reduce_overhead(function: Callable[..., Any]) -> Callable[..., Any]:
    compiled: Callable[..., Any] = torch.compile(function, mode="reduce-overhead", fullgraph=True)
    return compiled


def _openvino(function: Callable[..., Any]) -> Callable[..., Any]:
    compiled: Callable[..., Any] = torch.compile(function, backend="openvino", fullgraph=True)
    return compiled


def _ge(engine: str, function: Callable[..., Any]) -> Callable[..., Any]:
    import torchair

    config = torchair.CompilerConfig()
    config.engine = engine
    compiled: Callable[..., Any] = torch.compile(
        function, backend=torchair.get_npu_backend(compiler_config=config), fullgraph=True
    )
    return compiled


def _need_engine(engine: str, *, compiler: bool) -> Callable[[torch.device], None]:
    def require(device: torch.device) -> None:
        import torchair
        from torchair.errors import TorchAirError

        if device.type != "cpu":
            raise Unavailable("GE mode computes on CPU")
        try:
            torchair.CompilerConfig().engine = engine
        except TorchAirError as error:
            raise Unavailable(f"there is no engine {engine!r}") from error
        if compiler:
            _need_compiler(device)

    return require


def _variant_ge(engine: str, *, compiler: bool) -> Variant:
    return Variant(
        f"ge-{engine}",
        f"GE mode with engine {engine!r}",
        functools.partial(_ge, engine),
        require=_need_engine(engine, compiler=compiler),
    )


VARIANTS: Mapping[str, Variant] = {
    variant.name: variant
    for variant in (
        Variant("eager", "no compiler", lambda function: function, peer=True),
        Variant("inductor", "Inductor as it is", _compiled("inductor"), peer=True, require=_need_compiler),
        Variant(
            "inductor-cpp",
            "Inductor with cpp_wrapper: the code that calls the kernels is C++ too",
            _compiled("inductor", {"cpp_wrapper": True}),
            peer=True,
            require=_need_compiler,
        ),
        Variant(
            "inductor-freeze",
            "Inductor with freezing: weights are constants, which ours does not assume",
            _compiled("inductor", {"freezing": True}),
            peer=True,
            require=_need_compiler,
        ),
        Variant(
            "reduce-overhead",
            "Inductor with CUDA Graphs (mode reduce-overhead)",
            _reduce_overhead,
            peer=True,
            require=_need_cuda,
        ),
        Variant("openvino", "OpenVINO's backend", _openvino, peer=True, require=_need_backend("openvino")),
        Variant(
            "npugraph_ex",
            "captured once, replayed without Python",
            _compiled("npugraph_ex"),
            require=_need_backend("npugraph_ex"),
        ),
        _variant_ge("reference", compiler=False),
        _variant_ge("inductor", compiler=True),
        _variant_ge("native", compiler=True),
    )
}

#: What runs when no variant is named, by device.
DEFAULTS: Mapping[str, tuple[str, ...]] = {
    "cpu": ("eager", "inductor", "inductor-cpp", "npugraph_ex", "ge-inductor"),
    "cuda": ("eager", "inductor", "reduce-overhead", "npugraph_ex"),
}
