"""Graph passes: transformations of Ascend IR graphs, and the runner.

:func:`default_passes` is the list that GE mode runs, in order.
"""

from __future__ import annotations

from torchair.passes.base import GraphPass, PassObserver, PassRecord, PassRunner, RewritePass
from torchair.passes.common import EliminateCommonSubexpressions
from torchair.passes.dead_code import EliminateDeadNodes
from torchair.passes.identities import RemoveIdentities
from torchair.passes.inplace import Reinplace
from torchair.passes.matrix import FoldTransposeIntoMatMul
from torchair.passes.order import SortNodes
from torchair.passes.sharing import Caller
from torchair.passes.views import MergeReshapes, MergeTransposes

__all__ = [
    "Caller",
    "EliminateCommonSubexpressions",
    "EliminateDeadNodes",
    "FoldTransposeIntoMatMul",
    "GraphPass",
    "MergeReshapes",
    "MergeTransposes",
    "PassObserver",
    "PassRecord",
    "PassRunner",
    "Reinplace",
    "RemoveIdentities",
    "RewritePass",
    "SortNodes",
    "VIEW_PASSES",
    "default_passes",
]

#: Names of the passes that ``experimental_config.enable_view_optimize`` turns on (specification, F-64).
VIEW_PASSES = (MergeTransposes.name, MergeReshapes.name, FoldTransposeIntoMatMul.name)


def default_passes(caller: Caller | None = None, sorting: str = "DFS") -> tuple[GraphPass, ...]:
    """The passes of GE mode, in order.

    Args:
        caller: What the caller of the graph does with inputs and outputs; nothing special by default.
        sorting: ``experimental_config.topology_sorting_strategy``.
    """
    caller = caller or Caller()
    return (
        MergeTransposes(caller),
        MergeReshapes(),
        RemoveIdentities(caller),
        FoldTransposeIntoMatMul(),
        EliminateCommonSubexpressions(),
        Reinplace(caller),
        EliminateDeadNodes(),
        SortNodes(sorting),
    )
