"""Compiling a function in GE mode with the reference engine, and comparing it with eager."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any
from unittest import mock

import torch
from torch.testing import assert_close
from torch.utils import _pytree as pytree

import torchair
from torchair.config import CompilerConfig
from torchair.ir import Graph
from torchair.pipeline import backends
from torchair.pipeline.ge_mode import compile_graph

__all__ = ["check", "check_samples", "converted_graphs", "converted_ops", "only", "reference_backend", "samples"]

#: Nodes that only hold constants and sizes.
_PLUMBING = ("Const", "HostInts")


def reference_backend(*, unconverted_ops: str = "run") -> backends.Backend:
    """A backend that runs graphs with the reference engine."""
    config = CompilerConfig()
    config.engine = "reference"
    config.experimental_config.unconverted_ops = unconverted_ops
    return torchair.get_npu_backend(compiler_config=config)


@contextlib.contextmanager
def _recording(graphs: list[Graph]) -> Iterator[None]:
    """Note each IR graph that is compiled meanwhile (the one for the gradient is compiled when it is first needed)."""

    def recording(*args: Any, **kwargs: Any) -> Any:
        compiled = compile_graph(*args, **kwargs)
        graphs.append(compiled.graph)  # type: ignore[attr-defined]
        return compiled

    with mock.patch.object(backends, "compile_graph", recording):
        yield


def _copies(args: Any) -> Any:
    """Arguments with memory of their own, of the same strides; views of one base stay views of one base."""
    memo: dict[int, Any] = {}

    def copy(x: Any) -> Any:
        if not isinstance(x, torch.Tensor) or x.layout is not torch.strided:
            return x
        storage = x.untyped_storage()
        base = memo.setdefault(storage._cdata, storage.clone())
        made = torch.empty(0, dtype=x.dtype).set_(base, x.storage_offset(), x.size(), x.stride())
        return made.requires_grad_(x.requires_grad)

    return pytree.tree_map(copy, args)


def check(
    fn: Callable[..., Any],
    *args: Any,
    dynamic: bool | None = None,
    rtol: float = 0.0,
    atol: float = 0.0,
    ops: Iterable[str] | None = None,
    unconverted_ops: str = "run",
    backward: bool = False,
    seed: int | None = None,
) -> list[Graph]:
    """Compile ``fn`` and compare values, dtypes, strides and what became of the arguments with eager.

    Args:
        dynamic: As in ``torch.compile``.
        rtol, atol: 0 (equal, NaN equal to NaN) unless the operator is known to be free in its order of summation.
        ops: Names that the IR graphs must contain.
        unconverted_ops: ``"error"`` also proves that the graphs are Ascend IR alone.
        backward: Also compare the gradients of the tensors that require them.
        seed: Set before each run.

    Returns:
        The IR graphs (forward before backward).
    """
    torch._dynamo.reset()
    graphs: list[Graph] = []
    backend = reference_backend(unconverted_ops=unconverted_ops)
    compiled = torch.compile(fn, fullgraph=True, dynamic=dynamic, backend=backend)
    expected_args, actual_args = _copies(args), _copies(args)
    expected = _run(fn, expected_args, backward, seed)
    with _recording(graphs):
        actual = _run(compiled, actual_args, backward, seed)
    options: dict[str, Any] = {"rtol": rtol, "atol": atol, "equal_nan": True, "check_stride": True}
    assert_close(_leaves(actual), _leaves(expected), **options)
    assert_close(_leaves(actual_args), _leaves(expected_args), **options)
    names = {node.op for graph in graphs for node in graph}
    assert set(ops or ()) <= names, f"{sorted(set(ops or ()) - names)} not in {sorted(names)}"
    return graphs


def _run(fn: Callable[..., Any], args: Any, backward: bool, seed: int | None) -> Any:
    if seed is not None:
        torch.manual_seed(seed)
    results = fn(*args)
    if not backward:
        return results
    outputs = [r for r in pytree.tree_leaves(results) if isinstance(r, torch.Tensor) and r.requires_grad]
    inputs = [a for a in pytree.tree_leaves(args) if isinstance(a, torch.Tensor) and a.requires_grad]
    generator = torch.Generator().manual_seed(0)
    tangents = [torch.randn(o.shape, generator=generator).to(o.dtype) for o in outputs]
    return results, torch.autograd.grad(outputs, inputs, tangents, allow_unused=True)


def _leaves(value: Any) -> list[Any]:
    """Leaves that ``assert_close`` compares: tensors detached, the rest as it is (None by its own)."""
    return [
        leaf.detach() if isinstance(leaf, torch.Tensor) else (torch.tensor(-1) if leaf is None else leaf)
        for leaf in pytree.tree_leaves(value)
        if leaf is None or isinstance(leaf, torch.Tensor | int | float | bool)
    ]


def converted_graphs(fn: Callable[..., Any], *args: Any, dynamic: bool | None = None) -> list[Graph]:
    """The IR graphs that ``fn`` becomes; an error when something has no Ascend IR form."""
    torch._dynamo.reset()
    graphs: list[Graph] = []
    backend = reference_backend(unconverted_ops="error")
    with _recording(graphs):
        torch.compile(fn, fullgraph=True, dynamic=dynamic, backend=backend)(*_copies(args))
    return graphs


def converted_ops(fn: Callable[..., Any], *args: Any, dynamic: bool | None = None) -> list[str]:
    """Names of the IR operators that ``fn`` becomes, in order, without constants and sizes."""
    graphs = converted_graphs(fn, *args, dynamic=dynamic)
    return [node.op for graph in graphs for node in graph if node.op not in _PLUMBING]


def only(graph: Graph, op: str) -> Any:
    """The one node of an operator (untyped, so that tests read its operands freely)."""
    (node,) = [node for node in graph if node.op == op]
    return node


def samples(
    name: str, dtype: torch.dtype, *, variant: str = "", count: int = 3
) -> Iterator[tuple[Any, tuple[Any, ...], dict[str, Any]]]:
    """The first samples of an OpInfo entry: the function, its arguments, its keywords."""
    from torch.testing._internal.common_methods_invocations import op_db

    (info,) = [op for op in op_db if op.name == name and op.variant_test_name == variant]
    for i, sample in enumerate(info.sample_inputs("cpu", dtype)):
        if i == count:
            break
        yield info.op, (sample.input, *sample.args), sample.kwargs


def check_samples(
    name: str, dtype: torch.dtype, *, variant: str = "", count: int = 4, backward: bool = False, **options: Any
) -> list[Graph]:
    """Check the first samples of an OpInfo entry, all in one compile; options are those of :func:`check`."""
    found = list(samples(name, dtype, variant=variant, count=count))
    assert found, f"{name} has no samples of {dtype}"

    def fn(arguments: list[Any]) -> list[Any]:
        return [call(*args, **kwargs) for (call, _, kwargs), args in zip(found, arguments, strict=True)]

    arguments = [args for _, args, _ in found]
    if backward:
        arguments = pytree.tree_map_only(
            torch.Tensor, lambda x: x.requires_grad_(x.is_floating_point() or x.is_complex()), arguments
        )
    return check(fn, arguments, backward=backward, **options)
