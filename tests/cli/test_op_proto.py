"""``torchair op proto``."""

from __future__ import annotations

import json

import pytest
from expecttest import assert_expected_inline

from torchair.customop.prototype_file import read_prototypes

testing = pytest.importorskip("click.testing", reason="the extra 'cli' is not installed")


def run(*args: str):
    from torchair.cli.group import torchair

    return testing.CliRunner().invoke(torchair, ["op", "proto", *args])


def test_the_operator_of_the_guide() -> None:
    result = run("my_op(Tensor x, Tensor? y, Tensor[] z, float attr1, int attr2) -> Tensor")
    assert result.exit_code == 0
    assert_expected_inline(
        result.stdout,
        """\
[
  {
    "op": "MyOp",
    "input_desc": [
      {"name": "x", "param_type": "required", "format": ["ND"], "type": ["float"]},
      {"name": "y", "param_type": "optional", "format": ["ND"], "type": ["float"]},
      {"name": "z", "param_type": "dynamic", "format": ["ND"], "type": ["float"]}
    ],
    "attr": [
      {"name": "attr1", "param_type": "required", "type": "float"},
      {"name": "attr2", "param_type": "required", "type": "int"}
    ],
    "output_desc": [
      {"name": "out0", "param_type": "required", "format": ["ND"], "type": ["float"]}
    ]
  }
]
""",
    )


def test_several_operators_and_types_into_a_file(tmp_path) -> None:
    path = tmp_path / "a b" / "ops.json"
    path.parent.mkdir()
    schemas = ("one(Tensor x) -> Tensor", "two(Tensor(a!) x) -> ()")
    result = run(*schemas, "--type", "float", "--type", "half", "-o", str(path))
    assert result.exit_code == 0, result.output
    assert [p.signature for p in read_prototypes(path)] == ["One(x) -> (out0)", "Two(x) -> (x)"]
    assert json.loads(path.read_text())[0]["output_desc"][0]["type"] == ["float", "half"]
    before = path.read_text()
    again = run("three(Tensor x) -> Tensor", "-o", str(path))
    assert again.exit_code == 2
    assert "cannot be written: File exists" in again.output
    assert path.read_text() == before


def test_refusals_are_usage_errors() -> None:
    result = run("f(Tensor x")
    assert result.exit_code == 2
    assert "expected ) but found 'eof'" in result.stderr
    assert "Traceback" not in result.output
    assert run("f(Tensor x) -> Tensor", "--type", "float33").exit_code == 2
    assert run().exit_code == 2
