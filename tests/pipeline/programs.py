"""Programs that stress what a graph compiler gets wrong: mutation, aliasing, sizes, dtypes, odd arguments and results.

Each is a function and a list of argument lists; every argument list is one call.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

__all__ = ["PROGRAMS", "Program"]

Args = Sequence[Any]


@dataclass(frozen=True, slots=True)
class Program:
    """A function, and what to call it with.

    Attributes:
        calls: Makes the argument lists.
        dynamic: Values of ``torch.compile``'s ``dynamic`` to try.
        fullgraph: False where a graph break is part of the program.
    """

    function: Callable[..., Any]
    calls: Callable[[], list[Args]]
    dynamic: tuple[bool | None, ...] = (None, True)
    fullgraph: bool = True
    inference_mode: bool = field(default=False)


PROGRAMS: dict[str, Program] = {}


def _program(calls: Callable[[], list[Args]], **options: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        PROGRAMS[function.__name__] = Program(function, calls, **options)
        return function

    return register


def _one(*shape: int, dtype: torch.dtype = torch.float32) -> Callable[[], list[Args]]:
    """Three calls with one tensor each, the last of another size."""

    def make() -> list[Args]:
        sizes = [shape, shape, tuple(s + 1 for s in shape)]
        return [[torch.arange(math.prod(s)).reshape(s).to(dtype) + i] for i, s in enumerate(sizes)]

    return make


def _two(*shape: int) -> Callable[[], list[Args]]:
    def make() -> list[Args]:
        sizes = [shape, shape, tuple(s + 1 for s in shape)]
        return [[torch.arange(float(math.prod(s))).reshape(s) + i, torch.full(s, 2.0 + i)] for i, s in enumerate(sizes)]

    return make


# --- results ---


@_program(_one(3, 4))
def same_output_twice(x):
    y = x + 1
    return y, y


@_program(_one(3, 4))
def outputs_that_share_storage(x):
    y = x * 2
    return y, y.t(), y[1:], y.view(-1)


@_program(_one(3, 4))
def output_is_input(x):
    return x, x + 1


@_program(_one(3, 4))
def output_is_view_of_input(x):
    return x.t(), x[1:], x.view(-1), x.unsqueeze(0)


@_program(_one(3, 4))
def constant_outputs(x):
    return torch.ones(3), 7, None, "text", x * 2, True, 2.5


@_program(_one(3, 4))
def no_output(x):
    x.add_(1)


@_program(_one(3, 4))
def nothing_depends_on_the_input(x):
    return torch.arange(5) + 1


@_program(_one(3, 4))
def nested_output(x):
    return {"a": [x + 1, (x * 2,)], "b": x.shape[0]}


@_program(_one(3, 4))
def size_outputs(x):
    return x.shape[0] * 2 + 1, x.numel(), x.shape, x.sum()


@_program(_one(3, 4))
def transposed_output(x):
    return (x + 1).t(), (x * 2).t().contiguous(), (x.t() + 1)


# --- arguments ---


@_program(lambda: [[None, torch.ones(3)], [None, torch.zeros(3)]])
def none_argument(a, x):
    return x + 1 if a is None else a + x


@_program(lambda: [[[torch.ones(3), torch.arange(3.0)]], [[torch.zeros(3), torch.ones(3)]]])
def list_argument(xs):
    return torch.cat(xs), xs[0] + xs[1]


@_program(lambda: [[torch.arange(6.0), n, f, b] for n, f, b in ((2, 0.5, True), (3, 1.5, True), (4, -2.5, True))])
def python_scalars(x, n, f, b):
    y = x * f + n if b else x
    return y[:n], y.reshape(n if 6 % n == 0 else 6, -1), n + 1


@_program(lambda: [[torch.tensor(2.0)], [torch.tensor(3.0)]])
def zero_dimensional(x):
    return x * 2, x.expand(3), x.reshape(1), x + torch.ones(2)


@_program(lambda: [[torch.empty(0, 4)], [torch.empty(0, 4)], [torch.ones(2, 4)]])
def empty_tensors(x):
    return x + 1, x.sum(), x.sum(0), torch.cat([x, x]), x.t()


@_program(lambda: [[torch.arange(12.0).reshape(3, 4).t()], [torch.arange(12.0, 24.0).reshape(3, 4).t()]])
def non_contiguous_input(x):
    return x + 1, x.contiguous(), x.reshape(-1), x.sum(0)


@_program(lambda: [[torch.arange(3.0).expand(4, 3)], [torch.arange(3.0, 6.0).expand(4, 3)]])
def expanded_input(x):
    return x + 1, x.sum(0), x * torch.ones(4, 3), x.clone()


@_program(lambda: [[torch.arange(24.0)[2:14].reshape(3, 4)], [torch.arange(24.0)[5:17].reshape(3, 4)]])
def input_with_an_offset(x):
    return x * 2, x[1:].sum()


@_program(
    lambda: [[torch.ones(1, 3)], [torch.ones(1, 3)], [torch.ones(5, 3)], [torch.ones(2, 3)]], dynamic=(None, True)
)
def first_call_with_batch_one(x):
    return x @ torch.ones(3, 2), x.sum(1)


@_program(lambda: [[torch.ones(0, 3)], [torch.ones(5, 3)], [torch.ones(1, 3)]], dynamic=(None, True))
def first_call_with_batch_zero(x):
    return x @ torch.ones(3, 2), x.sum(1), x.mean(0)


# --- dtypes ---


@_program(lambda: [[torch.arange(5), torch.arange(5.0)], [torch.arange(5) - 2, torch.ones(5)]])
def mixed_dtypes(i, f):
    return i + f, i / 2, i // 2, i * 2.5, i > 1, f.to(torch.int32) + i, i.bool() & (f > 0)


@_program(_one(3, 4, dtype=torch.bfloat16))
def bfloat16_rounding(x):
    return x * 0.1 + 0.3, (x + 1) * 1.001, x / 3, torch.add(x, x, alpha=0.3)


@_program(_one(3, 4, dtype=torch.float16))
def float16_rounding(x):
    return x * 0.1 + 0.3, x / 3, x.sum(), torch.softmax(x, -1)


@_program(_one(3, 4, dtype=torch.float64))
def float64_stays(x):
    return x * 0.1, x.sin(), x + torch.tensor(0.1), x.mean()


@_program(_one(4, dtype=torch.complex64))
def complex_numbers(x):
    return x * (1 + 2j), x.abs(), torch.view_as_real(x), x.conj() + 1


@_program(
    lambda: [
        [torch.tensor([math.inf, -math.inf, math.nan, -0.0, 1.0])],
        [torch.tensor([0.0, -0.0, math.nan, 1.0, 2.0])],
    ]
)
def special_values(x):
    return (
        x + math.inf,
        x * -0.0,
        torch.where(x > 0, x, -math.inf),
        x.clamp(-1, 1),
        x == math.inf,
        torch.full_like(x, math.nan),
    )


@_program(lambda: [[torch.tensor([2**53 + 1, -(2**62), 3])], [torch.tensor([2**60, 5, -7])]])
def big_integers(x):
    return x + 1, x * 3, x // 7, x % 5, x + 2**40, x.sum()


@_program(lambda: [[torch.tensor([True, False, True])], [torch.tensor([False, False, True])]])
def booleans(x):
    return x & True, ~x, x.sum(), x + 1, x.any(), x.all(), torch.where(x, 1.0, 2)


@_program(lambda: [[torch.arange(4, dtype=torch.uint8)], [torch.arange(250, 254, dtype=torch.uint8)]])
def unsigned_wraps(x):
    return x + 10, x * 2, x - 5, ~x, x.sum()


# --- mutation ---


@_program(_two(3, 4))
def mutate_input(x, y):
    x.add_(y)
    return x * 2


@_program(_two(3, 4))
def mutate_twice_and_read_between(x, y):
    a = x.sum()
    x.add_(y)
    b = x.sum()
    x.mul_(2)
    return a, b, x.sum()


@_program(_two(3, 4))
def clone_then_write_the_source(x, y):
    c = x.clone()
    x.add_(y)
    return c, c + 1


@_program(_two(3, 4))
def write_the_clone(x, y):
    c = x.clone()
    c.add_(y)
    return c, x + 1


@_program(_two(3, 4))
def views_of_one_base(x, y):
    a, b = x[:2], x[1:]
    a.add_(1)
    b.mul_(2)
    return a + 0, b + 0, x.t().sum(0)


@_program(_two(3, 4))
def write_through_a_transpose(x, y):
    x.t()[1:].copy_(y.t()[1:])
    return x.sum(0)


@_program(_two(3, 4))
def copy_onto_itself(x, y):
    x.copy_(x)
    x[1:].copy_(x[1:])
    return x + y


@_program(_two(3, 4))
def swap_contents(x, y):
    t = x.clone()
    x.copy_(y)
    y.copy_(t)
    return x - y


@_program(_two(3, 4))
def return_the_mutated_input(x, y):
    x.add_(y)
    return x


@_program(_two(3, 4))
def return_a_view_of_the_mutated_input(x, y):
    x.add_(y)
    return x[1:], x.t()


@_program(lambda: [[(b := torch.arange(12.0))[:6], b[6:]], [(c := torch.arange(12.0, 24.0))[:6], c[6:]]])
def inputs_are_disjoint_views_of_one_base(x, y):
    x.add_(1)
    return x + y


@_program(lambda: [[(b := torch.arange(12.0))[:8], b[4:]], [(c := torch.arange(12.0, 24.0))[:8], c[4:]]])
def inputs_overlap(x, y):
    x.add_(10)
    return x + y, y * 2


@_program(lambda: [[(b := torch.arange(6.0)), b], [(c := torch.arange(6.0, 12.0)), c]])
def the_same_tensor_twice(x, y):
    x.add_(1)
    return x + y, y


@_program(lambda: [[torch.zeros(4, 3), torch.ones(3), i] for i in (0, 2, 3)], dynamic=(None, True))
def cache_slice(cache, x, i):
    cache[i] = x * (i + 1)
    cache[i : i + 1].add_(1)
    return cache.sum(0)


@_program(lambda: [[torch.zeros(2, 8, 3), torch.full((2, 1, 3), i + 1.0), torch.tensor([i])] for i in range(3)])
def cache_index_copy(cache, new, position):
    cache.index_copy_(1, position, new)
    return cache.sum(1)


@_program(
    lambda: [
        [torch.zeros(8, 3), torch.tensor([1, 5, 1]), torch.ones(3, 3)],
        [torch.ones(8, 3), torch.tensor([-1, 0, 0]), torch.ones(3, 3)],
    ]
)
def cache_index_put(cache, rows, new):
    cache.index_put_((rows,), new, accumulate=True)
    cache[rows] = new * 3
    return cache.sum()


@_program(_one(3, 4))
def mutate_then_break(x):
    x.add_(1)
    torch._dynamo.graph_break()
    return x * 2


PROGRAMS["mutate_then_break"] = Program(PROGRAMS["mutate_then_break"].function, _one(3, 4), fullgraph=False)


@_program(_two(3, 4), inference_mode=True)
def in_inference_mode(x, y):
    return x.add_(y), x * 2, y.t()


@_program(_one(3, 4))
def set_items_by_mask(x):
    x[x > 4] = 0
    return x.sum()


@_program(_one(4, 4))
def fill_diagonal(x):
    x.diagonal().fill_(9.0)
    x.unsqueeze(0)[..., 1:3].zero_()
    return x


@_program(lambda: [[torch.ones(5, 16) > 0], [torch.rand(5, 16) > 0.5]])
def index_by_known_numbers(mask):  # the numbers of arange are known while compiling, at any rank
    batch, position = torch.arange(5)[:, None, None, None], torch.arange(16)[None, None, None, :]
    return mask[batch, position], torch.arange(6).view(2, 3) + 1, mask.sum(1).view(5, 1) * torch.arange(3)


# --- random ---


@_program(_one(3, 4))
def random_numbers(x):
    return torch.rand_like(x) + torch.rand(1), torch.randn(3), torch.dropout(x, 0.5, True), torch.randperm(5)
