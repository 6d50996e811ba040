"""Hard programs through GE mode on every engine, call after call with fresh values, against eager."""

from __future__ import annotations

import pytest
import torch

from tests.conformance.op_db import backend
from tests.pipeline.agreement import assert_agrees
from tests.pipeline.programs import PROGRAMS

CASES = [(name, dynamic) for name, program in PROGRAMS.items() for dynamic in program.dynamic]


def _run(name: str, dynamic: bool | None, engine: str) -> None:
    program = PROGRAMS[name]
    compiled = torch.compile(program.function, backend=backend(engine), fullgraph=program.fullgraph, dynamic=dynamic)
    for args in program.calls():
        with torch.inference_mode(program.inference_mode):
            assert_agrees(program.function, compiled, args, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("name", "dynamic"), CASES)
def test_reference_engine(name: str, dynamic: bool | None) -> None:
    _run(name, dynamic, "reference")
