"""The errors in a C++ compiler's output, each with the line of the author's own source that leads to it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePath

__all__ = ["Diagnostic", "read_diagnostics"]

_MESSAGE = re.compile(
    r"(?P<file>[^:\n]+):(?P<line>\d+):(?:(?P<column>\d+):)? (?P<kind>fatal error|error|warning|note): (?P<text>.*)"
)
#: How a template of a header was reached: gcc says it before the error, clang (a note) after it.
_REACHED = re.compile(
    r"(?:In file included from |\s+from )?(?P<file>[^:\n]+):(?P<line>\d+):(?:(?P<column>\d+):)?"
    r"(?:\s+(?:required from|recursively required|in .constexpr. expansion).*|[,:]?)$"
)
#: What gcc calls something that it has complained about already.
_CONSEQUENCE = "<expression error>"
_CLANG_REACHED = re.compile(r"in instantiation of|requested here")


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One error.

    Attributes:
        where: ``file:line`` or ``file:line:column`` of the author's source; of a header where none is named.
        message: What is wrong.
        excerpt: The lines of source that the compiler shows, with its marks below.
    """

    where: str
    message: str
    excerpt: tuple[str, ...] = ()

    def __str__(self) -> str:
        return "\n".join([f"{self.where}: {self.message}", *self.excerpt])


def read_diagnostics(text: str) -> tuple[Diagnostic, ...]:
    """The errors in the output of gcc or clang, in order; of one place the first: a template has one for each type.

    A path that is relative is the author's. An error inside another header is told at the author's line that led
    there, with the header's name behind the message.
    """
    found: dict[str, Diagnostic] = {}
    reached = ""
    lines = text.splitlines()
    for index, line in enumerate(lines):
        match = _MESSAGE.match(line)
        if match is None:
            via = _REACHED.match(line)
            if via is not None and _is_own(via["file"]):
                reached = _place(via)
            continue
        if match["kind"] not in ("error", "fatal error") or (found and _CONSEQUENCE in match["text"]):
            continue
        following = _excerpt(lines[index + 1 :])
        if _is_own(match["file"]):
            error = Diagnostic(_place(match), match["text"], following)
        else:
            where = _noted(lines[index + 1 :]) or reached or _place(match)
            inside = "" if where == _place(match) else f" (in {PurePath(match['file']).name}:{match['line']})"
            error = Diagnostic(where, match["text"] + inside)
        found.setdefault(error.where, error)
    return tuple(found.values())


def _is_own(file: str) -> bool:
    return not PurePath(file).is_absolute()


def _place(match: re.Match[str]) -> str:
    return ":".join(part for part in (match["file"], match["line"], match["column"]) if part)


def _excerpt(lines: list[str]) -> tuple[str, ...]:
    """What follows a message up to the next one: ``  12 | code`` and the marks below."""
    taken = []
    for line in lines:
        if not re.match(r"\s+\d* ?\|", line):
            break
        taken.append(line)
    return tuple(taken[:3])


def _noted(lines: list[str]) -> str:
    """The author's line in the notes of clang that follow an error; empty if none."""
    for line in lines:
        match = _MESSAGE.match(line)
        if match is None:
            continue
        if match["kind"] != "note":
            return ""
        if _is_own(match["file"]) and _CLANG_REACHED.search(match["text"]):
            return _place(match)
    return ""
