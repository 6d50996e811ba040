"""The only module that imports private names of torch; each is explained, with a fallback where versions differ.

Supported: torch 2.6 and later. Tests: ``tests/test_torch_compat.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import fx

__all__ = [
    "OpOverload",
    "OpOverloadPacket",
    "aot_module_simplified",
    "core_decompositions",
    "detect_fake_mode",
    "is_auto_functionalized_v1",
    "is_auto_functionalized_v2",
    "is_with_effects",
    "make_boxed",
    "new_fake_mode",
    "no_dispatch_modes",
    "required_storage_length",
    "storage_id",
    "symbolic_number",
]


#: One overload of an operator, ``torch.ops.aten.add.Tensor``, and all of them, ``torch.ops.aten.add``.
OpOverload = torch._ops.OpOverload
OpOverloadPacket = torch._ops.OpOverloadPacket


def detect_fake_mode(inputs: Sequence[Any]) -> Any:
    """The ``FakeTensorMode`` of a compile in progress (or of the inputs), or None."""
    from torch._guards import detect_fake_mode as detect

    return detect(inputs)


def new_fake_mode() -> Any:
    """A ``FakeTensorMode`` with symbolic sizes, for graphs that do not come from Dynamo."""
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

    return FakeTensorMode(shape_env=ShapeEnv(), allow_non_fake_inputs=True)


def symbolic_number(fake_mode: Any, expr: Any, pytype: type = int) -> Any:
    """A ``SymInt``/``SymFloat``/``SymBool`` for an expression over the symbols of the mode's shape environment."""
    env = fake_mode.shape_env
    if pytype is bool:
        return env.create_symboolnode(expr)
    if pytype is float:
        return env.create_symfloatnode(expr, hint=None)
    return env.create_symintnode(expr, hint=None)


def aot_module_simplified(gm: fx.GraphModule, inputs: Sequence[Any], **kwargs: Any) -> Callable[..., Any]:
    """AOTAutograd: see ``torch._functorch.aot_autograd.aot_module_simplified``."""
    from torch._functorch.aot_autograd import aot_module_simplified as aot

    return aot(gm, inputs, **kwargs)  # type: ignore[no-any-return]


def make_boxed(function: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a function as taking one list of arguments (AOTAutograd then lets go of its own references)."""
    function._boxed_call = True  # type: ignore[attr-defined]
    return function


def core_decompositions() -> Mapping[Any, Callable[..., Any]]:
    """PyTorch's table of decompositions into core ATen operators."""
    from torch._decomp import core_aten_decompositions

    return core_aten_decompositions()


def is_auto_functionalized_v1(target: Any) -> bool:
    """True for the higher-order operator that wraps a mutating operator without views (torch before 2.6, and lists)."""
    from torch._higher_order_ops.auto_functionalize import auto_functionalized

    return target is auto_functionalized


def is_auto_functionalized_v2(target: Any) -> bool:
    """True for the one that passes bases and how arguments are views of them."""
    from torch._higher_order_ops.auto_functionalize import auto_functionalized_v2

    return target is auto_functionalized_v2


def storage_id(tensor: torch.Tensor) -> int:
    """Identity of a tensor's storage, also of fake tensors (which have no data pointer)."""
    return tensor.untyped_storage()._cdata


def required_storage_length(tensor: torch.Tensor) -> Any:
    """Elements of storage from its start to the tensor's last element (an int, or a ``SymInt`` for symbolic sizes)."""
    from torch._prims_common import compute_required_storage_length

    offset: Any = tensor.storage_offset()
    return compute_required_storage_length(tensor.size(), tensor.stride(), offset)


def no_dispatch_modes() -> Any:
    """A context in which no dispatch mode is active, so that constants made while compiling are real tensors."""
    from torch.utils._python_dispatch import _disable_current_modes

    return _disable_current_modes()


def is_with_effects(target: Any) -> bool:
    """True for the higher-order operator that threads a token through operators with side effects."""
    from torch._higher_order_ops.effects import with_effects

    return target is with_effects
