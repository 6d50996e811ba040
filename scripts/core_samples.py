"""One call of each core ATen overload, with arguments small enough to compile in no time.

Used by ``scripts.operator_support``. An overload that PyTorch adds needs a line here; the script says which.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch

__all__ = ["SAMPLES", "Sample", "core_overloads"]

aten = torch.ops.aten


class Sample(NamedTuple):
    """A call.

    Attributes:
        function: Takes the tensors and returns what the overload returns.
        tensors: Its arguments.
        dynamic: Sizes are symbolic (operators on sizes).
        compare: What must be as in eager: ``"values"``, or ``"sizes"`` of memory that holds nothing.
        around: Ascend IR operators of what the function does besides.
    """

    function: Callable[..., Any]
    tensors: tuple[Any, ...]
    dynamic: bool = False
    compare: str = "values"
    around: tuple[str, ...] = ()


def core_overloads() -> list[Any]:
    """Every overload with ``torch.Tag.core`` that the dispatcher knows, by name."""
    found = []
    for qualified in torch._C._dispatch_get_all_op_names():
        namespace, _, name = qualified.partition("::")
        packet, _, overload = name.partition(".")
        op = getattr(getattr(aten, packet, None), overload or "default", None) if namespace == "aten" else None
        if op is not None and torch.Tag.core in op.tags:
            found.append(op)
    return sorted(found, key=str)


def _overload(name: str) -> Any:
    packet, _, overload = name.partition(".")
    return getattr(getattr(aten, packet, None), overload or "default", None)


def _call(name: str, *args: Any, **options: Any) -> Sample:
    """A call with these arguments; tensors among them, also in lists, are what the compiled function takes."""
    compare = options.pop("compare", "values")
    op = _overload(name)
    tensors = tuple(t for a in args for t in (a if isinstance(a, list) else [a]) if isinstance(t, torch.Tensor))

    def function(*given: torch.Tensor) -> Any:
        rest = iter(given)

        def fill(a: Any) -> Any:
            if isinstance(a, list):
                return [fill(x) for x in a]
            return next(rest) if isinstance(a, torch.Tensor) else a

        return op(*[fill(a) for a in args], **options)

    return Sample(function, tensors, compare=compare)


#: Functions of one tensor of floats.
_UNARY = """
    abs acos acosh asin asinh atan atanh ceil cos cosh elu erf exp expm1 floor gelu hardtanh isinf isnan
    leaky_relu log log10 log1p log2 logical_not neg reciprocal relu round rsqrt sigmoid sign sin sinh sqrt tan
    tanh trunc
"""

_generator = torch.Generator().manual_seed(0)


def _f(*shape: int) -> torch.Tensor:
    """Floats between 0.1 and 0.9, where every function is defined."""
    return torch.rand(shape, generator=_generator) * 0.8 + 0.1


def _i(*shape: int, high: int = 9) -> torch.Tensor:
    return torch.randint(1, high, shape, generator=_generator)


def _b(*shape: int) -> torch.Tensor:
    return torch.rand(shape, generator=_generator) > 0.5


def _samples() -> dict[str, Sample]:
    calls: list[tuple[str, Sample]] = []

    def add(name: str, *args: Any, **options: Any) -> None:
        calls.append((name, _call(name, *args, **options)))

    def add_size(name: str, function: Callable[..., Any]) -> None:
        calls.append((name, Sample(lambda x: (function(x), x + 1), (_f(4, 3),), dynamic=True)))

    # --- elementwise ---
    for name in _UNARY.split():
        add(name, _f(2, 3))
    add("bitwise_not", _i(2, 3))
    for name in ["add", "div", "mul", "sub", "eq", "ge", "gt", "le", "lt", "ne", "fmod", "remainder"]:
        add(f"{name}.Tensor", _f(2, 3), _f(3))
        add(f"{name}.Scalar", _f(2, 3), 0.5)
    for name in ["bitwise_and", "bitwise_or", "bitwise_xor"]:
        add(f"{name}.Tensor", _i(2, 3), _i(3))
        add(f"{name}.Scalar", _i(2, 3), 5)
    for name in ["atan2", "maximum", "minimum", "pow.Tensor_Tensor"]:
        add(name, _f(2, 3), _f(3))
    for name in ["logical_and", "logical_or", "logical_xor"]:
        add(name, _b(2, 3), _b(3))
    calls.append(
        ("atan2.out", Sample(lambda x, y, z: aten.atan2.out(x, y, out=z), (_f(2, 3), _f(2, 3), torch.empty(2, 3))))
    )
    add("pow.Scalar", 2.0, _f(2, 3))
    add("pow.Tensor_Scalar", _f(2, 3), 2.0)
    add("div.Tensor_mode", _f(2, 3), _f(3), rounding_mode="floor")
    add("div.Scalar_mode", _f(2, 3), 0.3, rounding_mode="trunc")
    add("clamp", _f(2, 3), 0.3, 0.6)
    add("clamp.Tensor", _f(2, 3), _f(3), _f(3) + 1)
    add("where.self", _b(2, 3), _f(2, 3), _f(3))
    add("fill.Scalar", _f(2, 3), 2.0)
    add("copy", _f(2, 3), _f(3))

    # --- reductions, sorting ---
    for name in ["any", "mean", "prod", "argmax", "argmin"]:
        add(name, _f(2, 3))
    for name in ["amax", "amin", "sum.dim_IntList", "mean.dim", "var.correction", "var.dim"]:
        add(name, _f(2, 3), [1])
    add("any.dim", _b(2, 3), 1)
    add("any.dims", _b(2, 3), [1])
    add("prod.dim_int", _f(2, 3), 1)
    add("max.dim", _f(2, 3), 1)
    add("min.dim", _f(2, 3), 1)
    add("cumsum", _f(2, 3), 1)
    add("sort", _f(2, 3))
    add("topk", _f(2, 5), 3)
    add("_softmax", _f(2, 3), 1, False)
    add("_log_softmax", _f(2, 3), 1, False)

    # --- normalization ---
    x, c = _f(2, 4, 3, 3), [_f(4) for _ in range(4)]
    add("_native_batch_norm_legit", x, *c, True, 0.1, 1e-5)
    add("_native_batch_norm_legit.no_stats", x, c[0], c[1], True, 0.1, 1e-5)
    add("_native_batch_norm_legit_no_training", x, *c, 0.1, 1e-5)
    add("native_group_norm", x, c[0], c[1], 2, 4, 9, 2, 1e-5)
    add("native_group_norm_backward", x, x, _f(2, 2), _f(2, 2), c[0], 2, 4, 9, 2, [True, True, True])
    add("native_layer_norm", _f(2, 4), [4], c[0], c[1], 1e-5)
    add("native_layer_norm_backward", _f(2, 4), _f(2, 4), [4], _f(2, 1), _f(2, 1), c[0], c[1], [True, True, True])

    # --- shapes, memory ---
    add("alias", _f(2, 3))
    add("clone", _f(2, 3))
    # The memory of an argument may begin anywhere; that of a result is known.
    strided = Sample(lambda x: aten.as_strided.default(-x, [2, 2], [1, 2], 1), (_f(2, 3),), around=("Neg",))
    calls.append(("as_strided", strided))
    add("cat", [_f(2, 3), _f(2, 4)], 1)
    add("constant_pad_nd", _f(2, 3), [1, 2], 0.5)
    add("diagonal", _f(3, 3))
    add("expand", _f(1, 3), [2, 3])
    add("flip", _f(2, 3), [1])
    add("permute", _f(2, 3), [1, 0])
    add("repeat", _f(2, 3), [2, 1])
    add("reflection_pad1d", _f(1, 2, 4), [1, 2])
    add("reflection_pad2d", _f(1, 2, 4, 4), [1, 2, 2, 1])
    add("reflection_pad3d", _f(1, 2, 3, 4, 4), [1, 2, 2, 1, 1, 1])
    add("replication_pad2d", _f(1, 2, 4, 4), [1, 2, 2, 1])
    add("replication_pad3d", _f(1, 2, 3, 4, 4), [1, 2, 2, 1, 1, 1])
    add("resize_", _f(2, 3), [3, 2])
    add("select.int", _f(2, 3), 1, 2)
    add("select_scatter", _f(2, 3), _f(2), 1, 2)
    add("slice.Tensor", _f(2, 5), 1, 1, 5, 2)
    add("slice_scatter", _f(2, 5), _f(2, 2), 1, 1, 5, 2)
    add("split_with_sizes", _f(2, 5), [2, 3], 1)
    add("squeeze.dim", _f(2, 1), 1)
    add("squeeze.dims", _f(2, 1, 1), [1, 2])
    add("unsqueeze", _f(2, 3), 1)
    add("view", _f(2, 3), [3, 2])
    add("_to_copy", _f(2, 3), dtype=torch.float64)

    # --- creation ---
    add("arange.start_step", 1, 9, 2)
    add("empty.memory_format", [2, 3], compare="sizes")
    add("empty_strided", [2, 3], [1, 2], compare="sizes")
    add("full", [2, 3], 0.5)
    add("full_like", _f(2, 3), 0.5)
    add("scalar_tensor", 0.5)

    # --- gather, scatter ---
    index = _i(2, 3, high=2)
    add("embedding", _f(9, 4), _i(2, 3))
    add("embedding_dense_backward", _f(2, 3, 4), _i(2, 3), 9, -1, False)
    add("_embedding_bag", _f(9, 4), _i(6), torch.tensor([0, 2]))
    add("gather", _f(2, 3), 1, index)
    add("index.Tensor", _f(2, 3), [None, _i(2, high=3)])
    add("index_put", _f(2, 3), [_i(2, high=2)], _f(2, 3))
    add("index_select", _f(2, 3), 1, _i(2, high=3))
    add("masked_scatter", _f(2, 3), _b(2, 3), _f(6))
    add("nonzero", _b(2, 3))
    add("scatter.src", _f(2, 3), 1, index, _f(2, 3))
    add("scatter.value", _f(2, 3), 1, index, 0.5)
    add("scatter_add", _f(2, 3), 1, index, _f(2, 3))
    add("scatter_reduce.two", _f(2, 3), 1, index, _f(2, 3), "sum")

    # --- matrices, images ---
    add("mm", _f(2, 3), _f(3, 4))
    add("bmm", _f(2, 2, 3), _f(2, 3, 4))
    add("addmm", _f(4), _f(2, 3), _f(3, 4))
    add("_cdist_forward", _f(3, 4), _f(2, 4), 2.0, None)
    add("_pdist_forward", _f(3, 4))
    image, volume, weight = _f(1, 2, 6, 6), _f(1, 2, 4, 6, 6), _f(4, 2, 3, 3)
    numbers = ([1, 1], [1, 1], [1, 1], False, [0, 0], 1)
    add("convolution", image, weight, _f(4), *numbers)
    add("convolution_backward", _f(1, 4, 6, 6), image, weight, [4], *numbers, [True, True, True])
    add("avg_pool1d", _f(1, 2, 6), [2])
    add("avg_pool2d", image, [2, 2])
    add("avg_pool2d_backward", _f(1, 2, 3, 3), image, [2, 2], [2, 2], [0, 0], False, True, None)
    add("avg_pool3d", volume, [2, 2, 2])
    add("adaptive_avg_pool1d", _f(1, 2, 6), [3])
    add("_adaptive_avg_pool2d", image, [3, 2])
    add("_adaptive_avg_pool2d_backward", _f(1, 2, 3, 2), image)
    add("_adaptive_avg_pool3d", volume, [2, 3, 2])
    add("max_pool2d_with_indices", image, [2, 2])
    add(
        "max_pool2d_with_indices_backward",
        _f(1, 2, 3, 3),
        image,
        [2, 2],
        [2, 2],
        [0, 0],
        [1, 1],
        False,
        torch.arange(18).reshape(1, 2, 3, 3),
    )
    add("max_pool3d_with_indices", volume, [2, 2, 2])
    add("upsample_bilinear2d.vec", image, [9, 9], False, None)
    add("upsample_nearest2d.vec", image, [9, 9], None)
    add("grid_sampler_2d", image, _f(1, 3, 3, 2), 0, 0, False)
    add("col2im", _f(1, 8, 9), [4, 4], [2, 2], [1, 1], [0, 0], [1, 1])
    add("_fft_r2c", _f(2, 6), [1], 0, True)
    add("_fft_c2r", torch.view_as_complex(_f(2, 4, 2)), [1], 0, 6)

    # --- random ---
    add("native_dropout", _f(2, 3), 0.5, True)
    add("rand", [2, 3])
    add("randn", [2, 3])
    add("randperm", 5)

    # --- numbers ---
    add("_local_scalar_dense", torch.tensor(2))
    add_size("sym_size.int", lambda x: x.size(0))
    add_size("sym_stride.int", lambda x: x.stride(0))
    add_size("sym_numel", lambda x: x.numel())
    add_size("sym_storage_offset", lambda x: x.storage_offset())
    add_size("sym_is_contiguous", lambda x: x.is_contiguous())
    # An older torch may lack some.
    return {str(op): sample for name, sample in calls if (op := _overload(name)) is not None}


#: The sample of each overload, by ``"aten.add.Tensor"``.
SAMPLES: dict[str, Sample] = _samples()
