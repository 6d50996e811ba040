"""``static_kernel_compile`` and ``super_kernel_optimize`` of capture mode: when they act, and what is decomposed then.

Upstream compiles the kernels of a captured graph for their shapes, and merges them into larger ones; here a native
program is both.

Parts of the captured graph become native programs (``torchair.native``). Operators without code stay launches of their
eager kernels between the programs; random operators and custom ones always do. Decompositions are Inductor's, since
operators like ``gelu`` fuse with their neighbors only in parts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import fx

from torchair import _torch_compat
from torchair.config import Options
from torchair.engines.index_bounds import strict_indices
from torchair.engines.inductor import SETTINGS
from torchair.engines.native import NativeExecutable
from torchair.engines.rounding import rounded_once
from torchair.errors import Rejection
from torchair.frontend.mixed_norms import float32_normalizations
from torchair.logs import npugraph_ex_logger as logger
from torchair.native.support import load_support

__all__ = ["static_kernel_decompositions", "wants_static_kernels"]


def wants_static_kernels(gm: fx.GraphModule, options: Options) -> bool:
    """Whether an option is set and can do something for Dynamo's graph: it is on the CPU, and there is a compiler."""
    name = options.capture.native_code
    if not options.captures or not name or options.run_eagerly:
        return False
    values = (node.meta.get("example_value") for node in gm.graph.nodes)
    if any(isinstance(v, torch.Tensor) and v.device.type != "cpu" for v in values):
        logger.warning_once("%s has no effect on graphs with tensors on other devices than the CPU", name)
        return False
    if isinstance(found := load_support(), Rejection):
        logger.warning_once("%s has no effect: %s", name, found.reason)
        return False
    return True


def static_kernel_decompositions(custom: Mapping[Any, Callable[..., Any]]) -> dict[Any, Callable[..., Any]]:
    """What AOTAutograd decomposes; the user's entries win."""
    with _torch_compat.inductor_settings(**SETTINGS):
        table = _torch_compat.inductor_decompositions()
    chosen = {
        op: function
        for op, function in table.items()
        if op not in NativeExecutable.whole and torch.Tag.nondeterministic_seeded not in getattr(op, "tags", ())
    }
    return strict_indices(rounded_once(chosen)) | float32_normalizations(chosen) | dict(custom)
