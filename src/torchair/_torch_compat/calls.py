"""Calls of operators: their leaves, calls intercepted, below autograd, without modes."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch

from torchair._torch_compat.types import OpOverload

__all__ = [
    "below_autograd",
    "flatten_call",
    "has_dispatch_modes",
    "intercepting_calls",
    "no_dispatch_modes",
    "pytree",
    "without_alias_check",
]


#: Trees of Python containers, and their leaves.
pytree = torch.utils._pytree


def flatten_call(
    args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[list[Any], Callable[[Sequence[Any]], tuple[tuple[Any, ...], dict[str, Any]]]]:
    """The leaves of a call's arguments, and a function that puts others in their place."""
    from torch.utils._pytree import tree_flatten, tree_unflatten

    flat, spec = tree_flatten((tuple(args), dict(kwargs)))
    return flat, lambda leaves: tree_unflatten(list(leaves), spec)


def intercepting_calls(function: Callable[[OpOverload, Sequence[Any], Mapping[str, Any]], Any]) -> Any:
    """A context in which ``function(overload, args, kwargs)`` is called instead of each operator, below autograd."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Interceptor(TorchDispatchMode):  # type: ignore[no-untyped-call]
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return function(func, args, kwargs or {})

    return Interceptor()  # type: ignore[no-untyped-call]


@contextlib.contextmanager
def without_alias_check() -> Iterator[None]:
    """Leave undeclared aliases of custom operators to our own check: PyTorch's raises only where CI is set."""
    from torch._functorch import config as functorch_config

    name = "error_on_custom_op_aliasing"
    if not hasattr(functorch_config, name):  # before 2.10
        yield
        return
    with functorch_config.patch({name: False}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r"[\s\S]*may not alias any inputs to this custom operator")
        yield


def no_dispatch_modes() -> Any:
    """A context in which no dispatch mode is active, so that constants made while compiling are real tensors."""
    from torch.utils._python_dispatch import _disable_current_modes

    return _disable_current_modes()


def has_dispatch_modes() -> bool:
    """Whether a dispatch mode is active in this thread."""
    count = getattr(torch._C, "_len_torch_dispatch_stack", None)
    return count is not None and bool(count())


def below_autograd() -> Any:
    """A context in which operators run below autograd and below what tracks views and versions."""
    return (
        torch._C._AutoDispatchBelowADInplaceOrView()
        if hasattr(torch._C, "_AutoDispatchBelowADInplaceOrView")
        else torch._C._AutoDispatchBelowAutograd()
    )
