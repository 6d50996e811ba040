"""Errors about arguments that also reach the user from inside a compiled function.

Dynamo cannot trace the making of our exceptions. Where a value is wrong, the graph ends there, and the error is raised
as in eager mode; with ``fullgraph=True`` Dynamo raises its own error with our text. Where a type is wrong, an operator
raises the error while Dynamo runs it on fake tensors: it lets a ``TypeError`` through as it is, also with
``fullgraph=True``, and any other only as its ``repr`` on one line.
"""

from __future__ import annotations

from typing import Any, NoReturn

import torch

from torchair._torch_compat import GRAPH_BREAK_TAKES_TEXT, break_graph
from torchair.errors import ArgumentError, ArgumentTypeError
from torchair.torchops.library import define

__all__ = ["refuse_type", "refuse_value"]


def _refuse(wrong_type: bool, what: str, why: str, fix: str) -> None:
    raise (ArgumentTypeError if wrong_type else ArgumentError)(what, why=why, fix=fix)


_operator: Any = define("refuse(bool wrong_type, str what, str why, str fix) -> ()", _refuse, _refuse, kept=True)


def refuse_type(what: str, why: str, fix: str) -> NoReturn:
    """Raise an :class:`ArgumentTypeError`, through Dynamo where it traces."""
    _raise(True, what, why, fix)


def refuse_value(what: str, why: str, fix: str) -> NoReturn:
    """Raise an :class:`ArgumentError`, through Dynamo where it traces."""
    _raise(False, what, why, fix)


def _raise(wrong_type: bool, what: str, why: str, fix: str) -> NoReturn:
    if torch.compiler.is_compiling():
        if wrong_type or not GRAPH_BREAK_TAKES_TEXT:
            _operator(wrong_type, what, why, fix)
        else:
            break_graph(f"{what} [{ArgumentError.code}]\n  why:\n    {why}\n  fix:\n    {fix}")
    _refuse(wrong_type, what, why, fix)
    raise AssertionError("unreachable")
