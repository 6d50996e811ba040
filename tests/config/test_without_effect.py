"""Options that change nothing: which they are, and the line that says so."""

from __future__ import annotations

import ast
import logging
from pathlib import Path

import pytest

import torchair
from torchair.config import CompilerConfig, NpuGraphExConfig, Options
from torchair.config.npugraph_ex_config import OLD_SPELLING
from torchair.config.without_effect import NEEDS_DEVICE, WITHOUT_EFFECT

PACKAGE = Path(torchair.__file__).parent
PATHS = {option.path for config in (CompilerConfig(), NpuGraphExConfig()) for option in config.walk()}
#: Attributes of other things than options.
COMMON = {"type", "path", "filter"}


def test_they_are_options() -> None:
    assert WITHOUT_EFFECT | NEEDS_DEVICE <= PATHS
    assert not WITHOUT_EFFECT & NEEDS_DEVICE


def test_nothing_reads_them() -> None:
    """An option that something outside ``config`` reads has an effect: it leaves the list."""
    read = {
        node.attr
        for file in PACKAGE.rglob("*.py")
        if PACKAGE / "config" not in file.parents
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load)
    }
    assert not {path.rpartition(".")[2] for path in WITHOUT_EFFECT} & read - COMMON
    assert not {"graph_dump", "fx_summary", "graph_strings"} & read
    assert {"capture_limit", "clone_input", "pass_fuel"} <= read


def test_both_spellings_are_listed() -> None:
    for name, path in OLD_SPELLING.items():
        assert (f"npugraph_ex.{name}" in WITHOUT_EFFECT) == (f"config.{path}" in WITHOUT_EFFECT), name


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    monkeypatch.setattr("torchair.logs._said", set())
    monkeypatch.setattr(torchair.logger, "propagate", True)
    caplog.set_level(logging.INFO, logger="torchair")
    return caplog


def test_one_line_says_so(lines: pytest.LogCaptureFixture) -> None:
    config = CompilerConfig()
    config.experimental_config.memory_efficiency = True
    config.debug.pass_fuel = 3
    ours = NpuGraphExConfig.from_options({"super_kernel_debug_options": {"a": 1}, "capture_limit": 3})
    for _ in range(2):
        Options.from_config(config)
        Options.from_npugraph_ex(ours)
    assert lines.messages == [
        "config.experimental_config.memory_efficiency = True: recorded, no effect on any device yet",
        "npugraph_ex.super_kernel_debug_options = {'a': 1}: recorded, no effect on any device yet",
    ]
