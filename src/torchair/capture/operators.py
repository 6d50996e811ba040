"""What a recorder has to know of single operators: where their results can lie, and whether their fakes are right."""

from __future__ import annotations

import torch
from torch import fx

from torchair import _torch_compat
from torchair._torch_compat import OpOverload

__all__ = [
    "ALLOCATIONS",
    "COPIES",
    "UNRELIABLE_STRIDES",
    "cpu_out_variant",
    "has_effect",
    "has_unreliable_strides",
    "is_symbolic_query",
    "out_arguments",
]

#: Operators that only allocate: as a buffer they need no launch.
ALLOCATIONS = frozenset(
    {
        "aten::empty",
        "aten::empty_strided",
        "aten::empty_like",
        "aten::new_empty",
        "aten::new_empty_strided",
        "aten::empty_permuted",
    }
)

#: Operators whose fake kernels give the results other strides than the real ones for some strides of the arguments
#: (transposed, broadcast). What runs on a plan must have eager's strides, so there these operators, and those that read
#: their results, allocate what they return.
#: ``tests/capture/test_fake_strides.py`` looks for more.
UNRELIABLE_STRIDES = frozenset(
    {
        "aten::copysign",
        "aten::div.Tensor_mode",
        "aten::floor_divide",
        "aten::log_sigmoid_forward",
        "aten::max_unpool2d",
        "aten::native_batch_norm",
        "aten::_native_batch_norm_legit",
        "aten::_native_batch_norm_legit_no_training",
        "aten::special_xlog1py",
        "aten::xlogy",
    }
    | (
        {
            "aten::_fft_c2c",
            "aten::_fft_c2r",
            "aten::_fft_r2c",
            "aten::complex",
            "aten::index",
            "aten::linalg_eig",
            "aten::polar",
            "aten::pow.Scalar",
            "aten::replication_pad2d",
            "aten::stack",
        }
        if _torch_compat.torch_version() < (2, 7)
        else set()
    )
)

#: Copies, whose ``out=`` overloads are generated: into a buffer they are ``copy_``.
COPIES = frozenset({"aten::clone", "aten::_to_copy", "aten::lift_fresh_copy"})


#: Operators whose CPU kernels call another one, with further arguments; their own ``out=`` overloads are generated.
SAME_ON_CPU = {"aten::relu": (torch.ops.aten.clamp_min.out, (0,))}


def has_unreliable_strides(op: OpOverload) -> bool:
    """Whether an operator is among :data:`UNRELIABLE_STRIDES`."""
    name = op._schema.name
    return name in UNRELIABLE_STRIDES or f"{name}.{op._schema.overload_name}" in UNRELIABLE_STRIDES


def is_symbolic_query(op: OpOverload) -> bool:
    """Sizes, strides and offsets as numbers: Python has them, the dispatcher has no kernel for real tensors."""
    return op._schema.name in ("aten::sym_size", "aten::sym_stride", "aten::sym_storage_offset", "aten::sym_numel")


def has_effect(node: fx.Node) -> bool:
    """Whether a node does something besides its result."""
    return isinstance(node.target, OpOverload) and (node.target._schema.is_mutable or node.is_impure())


def cpu_out_variant(op: OpOverload) -> OpOverload | None:
    """The overload that writes into given tensors on the CPU; None where there is none, or only a generated one.

    It takes the arguments of the operator, :func:`out_arguments`, and the tensors.
    """
    same = SAME_ON_CPU.get(op._schema.name)
    found = _torch_compat.native_out_variant(op) if same is None else same[0]
    return found if found is not None and _torch_compat.has_kernel(found, "CPU") else None


def out_arguments(op: OpOverload) -> tuple[int, ...]:
    """What :func:`cpu_out_variant` takes besides the arguments of the operator."""
    same = SAME_ON_CPU.get(op._schema.name)
    return () if same is None else same[1]
