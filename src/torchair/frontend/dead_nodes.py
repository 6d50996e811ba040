"""What nobody reads leaves an FX graph; what has an effect stays."""

from __future__ import annotations

from torch import fx

__all__ = ["drop_dead_nodes"]


def drop_dead_nodes(graph: fx.Graph) -> None:
    """Take out the nodes whose results nobody reads.

    Random operators stay: eager mode draws their numbers, too, so that all later ones would be others. While a graph is
    compiled, PyTorch's function takes them out unless it is told.
    """
    graph.eliminate_dead_code(is_impure_node=fx.Node.is_impure)
