"""Options that hold for a whole process: the first compiled graph fixes them."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from types import MappingProxyType

from torchair.errors import ProcessOptionsError

__all__ = ["PROCESS_OPTIONS", "ProcessOptions"]


class ProcessOptions:
    """The engine strings that the process runs with, from the first compile on; safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._fixed: dict[str, str] | None = None

    @property
    def fixed(self) -> MappingProxyType[str, str] | None:
        """What the first compile fixed; None before it."""
        with self._lock:
            return None if self._fixed is None else MappingProxyType(self._fixed)

    def fix(self, strings: Iterable[tuple[str, str]]) -> bool:
        """Fix the options, or check that they are among those that are fixed.

        Args:
            strings: Engine string and value, as in :attr:`torchair.config.Options.process_strings`.

        Returns:
            Whether this call fixed them, so that the engine starts now.

        Raises:
            ProcessOptionsError: An option has another value, or none, among those that are fixed.
        """
        asked = dict(strings)
        with self._lock:
            if self._fixed is None:
                self._fixed = asked
                return True
            fixed = self._fixed
        different = {name: value for name, value in asked.items() if fixed.get(name) != value}
        if not different:
            return False
        why = [f"{name}: fixed {_shown(fixed.get(name))}, asked for {value!r}" for name, value in different.items()]
        why.append(f"fixed by the first compile: {', '.join(f'{name}={value}' for name, value in fixed.items())}")
        raise ProcessOptionsError(
            "Unsupport twice initialtion with different options",  # upstream's words, which users search for
            why=why,
            fix="Use the same process-wide options for every graph, or another process for the other values.",
        )

    def reset(self) -> None:
        """Forget what was fixed: for tests."""
        with self._lock:
            self._fixed = None


def _shown(value: str | None) -> str:
    return "as not set" if value is None else f"to {value!r}"


PROCESS_OPTIONS = ProcessOptions()
"""The options of this process."""
