"""PyTorch's operator database through GE mode with the reference engine, against eager.

By default the first sample of one dtype of every entry; with ``-m slow`` up to twenty samples of two dtypes. Run one
entry again: ``pytest tests/conformance/test_op_db.py -k "nn.functional.gelu"``.
"""

from __future__ import annotations

import pytest

from tests.conformance.op_db import ENTRIES, Outcome, dtypes_of, run_entry
from tests.conformance.op_db_rows import KNOWN_DIFFERENCES


def _judge(name: str, outcome: Outcome) -> None:
    if outcome.status in ("aot_eager fails", "eager fails", "no samples"):
        pytest.skip(f"{outcome.status}: {outcome.reason}")
    if name in KNOWN_DIFFERENCES:
        assert outcome.status != "pass", f"{name} agrees now; remove its row"
        pytest.xfail(KNOWN_DIFFERENCES[name])
    assert outcome.status == "pass", outcome.reason


@pytest.mark.parametrize("name", sorted(ENTRIES))
def test_agrees_with_eager(name: str) -> None:
    op = ENTRIES[name]
    dtypes = dtypes_of(op)
    if not dtypes:
        pytest.skip("PyTorch has no CPU kernel for it")
    _judge(name, run_entry(op, dtypes[0]))


@pytest.mark.slow
@pytest.mark.parametrize("which", [0, 1], ids=["first-dtype", "second-dtype"])
@pytest.mark.parametrize("name", sorted(ENTRIES))
def test_agrees_with_eager_on_more_samples(name: str, which: int) -> None:
    op = ENTRIES[name]
    dtypes = dtypes_of(op)
    if which >= len(dtypes):
        pytest.skip("no further dtype on the CPU")
    _judge(name, run_entry(op, dtypes[which], max_samples=20))


def test_database_is_the_one_that_rows_were_written_for() -> None:
    assert set(KNOWN_DIFFERENCES) <= set(ENTRIES)
