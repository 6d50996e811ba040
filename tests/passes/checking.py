"""What every test of a pass does: run it on a graph given as text, and compare what that computes before and after."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.testing import assert_close

from torchair.engines.reference import ReferenceExecutable
from torchair.ir.graph import Graph
from torchair.ir.symbols import evaluate_all
from torchair.ir.text import from_text, to_text
from torchair.ir.types import TensorType
from torchair.ir.verify import verify
from torchair.opset.torch_types import torch_dtype
from torchair.passes import GraphPass
from torchair.pipeline.builtin import load_operators

__all__ = ["after", "apply", "logged", "run", "same_results", "unchanged"]

load_operators()

# ``add_(x, y)`` as a custom operator: it writes its first argument and returns nothing.
_library = torch.library.Library("torchair_pass_tests", "DEF")
_library.define("add_(Tensor(a!) x, Tensor y) -> ()")
_library.define("add_both_(Tensor(a!) x, Tensor(b!) y, Tensor z) -> ()")


def _add(x: torch.Tensor, y: torch.Tensor) -> None:
    x.add_(y)


def _add_both(x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> None:
    x.add_(z)
    y.add_(z)


_library.impl("add_", _add, "CPU")
_library.impl("add_both_", _add_both, "CPU")

#: How a graph's text calls them.
ADD = "call torchair_pass_tests::add_.default($0, $1) writing $0"
ADD_BOTH = "call torchair_pass_tests::add_both_.default($0, $1, $2) writing $0, $1"

#: Sizes of symbols in tests.
SYMBOLS = {"s0": 3, "s1": 5}


def apply(text: str, *passes: GraphPass, blobs: Mapping[str, Any] | None = None) -> Graph:
    """The graph of a text after passes, which must leave it well formed, keep its results, then find nothing more."""
    graph = from_text(text, blobs)
    verify(graph)
    before = from_text(text, blobs)
    for graph_pass in passes:
        graph_pass.run(graph)
        verify(graph)
    same_results(before, graph)
    once, revision = to_text(graph), graph.revision
    for graph_pass in passes:
        graph_pass.run(graph)
    assert to_text(graph) == once
    assert graph.revision == revision
    return graph


def after(text: str, *passes: GraphPass, blobs: Mapping[str, Any] | None = None) -> str:
    """The text after passes; see :func:`apply`."""
    return to_text(apply(text, *passes, blobs=blobs))


def unchanged(text: str, *passes: GraphPass, blobs: Mapping[str, Any] | None = None) -> None:
    """Assert that passes leave a graph alone."""
    assert after(text, *passes, blobs=blobs) == to_text(from_text(text, blobs))


@contextlib.contextmanager
def logged(name: str) -> Iterator[list[str]]:
    """The messages of a logger at DEBUG meanwhile, whatever handlers and levels there are."""
    messages: list[str] = []

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            messages.append(record.getMessage())

    logger, handler = logging.getLogger(name), Handler()
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    try:
        yield messages
    finally:
        logger.setLevel(level)
        logger.removeHandler(handler)


def _product_sizes(graph: Graph) -> list[str]:
    return sorted(str([v.type for v in node.outputs]) for node in graph.nodes if "MatMul" in node.op)


def same_results(a: Graph, b: Graph) -> None:
    """Assert that two graphs return the same, leave the same in their inputs, and keep the caller's tensors apart."""
    results_a, inputs_a = run(a)
    results_b, inputs_b = run(b)
    # On some processors BLAS sums in another order when a matrix has other sizes.
    near = 0 if _product_sizes(a) == _product_sizes(b) else 1e-5
    assert_close([*results_a, *inputs_a], [*results_b, *inputs_b], rtol=near, atol=near, equal_nan=True)
    assert _shared([*results_b, *inputs_b]) <= _shared([*results_a, *inputs_a])


def run(graph: Graph) -> tuple[list[Any], list[Any]]:
    """Run a graph with the reference engine on random numbers: outputs, and inputs as they are afterwards."""
    generator = torch.Generator().manual_seed(0)
    inputs = [_argument(value.type, generator) for value in graph.inputs]
    outputs = ReferenceExecutable(graph)(*inputs)
    return list(outputs), inputs


def _argument(type: TensorType, generator: torch.Generator) -> Any:
    if type.content is not None:
        return SYMBOLS[str(type.content[0])]
    shape = evaluate_all(type.shape, SYMBOLS)
    dtype = torch_dtype(type.dtype)
    if dtype.is_floating_point or dtype.is_complex:
        return torch.randn(shape, generator=generator, dtype=dtype)
    return torch.randint(0, 2, shape, generator=generator).to(dtype)


def _shared(tensors: Sequence[Any]) -> set[tuple[int, int]]:
    """Pairs of tensors that share memory."""
    storages = [t.untyped_storage()._cdata if isinstance(t, torch.Tensor) else None for t in tensors]
    return {(i, j) for j, b in enumerate(storages) for i, a in enumerate(storages[:j]) if a is not None and a == b}
