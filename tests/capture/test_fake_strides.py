"""Results that a plan places lie as their fake tensors say: whether fake kernels give the strides of the real ones.

A plan takes strides from fake tensors for the results of operators that can write into given memory. Every such
operator that PyTorch's operator database calls is run with several layouts of its arguments.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import DynamicOutputShapeException, FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only

from tests.conformance.op_db import ENTRIES, dtypes_of
from torchair.capture.operators import COPIES, cpu_out_variant, has_unreliable_strides


class _Compare(TorchDispatchMode):
    """Runs each operator that a plan could place on fake tensors too."""

    def __init__(self) -> None:
        super().__init__()
        self.compared = 0
        self.different: dict[str, str] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        if self._is_placed(func):
            mode = FakeTensorMode()
            fake_args, fake_kwargs = tree_map_only(torch.Tensor, mode.from_tensor, (args, kwargs))
            try:
                with mode:
                    fake = func(*fake_args, **fake_kwargs)
            except (DynamicOutputShapeException, NotImplementedError):
                return result  # a plan does not place it
            self.compared += 1
            for real, told in zip(tree_leaves(result), tree_leaves(fake), strict=True):
                if isinstance(real, torch.Tensor) and _layout(real) != _layout(told):
                    self.different[str(func)] = f"{_layout(told)}, not {_layout(real)}, of {_shown((args, kwargs))}"
        return result

    @staticmethod
    def _is_placed(func: Any) -> bool:
        if func.namespace != "aten" or func._schema.is_mutable or torch.Tag.nondeterministic_seeded in func.tags:
            return False
        return func._schema.name in COPIES or (cpu_out_variant(func) is not None and not has_unreliable_strides(func))


def _layout(tensor: torch.Tensor) -> Any:
    if tensor.layout is not torch.strided:
        return None
    pairs = zip(tensor.stride(), tensor.shape, strict=True)
    return tensor.dtype, tuple(tensor.shape), [s for s, n in pairs if n > 1] if tensor.numel() else []


def _shown(args: Any) -> str:
    return str([(tuple(t.shape), t.stride()) for t in tree_leaves(args) if isinstance(t, torch.Tensor)])


def _layouts() -> Iterator[Callable[[torch.Tensor], torch.Tensor]]:
    """Functions that give a matrix (or more) the same values in another layout."""

    def permuted(order: Callable[[int], list[int]]) -> Callable[[torch.Tensor], torch.Tensor]:
        def change(t: torch.Tensor) -> torch.Tensor:
            if t.layout is not torch.strided or t.dim() < 2:
                return t
            there = order(t.dim())
            back = [there.index(d) for d in range(t.dim())]
            return t.permute(there).contiguous().permute(back)

        return change

    def gaps(t: torch.Tensor) -> torch.Tensor:
        if t.layout is not torch.strided or t.dim() < 1:
            return t
        wide = torch.zeros(*t.shape[:-1], t.shape[-1] * 2, dtype=t.dtype)
        wide[..., ::2] = t
        return wide[..., ::2]

    def expanded(t: torch.Tensor) -> torch.Tensor:
        return t if t.layout is not torch.strided or t.dim() < 2 else t[:1].expand_as(t)

    yield lambda t: t
    yield permuted(lambda n: [*range(n - 2), n - 1, n - 2])
    yield permuted(lambda n: [*reversed(range(n))])
    yield permuted(lambda n: [0, *range(2, n), 1])  # channels last
    yield permuted(lambda n: [1, 0, *range(2, n)])
    yield gaps
    yield expanded


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(ENTRIES))
def test_fake_strides_are_the_real_ones(name: str) -> None:
    op = ENTRIES[name]
    dtypes = dtypes_of(op)
    if not dtypes:
        pytest.skip("PyTorch has no CPU kernel for it")
    compare = _Compare()
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        samples = list(itertools.islice(op.sample_inputs("cpu", dtypes[0], requires_grad=False), 6))
        for sample, layout, everywhere in itertools.product(samples, _layouts(), (False, True)):
            first = tree_map_only(torch.Tensor, layout, sample.input)
            rest = tree_map_only(torch.Tensor, layout, (sample.args, sample.kwargs)) if everywhere else None
            args, kwargs = rest or (sample.args, sample.kwargs)
            try:
                op.op(first, *args, **kwargs)
            except (RuntimeError, IndexError, ValueError, TypeError, AssertionError):
                continue  # not a layout for this operator
            with compare:
                op.op(first, *args, **kwargs)
    assert not compare.different
