"""Views that stay legal when layouts change (specification, F-23)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import fx

from torchair.frontend.fx_pass import FxPass

__all__ = ["ViewsToReshapes"]


@dataclass(slots=True)
class ViewsToReshapes(FxPass):
    """``aten.view(x, shape)`` becomes ``aten.reshape(x, shape)``.

    GE mode only: there the layout of a value is the engine's choice. Capture mode runs the operators as they are, on
    the layouts that they were traced with; a view is no launch, while ``reshape`` is an operator composed of others,
    whose schema does not say whether the result shares memory. There only those views become reshapes whose operand a
    pass gave other strides (``fake_values.compute_value``).
    """

    name: ClassVar[str] = "views-to-reshapes"

    def run(self, gm: fx.GraphModule) -> int:
        views = gm.graph.find_nodes(op="call_function", target=torch.ops.aten.view.default)
        for node in views:
            node.target = torch.ops.aten.reshape.default
        return len(views)
