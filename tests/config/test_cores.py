"""How many cores there are, and limits of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from torchair.config import CoreCounts, core_counts, core_limit
from torchair.errors import ArgumentError, ConfigFileNotFoundError, ConfigValueError


@pytest.fixture
def describe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def write(text: str) -> Path:
        path = tmp_path / "platform.ini"
        path.write_text(text)
        monkeypatch.setenv("TORCHAIR_PLATFORM_CONFIG", str(path))
        return path

    return write


def test_the_machine_has_as_many_of_both_kinds(monkeypatch) -> None:
    monkeypatch.delenv("TORCHAIR_PLATFORM_CONFIG", raising=False)
    counts = core_counts()
    assert counts.cube == counts.vector >= 1


def test_a_description_says_how_many(describe) -> None:
    describe("[Version]\nx=1\n[SoCInfo]\nai_core_cnt=24\ncube_core_cnt=24\nvector_core_cnt=48\n")
    assert core_counts() == CoreCounts(24, 48)


def test_without_separate_vector_cores(describe) -> None:
    describe("[SoCInfo]\nai_core_cnt = 8\n")
    counts = core_counts()
    assert counts == CoreCounts(8, 0)
    assert counts.for_vector == counts.for_mixed == 8
    assert core_limit({"_op_aicore_num": "3", "_op_vectorcore_num": "0"}) == CoreCounts(3, 0)
    with pytest.raises(ArgumentError, match="op_vectorcore_num=2; here it is 0"):
        core_limit({"_op_aicore_num": "3", "_op_vectorcore_num": "2"})


def test_limits_of_the_process_are_clipped(describe) -> None:
    describe("[SoCInfo]\ncube_core_cnt=20\nvector_core_cnt=40\n")
    assert core_counts().clipped(24, 100) == CoreCounts(20, 40)
    assert core_counts().clipped(3, None) == CoreCounts(3, 40)
    assert core_counts().clipped(0, 0) == CoreCounts(1, 1)


def test_limits_of_operators_are_not(describe) -> None:
    describe("[SoCInfo]\ncube_core_cnt=20\nvector_core_cnt=40\n")
    assert core_limit({"_op_aicore_num": "20", "_op_vectorcore_num": "40"}) == CoreCounts(20, 40)
    assert core_limit({"_user_stream_label": "a"}) is None
    assert core_limit({"_op_aicore_num": "7"}) == CoreCounts(7, 40)
    with pytest.raises(ArgumentError) as caught:
        core_limit({"_op_aicore_num": "21", "_op_vectorcore_num": "0"})
    assert isinstance(caught.value, ValueError)
    assert (
        str(caught.value)
        == """\
A number of cores is out of range [TA210]
  why:
    limit_core_num was given op_aicore_num=21; here it is from 1 to 20
    limit_core_num was given op_vectorcore_num=0; here it is from 1 to 40
  fix:
    Give no more than there are; TORCHAIR_PLATFORM_CONFIG=/path/to/platform.ini describes another machine."""
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "has neither cube_core_cnt nor ai_core_cnt"),
        ("[SoCInfo]\nvector_core_cnt=4\n", "has neither cube_core_cnt nor ai_core_cnt"),
        ("[SoCInfo]\ncube_core_cnt=many\n", "cube_core_cnt = 'many'"),
        ("cube_core_cnt=4\n", "no section headers"),
    ],
)
def test_a_description_that_says_nothing(describe, text, words) -> None:
    path = describe(text)
    with pytest.raises(ConfigValueError) as caught:
        core_counts()
    assert words in str(caught.value)
    assert str(path) in str(caught.value)


def test_no_description(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("TORCHAIR_PLATFORM_CONFIG", str(tmp_path / "none.ini"))
    with pytest.raises(ConfigFileNotFoundError, match="TORCHAIR_PLATFORM_CONFIG"):
        core_counts()
