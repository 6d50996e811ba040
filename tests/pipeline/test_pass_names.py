"""Names of passes in ``config.debug.disabled_passes``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from expecttest import assert_expected_inline
from torch._dynamo.exc import BackendCompilerFailed

import torchair
from tests.errors.texts import raised
from torchair.errors import ConfigValueError
from torchair.passes import default_passes
from torchair.pipeline import pass_names
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
