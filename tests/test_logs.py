"""The loggers: line format, levels, and messages that are said once."""

from __future__ import annotations

import contextlib
import io
import logging
import os
import re
import subprocess
import sys
import threading
from datetime import datetime
from pathlib import Path

import pytest

from torchair.logs import (
    EVENT_LEVEL,
    LineFormatter,
    TorchAirLogger,
    compile_debug_requested,
    get_logger,
    logger,
    npugraph_ex_logger,
)

LINE = re.compile(
    r"\[(?P<level>[A-Z]+)\] (?P<package>[A-Z_]+)\((?P<pid>\d+),(?P<python>[^)]+)\):"
    r"(?P<time>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}\.\d{3}) "
    r"\[(?P<file>[^:\]]+):(?P<line>\d+)\](?P<thread>\d+) (?P<message>.*)"
)


@pytest.fixture(params=[logger, npugraph_ex_logger], ids=["torchair", "npugraph_ex"])
def a_logger(request):
    """Both loggers, with their level put back afterwards."""
    level = request.param.level
    yield request.param
    request.param.setLevel(level)


def output(log: TorchAirLogger, level: int, action) -> list[str]:
    """Return the lines that ``action`` prints to standard output while the logger is at ``level``."""
    log.setLevel(level)
    stream = io.StringIO()
    with contextlib.redirect_stdout(stream):
        action()
    return stream.getvalue().splitlines()


def test_line_format(a_logger):
    before = datetime.now().replace(microsecond=0)
    (text,) = output(a_logger, logging.DEBUG, lambda: a_logger.info("graph: %s of %d", "graph()", 3))
    match = LINE.fullmatch(text)
    assert match is not None, text
    assert match["level"] == "INFO"
    assert match["package"] == a_logger.name.upper()
    assert int(match["pid"]) == os.getpid()
    assert match["python"] == Path(sys.executable).name
    time = datetime.strptime(match["time"][:19], "%Y-%m-%d %H:%M:%S")
    assert before <= time <= datetime.now()
    assert match["file"] == Path(__file__).name
    assert int(match["thread"]) == threading.get_native_id()
    assert match["message"] == "graph: graph() of 3"


def test_microseconds_are_two_groups_of_three():
    record = logging.LogRecord("torchair", logging.INFO, "/a/b.py", 7, "text", None, None)
    record.created = datetime(2024, 1, 2, 3, 4, 5, 6_007).timestamp()
    assert ":2024-01-02 03:04:05.006.007 [b.py:7]" in LineFormatter().format(record)
    assert ":2024-01-02-03:04:05.006.007 [b.py:7]" in LineFormatter("-").format(record)


def test_several_lines_and_tracebacks_are_kept(a_logger):
    def fail() -> None:
        try:
            raise KeyError("why")
        except KeyError:
            a_logger.exception("one\ntwo")

    lines = output(a_logger, logging.ERROR, fail)
    assert lines[0].endswith(" one")
    assert lines[1] == "two"
    assert lines[2] == "Traceback (most recent call last):"
    assert lines[-1] == "KeyError: 'why'"


@pytest.mark.parametrize(
    "level, shown",
    [
        (logging.DEBUG, ["DEBUG", "INFO", "WARNING", "EVENT", "ERROR"]),
        (logging.WARNING, ["WARNING", "EVENT", "ERROR"]),
        (EVENT_LEVEL, ["EVENT", "ERROR"]),
        (logging.ERROR, ["ERROR"]),
    ],
)
def test_levels(a_logger, level, shown):
    def log() -> None:
        a_logger.debug("text")
        a_logger.info("text")
        a_logger.warning("text")
        a_logger.event("text")
        a_logger.error("text")

    assert [line.partition("]")[0][1:] for line in output(a_logger, level, log)] == shown


def test_event_has_arguments_and_shows_its_caller(a_logger):
    (text,) = output(a_logger, EVENT_LEVEL, lambda: a_logger.event("took %d us", 5))
    match = LINE.fullmatch(text)
    assert match is not None, text
    assert (match["level"], match["message"], match["file"]) == ("EVENT", "took 5 us", Path(__file__).name)


def test_event_can_show_an_outer_caller(a_logger):
    def helper() -> None:
        a_logger.event("text", stacklevel=2)

    line = sys._getframe().f_lineno + 1
    (text,) = output(a_logger, EVENT_LEVEL, lambda: helper())
    match = LINE.fullmatch(text)
    assert match is not None, text
    assert int(match["line"]) == line


def test_warning_once(a_logger):
    name = f"test {os.urandom(4).hex()}"

    def warn() -> None:
        for _ in range(3):
            a_logger.warning_once("%s %d", name, 1)
            a_logger.warning_once("%s %d", name, 2)
            a_logger.warning_once(f"{name} 1")

    lines = output(a_logger, logging.WARNING, warn)
    assert [line.partition(name)[2] for line in lines] == [" 1", " 2"]
    assert all(Path(__file__).name in line for line in lines)


def test_info_once(a_logger):
    name = f"test {os.urandom(4).hex()}"

    def say() -> None:
        for _ in range(2):
            a_logger.info_once("%s %d", name, 1)

    assert output(a_logger, logging.WARNING, say) == []
    (line,) = output(a_logger, logging.INFO, say)
    assert line.startswith("[INFO]")
    assert line.endswith(f"{name} 1")
    assert Path(__file__).name in line


def test_a_suppressed_warning_counts_as_not_said(a_logger):
    name = f"test {os.urandom(4).hex()}"
    assert output(a_logger, logging.ERROR, lambda: a_logger.warning_once(name)) == []
    assert len(output(a_logger, logging.WARNING, lambda: a_logger.warning_once(name))) == 1


def test_a_percent_sign_without_arguments_is_text(a_logger):
    name = f"100% of {os.urandom(4).hex()}"
    (line,) = output(a_logger, logging.WARNING, lambda: a_logger.warning_once(name))
    assert line.endswith(name)


def test_loggers_below_print_through_the_package(a_logger):
    below = get_logger(f"{a_logger.name}.convert.driver")
    assert isinstance(below, TorchAirLogger)
    assert below.handlers == []
    (line,) = output(a_logger, logging.INFO, lambda: below.info("text"))
    match = LINE.fullmatch(line)
    assert match is not None, line
    assert match["package"] == a_logger.name.upper()


def test_the_root_logger_does_not_print_it_again(a_logger):
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    logging.getLogger().addHandler(handler)
    try:
        output(a_logger, logging.INFO, lambda: a_logger.info("text"))
    finally:
        logging.getLogger().removeHandler(handler)
    assert stream.getvalue() == ""


def test_asking_again_gives_the_same_logger_with_one_handler(a_logger):
    assert get_logger(a_logger.name) is a_logger
    assert logging.getLogger(a_logger.name) is a_logger
    # pytest adds handlers of its own to loggers that do not propagate.
    ours = [handler for handler in a_logger.handlers if isinstance(handler.formatter, LineFormatter)]
    assert len(ours) == 1


def run(code: str, **variables: str) -> str:
    """Run code in a process of its own, and return what it prints."""
    environment = {key: value for key, value in os.environ.items() if key not in {"TORCH_COMPILE_DEBUG", "TORCH_LOGS"}}
    environment |= variables
    return subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    ).stdout


@pytest.mark.parametrize("name", ["torchair", "npugraph_ex"])
@pytest.mark.parametrize("debug, level", [("", "ERROR"), ("0", "ERROR"), ("1", "DEBUG")])
def test_default_level(name, debug, level):
    code = f"import logging, torchair.logs; print(logging.getLevelName(logging.getLogger({name!r}).level))"
    assert run(code, TORCH_COMPILE_DEBUG=debug) == f"{level}\n"


def test_a_level_that_somebody_set_before_the_import_stays():
    code = (
        "import logging; logging.getLogger('torchair').setLevel(logging.INFO); "
        "from torchair.logs import logger; logger.info('hello'); logger.event('event')"
    )
    first, second = run(code).splitlines()
    assert first.startswith("[INFO] TORCHAIR(")
    assert second.startswith("[EVENT] TORCHAIR(")


def test_a_logger_class_of_the_user_keeps_its_methods():
    code = (
        "import logging\n"
        "class Mine(logging.Logger):\n"
        "    def shout(self, text): self.error(text.upper())\n"
        "logging.setLoggerClass(Mine)\n"
        "from torchair.logs import logger\n"
        "logger.shout('hello'); print(logging.getLoggerClass() is Mine, hasattr(logger, 'warning_once'))"
    )
    first, second = run(code).splitlines()
    assert first.endswith(" HELLO")
    assert second == "True True"


def test_torch_logs_turns_them_on():
    code = "import torch; from torchair.logs import get_logger; get_logger('torchair.convert').debug('hello')"
    assert "hello" in run(code, TORCH_LOGS="+torchair")
    assert run(code) == ""


def test_compile_debug_requested():
    assert compile_debug_requested({"TORCH_COMPILE_DEBUG": "1"})
    assert not compile_debug_requested({"TORCH_COMPILE_DEBUG": "0"})
    assert not compile_debug_requested({})
