"""Operators for compiled functions: printing, ordering, attention (specification, F-78 to F-82)."""

from __future__ import annotations

from typing import Any, NoReturn

from torchair.errors import unavailable
from torchair.torchops.event_calls import (
    npu_create_tagged_event,
    npu_record_tagged_stream,
    npu_tagged_event_record,
    npu_tagged_event_wait,
    record,
    wait,
)
from torchair.torchops.print_call import npu_print
from torchair.torchops.saving import save_npugraph_tensor

__all__ = [
    "npu_create_tagged_event",
    "npu_fused_infer_attention_score",
    "npu_fused_infer_attention_score_v2",
    "npu_print",
    "npu_record_tagged_stream",
    "npu_tagged_event_record",
    "npu_tagged_event_wait",
    "record",
    "save_npugraph_tensor",
    "wait",
]

_ATTENTION = "Use torch.nn.functional.scaled_dot_product_attention."


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
