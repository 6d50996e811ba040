"""Rules for sizes and dtypes: values on real and symbolic sizes, C++, Python, refusals."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings, strategies as st

from torchair import _torch_compat
from torchair.customop import rule_functions as rules
from torchair.customop.output_rules import (
    evaluate,
    parse_dtype,
    parse_size,
    parse_value,
    scope_of,
    to_cpp,
    to_python,
)
from torchair.customop.rule_syntax import RuleSyntaxError, parse_expression, split_arguments
from torchair.customop.schema_text import parse_schema
from torchair.errors import OutputRuleError

SCHEMA = parse_schema(
    "f(Tensor x, Tensor y, Tensor? w, Tensor[] z, int n, float f, bool b, int[] d, ScalarType? t=None, str m='sum', "
    "int? k=None, Scalar q=1) -> Tensor"
)
VALUES: dict[str, Any] = {
    "x": torch.ones(2, 3),
    "y": torch.ones(4, 1, 3, dtype=torch.float64),
    "w": None,
    "z": [torch.ones(5), torch.ones(6)],
    "n": 2,
    "f": 0.5,
    "b": True,
    "d": [1],
    "t": None,
    "m": "sum",
    "k": None,
    "q": 1,
}

SIZES = [
    ("x", [2, 3], "torchair::sizes(x)"),
    ("{4, x.size(0), x.size(-1)}", [4, 2, 3], "torchair::Sizes{4, torchair::size(x, 0), torchair::size(x, -1)}"),
    (
        "n == 1 ? x.sizes() : at::ArrayRef<int64_t>()",
        [],
        "((n == 1) ? torchair::sizes(x) : torchair::Sizes{})",
    ),
    ("b ? x : y", [2, 3], "(b ? torchair::sizes(x) : torchair::sizes(y))"),
    ("n && !b ? x : {n}", [2], "(((n != 0) && !b) ? torchair::sizes(x) : torchair::Sizes{n})"),
    (
        "broadcast_ops_npu_output_size(x, y)",
        [4, 2, 3],
        "torchair::broadcast(torchair::sizes(x), torchair::sizes(y))",
    ),
    (
        "at::infer_size(x.sizes(), {7, 1, 1})",
        [7, 2, 3],
        "torchair::broadcast(torchair::sizes(x), torchair::Sizes{7, 1, 1})",
    ),
    (
        "op_infer::reduce_ops_npu_output_size(x, d, b)",
        [2, 1],
        "torchair::reduce(torchair::sizes(x), d, b)",
    ),
    ("reduce(x, -1, false)", [2], "torchair::reduce(torchair::sizes(x), -1, false)"),
    ("matmul(x, {3, 8})", [2, 8], "torchair::matmul(torchair::sizes(x), torchair::Sizes{3, 8})"),
    ("cat(z, 0)", [11], "torchair::cat(z, 0)"),
    ("permute(x, {1, 0})", [3, 2], "torchair::permute(torchair::sizes(x), torchair::Sizes{1, 0})"),
    ("{x.numel() / 4, (n - 9) / 2, (n - 9) % 4}", None, None),
    ("{std::max(n, x.size(1)), std::min(n, 1), x.dim()}", [3, 1, 2], None),
    ("{z[1].size(0), z.size(), d[0], d.size()}", [6, 2, 1, 1], None),
    ("{k.value_or(3)}", [3], "torchair::Sizes{torchair::value_or(k, 3)}"),
    ("w.has_value() ? w.value().sizes() : x.sizes()", [2, 3], None),
    ("w.defined() ? w : x", [2, 3], None),
    ('m == "sum" ? c10::IntArrayRef{} : d', [], '((m == "sum") ? torchair::Sizes{} : d)'),
    ("d", [1], "d"),
    ("c10::SmallVector<int64_t, SIZE>{n, 2L}", [2, 2], "torchair::Sizes{n, 2}"),
    ("x->sizes()", [2, 3], "torchair::sizes(x)"),
]


@pytest.mark.parametrize(("text", "size", "cpp"), SIZES)
def test_sizes(text, size, cpp) -> None:
    rule = parse_size(text, SCHEMA)
    if size is None:
        with pytest.raises(OutputRuleError, match="is no size"):
            evaluate(rule, VALUES)
        return
    assert evaluate(rule, VALUES) == size
    if cpp is not None:
        assert to_cpp(rule) == cpp
    assert list(eval(to_python(rule), {"torch": torch, "rules": rules}, dict(VALUES))) == size  # noqa: S307


DTYPES = [
    ("x", torch.float32, "torchair::dtype(x)"),
    ("at::kHalf", torch.float16, "torchair::kHalf"),
    ("kLong", torch.int64, "torchair::kLong"),
    ("at::ScalarType::BFloat16", torch.bfloat16, "torchair::kBFloat16"),
    (
        "isIntegralType(x.scalar_type(), true) ? at::kFloat : x.scalar_type()",
        torch.float32,
        "(torchair::is_integral(torchair::dtype(x), true) ? torchair::kFloat : torchair::dtype(x))",
    ),
    ("at::result_type(x, y)", torch.float64, "torchair::promote(x, y)"),
    ("at::promote_types(x, at::kDouble)", torch.float64, "torchair::promote(torchair::dtype(x), torchair::kDouble)"),
    ("t.value_or(x.scalar_type())", torch.float32, "torchair::value_or(t, torchair::dtype(x))"),
    ("t.has_value() ? t.value() : at::kInt", torch.int32, None),
    ("x.dtype() == at::kFloat ? at::kByte : at::kBool", torch.uint8, None),
    ("c10::toComplexType(x)", torch.complex64, "torchair::to_complex(torchair::dtype(x))"),
    ("isFloatingType(y) && !isComplexType(y) ? y : at::kFloat", torch.float64, None),
]


@pytest.mark.parametrize(("text", "dtype", "cpp"), DTYPES)
def test_dtypes(text, dtype, cpp) -> None:
    rule = parse_dtype(text, SCHEMA)
    assert evaluate(rule, VALUES) is dtype
    if cpp is not None:
        assert to_cpp(rule) == cpp
    assert eval(to_python(rule), {"torch": torch, "rules": rules}, dict(VALUES)) is dtype  # noqa: S307


@pytest.mark.parametrize(
    ("text", "value", "cpp"),
    [
        ("n + 1", 3, "(n + 1)"),
        ("-n * 2", -4, "((-n) * 2)"),
        ("-(-n)", 2, "(-(-n))"),
        ("f * 2", 1.0, "(f * 2)"),
        ("1 / f", 2.0, "(1 / f)"),
        ("7 / -2", -3, "torchair::divide(7, -2)"),
        ("-7 % 3", -1, "torchair::modulo(-7, 3)"),
        ("m", "sum", "m"),
        ("true", True, "true"),
        ("c10::nullopt", None, "std::nullopt"),
        ("n == 1 ? 2 : 2.5", 2.5, "((n == 1) ? 2.0 : 2.5)"),
        ("3000000000", 3_000_000_000, "int64_t{3000000000}"),
        ("b == true", True, "(b == true)"),
        ("2 - 3 - 4", -5, "((2 - 3) - 4)"),
        ("1 + 2 * 3", 7, "(1 + (2 * 3))"),
        ("n < 3 || f > 1.0f", True, "((n < 3) || (f > 1.0))"),
    ],
)
def test_values(text, value, cpp) -> None:
    rule = parse_value(text, SCHEMA)
    assert evaluate(rule, VALUES) == value
    assert to_cpp(rule) == cpp
    assert to_cpp(rule, "") == cpp.replace("torchair::", "")
    assert eval(to_python(rule), {"torch": torch, "rules": rules}, dict(VALUES)) == value  # noqa: S307


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "it is empty"),
        ("x.size(0", "it ends too early"),
        ("x y", "'y' is not expected there"),
        ("x; y", "';' is not expected there"),
        ("n", r"a whole number where a list of whole numbers is needed; write {...} around it"),
        ("{n, f}", "a number where a whole number is needed"),
        ("z", "it has a list of tensors"),
        ("q", "'q' is of a type that rules cannot use"),
        ("nothing", "'nothing', which is no argument"),
        ("os::system(x)", "the function 'os::system' is not known"),
        ("__import__(x)", "the function '__import__' is not known"),
        ("x.__class__()", "the method '__class__' is not known"),
        ("x.sizess()", "did you mean 'sizes'"),
        ("brodcast(x, y)", "did you mean 'broadcast'"),
        ("x.size(0, 1)", ".size takes"),
        ("x.value().sizes()", "which is never None"),
        ("broadcast(x)", "broadcast takes"),
        ("b ? x : n", "a whole number where a list of whole numbers is needed"),
        ("{" + "9" * 30 + "}", "out of range"),
        ("!" * 100 + "b ? x : y", "nested more than 60 deep"),
        ("(" * 1000 + "x" + ")" * 1000, "characters; 2000 are allowed"),
        ("x" * 3000, "characters; 2000 are allowed"),
        ("ẋ", "rules are ASCII"),
    ],
)
def test_refused_sizes(text, reason) -> None:
    with pytest.raises(OutputRuleError) as caught:
        parse_size(text, SCHEMA)
    assert reason in caught.value.why[0]
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("n", "a whole number where a dtype is needed"),
        ("at::kFlot", "did you mean 'at::kFloat'"),
        ("os::kFloat", "no dtype"),
        ("at::Float", "no dtype"),
        ("{1}", "a list of whole numbers where a dtype is needed"),
    ],
)
def test_refused_dtypes(text, reason) -> None:
    with pytest.raises(OutputRuleError) as caught:
        parse_dtype(text, SCHEMA)
    assert reason in caught.value.why[0]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("w", "None"),
        ("{x.size(5)}", "dimension 5 of 2"),
        ("{z[2].size(0)}", "item 2 of 2"),
        ("{x.size(0) - 9}", "[-7] is no size"),
        ("{1 / (n - 2)}", "divides by zero"),
        ("{1 % (n - 2)}", "divides by zero"),
        ("broadcast(x, {5, 5})", "cannot be broadcast: 2 and 5 in dimension -2"),
        ("matmul(x, x)", "do not fit a matrix product"),
        ("permute(x, {0, 0})", "no order of 2 dimensions"),
        ("reduce(x, {2}, true)", "dimension 2 of 2"),
        ("{9223372036854775807 * 4}", "is no size"),
    ],
)
def test_rules_that_give_nothing(text, reason) -> None:
    rule = parse_size(text, SCHEMA)
    with pytest.raises(OutputRuleError) as caught:
        evaluate(rule, VALUES)
    assert any(reason in line for line in caught.value.why)


@given(st.integers(-40, 40), st.integers(-40, 40).filter(bool))
def test_division_is_that_of_cpp(a, b) -> None:
    assert rules.divide(a, b) == int(a / b)
    assert rules.modulo(a, b) == a - b * int(a / b)


@given(st.lists(st.integers(0, 3), max_size=4), st.lists(st.integers(0, 3), max_size=4))
def test_broadcasting_is_that_of_torch(a, b) -> None:
    try:
        expected = list(torch.broadcast_shapes(a, b))
    except RuntimeError:
        with pytest.raises(ValueError, match="cannot be broadcast"):
            rules.broadcast(a, b)
    else:
        assert rules.broadcast(a, b) == expected


@given(st.lists(st.integers(0, 3), max_size=4), st.data(), st.booleans())
def test_reducing_is_that_of_torch(size, data, keepdim) -> None:
    dims = data.draw(st.lists(st.integers(0, len(size) - 1), unique=True)) if size else []
    expected = (
        torch.zeros(size).sum(dims, keepdim=keepdim)
        if dims or not size
        else torch.zeros(size).sum(list(range(len(size))), keepdim=keepdim)
    )
    assert rules.reduce(size, dims, keepdim) == list(expected.shape)


def test_symbolic_sizes_add_no_guard() -> None:
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

    env = ShapeEnv()
    mode = torch._subclasses.FakeTensorMode(shape_env=env)
    x = mode.from_tensor(torch.ones(6, 8), static_shapes=False)
    y = mode.from_tensor(torch.ones(6, 1), static_shapes=True)
    values = {**VALUES, "x": x, "y": x.new_empty(x.shape[0], 1), "w": y}
    before = len(env.guards)
    with mode:
        for text in (
            "x",
            "{4, x.size(0), x.size(-1) / 2, x.numel()}",
            "broadcast(x, x)",
            "broadcast(x, {1, 1})",
            "reduce(x, {0}, true)",
            "{std::max(n, x.size(0))}",
            "matmul(x, permute(x, {1, 0}))",
            "cat(z, 0)",
        ):
            size = evaluate(parse_size(text, SCHEMA), values)
            assert torch.empty(size).dim() == len(size)
    assert len(env.guards) == before
    assert isinstance(evaluate(parse_size("x", SCHEMA), values)[0], torch.SymInt)
    # A condition that chooses the size has to be decided.
    assert len(evaluate(parse_size("x.size(0) > 3 ? x : {1}", SCHEMA), values)) == 2
    assert len(env.guards) == before + 1
    assert _torch_compat.known_true(values["x"].shape[0] > 3)


def test_scopes() -> None:
    scope = scope_of(SCHEMA)
    assert scope["w"] == "tensor?"
    assert scope["z"] == "tensors"
    assert scope["k"] == "int?"
    assert scope["q"] == "other"
    assert evaluate(parse_value("m + 1", {"m": "int"}), {"m": 4}) == 5
    assert parse_size("{n, x.size(0)}", SCHEMA).names == {"n", "x"}


def test_splitting() -> None:
    assert split_arguments("aclnnMyOp, x, {1, 2}, f(a, b)[0], y") == ["aclnnMyOp", "x", "{1, 2}", "f(a, b)[0]", "y"]
    assert split_arguments("aclnnMyOp") == ["aclnnMyOp"]


_PARTS = (
    "x y w z n f b d t m k q ( ) { } [ ] , . ? : :: + - * / % ! && || == < 0 1 2.5 size sizes value_or at::kFloat "
    "broadcast reduce scalar_type"
)


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.sampled_from(_PARTS.split()), max_size=14).map(" ".join) | st.text(max_size=20),
    st.sampled_from([parse_size, parse_dtype, parse_value]),
)
def test_any_text_is_a_rule_or_a_typed_error(text, parse) -> None:
    try:
        rule = parse(text, SCHEMA)
        to_cpp(rule)
        to_python(rule)
        evaluate(rule, VALUES)
    except OutputRuleError:
        return


def test_syntax_errors_name_the_place() -> None:
    with pytest.raises(RuleSyntaxError, match=r"'y' is not expected there \(character 3\)"):
        parse_expression("x y")


@pytest.mark.parametrize(("second", "problem"), [(3, "it divides by zero"), (2, "is no size")])
def test_symbolic_sizes_that_give_nothing(second: int, problem: str) -> None:
    schema = parse_schema("f(Tensor x, Tensor y) -> Tensor")
    rule = parse_size("{x.size(0) / (y.size(0) - 3)}", scope_of(schema))
    mode = _torch_compat.symbolic_fake_mode()
    x, y = (_torch_compat.create_size_symbol(mode, name, size) for name, size in (("a", 5), ("b", second)))
    with mode, pytest.raises(OutputRuleError, match=problem):
        evaluate(rule, {"x": torch.empty(x), "y": torch.empty(y)})
