"""What an entry of an ``op_plugin_functions.yaml`` means: the torch operator, its rules and its call of the kernel."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn, ParamSpec, TypeVar

import torch

from torchair.convert.schemas import OperatorSchema
from torchair.customop.adaptation import Adaptation
from torchair.customop.op_plugin_entries import Entry, EntryReader, OutputText, YamlEntry
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
from torchair.customop.rule_syntax import split_arguments
from torchair.customop.schema_text import identifier_problem, parse_schema, schema_problems
from torchair.errors import OutputRuleError, SchemaError

__all__ = ["Deriver"]


class _RefusedError(Exception):
    """An entry that nothing can be derived from, with the reason."""


def _reason(error: SchemaError | OutputRuleError) -> str:
    return "\n".join(line for line in error.why if not line.startswith("schema: "))


_P = ParamSpec("_P")
_T = TypeVar("_T")


class _Problems:
    """What is wrong with one entry: all that does not follow from something else that is."""

    def __init__(self) -> None:
        self.found: list[str] = []

    def of(self, step: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T | None:
        """The result of a step; None if it found a problem."""
        try:
            return step(*args, **kwargs)
        except (SchemaError, OutputRuleError) as e:
            self.found.append(_reason(e))
        except _RefusedError as e:
            self.found.append(str(e))
        return None

    def give_up(self) -> NoReturn:
        """Refuse the entry, with all problems, each once."""
        raise _RefusedError("\n".join(dict.fromkeys(self.found)))


class Deriver:
    """Makes operators of the entries of one file."""

    def __init__(self, path: str | os.PathLike[str], namespace: str, reader: EntryReader) -> None:
        self.path = path
        self.namespace = namespace
        self.reader = reader
        self.defined: dict[str, int] = {}

    def derive(self, entry: Entry) -> Adaptation | YamlEntry:
        """The operator of an entry under ``custom:``, or why there is none."""
        operator = f"{self.namespace}::{entry.name}"[:100]
        try:
            schema = parse_schema(entry.func, namespace=self.namespace)
            made = self._adaptation(entry, schema)
        except (SchemaError, OutputRuleError) as e:
            return YamlEntry(operator, entry.group, entry.line, "refused", _reason(e))
        except _RefusedError as e:
            return YamlEntry(operator, entry.group, entry.line, "refused", str(e))
        if entry.name in self.defined:
            reason = f"line {self.defined[entry.name]} defines it"
            return YamlEntry(operator, entry.group, entry.line, "refused", reason)
        self.defined[entry.name] = entry.line
        return made

    def _check_version(self, entry: Entry) -> None:
        if entry.op_api is None:
            raise _RefusedError("it has no op_api: (op_api: all_version)")
        running = ".".join(torch.__version__.split(".")[:2])
        known = [_version(text) for text in self.reader.versions]
        now = _version(f"v{running}")
        newest = max((v for v in known if v is not None), default=None)
        if now is not None and newest is not None and now > newest:
            now = newest  # a PyTorch that the file does not know yet
        if not _holds(entry.op_api, now, newest, interval=entry.is_interval):
            raise _RefusedError(f"op_api: {', '.join(entry.op_api)} does not hold for PyTorch {running}")

    def _inherited(self, entry: Entry) -> Entry:
        """The entry that an entry takes everything from; itself if it does not."""
        seen = [entry.name]
        while entry.inherit is not None:
            name = entry.inherit.strip()
            parent = self.reader.all_entries.get(name)
            if parent is None:
                raise _RefusedError(f"structured_inherit: the file has no entry {name[:80]!r}")
            if name in seen:
                raise _RefusedError(f"structured_inherit: {' -> '.join([*seen, name])} is a circle")
            seen.append(name)
            entry = parent
        return entry

    def _adaptation(self, entry: Entry, schema: OperatorSchema) -> Adaptation:
        problems = _Problems()
        problems.of(self._check_version, entry)
        if not entry.generated:
            problems.found.append(
                "it has no gen_opapi:, so its adaptation is written by hand in C++; register it with torch.library"
            )
            problems.give_up()
        source = problems.of(self._inherited, entry) or problems.give_up()
        if not source.generated or source.exec is None:
            problems.found.append("gen_opapi: has no exec:" if source is entry else f"{source.name} has no exec:")
        results, destinations = problems.of(_results, schema, source is not entry) or problems.give_up()
        scope = {**scope_of(schema)}
        if source is not entry:
            # The other entry's outputs, which its rules and its exec may name, are results or arguments here.
            scope = {**dict.fromkeys(source.outputs, "other"), **scope}
        parameters = problems.of(self._parameters, source, scope)
        names = problems.of(_output_names, schema, source, results, destinations, source is entry)
        if parameters is None or names is None:
            problems.give_up()  # the rules may name the parameters
        scope.update((name, kind_of_rule(rule)) for name, rule in parameters)
        outputs = [_output_rule(source, name, scope, bool(destinations), problems) for name in names]
        if source.exec is None:
            problems.give_up()
        call = problems.of(_call, source.exec, schema, scope, names, destinations)
        if call is None or problems.found:
            problems.give_up()
        kernel, arguments, order = call
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

    def _parameters(self, entry: Entry, scope: Scope) -> list[tuple[str, Rule]]:
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


def _version(text: str) -> tuple[int, int] | None:
    """``"v2.1"`` -> ``(2, 1)``."""
    found = re.fullmatch(r"v(\d{1,3})\.(\d{1,3})", text.strip(), re.ASCII)
    return (int(found[1]), int(found[2])) if found else None


def _holds(
    op_api: Sequence[str], now: tuple[int, int] | None, newest: tuple[int, int] | None, *, interval: bool
) -> bool:
    """Whether ``all_version``, a list ``v2.1, v2.2``, or a closed interval ``[v2.1, newest]`` includes a version."""
    if "all_version" in op_api:
        return True
    versions = [newest if text == "newest" else _version(text) for text in op_api]
    if now is None:
        return False
    if interval:
        low, high = versions
        return low is not None and low <= now and (op_api[1] == "newest" or (high is not None and now <= high))
    return now in versions


def _results(schema: OperatorSchema, inherits: bool) -> tuple[int, tuple[str, ...]]:
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
    schema: OperatorSchema, entry: Entry, results: int, destinations: Sequence[str], own: bool
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


def _output_rule(
    entry: Entry, name: str, scope: Scope, has_destination: bool, problems: _Problems
) -> OutputRule | None:
    given = entry.outputs.get(name, OutputText(None, None))
    missing = [f"{key}:" for key, text in (("size", given.size), ("dtype", given.dtype)) if text is None]
    if missing and has_destination:
        return None
    if missing:
        problems.found.append(f"the output {name} has no {' and no '.join(missing)}")
    size = None if given.size is None else problems.of(parse_size, given.size, scope)
    dtype = None if given.dtype is None else problems.of(parse_dtype, given.dtype, scope)
    return None if size is None or dtype is None else OutputRule(name, size, dtype)


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
