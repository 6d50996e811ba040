"""Layouts, areas and copies of device memory, on CPU tensors."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, strategies as st

from torchair import _torch_compat
from torchair.capture.device_memory import Layout, fresh_copy, overlapping, overlapping_any, span

aten = torch.ops.aten

SIZES = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 6)), max_size=3)


def offsets(sizes, strides):
    found = [0]
    for size, stride in zip(sizes, strides, strict=True):
        found = [o + i * stride for o in found for i in range(size)]
    return found


@given(SIZES)
def test_overlap_is_never_missed(dims):
    sizes, strides = [n for n, _ in dims], [s for _, s in dims]
    all_offsets = offsets(sizes, strides)
    if len(set(all_offsets)) < len(all_offsets):
        assert _torch_compat.overlaps_itself(sizes, strides)


@given(SIZES)
def test_span_and_copies(dims):
    sizes, strides = [n for n, _ in dims], [s for _, s in dims]
    base = torch.arange(64.0).as_strided(sizes, strides, 3)
    assert span(base) == max((o + 1 for o in offsets(sizes, strides)), default=0)
    copy = fresh_copy(base)
    assert torch.equal(copy, base)
    assert copy.stride() == base.stride()


@pytest.mark.parametrize("size", [(2, 3), (1, 3), (2, 1), ()])
def test_dense_tensors_do_not_overlap_themselves(size):
    t = torch.empty(size)
    assert not _torch_compat.overlaps_itself(t.shape, t.stride())
    assert not _torch_compat.overlaps_itself(t.t().shape, t.t().stride()) if t.ndim == 2 else True


@pytest.mark.parametrize(
    "view",
    [
        lambda t: t[1:, 1],
        lambda t: torch.view_as_real(t)[..., 1],
        lambda t: t.conj(),
        lambda t: t.conj().imag,
        lambda t: t.view(torch.float32)[1:],
    ],
    ids=["slice", "real", "conj", "negative", "dtype"],
)
def test_views_are_found_again_in_another_base(view):
    before = torch.randn(5, 2, dtype=torch.complex64)[1:]
    layout, base = Layout.of(view(before)), Layout.of(before)
    other = torch.randn(7, 2, dtype=torch.complex64)[3:]
    found = layout.within(other, base)
    assert torch.equal(found, view(other))
    assert found.data_ptr() == view(other).data_ptr()


def test_areas():
    base = torch.zeros(10)
    assert not overlapping([base[:2], base[2:4]], [base[4:6], base[6:8]])
    assert not overlapping([base[:2]], [base[:2]])
    assert overlapping([base[:2], base[2:4]], [base[1:3], base[6:8]])
    assert overlapping([base[:2], base[2:4]], [base[8:], base[:2]])
    assert overlapping_any(base[:3], [None, base[:3], base[2:]], but=1)
    assert not overlapping_any(base[:3], [3, base[:3], base[3:]], but=1)


def test_storage_over_an_address():
    base = torch.arange(4.0)
    storage = _torch_compat.storage_over(base.data_ptr(), 16, torch.device("cpu"))
    assert torch.empty(0).set_(storage, 1, (2,), (1,)).tolist() == [1, 2]


def test_ending_a_capture_that_is_not_there():
    _torch_compat.end_failed_capture(torch.device("cpu"), (0, 1))
    _torch_compat.end_failed_capture(torch.device("cuda", 0), (0, 12345))
