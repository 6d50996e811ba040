"""JSON files of operator prototypes (specification, F-109): reading, and writing one from a torch schema."""

from __future__ import annotations

import difflib
import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from torchair.convert.schemas import OperatorSchema
from torchair.customop.schema_text import identifier_problem, parse_schema, schema_problems
from torchair.errors import OperatorFileError, OperatorFileNotFoundError, PrototypeArgumentTypeError, SchemaError
from torchair.ir import DType, Format
from torchair.logs import get_logger
from torchair.opset.attributes import attr_value
from torchair.opset.loading import load_operators
from torchair.opset.prototype import (
    REQUIRED,
    AttrSpec,
    Columns,
    InputSpec,
    Kind,
    OutputSpec,
    Prototype,
    prototypes,
)

__all__ = ["load_prototypes", "prototype_json", "read_prototypes", "read_text"]

logger = get_logger(__name__)

_MAX_BYTES = 16 * 2**20
_MAX_OPERATORS = 10_000

#: Dtypes that files name as ``DataType`` does.
_PLAIN_DTYPES = (
    *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool", "string", "complex64"),
    *("complex128", "qint8", "qint16", "qint32", "quint8", "quint16", "resource"),
)
#: Names of dtypes in files. Source: feature specification, F-109.
_DTYPES: dict[str, str] = {
    "float": "DT_FLOAT",
    "float32": "DT_FLOAT",
    "fp32": "DT_FLOAT",
    "half": "DT_FLOAT16",
    "float16": "DT_FLOAT16",
    "fp16": "DT_FLOAT16",
    "bf16": "DT_BF16",
    "bfloat16": "DT_BF16",
    "double": "DT_DOUBLE",
    **{name: f"DT_{name.upper()}" for name in _PLAIN_DTYPES},
    "quint32": "quint32",  # no DataType stands for it
}
assert all(name in DType.__members__ or name == "quint32" for name in _DTYPES.values())
#: Classes of dtypes, which stand for several at once.
_DTYPE_CLASSES = ("numbertype", "realnumbertype", "quantizedtype", "BasicType", "IndexNumberType", "all")
_FORMATS = tuple(member.name.removeprefix("FORMAT_") for member in Format if member is not Format.FORMAT_UNDEFINED)

_ATTR_TYPES = {
    "int": "Int",
    "bool": "Bool",
    "float": "Float",
    "string": "Str",
    "list_int": "ListInt",
    "list_float": "ListFloat",
    "list_bool": "ListBool",
    "list_list_int": "ListListInt",
}
_FILE_ATTR_TYPES = {ours: theirs for theirs, ours in _ATTR_TYPES.items()}
#: A dtype is passed to the IR operator as its number.
_FILE_ATTR_TYPES["DataType"] = "int"

_OPERATOR_FIELDS = ("op", "input_desc", "output_desc", "attr")
_TENSOR_FIELDS = ("name", "param_type", "format", "type")
_ATTR_FIELDS = ("name", "param_type", "type", "default_value")
#: Fields that files of other tools have and that say nothing about the prototype.
_IGNORED_FIELDS = ("language",)


def load_prototypes(path: str | os.PathLike[str]) -> tuple[Prototype, ...]:
    """Declare the operators of a JSON prototype file, as ``torchair.ge.declare_op`` does one by one.

    Nothing is declared if anything in the file is wrong. Loading a file again is harmless.

    Returns:
        The prototypes in the order of the file.

    Raises:
        OperatorFileError: The file is malformed, or one of its operators is built in with another prototype; lists all
            problems with their places.
    """
    found = read_prototypes(path)
    load_operators()
    builtin = {p.name: p for p in prototypes if prototypes.is_builtin(p.name)}
    problems = [
        f"$[{i}].op: {p.name!r} is built in as {builtin[p.name].signature}; the file has {p.signature}"
        for i, p in enumerate(found)
        if p.name in builtin and builtin[p.name].signature != p.signature
    ]
    if problems:
        raise _malformed(path, problems, "Choose another name.")
    for prototype in found:
        if prototype.name not in builtin:
            prototypes.declare(prototype)
    return found


def read_prototypes(path: str | os.PathLike[str]) -> tuple[Prototype, ...]:
    """Read a JSON prototype file, and declare nothing.

    Raises:
        OperatorFileError: As of :func:`load_prototypes`.
    """
    text = read_text(path)
    return _Reader(path).read(text)


def read_text(path: str | os.PathLike[str]) -> str:
    """The text of a file that describes operators.

    Raises:
        OperatorFileError: It is not there, is no regular file, is too large, or is not UTF-8.
    """
    given: object = path
    if not isinstance(given, str | os.PathLike) or "\0" in str(path):
        raise _malformed(path, ["the path is not one of a file"])
    file = Path(path)
    if not file.exists():
        raise OperatorFileNotFoundError(_WHAT, why="the file does not exist", fix=_FIX, where=str(path))
    if not file.is_file():
        raise _malformed(path, ["it is not a regular file"])
    try:
        size = file.stat().st_size
        if size > _MAX_BYTES:
            raise _malformed(path, [f"it has {size} bytes; {_MAX_BYTES} are allowed"])
        return file.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as e:
        raise _malformed(path, [f"it is not UTF-8: {e}"]) from None
    except OSError as e:
        raise _malformed(path, [f"it cannot be read: {e.strerror}"]) from e


_WHAT = "A file that describes operators is malformed"
_FIX = "Correct the file; docs/custom-operators.md shows one."


def _malformed(path: Any, problems: Sequence[str], fix: str = _FIX) -> OperatorFileError:
    shown = list(problems[:_SHOWN])
    if len(problems) > _SHOWN:
        shown.append(f"and {len(problems) - _SHOWN} more")
    return OperatorFileError(_WHAT, why=shown, fix=fix, where=str(path))


_SHOWN = 50


class _DuplicateError(Exception):
    """An object has a key twice."""


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        keys = [key for key, _ in pairs]
        raise _DuplicateError(next(key for key in keys if keys.count(key) > 1))
    return made


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 80 else f"{text[:80]}..."


class _Reader:
    """Reads one file; collects what is wrong, each with its JSON path."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = path
        self.problems: list[str] = []

    def read(self, text: str) -> tuple[Prototype, ...]:
        try:
            document = json.loads(text, object_pairs_hook=_object, parse_constant=_refuse_constant)
        except _DuplicateError as e:
            raise _malformed(self.path, [f"an object has the field {str(e)!r} twice"]) from None
        except json.JSONDecodeError as e:
            raise _malformed(self.path, [f"line {e.lineno}, column {e.colno}: {e.msg}"]) from None
        except RecursionError:
            raise _malformed(self.path, ["it is nested too deep"]) from None
        except ValueError as e:  # a constant such as NaN, a number of thousands of digits
            raise _malformed(self.path, [str(e)]) from None
        if not isinstance(document, list):
            raise _malformed(self.path, [f"$: it is a list of operators, not {_kind(document)}"])
        if len(document) > _MAX_OPERATORS:
            raise _malformed(self.path, [f"$: it has {len(document)} operators; {_MAX_OPERATORS} are allowed"])
        found = [self._operator(entry, f"$[{i}]") for i, entry in enumerate(document)]
        first: dict[str, str] = {}
        for i, entry in enumerate(document):
            name = entry.get("op") if isinstance(entry, dict) else None
            if isinstance(name, str) and first.setdefault(name, f"$[{i}]") != f"$[{i}]":
                self.problems.append(f"$[{i}].op: {_short(name)} is in the file already, at {first[name]}")
        if self.problems:
            raise _malformed(self.path, self.problems)
        return tuple(p for p in found if p is not None)

    def _operator(self, entry: Any, at: str) -> Prototype | None:
        before = len(self.problems)
        if not self._fields(entry, at, _OPERATOR_FIELDS, ("op", "output_desc")):
            return None
        name = entry.get("op")
        if "op" in entry and (problem := _type_name_problem(name)):
            self.problems.append(f"{at}.op: {_short(name)} {problem}")
        inputs, outputs, attrs = (self._list(entry, at, field) for field in ("input_desc", "output_desc", "attr"))
        in_specs: dict[str, InputSpec] = {}
        for description, place in inputs:
            if (made := self._tensor(description, place)) is not None:
                in_specs[made.name] = made
        out_specs: dict[str, OutputSpec] = {}
        for description, place in outputs:
            if (made := self._tensor(description, place)) is not None:
                if made.kind == "optional":
                    self.problems.append(f"{place}.param_type: an output is 'required' or 'dynamic'")
                out_specs[made.name] = OutputSpec(made.name, made.kind, made.columns)
        attr_specs = {
            spec.name: spec for spec in (self._attr(e, place, name) for e, place in attrs) if spec is not None
        }
        self._check_columns([*in_specs.values(), *out_specs.values()], at)
        for shared in in_specs.keys() & attr_specs.keys():
            self.problems.append(f"{at}: {shared!r} is both an input and an attribute")
        for shared in out_specs.keys() & in_specs.keys():
            if out_specs[shared].kind != in_specs[shared].kind:
                self.problems.append(
                    f"{at}: the input {shared!r} is {in_specs[shared].kind} and the output of that name, "
                    f"its new value, {out_specs[shared].kind}"
                )
        if len(self.problems) > before:
            return None
        source = f"prototype file {Path(self.path).name}"
        return Prototype(name, tuple(in_specs.values()), tuple(attr_specs.values()), tuple(out_specs.values()), source)

    def _fields(self, entry: Any, at: str, known: Sequence[str], required: Iterable[str]) -> bool:
        if not isinstance(entry, dict):
            self.problems.append(f"{at}: it is an object, not {_kind(entry)}")
            return False
        self.problems += [f"{at}.{field}: the field is missing" for field in required if field not in entry]
        for field in entry:
            if field in known or field in _IGNORED_FIELDS:
                continue
            close = difflib.get_close_matches(field, known, n=1, cutoff=0.75)
            if close:
                self.problems.append(f"{at}: no field is called {field[:80]!r}; did you mean {close[0]!r}?")
            else:
                logger.warning("%s: %s: the field %r is not known and ignored", self.path, at, field[:80])
        return True

    def _list(self, entry: Mapping[str, Any], at: str, field: str) -> list[tuple[Any, str]]:
        """The items of a list with their paths."""
        items = entry.get(field, [])
        if not isinstance(items, list):
            self.problems.append(f"{at}.{field}: it is a list, not {_kind(items)}")
            return []
        return [(item, f"{at}.{field}[{i}]") for i, item in enumerate(items)]

    def _name(self, entry: Mapping[str, Any], at: str) -> str | None:
        name = entry.get("name")
        if "name" in entry and (problem := identifier_problem(name)):
            self.problems.append(f"{at}.name: {_short(name)} {problem}")
            return None
        return name

    def _param_type(self, entry: Mapping[str, Any], at: str, kinds: Sequence[str]) -> str | None:
        kind = entry.get("param_type", "required")
        if kind not in kinds:
            self.problems.append(f"{at}.param_type: {_short(kind)} is none of {', '.join(kinds)}")
            return None
        return str(kind)

    def _tensor(self, entry: Any, at: str) -> InputSpec | None:
        if not self._fields(entry, at, _TENSOR_FIELDS, ("name", "format", "type")):
            return None
        name, kind = self._name(entry, at), self._param_type(entry, at, ("required", "optional", "dynamic"))
        dtypes = self._texts(entry, at, "type", {**_DTYPES, **{c: c for c in _DTYPE_CLASSES}})
        formats = self._texts(entry, at, "format", {f: f for f in _FORMATS})
        if name is None or kind is None or not dtypes or not formats:
            return None
        if len(dtypes) != len(formats):
            if len(dtypes) == 1:
                dtypes *= len(formats)
            elif len(formats) == 1:
                formats *= len(dtypes)
            else:
                self.problems.append(
                    f"{at}: it has {len(dtypes)} types and {len(formats)} formats; there are equally many, or one"
                )
                return None
        kinds: dict[str, Kind] = {"required": "required", "optional": "optional", "dynamic": "dynamic"}
        return InputSpec(name, kinds[kind], columns=Columns(tuple(dtypes), tuple(formats)))

    def _texts(self, entry: Mapping[str, Any], at: str, field: str, known: Mapping[str, str]) -> list[str]:
        """The items of ``format`` or ``type`` as the prototype has them."""
        if field not in entry:
            return []
        items = entry[field]
        if not isinstance(items, list) or not items:
            shown = "an empty list" if items == [] else _kind(items)
            self.problems.append(f"{at}.{field}: it is a list of texts, not {shown}")
            return []
        found = []
        for i, item in enumerate(items):
            if isinstance(item, str) and item in known:
                found.append(known[item])
                continue
            close = difflib.get_close_matches(str(item)[:80], known, n=1)
            hint = f"; did you mean {close[0]!r}?" if close else f"; known are {', '.join(known)}"
            self.problems.append(f"{at}.{field}[{i}]: {_short(item)} is not known{hint}")
        return found if len(found) == len(items) else []

    def _check_columns(self, specs: Sequence[InputSpec | OutputSpec], at: str) -> None:
        counts = {
            spec.name: len(spec.columns.dtypes)
            for spec in specs
            if spec.columns is not None and not set(spec.columns.dtypes) & set(_DTYPE_CLASSES)
        }
        if len(set(counts.values())) > 1:
            shown = ", ".join(f"{name}: {count}" for name, count in counts.items())
            self.problems.append(
                f"{at}: inputs and outputs have different numbers of types ({shown}); position i of all of them "
                "together is one combination"
            )

    def _attr(self, entry: Any, at: str, operator: object) -> AttrSpec | None:
        if not self._fields(entry, at, _ATTR_FIELDS, ("name", "type")):
            return None
        name, kind = self._name(entry, at), self._param_type(entry, at, ("required", "optional"))
        given = entry.get("type")
        attr_type = _ATTR_TYPES.get(given) if isinstance(given, str) else None
        if "type" in entry and attr_type is None:
            self.problems.append(f"{at}.type: {_short(given)} is none of {', '.join(_ATTR_TYPES)}")
        if kind == "optional" and "default_value" not in entry:
            self.problems.append(f"{at}.default_value: the field is missing, and the attribute is optional")
            return None
        if name is None or kind is None or attr_type is None:
            return None
        if kind == "required":
            if "default_value" in entry:
                self.problems.append(
                    f'{at}.default_value: a required attribute has none; write "param_type": "optional"'
                )
            return AttrSpec(name, attr_type)
        default = entry["default_value"]
        try:
            value = attr_value(str(operator), name, attr_type, default)
        except (PrototypeArgumentTypeError, OverflowError):
            value = REQUIRED
        # A bool is an int for Python and no int for anybody else.
        if value is REQUIRED or (_has_bool(default) and "Bool" not in attr_type) or not _fits(value):
            self.problems.append(f"{at}.default_value: {_short(default)} is not of type {given}")
            return None
        return AttrSpec(name, attr_type, value)


def _has_bool(value: Any) -> bool:
    return isinstance(value, bool) or (isinstance(value, list) and any(map(_has_bool, value)))


def _fits(value: Any) -> bool:
    """Whether whole numbers have 64 bits and others are finite."""
    if isinstance(value, tuple):
        return all(map(_fits, value))
    if isinstance(value, float):
        return abs(value) < float("inf")
    return not isinstance(value, int) or -(2**63) <= value < 2**63


def _type_name_problem(name: object) -> str | None:
    if not isinstance(name, str) or not re.fullmatch(r"[A-Z][A-Za-z0-9]*", name, re.ASCII):
        return "is not a name in upper camel case: MyOp"
    return identifier_problem(name)


def _kind(value: Any) -> str:
    kinds: dict[type, str] = {dict: "an object", list: "a list", str: "a text", bool: "true or false"}
    return kinds.get(type(value), "null" if value is None else "a number")


# --- writing ---


def prototype_json(
    schema: str | OperatorSchema | Sequence[str | OperatorSchema], *, types: Sequence[str] = ("float",)
) -> str:
    """The JSON prototype of operators, from their torch schemas.

    ::

        print(prototype_json("my_op(Tensor x, Tensor? y, Tensor[] z, float attr1, int attr2) -> Tensor"))

    Args:
        schema: One schema, or several: a file has all operators of a project.
        types: Dtypes that every tensor supports, as combinations; the layout is ND.

    Raises:
        SchemaError: A schema cannot be read, or a JSON prototype cannot express it.
    """
    schemas = [schema] if isinstance(schema, str | OperatorSchema) else list(schema)
    unknown = [t for t in types if t not in _DTYPES and t not in _DTYPE_CLASSES]
    if unknown or not types:
        raise SchemaError(
            "A schema has no JSON prototype",
            why=f"the types of its tensors are {list(types)}; known are {', '.join(_DTYPES)}",
            fix='prototype_json(schema, types=["float", "half"])',
        )
    entries = [_entry(parse_schema(one) if isinstance(one, str) else one, list(types)) for one in schemas]
    return _formatted(entries) + "\n"


def _entry(schema: OperatorSchema, types: list[str]) -> dict[str, Any]:
    prototype = schema.derive_prototype()
    problems = schema_problems(schema)
    for spec in prototype.attrs:
        if spec.type not in _FILE_ATTR_TYPES:
            problems.append(f"attribute {spec.name!r} is of type {spec.type}, which JSON prototypes do not have")
        if spec.type == "DataType" and not spec.required:
            problems.append(f"attribute {spec.name!r} is a dtype with a default, which JSON prototypes do not have")
    problems += [
        f"argument {a.name!r} may be None, and an attribute of a JSON prototype always has a value"
        for a in schema.others
        if a.torch_type.endswith("?")
    ]
    problems += [f"output {spec.name!r} may be None" for spec in prototype.outputs if spec.kind == "optional"]
    if problems:
        raise SchemaError(
            "A schema has no JSON prototype",
            why=[f"schema: {schema.torch_schema}", *problems],
            fix="Change the schema (int n=-1 in place of int? n=None), or declare what Python can express: "
            "torchair.ge.declare_op.",
        )
    entry: dict[str, Any] = {"op": prototype.name}
    if prototype.inputs:
        entry["input_desc"] = [_tensor_entry(spec, types) for spec in prototype.inputs]
    if prototype.attrs:
        entry["attr"] = [_attr_entry(spec) for spec in prototype.attrs]
    entry["output_desc"] = [_tensor_entry(spec, types) for spec in prototype.outputs]
    return entry


def _tensor_entry(spec: InputSpec | OutputSpec, types: list[str]) -> dict[str, Any]:
    return {"name": spec.name, "param_type": spec.kind, "format": ["ND"] * len(types), "type": types}


def _attr_entry(spec: AttrSpec) -> dict[str, Any]:
    entry = {
        "name": spec.name,
        "param_type": "required" if spec.required else "optional",
        "type": _FILE_ATTR_TYPES[spec.type],
    }
    return entry if spec.required else {**entry, "default_value": spec.default}


def _formatted(entries: list[dict[str, Any]]) -> str:
    """JSON with one line for each input, output and attribute."""
    operators = []
    for entry in entries:
        fields = []
        for key, value in entry.items():
            if isinstance(value, list):
                items = ",\n".join(f"      {json.dumps(item, allow_nan=False)}" for item in value)
                fields.append(f'    "{key}": [\n{items}\n    ]')
            else:
                fields.append(f'    "{key}": {json.dumps(value)}')
        operators.append("  {\n" + ",\n".join(fields) + "\n  }")
    return "[\n" + ",\n".join(operators) + "\n]"
