"""PyTorch's operator database through GE mode with the reference and native engines and through capture mode, without
and with native programs, against eager.

By default the first sample of one dtype of every entry (with native programs in captured graphs: of a few entries, as
the native engine runs the same programs); with ``-m slow`` up to twenty samples of two dtypes. Run one entry again:
``pytest tests/conformance/test_op_db.py -k "nn.functional.gelu"``.
"""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tests.conformance.op_db import CAPTURE, ENTRIES, STATIC, Outcome, dtypes_of, run_entry
from tests.conformance.op_db_rows import KNOWN_DIFFERENCES, LATER_DIFFERENCES, Row


def _judge(name: str, outcome: Outcome, rows: Mapping[str, Row]) -> None:
    if outcome.status in ("aot_eager fails", "eager fails", "no samples"):
        pytest.skip(f"{outcome.status}: {outcome.reason}")
    if (row := rows.get(name)) is not None:
        assert outcome.status != "pass", f"{name} agrees now; remove its row"
        assert row.what in outcome.reason, f"{name} differs in something else than its row says: {outcome.reason}"
        pytest.xfail(row.reason)
    assert outcome.status == "pass", outcome.reason


#: Each way to run a graph, and what is known to differ there: always, and with more samples.
WAYS: Mapping[str, tuple[Mapping[str, Row], Mapping[str, Row]]] = {
    "reference": (KNOWN_DIFFERENCES, {**KNOWN_DIFFERENCES, **LATER_DIFFERENCES}),
    "native": ({}, LATER_DIFFERENCES),
    CAPTURE: ({}, {}),
    STATIC: ({}, {}),
}

#: What differs between the two ways in which native programs run: writes, views, indices, random numbers, calls between
#: programs, several results.
STATIC_BY_DEFAULT = (
    "addmm", "cat", "nn.functional.dropout", "nn.functional.embedding", "nn.functional.gelu",
    "nn.functional.layer_norm", "index_put", "softmax", "sort", "split", "std_mean", "svd", "transpose",
)  # fmt: skip
BY_DEFAULT = [(name, way) for name in sorted(ENTRIES) for way in WAYS if way != STATIC or name in STATIC_BY_DEFAULT]


@pytest.mark.parametrize(("name", "way"), BY_DEFAULT)
def test_agrees_with_eager(name: str, way: str) -> None:
    op = ENTRIES[name]
    dtypes = dtypes_of(op)
    if not dtypes:
        pytest.skip("PyTorch has no CPU kernel for it")
    _judge(name, run_entry(op, dtypes[0], engine=way), WAYS[way][0])


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("which", [0, 1], ids=["first-dtype", "second-dtype"])
@pytest.mark.parametrize("name", sorted(ENTRIES))
def test_agrees_with_eager_on_more_samples(name: str, which: int, way: str) -> None:
    op = ENTRIES[name]
    dtypes = dtypes_of(op)
    if which >= len(dtypes):
        pytest.skip("no further dtype on the CPU")
    _judge(name, run_entry(op, dtypes[which], engine=way, max_samples=20), WAYS[way][1])


def test_database_is_the_one_that_rows_were_written_for() -> None:
    assert {*KNOWN_DIFFERENCES, *LATER_DIFFERENCES} <= set(ENTRIES)
    assert not KNOWN_DIFFERENCES.keys() & LATER_DIFFERENCES.keys()
    assert set(STATIC_BY_DEFAULT) <= set(ENTRIES)


def test_a_row_is_about_one_difference() -> None:
    rows = {"abs": Row("strides", "a reason")}
    with pytest.raises(pytest.xfail.Exception, match="a reason"):
        _judge("abs", Outcome("fail", "AssertionError: result: strides (1,) instead of (2,)"), rows)
    with pytest.raises(AssertionError, match="something else"):
        _judge("abs", Outcome("fail", "AssertionError: result: wrong values"), rows)
    with pytest.raises(AssertionError, match="remove its row"):
        _judge("abs", Outcome("pass"), rows)
    with pytest.raises(AssertionError, match="wrong values"):
        _judge("add", Outcome("fail", "wrong values"), rows)
