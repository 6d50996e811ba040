"""The Python blocks of docs/streams.md run as they stand, one after the other."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.docs.test_tutorials import DOCS

PAGE = DOCS / "streams.md"


def test_the_code_of_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    torch._dynamo.reset()
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    assert len(blocks) >= 5
    # Dynamo shows lines of files only, so each block is one.
    names: dict[str, Any] = {"__name__": "page"}
    for i, block in enumerate(blocks):
        path = tmp_path / f"block_{i}.py"
        path.write_text(block, encoding="utf-8")
        exec(compile(block, str(path), "exec"), names)
    said = capsys.readouterr().out
    assert re.search(
        r"^3 captures take \d+ bytes apart, \d+ shared; the peak of the pool is \d+ in", said, re.MULTILINE
    )
    assert "[RESULT] No deadlock risks detected." in said
    events = json.loads((tmp_path / "run.json").read_text())["traceEvents"]
    assert {event["tid"] for event in events if event["ph"] == "X"} == {"stream0", "stream1"}


def test_the_picture_has_both_modes() -> None:
    text = (DOCS / "streams.svg").read_text(encoding="utf-8")
    for words in ("npugraph_ex", "GE mode", "stream0 (default)", "stream1 (right)"):
        assert words in text
