"""``torchair.ops.record`` and ``wait``, and events that are addressed by tags (specification, F-79 and F-80)."""

from __future__ import annotations

from typing import Any

import torch

from torchair.torchops import streams
from torchair.torchops.refusing import refuse_type, refuse_value

__all__ = [
    "TaggedEvent",
    "npu_create_tagged_event",
    "npu_record_tagged_stream",
    "npu_tagged_event_record",
    "npu_tagged_event_wait",
    "record",
    "wait",
]


class TaggedEvent:
    """An event that operators of graphs know by its tag.

    Attributes:
        tag: The tag; no two events share one.
        created_inside: A compiled function has created it, so that it is known in its graph alone.
    """

    def __init__(self, tag: str, created_inside: bool = False) -> None:
        self.tag = tag
        self.created_inside = created_inside


def record() -> torch.Tensor:
    """A token for everything issued so far on the current stream.

    For what has no result that others could wait for. In eager mode operators run in program order.

    Returns:
        An empty tensor, to be given to :func:`wait`.
    """
    token: torch.Tensor = streams.record()
    return token


def wait(tensors: list[torch.Tensor]) -> None:
    """Make the next operator on the current stream wait.

    Args:
        tensors: Tokens, each of which stands for the last operator issued before it on its stream; and other tensors,
            which stand for the operator that makes them.

    Raises:
        ArgumentError: It is no list, empty, or something in it is no tensor.
    """
    given: Any = tensors
    if not isinstance(given, (list, tuple)) or not given:
        refuse_value(
            "wait needs something to wait for",
            f"it was given {given!r}",
            "token = torchair.ops.record()\ntorchair.ops.wait([token])",
        )
    for position, tensor in enumerate(given):
        if not isinstance(tensor, torch.Tensor):
            refuse_value(
                "wait takes a list of tensors",
                f"number {position} of the list is {tensor!r}, a {type(tensor).__name__}",
                "Give tokens of torchair.ops.record(), and tensors.",
            )
    streams.wait(list(given))


def npu_create_tagged_event(tag: str) -> TaggedEvent:
    """Create an event that is addressed by a tag.

    Events that compiled functions use are created outside of them, and are known to all graphs of the process. One that
    a compiled function creates is known in its graph alone.

    Args:
        tag: A text that no other event has.

    Raises:
        ArgumentTypeError: The tag is no text.
        ArgumentError: It is empty, or there is an event of that tag.
    """
    if not isinstance(tag, str):
        refuse_type(
            "The tag of an event is a text",
            f"npu_create_tagged_event was given {tag!r}, a {type(tag).__name__}",
            'torchair.ops.npu_create_tagged_event("name")',
        )
    if not tag:
        refuse_value(
            "The tag of an event is empty",
            "npu_create_tagged_event was given ''",
            'torchair.ops.npu_create_tagged_event("name")',
        )
    if torch.compiler.is_compiling():
        streams.tagged_event_create(tag)
        return TaggedEvent(tag, created_inside=True)
    streams.create_tag(tag)
    return TaggedEvent(tag)


def npu_tagged_event_record(event: TaggedEvent) -> None:
    """Record an event: it stands for everything issued so far on the current stream.

    Raises:
        ArgumentError: It is not what :func:`npu_create_tagged_event` returns, or was created in another graph.
    """
    tag, inside = _tag(event, "npu_tagged_event_record")
    streams.tagged_event_record(tag, inside)


def npu_tagged_event_wait(event: TaggedEvent) -> None:
    """Make what follows on the current stream wait for an event.

    An event that was not recorded since the graph began is no reason to wait: when a graph begins, all others have
    ended.

    Raises:
        ArgumentError: It is not what :func:`npu_create_tagged_event` returns, or was created in another graph.
    """
    tag, inside = _tag(event, "npu_tagged_event_wait")
    streams.tagged_event_wait(tag, inside)


def npu_record_tagged_stream(input: torch.Tensor, tagged_stream: str) -> None:
    """Keep the memory of a tensor until a stream has passed this point.

    Args:
        tagged_stream: The tag of the stream, ``"default"`` for the one that a graph begins on.

    Raises:
        ArgumentTypeError: An argument is of another kind.
    """
    if not isinstance(input, torch.Tensor):
        refuse_type(
            "npu_record_tagged_stream takes a tensor",
            f"it was given {input!r}, a {type(input).__name__}",
            'torchair.ops.npu_record_tagged_stream(x, "name")',
        )
    if not isinstance(tagged_stream, str):
        refuse_type(
            "The tag of a stream is a text",
            f"npu_record_tagged_stream was given {tagged_stream!r}, a {type(tagged_stream).__name__}",
            'torchair.ops.npu_record_tagged_stream(x, "name")',
        )
    streams.record_tagged_stream(input, tagged_stream)


def _tag(event: TaggedEvent, function: str) -> tuple[str, bool]:
    if not isinstance(event, TaggedEvent):
        refuse_value(
            "An event has no tag",
            f"{function} was given {event!r}, a {type(event).__name__}",
            'event = torchair.ops.npu_create_tagged_event("name")',
        )
    return event.tag, event.created_inside
