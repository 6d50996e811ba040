"""An IR graph as a picture (SVG), for small and middle-sized graphs."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from torchair.errors import UnavailableFeatureError
from torchair.ir import Graph, Node, Value

__all__ = ["to_dot", "write_svg"]


def to_dot(graph: Graph) -> str:
    """The graph in the DOT language: a box for each operator, an edge for each tensor with its type.

    Constants and host numbers are written into the operators that read them.

    Raises:
        UnavailableFeatureError: The package ``graphviz`` is not installed.
    """
    try:
        import graphviz
    except ImportError as e:
        raise _missing("the Python package graphviz is not installed") from e

    dot = graphviz.Digraph(graph.name, node_attr={"shape": "box", "fontname": "Arimo", "fontsize": "10"})
    for value in graph.inputs:
        if value.type.content is None and value.uses:
            dot.node(f"in_{value.name}", f"{value.name}\n{value.type}", shape="ellipse")
    drawn = [node for node in graph if not _is_inline(node)]
    for node in drawn:
        small = [_inline(v) for v in node.values if _inline(v)]
        label = node.op if node.call is None or node.op != "torch_call" else node.call.target
        dot.node(f"op_{node.name}", "\n".join([label, *small]))
    for node in drawn:
        for value in node.values:
            if not _inline(value) and value.type.content is None:
                dot.edge(_source(value), f"op_{node.name}", label=str(value.type), fontsize="8")
    for i, output in enumerate(graph.outputs):
        if output is not None and output.type.content is None:
            dot.node(f"out_{i}", f"output {i}", shape="ellipse")
            dot.edge(_source(output), f"out_{i}", label=str(output.type), fontsize="8")
    for target, value in graph.updates:
        dot.edge(_source(value), _source(target), style="dashed", label="update", fontsize="8", constraint="false")
    return str(dot.source)


def write_svg(graph: Graph, path: Path) -> Path:
    """Draw the graph.

    Returns:
        The path.

    Raises:
        UnavailableFeatureError: Nothing that draws (``graphviz-pure`` or ``dot``) is installed.
    """
    beside = Path(sys.executable).with_name("graphviz-pure")
    program = str(beside) if beside.exists() else shutil.which("graphviz-pure") or shutil.which("dot")
    if program is None:
        raise _missing("neither graphviz-pure nor dot is installed")
    result = subprocess.run([program, "-Tsvg"], input=to_dot(graph).encode(), capture_output=True, check=True)
    path.write_bytes(result.stdout)
    return path


def _missing(why: str) -> UnavailableFeatureError:
    return UnavailableFeatureError("A graph cannot be drawn here", why=why, fix="pip install torchair[viz]")


def _is_inline(node: Node) -> bool:
    return node.op in ("Const", "HostInts")


def _inline(value: Value) -> str:
    """Text of a small constant or of host numbers; empty for everything else."""
    if value.type.content is not None:
        return str(list(value.type.content))
    if value.producer is not None and value.producer.op == "Const":
        const = value.producer.attrs["value"]
        return str(const[0] if len(const) == 1 else const) if isinstance(const, tuple) and len(const) < 5 else "const"
    return ""


def _source(value: Value) -> str:
    return f"in_{value.name}" if value.producer is None else f"op_{value.producer.name}"
