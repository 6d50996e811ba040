"""Errors about arguments that also reach the user from inside a compiled function.

Dynamo cannot trace the making of our exceptions. It runs operators on fake tensors, though, and shows what they raise:
so the error is raised by an operator.
"""

from __future__ import annotations

from typing import Any, NoReturn

import torch

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
        _operator(wrong_type, what, why, fix)
    _refuse(wrong_type, what, why, fix)
    raise AssertionError("unreachable")
