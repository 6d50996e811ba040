"""Schemas as text: what is read, and which names are refused."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
import torch

from torchair.build import find_compiler
from torchair.customop import project
from torchair.customop.schema_text import identifier_problem, namespace_problem, parse_schema, schema_problems
from torchair.errors import Rejection, SchemaError

GUIDE = (
    "my_op(Tensor x, Tensor? y, Tensor[] z, float attr1, int attr2) -> Tensor",
    "my_inplace(Tensor(a!) x, Tensor y) -> Tensor",
)


@pytest.mark.parametrize("text", GUIDE)
def test_the_operators_of_the_guide(text) -> None:
    schema = parse_schema(text, namespace="mine")
    assert str(schema.torch_schema) == f"mine::{text}"
    assert schema.path == f"mine.{text.partition('(')[0]}.default"
    assert schema_problems(schema) == []


def test_what_a_schema_says() -> None:
    schema = parse_schema(GUIDE[1] + " z")
    assert schema.name == "MyInplace"
    assert [a.name for a in schema.written] == ["x"]
    assert schema.result_names == ("z",)
    assert schema.derive_prototype().signature == "MyInplace(x, y) -> (x, z)"


def test_white_space_and_a_namespace_of_its_own() -> None:
    schema = parse_schema("  other::f(Tensor  x,\n  int n = 2) -> Tensor ", namespace="other")
    assert str(schema.torch_schema) == "other::f(Tensor x, int n=2) -> Tensor"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "expected ident"),
        ("f", "only the operator name was given"),
        ("f(Tensor x", "expected )"),
        ("f(Tensor x) -> Tensor; g(Tensor x) -> Tensor", "expected a valid token"),
        ("../f(Tensor x) -> Tensor", "expected ident"),
        ("f/g(Tensor x) -> Tensor", "expected"),
        ("f(Tensor x) -> Tensor\0", "expected"),
        ("f(Tensor x, Foo y) -> Tensor", "unknown type specifier"),
        ("f(Tensor x, int n=__import__('os')) -> Tensor", "invalid numeric default"),
        ("f(Tensor x, int n=99999999999999999999) -> Tensor", "a whole number is out of range"),
        ("f(Tensor x, float n=1e999) -> Tensor", "a number is out of range"),
        ("f(Tensor x, int n=1, int m) -> Tensor", "Non-default positional argument follows default argument"),
        ("class(Tensor x) -> Tensor", "expected ident but found 'class'"),
        ("lambda(Tensor x) -> Tensor", "keyword of Python"),
        ("template(Tensor x) -> Tensor", "'template' is a keyword of C++"),
        ("f(Tensor from) -> Tensor", "'from' is a keyword of Python"),
        ("f(Tensor int) -> Tensor", "'int' is a keyword of C++"),
        ("f(Tensor __x) -> Tensor", "'__x' is reserved in C++"),
        ("f(Tensor _X) -> Tensor", "'_X' is reserved in C++"),
        ("f(Tensor M_PI) -> Tensor", "'M_PI' is a macro of C++ headers"),
        ("f(Tensor x) -> Tensor BUFSIZ", "the result name 'BUFSIZ' is a macro of C++ headers"),
        ("torch::f(Tensor x) -> Tensor", "one of PyTorch's own namespaces"),
        ("npugraph_ex::f(Tensor x) -> Tensor", "one of this project's own namespaces"),
        ("f(Tensor x, Tensor x) -> Tensor", "two arguments 'x'"),
        ("f(Tensor x) -> (Tensor a, Tensor a)", "two results 'a'"),
        ("f(Tensor x) -> Tensor x", "the result 'x' has the name of an argument"),
        ("f.for(Tensor x) -> Tensor", "expected ident but found 'for'"),
        ("f(Tensor x, ...) -> Tensor", "any number of values"),
        ("f(Tensor т) -> Tensor", "schemas are ASCII"),
        ("name(Tensor x) -> Tensor", "is taken"),
        ("_1(Tensor x) -> Tensor", "'1' is not an identifier"),
        ("aten::f(Tensor x) -> Tensor", "one of PyTorch's own namespaces"),
        ("load_library::f(Tensor x) -> Tensor", "one of PyTorch's own namespaces"),
        ("f(" + "Tensor " + "x" * 101 + ") -> Tensor", "has 101 characters"),
        ("f(Tensor x) -> " + "(" * 5000, "opening brackets"),
        ("f" * 30_000, "20000 are allowed"),
    ],
)
def test_refusals(text, reason) -> None:
    with pytest.raises(SchemaError) as caught:
        parse_schema(text)
    assert reason in "\n".join(caught.value.why)
    assert isinstance(caught.value, ValueError)


def test_another_namespace() -> None:
    with pytest.raises(SchemaError, match="of the namespace 'other', not 'mine'"):
        parse_schema("other::f(Tensor x) -> Tensor", namespace="mine")
    with pytest.raises(SchemaError, match="the namespace 'a b' is not an identifier"):
        parse_schema("f(Tensor x) -> Tensor", namespace="a b")


def test_all_bad_names_at_once() -> None:
    with pytest.raises(SchemaError) as caught:
        parse_schema("lambda(Tensor from, Tensor union, int n, int n) -> Tensor")
    assert len(caught.value.why) == 5


def test_no_text() -> None:
    with pytest.raises(SchemaError, match="it is a int, not a text"):
        parse_schema(5)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "reasons"),
    [
        ("f(Tensor x, Scalar y) -> Tensor", ["'y' is of type Scalar"]),
        ("f(Tensor x, Generator? g=None) -> Tensor", ["'g' is of type Generator?"]),
        ("f(Tensor(a!) x) -> Tensor(a!)", ["result 0 is the argument 'x'"]),
        ("f(Tensor(a) x) -> Tensor(a)", ["result 0 is a view"]),
        ("f(Tensor x) -> int", ["result 0 is of a type"]),
        ("f(Tensor x) -> ()", ["returns nothing and writes nothing"]),
        ("f(Tensor(a!) x) -> ()", []),
    ],
)
def test_what_keeps_it_out_of_graph_mode(text, reasons) -> None:
    problems = schema_problems(parse_schema(text))
    assert len(problems) == len(reasons)
    for problem, reason in zip(problems, reasons, strict=True):
        assert reason in problem


def test_names() -> None:
    assert identifier_problem("x1") is None
    assert identifier_problem(None) is not None
    assert identifier_problem("x\n") is not None
    assert identifier_problem("µ") is not None
    assert identifier_problem("None") == "is a keyword of Python"
    assert identifier_problem("not") == "is a keyword of Python and C++"
    assert namespace_problem("npu") is None
    assert namespace_problem("prims") is not None


MACROS = """
    NAN INFINITY NULL EOF BUFSIZ CHAR_BIT RAND_MAX HUGE_VALF INT_MAX DBL_MIN M_E M_SQRT1_2 errno
    EINVAL stdin SIGINT INT64_C FE_ALL_EXCEPT offsetof TORCHAIR_CHECK
"""


@pytest.mark.parametrize("name", MACROS.split())
def test_macros(name) -> None:
    assert identifier_problem(name) == "is a macro of C++ headers"


def test_names_that_are_no_macros() -> None:
    names = [
        "N",
        "K",
        "EPS",
        "KV",
        "M_",
        "M",
        "W",
        "I",
        "max_value",
        "x_max",
        "E",
        "INT",
        "nan",
        "infinity",
        "maximum",
        "AT",
    ]
    assert [name for name in names if identifier_problem(name)] == []


def test_every_macro_of_the_headers_that_a_kernel_includes() -> None:
    compiler = find_compiler()
    if isinstance(compiler, Rejection):
        pytest.skip(compiler.reason)
    folders = [Path(project.__file__).parent / "include", Path(torch.__file__).parent / "include"]
    ran = subprocess.run(
        [*compiler.command, "-std=c++17", "-dM", "-E", "-x", "c++", *(f"-I{folder}" for folder in folders), "-"],
        input="#include <torchair/kernel.h>\n#include <climits>\n#include <cfloat>\n#include <cfenv>\n",
        capture_output=True,
        text=True,
        check=True,
    )
    names = re.findall(r"^#define (\w+)", ran.stdout, re.MULTILINE)
    assert len(names) > 300
    assert [name for name in names if identifier_problem(name) is None] == []
