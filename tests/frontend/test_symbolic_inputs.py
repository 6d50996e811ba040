"""Sizes that are graph inputs, though an input tensor has them."""

from __future__ import annotations

import torch

import torchair
from tests.frontend.fx_graphs import optimized, record, targets
from torchair.pipeline.ge_mode import CompiledGraph

X = torch.arange(12.0).reshape(3, 4)


def test_sizes_are_read_from_tensors() -> None:
    made = optimized(lambda x: x.sum(0) * x.shape[0] + x.shape[1], X, mode="ge", dynamic=True)
    assert targets(made) == ["sym_size.int", "sym_size.int", "sum.dim_IntList", "mul.Tensor", "add.Tensor"]
    assert all(not n.users for n in made.gm.graph.find_nodes(op="placeholder")[:2])


def test_capture_mode_leaves_them() -> None:
    made = optimized(lambda x: x.sum(0) * x.shape[0], X, mode="capture", dynamic=True)
    assert "sym_size.int" not in targets(made)


def test_numbers_that_are_no_size_stay() -> None:
    made = optimized(lambda x, n: x * n, X, 7, mode="ge", dynamic=True)
    assert record(made, "rewrite-symbolic-inputs").rewrites == 0


def test_compiled_graphs_have_no_such_inputs() -> None:
    backend = torchair.get_npu_backend()
    compiled = torch.compile(
        lambda x: (x.sum(0) * x.shape[0] + x.shape[1], x.shape[0] * 2), backend=backend, dynamic=True
    )
    for rows in (3, 5, 2):
        x = torch.randn(rows, 4)
        total, number = compiled(x)
        torch.testing.assert_close(total, x.sum(0) * rows + 4)
        assert number == rows * 2
    (graph,) = backend.graphs
    assert isinstance(graph, CompiledGraph)
    assert len(graph.graph.inputs) == 1
    assert [r.rewrites for r in graph.fx_passes if r.name == "rewrite-symbolic-inputs"] == [2]
