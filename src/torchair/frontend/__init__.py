"""The FX side, shared by both modes: what happens to the AOT graph before it is converted or captured."""

from __future__ import annotations

from torchair.frontend.decompositions import converted_kept_whole, decomposition_table
from torchair.frontend.fx_pass import FxPassRecord
from torchair.frontend.fx_passes import FX_PASS_NAMES, OptimizedFx, optimize_fx, run_capture_passes

__all__ = [
    "FX_PASS_NAMES",
    "FxPassRecord",
    "OptimizedFx",
    "converted_kept_whole",
    "decomposition_table",
    "optimize_fx",
    "run_capture_passes",
]
