"""The user's line of an FX node."""

from __future__ import annotations

import os
from pathlib import Path

import torch
from torch import fx

__all__ = ["SOURCE", "source_line"]

#: Key of ``meta`` for the line of a node that was made for something else than a line: an IR node.
SOURCE = "torchair_source"

#: Where PyTorch's files and ours are: a line there (of ``nn.Linear``, of a scope) is not the user's.
_NOT_USERS = tuple(
    f'File "{folder}{os.sep}' for folder in (Path(torch.__file__).parent, Path(__file__).resolve().parent)
)


def source_line(node: fx.Node) -> str:
    """The user's line of a node: ``model.py:5, in forward: return torch.sin(x)``; empty where FX does not know it.

    The innermost line outside PyTorch's files and ours; the innermost of all where all are inside.
    """
    if known := node.meta.get(SOURCE):
        return str(known)
    trace = node.meta.get("stack_trace") or node.stack_trace
    if not trace:
        return ""
    lines = [line.strip() for line in trace.strip().splitlines() if line.strip() and set(line.strip()) - set("^~ ")]
    frames = [i for i, line in enumerate(lines) if line.startswith("File ")]
    if not frames:
        return ""
    users = [i for i in frames if not lines[i].startswith(_NOT_USERS)]
    at = (users or frames)[-1]
    head = lines[at].removeprefix("File ").replace('"', "").replace(", line ", ":")
    return f"{head}: {lines[at + 1]}" if at + 1 < len(lines) and at + 1 not in frames else head
