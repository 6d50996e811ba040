"""``op_plugin_functions.yaml``: operators from their schemas and the rules of their outputs (specification, F-111).

Source of the format: the documentation of Ascend's OpPlugin (adaptation guide, structured adaptation).
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

import torch

from torchair import _torch_compat
from torchair.convert.schemas import OperatorSchema
from torchair.customop.adaptation import Adaptation
from torchair.customop.adaptation_converter import register_converter
from torchair.customop.output_rules import (
    Expression,
    OutputRule,
    Rule,
    Scope,
    kind_of_rule,
    parse_dtype,
    parse_size,
    parse_value,
    scope_of,
)
from torchair.customop.prototype_file import read_text
from torchair.customop.rule_syntax import split_arguments
from torchair.customop.schema_text import identifier_problem, namespace_problem, parse_schema, schema_problems
from torchair.customop.yaml_text import YamlTextError, YamlValue, parse_yaml
from torchair.errors import ArgumentError, OperatorClashError, OperatorFileError, OutputRuleError, SchemaError
from torchair.logs import get_logger

__all__ = ["YamlEntry", "YamlReport", "adaptation_of", "load_op_plugin_yaml"]

logger = get_logger(__name__)

Status: TypeAlias = Literal["registered", "refused", "not handled"]

_GROUPS = ("official", "custom", "symint")
_ENTRY_FIELDS = ("func", "op_api", "acl_op", "gen_opapi")
_GEN_FIELDS = ("exec", "new_params", "structured_inherit")
_OUTPUT_FIELDS = ("size", "dtype", "name")
_FIX = "Correct the file; docs/custom-operators.md shows one."
_SHOWN = 50


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


@dataclass(frozen=True, slots=True)
class YamlReport:
    """What became of the entries of a file.

    Attributes:
        path: The file.
        entries: One for each entry, in the order of the file.
    """

    path: str
    entries: tuple[YamlEntry, ...]

    @property
    def registered(self) -> tuple[str, ...]:
        """Names of the operators that exist now."""
        return tuple(e.operator for e in self.entries if e.status == "registered")

    @property
    def refused(self) -> tuple[YamlEntry, ...]:
        """Entries that nothing could be derived from."""
        return tuple(e for e in self.entries if e.status == "refused")

    def require(self) -> None:
        """Insist that every entry under ``custom`` was registered.

        Raises:
            OperatorFileError: One was refused; lists all with their reasons.
        """
        if self.refused:
            raise OperatorFileError(
                "Entries of an operator file cannot be used",
                why=[f"line {e.line}, {e.operator}: {e.reason}" for e in self.refused[:_SHOWN]],
                fix="Correct these entries, or register the operators from Python (torch.library).",
                where=self.path,
            )

    def __str__(self) -> str:
        width = max((len(e.operator) for e in self.entries), default=0)
        lines = [self.path]
        for e in self.entries:
            first, *rest = e.reason.splitlines() or [""]
            lines.append(f"  {e.operator:{width}}  {e.status:11}  {first}".rstrip())
            lines += [f"  {'':{width}}  {'':11}  {line}".rstrip() for line in rest]
        return "\n".join(lines)


def load_op_plugin_yaml(path: str | os.PathLike[str], namespace: str = "npu") -> YamlReport:
    """Register the operators under ``custom:`` of an ``op_plugin_functions.yaml``.

    Each gets its schema, an eager kernel that runs the kernel of the IR operator named by ``exec`` (found when it is
    called), and the meta function that follows from ``size`` and ``dtype``. An entry that nothing can be derived from
    is in the report with its reason; the groups ``official`` and ``symint`` are not handled. Nothing is registered
    when the file is malformed. Loading a file again is harmless, and takes its rules as they are now.

    ::

        report = torchair.customop.load_op_plugin_yaml("op_plugin_functions.yaml")
        print(report)  # what was registered, what was refused, and why
        report.require()

    Args:
        path: The file.
        namespace: ``torch.ops.<namespace>`` gets the operators.

    Raises:
        OperatorFileError: The file is malformed; lists all problems with their lines.
        OperatorClashError: An operator is defined with another schema.
        ArgumentError: Operators cannot be defined in this namespace.
    """
    if problem := namespace_problem(namespace):
        raise ArgumentError(
            "Operators cannot be defined in this namespace",
            why=f"the namespace {namespace!r} {problem}",
            fix='load_op_plugin_yaml(path, namespace="my_namespace")',
        )
    text = read_text(path)
    try:
        document = parse_yaml(text)
    except YamlTextError as e:
        raise _malformed(path, [str(e)]) from None
    file = _File(path, namespace)
    file.read(document)
    if file.problems:
        raise _malformed(path, file.problems)
    derived = [file.derive(entry) for entry in file.entries]
    _refuse_clashes(path, [one for one in derived if isinstance(one, Adaptation)])
    report = [_registered(one, namespace) if isinstance(one, Adaptation) else one for one in derived]
    by_line = sorted([*report, *file.unhandled], key=lambda e: e.line)
    for made in by_line:
        if made.status == "refused":
            logger.warning("%s:%s: %s is not registered: %s", path, made.line, made.operator, made.reason)
    return YamlReport(str(path), tuple(by_line))


def _malformed(path: Any, problems: Sequence[str]) -> OperatorFileError:
    shown = [*problems[:_SHOWN], *([f"and {len(problems) - _SHOWN} more"] if len(problems) > _SHOWN else [])]
    return OperatorFileError("A file that describes operators is malformed", why=shown, fix=_FIX, where=str(path))


# --- reading ---


@dataclass(slots=True)
class _Output:
    size: str | None
    dtype: str | None


@dataclass(slots=True)
class _Entry:
    """One entry as the file has it: texts."""

    func: str
    group: str
    line: int
    op_api: list[str] | None = None
    generated: bool = False
    outputs: dict[str, _Output] = field(default_factory=dict)
    parameters: dict[str, str] = field(default_factory=dict)
    exec: str | None = None
    inherit: str | None = None

    @property
    def name(self) -> str:
        """``"abs.out"``."""
        return self.func.partition("(")[0].strip().rpartition("::")[2]


class _RefusedError(Exception):
    """An entry that nothing can be derived from, with the reason."""


class _File:
    def __init__(self, path: str | os.PathLike[str], namespace: str) -> None:
        self.path = path
        self.namespace = namespace
        self.problems: list[str] = []
        self.entries: list[_Entry] = []
        self.all_entries: dict[str, _Entry] = {}
        self.unhandled: list[YamlEntry] = []
        self.versions: list[str] = []
        self.defined: dict[str, int] = {}

    # What is malformed is collected, each with its line.

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

    def _entry(self, group: str, item: YamlValue) -> _Entry | None:
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
        entry = _Entry(func, group, item.line)
        for name in ("op_api", "acl_op"):
            if name in fields:
                texts = self._texts(fields[name], name)
                entry.op_api = texts if name == "op_api" else entry.op_api
        if "gen_opapi" in fields:
            self._generated(entry, fields["gen_opapi"])
        return entry

    def _generated(self, entry: _Entry, value: YamlValue) -> None:
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
                entry.outputs[name] = _Output(texts.get("size"), texts.get("dtype"))
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
            self.problems.append(f"line {value.line}: {title[:80]} is a text, not {_kind(value)}")
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

    # What an entry means.

    def derive(self, entry: _Entry) -> Adaptation | YamlEntry:
        """The operator of an entry under ``custom:``, or why there is none."""
        operator = f"{self.namespace}::{entry.name}"[:100]
        try:
            schema = parse_schema(entry.func, namespace=self.namespace)
            self._check_version(entry)
            made = self._adaptation(entry, schema)
        except (SchemaError, OutputRuleError) as e:
            why = [line for line in e.why if not line.startswith("schema: ")]
            return YamlEntry(operator, entry.group, entry.line, "refused", "\n".join(why))
        except _RefusedError as e:
            return YamlEntry(operator, entry.group, entry.line, "refused", str(e))
        if entry.name in self.defined:
            reason = f"line {self.defined[entry.name]} defines it"
            return YamlEntry(operator, entry.group, entry.line, "refused", reason)
        self.defined[entry.name] = entry.line
        return made

    def _check_version(self, entry: _Entry) -> None:
        if entry.op_api is None:
            raise _RefusedError("it has no op_api: (op_api: all_version)")
        running = ".".join(torch.__version__.split(".")[:2])
        known = [_version(text) for text in self.versions]
        now = _version(f"v{running}")
        newest = max((v for v in known if v is not None), default=None)
        if now is not None and newest is not None and now > newest:
            now = newest  # a PyTorch that the file does not know yet
        if not _holds(entry.op_api, now, newest):
            raise _RefusedError(f"op_api: {', '.join(entry.op_api)} does not hold for PyTorch {running}")

    def _inherited(self, entry: _Entry) -> _Entry:
        """The entry that an entry takes everything from; itself if it does not."""
        seen = [entry.name]
        while entry.inherit is not None:
            name = entry.inherit.strip()
            parent = self.all_entries.get(name)
            if parent is None:
                raise _RefusedError(f"structured_inherit: the file has no entry {name[:80]!r}")
            if name in seen:
                raise _RefusedError(f"structured_inherit: {' -> '.join([*seen, name])} is a circle")
            seen.append(name)
            entry = parent
        return entry

    def _adaptation(self, entry: _Entry, schema: OperatorSchema) -> Adaptation:
        if not entry.generated:
            raise _RefusedError(
                "it has no gen_opapi:, so its adaptation is written by hand in C++; register it with torch.library"
            )
        source = self._inherited(entry)
        if not source.generated or source.exec is None:
            raise _RefusedError("gen_opapi: has no exec:" if source is entry else f"{source.name} has no exec:")
        results, destinations = _results(schema, inherits=source is not entry)
        scope = {**scope_of(schema)}
        if source is not entry:
            # The other entry's outputs, which its rules and its exec may name, are results or arguments here.
            scope = {**dict.fromkeys(source.outputs, "other"), **scope}
        parameters = self._parameters(source, scope)
        scope.update((name, kind_of_rule(rule)) for name, rule in parameters)
        names = _output_names(schema, source, results, destinations, own=source is entry)
        outputs = [_output_rule(source, name, scope, bool(destinations)) for name in names]
        kernel, arguments, order = _call(source.exec, schema, scope, names, destinations)
        return Adaptation(
            schema,
            tuple(outputs),
            kernel,
            arguments,
            order,
            tuple(parameters),
            destinations,
            f"{Path(self.path).name}:{entry.line}",
        )

    def _parameters(self, entry: _Entry, scope: Scope) -> list[tuple[str, Rule]]:
        known = dict(scope)
        found = []
        for name, text in entry.parameters.items():
            if problem := identifier_problem(name):
                raise _RefusedError(f"new_params: {name[:80]!r} {problem}")
            if name in known:
                raise _RefusedError(f"new_params: {name!r} is an argument")
            rule = parse_value(text, known)
            known[name] = kind_of_rule(rule)
            found.append((name, rule))
        return found


def _kind(value: YamlValue) -> str:
    if value.data is None:
        return "nothing"
    return {dict: "a mapping", list: "a list", str: "a text"}[type(value.data)]


def _version(text: str) -> tuple[int, int] | None:
    """``"v2.1"`` -> ``(2, 1)``."""
    found = re.fullmatch(r"v(\d{1,3})\.(\d{1,3})", text.strip(), re.ASCII)
    return (int(found[1]), int(found[2])) if found else None


def _holds(op_api: Sequence[str], now: tuple[int, int] | None, newest: tuple[int, int] | None) -> bool:
    """Whether ``all_version``, a list, or a closed interval ``[v2.1, newest]`` includes a version."""
    texts = [text.strip("[] ") for text in op_api]
    if "all_version" in texts:
        return True
    if now is None:
        return False
    if len(texts) == 2 and texts[1] == "newest":
        low = _version(texts[0])
        return low is not None and low <= now
    versions = [v for v in map(_version, texts) if v is not None]
    # Two versions are an interval when they stand in brackets, and a list when they do not; YAML reads both as lists.
    # What lies between two is meant by the first, so both are taken.
    if len(texts) == 2 and len(versions) == 2:
        return versions[0] <= now <= versions[1]
    return now in versions or (newest is not None and now >= newest and "newest" in texts)


# --- deriving ---


def _results(schema: OperatorSchema, *, inherits: bool) -> tuple[int, tuple[str, ...]]:
    """Number of results that the kernel makes, and the arguments that they go into, if they do."""
    problems = [p for p in schema_problems(schema) if "view of an argument" in p or "writes nothing" in p]
    if problems:
        raise _RefusedError(problems[0])
    for number, kind in enumerate(schema.returns):
        if kind != "tensor":
            shown = {"list": "a list of tensors", "optional": "a tensor that may be None"}.get(kind, "no tensor")
            raise _RefusedError(f"result {number} is {shown}, which size: and dtype: say nothing about")
    written = schema.written
    given = tuple(a.name for a in written if a.kwarg_only)
    if not given and inherits:
        given = tuple(name for name in schema.returned_arguments if name is not None)
    if given and schema.returns:
        raise _RefusedError("it has results and arguments that results go into (out=)")
    if given and len(given) < len(written):
        raise _RefusedError("it writes further arguments besides those that results go into (out=)")
    return len(given) or len(schema.returns), given


def _output_names(
    schema: OperatorSchema, entry: _Entry, results: int, destinations: Sequence[str], *, own: bool
) -> list[str]:
    """The key of each result in ``gen_opapi``, in the order of the schema."""
    keys = list(entry.outputs)
    if not own:
        if len(keys) > results:
            raise _RefusedError(f"{entry.name} has {len(keys)} outputs ({', '.join(keys)}), it has {results}")
        return [*keys, *(f"out{i}" for i in range(len(keys), results))]
    names = []
    for i in range(results):
        allowed = (
            [destinations[i]]
            if destinations
            else [
                *([schema.result_names[i]] if schema.result_names[i] else []),
                f"out{i}",
                *(["out"] if results == 1 else []),
            ]
        )
        names.append(next((name for name in allowed if name in keys), allowed[-1]))
    if unknown := [key for key in keys if key not in names]:
        wanted = ", ".join(names) or "none, since it returns nothing"
        raise _RefusedError(f"gen_opapi: has the outputs {', '.join(unknown)[:200]}; its outputs are {wanted}")
    return names


def _output_rule(entry: _Entry, name: str, scope: Scope, has_destination: bool) -> OutputRule | None:
    given = entry.outputs.get(name, _Output(None, None))
    missing = [f"{key}:" for key, text in (("size", given.size), ("dtype", given.dtype)) if text is None]
    if missing:
        if has_destination:
            return None
        raise _RefusedError(f"the output {name} has no {' and no '.join(missing)}")
    assert given.size is not None and given.dtype is not None
    return OutputRule(name, parse_size(given.size, scope), parse_dtype(given.dtype, scope))


def _call(
    text: str, schema: OperatorSchema, scope: Scope, outputs: Sequence[str], destinations: Sequence[str]
) -> tuple[str, tuple[Rule, ...], tuple[int, ...]]:
    """``exec``: the IR operator, what it is given, and which of its outputs each result is."""
    function, *given = split_arguments(text)
    if not re.fullmatch(r"aclnn[A-Z][A-Za-z0-9]{0,99}", function, re.ASCII):
        raise _RefusedError(f"exec: {function[:80]!r} is no aclnn function: aclnnMyOp")
    kernel = function.removeprefix("aclnn")
    in_order = tuple(range(len(outputs)))
    if not given:
        rules = [
            _argument(a.name, scope[a.name])
            for a in schema.arguments
            if a.name not in destinations and not a.is_placement
        ]
        return kernel, tuple(rules), in_order
    # A destination has two names where the entry inherits: the argument's, and the output's that it takes the rules of.
    positions = {**dict(zip(outputs, in_order, strict=True)), **dict(zip(destinations, in_order, strict=False))}
    reads = {name for name in positions if name in scope and scope[name] != "other"} - set(destinations)
    named: list[int] = []
    rules = []
    for i, part in enumerate(given):
        # An in-place operator reads its argument, and names it again where the output stands.
        again = part in destinations and not _is_out_argument(schema, part) and part not in given[:i]
        if part in positions and part not in reads and not again:
            named.append(positions[part])
        elif part in scope:
            rules.append(_argument(part, scope[part]))
        else:
            rules.append(parse_value(part, scope))
    if named and sorted(named) != list(in_order):
        raise _RefusedError(f"exec: names some of the outputs ({', '.join(outputs)}), or one twice; name all or none")
    order = tuple(named.index(i) for i in in_order) if named else in_order
    return kernel, tuple(rules), order


def _is_out_argument(schema: OperatorSchema, name: str) -> bool:
    return any(a.name == name and a.kwarg_only for a in schema.arguments)


def _argument(name: str, kind: str) -> Rule:
    """An argument as it is, whatever its type."""
    return Rule(name, "value", Expression("argument", kind, (), name))


# --- registering ---

#: What the operators do now, by qualified name: loading a file again replaces it.
_adaptations: dict[str, Adaptation] = {}
_libraries: dict[str, Any] = {}
#: Of its methods PyTorch leaves the types out.
_Library: Any = torch.library.Library


def _refuse_clashes(path: Any, adaptations: Sequence[Adaptation]) -> None:
    problems = []
    for adaptation in adaptations:
        found = _torch_compat.find_exact(adaptation.operator)
        if found is not None and str(found._schema) != str(adaptation.schema.torch_schema):
            problems += [f"{adaptation.source}: {adaptation.schema.torch_schema}", f"defined: {found._schema}"]
    if problems:
        raise OperatorClashError(
            "An operator is defined with another schema",
            why=problems,
            fix="Use another name or namespace; a schema that changed takes effect in a new process.",
            where=str(path),
        )


def _registered(adaptation: Adaptation, namespace: str) -> YamlEntry:
    schema = adaptation.schema
    name = adaptation.operator
    line = int(adaptation.source.rpartition(":")[2])
    remark = "\n".join(f"graph mode refuses it: {p}" for p in schema_problems(schema) if "must not return" in p)
    if name in _adaptations:
        _adaptations[name] = adaptation
        register_converter(adaptation, lambda: _adaptations[name])
        return YamlEntry(name, "custom", line, "registered", remark)
    found = _torch_compat.find_exact(name)
    has_meta = found is not None and _torch_compat.has_fake_kernel(found)
    library = _libraries.get(namespace)
    if library is None:
        library = _libraries[namespace] = _Library(namespace, "FRAGMENT")
    short = name.partition("::")[2]
    if found is None:
        library.define(str(schema.torch_schema).partition("::")[2], tags=(torch.Tag.pt2_compliant_tag,))
    elif _torch_compat.has_kernel(found, "CPU"):
        return YamlEntry(name, "custom", line, "registered", "it was defined before, and keeps its own kernel")
    _adaptations[name] = adaptation
    library.impl(short, lambda *args, **kwargs: _adaptations[name].eager(*args, **kwargs), "CompositeExplicitAutograd")
    if not has_meta:
        torch.library.register_fake(name, lambda *args, **kwargs: _adaptations[name].meta(*args, **kwargs), lib=library)
    register_converter(adaptation, lambda: _adaptations[name])
    return YamlEntry(name, "custom", line, "registered", remark)


def adaptation_of(name: str) -> Adaptation | None:
    """How an operator (``"npu::my_op"``) that a file registered calls its kernel; None for others."""
    return _adaptations.get(name)
