"""Operators for streams and events (specification, F-40, F-79 and F-80).

They order the operators of a graph that runs on several streams. Run one by one, operators run in program order: a
token is an empty tensor, and there is nothing to wait for. Tags of events are checked in both cases.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from torchair.errors import ArgumentError
from torchair.torchops.library import define

__all__ = ["check_tag", "create_tag", "known_tags", "record", "record_tagged_stream", "wait"]

#: Tags of the events that were created outside of compiled functions, process-wide.
_tags: dict[str, None] = {}


def known_tags() -> tuple[str, ...]:
    """The tags of all events that were created outside of compiled functions."""
    return tuple(_tags)


def create_tag(tag: str) -> None:
    """Note an event.

    Raises:
        ArgumentError: There is an event of that tag.
    """
    if tag in _tags:
        raise ArgumentError(
            "There is an event of that tag",
            why=f"npu_create_tagged_event was given {tag!r}, which an earlier call has created",
            fix="Give another tag, or use the event that the earlier call returned.",
        )
    _tags[tag] = None


def check_tag(tag: str, where: str = "") -> None:
    """Refuse a tag that no event has.

    Raises:
        ArgumentError: Names the tags that there are.
    """
    if tag not in _tags:
        shown = ", ".join(map(repr, _tags)) or "none"
        raise ArgumentError(
            "There is no event of that tag",
            why=[f"an event with the tag {tag!r} is recorded or waited for", f"tags of events: {shown}"],
            fix=f"torchair.ops.npu_create_tagged_event({tag!r})",
            where=where,
        )


def _record(*, device: torch.device | None = None) -> Tensor:
    return torch.empty(0, device=device)


def _nothing(*args: Any, **kwargs: Any) -> None:
    pass


def _event(tag: str, created_inside: bool = False) -> None:
    if not created_inside:
        check_tag(tag)


def _event_on_stream(
    event_tag: str, stream_id: str, device_index: str, device_type: str, created_inside: bool = False
) -> None:
    _event(event_tag, created_inside)


def _define(schema: str, kernel: Callable[..., Any] = _nothing, fake: Callable[..., Any] = _nothing) -> Any:
    return define(schema, kernel, fake, namespace="npugraph_ex", kept=True)


def _wait(x: Sequence[Tensor]) -> None:
    pass


#: What ``torchair.ops.record`` and ``wait`` leave in graphs; ``npugraph_ex`` has twins of them.
record: Any = define("record(*, Device? device=None) -> Tensor", _record, _record, kept=True)
wait: Any = define("wait(Tensor[] x) -> ()", _wait, _wait, kept=True)

_define("record(*, Device? device=None) -> Tensor", _record, _record)
_define("wait(Tensor[] x) -> ()", _wait, _wait)
_define("scope_enter(str[] keys, str[] values, bool need_execute=False) -> ()")
_define("scope_exit(bool need_execute=False) -> ()")

_ON_STREAM = "str stream_id, str device_index, str device_type"

#: A compiled function creates an event that only its graph knows.
tagged_event_create: Any = _define("tagged_event_create(str tag) -> ()")
tagged_event_record: Any = _define("tagged_event_record(str tag, bool created_inside=False) -> ()", _event)
tagged_event_wait: Any = _define("tagged_event_wait(str tag, bool created_inside=False) -> ()", _event)
tagged_event_record_on_stream: Any = _define(
    f"tagged_event_record_on_stream(str event_tag, {_ON_STREAM}, bool created_inside=False) -> ()", _event_on_stream
)
tagged_event_wait_on_stream: Any = _define(
    f"tagged_event_wait_on_stream(str event_tag, {_ON_STREAM}, bool created_inside=False) -> ()", _event_on_stream
)
tagged_stream_wait_stream: Any = _define(
    f"tagged_stream_wait_stream({_ON_STREAM}, str other_stream_id, str other_device_index, str other_device_type) -> ()"
)
record_tagged_stream: Any = _define("record_tagged_stream(Tensor input, str tag) -> ()")
record_tagged_stream_: Any = _define("record_tagged_stream_(Tensor(a!) input, str tag) -> ()")
record_tagged_on_stream: Any = _define(f"record_tagged_on_stream(Tensor input, {_ON_STREAM}) -> ()")
record_tagged_on_stream_: Any = _define(f"record_tagged_on_stream_(Tensor(a!) input, {_ON_STREAM}) -> ()")
