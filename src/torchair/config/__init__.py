"""Configuration."""

from torchair.config.compiler_config import CompilerConfig
from torchair.config.npugraph_ex_config import NpuGraphExConfig

__all__ = ["CompilerConfig", "NpuGraphExConfig"]
