"""How option values are written as engine strings (specification, appendix 1)."""

from __future__ import annotations

import os

__all__ = [
    "ALWAYS_GRAPH",
    "ALWAYS_PROCESS",
    "as_given",
    "digit",
    "jit_code",
    "real_path",
    "sorting_code",
    "static_ops_limit",
    "word",
]

#: Engine strings that do not depend on any option.
ALWAYS_GRAPH = {"ge.exec.atomicCleanPolicy": "1"}
ALWAYS_PROCESS = {"ge.exec.staticMemoryPolicy": "2", "ge.opSelectImplmode": "high_precision"}

_SORTING = {"BFS": "0", "DFS": "1", "RDFS": "2", "StableRDFS": "3"}


def digit(value: bool | None) -> str | None:
    """Write a boolean as ``1`` or ``0``."""
    return None if value is None else str(int(value))


def word(value: bool | None) -> str | None:
    """Write a boolean as ``true`` or ``false``."""
    return None if value is None else str(value).lower()


def as_given(value: str | None) -> str | None:
    """Write a text as it is, and leave an empty one out."""
    return value or None


def real_path(value: str | None) -> str | None:
    """Write a path with links and ``..`` resolved."""
    return os.path.realpath(value) if value else None


def sorting_code(value: str) -> str:
    """Write the kind of topological sorting as its number."""
    return _SORTING[value]


def static_ops_limit(value: int | None) -> str | None:
    """Write the least size of a static part; 0 and 1 act as 2 (upstream documents them as unsupported)."""
    return None if value is None else str(2 if value in {0, 1} else value)


def jit_code(value: str) -> str:
    """Write the only way of operator compilation, ``auto``, as its number."""
    return {"auto": "2"}[value]
