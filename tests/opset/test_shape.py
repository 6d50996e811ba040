"""Forms of the operators on shapes that no converter makes, their type rules, and the numbers of host values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import sympy
import torch
from hypothesis import given, strategies as st
from torch.testing import assert_close

from tests.opset.test_matrix import lowered
from torchair.errors import TypeRuleError
from torchair.ir import DType, TensorType
from torchair.opset.infer import TypeInference
from torchair.opset.operator import AscendOp
from torchair.opset.shape import (
    Bitcast,
    BroadcastTo,
    ConcatV2,
    Expand,
    ExpandDims,
    FlattenV2,
    MatrixDiagPartV2,
    Permute,
    Reshape,
    SplitV,
    Squeeze,
    StridedSliceV2,
    Tile,
    Transpose,
    Unpack,
    Unsqueeze,
)

X = torch.arange(24.0).reshape(2, 3, 4)
S = sympy.Symbol("s0", integer=True, positive=True)


def host(*content: Any) -> TensorType:
    return TensorType.of(DType.DT_INT64, (len(content),), content=content)


def inferred(op: AscendOp[Any], *types: Any, **attrs: Any) -> TensorType:
    given = {a.name: attrs.get(a.name, a.default) for a in op.prototype.attrs}
    found = TypeInference().infer(op.name, [*types, *[None] * (len(op.prototype.inputs) - len(types))], given)
    assert found is not None
    return found[0][0]


def content(op: AscendOp[Any], *types: Any, **attrs: Any) -> Any:
    """What the content rule says, without running the lowering."""
    assert op.content_rule is not None
    operands = [*types, *[None] * (len(op.prototype.inputs) - len(types))]
    return op.content_rule(*operands, **{a.name: attrs.get(a.name, a.default) for a in op.prototype.attrs})


def by_rule(op: AscendOp[Any], *types: Any, **attrs: Any) -> Any:
    assert op.type_rule is not None
    return op.type_rule(*types, **{a.name: attrs.get(a.name, a.default) for a in op.prototype.attrs})


# --- type rules against lowerings ---

sizes = st.lists(st.integers(0, 4), max_size=4)


def _type(shape: Sequence[int]) -> TensorType:
    return TensorType.of(DType.DT_FLOAT, shape)


@given(sizes, st.randoms())
def test_the_rule_of_transpose(shape: list[int], random: Any) -> None:
    perm = list(range(len(shape)))
    random.shuffle(perm)
    rule = by_rule(Transpose, _type(shape), host(*perm))
    assert rule == _type(lowered(Transpose, torch.empty(shape), perm).shape)


@given(sizes, sizes)
def test_the_rule_of_broadcast_to(shape: list[int], lead: list[int]) -> None:
    source = [1 if i % 2 else s for i, s in enumerate(shape)]
    for wanted in ([*lead, *shape], [*lead, *[-1] * len(shape)]):
        rule = by_rule(BroadcastTo, _type(source), host(*wanted))
        assert rule == _type(lowered(BroadcastTo, torch.empty(source), wanted).shape)


@given(sizes)
def test_the_rule_of_reshape(shape: list[int]) -> None:
    count = torch.Size(shape).numel()
    for wanted in ([count], [1, *shape[::-1]], [*shape, 1], [-1] if count else [0]):
        rule = by_rule(Reshape, _type(shape), host(*wanted))
        assert rule == _type(lowered(Reshape, torch.empty(shape), wanted).shape)


def test_rules_leave_what_they_do_not_know_to_the_lowering() -> None:
    x = TensorType.of(DType.DT_FLOAT, (S, 4))
    assert by_rule(Reshape, x, TensorType.of(DType.DT_INT64, (2,))) is None
    assert by_rule(Reshape, x, host(-1, -1)) is None
    assert by_rule(Reshape, x, host(-1, 2)) is None
    assert by_rule(BroadcastTo, TensorType.of(DType.DT_FLOAT, (3,)), host(S)) is None
    assert by_rule(Transpose, x, host(0, 0)) is None
    for op, wanted in ((Reshape, host(5)), (BroadcastTo, host(3, 4)), (Transpose, host(0, 0))):
        with pytest.raises(TypeRuleError, match=r"An Ascend IR operator refuses its inputs"):
            inferred(op, _type((2, 4)), wanted)


# --- forms ---


def test_part_of_a_shape() -> None:
    assert lowered(Reshape, X, [2, 2], axis=2, num_axes=1).shape == (2, 3, 2, 2)
    assert lowered(Reshape, X, [-1], axis=1).shape == (2, 12)
    assert lowered(Reshape, X, [1], axis=-1, num_axes=0).shape == (2, 3, 4, 1)
    assert lowered(FlattenV2, X, axis=0, end_axis=1).shape == (6, 4)


def test_dimensions_of_size_one() -> None:
    assert lowered(Squeeze, X[:1, :, :1]).shape == (3,)
    assert lowered(Unsqueeze, X, axes=(0, -1, 2)).shape == (1, 2, 1, 3, 4, 1)
    assert lowered(ExpandDims, X, [-1]).shape == (2, 3, 4, 1)
    assert lowered(ExpandDims, X, 1).shape == (2, 1, 3, 4)


def test_repetition() -> None:
    assert_close(lowered(Expand, X[:1], [3, 1, 1]), X[:1].expand(3, 3, 4))
    assert_close(lowered(Expand, X[0], [2, 1, 4]), X[0].expand(2, 3, 4))
    assert lowered(Expand, X, [1]).shape == (2, 3, 4)
    assert lowered(Tile, X[0], [2, 1, 3]).shape == (2, 3, 12)
    assert_close(lowered(Permute, X, order=[2, 0, 1]), X.permute(2, 0, 1))


@pytest.mark.parametrize(
    ("args", "attrs", "expected"),
    [
        (([1, 0], [2, 2]), {}, X[1:2, 0:2]),
        (([0], [3], [-1], [2]), {}, X[..., 0:3:2]),
        (([-2], [100], [1]), {}, X[:, -2:]),
        (([1, 1], [2, 2], [2, 0]), {"begin_mask": 1}, X[1:2, :, :2]),
        (([1, 1], [2, 2]), {"end_mask": 2}, X[1:2, 1:]),
        (([1, -1, 1], [2, 0, 3]), {"shrink_axis_mask": 3}, X[1, -1, 1:3]),
        (([0, 0, 0], [0, 0, 0]), {"begin_mask": 7, "end_mask": 7}, X),
    ],
)
def test_strided_slices(args: Any, attrs: dict[str, int], expected: torch.Tensor) -> None:
    y = lowered(StridedSliceV2, X, *args, **attrs)
    assert_close(y, expected)
    assert y.untyped_storage().data_ptr() == X.untyped_storage().data_ptr()


def test_slices_that_are_refused() -> None:
    with pytest.raises(ValueError, match=r"strides must be positive, not \[-1\]: reverse with ReverseV2"):
        lowered(StridedSliceV2, X, [2], [0], [1], [-1])
    with pytest.raises(ValueError, match=r"ellipsis_mask and new_axis_mask must be 0"):
        lowered(StridedSliceV2, X, [2], [0], new_axis_mask=1)
    with pytest.raises(ValueError, match=r"k must be one number, not \[0, 1\]"):
        lowered(MatrixDiagPartV2, X, [0, 1], torch.zeros(()))


def test_parts_are_views() -> None:
    parts = [*lowered(SplitV, X, [1, 2], [1], num_split=2), *lowered(Unpack, X, num=4, axis=-1)]
    assert [p.shape for p in parts] == [(2, 1, 4), (2, 2, 4), *[(2, 3)] * 4]
    assert {p.untyped_storage().data_ptr() for p in parts} == {X.untyped_storage().data_ptr()}


def test_bits() -> None:
    assert_close(lowered(Bitcast, X, type=DType.DT_INT32), X.view(torch.int32))
    assert_close(lowered(Bitcast, X.mT, type=DType.DT_INT16), X.mT.contiguous().view(torch.int16).unflatten(-1, (3, 2)))
    assert_close(lowered(Bitcast, X[..., :2], type=DType.DT_DOUBLE), X[..., :2].view(torch.float64).squeeze(-1))
    assert_close(lowered(Bitcast, X, type=DType.DT_INT16, keep_dim=True), X.view(torch.int16))
    assert_close(
        lowered(Bitcast, X.mT[..., :2], type=DType.DT_INT64, keep_dim=True),
        X.mT[..., :2].contiguous().view(torch.int64),
    )


# --- numbers of host values ---


def test_contents() -> None:
    x = host(S, 4, 2)
    assert inferred(ConcatV2, (x, host(7)), TensorType.of(DType.DT_INT64, (), content=[0])).content == (S, 4, 2, 7)
    assert inferred(StridedSliceV2, x, host(0), host(2)).content == (S, 4)
    assert inferred(StridedSliceV2, x, host(-1), host(0), end_mask=1).content == (2,)
    assert inferred(StridedSliceV2, x, host(0), host(1), shrink_axis_mask=1).content == (S,)
    assert content(StridedSliceV2, x, host(S), host(3)) is None
    assert inferred(Reshape, host(S), host()).content == (S,)
    assert inferred(Squeeze, host(S), axis=(0,)).content == (S,)
    assert inferred(Unsqueeze, TensorType.of(DType.DT_INT64, (), content=[S]), axes=(0,)).content == (S,)
    assert inferred(ConcatV2, (x, TensorType.of(DType.DT_INT64, (1,))), host(0)).content is None
