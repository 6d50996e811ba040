"""The entries of an ``op_plugin_functions.yaml`` as texts, and what is malformed in it."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from torchair.customop.yaml_text import YamlValue

__all__ = ["Entry", "EntryReader", "OutputText", "Status", "YamlEntry"]

Status: TypeAlias = Literal["registered", "refused", "not handled"]

_GROUPS = ("official", "custom", "symint")
_ENTRY_FIELDS = ("func", "op_api", "acl_op", "gen_opapi")
_GEN_FIELDS = ("exec", "new_params", "structured_inherit")
_OUTPUT_FIELDS = ("size", "dtype", "name")


@dataclass(frozen=True, slots=True)
class YamlEntry:
    """What became of one entry of a file.

    Attributes:
        operator: ``"npu::my_op"``; the text of ``func`` where that cannot be read.
        group: ``"custom"``, or the group that is not handled.
        line: Where it begins.
        status: ``"registered"``, ``"refused"`` or ``"not handled"``.
        reason: Why it is not registered; of one that is, a remark or nothing.
    """

    operator: str
    group: str
    line: int
    status: Status
    reason: str = ""


@dataclass(slots=True)
class OutputText:
    """The rules of one output, as texts."""

    size: str | None
    dtype: str | None


@dataclass(slots=True)
class Entry:
    """One entry as the file has it: texts."""

    func: str
    group: str
    line: int
    op_api: list[str] | None = None
    #: ``op_api`` is a closed interval ``[v2.1, newest]``.
    is_interval: bool = False
    generated: bool = False
    outputs: dict[str, OutputText] = field(default_factory=dict)
    parameters: dict[str, str] = field(default_factory=dict)
    exec: str | None = None
    inherit: str | None = None

    @property
    def name(self) -> str:
        """``"abs.out"``."""
        return self.func.partition("(")[0].strip().rpartition("::")[2]


class EntryReader:
    """Reads a document; collects what is malformed, each with its line."""

    def __init__(self) -> None:
        self.problems: list[str] = []
        self.entries: list[Entry] = []
        #: Of all groups, by name; an entry may take its rules from one of another group.
        self.all_entries: dict[str, Entry] = {}
        self.unhandled: list[YamlEntry] = []
        self.versions: list[str] = []

    def read(self, document: YamlValue) -> None:
        groups = self._mapping(document, "the file")
        for name, value in groups.items():
            if name == "all_version":
                self.versions = self._texts(value, name)
            elif name in _GROUPS:
                self._group(name, value)
            elif value.data is not None:
                close = difflib.get_close_matches(name, ("all_version", *_GROUPS), n=1, cutoff=0.75)
                if close:
                    self.problems.append(
                        f"line {value.line}: no group is called {name[:80]!r}; did you mean {close[0]!r}?"
                    )
                else:
                    self.unhandled.append(
                        YamlEntry(f"{name[:80]}:", name[:80], value.line, "not handled", "the group is not known")
                    )
        if not groups and not self.problems:
            self.problems.append("the file has no group custom:")

    def _group(self, group: str, value: YamlValue) -> None:
        if value.data is None:
            return
        if not isinstance(value.data, list):
            self.problems.append(f"line {value.line}: {group}: is a list of entries, not {_kind(value)}")
            return
        for item in value.data:
            entry = self._entry(group, item)
            if entry is None:
                continue
            self.all_entries.setdefault(entry.name, entry)
            if group == "custom":
                self.entries.append(entry)
            else:
                reason = {
                    "official": "operators of PyTorch have kernels of their own here",
                    "symint": "the group is not handled; under custom:, SymInt arguments work",
                }[group]
                self.unhandled.append(YamlEntry(entry.name, group, entry.line, "not handled", reason))

    def _entry(self, group: str, item: YamlValue) -> Entry | None:
        fields = self._mapping(item, "an entry")
        if not isinstance(item.data, dict):
            return None
        self._known(fields, _ENTRY_FIELDS, strict=False)
        if "func" not in fields:
            self.problems.append(f"line {item.line}: an entry has no func:")
            return None
        func = self._text(fields["func"], "func")
        if func is None:
            return None
        entry = Entry(func, group, item.line)
        for name in ("op_api", "acl_op"):
            if name in fields:
                texts = self._texts(fields[name], name)
                if name == "op_api":
                    entry.op_api = texts
                    entry.is_interval = isinstance(fields[name].data, list) and len(texts) == 2
        if "gen_opapi" in fields:
            self._generated(entry, fields["gen_opapi"])
        return entry

    def _generated(self, entry: Entry, value: YamlValue) -> None:
        entry.generated = True
        for name, given in self._mapping(value, "gen_opapi").items():
            if name == "exec":
                entry.exec = self._text(given, name)
            elif name == "structured_inherit":
                entry.inherit = self._text(given, name)
            elif name == "new_params":
                for parameter, rule in self._mapping(given, name).items():
                    entry.parameters[parameter] = self._text(rule, parameter) or ""
            elif isinstance(given.data, dict):
                self._known(given.data, _OUTPUT_FIELDS, strict=True)
                texts = {key: self._text(given.data[key], key) for key in ("size", "dtype") if key in given.data}
                entry.outputs[name] = OutputText(texts.get("size"), texts.get("dtype"))
            else:
                self._known({name: given}, _GEN_FIELDS, strict=True)

    def _known(self, fields: Mapping[str, YamlValue], known: Sequence[str], *, strict: bool) -> None:
        for name, value in fields.items():
            if name in known:
                continue
            close = difflib.get_close_matches(name, known, n=1, cutoff=0.75)
            if close or strict:
                hint = f"; did you mean {close[0]!r}?" if close else f"; known are {', '.join(known)}"
                self.problems.append(f"line {value.line}: no field is called {name[:80]!r}{hint}")

    def _mapping(self, value: YamlValue, title: str) -> dict[str, YamlValue]:
        if not isinstance(value.data, dict):
            self.problems.append(f"line {value.line}: {title} is a mapping, not {_kind(value)}")
            return {}
        return value.data

    def _text(self, value: YamlValue, title: str) -> str | None:
        if not isinstance(value.data, str):
            hint = "; put '{...}' in quotes" if isinstance(value.data, dict) else ""
            self.problems.append(f"line {value.line}: {title[:80]} is a text, not {_kind(value)}{hint}")
            return None
        return value.data

    def _texts(self, value: YamlValue, title: str) -> list[str]:
        """A list of texts, or one text with commas."""
        if isinstance(value.data, str):
            return [part.strip() for part in value.data.split(",")]
        if isinstance(value.data, list):
            return [text for item in value.data if (text := self._text(item, f"an item of {title}")) is not None]
        self.problems.append(f"line {value.line}: {title} is a text or a list of texts, not {_kind(value)}")
        return []


def _kind(value: YamlValue) -> str:
    if value.data is None:
        return "nothing"
    return {dict: "a mapping", list: "a list", str: "a text"}[type(value.data)]
