"""Operators for compiled functions: printing, ordering, attention (specification, F-78 to F-82)."""

from __future__ import annotations

from typing import Any, NoReturn

import torch

from torchair.errors import unavailable
from torchair.torchops.print_call import npu_print

__all__ = [
    "npu_create_tagged_event",
    "npu_fused_infer_attention_score",
    "npu_fused_infer_attention_score_v2",
    "npu_print",
    "npu_record_tagged_stream",
    "npu_tagged_event_record",
    "npu_tagged_event_wait",
    "record",
    "wait",
]

_PROGRAM_ORDER = "Operators of a graph run in program order in this version, so there is nothing to wait for."
_ATTENTION = "Use torch.nn.functional.scaled_dot_product_attention."


def record() -> NoReturn:
    """A token for everything issued so far on the current stream; not in this version.

    Raises:
        UnavailableFeatureError: Always.
    """
    raise unavailable("torchair.ops.record", _PROGRAM_ORDER)


def wait(tensors: list[torch.Tensor]) -> NoReturn:
    """Make the next operator wait for tokens and producers of tensors; not in this version.

    Raises:
        UnavailableFeatureError: Always.
    """
    raise unavailable("torchair.ops.wait", _PROGRAM_ORDER)


def npu_create_tagged_event(tag: str) -> NoReturn:
    """Create an event that is addressed by a tag; not in this version.

    Raises:
        UnavailableFeatureError: Always.
    """
    raise unavailable("torchair.ops.npu_create_tagged_event", _PROGRAM_ORDER)


def npu_tagged_event_record(event: Any) -> NoReturn:
    """Record a tagged event; not in this version.

    Raises:
        UnavailableFeatureError: Always.
    """
    raise unavailable("torchair.ops.npu_tagged_event_record", _PROGRAM_ORDER)


def npu_tagged_event_wait(event: Any) -> NoReturn:
    """Wait for a tagged event; not in this version.

    Raises:
        UnavailableFeatureError: Always.
    """
    raise unavailable("torchair.ops.npu_tagged_event_wait", _PROGRAM_ORDER)


def npu_record_tagged_stream(input: torch.Tensor, tagged_stream: str) -> NoReturn:
    """Extend the life of a tensor's memory to another stream; not in this version.

    Raises:
        UnavailableFeatureError: Always.
    """
    raise unavailable("torchair.ops.npu_record_tagged_stream", _PROGRAM_ORDER)


def npu_fused_infer_attention_score(*args: Any, **kwargs: Any) -> NoReturn:
    """Attention of a prompt or a step over a cache; not in this version.

    Raises:
        UnavailableFeatureError: Always.
    """
    raise unavailable("torchair.ops.npu_fused_infer_attention_score", _ATTENTION)


def npu_fused_infer_attention_score_v2(*args: Any, **kwargs: Any) -> NoReturn:
    """The second version of that attention; not in this version of TorchAir.

    Raises:
        UnavailableFeatureError: Always.
    """
    raise unavailable("torchair.ops.npu_fused_infer_attention_score_v2", _ATTENTION)
