"""Configuration: what users edit (:class:`CompilerConfig`), and what everything else reads (:class:`Options`).

Nothing here imports torch.
"""

from __future__ import annotations

from torchair.config.applicability import warn_inapplicable
from torchair.config.compiler_config import CompilerConfig
from torchair.config.cores import CoreCounts, core_counts, core_limit
from torchair.config.env import Environment
from torchair.config.npugraph_ex_config import NpuGraphExConfig, with_foreign_options
from torchair.config.options import Options
from torchair.config.process_options import PROCESS_OPTIONS, ProcessOptions

__all__ = [
    "PROCESS_OPTIONS",
    "CompilerConfig",
    "CoreCounts",
    "Environment",
    "NpuGraphExConfig",
    "Options",
    "ProcessOptions",
    "core_counts",
    "core_limit",
    "warn_inapplicable",
    "with_foreign_options",
]
