"""Traces that are read and written, and everything that a file may have wrong."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest
from expecttest import assert_expected_inline
from hypothesis import given, settings, strategies as st

from tests.errors.texts import raised
from torchair.errors import OutputFileError, TraceFileError, TraceFileNotFoundError
from torchair.trace import Task, Trace, align_trace_json, check_deadlocks, filter_comm_ops, read_trace
from torchair.trace.align import aligned

SAMPLES = Path(__file__).parent / "samples"
GOOD: dict[str, Any] = {"name": "op", "tid": "stream0", "ts": 0, "dur": 1, "args": {"TaskId": 1}}


def written(path: Path, content: Any) -> Path:
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path


def test_both_spellings(tmp_path) -> None:
    args = [
        {"TaskId": 3, "Task Type": "MIX_AIC", "Numblocks": 4, "Schem Mode": 1, "Task Ration": "1:2"},
        {"Task Id": "3", "taskType": "MIX_AIC", "NumBlocks": "4", "schem_mode": 1.0, "Task Ratio": "1:2"},
    ]
    for n, these in enumerate(args):
        (task,) = read_trace(written(tmp_path / f"{n}.json", [{**GOOD, "args": these}])).tasks
        expected = (3, "MIX_AIC", 4, 1, "1:2")
        assert (task.number, task.type, task.blocks, task.schedule_mode, task.ratio) == expected
        assert task.as_event()["args"] == args[0]


def test_what_is_written_is_read(tmp_path) -> None:
    trace = read_trace(SAMPLES / "conflict.json")
    trace.write(tmp_path / "a" / "b.json")
    again = read_trace(tmp_path / "a" / "b.json")
    assert [task.as_event() for task in again.tasks] == [task.as_event() for task in trace.tasks]
    assert again.others == trace.others
    assert stat.S_IMODE((tmp_path / "a" / "b.json").stat().st_mode) == 0o600


def test_no_file(tmp_path) -> None:
    assert_expected_inline(
        raised(lambda: read_trace(tmp_path / "x.json"), TraceFileNotFoundError).replace(str(tmp_path), "FOLDER"),
        """\
A trace cannot be read [TA601]
  why:
    FOLDER/x.json: there is no such file
  fix:
    Name a JSON file of a task list.""",
    )


def test_everything_that_is_wrong_is_listed(tmp_path) -> None:
    events = [
        7,
        {},
        {**GOOD, "args": {}},
        {**GOOD, "tid": None, "ts": "now", "dur": -1, "args": {"TaskId": 1.5}},
        {**GOOD, "name": "aiv_x", "args": {"TaskId": True, "Numblocks": "many", "Schem Mode": -1, "Task Ration": []}},
        {**GOOD, "args": []},
        {**GOOD, "pid": None},
        {**GOOD, "args": {"TaskId": 1, "Unordered After": [None], "Task Type": 3}},
    ]
    path = written(tmp_path / "x.json", events)
    assert_expected_inline(
        raised(lambda: read_trace(path), TraceFileError).replace(str(tmp_path), "FOLDER"),
        """\
A trace cannot be read [TA601]
  why:
    FOLDER/x.json
    event 0 is 7, not an object
    event 1: name is None, not a text
    event 1: tid is None, not a text such as "stream3"
    event 1: ts is None, not a number of microseconds
    event 1: dur is None, not a number of microseconds
    event 1 has no TaskId among its args
    event 2 ('op') has no TaskId among its args
    event 3 ('op'): tid is None, not a text such as "stream3"
    event 3 ('op'): ts is 'now', not a number of microseconds
    event 3 ('op'): dur is -1.0, not at least 0
    ... and 10 more
  fix:
    A trace is {"traceEvents": [{"name": "op", "tid": "stream0", "ts": 0, "dur": 1, "args": {"TaskId": 1}}]}.""",
    )


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "Expecting value"),
        ("{", "line 1"),
        ("3", "it has no list of events"),
        ("{}", "it has no list of events"),
        ('{"traceEvents": {}}', "it has no list of events"),
        ("[" * 100_000, ""),
        ('[{"name": "x", "tid": 0, "ts": NaN, "dur": 1, "args": {"TaskId": 1}}]', "ts is nan"),
        (f'[{{"name": "x", "tid": 0, "ts": 1{"0" * 400}, "dur": 1, "args": {{"TaskId": 1}}}}]', "not a number of"),
    ],
)
def test_files_that_are_no_traces(tmp_path, content, words) -> None:
    path = written(tmp_path / "x.json", content)
    assert words in raised(lambda: read_trace(path), TraceFileError)


def test_paths_that_are_none(tmp_path) -> None:
    for path in (tmp_path, "a\0b", 3, None):
        with pytest.raises(TraceFileError, match="A trace cannot be read"):
            read_trace(path)  # type: ignore[arg-type]
    (tmp_path / "x.json").write_bytes(b"\xff\xfe\xff")
    raised(lambda: read_trace(tmp_path / "x.json"), TraceFileError)


def test_links_are_not_written(tmp_path) -> None:
    link = tmp_path / "link.json"
    link.symlink_to(tmp_path / "other.json")
    assert_expected_inline(
        raised(lambda: filter_comm_ops(SAMPLES / "conflict.json", link), OutputFileError).replace(
            str(tmp_path), "FOLDER"
        ),
        """\
A file cannot be written [TA602]
  why:
    FOLDER/link.json is a symbolic link, which could lead anywhere
  fix:
    Name the file that it leads to, or remove the link.""",
    )
    assert not (tmp_path / "other.json").exists()
    with pytest.raises(OSError, match="cannot be written"):
        align_trace_json(SAMPLES / "conflict.json", tmp_path)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
KEYS = ("name", "ph", "pid", "tid", "ts", "dur", "args")
ARGS = ("TaskId", "Task Type", "Numblocks", "Schem Mode", "Task Ration", "Event Id", "Unordered After")
#: Events with good values that may be replaced by anything.
EVENT = st.fixed_dictionaries(
    {},
    optional={
        "name": st.sampled_from(["op", "EVENT_WAIT_1", "EVENT_RECORD_1", "aiv_x", "STREAM_ACTIVE"]) | JSON,
        "ph": st.just("X") | JSON,
        "tid": st.sampled_from(["stream0", "stream1", 2]) | JSON,
        "ts": st.integers(0, 9) | JSON,
        "dur": st.integers(0, 3) | JSON,
        "args": st.fixed_dictionaries(
            {"TaskId": st.integers(0, 9) | JSON},
            optional={
                "Task Type": st.sampled_from(["MIX_AIC", "AIVEC"]) | JSON,
                "Numblocks": st.integers(0, 60) | JSON,
                "Schem Mode": st.just(1) | JSON,
                "Task Ration": st.sampled_from(["1:2", 0]) | JSON,
                "Unordered After": st.lists(st.integers(0, 9)) | JSON,
                "Active Stream": JSON,
            },
        )
        | JSON,
    },
)


@given(st.lists(EVENT, max_size=6) | JSON)
@settings(max_examples=100, deadline=None)
def test_any_file_is_checked_or_refused(tmp_path_factory, content) -> None:
    path = tmp_path_factory.getbasetemp() / f"any_{os.getpid()}.json"
    path.write_text(json.dumps(content))
    try:
        trace = read_trace(path)
        check_deadlocks(trace)
        aligned(trace)
    except TraceFileError:
        return
    assert isinstance(trace, Trace)


def test_tasks_of_one_stream_are_in_order() -> None:
    trace = Trace(()).with_tasks([Task("b", "stream0", 1, 5, 1), Task("a", "stream0", 2, 0, 1)])
    assert [task.name for task in trace.tasks] == ["a", "b"]
