"""Prototypes: the declared signatures of Ascend IR operators, and the registry of all that are known.

Built-in operators get theirs from a Python signature (``operator.py``), users declare theirs from Python or JSON. All
are the same object, so that ``custom_op``, automatic conversion, checks and export treat them alike.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from torchair.errors import PrototypeError
from torchair.logs import get_logger

__all__ = [
    "ATTR_TYPES",
    "REQUIRED",
    "AttrSpec",
    "Columns",
    "InputSpec",
    "OutputSpec",
    "Prototype",
    "PrototypeRegistry",
    "ir_name",
    "prototypes",
]

logger = get_logger(__name__)

Kind: TypeAlias = Literal["required", "optional", "dynamic"]

#: Attribute types, as ``torchair.ge.attr`` names them. Source: feature specification, F-58.
ATTR_TYPES = (
    "Bool",
    "DataType",
    "Float",
    "Int",
    "ListBool",
    "ListDataType",
    "ListFloat",
    "ListInt",
    "ListListFloat",
    "ListListInt",
    "ListStr",
    "Str",
)


class _Required:
    """The default of an attribute that has none."""

    def __repr__(self) -> str:
        return "REQUIRED"


REQUIRED = _Required()

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


def _is_identifier(name: object) -> bool:
    return isinstance(name, str) and _IDENTIFIER.match(name) is not None


@dataclass(frozen=True, slots=True)
class Columns:
    """The dtypes and layouts that a device supports for one input or output, of equal length.

    Position ``i`` of all inputs and outputs together is one supported combination; combinations are not crossed.

    Attributes:
        dtypes: Names of ``torchair.ge.DataType`` (``"DT_FLOAT"``), or classes of them (``"numbertype"``).
        formats: Names of ``torchair.ge.Format`` without ``FORMAT_`` (``"ND"``).
    """

    dtypes: tuple[str, ...]
    formats: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class InputSpec:
    """One input.

    ``host`` inputs are integers that the lowering receives as a sequence (sizes, axes, permutations). ``columns`` is
    what a device supports, where a file says so; here it restricts nothing.
    """

    name: str
    kind: Kind = "required"
    host: bool = False
    columns: Columns | None = None


@dataclass(frozen=True, slots=True)
class OutputSpec:
    """One output; a dynamic one stands for a list whose length the node decides. ``columns``: as of an input."""

    name: str
    kind: Kind = "required"
    columns: Columns | None = None


@dataclass(frozen=True, slots=True)
class AttrSpec:
    """One attribute: its type (one of :data:`ATTR_TYPES`) and default (:data:`REQUIRED` when it has none)."""

    name: str
    type: str
    default: Any = REQUIRED

    @property
    def required(self) -> bool:
        return self.default is REQUIRED


@dataclass(frozen=True, slots=True)
class Prototype:
    """The signature of an Ascend IR operator.

    Attributes:
        name: ``"MatMulV2"``.
        inputs, attrs, outputs: In the order that positional calls use.
        source: Where the signature is from (document and version), or ``"user"``.
        derived: Made from a torch schema because nobody declared one; a device would not know it.

    Raises:
        PrototypeError: A name is not an identifier, is used twice, or an attribute type does not exist.
    """

    name: str
    inputs: tuple[InputSpec, ...] = ()
    attrs: tuple[AttrSpec, ...] = ()
    outputs: tuple[OutputSpec, ...] = ()
    source: str = "user"
    derived: bool = False

    def __post_init__(self) -> None:
        problems = []
        if not _is_identifier(self.name):
            problems.append(f"the operator name {self.name!r} is not an identifier")
        for title, specs in (("input", self.inputs), ("attribute", self.attrs), ("output", self.outputs)):
            names: list[Any] = [spec.name for spec in specs]
            problems += [f"{title} {n!r} is not an identifier" for n in names if not _is_identifier(n)]
            problems += [f"{title} {n!r} is declared twice" for n in dict.fromkeys(names) if names.count(n) > 1]
        inputs = {spec.name for spec in self.inputs}
        problems += [f"{a.name!r} is both an input and an attribute" for a in self.attrs if a.name in inputs]
        problems += [
            f"attribute {a.name!r} has type {a.type!r}, which is none of {', '.join(ATTR_TYPES)}"
            for a in self.attrs
            if a.type not in ATTR_TYPES
        ]
        if problems:
            raise PrototypeError(
                "An operator prototype is not valid",
                why=[f"{self.name}: {p}" for p in problems],
                fix="Correct the declaration.",
            )

    @property
    def reference_outputs(self) -> tuple[str, ...]:
        """Names that are an output and an input: the operator writes these inputs in place."""
        inputs = {spec.name for spec in self.inputs}
        return tuple(spec.name for spec in self.outputs if spec.name in inputs)

    @property
    def signature(self) -> str:
        """One line for people: ``MyOp(x, y?, z[]; attr1: Float, attr2: Int = 0) -> (out)``."""
        mark = {"required": "", "optional": "?", "dynamic": "[]"}
        inputs = ", ".join(i.name + mark[i.kind] for i in self.inputs)
        attrs = ", ".join(f"{a.name}: {a.type}" + ("" if a.required else f" = {a.default!r}") for a in self.attrs)
        outputs = ", ".join(o.name + mark[o.kind] for o in self.outputs)
        return f"{self.name}({inputs}{'; ' if attrs else ''}{attrs}) -> ({outputs})"


def ir_name(operator_name: str) -> str:
    """``"ns::my_op_functional"`` -> ``"MyOp"``: words capitalized and joined, a last word ``functional`` dropped."""
    words = operator_name.rpartition("::")[2].partition(".")[0].split("_")
    if len(words) > 1 and words[-1] == "functional":
        words.pop()
    return "".join(word.capitalize() for word in words)


class PrototypeRegistry:
    """All known prototypes by name: built-in ones, and those that users declare (process-wide)."""

    def __init__(self) -> None:
        self._builtin: dict[str, Prototype] = {}
        self._user: dict[str, Prototype] = {}
        self.revision = 0

    def add_builtin(self, prototype: Prototype) -> None:
        """Register one of ours."""
        assert prototype.name not in self._builtin, f"{prototype.name} is defined twice"
        self._builtin[prototype.name] = prototype

    def declare(self, prototype: Prototype) -> None:
        """Register a user's prototype; a later one replaces an earlier one of that name, and a warning says so.

        Raises:
            PrototypeError: The name is built-in.
        """
        name = prototype.name
        known = self._builtin.get(name)
        if known is not None and known != prototype:
            raise PrototypeError(
                "A built-in operator of that name has another prototype",
                why=[f"built-in: {known.signature}", f"declared: {prototype.signature}"],
                fix="Choose another name.",
            )
        earlier = self._user.get(name)
        if earlier is not None and earlier != prototype:
            logger.warning("%s is declared again: %s instead of %s", name, prototype.signature, earlier.signature)
        self._user[name] = prototype
        self.revision += 1

    def forget(self, name: str) -> None:
        """Drop a user's prototype (tests, reloading a project)."""
        self._user.pop(name, None)
        self.revision += 1

    def get(self, name: str) -> Prototype | None:
        """The prototype of that name, or None."""
        return self._user.get(name) or self._builtin.get(name)

    def is_builtin(self, name: str) -> bool:
        """Whether an operator of that name is one of ours."""
        return name in self._builtin

    def __iter__(self) -> Iterator[Prototype]:
        return iter((*self._builtin.values(), *self._user.values()))

    def snapshot(self) -> tuple[Prototype, ...]:
        """What users declared, in a form that can be part of a cache key."""
        return tuple(self._user[name] for name in sorted(self._user))


#: The process-wide registry.
prototypes = PrototypeRegistry()
