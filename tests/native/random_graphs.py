"""Random graphs of what native code fuses: element-by-element operators, views, reductions, joins, indexing, products
of few rows, attention of few queries, and writes to arguments and to views of them."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable
from dataclasses import dataclass

import torch

__all__ = ["Case", "random_case"]

FLOATS = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
SIZES = (0, 1, 1, 2, 3, 5, 7, 16, 17, 33, 64, 65)
#: Rows that are read in several streams, in several blocks, or ahead.
LONG = (257, 300, 1030, 2100)


@dataclass(frozen=True)
class Case:
    """A function of tensors, and arguments for it."""

    seed: int
    function: Callable[..., tuple[torch.Tensor, ...]]
    arguments: tuple[torch.Tensor, ...]

    def fresh(self) -> list[torch.Tensor]:
        """Arguments for a run: copies in the same strides; those that overlap, which nothing writes, as they are."""
        return [t if _overlaps(t) else torch.empty_strided(t.shape, t.stride(), dtype=t.dtype).copy_(t)
                for t in self.arguments]  # fmt: skip


def _overlaps(tensor: torch.Tensor) -> bool:
    return any(stride == 0 and size > 1 for size, stride in zip(tensor.shape, tensor.stride(), strict=True))


def random_case(seed: int, *, writes: bool = False, quotients: bool = False) -> Case:
    """The case of a seed.

    Args:
        writes: It may write its arguments.
        quotients: It has views whose sizes are quotients of those of the arguments: for sizes that are symbols.
    """
    rng = random.Random(seed)
    shape = _shape(rng)
    count = rng.randint(1, 4)
    torch.manual_seed(seed)
    arguments = [_argument(rng, shape) for _ in range(count)]
    # An index into the first axis, in range.
    if shape and shape[0]:
        arguments.append(torch.randint(-shape[0], shape[0], (rng.choice((1, 3, 8)),)))
    else:
        arguments.append(torch.zeros(0, dtype=torch.int64))
    steps = [rng.getrandbits(32) for _ in range(rng.randint(1, 14))]
    returned = rng.randint(1, 3)

    def function(*tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        *values, index = tensors
        given = list(values)
        for step in steps:
            rng = random.Random(step)
            if writes and rng.random() < 0.35:
                _write(rng, rng.choice(given), values, index)
            if quotients and rng.random() < 0.3:
                values.append(_quotient(rng, values[-1]))
            else:
                values.append(_step(rng, values, index))
        return tuple(values[-returned:])

    return Case(seed, function, tuple(arguments))


def _shape(rng: random.Random) -> list[int]:
    shape = [rng.choice(SIZES) for _ in range(rng.choice((0, 1, 1, 2, 2, 2, 3, 3, 4)))]
    if shape and rng.random() < 0.1:
        shape[-1] = rng.choice(LONG)
    return shape


def _argument(rng: random.Random, shape: list[int]) -> torch.Tensor:
    """A tensor that broadcasts with the shape, in any layout."""
    own = [1 if rng.random() < 0.15 else s for s in shape][rng.choice((0, 0, 0, 1)) :]
    dtype = rng.choice((torch.float32, torch.float32, torch.float32, *FLOATS, *INTEGERS, torch.bool))
    layout = rng.choice(("plain", "plain", "permuted", "sliced", "expanded"))
    order = list(range(len(own)))
    if layout == "permuted":
        rng.shuffle(order)
    sizes = [own[d] for d in order]
    if layout == "sliced" and sizes:
        sizes[-1] = sizes[-1] * 2 + 1
    if layout == "expanded" and sizes:
        sizes[0] = 1
    if dtype is torch.bool:
        base = torch.rand(sizes) < 0.5
    elif dtype.is_floating_point:
        base = (torch.randn(sizes) * rng.choice((0.5, 2.0))).to(dtype)
    else:
        base = torch.randint(0 if dtype is torch.uint8 else -5, 6, sizes).to(dtype)
    if layout == "sliced" and sizes:
        base = base[..., 1::2]
    if layout == "expanded" and sizes:
        base = base.expand([own[d] for d in order])
    return base.permute([order.index(d) for d in range(len(own))]) if own else base


def _step(rng: random.Random, values: list[torch.Tensor], index: torch.Tensor) -> torch.Tensor:
    x = values[-1] if rng.random() < 0.6 else rng.choice(values)
    y = rng.choice(values)
    kind = rng.choice(
        ("unary", "unary", "binary", "binary", "binary", "view", "reduce", "normalize", "other", "product")
    )
    try:
        if kind == "unary":
            return _unary(rng, x)
        if kind == "binary":
            return _binary(rng, x, y)
        if kind == "view":
            return _view(rng, x)
        if kind == "reduce":
            return _reduce(rng, x)
        if kind == "normalize":
            return _normalize(rng, x)
        if kind == "product":
            return _product(rng, x, y)
        return _other(rng, x, y, index)
    except (RuntimeError, IndexError, ValueError, TypeError, NotImplementedError):
        # Shapes that do not fit, dtypes that an operator does not take.
        return x + 1 if x.dtype is not torch.bool else ~x


def _unary(rng: random.Random, x: torch.Tensor) -> torch.Tensor:
    if x.dtype is torch.bool:
        return rng.choice((torch.logical_not, lambda t: t.to(torch.float32), lambda t: t.to(torch.int64)))(x)
    if not x.dtype.is_floating_point:
        return rng.choice(
            (torch.neg, torch.abs, torch.sign, lambda t: t.to(torch.float32), lambda t: t * 3, lambda t: t > 1)
        )(x)
    return rng.choice(
        (
            torch.exp, torch.tanh, torch.sigmoid, torch.relu, torch.neg, torch.abs, torch.sin, torch.cos, torch.erf,
            torch.floor, torch.round, torch.trunc, torch.sign, torch.isnan, torch.square,
            lambda t: torch.rsqrt(t.abs() + 0.5), lambda t: torch.log1p(t.abs()), lambda t: torch.sqrt(t.abs()),
            lambda t: torch.clamp(t, -1, 1.5), lambda t: t.to(torch.bfloat16), lambda t: t.to(torch.float32),
            lambda t: t.to(torch.float64), lambda t: t * 1.7 - 0.3, lambda t: t > 0.37, torch.nn.functional.gelu,
            torch.nn.functional.silu, lambda t: t**2, lambda t: t**3, lambda t: (t.abs() + 0.1) ** 0.7,
        )
    )(x)  # fmt: skip


def _binary(rng: random.Random, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    if x.dtype.is_floating_point and y.dtype.is_floating_point and rng.random() < 0.1:
        return torch.atan2(x, y)
    if not x.dtype.is_floating_point and not y.dtype.is_floating_point and rng.random() < 0.1:
        return x ^ y
    return rng.choice(
        (
            torch.add, torch.mul, torch.sub, torch.maximum, torch.minimum, torch.eq, torch.lt, torch.ge,
            torch.logical_and, lambda a, b: torch.where(a > 0.37, a, b), lambda a, b: a / (b.abs() + 1),
            lambda a, b: torch.add(a, b, alpha=2), lambda a, b: a + b * 0.5, torch.fmax,
        )
    )(x, y)  # fmt: skip


def _view(rng: random.Random, x: torch.Tensor) -> torch.Tensor:
    dims = list(range(x.dim()))
    rng.shuffle(dims)
    last = x.shape[-1] if x.dim() else 0
    return rng.choice(
        (
            lambda: x.permute(dims),
            lambda: x.reshape(-1),
            lambda: x.reshape(*x.shape[:-1], last // 2, 2) if last and last % 2 == 0 else x.unsqueeze(0),
            lambda: x.unsqueeze(rng.randint(0, x.dim())),
            lambda: x.squeeze(),
            lambda: x[..., 1:],
            lambda: x[..., ::2],
            lambda: x.select(rng.randrange(x.dim()), 0),
            lambda: x.unsqueeze(0).expand(3, *x.shape),
            lambda: x.flip(rng.randrange(x.dim())),
            lambda: x.flatten(0, 1),
            lambda: x.chunk(2, -1)[0],
            lambda: x.transpose(0, -1).contiguous(),
        )
    )()


def _quotient(rng: random.Random, x: torch.Tensor) -> torch.Tensor:
    """A view, or a part of it, with sizes that are quotients, remainders and products of them."""
    x = x.reshape(-1, 1) if x.dim() < 2 else x
    flat, last, step = x.reshape(-1), x.shape[-1], rng.choice((2, 3, 4))
    kinds: tuple[Callable[[], torch.Tensor], ...] = (
        lambda: flat[::step],
        lambda: flat[1::step].flip(0),
        lambda: x[..., rng.randint(0, 2) :: step],
        lambda: flat[: flat.shape[0] // 6 * 6].view(2, 3, -1),
        lambda: flat[: flat.shape[0] // step * step].view(-1, step),
        lambda: flat[::2][: flat.shape[0] // 4 * 2].view(-1, 2).t(),
        lambda: x[..., : last // step],
        lambda: x[..., last // step :],
        lambda: x[: x.shape[0] // 2].unsqueeze(0).expand(step, *([-1] * x.dim())),
        lambda: x.chunk(step, -1)[-1],
        lambda: torch.nn.functional.pad(x, (0, -last % step)).unflatten(-1, (-1, step)),
        lambda: x.unfold(-1, step, 2),
        lambda: torch.cat([x[..., last // 2 :], x[..., : last // 2]], -1),
        lambda: x[:, : last // step] + x[:, last - last // step :],
    )
    return rng.choice(kinds)()


def _reduce(rng: random.Random, x: torch.Tensor) -> torch.Tensor:
    dim = rng.sample(range(x.dim()), rng.randint(1, x.dim())) if x.dim() else []
    keep = rng.random() < 0.5
    one = dim[0] if dim else 0
    return rng.choice(
        (
            lambda: x.sum(dim, keepdim=keep),
            lambda: x.float().mean(dim, keepdim=keep),
            lambda: x.amax(dim, keepdim=keep),
            lambda: x.amin(dim, keepdim=keep),
            lambda: (x != 0).any(one, keepdim=keep),
            lambda: (x != 0).all(one, keepdim=keep),
            lambda: x.argmax(one, keepdim=keep),
            lambda: x.float().argmin(one, keepdim=keep),
            lambda: x.argmax(),
            lambda: x.max(one, keepdim=keep).indices,
            lambda: x.sum(),
            lambda: x.float().var(dim, keepdim=keep, correction=0),
            lambda: x.max(one, keepdim=keep).values,
            lambda: x.float().prod(one, keepdim=keep),
        )
    )()


def _normalize(rng: random.Random, x: torch.Tensor) -> torch.Tensor:
    x = x.float()
    return rng.choice(
        (
            lambda: torch.softmax(x, rng.randrange(x.dim())),
            lambda: torch.log_softmax(x, -1),
            lambda: torch.nn.functional.layer_norm(x, x.shape[-1:]),
            lambda: x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5),
            lambda: x - x.mean(0, keepdim=True),
            lambda: x / (x.abs().sum(-1, keepdim=True) + 1),
        )
    )()


def _other(rng: random.Random, x: torch.Tensor, y: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    return rng.choice(
        (
            lambda: torch.cat([x, y], 0),
            lambda: torch.cat([x, x * 2, x + 1], -1),
            lambda: torch.nn.functional.pad(x, (1, 2)),
            lambda: torch.nn.functional.pad(x, (-1, 1, 0, 2), value=3),
            lambda: x[index],
            lambda: torch.index_select(x, 0, index.abs() % x.shape[0]),
            lambda: torch.stack([x, x + 1], rng.randint(0, x.dim())),
            lambda: torch.arange(x.shape[-1]) + x,
            lambda: torch.tril(x.reshape(x.shape[0], -1)),
            lambda: torch.slice_scatter(x, x[..., 1:] * 0 + 1, -1, 1),
            lambda: x.clone().index_fill(0, index.abs() % x.shape[0], 2),
            lambda: torch.full_like(x, 2) * x,
            lambda: torch.nn.functional.linear(x.float(), torch.ones(5, x.shape[-1])),
            lambda: torch.roll(x, 1, -1),
        )
    )()


def _product(rng: random.Random, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    dtype = rng.choice(FLOATS)
    rows = x.reshape(-1, x.shape[-1]).tanh()[: rng.randint(1, 9)].to(dtype)
    width, columns = rows.shape[-1], rng.choice((1, 3, 8, 33))
    weight = (torch.arange(width * columns).remainder(13).sub(6) / 7).to(dtype)
    plain, turned = weight.view(width, columns), weight.view(columns, width).t()
    bias = torch.arange(columns).to(dtype)
    keys = weight.view(1, 1, columns, width).expand(1, 2, columns, width)
    return rng.choice(
        (
            lambda: rows @ plain,
            lambda: rows @ turned,
            lambda: torch.addmm(bias, rows, turned),
            lambda: torch.relu(torch.addmm(bias, rows, plain)) * 2,
            lambda: rows.t().contiguous().t() @ plain,
            lambda: rows @ (plain + y.reshape(-1)[:1].to(dtype)),
            lambda: torch.nn.functional.silu(rows @ plain) * (rows @ turned),
            lambda: torch.nn.functional.scaled_dot_product_attention(
                rows.expand(1, 2, *rows.shape), keys, keys * 0.5, is_causal=rng.random() < 0.3
            ),
            lambda: torch.nn.functional.scaled_dot_product_attention(
                rows.expand(1, 2, *rows.shape),
                keys,
                keys,
                attn_mask=torch.ones(rows.shape[0], columns, dtype=rows.dtype).tril().log(),
            ),
        )
    )()


def _write(rng: random.Random, target: torch.Tensor, values: list[torch.Tensor], index: torch.Tensor) -> None:
    """Write an argument, or a view of it."""
    if _overlaps(target):
        return
    value = rng.choice(values)
    new = value if value.dtype == target.dtype else value.to(target.dtype)
    small = index.abs() % max(target.shape[0], 1) if target.dim() else index
    kinds: list[Callable[[], object]] = [
        lambda: target.copy_(value),
        lambda: target.add_(new),
        lambda: target.mul_(2),
        lambda: target.zero_(),
        lambda: target[..., 1:].copy_(new[..., 1:]),
        lambda: target[..., 1:].copy_(target[..., :-1].clone()),
        lambda: target.select(0, -1).copy_(new.select(0, 0)),
        lambda: target.transpose(0, -1).copy_(new.transpose(0, -1)),
        lambda: target.copy_(target.flip(0)),
        lambda: target.index_put_((small[:1],), new[:1]),
        lambda: target.index_put_((small,), target[:1] * 0 + 1, accumulate=True),
        lambda: target.index_fill_(0, small, 1),
        lambda: target.scatter_(-1, torch.zeros_like(target[..., :1], dtype=torch.int64), 3),
        lambda: target.index_copy_(0, small[:1], new[:1]),
        lambda: target.masked_fill_(target > 0, 1),
        lambda: target.clamp_(-1, 1),
    ]
    # Shapes that do not fit, dtypes that an operator does not take: nothing is written.
    with contextlib.suppress(RuntimeError, IndexError, ValueError, TypeError, NotImplementedError):
        rng.choice(kinds)()
