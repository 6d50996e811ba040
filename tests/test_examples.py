"""The programs of ``examples/`` run, in a process of their own, and print what they promise."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"
PROMISED = {
    "01_custom_operators.py": ["agrees with eager: True", "copies in the graph: 0", "written in place: True", "TA205"],
    "02_sentence_embeddings.py": ["largest difference from eager", "graph as picture:"],
    "03_capture_and_replay.py": ["cache written in place: True", "equal to eager: True", "captures: 3", "as fast"],
    "04_two_streams.py": ["npugraph_ex: 2 streams", "GE mode: 2 streams", "[RESULT] No deadlock risks detected."],
}


def test_every_example_is_tested() -> None:
    assert sorted(PROMISED) == sorted(path.name for path in EXAMPLES.glob("*.py"))


@pytest.mark.parametrize("name", sorted(PROMISED))
def test_example(name: str, tmp_path: Path) -> None:
    result = subprocess.run(
        [sys.executable, str(EXAMPLES / name)], capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert result.returncode == 0, result.stderr
    for text in PROMISED[name]:
        assert text in result.stdout, result.stdout
    assert "agrees with eager: False" not in result.stdout
