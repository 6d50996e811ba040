"""Context managers for parts of a compiled function: streams, super kernels, core limits, dumps (specification, F-71).

They put attributes on the IR nodes that are made inside. In eager mode they do nothing. There must be no graph break
inside a ``with`` block.
"""

from __future__ import annotations

from torchair.torchops.contexts import (
    data_dump,
    limit_core_num,
    npu_stream_switch,
    npu_wait_tensor,
    op_never_timeout,
    super_kernel,
)

__all__ = [
    "data_dump",
    "limit_core_num",
    "npu_stream_switch",
    "npu_wait_tensor",
    "op_never_timeout",
    "super_kernel",
]
