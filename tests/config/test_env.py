"""The environment variables."""

from __future__ import annotations

import logging
import re
import warnings
from pathlib import Path

import pytest

import torchair
from torchair import logs
from torchair.config import Environment
from torchair.logs import EVENT_LEVEL


@pytest.fixture(autouse=True)
def _nothing_warned_yet(monkeypatch):
    monkeypatch.setattr(logs, "_warned", set())


def read(**variables: str) -> Environment:
    """Read these variables and nothing else; a warning is an error."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return Environment.read(variables)


def test_nothing_set():
    assert read() == Environment()
    assert Environment() == Environment(
        cache_home=None,
        cxx="",
        max_jobs=None,
        native_log_level=logging.ERROR,
        compile_debug=False,
        local_world_size=None,
        dynamic_shape_multi_stream=False,
        hccl_op_expansion_mode=None,
        dump_ge_graph=0,
        break_graph_ops=(),
        platform_config=None,
        single_lane=False,
        huge_pages=True,
    )


def test_everything_set():
    environment = read(
        TORCHAIR_CACHE_HOME="/cache",
        CXX="ccache clang++ ",
        MAX_JOBS="3",
        TNG_LOG_LEVEL="1",
        TORCH_COMPILE_DEBUG="1",
        LOCAL_WORLD_SIZE="8",
        ENABLE_DYNAMIC_SHAPE_MULTI_STREAM="1",
        HCCL_OP_EXPANSION_MODE="AIV",
        DUMP_GE_GRAPH="2",
        BREAK_GRAPH_OP_LIST="slice, NN.LINEAR",
        TORCHAIR_PLATFORM_CONFIG="/platform.ini",
        TORCHAIR_SINGLE_LANE="1",
        TORCHAIR_HUGE_PAGES="0",
    )
    assert environment == Environment(
        cache_home="/cache",
        cxx="ccache clang++",
        max_jobs=3,
        native_log_level=logging.INFO,
        compile_debug=True,
        local_world_size=8,
        dynamic_shape_multi_stream=True,
        hccl_op_expansion_mode="AIV",
        dump_ge_graph=2,
        break_graph_ops=("SLICE", "NN.LINEAR"),
        platform_config="/platform.ini",
        single_lane=True,
        huge_pages=False,
    )


def test_reads_the_process_environment(monkeypatch):
    monkeypatch.setenv("TORCHAIR_CACHE_HOME", "/elsewhere")
    assert Environment.read().cache_home == "/elsewhere"
    monkeypatch.delenv("TORCHAIR_CACHE_HOME")
    assert Environment.read().cache_home is None


@pytest.mark.parametrize(
    "text, level",
    [("0", logging.DEBUG), ("1", logging.INFO), ("2", logging.WARNING), ("3", logging.ERROR), ("4", EVENT_LEVEL)],
)
def test_native_log_level(text, level):
    assert read(TNG_LOG_LEVEL=text).native_log_level == level
    assert read(TNG_LOG_LEVEL=text, TORCH_COMPILE_DEBUG="1").native_log_level == level


def test_native_log_level_follows_compile_debug_where_it_is_not_set():
    assert read(TORCH_COMPILE_DEBUG="1").native_log_level == logging.DEBUG
    assert read(TORCH_COMPILE_DEBUG="0").native_log_level == logging.ERROR


@pytest.mark.parametrize("text", ["5", "-1", "DEBUG", "", " 1", "01"])
def test_a_bad_native_log_level_is_error_with_one_warning(text):
    def read_often() -> list[Environment]:
        return [Environment.read({"TNG_LOG_LEVEL": text}) for _ in range(3)]

    with pytest.warns(UserWarning, match="TNG_LOG_LEVEL") as caught:
        environments = read_often()
    assert [environment.native_log_level for environment in environments] == [logging.ERROR] * 3
    assert [str(warning.message) for warning in caught] == [
        f"TNG_LOG_LEVEL={text!r} is none of 0 (DEBUG), 1 (INFO), 2 (WARNING), 3 (ERROR), 4 (EVENT); the level is ERROR"
    ]
    assert caught[0].filename == __file__


@pytest.mark.parametrize("text", ["", "0", "-1", "x", "1.5", " 1", "\u0661", "9" * 5000])
def test_a_bad_world_size_counts_as_missing(text):
    assert read(LOCAL_WORLD_SIZE=text).local_world_size is None
    assert read(MAX_JOBS=text).max_jobs is None


@pytest.mark.parametrize("text", ["0", "", "true", "yes"])
def test_switches_are_on_at_1_only(text):
    environment = read(ENABLE_DYNAMIC_SHAPE_MULTI_STREAM=text, TORCH_COMPILE_DEBUG=text)
    assert not environment.dynamic_shape_multi_stream
    assert not environment.compile_debug


@pytest.mark.parametrize("text, value", [("1", 1), ("3", 3), ("0", 0), ("", 0)])
def test_dump_ge_graph(text, value):
    assert read(DUMP_GE_GRAPH=text).dump_ge_graph == value


def test_a_bad_dump_ge_graph_is_off_with_a_warning():
    with pytest.warns(UserWarning, match="DUMP_GE_GRAPH") as caught:
        assert Environment.read({"DUMP_GE_GRAPH": "4"}).dump_ge_graph == 0
    assert [str(warning.message) for warning in caught] == [
        "DUMP_GE_GRAPH='4' is none of 1 (full), 2 (without weights), 3 (nodes only); nothing is dumped"
    ]


def test_unknown_break_operations_are_warned_about():
    with pytest.warns(UserWarning, match="BREAK_GRAPH_OP_LIST") as caught:
        environment = Environment.read({"BREAK_GRAPH_OP_LIST": "SETITEM,,CONV,NN.CONV3D,LINEAR"})
    assert environment.break_graph_ops == ("SETITEM", "NN.CONV3D")
    assert [str(warning.message) for warning in caught] == [
        "BREAK_GRAPH_OP_LIST has unknown names CONV, LINEAR; there are SLICE, SETITEM, NN.CONV3D, NN.LINEAR"
    ]


def test_no_other_module_reads_the_environment():
    root = Path(torchair.__file__).parent
    readers = {
        str(path.relative_to(root))
        for path in root.rglob("*.py")
        if re.search(
            r"\bos\.(environ|getenv)\b|from os import .*\b(environ|getenv)\b", path.read_text(encoding="utf-8")
        )
    }
    assert readers == {"config/env.py", "logs.py"}
