"""Settings for every test: threads, hypothesis profiles, and a clean Dynamo after each test that compiled."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import Any

_IN_WORKER = "PYTEST_XDIST_WORKER" in os.environ
if _IN_WORKER:
    # Several test processes share the cores. OpenMP and Inductor read these when torch is first imported.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")

import hypothesis
import pytest
import torch

if _IN_WORKER:
    torch.set_num_threads(1)

# Compiling in a test body takes longer than any deadline that would find something.
hypothesis.settings.register_profile("dev", deadline=None)
hypothesis.settings.register_profile("ci", deadline=None, derandomize=True, database=None, print_blob=True)
hypothesis.settings.load_profile("ci" if os.environ.get("CI") else "dev")


@pytest.fixture(autouse=True)
def _fresh_dynamo() -> Iterator[None]:
    """Drop what a test compiled, so that no test depends on what ran before it in the same process."""
    yield
    if "torch._dynamo" in sys.modules:
        torch.compiler.reset()


@pytest.fixture(scope="session")
def support() -> Any:
    """What native code is compiled with; tests that need it are skipped where there is no C++ compiler."""
    from torchair.errors import Rejection
    from torchair.native.support import load_support

    loaded = load_support()
    if isinstance(loaded, Rejection):
        pytest.skip(loaded.reason)
    return loaded
