"""Hard programs, and the in-place variants of PyTorch's operators, through the pass, against eager."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.testing._internal.common_methods_invocations import op_db

from tests.frontend.reinplacing import Reinplaced, agreeing
from tests.pipeline.agreement import assert_agrees
from tests.pipeline.programs import PROGRAMS

CASES = [(name, dynamic) for name, program in PROGRAMS.items() for dynamic in program.dynamic]


@pytest.mark.parametrize(("name", "dynamic"), CASES)
def test_programs(name: str, dynamic: bool | None) -> None:
    program = PROGRAMS[name]
    reinplaced = Reinplaced(dynamic=dynamic, fullgraph=program.fullgraph)
    compiled = reinplaced.compile(program.function)
    for args in program.calls():
        with torch.inference_mode(program.inference_mode):
            assert_agrees(program.function, compiled, args, rtol=1e-5, atol=1e-6)


ENTRIES: list[Any] = op_db
VARIANTS = {f"{op.name}.{op.variant_test_name}".rstrip("."): op for op in ENTRIES if op.inplace_variant is not None}

#: Not about writing elements, or not traced by PyTorch.
LEFT_OUT = {
    **dict.fromkeys(("as_strided", "squeeze", "unsqueeze", "transpose", "t", "resize_", "resize_as_"), "changes sizes"),
    **dict.fromkeys(("bernoulli", "cauchy", "exponential", "geometric", "log_normal", "normal", "uniform"), "random"),
    **{f"nn.functional.{name}": "random" for name in ("dropout", "dropout2d", "dropout3d", "alpha_dropout", "rrelu")},
    "nn.functional.feature_alpha_dropout": "random",
    "polygamma": "PyTorch cannot functionalize its variant",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", [n for n, op in VARIANTS.items() if op.name not in LEFT_OUT])
def test_in_place_variants(name: str) -> None:
    op = VARIANTS[name]
    dtype = torch.float32 if op.supports_dtype(torch.float32, "cpu") else torch.int64
    if not op.supports_dtype(dtype, "cpu"):
        dtype = next(iter(op.supported_dtypes("cpu")))
    write = op.inplace_variant
    tried = 0
    for sample in op.sample_inputs("cpu", dtype):
        given = sample.input if isinstance(sample.input, torch.Tensor) else None
        if given is None or given.layout is not torch.strided or tried == 3:
            continue
        tensors: list[Any] = [a for a in sample.args if isinstance(a, torch.Tensor)]

        def program(x: torch.Tensor, *rest: torch.Tensor, sample: Any = sample) -> torch.Tensor:
            left = list(rest)
            args = [left.pop(0) if isinstance(a, torch.Tensor) else a for a in sample.args]
            write(x, *args, **sample.kwargs)
            return x.sum()

        if op(given, *sample.args, **sample.kwargs).shape != given.shape:
            continue
        base = torch.stack([given.detach()] * 3)
        try:
            program(base[1].clone(), *tensors)
        except RuntimeError:
            continue  # not every sample can be written in place
        tried += 1
        agreeing(program, [[given.detach().clone(), *tensors]])
        agreeing(lambda b, *rest: (program(b[1], *rest), b * 1), [[base.clone(), *tensors]])
