"""IR graphs from text, run on the engines."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from torchair.config import CompilerConfig, Options
from torchair.engines.inductor import InductorEngine
from torchair.engines.native import NativeEngine
from torchair.engines.reference import ReferenceEngine, ReferenceExecutable
from torchair.ir import Graph
from torchair.ir.text import from_text
from torchair.opset.kernels import Kernel, kernels
from torchair.opset.prototype import AttrSpec, InputSpec, OutputSpec, Prototype, prototypes
from torchair.pipeline.builtin import load_converters

__all__ = ["OPTIONS", "assert_engines_agree", "inductor", "native", "read", "reference", "registered"]

load_converters()
OPTIONS = Options.from_config(CompilerConfig())


def read(text: str, **blobs: torch.Tensor) -> Graph:
    """A graph from its text."""
    return from_text(text, blobs)


def reference(graph: Graph | str) -> ReferenceExecutable:
    """A graph on the reference engine."""
    return ReferenceEngine().compile(read(graph) if isinstance(graph, str) else graph, OPTIONS)


def inductor(graph: Graph | str) -> Any:
    """A graph on the inductor engine, compiled outside Dynamo."""
    return InductorEngine().compile(read(graph) if isinstance(graph, str) else graph, OPTIONS)


def native(graph: Graph | str) -> Any:
    """A graph on the native engine, compiled outside Dynamo."""
    return NativeEngine().compile(read(graph) if isinstance(graph, str) else graph, OPTIONS)


def _copied(values: Sequence[Any]) -> list[Any]:
    return [v.clone() if isinstance(v, torch.Tensor) else v for v in values]


def assert_engines_agree(graph: Graph | str, *calls: Sequence[Any], rtol: float = 0.0, atol: float = 0.0) -> Any:
    """Run on all engines and compare results, their strides, and what became of the arguments.

    Returns:
        The inductor engine's executable.
    """
    graph = read(graph) if isinstance(graph, str) else graph
    first, second, third = reference(graph), inductor(graph), native(graph)
    for call, run in itertools.product(calls, (second, third)):
        wanted_args, got_args = _copied(call), _copied(call)
        wanted, got = first(*wanted_args), run(*got_args)
        assert len(got) == len(wanted)
        for a, b in zip([*got, *got_args], [*wanted, *wanted_args], strict=True):
            if isinstance(b, torch.Tensor):
                torch.testing.assert_close(a, b, rtol=rtol, atol=atol, equal_nan=True, check_stride=b.numel() > 1)
            else:
                assert type(a) is type(b)
                assert a == b
    return second


@contextmanager
def registered(
    op: str,
    function: Any,
    *,
    inputs: Sequence[tuple[Any, ...]],
    outputs: Sequence[str] = ("y",),
    attrs: Sequence[tuple[str, str]] = (),
) -> Iterator[None]:
    """A user's kernel, for the time of a test.

    Args:
        inputs: Arguments of :class:`InputSpec`.
    """
    specs = tuple(InputSpec(*spec) for spec in inputs)
    prototypes.declare(
        Prototype(op, specs, tuple(AttrSpec(*a) for a in attrs), tuple(OutputSpec(name) for name in outputs))
    )
    kernels.register(Kernel(op, function))
    try:
        yield
    finally:
        kernels.forget(op)
        prototypes.forget(op)
