"""Write ``docs/errors.md`` from the classes of ``torchair.errors``.

Usage: ``python -m scripts.error_page``. ``tests/errors/test_page.py`` checks that the page is current.
"""

from __future__ import annotations

import inspect
from pathlib import Path

from torchair import errors

PAGE = Path(__file__).parents[1] / "docs" / "errors.md"

_HEAD = """# Errors

Every exception that TorchAir raises on purpose is a class of `torchair.errors`. Its text says what happened (with the
code below), why, how to fix it, and where in your code. Inside `torch.compile`, Dynamo wraps what is raised while
compiling into its own `BackendCompilerFailed`; the text is the same. A wrong value that a function of ours is given
there (TA210: an option of `super_kernel`, say) ends the graph and is raised as in eager mode; with `fullgraph=True` the
text arrives in Dynamo's `Unsupported`. Each class also derives from the built-in class
named beside it, so that `except` clauses written for eager code keep working.

No line of yours is named where none is the cause (options, files, IR texts), and where nothing is traced any more: the
arguments of a later call (TA404, TA411), and what native programs, which stand for many lines, find while they run
(TA403: a tensor of another dtype or size than an operator before it promised).

| code | class | also a | when |
|---|---|---|---|
"""


def page() -> str:
    """The page as it should be."""
    rows: dict[str, str] = {}
    for name, cls in vars(errors).items():
        if inspect.isclass(cls) and issubclass(cls, errors.TorchAirError) and cls is not errors.TorchAirError:
            also = [b.__name__ for b in cls.__mro__ if b.__module__ == "builtins" and b not in (Exception, object)]
            when = (inspect.getdoc(cls) or "").partition("\n")[0].replace("``", "`")
            # Subclasses that only add a built-in class share the code of their base, which comes first.
            shown = ", ".join(f"`{a}`" for a in also if a != "BaseException")
            rows.setdefault(cls.code, f"| {cls.code} | `{name}` | {shown} | {when} |")
    return _HEAD + "\n".join(rows[code] for code in sorted(rows)) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page())
    print(PAGE)
