"""Sample calls from a file: ``def samples():`` yields ``(args, kwargs)`` (decision 22)."""

from __future__ import annotations

import inspect
import itertools
import linecache
import traceback
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import GeneratorType, ModuleType
from typing import Any

from torchair.errors import SampleFileError

__all__ = ["load_samples"]

#: Calls that are taken from one file; a generator may have no end.
_LIMIT = 64

_FIX = """\
A file of sample calls is Python:

import torch

def samples():
    yield (torch.randn(2, 3), 0.5), {}
    yield (torch.randn(4, 1), 2.0), {"dim": 0}"""


def load_samples(path: str | Path) -> list[tuple[tuple[Any, ...], dict[str, Any]]]:
    """The calls that ``samples()`` of a file yields, at most 64.

    Args:
        path: A Python file. It is run.

    Returns:
        Arguments and keyword arguments of each call.

    Raises:
        SampleFileError: The file cannot be read or run, has no function ``samples``, or that yields something else.
    """
    path = Path(path)
    try:
        source = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as e:
        reason = e.strerror if isinstance(e, OSError) else "it is no text in UTF-8"
        raise _error(f"it cannot be read: {reason}", str(path)) from e
    module = ModuleType(path.stem)
    module.__file__ = str(path)
    try:
        code = compile(source, str(path), "exec")
    except (SyntaxError, ValueError) as e:
        line = getattr(e, "lineno", None)
        raise _error(f"it is not Python: {e.args[0]}", _place(path, line)) from e
    linecache.cache[str(path)] = (len(source), None, source.splitlines(keepends=True), str(path))
    try:
        exec(code, module.__dict__)  # noqa: S102  # the user's own file, which the user asked to run
    except Exception as e:
        raise _raised(path, e) from e
    function = vars(module).get("samples")
    if not callable(function):
        reason = "it defines no function samples()" if function is None else f"samples is a {type(function).__name__}"
        raise _error(reason, str(path))
    return list(_calls(path, function))


def _calls(path: Path, function: Any) -> Iterator[tuple[tuple[Any, ...], dict[str, Any]]]:
    try:
        made = function()
        items = iter(made)
    except TypeError as e:
        if _line_in(path, e) is not None and e.__traceback__ is not None and e.__traceback__.tb_next is not None:
            raise _raised(path, e) from e
        raise _error(f"samples() gives no calls: {e}", _place(path, _definition(function))) from e
    except Exception as e:
        raise _raised(path, e) from e
    for number in itertools.count():
        if number >= _LIMIT:
            return
        try:
            item = next(items)
        except StopIteration:
            break
        except Exception as e:
            raise _raised(path, e) from e
        problem = _problem(item)
        if problem:
            frame = items.gi_frame if isinstance(items, GeneratorType) else None
            line = frame.f_lineno if frame is not None else _definition(function)
            raise _error(f"sample {number} {problem}", _place(path, line))
        yield tuple(item[0]), dict(item[1])
    if number == 0:
        raise _error("samples() yields no call", _place(path, _definition(function)))


def _problem(item: Any) -> str:
    """What is wrong with one sample; empty if it is a call."""
    if not isinstance(item, tuple | list) or len(item) != 2:
        kind = f"a {type(item).__name__}" + (f" of {len(item)}" if isinstance(item, tuple | list) else "")
        return f"is {kind}, not a pair (args, kwargs)"
    args, kwargs = item
    if not isinstance(args, Sequence) or isinstance(args, str | bytes):
        return f"has arguments that are a {type(args).__name__}, not a tuple; of one argument it is (x,)"
    if not isinstance(kwargs, Mapping):
        return f"has keyword arguments that are a {type(kwargs).__name__}, not a dict"
    if wrong := [k for k in kwargs if not isinstance(k, str)]:
        return f"has the keyword {wrong[0]!r}, which is a {type(wrong[0]).__name__}, not a str"
    return ""


def _definition(function: Any) -> int | None:
    code = getattr(inspect.unwrap(function), "__code__", None)
    return code.co_firstlineno if code is not None else None


def _raised(path: Path, error: Exception) -> SampleFileError:
    text = str(error).strip().splitlines()
    return _error(
        f"it raised {type(error).__name__}" + (f": {text[0]}" if text else ""), _place(path, _line_in(path, error))
    )


def _line_in(path: Path, error: Exception) -> int | None:
    """The last line of the file that an exception came through."""
    lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == str(path)]
    return lines[-1] if lines else None


def _place(path: Path, line: int | None) -> str:
    if line is None:
        return str(path)
    text = linecache.getline(str(path), line).strip()
    return f"{path}:{line}" + (f": {text}" if text else "")


def _error(reason: str, where: str) -> SampleFileError:
    return SampleFileError("A file of sample calls cannot be used", why=reason, fix=_FIX, where=where)
