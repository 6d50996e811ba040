"""``use_internal_format_weight``: packed copies that follow their weights."""

from __future__ import annotations

import copy
import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import torchair
from torchair.errors import ArgumentTypeError
from torchair.torchops import packed_weights as packed_module
from torchair.torchops.packed_weights import can_pack, packed_weights

ENGINES = ("reference", "inductor", "native")
DTYPES = [
    pytest.param(
        dtype,
        marks=pytest.mark.skipif(not can_pack(dtype, 16), reason="PyTorch cannot pack this dtype on this machine"),
        id=str(dtype).removeprefix("torch."),
    )
    for dtype in (torch.float32, torch.bfloat16, torch.float16)
]


class _Model(nn.Module):
    """Two layers, the second without bias."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(8, 32)
        self.second = nn.Linear(32, 4, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """``[..., 8]`` to ``[..., 4]``."""
        return self.second(self.first(x).relu())


def _compiled(model: nn.Module, engine: str, **options: Any) -> tuple[Callable[..., Any], Any]:
    config = torchair.CompilerConfig()
    config.engine = engine
    config.debug.verify_graphs = True
    for name, value in options.items():
        setattr(config.debug, name, value)
    backend = torchair.get_npu_backend(compiler_config=config)
    return torch.compile(model, backend=backend, fullgraph=True), backend


def _model(dtype: torch.dtype = torch.float32) -> _Model:
    torch.manual_seed(0)
    model = _Model().to(dtype)
    torchair.use_internal_format_weight(model)
    return model


def _same(actual: Tensor, expected: Tensor) -> None:
    tolerance = None if expected.dtype is torch.float32 else 2e-2
    torch.testing.assert_close(actual, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_results(engine: str, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    model, x = _model(dtype), torch.randn(2, 16, 8, dtype=dtype)
    used = _watch(monkeypatch)
    with torch.no_grad():
        compiled, backend = _compiled(model, engine)
        _same(compiled(x), model(x))
        (graph,) = backend.graphs
        assert "FRACTAL_NZ" in graph.text
        assert graph.graph.count("MatMulV2") == 0
        _same(compiled(x + 1), model(x + 1))
        assert graph.frozen.computed == 1
    assert used == [True] * 4


def _watch(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Note for each product whether there was a packed copy."""
    used: list[bool] = []

    class Watched(dict[int, Any]):
        def get(self, key: int, default: Any = None) -> Any:
            used.append(key in self)
            return super().get(key, default)

    monkeypatch.setattr(packed_module, "_packed", Watched())
    return used


def _in_place(model: _Model) -> None:
    with torch.no_grad():
        model.first.weight.mul_(-2)


def _load(model: _Model) -> None:
    model.load_state_dict(_Model().state_dict())


def _assign(model: _Model) -> None:
    model.load_state_dict(_Model().state_dict(), assign=True)


def _replace(model: _Model) -> None:
    model.second.weight = nn.Parameter(torch.randn(4, 32))


def _data(model: _Model) -> None:
    model.first.weight.data = torch.randn(32, 8)


@pytest.mark.parametrize("engine", ENGINES)
def test_changed_weights_are_packed_again(engine: str) -> None:
    model, x = _model(), torch.randn(16, 8)
    with torch.no_grad():
        compiled, _ = _compiled(model, engine)
        _same(compiled(x), model(x))
        for change in (_in_place, _load, _assign, _replace, _data):
            change(model)
            _same(compiled(x), model(x))
            _same(compiled(x), model(x))


def test_nothing_that_the_user_sees_changes() -> None:
    plain = _Model()
    marked = copy.deepcopy(plain)
    torchair.use_internal_format_weight(marked)
    assert marked.state_dict().keys() == plain.state_dict().keys()
    torch.testing.assert_close(dict(marked.state_dict()), dict(plain.state_dict()), rtol=0, atol=0)
    assert type(marked.first.weight) is nn.Parameter
    assert marked.first.weight.stride() == (8, 1)
    x = torch.randn(16, 8)
    torch.testing.assert_close(marked(x), plain(x), rtol=0, atol=0)


def test_copies_live_as_long_as_the_graph() -> None:
    gc.collect()
    before = packed_weights()
    model, x = _model(), torch.randn(16, 8)
    with torch.no_grad():
        compiled, _ = _compiled(model, "reference")
        compiled(x)
        assert packed_weights() == before + 2
        _in_place(model)
        compiled(x)
        assert packed_weights() == before + 2
    del compiled
    torch._dynamo.reset()
    gc.collect()
    assert packed_weights() == before


def test_a_compiled_model_keeps_no_inputs() -> None:
    model, x = _model(), torch.randn(16, 8)
    with torch.no_grad():
        compiled, _ = _compiled(model, "reference")
        compiled(x)
    seen = weakref.ref(x)
    del x
    gc.collect()
    assert seen() is None


@pytest.mark.parametrize("rows, packed", [(8, 0), (9, 2)])
def test_few_rows_are_not_packed(rows: int, packed: int) -> None:
    model, x = _model(), torch.randn(rows, 8)
    with torch.no_grad():
        compiled, backend = _compiled(model, "reference")
        _same(compiled(x), model(x))
    assert sum(node.call is not None for node in backend.graphs[0].graph) == packed


def test_sizes_that_change() -> None:
    model = _model()
    with torch.no_grad():
        compiled, _ = _compiled(model, "native")
        for rows in (16, 24, 9, 3):
            x = torch.randn(rows, 8)
            _same(compiled(x), model(x))


def test_training_uses_weights_as_they_are() -> None:
    model, x = _model(), torch.randn(16, 8)
    compiled, backend = _compiled(model, "reference")
    compiled(x).sum().backward()
    assert all(graph.frozen is None for graph in backend.graphs)


def test_without_the_mark_nothing_is_packed() -> None:
    model, x = _Model(), torch.randn(16, 8)
    with torch.no_grad():
        compiled, backend = _compiled(model, "reference")
        compiled(x)
    assert backend.graphs[0].frozen is None


def test_the_pass_has_a_switch() -> None:
    model, x = _model(), torch.randn(16, 8)
    with torch.no_grad():
        compiled, backend = _compiled(model, "reference", disabled_passes=["pack-weights"])
        _same(compiled(x), model(x))
    assert backend.graphs[0].graph.count("MatMulV2") == 2


def test_no_model() -> None:
    with pytest.raises(ArgumentTypeError, match="takes a model"):
        torchair.use_internal_format_weight(torch.ones(1))  # type: ignore[arg-type]


def test_convolutions_are_marked_and_right() -> None:
    model = nn.Sequential(nn.Conv2d(2, 4, 3), nn.Flatten(), nn.Linear(16, 4)).half()
    torchair.use_internal_format_weight(model)
    x = torch.randn(16, 2, 4, 4).half()
    with torch.no_grad():
        compiled, _ = _compiled(model, "reference")
        _same(compiled(x), model(x))
