"""Tests of scopes run on a machine that is described as one of 24 cube and 48 vector cores."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def _platform(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "platform.ini"
    path.write_text("[SoCInfo]\ncube_core_cnt=24\nvector_core_cnt=48\n")
    monkeypatch.setenv("TORCHAIR_PLATFORM_CONFIG", str(path))
