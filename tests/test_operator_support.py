"""The support table: how many core ATen overloads become exportable Ascend IR, and whether the page says so."""

from __future__ import annotations

import pytest
from scripts.core_samples import core_overloads
from scripts.operator_support import PAGE, Support, minor_version, page, survey

from torchair.convert.unsupported import UNSUPPORTED


@pytest.fixture(scope="module")
def rows() -> list[Support]:
    return list(survey())


def test_enough_core_overloads_become_ascend_ir(rows: list[Support]) -> None:
    done = [row for row in rows if not row.reason]
    assert len(done) >= 160, [row for row in rows if row.reason]


def test_page_is_up_to_date(rows: list[Support]) -> None:
    text = PAGE.read_text()
    if f"PyTorch {minor_version()} " not in text:
        pytest.skip("the page is of another version of torch")
    assert text == page(rows), "run python -m scripts.operator_support"


def test_every_missing_overload_has_a_reason_of_its_own(rows: list[Support]) -> None:
    missing = {row.name: row.reason for row in rows if row.reason}
    vague = ("no converter is registered", "has no sample of it", "Error: ")
    assert not [name for name, why in missing.items() if any(words in why for words in vague)]
    assert {name for name in UNSUPPORTED if name in {str(op) for op in core_overloads()}} - set(missing) <= {
        "aten._native_batch_norm_legit.default"  # replaced by its functional form, which has a converter
    }
