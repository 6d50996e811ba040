"""The page of errors in the documentation is written from the classes."""

from __future__ import annotations

from scripts.error_page import PAGE, page


def test_page_is_current() -> None:
    assert PAGE.read_text() == page(), "run python -m scripts.error_page"
