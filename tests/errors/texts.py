"""Provoking errors, and their texts without what differs between machines."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import torchair
from torchair.convert import converters
from torchair.errors import TorchAirError

__all__ = ["compile_error", "converter", "raised", "text_of"]


def text_of(error: BaseException) -> str:
    """The text of an error of ours, with ``LINE``, ``CODE`` and ``sN`` for lines, their text and symbols."""
    assert isinstance(error, TorchAirError), error
    text = re.sub(r"\S*?(\w+\.py):\d+, in ([^\n:]+)(?:: [^\n]*)?", r"\1:LINE, in \2: CODE", str(error))
    return re.sub(r"\bs\d+\b", "sN", text)


def raised(call: Callable[[], Any], kind: type[TorchAirError]) -> str:
    """The text of the error that a call raises."""
    with pytest.raises(kind) as caught:
        call()
    return text_of(caught.value)


def compile_error(
    program: Callable[..., Any],
    *args: Any,
    kind: type[TorchAirError],
    dynamic: bool | None = None,
    configure: Callable[[torchair.CompilerConfig], None] = lambda config: None,
) -> str:
    """The text of the error that compiling a program raises; afterwards another program compiles."""
    config = torchair.CompilerConfig()
    config.engine = "reference"
    configure(config)
    backend = torchair.get_npu_backend(compiler_config=config)
    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed) as caught, torch.no_grad():
        torch.compile(program, backend=backend, fullgraph=True, dynamic=dynamic)(*args)
    error = caught.value.inner_exception
    assert type(error) is kind or (kind.__subclasses__() and isinstance(error, kind)), error
    assert torch.equal(
        torch.compile(lambda x: x + 1, backend=backend, fullgraph=True)(torch.ones(2)), torch.full((2,), 2.0)
    )
    return text_of(error)


@contextlib.contextmanager
def converter(overload: Any, function: Callable[..., Any], **options: Any) -> Iterator[None]:
    """A converter for the time of a test."""
    torchair.register_fx_node_ge_converter(overload, **options)(function)
    try:
        yield
    finally:
        converters.forget(overload)
