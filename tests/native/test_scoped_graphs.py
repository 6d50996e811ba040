"""Random graphs whose nodes are in random scopes: programs agree with the operators that they replace."""

from __future__ import annotations

import logging
import random
from collections.abc import Iterator

import pytest
import torch
from torch import fx

from tests.native.graphs import assert_close, least_precision, native, traced
from tests.native.random_graphs import Case, random_case
from torchair import _torch_compat
from torchair.frontend.reinplace import reinplace
from torchair.native import PartitionRecord
from torchair.native.program import compile_programs
from torchair.native.scopes import mark

pytestmark = pytest.mark.usefixtures("support")

_SCOPES: list[dict[str, str | bool]] = [
    {},
    {"_op_aicore_num": "1", "_op_vectorcore_num": "1"},
    {"_super_kernel_scope": "a"},
    {"_super_kernel_scope": "b", "_op_aicore_num": "1", "_op_vectorcore_num": "1"},
    {"_super_kernel_scope": "c", "_super_kernel_options": "strict-scope-check=bypass"},
]


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.disable(logging.ERROR)
    yield
    logging.disable(logging.NOTSET)


def _prepared(
    seed: int, *, writes: bool
) -> tuple[Case, list[torch.Tensor], torch.dtype, fx.GraphModule, PartitionRecord] | None:
    case = random_case(seed, writes=writes)
    try:
        gm = traced(case.function, case.fresh())
        arguments = case.fresh()
        results = gm(*arguments)
    except Exception:  # noqa: BLE001 (whatever PyTorch says about a graph that was made at random)
        return None
    precision = least_precision(gm)
    if writes:
        with _torch_compat.no_dispatch_modes():
            reinplace(gm, intermediates=True, inputs=True)
    rng, scope = random.Random(seed), _SCOPES[0]
    for node in gm.graph.nodes:
        if rng.random() < 0.4:
            scope = rng.choice(_SCOPES)
        if node.op == "call_function" and scope:
            mark([node], node.name, scope)
    module, record = native(gm)
    return case, [*results, *arguments], precision, module, record


@pytest.mark.parametrize("writes", [False, True])
def test_programs_of_scopes_agree_with_operators(writes: bool) -> None:
    ready = [r for seed in range(300, 340) if (r := _prepared(seed, writes=writes)) is not None]
    compile_programs([p for *_, record in ready for p in record.programs])
    for case, want, precision, module, _ in ready:
        arguments = case.fresh()
        try:
            assert_close([*module(*arguments), *arguments], want, precision=precision)
        except Exception as e:
            raise AssertionError(f"seed {case.seed}: {e}\n{module.code}") from e
    assert sum(len(record.super_kernels) > 1 for *_, record in ready) > 10
