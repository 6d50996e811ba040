"""PyTorch's operator database through capture mode, three calls each, against eager.

By default the first sample of one dtype of every entry; with ``-m slow`` up to twenty samples of two dtypes.
"""

from __future__ import annotations

import pytest

from tests.conformance.op_db import CAPTURE, ENTRIES, Outcome, dtypes_of, run_entry


def _judge(outcome: Outcome) -> None:
    if outcome.status in ("aot_eager fails", "eager fails", "no samples"):
        pytest.skip(f"{outcome.status}: {outcome.reason}")
    assert outcome.status == "pass", outcome.reason


@pytest.mark.parametrize("name", sorted(ENTRIES))
def test_agrees_with_eager(name: str) -> None:
    op = ENTRIES[name]
    dtypes = dtypes_of(op)
    if not dtypes:
        pytest.skip("PyTorch has no CPU kernel for it")
    _judge(run_entry(op, dtypes[0], engine=CAPTURE))


@pytest.mark.slow
@pytest.mark.parametrize("which", [0, 1], ids=["first-dtype", "second-dtype"])
@pytest.mark.parametrize("name", sorted(ENTRIES))
def test_agrees_with_eager_on_more_samples(name: str, which: int) -> None:
    op = ENTRIES[name]
    dtypes = dtypes_of(op)
    if which >= len(dtypes):
        pytest.skip("no further dtype on the CPU")
    _judge(run_entry(op, dtypes[which], engine=CAPTURE, max_samples=20))
