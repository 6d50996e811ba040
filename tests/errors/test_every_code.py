"""Every code of ``torchair.errors`` has a test that shows a whole text of it."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

import pytest

from torchair import errors

TESTS = Path(__file__).parents[1]

#: A text from its first line to its last; values that differ between machines may be holes of an f-string.
_WHOLE = re.compile(
    r"\w[^\n]* \[(?P<code>TA\d+)\](?: ERR\d+)?\n"
    r"  (?:why|fix|where):\n(?:(?:    [^\n]+|  fix:|  where:|)(?:\n|\Z))+"
)


def literals(source: str) -> Iterator[str]:
    """The strings of a program; of an f-string its text, with ``{}`` where values go."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
        elif isinstance(node, ast.JoinedStr):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)


def shown(source: str) -> set[str]:
    """Codes of the errors whose whole text a program contains."""
    found = (_WHOLE.fullmatch(dedent(text).strip("\n")) for text in literals(source))
    return {match["code"] for match in found if match}


def test_every_code_has_a_test_with_its_whole_text() -> None:
    codes = {
        cls.code
        for _, cls in inspect.getmembers(errors, inspect.isclass)
        if issubclass(cls, errors.TorchAirError) and cls is not errors.TorchAirError
    }
    files = sorted(path for path in TESTS.rglob("test_*.py") if path != Path(__file__))
    tested = set().union(*(shown(path.read_text(encoding="utf-8")) for path in files))
    assert sorted(codes - tested) == []


@pytest.mark.parametrize(
    ("text", "codes"),
    [
        ("It failed [TA901]\n  why:\n    a reason\n  fix:\n    do this\n\n    and that", {"TA901"}),
        ("\n    It failed [TA902] ERR03005\n      why:\n        {x} is bad\n    ", {"TA902"}),
        ("It failed [TA903]", set()),
        ("It failed [TA904]\n  why:\n    a reason\n  and more", set()),
        ("[TA905]\n  why:\n    a reason", set()),
        ("The text ends in [TA906]: \n  why:\n    a reason", set()),
    ],
)
def test_what_counts_as_a_whole_text(text: str, codes: set[str]) -> None:
    assert shown(f"assert message == {text!r}") == codes
    assert shown(f"assert message == f{text!r}") == codes
