"""Options as users read and assign them, and the groups that hold them.

A group is an attrs class with one field an option. Assigning checks the value and stores an :class:`Option`; reading
gives that object. attrs' own ``on_setattr`` hooks are not used: attrs lets a class have either them or a
``__setattr__`` that answers a misspelt name with the names that exist.
"""

from __future__ import annotations

import difflib
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar, overload

import attrs

from torchair.config.rules import Rule
from torchair.errors import ConfigTypeError, UnknownOptionError

__all__ = ["Option", "OptionGroup", "OptionSpec", "Scope", "Setting", "group", "option"]

T = TypeVar("T")
G = TypeVar("G", bound="OptionGroup")

_SPEC = "option"


class Scope(Enum):
    """How far an option reaches: one graph, the whole process, or only the Python side."""

    GRAPH = "L"
    PROCESS = "G"
    PYTHON = "P"


@dataclass(frozen=True, slots=True)
class OptionSpec:
    """Everything that is known about an option before anybody sets it.

    Attributes:
        rule: What it accepts.
        default: Its value until somebody assigns one. A default of None can always be assigned again.
        doc: One sentence: what it does.
        scope: How far it reaches.
        modes: The modes in which it acts: ``"ge"``, ``"capture"``.
        engine: The engine string that stands for it (specification, appendix 1), empty where there is none.
        encode: Gives the text for the engine; None leaves the engine string out.
        deprecated: Value -> what to use instead; assigning such a value warns.
    """

    rule: Rule
    default: Any
    doc: str
    scope: Scope = Scope.PYTHON
    modes: frozenset[str] = frozenset({"ge", "capture"})
    engine: str = ""
    encode: Callable[[Any], str | None] | None = None
    deprecated: tuple[tuple[Any, str], ...] = ()

    def accept(self, path: str, value: object) -> Any:
        """Return the value to store for ``value``.

        Raises:
            ConfigValueError, ConfigTypeError, ConfigFileNotFoundError: The value is not accepted.
        """
        if isinstance(value, Option):
            value = value.raw
        if value is None and self.default is None:
            return None
        return self.rule.convert(path, value)


@dataclass(frozen=True, slots=True, eq=False)
class Option(Generic[T]):
    """An option as it is read: as true or false as its value, and equal to it.

    Attributes:
        path: Its full name, such as ``config.debug.run_eagerly``.
        raw: The value itself.
        spec: What is known about it.
        keep_booleans: Whether :attr:`value` leaves booleans as they are (capture mode's configuration does).
    """

    path: str
    raw: T
    spec: OptionSpec
    keep_booleans: bool = False

    @property
    def value(self) -> Any:
        """The value in the form that engines take: True is ``"1"``, False ``"0"``, None None, everything else text."""
        if self.raw is None or (self.keep_booleans and isinstance(self.raw, bool)):
            return self.raw
        return str(int(self.raw)) if isinstance(self.raw, bool) else str(self.raw)

    @property
    def default(self) -> Any:
        """The value before anybody assigned one."""
        return self.spec.default

    @property
    def optional(self) -> list[Any] | None:
        """The values that may be assigned; the bounds of an int; None where they cannot be listed."""
        choices = self.spec.rule.choices()
        return [*choices, None] if choices and self.spec.rule.nullable else choices

    @property
    def is_default(self) -> bool:
        """Whether the value is the one that nobody assigned."""
        return _same(self.raw, self.spec.default)

    def __bool__(self) -> bool:
        return bool(self.raw)

    def __eq__(self, other: object) -> bool:
        return _same(self.raw, other.raw if isinstance(other, Option) else other)

    def __hash__(self) -> int:
        return hash(self.raw)

    def __str__(self) -> str:
        return str(self.raw)

    def __repr__(self) -> str:
        return f"<{self.path} = {self.raw!r}{' (default)' if self.is_default else ''}>"

    def __deepcopy__(self, memo: dict[int, Any]) -> Option[T]:
        """Copy lists and dictionaries; share the rest: a pass may be a method of a model, which nobody wants copied."""
        return replace(self, raw=_copy(self.raw))


def _same(a: object, b: object) -> bool:
    """Whether two values are the same setting: a list is equal to the tuple it was assigned as."""
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(_same(x, y) for x, y in zip(a, b, strict=True))
    return a is b or bool(a == b)


def _copy(value: Any) -> Any:
    if isinstance(value, list):
        return [_copy(item) for item in value]
    return {key: _copy(item) for key, item in value.items()} if isinstance(value, dict) else value


if TYPE_CHECKING:

    class Setting(Generic[T]):
        """What type checkers see of an option: it is read as an :class:`Option` and assigned a plain value."""

        @overload
        def __get__(self, instance: None, owner: type[Any]) -> Any: ...
        @overload
        def __get__(self, instance: object, owner: type[Any]) -> Option[T]: ...
        def __get__(self, instance: object | None, owner: type[Any]) -> Any: ...
        def __set__(self, instance: object, value: T | Option[T]) -> None: ...
else:

    class Setting(Generic[T]):
        """The annotation of an option's field, see above; attrs replaces the field itself."""


def option(
    rule: Rule,
    default: Any,
    doc: str,
    engine: str = "",
    encode: Callable[[Any], str | None] | None = None,
    *,
    scope: Scope = Scope.PYTHON,
    modes: str = "ge capture",
    deprecated: tuple[tuple[Any, str], ...] = (),
) -> Any:
    """Declare an option of a group; the arguments are those of :class:`OptionSpec`."""
    rule = replace(rule, nullable=default is None)
    spec = OptionSpec(rule, default, doc, scope, frozenset(modes.split()), engine, encode, deprecated)
    return attrs.field(init=False, metadata={_SPEC: spec})


def group(kind: type[G]) -> G:
    """Declare a group of options inside a group."""
    field: Any = attrs.field(init=False, factory=kind)
    return field  # type: ignore[no-any-return]  # attrs makes it an attribute of that type


class OptionGroup:
    """Base of the attrs classes that hold options.

    A subclass is decorated with ``@attrs.define(init=False, repr=False)``. Its attributes are fixed: an unknown name is
    an error that lists those there are.
    """

    __slots__ = ()

    group_path: ClassVar[str]
    """How the user reaches the group, the start of its options' full names."""
    keep_booleans: ClassVar[bool] = False
    """See :class:`Option`."""

    def __init__(self) -> None:
        for field in attrs.fields(type(self)):  # type: ignore[arg-type]  # subclasses are attrs classes
            spec = field.metadata.get(_SPEC)
            # The default is copied: a list or dict would be shared between configurations.
            value = self._wrap(field.name, _copy(spec.default), spec) if spec else field.default.factory()
            object.__setattr__(self, field.name, value)

    def _set(self, name: str, value: object) -> None:
        spec = self._spec(name)
        path = f"{self.group_path}.{name}"
        if spec is None:
            what = "A group of options cannot be replaced"
            raise ConfigTypeError(what, why=path, fix=f"assign its options one by one: {path}.<option> = value")
        stored = spec.accept(path, value)
        for old, instead in spec.deprecated:
            if stored == old:
                warnings.warn(f"{path} = {old!r} is deprecated: {instead}", DeprecationWarning, stacklevel=2)
        object.__setattr__(self, name, self._wrap(name, stored, spec))

    def __delattr__(self, name: str) -> None:
        self._spec(name)
        path = f"{self.group_path}.{name}"
        raise ConfigTypeError("An option cannot be deleted", why=path, fix=f"assign its default: {path} = ...")

    def _get_missing(self, name: str) -> Any:
        # Reached only for names that no attribute has. Python itself asks for many __names__, in copy and pickle.
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        raise self.unknown([name])

    if not TYPE_CHECKING:  # type checkers know the options, and report a misspelt one themselves
        __setattr__ = _set
        __getattr__ = _get_missing

    def __dir__(self) -> list[str]:
        return sorted({*object.__dir__(self), *self.names()})

    def __repr__(self) -> str:
        changed = (f"{option.path.partition('.')[2]}={option.raw!r}" for option in self.walk() if not option.is_default)
        return f"{type(self).__name__}({', '.join(changed)})"

    def walk(self) -> Iterator[Option[Any]]:
        """Yield every option of the group and of those inside it, in the order of declaration."""
        for name in self.names():
            item = getattr(self, name)
            if isinstance(item, OptionGroup):
                yield from item.walk()
            else:
                yield item

    def lookup(self, path: str) -> Option[Any]:
        """Return the option of a dotted path that starts below this group, such as ``debug.run_eagerly``."""
        item: Any = self
        for name in path.split("."):
            item = getattr(item, name)
        assert isinstance(item, Option), f"{path} is a group of options"
        return item

    def assign(self, path: str, value: object) -> None:
        """Assign to the option of a dotted path that starts below this group."""
        *groups, name = path.split(".")
        item: Any = self
        for step in groups:
            item = getattr(item, step)
        setattr(item, name, value)

    @classmethod
    def names(cls) -> list[str]:
        """Return the names of the options and groups of this group."""
        return [field.name for field in attrs.fields(cls)]  # type: ignore[arg-type]  # subclasses are attrs classes

    def _spec(self, name: str) -> OptionSpec | None:
        """Return what is known about the option; None for a group."""
        field = attrs.fields_dict(type(self)).get(name)  # type: ignore[arg-type]  # subclasses are attrs classes
        if field is None:
            raise self.unknown([name])
        spec: OptionSpec | None = field.metadata.get(_SPEC)
        return spec

    def _wrap(self, name: str, value: object, spec: OptionSpec) -> Option[Any]:
        return Option(f"{self.group_path}.{name}", value, spec, self.keep_booleans)

    @classmethod
    def _elsewhere(cls, name: str) -> list[str]:
        """Return the full names of options called ``name`` in other groups."""
        return []

    @classmethod
    def unknown(cls, names: list[str]) -> UnknownOptionError:
        """Make the error for names that are not there, with all that are."""
        known = cls.names()
        hints = []
        for name in names:
            close = [f"{cls.group_path}.{near}" for near in difflib.get_close_matches(name, known, n=1)]
            if places := cls._elsewhere(name) or close:
                hints.append(f"did you mean {' or '.join(places)}?")
        why = [*(f"{cls.group_path} has no option {name!r}" for name in names), f"its options: {', '.join(known)}"]
        return UnknownOptionError("No option has that name", why=why, fix="\n".join(hints))
