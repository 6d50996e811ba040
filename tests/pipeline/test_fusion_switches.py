"""The vendor's switches of fusion passes."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import torchair
from torchair.config import PROCESS_OPTIONS, CompilerConfig, Options
from torchair.config.fusion_names import FUSION_PASS_NAMES
from torchair.errors import ConfigValueError
from torchair.passes import default_passes
from torchair.pipeline.fusion_switches import VENDOR_NAMES, switched_off

KNOWN = [p.name for p in default_passes()]
FUSIONS = ["remove-casts", "fuse-rms-norm", "fuse-add-rms-norm", "merge-products"]


def _options(file: Path | None = None, switches: Any = None, **options: Any) -> Options:
    config = CompilerConfig()
    if file is not None:
        config.fusion_config.fusion_switch_file = str(file)
    if switches is not None:
        config.ge_config.optimization_switch = switches
    return dataclasses.replace(Options.from_config(config), **options)


def _file(tmp_path: Path, **switches: str) -> Path:
    path = tmp_path / "switches.cfg"
    path.write_text(json.dumps({"Switch": {"GraphFusion": switches}}))
    return path


def test_vendor_names_are_the_documented_ones() -> None:
    assert VENDOR_NAMES.keys() <= FUSION_PASS_NAMES
    assert set(VENDOR_NAMES.values()) <= set(KNOWN)


def test_all_is_on() -> None:
    assert switched_off(_options(), KNOWN) == []


def test_level_one_has_no_fusion() -> None:
    assert switched_off(_options(oo_level="O1"), KNOWN) == FUSIONS


def test_constant_folding() -> None:
    off = switched_off(_options(oo_constant_folding=False), KNOWN)
    assert off == ["merge-products", "pack-weights", "hoist-frozen-computations"]


def test_a_file(tmp_path: Path) -> None:
    assert switched_off(_options(_file(tmp_path, CastRemoveFusionPass="off")), KNOWN) == ["remove-casts"]
    assert switched_off(_options(_file(tmp_path, ALL="off")), KNOWN) == FUSIONS
    named = _file(tmp_path, ALL="off", AddRmsNormFusionGraphPass="on", YoloPass="off")
    assert switched_off(_options(named), KNOWN) == [n for n in FUSIONS if n != "fuse-add-rms-norm"]


def test_the_switch_beats_the_file(tmp_path: Path) -> None:
    file = _file(tmp_path, CastRemoveFusionPass="off", CommonSubexpressionEliminationPass="on")
    off = switched_off(_options(file, "CastRemoveFusionPass:on;CommonSubexpressionEliminationPass:off"), KNOWN)
    assert off == ["eliminate-common-subexpressions"]


def test_disabled_passes_always_count() -> None:
    options = _options(switches="CastRemoveFusionPass:on", disabled_passes=("remove-casts",))
    assert switched_off(options, KNOWN) == ["remove-casts"]


@pytest.mark.parametrize(
    "text", ["{", "[]", '{"Switch": {"GraphFusion": {"A": "maybe"}}}', '{"Switch": {"GraphFusion": ["A"]}}']
)
def test_a_file_that_cannot_be_read(tmp_path: Path, text: str) -> None:
    path = tmp_path / "switches.cfg"
    path.write_text(text)
    with pytest.raises(ConfigValueError, match="fusion switches cannot be read"):
        switched_off(_options(path), KNOWN)


def test_a_model_is_compiled_without_the_fusion() -> None:
    model, x = nn.RMSNorm(8), torch.randn(2, 8)
    counts = []
    for state in ("on", "off"):
        config = torchair.CompilerConfig()
        config.engine = "reference"
        config.ge_config.optimization_switch = f"fuse-rms-norm:{state}"
        backend = torchair.get_npu_backend(compiler_config=config)
        torch._dynamo.reset()
        PROCESS_OPTIONS.reset()
        with torch.no_grad():
            torch.testing.assert_close(torch.compile(model, backend=backend)(x), model(x))
        counts.append(backend.graphs[0].graph.count("RmsNorm"))
    PROCESS_OPTIONS.reset()
    assert counts == [1, 0]
