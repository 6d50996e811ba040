"""Custom operators that tests convert: every kind of argument and result, each with a kernel and a fake kernel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

__all__ = ["NAMESPACE", "define", "ops"]

NAMESPACE = "custom_operators"
_library = torch.library.Library(NAMESPACE, "DEF")
ops: Any = getattr(torch.ops, NAMESPACE)


def define(
    schema: str, kernel: Callable[..., Any] | None, fake: Callable[..., Any] | None = None, *, tags: Sequence[Any] = ()
) -> str:
    """Define an operator in the namespace; returns its name."""
    name = schema.partition("(")[0]
    _library.define(schema, tags=tuple(tags))
    if kernel is not None:
        _library.impl(name, kernel, "CPU")
    if fake is not None:
        torch.library.register_fake(f"{NAMESPACE}::{name}", fake, lib=_library)
    return name


# --- the operators of the guide ---


def _my_op(x: Tensor, y: Tensor | None, z: list[Tensor], attr1: float, attr2: int) -> Tensor:
    total = x * attr1 + attr2
    for tensor in [*z, *([] if y is None else [y])]:
        total = total + tensor
    return total


def _my_inplace(x: Tensor, y: Tensor) -> Tensor:
    x.add_(y)
    return x * 2


define(
    "my_op(Tensor x, Tensor? y, Tensor[] z, float attr1, int attr2) -> Tensor",
    _my_op,
    lambda x, y, z, attr1, attr2: torch.empty_like(x),
)
define("my_inplace(Tensor(a!) x, Tensor y) -> Tensor", _my_inplace, lambda x, y: torch.empty_like(x))

# --- writing ---


def _accumulate(x: Tensor, y: Tensor) -> None:
    """Reads ``y`` after the first write, so that aliasing of its arguments matters."""
    x.add_(1)
    x.add_(y.clone())


def _exchange(x: Tensor, y: Tensor) -> Tensor:
    """Writes both; what it does to overlapping arguments depends on the order."""
    x.mul_(2)
    y.add_(x.sum())
    return x + y


def _fill_all(xs: list[Tensor], value: float) -> None:
    for i, x in enumerate(xs):
        x.fill_(value + i)


def _write_some(x: Tensor | None, y: Tensor, ys: list[Tensor]) -> Tensor:
    for tensor in [*([] if x is None else [x]), *ys]:
        tensor.add_(y)
    return y.sum()


define("accumulate(Tensor(a!) x, Tensor y) -> ()", _accumulate, lambda x, y: None)
define("exchange(Tensor(a!) x, Tensor(b!) y) -> Tensor", _exchange, lambda x, y: torch.empty_like(x))
define("fill_all(Tensor(a!)[] xs, float value) -> ()", _fill_all, lambda xs, value: None)
define(
    "write_some(Tensor(a!)? x, Tensor y, Tensor(b!)[] ys) -> Tensor",
    _write_some,
    lambda x, y, ys: y.new_empty(()),
)

# --- results ---

define(
    "two(Tensor x) -> (Tensor, Tensor)",
    lambda x: (x + 1, x.sum(-1)),
    lambda x: (torch.empty_like(x), x.new_empty(x.shape[:-1])),
)
define(
    "pieces(Tensor x, int n) -> Tensor[]",
    lambda x, n: [x * i for i in range(n)],
    lambda x, n: [torch.empty_like(x) for _ in range(n)],
)
define(
    "mixed(Tensor x, int n) -> (Tensor, Tensor[], Tensor)",
    lambda x, n: (x + 1, [x * i for i in range(n)], x - 1),
    lambda x, n: (torch.empty_like(x), [torch.empty_like(x) for _ in range(n)], torch.empty_like(x)),
)


def _positive_fake(x: Tensor) -> Tensor:
    return x.new_empty(torch.library.get_ctx().new_dynamic_size())


define("positive(Tensor x) -> Tensor", lambda x: x[x > 0], _positive_fake)

# --- attributes ---


def _attributes(x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Encodes every attribute in the result."""
    values = [*args, *(kwargs[name] for name in sorted(kwargs))]
    code = sum(
        (i + 1) * (sum(map(float, v)) if isinstance(v, list) else len(v) if isinstance(v, str) else float(v or 0))
        for i, v in enumerate(values)
    )
    return x + code


define(
    "attributes(Tensor x, int i, float f, bool b, str s, int[] li, float[] lf, bool[] lb, *, int? oi=None, "
    "float d=1.5) -> Tensor",
    _attributes,
    lambda x, *args, **kwargs: torch.empty_like(x),
)
define(
    "placed(Tensor x, ScalarType dtype, *, Device? device=None) -> Tensor",
    lambda x, dtype, *, device=None: x.to(dtype, copy=True),
    lambda x, dtype, *, device=None: torch.empty_like(x, dtype=dtype),
)
define("scaled(Tensor x, Scalar factor) -> Tensor", lambda x, factor: x * factor, lambda x, factor: torch.empty_like(x))
define(
    "sized(Tensor x, SymInt n, SymInt[] sizes) -> Tensor",
    lambda x, n, sizes: x.new_full(sizes, n),
    lambda x, n, sizes: x.new_empty(sizes),
)
define(
    "gathered(Tensor?[] xs, Tensor[]? ys) -> Tensor",
    lambda xs, ys: sum((x for x in xs if x is not None), torch.zeros(2)).float() + len(ys or []),
    lambda xs, ys: torch.empty(2),
)
