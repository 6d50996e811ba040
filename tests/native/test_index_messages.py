"""An index out of range in native code names the operator and the user's line."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch
from torch import Tensor

pytestmark = pytest.mark.usefixtures("support")


def _append(cache: Tensor, position: Tensor, x: Tensor) -> Tensor:
    y = x * 2
    cache.index_copy_(1, position, y)
    return cache.sum(-1)


def _look_up(table: Tensor, position: Tensor, x: Tensor) -> Tensor:
    rows = torch.nn.functional.embedding(position, table[0])
    return (rows + x).relu()


@pytest.mark.parametrize("mode", ["torchair", "npugraph_ex"])
@pytest.mark.parametrize(
    ("function", "line"), [(_append, "cache.index_copy_(1, position, y)"), (_look_up, "torch.nn.functional.embedding")]
)
def test_the_users_line_is_named(function, line, mode) -> None:
    options: Any = {"static_kernel_compile": True} if mode == "npugraph_ex" else None
    compiled = torch.compile(function, backend=mode, options=options)
    table, x = torch.zeros(2, 4, 3), torch.randn(2, 1, 3)
    torch.testing.assert_close(compiled(table, torch.tensor([3]), x), function(table.clone(), torch.tensor([3]), x))
    where = rf"at \S*test_index_messages\.py:\d+, in {function.__name__}: .*{re.escape(line)}"
    with pytest.raises(IndexError, match=where):
        compiled(table, torch.tensor([4]), x)
