"""What ends a program goes through compiled graphs as it is: ``KeyboardInterrupt``, ``SystemExit``."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import torchair
from tests.custom_operators import define, ops

_thrown: list[type[BaseException]] = []


def _kernel(x: Tensor) -> Tensor:
    if _thrown:
        raise _thrown.pop()
    return x + 1


define("ends_program(Tensor x) -> Tensor", _kernel, lambda x: torch.empty_like(x))


def _plain(x: Tensor) -> Tensor:
    return ops.ends_program(x) * 2


def _on_a_stream(x: Tensor) -> Tensor:
    with torchair.scope.npu_stream_switch("a"):
        y = ops.ends_program(x)
    torchair.ops.wait([y])
    return y * 2


@pytest.mark.parametrize("backend", ["npugraph_ex", "torchair"])
@pytest.mark.parametrize("function", [_plain, _on_a_stream])
@pytest.mark.parametrize("thrown", [KeyboardInterrupt, SystemExit])
def test_a_kernel_ends_the_program(backend, function, thrown) -> None:
    compiled = torch.compile(function, backend=backend, fullgraph=True, dynamic=False)
    x = torch.zeros(3)
    for _ in range(2):
        torch.testing.assert_close(compiled(x), function(x))
    _thrown.append(thrown)
    with pytest.raises(thrown):
        compiled(x)
    torch.testing.assert_close(compiled(x), function(x))
