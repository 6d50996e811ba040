"""The vendor's switches of fusion passes (specification, F-96 to F-98), for those that have a counterpart here."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from torchair.config import Options
from torchair.errors import ConfigValueError
from torchair.passes import (
    EliminateCommonSubexpressions,
    FuseAddRmsNorm,
    FuseRmsNorm,
    HoistFrozenComputations,
    MergeProducts,
    PackWeights,
    RemoveCasts,
)

__all__ = ["VENDOR_NAMES", "switched_off"]

#: The vendor's names of passes.
VENDOR_NAMES: Mapping[str, str] = {
    "AddRmsNormFusionGraphPass": FuseAddRmsNorm.name,
    "CastRemoveFusionPass": RemoveCasts.name,
    "CommonSubexpressionEliminationPass": EliminateCommonSubexpressions.name,
}

#: Passes that level O1 and ``"ALL": "off"`` leave out.
_FUSIONS = (FuseRmsNorm.name, FuseAddRmsNorm.name, MergeProducts.name, RemoveCasts.name)


def switched_off(options: Options, known: Collection[str]) -> list[str]:
    """Names of the passes that the options leave out.

    ``debug.disabled_passes`` always counts. Then ``optimization_switch`` beats the file, and a name in the file beats
    its ``ALL``, which beats the level. The vendor's names and ours are taken.

    Args:
        known: Names of all passes.

    Raises:
        ConfigValueError: The file cannot be read.
    """
    states = dict.fromkeys(known, True)
    if options.oo_level == "O1":
        states.update(dict.fromkeys(_FUSIONS, False))
    if not options.oo_constant_folding:
        states[HoistFrozenComputations.name] = False
    if options.fusion_switch_file is not None:
        named = _read(options.fusion_switch_file.path)
        if (of_all := named.pop("ALL", None)) is not None:
            states.update(dict.fromkeys(_FUSIONS, of_all))
        states.update({VENDOR_NAMES.get(name, name): on for name, on in named.items()})
    states.update({VENDOR_NAMES.get(name, name): on for name, on in options.optimization_switch})
    states.update(dict.fromkeys(options.disabled_passes, False))
    if not states.get(HoistFrozenComputations.name, True):
        states[MergeProducts.name] = states[PackWeights.name] = False  # they rely on it
    return [name for name in known if not states[name]]


def _read(path: str) -> dict[str, bool]:
    """The switches of graph fusion in a file: name, or ``ALL``, and whether it is on."""
    try:
        content: Any = json.loads(Path(path).read_text(encoding="utf-8"))
        switches = content["Switch"].get("GraphFusion", {})
        states = {name: {"on": True, "off": False}[state] for name, state in switches.items()}
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise ConfigValueError(
            "The file of fusion switches cannot be read",
            why=[f"config.fusion_config.fusion_switch_file = {path!r}", f"{type(error).__name__}: {error}"],
            fix='{"Switch": {"GraphFusion": {"CastRemoveFusionPass": "off", "ALL": "on"}}}',
        ) from error
    return states
