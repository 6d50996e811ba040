"""Built-in replacements by fused operators of the device plug-in (specification, F-21).

They exist where the operators do, and where these take the arguments that are given here. Schemas: the interface of the
plug-in as its documentation gives it, and the prototypes of the Ascend operators (outputs in their order).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from torchair import _torch_compat
from torchair._torch_compat import OpOverload
from torchair.errors import TorchAirError
from torchair.frontend.replacement import Replacement, check_replacement
from torchair.logs import get_logger

__all__ = ["builtin_replacements"]

_log = get_logger(__name__)

#: Stands for any epsilon while a pattern is traced; occurs nowhere else in it.
_EPSILON = {"epsilon": 0.00012207}

_CAPTURE = ("capture",)
_BOTH = ("ge", "capture")

#: Products whose inner size is this or more are left to the plain operator.
_LIMIT = 65536


def builtin_replacements(mode: str) -> tuple[Replacement, ...]:
    """The built-in replacements for a mode whose operators exist now."""
    found = {name: _torch_compat.find_overload("npu", name) for name in _OPERATORS}
    present = tuple((name, op) for name, op in found.items() if op is not None)
    return tuple(r for r in _replacements(present) if mode in r.modes) if present else ()


_OPERATORS = (
    "_npu_dtype_cast",
    "npu_add_rms_norm",
    "npu_add_rms_norm_cast",
    "npu_add_rms_norm_dynamic_quant",
    "npu_add_rms_norm_quant",
    "npu_dynamic_quant",
    "npu_quantize",
    "npu_transpose_batchmatmul",
)


@functools.lru_cache(maxsize=4)
def _replacements(present: tuple[tuple[str, OpOverload], ...]) -> tuple[Replacement, ...]:
    ops = dict(present)
    made: list[Replacement] = []
    with _torch_compat.outside_of_compiles():
        for needed, make in _GROUPS:
            if not all(name in ops for name in needed):
                continue
            made += filter(_fits_operators, make(ops))
    return tuple(made)


def _fits_operators(replacement: Replacement) -> bool:
    """Whether the operators take the arguments that the replacement gives them."""
    try:
        check_replacement(replacement)
    except TorchAirError as e:
        _log.debug("a built-in replacement is left out: %s", e)
        return False
    return True


def _tensors(*shapes: tuple[int, ...], dtypes: Sequence[torch.dtype] = ()) -> tuple[Any, ...]:
    mode = _torch_compat.new_fake_mode()
    kinds = [*dtypes, *[torch.float16] * (len(shapes) - len(dtypes))]
    with mode:
        return tuple(torch.empty(shape, dtype=dtype) for shape, dtype in zip(shapes, kinds, strict=True))


def _with_and_without_epsilon(
    make: Callable[[Callable[..., Any]], tuple[Callable[..., Any], Callable[..., Any]]],
    norm: OpOverload,
    inputs: tuple[Any, ...],
    *,
    check: Callable[[Any], bool] = lambda match: True,
    modes: tuple[str, ...] = _BOTH,
) -> Iterator[Replacement]:
    """A replacement for each form of ``npu_add_rms_norm``: graphs leave out an epsilon that is the default."""
    for explicit in (True, False):

        def call(x1: Any, x2: Any, gamma: Any, epsilon: Any, explicit: bool = explicit) -> Any:
            return norm(x1, x2, gamma, epsilon) if explicit else norm(x1, x2, gamma)

        search, replace = make(call)
        if not explicit:
            search, replace = _default_epsilon(search), _default_epsilon(replace)
        yield Replacement(search, replace, inputs, _EPSILON if explicit else {}, None, check, None, modes)


def _default_epsilon(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function without its last parameter, which is ``epsilon``."""
    names = function.__code__.co_varnames[: function.__code__.co_argcount - 1]
    if len(names) == 3:
        return lambda x1, x2, gamma: function(x1, x2, gamma, 1e-6)
    if len(names) == 4:
        return lambda x1, x2, gamma, scales: function(x1, x2, gamma, scales, 1e-6)
    return lambda x1, x2, gamma, scales, zeros: function(x1, x2, gamma, scales, zeros, 1e-6)


# --- rules 1 and 2: dynamic quantization of a normalized sum ---


def _dynamic_quant(ops: dict[str, OpOverload]) -> Iterator[Replacement]:
    quant, fused = ops["npu_dynamic_quant"], ops["npu_add_rms_norm_dynamic_quant"]
    mask = [True, False]
    for residual in (True, False):

        def smooth(norm: Callable[..., Any], residual: bool = residual) -> tuple[Any, Any]:
            def search(x1: Any, x2: Any, gamma: Any, scales: Any, epsilon: Any) -> Any:
                y, _, x = norm(x1, x2, gamma, epsilon)
                q, scale = quant(y, smooth_scales=scales)
                return (q, scale, x) if residual else (q, scale)

            def replace(x1: Any, x2: Any, gamma: Any, scales: Any, epsilon: Any) -> Any:
                q, _, x, scale, _ = fused(x1, x2, gamma, smooth_scale1=scales, epsilon=epsilon, output_mask=mask)
                return (q, scale, x) if residual else (q, scale)

            return search, replace

        def flattened(norm: Callable[..., Any], residual: bool = residual) -> tuple[Any, Any]:
            def search(x1: Any, x2: Any, gamma: Any, epsilon: Any) -> Any:
                y, _, x = norm(x1, x2, gamma, epsilon)
                q, scale = quant(y.flatten(0, 1))
                return (q, scale.view(-1, 1), x) if residual else (q, scale.view(-1, 1))

            def replace(x1: Any, x2: Any, gamma: Any, epsilon: Any) -> Any:
                q, _, x, scale, _ = fused(x1, x2, gamma, epsilon=epsilon, output_mask=mask)
                q, scale = q.flatten(0, 1), scale.view(-1, 1)
                return (q, scale, x) if residual else (q, scale)

            return search, replace

        norm = ops["npu_add_rms_norm"]
        yield from _with_and_without_epsilon(smooth, norm, _tensors((4, 8), (4, 8), (8,), (8,)))
        yield from _with_and_without_epsilon(flattened, norm, _tensors((2, 4, 8), (2, 4, 8), (8,)))


# --- rules 3 and 4: a normalized sum in float32 ---


def _cast(ops: dict[str, OpOverload]) -> Iterator[Replacement]:
    fused, plug_in = ops["npu_add_rms_norm_cast"], ops.get("_npu_dtype_cast")
    casts: list[Callable[[Any], Any]] = [lambda y: torch.ops.aten._to_copy.default(y, dtype=torch.float32)]
    if plug_in is not None:
        casts.append(lambda y: plug_in(y, torch.float32))
    for cast in casts:
        for viewed in (True, False):
            for residual in (True, False):

                def make(
                    norm: Callable[..., Any],
                    cast: Callable[[Any], Any] = cast,
                    viewed: bool = viewed,
                    residual: bool = residual,
                ) -> tuple[Any, Any]:
                    def search(x1: Any, x2: Any, gamma: Any, epsilon: Any) -> Any:
                        y, _, x = norm(x1, x2, gamma, epsilon)
                        wide = cast(y.view(-1, y.shape[-1]) if viewed else y)
                        return (wide, x) if residual else wide

                    def replace(x1: Any, x2: Any, gamma: Any, epsilon: Any) -> Any:
                        wide, _, _, x = fused(x1, x2, gamma, epsilon)
                        wide = wide.view(-1, wide.shape[-1]) if viewed else wide
                        return (wide, x) if residual else wide

                    return search, replace

                inputs = _tensors((2, 4, 8), (2, 4, 8), (8,))
                yield from _with_and_without_epsilon(make, ops["npu_add_rms_norm"], inputs)


# --- rules 5 and 6: a transposed product of batches ---


def _batch_products(ops: dict[str, OpOverload]) -> Iterator[Replacement]:
    fused = ops["npu_transpose_batchmatmul"]
    for product in (torch.bmm, torch.matmul):
        for dims in ((0, 1), (1, 0)):

            def plain(x1: Any, x2: Any, product: Any = product, dims: Any = dims) -> Any:
                return product(x1, x2).transpose(*dims)

            def first(x1: Any, x2: Any, product: Any = product, dims: Any = dims) -> Any:
                return product(x1.transpose(*dims), x2).transpose(*dims)

            for search, order, check in ((first, [1, 0, 2], _fits_both), (plain, [0, 1, 2], _fits)):

                def replace(x1: Any, x2: Any, order: list[int] = order) -> Any:
                    return fused(x1, x2, perm_x1=order, perm_x2=[0, 1, 2], perm_y=[1, 0, 2])

                two = _two_parameters
                shape = (2, 4, 8) if order == [0, 1, 2] else (4, 2, 8)
                yield Replacement(
                    two(search), two(replace), _tensors(shape, (2, 8, 16)), {}, None, check, None, _CAPTURE
                )


def _two_parameters(function: Callable[..., Any]) -> Callable[[Any, Any], Any]:
    """The function without the parameters that hold the variables of a loop."""
    return lambda x1, x2: function(x1, x2)


def _fits(match: Any) -> bool:
    x1, x2 = (match.kwargs[name].meta["val"] for name in ("x1", "x2"))
    kinds = {torch.bfloat16, torch.float16, torch.float32}
    if x1.dim() != 3 or x2.dim() != 3 or {x1.dtype, x2.dtype} - kinds:
        return False
    return bool(x1.shape[2] % 128 == 0 and x2.shape[2] % 128 == 0 and x1.shape[2] < _LIMIT)


def _fits_both(match: Any) -> bool:
    x1 = match.kwargs["x1"].meta["val"]
    return _fits(match) and bool(1 <= x1.shape[2] * x1.shape[1] < _LIMIT)


# --- rule 7: static quantization of a normalized sum ---


def _static_quant(ops: dict[str, OpOverload]) -> Iterator[Replacement]:
    quant, fused = ops["npu_quantize"], ops["npu_add_rms_norm_quant"]
    for dtype in (torch.qint8, torch.int8):
        for zeros_given in (True, False):
            for residual in (True, False):

                def make(
                    norm: Callable[..., Any],
                    dtype: torch.dtype = dtype,
                    zeros_given: bool = zeros_given,
                    residual: bool = residual,
                ) -> tuple[Any, Any]:
                    def search(x1: Any, x2: Any, gamma: Any, scales: Any, zeros: Any, epsilon: Any) -> Any:
                        y, _, x = norm(x1, x2, gamma, epsilon)
                        q = quant(y, scales, zeros, dtype, -1, True)
                        return (q, x) if residual else q

                    def replace(x1: Any, x2: Any, gamma: Any, scales: Any, zeros: Any, epsilon: Any) -> Any:
                        q, _, x, *_ = fused(x1, x2, gamma, scales, zeros, axis=-1, epsilon=epsilon, div_mode=True)
                        return (q, x) if residual else q

                    if zeros_given:
                        return search, replace
                    return _no_zeros(search), _no_zeros(replace)

                shapes = [(4, 32), (4, 32), (32,), (32,), *([(32,)] if zeros_given else [])]
                yield from _with_and_without_epsilon(
                    make, ops["npu_add_rms_norm"], _tensors(*shapes), check=_quantizes, modes=_CAPTURE
                )


def _no_zeros(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x1, x2, gamma, scales, epsilon: function(x1, x2, gamma, scales, None, epsilon)


def _quantizes(match: Any) -> bool:
    values = {name: node.meta["val"] for name, node in match.kwargs.items() if hasattr(node, "meta")}
    x1, x2, gamma, scales = (values[name] for name in ("x1", "x2", "gamma", "scales"))
    zeros = values.get("zeros")
    if x1.dtype != x2.dtype or x1.dtype not in (torch.float16, torch.bfloat16):
        return False
    if zeros is not None and zeros.dtype in (torch.int8, torch.uint8):
        return False
    return bool(x1.shape[-1] * x1.dtype.itemsize % 32 == 0) and gamma.shape == scales.shape


#: What a group of rules needs, and the rules. Larger patterns come first.
_GROUPS: Sequence[tuple[tuple[str, ...], Callable[[dict[str, OpOverload]], Iterator[Replacement]]]] = (
    (("npu_add_rms_norm", "npu_dynamic_quant", "npu_add_rms_norm_dynamic_quant"), _dynamic_quant),
    (("npu_add_rms_norm", "npu_quantize", "npu_add_rms_norm_quant"), _static_quant),
    (("npu_add_rms_norm", "npu_add_rms_norm_cast"), _cast),
    (("npu_transpose_batchmatmul",), _batch_products),
)
