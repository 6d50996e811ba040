"""Arguments of ``torch.compile`` that are meant for another backend."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from expecttest import assert_expected_inline
from torch._dynamo.exc import BackendCompilerFailed

import torchair
from tests.errors.texts import text_of
from torchair.errors import ConfigValueError, TorchAirError, UnknownOptionError


def refused(kind: type[TorchAirError], backend: Any = None, **arguments: Any) -> str:
    """The text of the error that compiling with further arguments raises; without them the backend works."""
    backend = backend or torchair.get_npu_backend()
    with pytest.raises(BackendCompilerFailed) as caught:
        torch.compile(lambda x: x + 1, backend=backend, **arguments)(torch.ones(2))
    error = caught.value.inner_exception
    assert type(error) is kind
    assert torch.equal(torch.compile(lambda x: x + 1, backend=backend)(torch.ones(2)), torch.full((2,), 2.0))
    return text_of(error)


def test_options_of_inductor() -> None:
    options = {"max_autotune": True, "triton.cudagraphs": True}
    assert_expected_inline(
        refused(UnknownOptionError, options=options),
        """\
options= is for the backend "inductor" [TA104] ERR03005
  why:
    'max_autotune' is an option of Inductor
    'triton.cudagraphs' is an option of Inductor
  fix:
    Leave options= out, or compile with PyTorch's own compiler:
        torch.compile(model, backend="inductor", options={'max_autotune': True, 'triton.cudagraphs': True})
    Options of GE mode are on a configuration:
        config = torchair.CompilerConfig()
        torch.compile(model, backend=torchair.get_npu_backend(compiler_config=config))
    The backend "npugraph_ex" takes names of its own in options=, those of npugraph_ex.CompilerConfig.""",
    )


@pytest.mark.parametrize("backend", ["torchair", "npu"])
def test_options_of_inductor_with_names_of_backends(backend: str) -> None:
    assert "'max-autotune' is an option of Inductor" in refused(
        UnknownOptionError, backend, options={"max-autotune": True}
    )


def test_options_of_nobody_among_those_of_inductor() -> None:
    options = {"max_autotune": True, "clone_input": True, "no_such_option": 1}
    assert_expected_inline(
        refused(UnknownOptionError, options=options),
        """\
options= is for the backend "inductor" [TA104] ERR03005
  why:
    'max_autotune' is an option of Inductor
    no backend has an option 'no_such_option'
  fix:
    Leave options= out, or compile with PyTorch's own compiler:
        torch.compile(model, backend="inductor", options={'max_autotune': True})
    Options of GE mode are on a configuration:
        config = torchair.CompilerConfig()
        torch.compile(model, backend=torchair.get_npu_backend(compiler_config=config))
    The backend "npugraph_ex" takes names of its own in options=, those of npugraph_ex.CompilerConfig.""",
    )


def test_options_of_nobody() -> None:
    text = refused(UnknownOptionError, options={"clone_inputs": 1})
    assert "npugraph_ex has no option 'clone_inputs'" in text
    assert "did you mean npugraph_ex.clone_input?" in text


def test_a_mode_of_inductor() -> None:
    assert_expected_inline(
        refused(ConfigValueError, mode="max-autotune"),
        """\
mode= is for the backend "inductor" [TA101] ERR03005
  why:
    mode = 'max-autotune' of torch.compile names settings of Inductor
  fix:
    Leave mode= out. Options of GE mode are on a configuration:
        config = torchair.CompilerConfig()
        torch.compile(model, backend=torchair.get_npu_backend(compiler_config=config))
    The backend "npugraph_ex" takes names of its own in options=, those of npugraph_ex.CompilerConfig.""",
    )
