"""The loggers ``torchair`` and ``npugraph_ex``: line format, the level EVENT, and messages that are said once.

Modules log through ``get_logger(__name__)``: loggers below ``torchair`` print through its handler, and
``TORCH_LOGS="+torchair"`` or ``logger.setLevel(...)`` turns them on.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
import warnings
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Final

__all__ = [
    "EVENT_LEVEL",
    "LineFormatter",
    "TorchAirLogger",
    "compile_debug_requested",
    "get_logger",
    "logger",
    "npugraph_ex_logger",
    "warn_once",
]

#: Between WARNING and ERROR: one line per call of a compiled graph; with it on, errors are shown too.
EVENT_LEVEL: Final = 35
logging.addLevelName(EVENT_LEVEL, "EVENT")


def compile_debug_requested(environ: Mapping[str, str] | None = None) -> bool:
    """Whether ``TORCH_COMPILE_DEBUG=1`` is set.

    Args:
        environ: Where to look; the process environment when omitted.
    """
    return (os.environ if environ is None else environ).get("TORCH_COMPILE_DEBUG") == "1"


class TorchAirLogger(logging.Logger):
    """A standard logger with the two methods that upstream's loggers have in addition, and :meth:`info_once`."""

    def event(self, message: object, *args: object, **kwargs: Any) -> None:
        """Log at level EVENT; arguments as of :meth:`logging.Logger.info`."""
        if self.isEnabledFor(EVENT_LEVEL):
            self._log(EVENT_LEVEL, message, args, **_for_caller(kwargs))

    def warning_once(self, message: object, *args: object, **kwargs: Any) -> None:
        """Log a warning the first time that this text is logged through this logger.

        A message that the level suppresses does not count as said.
        """
        self._log_once(logging.WARNING, message, args, kwargs)

    def info_once(self, message: object, *args: object, **kwargs: Any) -> None:
        """Log at level INFO the first time; else as :meth:`warning_once`."""
        self._log_once(logging.INFO, message, args, kwargs)

    def _log_once(self, level: int, message: object, args: tuple[object, ...], kwargs: dict[str, Any]) -> None:
        if not self.isEnabledFor(level):
            return
        text = str(message) % args if args else str(message)
        with _said_lock:
            if (self.name, text) in _said:
                return
            _said.add((self.name, text))
        self._log(level, message, args, **_for_caller(_for_caller(kwargs)))


_said: set[tuple[str, str]] = set()
_said_lock = threading.Lock()


def _for_caller(kwargs: dict[str, Any]) -> dict[str, Any]:
    """Make the line show the file of our caller: ``logging`` skips only its own frames."""
    return {**kwargs, "stacklevel": kwargs.get("stacklevel", 1) + 1}


class LineFormatter(logging.Formatter):
    """``[LEVEL] NAME(pid,python):YYYY-mm-dd HH:MM:SS.mmm.uuu [file:line]thread message``.

    Args:
        date_separator: What stands between date and time: a space, or ``-`` in lines of the native layer.
    """

    def __init__(self, date_separator: str = " ") -> None:
        super().__init__()
        self._time_format = f"%Y-%m-%d{date_separator}%H:%M:%S"

    def formatMessage(self, record: logging.LogRecord) -> str:
        now = datetime.fromtimestamp(record.created).astimezone()
        milliseconds, microseconds = divmod(now.microsecond, 1000)
        package = record.name.partition(".")[0].upper()
        return (
            f"[{record.levelname}] {package}({record.process},{Path(sys.executable or 'python').name}):"
            f"{now.strftime(self._time_format)}.{milliseconds:03d}.{microseconds:03d} "
            f"[{record.filename}:{record.lineno}]{threading.get_native_id()} {record.message}"
        )


class _StandardOutputHandler(logging.StreamHandler[Any]):
    """Writes to what ``sys.stdout`` is at that moment, so that redirection works after the import too."""

    def emit(self, record: logging.LogRecord) -> None:
        self.stream = sys.stdout
        super().emit(record)


def get_logger(name: str, level: int | None = None) -> TorchAirLogger:
    """Return the logger of that name, made on first use.

    A top-level logger (``torchair``, ``npugraph_ex``) gets one handler to standard output and a level, unless somebody
    gave it one before; a logger below it has neither and passes its records up.

    Args:
        name: A dotted name, usually ``__name__``.
        level: The level of a top-level logger that has none. When omitted it is ERROR, or DEBUG with
            ``TORCH_COMPILE_DEBUG=1``.
    """
    result = logging.getLogger(name)
    if not isinstance(result, TorchAirLogger):
        # Not logging.setLoggerClass: that is process-wide, and too late where the user or torch made the logger
        # before us (``logging.getLogger("torchair").setLevel(...)`` ahead of the import).
        kind = type(result)
        result.__class__ = TorchAirLogger if kind is logging.Logger else type(kind.__name__, (TorchAirLogger, kind), {})
    assert isinstance(result, TorchAirLogger)
    if "." not in name and not any(isinstance(handler, _StandardOutputHandler) for handler in result.handlers):
        handler = _StandardOutputHandler(sys.stdout)
        handler.setFormatter(LineFormatter())
        result.addHandler(handler)
        result.propagate = False  # a handler of the root logger would print every line a second time
        if result.level == logging.NOTSET:
            default = logging.DEBUG if compile_debug_requested() else logging.ERROR
            result.setLevel(default if level is None else level)
    return result


def warn_once(text: str, *, stacklevel: int = 3) -> None:
    """A ``UserWarning`` the first time that this text is said: for what users must know at any level of the log."""
    with _said_lock:
        if text in _warned:
            return
        _warned.add(text)
    warnings.warn(text, UserWarning, stacklevel=stacklevel)


_warned: set[str] = set()

logger = get_logger("torchair")
npugraph_ex_logger = get_logger("npugraph_ex")
