"""The page of options in the documentation is written from the classes."""

from __future__ import annotations

import re
from typing import Any

import pytest
from scripts.option_page import PAGE, page

from torchair.config import CompilerConfig, Environment, NpuGraphExConfig
from torchair.config.rules import EngineName


def test_page_is_current() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run python -m scripts.option_page"


def test_every_option_has_a_row() -> None:
    rows = [line.partition(" | ")[0].rstrip(" †‡") for line in page().splitlines()]
    for option in CompilerConfig().walk():
        assert rows.count(f"| `{option.path}`") == 1
    for name in NpuGraphExConfig.names():
        assert rows.count(f"| `{name}`") == 1


def test_rows_have_as_many_cells_as_the_head() -> None:
    width = None
    for line in page().replace("\\|", "").splitlines():
        if not line.startswith("|"):
            width = None
            continue
        width = width or line.count("|")
        assert line.count("|") == width, line


def test_every_environment_variable_has_a_row() -> None:
    read = set[str]()

    class Recorder(dict[str, str]):
        def get(self, name: str, default: Any = None) -> Any:
            read.add(name)
            return default

    Environment.read(Recorder())
    rows = re.findall(r"^\| `([A-Z_]+)`", page(), re.MULTILINE)
    assert sorted(rows) == sorted(read)


def test_installed_engines_do_not_change_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    before = page()
    monkeypatch.setattr(EngineName, "choices", lambda rule: [*rule.BUILT_IN, "somebody's"])
    assert page() == before


def test_options_without_effect_are_marked() -> None:
    rows = [line.partition(" | ")[0] for line in page().splitlines()]
    assert "| `config.experimental_config.memory_efficiency` †" in rows
    assert "| `clone_input` ‡" in rows
    assert "| `force_eager`" in rows
