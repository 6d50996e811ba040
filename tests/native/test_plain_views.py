"""``as_strided`` that is ``view`` becomes one; any other stays."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.fx.experimental.proxy_tensor import make_fx

from torchair.native.plain_views import make_views_plain

_CASES = {
    "other sizes": (lambda x: x.as_strided((2, 12), (12, 1)), True),
    "the same": (lambda x: x.as_strided((4, 6), (6, 1)), True),
    "the same place": (lambda x: x[1:].as_strided((18,), (1,), 6), True),
    "from the start": (lambda x: x[1:].as_strided((18,), (1,), 0), False),
    "transposed": (lambda x: x.as_strided((6, 4), (1, 6)), False),
    "of a transposed one": (lambda x: x.t().as_strided((24,), (1,)), False),
    "a part": (lambda x: x.as_strided((2, 6), (6, 1)), False),
    "overlapping": (lambda x: x.as_strided((24, 2), (0, 1)), False),
}


@pytest.mark.parametrize("name", _CASES)
def test_which_become_views(name) -> None:
    function, is_view = _CASES[name]
    x = torch.arange(24.0).view(4, 6)
    module = make_fx(function, tracing_mode="fake")(x)
    make_views_plain(module.graph)
    module.recompile()
    targets = {str(node.target) for node in module.graph.nodes}
    assert ("aten.as_strided.default" not in targets) is is_view
    assert torch.equal(module(x), function(x))


def test_symbols_stay() -> None:
    def function(x: Tensor) -> Tensor:
        return x.as_strided((x.shape[1], x.shape[0]), (x.shape[0], 1))

    module = make_fx(function, tracing_mode="symbolic")(torch.zeros(4, 6))
    make_views_plain(module.graph)
    assert "aten.as_strided.default" in {str(node.target) for node in module.graph.nodes}
