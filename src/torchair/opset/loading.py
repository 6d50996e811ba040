"""Loads the built-in operators when they are first needed (importing torchair must stay cheap)."""

from __future__ import annotations

import difflib
import functools
import importlib
import pkgutil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torchair.opset.operator import AscendOp

__all__ = ["find_operator", "import_all", "load_operators", "operator_names"]


@functools.cache
def load_operators() -> None:
    """Import every module of the opset."""
    import_all("torchair.opset")


def import_all(package: str) -> None:
    """Import every module of a package."""
    for module in pkgutil.iter_modules(importlib.import_module(package).__path__):
        importlib.import_module(f"{package}.{module.name}")


def operator_names() -> list[str]:
    """Names of the built-in IR operators."""
    from torchair.opset.operator import operators

    load_operators()
    return sorted(operators)


def find_operator(module: str, name: str) -> AscendOp:
    """The built-in IR operator of that name, for modules whose attributes are the operators.

    Raises:
        AttributeError: There is none.
    """
    hint = ""
    if not name.startswith("_"):
        from torchair.opset.operator import operators

        load_operators()
        if name in operators:
            return operators[name]
        lower = {known.lower(): known for known in operators}
        close = difflib.get_close_matches(name.lower(), lower, n=1)
        hint = f" (did you mean {lower[close[0]]!r}?)" if close else ""
    raise AttributeError(
        f"module {module!r} has no attribute {name!r}{hint}; an operator that is not built in is made with "
        "torchair.ge.custom_op"
    )
