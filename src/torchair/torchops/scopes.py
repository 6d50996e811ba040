"""``torch.ops.air.scope_enter`` and ``scope_exit``: markers that stay in the graph (specification, F-71).

They do nothing when they run. In GE mode every IR node made for FX nodes between them gets the attributes; the two
lists are keys and values.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torchair.torchops.library import define

__all__ = ["scope_enter", "scope_exit"]


def _enter(keys: Sequence[str], values: Sequence[str], need_execute: bool = False) -> None:
    pass


def _exit(need_execute: bool = False) -> None:
    pass


scope_enter: Any = define(
    "scope_enter(str[] keys, str[] values, bool need_execute=False) -> ()", _enter, _enter, kept=True
)
scope_exit: Any = define("scope_exit(bool need_execute=False) -> ()", _exit, _exit, kept=True)
