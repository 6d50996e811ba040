"""``frozen_parameter``: what is computed of parameters alone is computed once, and again when they change."""

from __future__ import annotations

import copy
import logging
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import torchair

ENGINES = ("reference", "inductor", "native")


class _Model(nn.Module):
    """A product with half of a weight that is kept in another dtype, scaled."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(6, 4, dtype=torch.bfloat16))
        self.scale = nn.Parameter(torch.randn(6, 1))

    def forward(self, x: Tensor) -> Tensor:
        return x @ (self.weight.float() * self.scale).t() + 1


def _compiled(model: nn.Module, engine: str, **options: Any) -> tuple[Callable[..., Any], Any]:
    config = torchair.CompilerConfig()
    config.engine = engine
    config.experimental_config.frozen_parameter = True
    config.debug.verify_graphs = True
    for name, value in options.items():
        setattr(config.debug, name, value)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        backend = torchair.get_npu_backend(compiler_config=config)
    return torch.compile(model, backend=backend, fullgraph=True), backend


def _changes() -> dict[str, Callable[[_Model], None]]:
    def in_place(model: _Model) -> None:
        with torch.no_grad():
            model.scale.mul_(3)

    def load(model: _Model) -> None:
        model.load_state_dict(_Model().state_dict())

    def assign(model: _Model) -> None:
        model.load_state_dict(_Model().state_dict(), assign=True)

    def replace(model: _Model) -> None:
        model.weight = nn.Parameter(torch.randn(6, 4, dtype=torch.bfloat16))

    def data(model: _Model) -> None:
        model.scale.data = torch.randn(6, 1)

    return {f.__name__: f for f in (in_place, load, assign, replace, data)}


@pytest.mark.parametrize("engine", ENGINES)
def test_changed_parameters_are_seen(engine: str) -> None:
    torch.manual_seed(0)
    model, x = _Model(), torch.randn(3, 4)
    with torch.no_grad():
        compiled, backend = _compiled(model, engine)
        torch.testing.assert_close(compiled(x), model(x))
        (graph,) = backend.graphs
        assert graph.graph.count("Cast") == 0
        assert graph.frozen.computed == 1
        torch.testing.assert_close(compiled(x), model(x))
        assert graph.frozen.computed == 1
        for change in _changes().values():
            change(model)
            torch.testing.assert_close(compiled(x), model(x))
            torch.testing.assert_close(compiled(x), model(x))


@pytest.mark.parametrize("change", _changes().values(), ids=_changes())
def test_each_change_is_one_computation(change: Callable[[_Model], None]) -> None:
    model, x = _Model(), torch.randn(3, 4)
    with torch.no_grad():
        compiled, backend = _compiled(model, "reference")
        compiled(x)
        change(model)
        for _ in range(2):
            torch.testing.assert_close(compiled(x), model(x))
        counts = [graph.frozen.computed for graph in backend.graphs]
        assert sum(counts) == 2


def test_a_change_is_logged_once(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torchair.logger, "propagate", True)
    model, x = _Model(), torch.randn(3, 4)
    with torch.no_grad(), caplog.at_level(logging.WARNING, logger="torchair"):
        compiled, _ = _compiled(model, "reference")
        compiled(x)
        assert not [m for m in caplog.messages if "parameter" in m]
        for _ in range(3):
            model.scale.mul_(2)
            compiled(x)
    (record,) = {id(r): r for r in caplog.records if "parameter" in r.getMessage()}.values()
    assert record.getMessage().partition(": ")[2] == (
        "a frozen or packed parameter was replaced or updated, so that what is made of it is made again; leave "
        "frozen_parameter (or use_internal_format_weight) out where that happens often"
    )


def test_an_address_that_comes_back_is_no_old_parameter() -> None:
    model, x = _Model(), torch.randn(3, 4)
    with torch.no_grad():
        compiled, _ = _compiled(model, "reference")
        for _ in range(5):
            compiled(x)
            model.scale.data = torch.randn(6, 1)
            model.scale.data = torch.randn(6, 1)
            torch.testing.assert_close(compiled(x), model(x))


def test_parameters_without_version_counter_are_computed_each_time() -> None:
    with torch.inference_mode():
        model, x = _Model(), torch.randn(3, 4)
        compiled, _ = _compiled(model, "reference")
        for _ in range(2):
            torch.testing.assert_close(compiled(x), model(x))
            model.scale.mul_(2)


def test_training_is_not_hurt() -> None:
    model, x = _Model(), torch.randn(3, 4)
    other = copy.deepcopy(model)
    compiled, _ = _compiled(model, "reference")
    for _ in range(2):
        compiled(x).sum().backward()
        other(x).sum().backward()
        for mine, theirs in zip(model.parameters(), other.parameters(), strict=True):
            torch.testing.assert_close(mine.grad, theirs.grad)
            with torch.no_grad():
                assert mine.grad is not None
                mine.sub_(mine.grad)
                theirs.copy_(mine)


def test_nothing_is_computed_before_without_the_option() -> None:
    config = torchair.CompilerConfig()
    config.engine = "reference"
    backend = torchair.get_npu_backend(compiler_config=config)
    model, x = _Model(), torch.randn(3, 4)
    with torch.no_grad():
        torch.compile(model, backend=backend)(x)
    assert backend.graphs[0].frozen is None


def test_the_pass_has_a_switch() -> None:
    model, x = _Model(), torch.randn(3, 4)
    with torch.no_grad():
        compiled, backend = _compiled(model, "reference", disabled_passes=["hoist-frozen-computations"])
        torch.testing.assert_close(compiled(x), model(x))
    assert backend.graphs[0].frozen is None
