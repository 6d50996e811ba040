"""The ways to run a workload: eager, PyTorch's compiler, and ours."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import os
import shutil
import tempfile
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch

from benchmarks.cases import CASES
from benchmarks.harness import Unavailable, Variant
from benchmarks.start import child

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


def _need_openvino(device: torch.device) -> None:
    if importlib.util.find_spec("openvino") is None:
        raise Unavailable("openvino is not installed")
    if device.type != "cpu":
        raise Unavailable("measured on CPU")


def _openvino(function: Callable[..., Any]) -> Callable[..., Any]:
    """OpenVINO in float32, as all others (on some CPUs it would compute in bfloat16), and with weights as constants."""
    dynamo: Any = importlib.import_module("torch._dynamo.config")
    name = "inline_inbuilt_nn_modules"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # newer versions of torch only know True
        before = getattr(dynamo, name, None)
        backend: Any = importlib.import_module("openvino.frontend.pytorch.torchdynamo.backend")
        if before is not None:
            # The import turns a setting of Dynamo off, for everybody.
            setattr(dynamo, name, before)
    backend.compile_fx = _refuse_inductor
    options: Any = {"aot_autograd": True, "config": {"INFERENCE_PRECISION_HINT": "f32"}}
    compiled: Callable[..., Any] = torch.compile(function, backend="openvino", fullgraph=True, options=options)
    return compiled


def _refuse_inductor(*_: Any, **__: Any) -> Any:
    raise Unavailable("OpenVINO cannot run the graph and would leave it to Inductor")


def _probe_openvino(case: str) -> str | None:
    """Some graphs end the process."""
    if case not in CASES:
        return None
    with tempfile.TemporaryDirectory() as folder:
        found = child(case, VARIANTS["openvino"], Path(folder))
    return None if found["status"] == "ok" else f"{found['status']} in a process of its own: {found['reason']}"


def _need_static_kernels(device: torch.device) -> None:
    from torchair.config.without_effect import WITHOUT_EFFECT

    if "npugraph_ex.static_kernel_compile" in WITHOUT_EFFECT:
        raise Unavailable("static_kernel_compile has no effect in this version")
    _need_backend("npugraph_ex")(device)
    _need_compiler(device)


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
            "inductor-both",
            "Inductor with freezing and cpp_wrapper",
            _compiled("inductor", {"freezing": True, "cpp_wrapper": True}),
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
        Variant(
            "openvino",
            "OpenVINO's backend, in float32",
            _openvino,
            peer=True,
            require=_need_openvino,
            probe=_probe_openvino,
        ),
        Variant(
            "npugraph_ex",
            "captured once, replayed without Python",
            _compiled("npugraph_ex"),
            require=_need_backend("npugraph_ex"),
        ),
        Variant(
            "npugraph_ex-static",
            "captured, with static_kernel_compile: operators become native kernels",
            _compiled("npugraph_ex", {"static_kernel_compile": True}),
            require=_need_static_kernels,
        ),
        _variant_ge("reference", compiler=False),
        _variant_ge("inductor", compiler=True),
        _variant_ge("native", compiler=True),
    )
}

#: What runs when no variant is named, by device.
DEFAULTS: Mapping[str, tuple[str, ...]] = {
    "cpu": (
        "eager",
        "inductor",
        "inductor-freeze",
        "inductor-cpp",
        "inductor-both",
        "ge-native",
        "ge-inductor",
        "npugraph_ex",
        "npugraph_ex-static",
    ),
    "cuda": ("eager", "inductor", "reduce-overhead", "npugraph_ex"),
}
