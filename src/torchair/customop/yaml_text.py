"""YAML as plain data with line numbers: mappings, lists and texts, and nothing else of the language.

Only PyYAML's events are read; no object is ever constructed from them. Tags, anchors and aliases are refused, since
operator files need none and they are how YAML runs code and grows without bound.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import yaml

__all__ = ["YamlTextError", "YamlValue", "parse_yaml"]

_MAX_DEPTH = 20
_MAX_VALUES = 500_000
_NULLS = ("", "~", "null", "Null", "NULL")


class YamlTextError(ValueError):
    """A text is no YAML, or uses what operator files must not; the message begins with the line."""


_Data: TypeAlias = "dict[str, YamlValue] | list[YamlValue] | str | None"


@dataclass(slots=True)
class YamlValue:
    """A value with the line that it begins in (from 1): a mapping, a list, a text, or None."""

    data: _Data
    line: int


def parse_yaml(text: str) -> YamlValue:
    """Read a document.

    Raises:
        YamlTextError: It cannot be read.
    """
    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # many times faster, where PyYAML was built with it
    try:
        events = _checked(yaml.parse(text, Loader=loader))
        value = _document(events)
    except yaml.MarkedYAMLError as e:
        mark = e.problem_mark or e.context_mark
        at = f"line {mark.line + 1}, column {mark.column + 1}: " if mark is not None else ""
        raise YamlTextError(f"{at}{e.problem or e.context or 'it is no YAML'}") from None
    except yaml.YAMLError as e:
        raise YamlTextError(" ".join(str(e).split())) from None
    return value


def _checked(events: Iterator[Any]) -> Iterator[Any]:
    """The events of one document, without what is refused."""
    documents = 0
    for count, event in enumerate(events):
        line = event.start_mark.line + 1
        if isinstance(event, yaml.DocumentStartEvent):
            documents += 1
            if documents > 1:
                raise YamlTextError(f"line {line}: a second document begins")
            if getattr(event, "tags", None):
                raise YamlTextError(f"line {line}: tags are not allowed (%TAG)")
        if isinstance(event, yaml.AliasEvent):
            raise YamlTextError(f"line {line}: aliases are not allowed (*{event.anchor})")
        if getattr(event, "anchor", None) is not None:
            raise YamlTextError(f"line {line}: anchors are not allowed (&{event.anchor})")
        if getattr(event, "tag", None) is not None:
            raise YamlTextError(f"line {line}: tags are not allowed ({event.tag})")
        if count > _MAX_VALUES:
            raise YamlTextError(f"line {line}: it has more than {_MAX_VALUES} values")
        yield event


def _document(events: Iterator[Any]) -> YamlValue:
    root = YamlValue(None, 1)
    #: Mappings and lists that are open, with the key that waits for its value.
    open_: list[tuple[YamlValue, str | None]] = []
    for event in events:
        line = event.start_mark.line + 1
        if isinstance(event, yaml.MappingEndEvent | yaml.SequenceEndEvent):
            open_.pop()
            continue
        if isinstance(event, yaml.ScalarEvent):
            data: _Data = None if event.implicit[0] and event.value in _NULLS else event.value
        elif isinstance(event, yaml.MappingStartEvent):
            data = {}
        elif isinstance(event, yaml.SequenceStartEvent):
            data = []
        else:
            continue
        value = YamlValue(data, line)
        if not open_:
            root = value
        else:
            parent, key = open_[-1]
            if isinstance(parent.data, list):
                parent.data.append(value)
            elif isinstance(parent.data, dict):
                if key is None:
                    open_[-1] = parent, _key(parent.data, value)
                    continue
                parent.data[key] = value
                open_[-1] = parent, None
        if isinstance(data, dict | list):
            if len(open_) >= _MAX_DEPTH:
                raise YamlTextError(f"line {line}: it is nested more than {_MAX_DEPTH} deep")
            open_.append((value, None))
    return root


def _key(mapping: dict[str, YamlValue], value: YamlValue) -> str:
    key = value.data
    if not isinstance(key, str):
        raise YamlTextError(f"line {value.line}: a key is a text")
    if key in mapping:
        raise YamlTextError(
            f"line {value.line}: the key {key[:80]!r} is there twice, first in line {mapping[key].line}"
        )
    return key
