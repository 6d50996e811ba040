"""Fake tensors."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch

from torchair._torch_compat.aot import disabled_autocast
from torchair._torch_compat.calls import no_dispatch_modes

__all__ = [
    "detect_fake_mode",
    "fake_calls",
    "fake_evaluation",
    "fake_modes",
    "is_fake",
    "lacks_fake_kernel",
    "new_fake_mode",
    "quiet_fakes",
    "symbolic_fake_mode",
]


def detect_fake_mode(inputs: Sequence[Any]) -> Any:
    """The ``FakeTensorMode`` of a compile in progress (or of the inputs), or None."""
    from torch._guards import detect_fake_mode as detect

    return detect(inputs)


def is_fake(tensor: torch.Tensor) -> bool:
    """Whether a tensor is fake: has a type, and no data."""
    from torch._subclasses.fake_tensor import FakeTensor

    return isinstance(tensor, FakeTensor)


def new_fake_mode() -> Any:
    """A ``FakeTensorMode`` with symbolic sizes, for graphs that do not come from Dynamo."""
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

    return FakeTensorMode(shape_env=ShapeEnv(), allow_non_fake_inputs=True)


def symbolic_fake_mode() -> Any:
    """A ``FakeTensorMode`` with the settings of a compile: an operator may make sizes, reading an element raises."""
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

    env = ShapeEnv(allow_scalar_outputs=False, allow_dynamic_output_shape_ops=True)
    return FakeTensorMode(shape_env=env, allow_non_fake_inputs=True)


@contextlib.contextmanager
def quiet_fakes() -> Iterator[None]:
    """Leave out what fake tensors log, with a trace, about each kernel that raises: the exception says it."""
    names = (
        "torch._subclasses.fake_tensor",
        "torch._subclasses.functional_tensor",
        "torch.fx.experimental.recording",
        "torch.fx.experimental.symbolic_shapes",
    )
    loggers = [logging.getLogger(name) for name in names]
    before = [log.disabled for log in loggers]
    for log in loggers:
        log.disabled = True
    try:
        yield
    finally:
        for log, disabled in zip(loggers, before, strict=True):
            log.disabled = disabled


def fake_modes(values: Iterable[Any]) -> list[Any]:
    """The fake modes that tensors are of, each once."""
    modes = [v.fake_mode for v in values if isinstance(v, torch.Tensor) and is_fake(v)]  # type: ignore[attr-defined]
    return list({id(mode): mode for mode in modes}.values())


def lacks_fake_kernel(error: BaseException) -> bool:
    """True for the error of fake tensors about an operator that has no fake kernel."""
    from torch._subclasses.fake_tensor import UnsupportedOperatorException

    return isinstance(error, UnsupportedOperatorException)


@contextlib.contextmanager
def fake_calls(fake_mode: Any) -> Iterator[None]:
    """A context in which operators called with fake tensors give types, whatever surrounds the compile in progress."""
    from torch._dispatch.python import enable_python_dispatcher

    with disabled_autocast(), torch.no_grad(), no_dispatch_modes(), fake_mode, enable_python_dispatcher():
        yield


@contextlib.contextmanager
def fake_evaluation(fake_mode: Any) -> Iterator[None]:
    """Inside, operators compute with fake tensors of a mode; new symbols that they make are of no consequence."""
    from torch._dispatch.python import enable_python_dispatcher

    env = fake_mode.shape_env
    ignored = env.ignore_fresh_unbacked_symbols() if env is not None else contextlib.nullcontext()
    with no_dispatch_modes(), torch.no_grad(), fake_mode, enable_python_dispatcher(), ignored:
        yield
