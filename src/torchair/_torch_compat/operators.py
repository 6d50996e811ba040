"""Operators of the dispatcher: overloads, kernels, what their schemas and tags say."""

from __future__ import annotations

import functools
from typing import Any

import torch

from torchair._torch_compat.calls import no_dispatch_modes
from torchair._torch_compat.extension import torch_version
from torchair._torch_compat.types import OpOverload, OpOverloadPacket

__all__ = [
    "_DECOMPOSING_KEYS",
    "can_auto_functionalize",
    "changes_metadata",
    "custom_operator_names",
    "find_overload",
    "find_packet",
    "has_autograd_kernel",
    "flash_attention_groups_heads",
    "has_fake_kernel",
    "has_kernel",
    "has_python_decomposition",
    "has_python_kernel",
    "is_auto_functionalized_v1",
    "is_auto_functionalized_v2",
    "is_builtin",
    "is_composite",
    "is_functionalized_by_kernel",
    "is_run_and_save_rng_state",
    "is_run_with_rng_state",
    "is_with_effects",
    "native_out_variant",
    "overload_names",
    "register_ordered_effect",
    "slices_count_from_storage",
    "strides_tag",
]


def is_composite(op: Any) -> bool:
    """True for operators that PyTorch itself takes apart before any backend sees them (CompositeImplicitAutograd)."""
    return bool(op._can_decompose())


# Kernels for all devices.
_COMPOSITE_KEYS = ("CompositeExplicitAutograd", "CompositeImplicitAutograd")
_DECOMPOSING_KEYS = (torch._C.DispatchKey.CompositeImplicitAutograd, torch._C.DispatchKey.Autograd)


def has_python_decomposition(op: Any) -> bool:
    """Whether PyTorch decomposes an operator by a Python kernel; see :func:`python_decompositions`."""
    return any(key in op.py_kernels for key in _DECOMPOSING_KEYS)


def is_auto_functionalized_v1(target: Any) -> bool:
    """True for the higher-order operator that wraps a mutating operator without views (torch before 2.6, and lists)."""
    from torch._higher_order_ops.auto_functionalize import auto_functionalized

    return target is auto_functionalized


def is_auto_functionalized_v2(target: Any) -> bool:
    """True for the one that passes bases and how arguments are views of them."""
    from torch._higher_order_ops.auto_functionalize import auto_functionalized_v2

    return target is auto_functionalized_v2


@functools.cache
def flash_attention_groups_heads() -> bool:
    """Whether the CPU's flash attention takes fewer heads of keys than of queries (in 2.6 it reads beyond them)."""
    with no_dispatch_modes():
        query, key = torch.zeros(1, 2, 1, 8), torch.zeros(1, 1, 1, 8)
        chosen = torch._fused_sdp_choice(query, key, key, None, 0.0, False, enable_gqa=True)
    return bool(chosen == torch.nn.attention.SDPBackend.FLASH_ATTENTION.value)


def find_overload(namespace: str, name: str) -> OpOverload | None:
    """The default overload of an operator, or None where nobody defined it."""
    if not torch._C._dispatch_has_kernel(f"{namespace}::{name}"):
        return None
    overload: OpOverload = getattr(getattr(torch.ops, namespace), name).default
    return overload


def overload_names(packet: OpOverloadPacket) -> list[str]:
    """Names of the overloads of an operator: ``["default", "out"]``."""
    return list(packet.overloads())  # type: ignore[no-untyped-call]


def custom_operator_names() -> set[str]:
    """Names of the operators in the dispatcher that PyTorch does not define itself: ``"ns::my_op"``."""
    all_names = getattr(torch._C, "_dispatch_get_all_op_names", None)
    names = all_names() if all_names is not None else [s.name for s in torch._C._jit_get_all_schemas()]
    own = ("aten", "prim", "prims", "quantized", "mkldnn", "onednn", "profiler", "inductor", "c10d", "_c10d_functional")
    return {name.partition(".")[0] for name in names if name.partition("::")[0] not in own}


def find_packet(namespace: str, name: str) -> OpOverloadPacket | None:
    """An operator with its overloads, or None where nobody defined it."""
    packet = getattr(getattr(torch.ops, namespace), name, None)
    return packet if isinstance(packet, OpOverloadPacket) else None


def has_kernel(overload: OpOverload, key: str) -> bool:
    """Whether an operator can run on a device (``"CPU"``): by a kernel for it, or one for all devices."""
    found = torch._C._dispatch_has_kernel_for_dispatch_key
    name = _qualified(overload)
    return any(found(name, k) for k in (key, *_COMPOSITE_KEYS))


def has_python_kernel(overload: OpOverload) -> bool:
    """Whether a kernel of an operator for CPUs was registered from Python (``torch.library``)."""
    name = _qualified(overload).replace("::", "/")
    return any(f"{name}/{key}" in torch.library._impls for key in ("CPU", *_COMPOSITE_KEYS))


def has_autograd_kernel(overload: OpOverload) -> bool:
    """Whether somebody registered how gradients flow through an operator."""
    found = torch._C._dispatch_has_kernel_for_dispatch_key
    if any(found(_qualified(overload), key) for key in ("Autograd", "AutogradCPU")):
        return _has_formula(overload)
    return False


def _has_formula(overload: OpOverload) -> bool:
    """False for a kernel of ``torch.library.custom_op`` that only refuses gradients, since nobody gave a formula."""
    from torch._library.custom_ops import OPDEFS

    name = overload._schema.name
    known = OPDEFS.get(name) if hasattr(OPDEFS, "get") else None
    return known is None or known._backward_fn is not None


def _qualified(overload: OpOverload) -> str:
    """``"ns::name.overload"``, without ``default``, as the dispatcher knows it."""
    return str(overload.name())  # type: ignore[no-untyped-call]


def has_fake_kernel(overload: OpOverload) -> bool:
    """Whether something tells the types of an operator's results."""
    from torch._library.utils import has_fake_kernel as has

    return has(overload)


def register_ordered_effect(overload: OpOverload) -> None:
    """Say that an operator has a side effect: AOTAutograd keeps it, and its order among such operators."""
    from torch._higher_order_ops import effects

    # A public kind of effect since 2.9.
    kind = getattr(effects, "_EffectType", None) or effects.EffectType  # type: ignore[attr-defined]
    effects._register_effectful_op(overload, kind.ORDERED)


def can_auto_functionalize(overload: OpOverload) -> bool:
    """Whether PyTorch functionalizes a mutating operator on its own."""
    from torch._higher_order_ops.auto_functionalize import can_auto_functionalize as can

    return can(overload)


def is_functionalized_by_kernel(overload: OpOverload) -> bool:
    """Whether somebody registered a functionalization of an operator by hand, or it is composed of other operators."""
    has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key
    name = _qualified(overload)
    return has_kernel(name, "Functionalize") or has_kernel(name, "CompositeImplicitAutograd")


def is_builtin(overload: OpOverload) -> bool:
    """Whether an operator is one of PyTorch's own, whose mutations it functionalizes in other ways."""
    return overload.namespace in {"aten", "prim", "prims"}


@functools.cache
def slices_count_from_storage() -> bool:
    """Whether ``auto_functionalized_v2`` counts the start of a slice from the start of the storage, not of the base.

    2.6 to 2.13 do, and then run the operator on the wrong rows of a base that begins elsewhere in its storage.
    """
    try:
        from torch._higher_order_ops.auto_functionalize import try_use_slice
    except ImportError:
        return False
    with no_dispatch_modes():
        base = torch.empty(10, device="meta")[4:]
        found = try_use_slice(base, base[1:3])  # type: ignore[no-untyped-call]
    return found is not None and found[1] == 5


def positions_survive_writes() -> bool:
    """Whether ``auto_functionalized_v2`` tells where an argument lies in an input that was written before.

    2.6 may count from where the input begins in its storage although the new value begins at its start, and then runs
    the operator on other elements. 2.13 does not; versions between the two were not tried.
    """
    return torch_version() >= (2, 13)


def is_run_and_save_rng_state(target: Any) -> bool:
    """True for the wrapper ``(op, *args) -> (state before, results)`` of operators that draw random numbers."""
    from torch._prims.rng_prims import run_and_save_rng_state

    return target is run_and_save_rng_state


def is_run_with_rng_state(target: Any) -> bool:
    """True for the wrapper ``(state, op, *args) -> results`` of operators that draw random numbers once more."""
    from torch._prims.rng_prims import run_with_rng_state

    return target is run_with_rng_state


def is_with_effects(target: Any) -> bool:
    """True for the higher-order operator that threads a token through operators with side effects."""
    from torch._higher_order_ops.effects import with_effects

    return target is with_effects


@functools.cache
def native_out_variant(overload: OpOverload) -> OpOverload | None:
    """The overload that writes into given tensors, where PyTorch has one that was written, not generated.

    A generated one calls the functional overload and copies.
    """
    schema = overload._schema
    packet = overload.overloadpacket
    given = [(a.name, str(a.type)) for a in schema.arguments]
    for name in overload_names(packet):
        other: OpOverload = getattr(packet, name)
        arguments = other._schema.arguments
        written = arguments[len(given) :]
        if (
            len(written) == len(schema.returns)
            and [(a.name, str(a.type)) for a in arguments[: len(given)]] == given
            and all(a.kwarg_only and a.alias_info is not None and a.alias_info.is_write for a in written)
            and not any(a.alias_info is not None for a in arguments[: len(given)])
            and torch.Tag.generated not in other.tags
        ):
            return other
    return None


def changes_metadata(overload: OpOverload) -> bool:
    """Whether an operator gives one of its arguments other sizes or other memory."""
    return torch.Tag.inplace_view in overload.tags or overload._schema.name in ("aten::set_", "aten::resize_")


def strides_tag() -> torch.Tag:
    """The tag of operators whose operands must have the strides that they were traced with."""
    tag: torch.Tag = getattr(torch.Tag, "needs_exact_strides", torch.Tag.needs_fixed_stride_order)
    return tag
