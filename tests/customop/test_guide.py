"""The code of the guide to custom operators runs as it stands."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

GUIDE = Path(__file__).parents[2] / "docs" / "custom-operators.md"

CHECKS = """
assert cache.sum(1).tolist() == [2.0] * 12 + [0.0] * 4
assert len(torchair.explain(append).graphs) == 2
address = cache.data_ptr()
assert torch.equal(append(cache, torch.full((2,), 3.0), 1), torch.full((2,), 4.0))
assert cache[1].tolist() == [3, 3] and cache.data_ptr() == address
assert "KvAppend" in backend.graphs[-1].text and "TensorMove" not in backend.graphs[-1].text
report = torchair.check_operator(torch.ops.mine.kv_append, torch.zeros(4, 2), torch.ones(2), 1)
assert report.ok, report
assert torchair.logger.level == 30
"""


def test_the_code_of_the_guide_runs(tmp_path) -> None:
    blocks = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    assert len(blocks) >= 5
    program = tmp_path / "guide.py"
    program.write_text("\n".join(["import torch, torchair", *blocks, CHECKS]))
    done = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
