"""What an engine is: it compiles an IR graph into something that runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

from torchair.config import Options
from torchair.errors import Rejection
from torchair.ir import Graph, Node

__all__ = ["BoxedExecutable", "Engine", "Executable"]


class Executable(Protocol):
    """A compiled graph."""

    def __call__(self, *inputs: Any) -> Sequence[Any]:
        """Run with one argument for each graph input (tensors, and Python numbers for host inputs).

        Returns:
            One item for each graph output, in eager's strides where the graph asks for them.
        """
        ...

    def close(self) -> None:
        """Release what the graph holds."""
        ...


@runtime_checkable
class BoxedExecutable(Executable, Protocol):
    """An executable that can also take its arguments in a list, which it empties.

    Memory of arguments is freed early.
    """

    def boxed(self, inputs: list[Any]) -> Sequence[Any]:
        """Run as :meth:`__call__` does."""
        ...


class Engine(Protocol):
    """Compiles IR graphs."""

    name: str

    def supports(self, node: Node) -> Rejection | None:
        """Why this engine has no code of its own for a node (it then runs by its lowering), or None."""
        ...

    def compile(self, graph: Graph, options: Options, inputs: Sequence[Any] = ()) -> Executable:
        """Compile. The graph is not changed.

        Args:
            inputs: The fake tensors and symbolic numbers of the compile in progress, one for each graph input; they
                tell the strides of the arguments. Nothing for a graph that comes from elsewhere: it must run for any
                strides.
        """
        ...
