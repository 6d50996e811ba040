"""Names of passes in options: those that are left out, and switches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from expecttest import assert_expected_inline
from torch import fx
from torch._dynamo.exc import BackendCompilerFailed

import npugraph_ex
import torchair
from tests.errors.texts import raised
from torchair.capture.life_cycle import CapturedGraph
from torchair.config import PROCESS_OPTIONS, NpuGraphExConfig
from torchair.errors import ConfigValueError
from torchair.passes import default_passes
from torchair.pipeline import explain as explain_module, pass_names
from torchair.pipeline.ge_mode import CompiledGraph
from torchair.pipeline.pass_names import known_pass_names


def disabling(*names: str) -> torchair.CompilerConfig:
    config = torchair.CompilerConfig()
    config.debug.disabled_passes = list(names)
    return config


@pytest.mark.parametrize(
    "make", [lambda c: torchair.get_npu_backend(compiler_config=c), torchair.get_compiler], ids=["backend", "compiler"]
)
def test_an_unknown_name_is_refused_when_a_backend_is_made(make: Callable[[torchair.CompilerConfig], Any]) -> None:
    text = raised(lambda: make(disabling("reinplaces", "reinplace", "xyz", "merge_reshapes")), ConfigValueError)
    assert_expected_inline(
        text.replace(", ".join(known_pass_names()), "PASSES"),
        """\
There is no pass of that name [TA101] ERR03005
  why:
    config.debug.disabled_passes = ['reinplaces', 'reinplace', 'xyz', 'merge_reshapes']
    'reinplaces' is none
    'xyz' is none
    'merge_reshapes' is none
    passes: PASSES
  fix:
    did you mean 'reinplace'?
    did you mean 'merge-reshapes'?""",
    )
    make(disabling(*known_pass_names()))


def test_an_unknown_name_is_refused_when_it_is_assigned_afterwards() -> None:
    config = disabling()
    backend = torchair.get_npu_backend(compiler_config=config)
    config.debug.disabled_passes = ["reinplaces"]
    compiled = torch.compile(lambda x: x + 1, backend=backend, fullgraph=True)
    with pytest.raises(BackendCompilerFailed) as caught:
        compiled(torch.ones(2))
    error = caught.value.inner_exception
    assert isinstance(error, ConfigValueError)
    assert error.fix == "did you mean 'reinplace'?"
    config.debug.disabled_passes = ["reinplace"]
    assert torch.equal(compiled(torch.ones(2)), torch.full((2,), 2.0))


@pytest.mark.parametrize(
    "use",
    [
        lambda names: npugraph_ex.get_npu_backend(compiler_config=NpuGraphExConfig.from_options(names)),
        lambda names: npugraph_ex.get_compiler(NpuGraphExConfig.from_options(names)),
        lambda names: npugraph_ex.compile_fx(fx.symbolic_trace(lambda x: x + 1), [torch.ones(2)], names),
        lambda names: compiled_with(names)(torch.ones(2)),
    ],
    ids=["backend", "compiler", "compile_fx", "options"],
)
def test_an_unknown_name_is_refused_in_capture_mode(use: Callable[[dict[str, Any]], Any]) -> None:
    with pytest.raises((ConfigValueError, BackendCompilerFailed)) as caught:
        use({"disabled_passes": ["remove-noop-ops", "reinplace_fx"]})
    error = getattr(caught.value, "inner_exception", caught.value)
    assert isinstance(error, ConfigValueError)
    assert error.why[0] == "npugraph_ex.disabled_passes = ['remove-noop-ops', 'reinplace_fx']"
    assert error.fix == "did you mean 'reinplace-fx'?"
    use({"disabled_passes": list(known_pass_names())})


def compiled_with(options: dict[str, Any]) -> Any:
    torch._dynamo.reset()
    return torch.compile(changed_by_all, backend="npugraph_ex", options=options)


def changed_by_all(x: torch.Tensor, y: torch.Tensor | None = None) -> torch.Tensor:
    """Something for each of the three passes that capture mode runs: a no-op, a cat and a write."""
    y = x * 2 if y is None else y
    y.add_(1)
    return torch.cat([x.exp().clone().cos(), x.neg(), y.sin()])


def rewrites(options: dict[str, Any]) -> dict[str, int | str]:
    """What became of each pass: the number of its rewrites, or why it was skipped."""
    x, y = torch.randn(4, 3), torch.randn(4, 3)
    compiled = compiled_with(options)
    torch.testing.assert_close(compiled(x, y.clone()), changed_by_all(x, y))
    ((graph, _),) = explain_module._graphs_of(compiled)[0]
    assert isinstance(graph, CapturedGraph)
    return {record.name: record.skipped or record.rewrites for record in graph.fx_passes}


CHANGING = ("remove-noop-ops", "remove-cat-ops", "reinplace-fx")


def test_passes_of_capture_mode_are_left_out_by_name() -> None:
    all_of_them = rewrites({})
    assert all(isinstance(all_of_them[name], int) and all_of_them[name] for name in CHANGING), all_of_them
    for name in CHANGING:
        found = rewrites({"disabled_passes": [name]})
        assert found[name] == "disabled"
        assert all(isinstance(found[other], int) for other in CHANGING if other != name)


def test_fuel_stops_the_passes_of_capture_mode() -> None:
    for fuel in range(4):
        found = rewrites({"pass_fuel": fuel})
        assert [bool(found[name]) and found[name] != "no fuel" for name in CHANGING] == [i < fuel for i in range(3)]


def test_unknown_switches_are_warned_about() -> None:
    PROCESS_OPTIONS.reset()
    config = torchair.CompilerConfig()
    config.ge_config.optimization_switch = "SoftmaxFusionPass:off;remove-noop-ops:off;NoSuchPass:on"
    compiled = torch.compile(lambda x: x + 1, backend=torchair.get_npu_backend(compiler_config=config))
    with pytest.warns(UserWarning, match=r"optimization_switch names unknown passes, .*: NoSuchPass$"):
        assert torch.equal(compiled(torch.ones(2)), torch.full((2,), 2.0))
    PROCESS_OPTIONS.reset()


def test_names_of_passes_over_fx_graphs_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pass_names, "_FX_PASSES", ("remove-everything",))
    assert known_pass_names() == ("remove-everything", *(p.name for p in default_passes()))
    backend = torchair.get_npu_backend(compiler_config=disabling("remove-everything", "reinplace"))
    assert torch.equal(torch.compile(lambda x: x + 1, backend=backend)(torch.ones(2)), torch.full((2,), 2.0))
    (graph,) = backend.graphs
    assert isinstance(graph, CompiledGraph)
    assert [record.name for record in graph.passes if record.skipped == "disabled"] == ["reinplace"]


def test_names_are_distinct() -> None:
    assert len(set(known_pass_names())) == len(known_pass_names())
