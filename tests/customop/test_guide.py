"""The code of the guide to custom operators runs as it stands."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from torchair.customop import prototype_json

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
assert my_scale.signature == "MyScale(x, y; factor: Float = 1.0) -> (out0)"
x, y = torch.ones(2, 3), torch.arange(3.0)
assert torch.equal(torch.ops.mine.my_scale(x, y, 2.0), x * y * 2)
config = torchair.CompilerConfig()
config.engine = "reference"  # compiles no C++
for mode in (torchair.get_npu_backend(compiler_config=config), "npugraph_ex"):
    compiled = torch.compile(lambda x, y: torch.ops.mine.my_scale(x, y, 2.0), backend=mode, fullgraph=True)
    assert torch.equal(compiled(x, y), x * y * 2)
for mode in (torchair.get_npu_backend(compiler_config=config), "npugraph_ex"):
    state, y = torch.full((2, 3), 4.0), torch.ones(2, 3)
    halved = torch.compile(lambda x, y: torch.ops.mine.halve(x, y) + x, backend=mode, fullgraph=True)(state, y)
    assert torch.equal(state, torch.full((2, 3), 2.0)) and torch.equal(halved, torch.full((2, 3), 5.0))
(found,) = [r for r in torchair.check_operator("mine::halve").rows if r.deliverable == "functionalization"]
assert found.why == "written by hand, with mine.halve_functional.default", found
"""


def test_the_code_of_the_guide_runs(tmp_path) -> None:
    blocks = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    assert len(blocks) >= 5
    files = {"json": "ops.json", "yaml": "op_plugin_functions.yaml"}
    for language, name in files.items():
        (text,) = re.findall(rf"```{language}\n(.*?)```", GUIDE.read_text(), re.DOTALL)
        (tmp_path / name).write_text(text)
    program = tmp_path / "guide.py"
    program.write_text("\n".join(["import torch, torchair", *blocks, CHECKS]))
    command = [sys.executable, str(program)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr


def test_the_prototype_file_of_the_guide_is_what_the_command_prints() -> None:
    text = GUIDE.read_text()
    (shown,) = re.findall(r"```json\n(.*?)```", text, re.DOTALL)
    (schema,) = re.findall(r'\$ torchair op proto "(.*?)"', text)
    assert prototype_json(schema) == shown
