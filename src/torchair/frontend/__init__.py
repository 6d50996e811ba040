"""The FX side, shared by both modes: what happens to the AOT graph before it is converted or captured."""

from __future__ import annotations

from torchair.frontend.decompositions import converted_kept_whole, decomposition_table
from torchair.frontend.fx_passes import optimize_fx

__all__ = ["converted_kept_whole", "decomposition_table", "optimize_fx"]
