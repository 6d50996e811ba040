"""The user's line of a node."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import fx

from torchair.source_lines import source_line

PYTORCH = Path(torch.__file__).parent / "nn" / "modules" / "linear.py"
THEIRS = f'  File "{PYTORCH}", line 7, in forward\n    return F.linear(x)\n'
MINE = '  File "model.py", line 5, in forward\n    return self.linear(x)\n           ^^^^^^^^^^^^^^\n'


@pytest.mark.parametrize(
    ("trace", "line"),
    [
        (MINE, "model.py:5, in forward: return self.linear(x)"),
        (MINE + THEIRS, "model.py:5, in forward: return self.linear(x)"),
        (THEIRS, f"{PYTORCH}:7, in forward: return F.linear(x)"),
        ('  File "a.py", line 1, in f\n  File "b.py", line 2, in g', "b.py:2, in g"),
        ('  File "a.py", line 1, in f\n' + THEIRS, "a.py:1, in f"),
        ("no frames", ""),
        ("", ""),
    ],
)
def test_source_line(trace: str, line: str) -> None:
    node = fx.Graph().placeholder("x")
    node.meta["stack_trace"] = trace
    assert source_line(node) == line
