"""The user's line of an FX node."""

from __future__ import annotations

from torch import fx

__all__ = ["source_line"]


def source_line(node: fx.Node) -> str:
    """The user's line of a node: ``model.py:5, in forward: return torch.sin(x)``; empty where FX does not know it."""
    trace = node.meta.get("stack_trace") or node.stack_trace
    if not trace:
        return ""
    lines = [line.strip() for line in trace.strip().splitlines() if line.strip() and set(line.strip()) - set("^~ ")]
    for i in range(len(lines) - 1, -1, -1):
        if lines[i].startswith("File "):
            head = lines[i].removeprefix("File ").replace('"', "").replace(", line ", ":")
            code = f": {lines[i + 1]}" if i + 1 < len(lines) else ""
            return f"{head}{code}"
    return ""
