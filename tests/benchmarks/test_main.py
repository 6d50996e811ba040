"""The command line, on cases that take no time."""

from __future__ import annotations

import json
import platform
from pathlib import Path

import pytest
import torch

from benchmarks import variants
from benchmarks.__main__ import main
from benchmarks.harness import Variant
from benchmarks.machine import describe
from benchmarks.variants import VARIANTS


def test_run_writes_what_it_prints(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = tmp_path / "results.json", tmp_path / "results.md"
    arguments = ["one_op", "tiny60", "launch_cost", "--variants", "eager,ge-reference", "--quick", "--rounds", "2"]
    assert main([*arguments, "--json", str(files[0]), "--markdown", str(files[1])]) == 0
    assert files[1].read_text() == capsys.readouterr().out
    content = json.loads(files[0].read_text())
    assert content["settings"] == {"device": "cpu", "rounds": 2, "block_ms": 1.0}
    assert [case["case"] for case in content["cases"]] == ["one_op", "tiny60"]
    for case in content["cases"]:
        assert [(row["variant"], row["status"]) for row in case["rows"]] == [("eager", "ok"), ("ge-reference", "ok")]
        assert all(len(row["rounds_microseconds"]) == 2 for row in case["rows"])
    assert [table["table"] for table in content["tables"]] == ["launch_cost"]
    assert content["goals"] == []


def test_wrong_numbers_are_the_exit_status(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    broken = Variant("broken", "", lambda function: lambda *args: function(*args) + 1)
    monkeypatch.setattr("benchmarks.__main__.VARIANTS", {**variants.VARIANTS, "broken": broken})
    assert main(["one_op", "--variants", "eager,broken", "--quick", "--rounds", "1"]) == 1
    assert "wrong: argument set 0" in capsys.readouterr().out


def test_missing_variant_is_no_failure(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["one_op", "--variants", "eager,reduce-overhead", "--quick", "--rounds", "1"]) == 0
    assert "not available: needs --device cuda" in capsys.readouterr().out


def test_list(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--list"]) == 0
    printed = capsys.readouterr().out
    for name in ("mlp16", "capture_scaling", "npugraph_ex", "(cpu, cuda)"):
        assert name in printed
    for name, variant in VARIANTS.items():
        assert f"  {name}  " in printed
        assert f" {variant.what}" in printed


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["mlp17"], "'mlp17' is none of mlp16, tiny60"),
        (["--variants", "eager,indctor"], "'indctor': none of eager, inductor"),
        (["--rounds", "0"], "'0' is no positive number"),
        (["--rounds", "many"], "'many' is no positive number"),
        (["--json", "no/such/folder/x.json"], "'no/such/folder/x.json' is no file in a folder that exists"),
    ],
)
def test_bad_arguments(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 2
    assert message in capsys.readouterr().err


def test_no_cuda(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert main(["one_op", "--device", "cuda"]) == 2
    assert capsys.readouterr().err == "there is no CUDA device\n"


def test_machine_says_nothing_private() -> None:
    facts = describe(torch.device("cpu"))
    assert facts["threads"] == torch.get_num_threads()
    texts = [value for value in facts.values() if isinstance(value, str)]
    assert facts["torch"] in texts
    assert not any(platform.node() in text or str(Path.home()) in text for text in texts)


@pytest.mark.slow
def test_every_cpu_variant_computes_one_op(capsys: pytest.CaptureFixture[str]) -> None:
    """Real compilers; what is not installed is a row with its reason."""
    assert main(["one_op", "--variants", ",".join(variants.VARIANTS), "--quick", "--rounds", "2"]) == 0
    printed = capsys.readouterr().out
    for name in ("inductor", "inductor-cpp", "inductor-freeze", "ge-inductor"):
        (line,) = [line for line in printed.splitlines() if line.startswith(f"| {name} ")]
        assert " us " in line
