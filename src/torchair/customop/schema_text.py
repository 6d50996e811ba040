"""The schema of an operator as text, read by PyTorch's own parser, with names that may become code and file names."""

from __future__ import annotations

import errno
import keyword
import re
from collections.abc import Iterable, Iterator

import torch

from torchair import _torch_compat
from torchair.convert.schemas import OperatorSchema
from torchair.convert.torch_calls import BUILTIN_NAMESPACES
from torchair.errors import SchemaError
from torchair.opset.prototype import ir_name

__all__ = ["identifier_problem", "namespace_problem", "parse_schema", "schema_problems"]

_MAX_LENGTH = 20_000
_MAX_NAME = 100
_MAX_BRACKETS = 200
_EXAMPLE = "my_op(Tensor x, Tensor? y, Tensor[] z, float attr1, int attr2) -> Tensor"

# Source: C++23, [lex.key] and [lex.digraph].
_CPP_WORDS = """
    alignas alignof and and_eq asm auto bitand bitor bool break case catch char char8_t char16_t char32_t class compl
    concept const const_cast consteval constexpr constinit continue co_await co_return co_yield decltype default delete
    do double dynamic_cast else enum explicit export extern false float for friend goto if inline int long mutable
    namespace new noexcept not not_eq nullptr operator or or_eq private protected public register reinterpret_cast
    requires return short signed sizeof static static_assert static_cast struct switch template this thread_local throw
    true try typedef typeid typename union unsigned using virtual void volatile wchar_t while xor xor_eq
"""
_CPP_KEYWORDS = frozenset(_CPP_WORDS.split())

# Macros of the headers that torchair/kernel.h includes, and of the other standard headers: the preprocessor replaces
# such a name wherever it stands. Source: C++23, [library], and what "g++ -dM -E" lists for glibc, whose families of
# names have a pattern here, with room for further members; the tests compare both with the compiler at hand.
_CPP_MACRO_WORDS = """
    assert assert_perror errno NULL EOF WEOF NAN INFINITY DOMAIN SING OVERFLOW UNDERFLOW PLOSS TLOSS HUGE MAXFLOAT
    BUFSIZ stdin stdout stderr alloca strdupa strndupa offsetof setjmp va_start va_arg va_end va_copy issubnormal
    math_errhandling sched_priority pthread_cleanup_push pthread_cleanup_pop pthread_cleanup_push_defer_np
    pthread_cleanup_pop_restore_np CHAR_BIT CLOCKS_PER_SEC EXIT_SUCCESS EXIT_FAILURE L_ctermid L_cuserid L_tmpnam
    P_tmpdir BIG_ENDIAN LITTLE_ENDIAN PDP_ENDIAN BYTE_ORDER MB_CUR_MAX NFDBITS CSIGNAL TIMER_ABSTIME TIME_UTC
    HAS_DEMANGLE HIDDEN_NAMESPACE_BEGIN HIDDEN_NAMESPACE_END ENOTSUP EHWPOISON
    MAX_INPUT MAX_CANON PIPE_BUF NZERO LONG_BIT WORD_BIT
"""
_CPP_MACROS = frozenset(_CPP_MACRO_WORDS.split()) | {name for name in dir(errno) if name[0] == "E"}
_CPP_MACRO_FAMILIES = re.compile(
    r"(M|FP|LC|NL|SEEK|SIG|ADJ|MOD|STA|CLOCK|CLONE|CPU|SCHED|PTHREAD|FD|MATH|RENAME|FE|FLT|DBL|LDBL|ATOMIC|DECIMAL)_\w+"
    r"|(C10|AT|TORCH|TORCHAIR|CUDA|SYCL|STATIC|CONSTEXPR)_[A-Z0-9_]+"
    r"|[A-Z0-9_]+_(MAX|MIN|WIDTH)|U?INT(8|16|32|64|MAX)_C|HUGE_VAL\w*|SNAN\w*|SIG[A-Z]+[0-9]?"
    r"|W(CONTINUED|EXITED|EXITSTATUS|IF[A-Z]+|NOHANG|NOWAIT|STOPPED|STOPSIG|TERMSIG|UNTRACED)"
    r"|(be|le)(16|32|64)toh|hto(be|le)(16|32|64)"
)
#: Further namespaces in which PyTorch defines operators, and those of this package.
_TORCH_NAMESPACES = frozenset({"torch", "c10d", "higher_order", "profiler"})
_OWN_NAMESPACES = frozenset({"torchair", "npugraph_ex"})

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


def identifier_problem(name: object) -> str | None:
    """Why a name cannot stand in generated Python and C++ code and in file names, or None.

    ::

        identifier_problem("x")  # None
        identifier_problem("class")  # "is a keyword of Python and C++"
    """
    if not isinstance(name, str) or not _IDENTIFIER.match(name):
        return "is not an identifier (letters A-Z and a-z, digits, underscores)"
    if len(name) > _MAX_NAME:
        return f"has {len(name)} characters; {_MAX_NAME} are allowed"
    languages = [
        *(["Python"] if keyword.iskeyword(name) else []),
        *(["C++"] if name in _CPP_KEYWORDS else []),
    ]
    if languages:
        return f"is a keyword of {' and '.join(languages)}"
    if name in _CPP_MACROS or _CPP_MACRO_FAMILIES.fullmatch(name):
        return "is a macro of C++ headers"
    if "__" in name or re.match(r"_[A-Z]", name):
        return "is reserved in C++ (two underscores, or one before a capital)"
    return None


def namespace_problem(name: object) -> str | None:
    """Why operators cannot be defined in a namespace, or None."""
    problem = identifier_problem(name)
    if problem is not None:
        return problem
    if name in BUILTIN_NAMESPACES or name in _TORCH_NAMESPACES or hasattr(type(torch.ops), str(name)):
        return "is one of PyTorch's own namespaces"
    return "is one of this project's own namespaces" if name in _OWN_NAMESPACES else None


def parse_schema(text: str, *, namespace: str | None = None) -> OperatorSchema:
    """Read a schema, and check its names.

    ::

        schema = parse_schema("my_op(Tensor x, int n=1) -> Tensor", namespace="mine")
        str(schema.torch_schema)  # "mine::my_op(Tensor x, int n=1) -> Tensor"
        schema.name  # "MyOp"

    Args:
        text: As ``torch.library.define`` takes it, with the operator's name, with or without a namespace.
        namespace: The namespace that the operator is defined in.

    Raises:
        SchemaError: PyTorch's parser refuses it, it names another namespace, or one of its names cannot stand in
            generated code; lists all such names.
    """
    given: object = text
    if not isinstance(given, str):
        raise _error(repr(text), [f"it is a {type(text).__name__}, not a text"])
    if len(text) > _MAX_LENGTH:
        raise _error(text, [f"it has {len(text)} characters; {_MAX_LENGTH} are allowed"])
    if namespace is not None and (problem := namespace_problem(namespace)):
        raise _error(text, [f"the namespace {namespace!r} {problem}"])
    if not text.isascii():
        bad = next(c for c in text if not c.isascii())
        raise _error(text, [f"it has the character {bad!r}; schemas are ASCII"])
    if max(map(text.count, "([")) > _MAX_BRACKETS:  # PyTorch's parser recurses
        raise _error(text, [f"it has more than {_MAX_BRACKETS} opening brackets"])
    qualified = text.strip()
    if namespace is not None and "::" not in qualified.partition("(")[0]:
        qualified = f"{namespace}::{qualified}"
    try:
        parsed = _torch_compat.parse_schema_text(qualified)
    except ValueError as e:
        raise _error(text, _parser_lines(str(e))) from e
    schema = OperatorSchema.of_torch_schema(parsed)
    problems = [*_name_problems(schema, namespace)]
    if problems:
        raise _error(text, problems)
    return schema


def schema_problems(schema: OperatorSchema) -> list[str]:
    """What keeps a schema from being a custom operator's in graph mode, one sentence each (specification, Part I)."""
    problems = [
        f"argument {a.name!r} is of type {a.torch_type}, which no attribute type stands for"
        + ("; write float or int" if a.torch_type.startswith("Scalar") else "")
        for a in schema.others
        if a.attr_type is None
    ]
    for number, name in enumerate(schema.returned_arguments):
        if name is not None:
            problems.append(
                f"result {number} is the argument {name!r} that the operator writes; "
                "an operator must not return what it writes"
            )
    for number, (returned, name) in enumerate(zip(schema.torch_schema.returns, schema.returned_arguments, strict=True)):
        if returned.alias_info is not None and name is None:
            problems.append(f"result {number} is a view of an argument, which only PyTorch's own operators may return")
    problems += [
        f"result {number} is of a type that no output of an IR operator has"
        for number, kind in enumerate(schema.returns)
        if kind not in ("tensor", "list", "optional")
    ]
    if not schema.returns and not schema.written:
        problems.append("it returns nothing and writes nothing")
    return problems


def _name_problems(schema: OperatorSchema, namespace: str | None) -> Iterator[str]:
    parsed = schema.torch_schema
    own_namespace, separator, name = parsed.name.rpartition("::")
    if separator:
        if problem := namespace_problem(own_namespace):
            yield f"the namespace {own_namespace!r} {problem}"
        elif namespace is not None and own_namespace != namespace:
            yield f"it is of the namespace {own_namespace!r}, not {namespace!r}"
    if problem := identifier_problem(name):
        yield f"the operator name {name!r} {problem}"
    elif name == "name":
        yield "the operator name 'name' is taken: torch.ops has an attribute of that name in each namespace"
    elif identifier_problem(ir_name(name)):
        yield f"the operator name {name!r} gives the IR operator no name: {ir_name(name)!r} is not an identifier"
    if parsed.overload_name and (problem := identifier_problem(parsed.overload_name)):
        yield f"the overload name {parsed.overload_name!r} {problem}"
    yield from _names("argument", [a.name for a in parsed.arguments])
    yield from _names("result", [r.name for r in parsed.returns if r.name])
    arguments = {a.name for a in parsed.arguments}
    yield from (f"the result {name!r} has the name of an argument" for name in schema.result_names if name in arguments)
    if "..." in str(parsed):
        yield "it takes or returns any number of values (...)"


def _names(title: str, names: Iterable[str]) -> Iterator[str]:
    seen: set[str] = set()
    for name in names:
        if problem := identifier_problem(name):
            yield f"the {title} name {name!r} {problem}"
        elif name in seen:
            yield f"there are two {title}s {name!r}"
        seen.add(name)


def _parser_lines(message: str) -> list[str]:
    """What PyTorch's parser says, with the line that shows the place."""
    known = {"stoll": "a whole number is out of range", "stod": "a number is out of range"}
    lines = [line.rstrip() for line in message.splitlines() if line.strip()]
    lines = [line.rpartition("please report a bug to PyTorch. ")[2] for line in lines]
    return [known.get(line, line) for line in lines[:4]] or ["PyTorch cannot read it"]


def _error(text: str, why: list[str]) -> SchemaError:
    shown = text if len(text) <= 200 else f"{text[:200]}..."
    return SchemaError(
        "A schema is not one that a custom operator can have",
        why=[f"schema: {shown!r}" if not shown.isprintable() else f"schema: {shown}", *why],
        fix=f"Write it like this: {_EXAMPLE}",
    )
