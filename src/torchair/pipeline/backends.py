"""The entry points of ``torch.compile``: backends by name and by ``get_npu_backend``."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch import fx

from torchair import _torch_compat
from torchair.config import CompilerConfig, Options
from torchair.convert.registry import converters
from torchair.pipeline.builtin import load_converters
from torchair.pipeline.ge_mode import compile_graph

__all__ = ["get_compiler", "get_npu_backend", "npu", "torchair"]


def get_npu_backend(
    *,
    compiler_config: CompilerConfig | None = None,
    custom_decompositions: Mapping[Any, Callable[..., Any]] | None = None,
) -> Callable[..., Any]:
    """A backend for ``torch.compile`` that runs graphs in GE mode.

    Args:
        compiler_config: Held by reference: changes before the first compile take effect. None means a fresh one.
        custom_decompositions: Operator overloads to decomposition functions; they win over the default table.

    Returns:
        A ``functools.partial`` whose keyword ``compiler_config`` is the config.
    """
    config = CompilerConfig() if compiler_config is None else compiler_config
    return functools.partial(_backend, compiler_config=config, custom_decompositions=dict(custom_decompositions or {}))


def get_compiler(
    compiler_config: CompilerConfig | None = None,
) -> Callable[[fx.GraphModule, Sequence[Any]], Callable[..., Any]]:
    """A compiler of AOT graphs, usable as ``fw_compiler`` of ``aot_module_simplified`` in a backend of one's own.

    Returns:
        ``(gm, example_inputs) -> callable`` that takes the flat inputs and returns a sequence of outputs.
    """
    config = CompilerConfig() if compiler_config is None else compiler_config

    def compiler(gm: fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        compiled = compile_graph(gm, example_inputs, Options.from_config(config))
        return lambda *args: compiled(list(args))

    return compiler


def torchair(gm: fx.GraphModule, example_inputs: Sequence[Any], **kwargs: Any) -> Callable[..., Any]:
    """Backend ``"torchair"``: GE mode with the default configuration."""
    return _backend(gm, example_inputs, compiler_config=CompilerConfig(), **kwargs)


def npu(gm: fx.GraphModule, example_inputs: Sequence[Any], **kwargs: Any) -> Callable[..., Any]:
    """Backend ``"npu"``: the name that upstream uses for the same."""
    return _backend(gm, example_inputs, compiler_config=CompilerConfig(), **kwargs)


def _backend(
    gm: fx.GraphModule,
    example_inputs: Sequence[Any],
    *,
    compiler_config: CompilerConfig,
    custom_decompositions: Mapping[Any, Callable[..., Any]] | None = None,
) -> Callable[..., Any]:
    load_converters()
    options = Options.from_config(compiler_config)
    compiler = functools.partial(compile_graph, options=options)
    return _torch_compat.aot_module_simplified(
        gm,
        example_inputs,
        fw_compiler=compiler,
        bw_compiler=compiler,
        inference_compiler=compiler,
        decompositions=_decompositions(custom_decompositions or {}),
        keep_inference_input_mutations=options.keep_inference_input_mutations,
    )


def _decompositions(custom: Mapping[Any, Callable[..., Any]]) -> dict[Any, Callable[..., Any]]:
    """PyTorch's core table without the operators that have a converter; the user's entries win."""
    table = {op: f for op, f in _torch_compat.core_decompositions().items() if converters.get(op) is None}
    table.update(custom)
    return table
