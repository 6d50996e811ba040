"""Copies of arguments: which of them share memory, and who shares it unseen."""

from __future__ import annotations

import pytest
import torch

from torchair.pipeline.argument_copies import ArgumentCopies, unseen_sharing


def through_numpy(tensor: torch.Tensor) -> torch.Tensor:
    """The same memory, with another storage."""
    found = torch.from_numpy(tensor.numpy())
    assert found.data_ptr() == tensor.data_ptr()
    assert found.untyped_storage()._cdata != tensor.untyped_storage()._cdata
    return found


def test_a_view_in_the_same_storage() -> None:
    base = torch.arange(6.0)
    whole, part, number = ArgumentCopies([base, base[2:4], 7]).fresh()
    part.fill_(-1)
    assert whole.tolist() == [0, 1, -1, -1, 4, 5]
    assert base.tolist() == [0, 1, 2, 3, 4, 5]
    assert number == 7


@pytest.mark.parametrize("lazy", [torch.conj, lambda t: t.conj().imag], ids=["conj", "neg"])
def test_lazy_views_share_memory(lazy) -> None:
    base = torch.tensor([1 + 2j, 3 + 4j])
    whole, view = ArgumentCopies([base, lazy(base)]).fresh()
    assert (view.is_conj(), view.is_neg()) == (lazy(base).is_conj(), lazy(base).is_neg())
    whole.mul_(2)
    assert torch.equal(view, lazy(base * 2))


def test_parameters_tensors_of_inference_mode_and_others() -> None:
    with torch.inference_mode():
        inference = torch.ones(2)
    parameter = torch.nn.Parameter(torch.ones(2))
    sparse = torch.eye(2).to_sparse()
    quantized = torch.quantize_per_tensor(torch.ones(2), 0.5, 0, torch.qint8)
    copies = ArgumentCopies([inference, parameter, sparse, quantized, torch.empty(0), None]).fresh()
    copies[0].add_(1)
    copies[1].add_(1)
    assert inference.tolist() == parameter.tolist() == [1, 1]
    assert torch.equal(copies[2].to_dense(), torch.eye(2))
    assert torch.equal(copies[3].int_repr(), quantized.int_repr())
    assert copies[4].shape == (0,)
    assert copies[5] is None


def test_what_is_shared_unseen() -> None:
    base = torch.arange(12.0)
    row = through_numpy(base)[4:8]
    assert list(unseen_sharing([base, row, 3], [1])) == [(1, 0)]
    assert list(unseen_sharing([base, row], [0, 1])) == [(0, 1)]
    assert list(unseen_sharing([base, row], [])) == []


def test_what_is_not() -> None:
    base = torch.arange(12.0)
    seen = [base, base[4:8]]
    apart = [base[:4], through_numpy(base[4:])]
    interleaved = [base[::2], through_numpy(base)[1::2]]
    empty = [base[:0], through_numpy(base)]
    for args in (seen, apart, interleaved, empty):
        assert list(unseen_sharing(args, [0, 1])) == []
