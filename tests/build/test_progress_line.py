"""The line that says what is being compiled."""

from __future__ import annotations

import io
import time

import pytest

from torchair.build import progress_line as module
from torchair.build.progress_line import progress


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_PATIENCE", 0.01)
    monkeypatch.setattr(module, "_INTERVAL", 0.01)


def _wait_for(stream: io.StringIO, text: str) -> None:
    end = time.monotonic() + 30
    while text not in stream.getvalue():
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.mark.usefixtures("_impatient")
def test_a_terminal_shows_it_and_is_left_clean(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = _Terminal()
    monkeypatch.setattr("sys.stderr", stream)
    with progress("12 functions of graph_1"):
        _wait_for(stream, "torchair: compiling 12 functions of graph_1 (0 s)")
        with progress("another"):
            _wait_for(stream, "graph_1, and 1 more (")
    assert stream.getvalue().endswith("\r\033[K")
    assert "compiling another" not in stream.getvalue()


@pytest.mark.usefixtures("_impatient")
def test_a_file_shows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    monkeypatch.setattr("sys.stderr", stream)
    with progress("12 functions"):
        time.sleep(0.05)
    assert not stream.getvalue()


def test_what_is_fast_shows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = _Terminal()
    monkeypatch.setattr("sys.stderr", stream)
    with pytest.raises(ValueError, match="as it is"), progress("12 functions"):
        raise ValueError("as it is")
    assert not stream.getvalue()
