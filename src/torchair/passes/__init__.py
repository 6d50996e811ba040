"""Graph passes: transformations of Ascend IR graphs, and the runner.

:func:`default_passes` is the list that GE mode runs, in order.
"""

from __future__ import annotations

from collections.abc import Collection

from torchair.passes.base import GraphPass, PassObserver, PassRecord, PassRunner, RewritePass
from torchair.passes.casts import RemoveCasts
from torchair.passes.common import EliminateCommonSubexpressions
from torchair.passes.dead_code import EliminateDeadNodes
from torchair.passes.frozen import HoistFrozenComputations, Prologue
from torchair.passes.identities import RemoveIdentities
from torchair.passes.inplace import Reinplace
from torchair.passes.matrix import FoldTransposeIntoMatMul
from torchair.passes.norms import FuseAddRmsNorm, FuseRmsNorm
from torchair.passes.order import SortNodes
from torchair.passes.packing import PackWeights
from torchair.passes.products import MergeProducts
from torchair.passes.sharing import Caller
from torchair.passes.views import MergeReshapes, MergeTransposes

__all__ = [
    "Caller",
    "EliminateCommonSubexpressions",
    "EliminateDeadNodes",
    "FoldTransposeIntoMatMul",
    "FuseAddRmsNorm",
    "FuseRmsNorm",
    "GraphPass",
    "HoistFrozenComputations",
    "MergeProducts",
    "MergeReshapes",
    "MergeTransposes",
    "PackWeights",
    "PassObserver",
    "PassRecord",
    "PassRunner",
    "Prologue",
    "Reinplace",
    "RemoveCasts",
    "RemoveIdentities",
    "RewritePass",
    "SortNodes",
    "VIEW_PASSES",
    "default_passes",
]

#: Names of the passes that ``experimental_config.enable_view_optimize`` turns on (specification, F-64).
VIEW_PASSES = (MergeTransposes.name, MergeReshapes.name, FoldTransposeIntoMatMul.name)


def default_passes(
    caller: Caller | None = None,
    sorting: str = "DFS",
    frozen: Collection[int] = (),
    marked: Collection[int] = (),
) -> tuple[GraphPass, ...]:
    """The passes of GE mode, in order.

    Args:
        caller: What the caller of the graph does with inputs and outputs; nothing special by default.
        sorting: ``experimental_config.topology_sorting_strategy``.
        frozen: Numbers of the graph inputs that are frozen parameters.
        marked: Numbers of the graph inputs that are weights to be packed.
    """
    caller = caller or Caller()
    return (
        MergeTransposes(caller),
        MergeReshapes(),
        RemoveIdentities(caller),
        RemoveCasts(caller),
        FoldTransposeIntoMatMul(),
        EliminateCommonSubexpressions(),
        FuseRmsNorm(),
        FuseAddRmsNorm(),
        Reinplace(caller),
        EliminateDeadNodes(),
        MergeProducts(frozen),
        PackWeights(marked),
        HoistFrozenComputations({*frozen, *marked}),
        SortNodes(sorting),
    )
