"""Helpers for inference: compile caches and gears (specification, F-83 to F-85)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import torch

from torchair.errors import unavailable

__all__ = ["cache_compile", "readable_cache", "set_dim_gears"]


def cache_compile(
    func: Callable[..., Any],
    *,
    config: Any = None,
    backend: Any = None,
    dynamic: bool = True,
    cache_dir: str | None = None,
    global_rank: int | None = None,
    tp_rank: int | None = None,
    pp_rank: int | None = None,
    ge_cache: bool = False,
    **kwargs: Any,
) -> NoReturn:
    """Compile a method once and load the result in later processes; not in this version.

    Raises:
        UnavailableFeatureError: Always.
    """
    raise unavailable(
        "torchair.inference.cache_compile",
        "torch.compile(func, backend=torchair.get_npu_backend(...)) compiles it in each process.",
    )


def readable_cache(cache_bin: str | Path, print_output: bool = True, file: str | Path | None = None) -> NoReturn:
    """Decode a compile cache; not in this version.

    Raises:
        UnavailableFeatureError: Always.
    """
    raise unavailable("torchair.inference.readable_cache", "Graphs are shown by get_npu_backend(...).graphs[i].text.")


def set_dim_gears(t: torch.Tensor, dim_gears: dict[int, list[int] | tuple[int, ...]]) -> NoReturn:
    """Declare the sizes that a dimension may have; not in this version.

    Raises:
        UnavailableFeatureError: Always.
    """
    raise unavailable(
        "torchair.inference.set_dim_gears", "torch.compile(..., dynamic=True) serves all sizes with one graph."
    )
