"""The entry point of the command ``torchair``, which is installed also where click is not."""

from __future__ import annotations

import sys

__all__ = ["main"]

_EXTRA = ("click", "rich")


def main() -> None:
    """Run the command line; says what to install where the extra ``cli`` is missing."""
    try:
        from torchair.cli.group import torchair
    except ModuleNotFoundError as error:
        if error.name not in _EXTRA:
            raise
        sys.stderr.write(f"The command line needs {error.name}: pip install 'torchair[cli]'\n")
        sys.exit(2)
    torchair(prog_name="torchair")
