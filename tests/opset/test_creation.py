"""Forms of the operators on numbers and paddings that no converter makes."""

from __future__ import annotations

import pytest
import sympy
import torch
from torch.nn.functional import pad
from torch.testing import assert_close

from tests.opset.test_matrix import lowered
from tests.opset.test_shape import content, host, inferred
from torchair.ir import DType, TensorType
from torchair.opset.creation import Empty, Fill, LinSpace, OnesLike, Range, ZerosLike
from torchair.opset.padding import PadV3, PadV3Grad

S = sympy.Symbol("s0", integer=True, positive=True)


def number(content: object) -> TensorType:
    return TensorType.of(DType.DT_INT64, (), content=[content])


def test_fill_takes_any_value_of_one_element() -> None:
    for value in (torch.tensor(2.5), torch.tensor([True]), torch.tensor(1 + 2j), torch.tensor([[3]], dtype=torch.int8)):
        y = lowered(Fill, [2, 3], value)
        assert_close(y, value.reshape(()).expand(2, 3))
        assert y.is_contiguous()


def test_memory() -> None:
    assert_close(lowered(Empty, [2, 0], dtype=DType.DT_INT8), torch.empty(2, 0, dtype=torch.int8))
    assert_close(lowered(Empty, [2, 3], dtype=DType.DT_BF16, init=True), torch.zeros(2, 3, dtype=torch.bfloat16))
    for x in (torch.ones(3, 2).t(), torch.ones(1).expand(3)):
        assert lowered(ZerosLike, x).is_contiguous()
        assert_close(lowered(OnesLike, x), torch.ones(x.shape))


def test_ranges() -> None:
    assert_close(lowered(Range, 1, 8, 3), torch.tensor([1, 4, 7]))
    assert_close(lowered(Range, 0.5, 2, 0.5), torch.tensor([0.5, 1, 1.5], dtype=torch.float64))
    assert_close(lowered(LinSpace, 0, 1, [5]), torch.linspace(0, 1, 5))


def test_contents() -> None:
    assert inferred(Range, number(1), number(8), number(3)).content == (1, 4, 7)
    assert content(Range, number(0), number(S), number(1)) is None
    assert inferred(Range, number(0), number(1000), number(1)).content is None
    assert inferred(Fill, host(3), number(S)).content == (S, S, S)
    assert content(Fill, host(S), number(2)) is None
    assert inferred(Fill, host(2, 2), number(2)).content is None


def test_paddings_in_two_orders() -> None:
    x = torch.randn(2, 3, 4)
    for mode, torch_mode in (("constant", "constant"), ("reflect", "reflect"), ("edge", "replicate")):
        expected = pad(x, (1, 2, 0, 1), mode=torch_mode)
        assert_close(lowered(PadV3, x, [0, 0, 0, 1, 1, 2], mode=mode), expected)
        assert_close(lowered(PadV3, x, [0, 0, 1, 0, 1, 2], mode=mode, paddings_contiguous=False), expected)
    assert_close(lowered(PadV3, x, [0, 0, 0, 1, 1, 2], [7.0]), pad(x, (1, 2, 0, 1), value=7))


@pytest.mark.parametrize("rank", [1, 2, 3, 4, 5])
@pytest.mark.parametrize(("mode", "torch_mode"), [("reflect", "reflect"), ("edge", "replicate")])
def test_gradients_of_padding(rank: int, mode: str, torch_mode: str) -> None:
    x = torch.randn(3, 2, 4, 3, 2)[(0,) * (5 - rank)].requires_grad_()
    count = min(rank, 3) if rank != 5 else 3
    paddings = [0, 0] * (rank - count) + [1, 1] * count
    y = lowered(PadV3, x, paddings, mode=mode)
    given = torch.randn(y.shape)
    (expected,) = torch.autograd.grad(y, x, given)
    assert_close(lowered(PadV3Grad, given, paddings, mode=mode), expected)


def test_paddings_that_are_refused() -> None:
    x = torch.randn(2, 2, 2, 2)
    with pytest.raises(
        ValueError, match=r"mode must be 'reflect' or 'edge' and at most 3 dimensions padded, not 'edge' and 4"
    ):
        lowered(PadV3, x, [1, 1] * 4, mode="edge")
    with pytest.raises(ValueError, match=r"not 'symmetric' and 1"):
        lowered(PadV3, x[0, 0], [0, 0, 1, 1], mode="symmetric")
