"""Results of sorting operators have the dtypes that Ascend operators give them."""

from __future__ import annotations

import torch
from torch.testing import assert_close

from tests.opset.test_matrix import lowered
from torchair.ir import DType
from torchair.opset.sorting import SearchSorted, Sort, TopKV2


def test_positions_are_int32() -> None:
    x = torch.randn(3, 5)
    for positions in (
        lowered(Sort, x, axis=-1, descending=True, stable=True)[1],
        lowered(TopKV2, x, 2, sorted=True, dim=1, largest=False)[1],
        lowered(TopKV2, x, [2], sorted=True, dim=0, largest=True)[1],
    ):
        assert positions.dtype is torch.int32


def test_the_dtype_of_a_search_is_an_attribute() -> None:
    sequence, values = torch.tensor([1.0, 2.0, 2.0, 4.0]), torch.tensor([2.0, 9.0])
    for dtype, torch_dtype in ((DType.DT_INT32, torch.int32), (DType.DT_INT64, torch.int64)):
        found = lowered(SearchSorted, sequence, values, None, dtype=dtype, right=False)
        assert_close(found, torch.tensor([1, 4], dtype=torch_dtype))
