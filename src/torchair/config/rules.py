"""What options accept: one rule a kind of value, each of which checks a value when it is assigned.

The kinds, and the built-in exception class of each, are upstream's; the error's text names the option, the value
given and what is allowed.
"""

from __future__ import annotations

import difflib
import math
import os
import re
import reprlib
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any, ClassVar

from torchair.errors import ConfigFileNotFoundError, ConfigTypeError, ConfigValueError, TorchAirError

__all__ = [
    "INT64_MAX",
    "CallableRule",
    "Choice",
    "DictRule",
    "EngineName",
    "ExistingDirectory",
    "ExistingFile",
    "Flag",
    "GraphPool",
    "IntList",
    "IntRange",
    "JsonFile",
    "PathText",
    "Pattern",
    "Rule",
    "Text",
    "TextList",
    "show",
]

INT64_MAX = 2**63 - 1

_NOT_ACCEPTED = "An option was given a value that it does not accept"

_repr = reprlib.Repr()
_repr.maxstring = _repr.maxother = 200
_repr.maxlist = _repr.maxtuple = _repr.maxdict = 12


def show(value: object) -> str:
    """Return ``repr(value)``, cut where it is very long and safe where ``repr`` raises."""
    return _repr.repr(value)


@dataclass(frozen=True, slots=True)
class Rule(ABC):
    """What an option accepts.

    Attributes:
        nullable: Whether None is accepted as well, since it is the option's default.
    """

    nullable: bool = field(default=False, kw_only=True)
    error: ClassVar[type[TorchAirError]] = ConfigValueError
    """What a value of a wrong kind raises."""

    @abstractmethod
    def allowed(self) -> str:
        """Say what is accepted, as the end of the sentence "allowed: ..."."""

    def accepted(self) -> str:
        """What :meth:`allowed` says, with None where the option takes it."""
        allowed = self.allowed()
        return f"{allowed}, or None" if self.nullable and "None" not in allowed else allowed

    @abstractmethod
    def convert(self, path: str, value: object) -> Any:
        """Return the value to store.

        Raises:
            ConfigValueError, ConfigTypeError, ConfigFileNotFoundError: The value is not accepted.
        """

    def choices(self) -> list[Any] | None:
        """Return the allowed values, the bounds of an int, or None where they cannot be listed."""
        return None

    def refuse(
        self, path: str, value: object, *, error: type[TorchAirError] | None = None, fix: str = ""
    ) -> TorchAirError:
        """Make the error for a value that is not accepted."""
        why = [f"{path} = {show(value)}", f"allowed: {self.accepted()}"]
        return (error or self.error)(_NOT_ACCEPTED, why=why, fix=fix)


@dataclass(frozen=True, slots=True)
class Choice(Rule):
    """One of a list of values, by equality."""

    values: tuple[Any, ...]

    def allowed(self) -> str:
        return ", ".join(map(repr, self.values))

    def choices(self) -> list[Any]:
        return list(self.values)

    def convert(self, path: str, value: object) -> Any:
        for candidate in self.values:
            if _equal(value, candidate):
                return candidate
        names = [candidate for candidate in self.values if isinstance(candidate, str)]
        close = difflib.get_close_matches(value, names, n=1) if isinstance(value, str) else []
        raise self.refuse(path, value, fix=f"did you mean {close[0]!r}?" if close else "")


@dataclass(frozen=True, slots=True)
class Flag(Choice):
    """True or False; 1 and 0 pass, since they are equal to them."""

    values: tuple[Any, ...] = (True, False)


@dataclass(frozen=True, slots=True)
class EngineName(Rule):
    """An engine of ours, or one that an installed package offers in the entry-point group ``torchair.engines``."""

    BUILT_IN: ClassVar[tuple[str, ...]] = ("auto", "reference", "inductor", "native")

    def allowed(self) -> str:
        return f"{', '.join(map(repr, self.choices()))} (more from the entry-point group 'torchair.engines')"

    def choices(self) -> list[str]:
        offered = {entry.name for entry in metadata.entry_points(group="torchair.engines")}
        return [*self.BUILT_IN, *sorted(offered.difference(self.BUILT_IN))]

    def convert(self, path: str, value: object) -> str:
        # The built-in names first: looking at every installed distribution takes milliseconds.
        if isinstance(value, str) and (value in self.BUILT_IN or value in self.choices()):
            return value
        close = difflib.get_close_matches(value, self.choices(), n=1) if isinstance(value, str) else []
        raise self.refuse(path, value, fix=f"did you mean {close[0]!r}?" if close else "")


@dataclass(frozen=True, slots=True)
class IntRange(Rule):
    """An int (or bool) within bounds, both included."""

    minimum: int
    maximum: int = INT64_MAX

    def allowed(self) -> str:
        return f"int in [{self.minimum}, {self.maximum}]"

    def choices(self) -> list[int]:
        return [self.minimum, self.maximum]

    def convert(self, path: str, value: object) -> int:
        if not isinstance(value, int) or not self.minimum <= value <= self.maximum:
            raise self.refuse(path, value)
        return int(value)


@dataclass(frozen=True, slots=True)
class IntList(Rule):
    """A list or tuple of ints; None is the empty list."""

    error: ClassVar[type[TorchAirError]] = ConfigTypeError

    def allowed(self) -> str:
        return "list or tuple of int, or None (an empty list)"

    def convert(self, path: str, value: object) -> list[int]:
        if value is None:
            return []
        if not isinstance(value, list | tuple) or not all(isinstance(item, int) for item in value):
            raise self.refuse(path, value)
        return list(value)


@dataclass(frozen=True, slots=True)
class TextList(Rule):
    """A list or tuple of strings; None is the empty list."""

    error: ClassVar[type[TorchAirError]] = ConfigTypeError

    def allowed(self) -> str:
        return "list or tuple of str, or None (an empty list)"

    def convert(self, path: str, value: object) -> list[str]:
        if value is None:
            return []
        if isinstance(value, str):
            raise self.refuse(path, value, fix=f"put it into a list: [{value!r}]")
        if not isinstance(value, list | tuple) or not all(isinstance(item, str) for item in value):
            raise self.refuse(path, value)
        return list(value)


@dataclass(frozen=True, slots=True)
class Text(Rule):
    """Any string, or None."""

    error: ClassVar[type[TorchAirError]] = ConfigTypeError

    def allowed(self) -> str:
        return "str or None"

    def convert(self, path: str, value: object) -> str | None:
        if value is not None and not isinstance(value, str):
            raise self.refuse(path, value)
        return value


@dataclass(frozen=True, slots=True)
class PathText(Rule):
    """A path that need not exist yet, stored with links and ``..`` resolved; or None."""

    error: ClassVar[type[TorchAirError]] = ConfigTypeError

    def allowed(self) -> str:
        return "path as str, or None"

    def convert(self, path: str, value: object) -> str | None:
        if value is None:
            return None
        text = _path_text(value)
        if text is None:
            raise self.refuse(path, value)
        try:
            return os.path.realpath(text)  # not Path.resolve, which raises for a loop of links
        except ValueError:  # a null byte
            raise self.refuse(path, value, error=ConfigValueError) from None


@dataclass(frozen=True, slots=True)
class DictRule(Rule):
    """A dict, or None."""

    error: ClassVar[type[TorchAirError]] = ConfigTypeError

    def allowed(self) -> str:
        return "dict or None"

    def convert(self, path: str, value: object) -> dict[Any, Any] | None:
        if value is not None and not isinstance(value, dict):
            raise self.refuse(path, value)
        return None if value is None else dict(value)


@dataclass(frozen=True, slots=True)
class CallableRule(Rule):
    """A callable, or None."""

    error: ClassVar[type[TorchAirError]] = ConfigTypeError

    def allowed(self) -> str:
        return "callable or None"

    def convert(self, path: str, value: object) -> Callable[..., Any] | None:
        if value is not None and not callable(value):
            raise self.refuse(path, value)
        return value


@dataclass(frozen=True, slots=True)
class ExistingFile(Rule):
    """The path of a regular file that exists, or None."""

    error: ClassVar[type[TorchAirError]] = ConfigFileNotFoundError

    def allowed(self) -> str:
        return "path of an existing file, or None"

    def convert(self, path: str, value: object) -> str | None:
        if value is None:
            return None
        text = _path_text(value)
        if text is None or not _exists(text, Path.is_file):
            raise self.refuse(path, value)
        return text


@dataclass(frozen=True, slots=True)
class JsonFile(ExistingFile):
    """The path of a ``.json`` file that exists, or None."""

    def allowed(self) -> str:
        return "path of an existing file whose name ends in .json, or None"

    def convert(self, path: str, value: object) -> str | None:
        if isinstance(value, str) and not value:
            raise self.refuse(path, value, error=ConfigValueError)
        # Not super(): a dataclass with slots is a second class, which the zero-argument form does not know.
        text = ExistingFile.convert(self, path, value)
        if text is not None and not text.endswith(".json"):
            raise self.refuse(path, value)
        return text


@dataclass(frozen=True, slots=True)
class ExistingDirectory(Rule):
    """The path of a directory that exists."""

    error: ClassVar[type[TorchAirError]] = ConfigFileNotFoundError

    def allowed(self) -> str:
        return "path of an existing directory"

    def convert(self, path: str, value: object) -> str:
        text = _path_text(value)
        if text is None or not _exists(text, Path.is_dir):
            raise self.refuse(path, value)
        return text


@dataclass(frozen=True, slots=True)
class Pattern(Rule):
    """A string that matches a pattern as a whole.

    Attributes:
        regex: The pattern.
        meaning: What it describes, in words.
        example: A correct value.
    """

    regex: str
    meaning: str
    example: str

    def allowed(self) -> str:
        return self.meaning

    def convert(self, path: str, value: object) -> str:
        if not isinstance(value, str) or re.fullmatch(self.regex, value) is None:
            raise self.refuse(path, value, fix=f"for example {self.example!r}")
        return value


@dataclass(frozen=True, slots=True)
class GraphPool(Rule):
    """A graph pool handle as device modules give them: two ints, at least one of them zero; or None."""

    error: ClassVar[type[TorchAirError]] = ConfigTypeError

    def allowed(self) -> str:
        return "graph pool handle (tuple of two ints, at least one of them 0), or None"

    def convert(self, path: str, value: object) -> tuple[int, int] | None:
        if value is None:
            return None
        if not isinstance(value, tuple) or len(value) != 2 or not all(isinstance(part, int) for part in value):
            raise self.refuse(path, value)
        if math.prod(value) != 0:
            raise self.refuse(path, value)
        return (int(value[0]), int(value[1]))


def _equal(value: object, candidate: object) -> bool:
    """Compare without trusting ``==`` of foreign types: a tensor of several elements has no truth value."""
    try:
        return bool(value == candidate)
    except Exception:  # noqa: BLE001  any failure to compare means that it is none of our values
        return False


def _path_text(value: object) -> str | None:
    """Return a path as text; None for what is no path. An int would be taken for an open file by ``os.stat``."""
    if not isinstance(value, str | os.PathLike):
        return None
    text = os.fspath(value)
    return text if isinstance(text, str) else None


def _exists(text: str, test: Callable[[Path], bool]) -> bool:
    try:
        return bool(text) and test(Path(text))
    except (OSError, ValueError):  # a directory that we may not read, a name too long, a null byte
        return False
