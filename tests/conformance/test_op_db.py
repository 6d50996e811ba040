"""PyTorch's operator database through GE mode with the reference and native engines and through capture mode, without
and with native programs, against eager.

By default the first sample of one dtype of every entry (with native programs in captured graphs: of a few entries, as
the native engine runs the same programs); with ``-m slow`` up to twenty samples of two dtypes. Run one entry again:
``pytest tests/conformance/test_op_db.py -k "nn.functional.gelu"``.
"""

from __future__ import annotations

from collections.abc import Mapping

import pytest
import torch

from tests.conformance.op_db import CAPTURE, ENTRIES, STATIC, Outcome, dtypes_of, no_farther, other_values, run_entry
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


def test_capture_mode_meets_other_values() -> None:
    op = ENTRIES["nn.functional.linear"]
    sample = next(iter(op.sample_inputs("cpu", torch.float32)))
    found = other_values(op, sample)
    assert found is not None
    other, (result, (args, _)) = found
    torch.testing.assert_close(other.input, sample.input * 0.75)
    torch.testing.assert_close(args[1], sample.args[0] * 0.75)
    torch.testing.assert_close(result, op.op(other.input, *other.args, **other.kwargs))


def test_nearer_than_eager_is_not_wrong() -> None:
    torch.manual_seed(0)
    exact = torch.randn(1000, dtype=torch.float64) * 10
    nearest = exact.to(torch.bfloat16)
    eager = (exact * (1 + 0.02 * torch.randn(1000))).to(torch.bfloat16)
    assert no_farther(nearest, eager, exact)
    assert no_farther(nearest, torch.zeros_like(nearest), exact)  # eager is far off, and this is right
    nearly = (exact * (1 + 0.01 * torch.randn(1000))).to(torch.bfloat16)
    slightly = (exact * (1 + 0.005 * torch.randn(1000))).to(torch.bfloat16)
    assert no_farther(slightly, nearly, exact)
    assert not no_farther(nearly, slightly, exact)
    assert not no_farther(nearest[torch.randperm(1000)], nearly, exact)
    one_wrong = nearest.clone()
    one_wrong[7] += 1
    assert not no_farther(one_wrong, nearly, exact)
    other = torch.randn(2, 1000).to(torch.bfloat16) * 10  # random numbers, two runs
    assert not no_farther(other[0], other[1], exact)
    assert not no_farther(nearest, eager, exact[:500])
    assert not no_farther(nearest, eager, exact.to(torch.complex128))
