"""Warnings about options that the selected mode ignores."""

from __future__ import annotations

import warnings
from typing import Any

from torchair.config.compiler_config import CompilerConfig
from torchair.config.option import Option

__all__ = ["warn_inapplicable"]

_NOT_IN_CAPTURE = (
    "inference.set_dim_gears, dynamo_export, the scopes other than npu_stream_switch, npu_wait_tensor and "
    "limit_core_num, and npu_print do not apply in this mode either."
)


def warn_inapplicable(config: CompilerConfig, *, stacklevel: int = 1) -> None:
    """Warn, once for all of them, about options with a value of the user's that ``config.mode`` ignores.

    Args:
        config: The configuration.
        stacklevel: Whose line the warning shows: 1 the caller's, 2 its caller's, and so on.
    """
    mode = "capture" if config.captures else "ge"
    ignored = [option for option in config.walk() if not option.is_default and mode not in option.spec.modes]
    sentences = []
    if ignored:
        sentences.append(f"config.mode = {config.mode.raw!r} ignores {', '.join(map(_shown, ignored))}.")
    if config.captures and config.dump_config.enable_dump:
        dump = _shown(config.dump_config.enable_dump)
        sentences.append(
            f"{dump} writes the tensors of FX nodes here; of dump_config only dump_path and data_dump_stage apply."
        )
    if sentences:
        if config.captures:
            sentences.append(_NOT_IN_CAPTURE)
        warnings.warn(" ".join(sentences), UserWarning, stacklevel=stacklevel + 1)


def _shown(option: Option[Any]) -> str:
    return f"{option.path}:{option.raw}"
