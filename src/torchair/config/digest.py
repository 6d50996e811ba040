"""Digests of the code of functions that users give us, for cache keys.

A pass that the user edits between two runs must not find the result of its old code. The digest covers the function's
bytecode, constants, defaults and closure, and what it uses from its own module. An object whose state cannot be read as
text gets a token, so that its key is found again in this process only: a miss too many, never a wrong hit. A ``uuid()``
method, as PyTorch's ``CustomGraphPass`` has, replaces all of this.
"""

from __future__ import annotations

import contextlib
import enum
import functools
import hashlib
import types
import uuid
import weakref
from collections.abc import Callable, Iterable, Iterator

__all__ = ["code_digest"]

_PLAIN = (type(None), bool, int, float, complex, str, bytes, type(Ellipsis))
_MAX_DEPTH = 60
_MAX_OBJECTS = 20_000


class _PlainObject:
    """An object whose whole state is its ``__dict__``; others have state in C that nothing here would see."""


def code_digest(function: Callable[..., object]) -> str:
    """Return a digest, 32 hexadecimal digits, that changes when the code of ``function`` does."""
    return hashlib.sha256(_Describer().describe(function).encode()).hexdigest()[:32]


class _Describer:
    """Writes values as texts that are equal for equal code and state, in other processes too."""

    def __init__(self) -> None:
        # Functions, classes and objects by identity, numbered as they come: ends cycles, and says shared things once.
        # Not tuples and code: whether equal ones are one object differs between compiled and loaded bytecode.
        self._seen: dict[int, int] = {}
        self._keep: list[object] = []  # an identity in _seen must not come back for another object
        self._depth = 0

    def describe(self, value: object) -> str:
        if isinstance(value, enum.Enum):
            return f"{_qualified(type(value))}.{value.name}"
        if type(value) in _PLAIN:
            return f"{type(value).__name__}:{value!r}"
        if type(value) is tuple:
            return self._parts("tuple", value)
        if isinstance(value, set | frozenset) and all(type(item) in {*_PLAIN, tuple} for item in value):
            return f"set({','.join(sorted(map(self.describe, value)))})"
        if isinstance(value, types.CodeType):
            names = (value.co_names, value.co_varnames, value.co_freevars, value.co_cellvars)
            counts = (value.co_argcount, value.co_posonlyargcount, value.co_kwonlyargcount, value.co_flags)
            return self._parts("code", (value.co_code, value.co_consts, names, counts))
        if isinstance(value, types.ModuleType):
            return f"module:{value.__name__}"
        if isinstance(value, types.BuiltinFunctionType | type):
            return f"name:{_qualified(value)}"
        return self._once(value, self._describe_object)

    def _once(self, value: object, describe: Callable[[object], str]) -> str:
        if id(value) in self._seen:
            return f"same:{self._seen[id(value)]}"
        if self._depth >= _MAX_DEPTH or len(self._seen) >= _MAX_OBJECTS:
            return _token(value)
        self._seen[id(value)] = len(self._seen)
        self._keep.append(value)
        self._depth += 1
        try:
            return describe(value)
        finally:
            self._depth -= 1

    def _describe_object(self, value: object) -> str:
        if isinstance(value, types.FunctionType):
            parts = (value.__code__, value.__defaults__, value.__kwdefaults__, *_cells(value))
            return self._parts("function", parts) + self._used(value)
        if isinstance(value, types.MethodType):
            return self._parts("method", (value.__func__, value.__self__))
        if isinstance(value, functools.partial):
            return self._parts("partial", (value.func, value.args, value.keywords))
        if isinstance(value, staticmethod | classmethod):
            return self._parts("static", (value.__func__,))
        if isinstance(value, property):
            return self._parts("property", (value.fget, value.fset))
        if type(value) is list:
            return self._parts("list", value)
        if type(value) is dict:
            return self._parts("dict", value.items())
        kind = _qualified(type(value))
        identify = getattr(value, "uuid", None)
        if callable(identify):
            return f"{kind}:{self.describe(identify())}"
        if type(value).__basicsize__ != _PlainObject.__basicsize__ or not hasattr(value, "__dict__"):
            return f"{kind}:{_token(value)}"
        return f"{kind}({self._once(type(value), self._describe_class)},{self.describe(vars(value))})"

    def _describe_class(self, cls: object) -> str:
        """Describe a class by its bases and its members: what the user wrote, as far as it is in one module."""
        assert isinstance(cls, type)
        parts = []
        for base in cls.__mro__:
            if base.__module__ != cls.__module__:
                parts.append(_qualified(base))
                continue
            for name, member in vars(base).items():
                written = isinstance(member, types.FunctionType | staticmethod | classmethod | property)
                if written or (type(member) in _PLAIN and not name.startswith("__")):
                    parts.append(f"{name}={self.describe(member)}")
        return f"class({','.join(parts)})"

    def _used(self, function: types.FunctionType) -> str:
        """Describe what a function uses from its module: code there, constants, and the names of everything else."""
        parts = []
        for name in sorted(set(_names(function.__code__))):
            if name not in function.__globals__:
                continue
            value = function.__globals__[name]
            own = getattr(value, "__module__", None) == function.__module__
            if own and isinstance(value, type):
                text = self._once(value, self._describe_class)
            elif (own and isinstance(value, types.FunctionType)) or type(value) in {*_PLAIN, tuple}:
                text = self.describe(value)
            else:
                text = str(getattr(value, "__qualname__", getattr(value, "__name__", type(value).__qualname__)))
            parts.append(f"{name}={text}")
        return f"using({','.join(parts)})"

    def _parts(self, kind: str, values: Iterable[object]) -> str:
        return f"{kind}({','.join(map(self.describe, values))})"


def _qualified(value: type | types.BuiltinFunctionType) -> str:
    return f"{value.__module__}.{value.__qualname__}"


def _cells(function: types.FunctionType) -> Iterator[object]:
    for cell in function.__closure__ or ():
        with contextlib.suppress(ValueError):  # a variable that is not assigned yet
            yield cell.cell_contents


def _names(code: types.CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names(constant)


_tokens: dict[int, tuple[weakref.ref[object], str]] = {}


def _token(value: object) -> str:
    """Return a token for the object: the same while it lives, never the same for another."""
    if id(value) in _tokens:
        reference, token = _tokens[id(value)]
        if reference() is value:
            return token
    token = uuid.uuid4().hex
    try:
        reference = weakref.ref(value)
    except TypeError:  # none possible, so the identity could come back for another object: a new token each time
        return token
    _tokens[id(value)] = (reference, token)
    return token
