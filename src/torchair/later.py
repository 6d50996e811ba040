"""Public names that a later version implements; they exist so that programs which import them can be read."""

from __future__ import annotations

from typing import Any, NoReturn

import torch

from torchair.errors import unavailable

__all__ = [
    "dynamo_export",
    "patch_for_hcom",
]


def dynamo_export(
    *args: Any,
    model: torch.nn.Module,
    export_path: str = "export_file",
    export_name: str = "export",
    dynamic: bool = False,
    config: Any = None,
    **kwargs: Any,
) -> NoReturn:
    """Write a model as an Ascend IR file; not in this version.

    Raises:
        UnavailableFeatureError: Always.
    """
    raise unavailable(
        "torchair.dynamo_export", "get_npu_backend(...).graphs[i].text is the graph as text, after the first call."
    )


def patch_for_hcom() -> NoReturn:
    """Make collectives of old PyTorch versions traceable; not in this version.

    Raises:
        UnavailableFeatureError: Always.
    """
    raise unavailable(
        "torchair.patch_for_hcom", "Leave the call out: PyTorch 2.6 and later trace most collectives themselves."
    )
