"""Memory addressed by strides: Ascend IR where a tensor is dense and the graph's own, else torch."""

from __future__ import annotations

import pytest
import torch
from torch.testing import assert_close

from tests.convert.conversion import check, reference_backend


@pytest.mark.parametrize("dynamic", [False, True])
def test_a_dense_tensor_of_the_graph(dynamic):
    def fn(x, src):
        y = x + 1
        return (
            y.as_strided((2, 3), (3, 1), 1),
            y.as_strided((3, 3), (1, 1)).clone(),
            torch.as_strided_copy(y, (2,), (2,), 3),
            torch.as_strided_scatter(y, src, (2, 2), (4, 2), 1),
            torch.as_strided_scatter(y, src.double(), (2, 2), (1, 3)),
        )

    ops = ["AsStrided", "ViewCopy"]
    check(fn, torch.randn(4, 5), torch.randn(2, 2), dynamic=dynamic, ops=ops, unconverted_ops="error")


def test_a_tensor_that_eager_has_dense_and_an_operator_may_give_otherwise():
    """``contiguous`` makes eager's tensor dense; ours must be when its memory is addressed."""

    def fn(x):
        return x.mT.contiguous().as_strided((3, 2), (2, 1), 1), (x.mT * 2).contiguous().as_strided((5,), (3,), 0)

    check(fn, torch.randn(4, 5), ops=["AsStrided"], unconverted_ops="error")


def test_what_is_not_dense_stays_a_torch_call():
    def fn(x):
        return (x + 1).mT.as_strided((2, 3), (3, 1), 1), (x + 1)[1:].as_strided((2,), (1,), 0)

    (graph,) = check(fn, torch.randn(4, 5))
    assert {node.call.target for node in graph if node.call is not None} == {"aten::as_strided.default"}


def test_memory_of_an_argument_is_counted_from_its_storage():
    """Nothing guards where an argument begins in its storage, and eager counts from there."""
    compiled = torch.compile(lambda x: x.as_strided((2,), (2,), 1) + 0, backend=reference_backend(), fullgraph=True)
    storage = torch.arange(10.0)
    for start in (0, 2, 5):
        x = storage[start : start + 4]
        assert_close(compiled(x), x.as_strided((2,), (2,), 1))
    view = lambda x: x.as_strided((2,), (2,)) + 0  # noqa: E731
    compiled = torch.compile(view, backend=reference_backend(), fullgraph=True)
    for start in (0, 2, 5):
        assert_close(compiled(storage[start : start + 4]), view(storage[start : start + 4]))


def test_a_strided_view_of_an_argument_is_written():
    def fn(x):
        x.as_strided((2, 2), (4, 1), 2).mul_(10)
        return x.sum()

    check(fn, torch.arange(10.0))
    check(fn, torch.arange(20.0)[3:13])


def test_windows_stay_a_torch_call():
    (graph,) = check(lambda x: (x + 1).unfold(0, 3, 2) * 2, torch.randn(9, 2))
    assert [node.call.target for node in graph if node.call is not None] == ["aten::unfold.default"]
