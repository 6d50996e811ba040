"""Any JSON and any YAML is loaded or refused with a typed error; nothing runs, and nothing wrong is registered."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings, strategies as st

from torchair.customop import load_op_plugin_yaml, load_prototypes
from torchair.customop.prototype_file import prototype_json
from torchair.errors import OperatorClashError, OperatorFileError, SchemaError, TorchAirError
from torchair.opset.prototype import prototypes

FOLDER = Path(tempfile.mkdtemp(prefix="torchair-fuzz-"))
NAMESPACE = "yaml_fuzz"

_WORDS = st.sampled_from(
    [
        *("op", "input_desc", "output_desc", "attr", "name", "param_type", "format", "type", "default_value"),
        *("required", "optional", "dynamic", "ND", "float", "half", "int", "bool", "list_int", "list_list_int"),
        *("FuzzOp", "x", "y", "class", "../x", "x; y", "é", "", "\x00", "a" * 200),
    ]
)
_LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | _WORDS | st.text(max_size=8)
_JSON = st.recursive(
    _LEAVES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_WORDS, inner, max_size=5), max_leaves=25
)
_TENSOR = st.fixed_dictionaries(
    {},
    optional={
        "name": st.sampled_from(["x", "y", "z", "for", 3]),
        "param_type": st.sampled_from(["required", "optional", "dynamic", "x"]),
        "format": st.lists(st.sampled_from(["ND", "NHWC", "no"]), max_size=2),
        "type": st.lists(st.sampled_from(["float", "half", "all", "no", 1]), max_size=2),
    },
)
_ATTR = st.fixed_dictionaries(
    {"name": st.sampled_from(["a", "b", "x"])},
    optional={
        "param_type": st.sampled_from(["required", "optional"]),
        "type": st.sampled_from(["int", "bool", "float", "string", "list_int", "list_list_int", "list_float"]),
        "default_value": _JSON,
    },
)
_OPERATOR = st.fixed_dictionaries(
    {"op": st.sampled_from(["FuzzOp", "FuzzOther", "Add", "x"]), "output_desc": st.lists(_TENSOR, max_size=2)},
    optional={"input_desc": st.lists(_TENSOR, max_size=3), "attr": st.lists(_ATTR, max_size=2), "x": _JSON},
)
_JSON_FILES = (
    st.lists(_OPERATOR | _JSON, max_size=3).map(json.dumps)
    | _JSON.map(json.dumps)
    | st.text(alphabet='[]{}",:0123456789.eE-+truefalsn\\u op', max_size=40)
)

_FUNCTIONS = st.sampled_from(
    [
        "fuzz_a(Tensor x, Tensor? y, int n) -> Tensor",
        "fuzz_b(Tensor(a!) x) -> ()",
        "fuzz_c(Tensor x, int[] d) -> (Tensor, Tensor)",
        "fuzz_d.out(Tensor x, *, Tensor(a!) out) -> Tensor(a!)",
        "fuzz_d(Tensor x) -> Tensor",
        "f(Tensor x",
        "aten::f(Tensor x) -> Tensor",
        "class(Tensor x) -> ...",
        "",
    ]
)
_PARTS = "x y n d m ( ) { } [ ] , . ? : + - * / == size value_or at::kFloat broadcast 1 'a' \\ & * !x"
_RULES = st.lists(
    st.sampled_from(_PARTS.split()),
    max_size=8,
).map("".join) | st.sampled_from(["x", "{n, x.size(0)}", "at::kFloat", "broadcast(x, y)"])
_YAML_VALUES: Any = st.recursive(
    st.none() | st.booleans() | st.integers() | _RULES | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_RULES, inner, max_size=3),
    max_leaves=8,
)
_GENERATED = st.fixed_dictionaries(
    {},
    optional={
        **{
            name: st.fixed_dictionaries({}, optional={"size": _RULES, "dtype": _RULES, "name": _RULES}) | _YAML_VALUES
            for name in ("out", "out0", "out1")
        },
        "exec": st.sampled_from(["aclnnFuzz", "aclnnFuzz, x, n", "aclnnFuzz, out1, out0", "system(x)", "aclnn"])
        | _RULES,
        "new_params": st.dictionaries(st.sampled_from(["m", "x", "if"]), _RULES, max_size=2) | _YAML_VALUES,
        "structured_inherit": st.sampled_from(["fuzz_d.out", "fuzz_d", "none"]) | _YAML_VALUES,
    },
)
_ENTRY = st.fixed_dictionaries(
    {"func": _FUNCTIONS},
    optional={
        "op_api": st.sampled_from(["all_version", "v2.1, v2.2", ["v2.1", "newest"], ["x", "y"], "newest"]),
        "gen_opapi": _GENERATED | _YAML_VALUES,
        "x": _YAML_VALUES,
    },
)
_DOCUMENT = st.fixed_dictionaries(
    {"custom": st.lists(_ENTRY | _YAML_VALUES, max_size=4)},
    optional={"all_version": _YAML_VALUES, "official": st.lists(_ENTRY, max_size=1), "symint": _YAML_VALUES},
)
#: JSON is YAML; plain text adds what only YAML has.
_YAML_FILES = _DOCUMENT.map(json.dumps) | st.text(alphabet="custom: -[]{}&*!|>'\"#%@`\n\t,?~<=0x", max_size=60)


def attempt(load: Callable[[], Any]) -> tuple[Any, TorchAirError | None]:
    """What a loader returns, or the typed error that it raises."""
    try:
        return load(), None
    except (OperatorFileError, OperatorClashError) as error:
        return None, error


def check_json(text: str) -> None:
    path = FOLDER / "ops.json"
    path.write_text(text, encoding="utf-8", errors="surrogatepass")
    before = set(prototypes.snapshot())
    found, error = attempt(lambda: load_prototypes(path))
    if error is not None:
        assert error.why
        assert error.where == (str(path),)
        assert set(prototypes.snapshot()) == before
        return
    assert all(p.name.isidentifier() and p.name.isascii() for p in found)
    for prototype in found:
        prototypes.forget(prototype.name)


def check_yaml(text: str) -> None:
    path = FOLDER / "op_plugin_functions.yaml"
    path.write_text(text, encoding="utf-8", errors="surrogatepass")
    report, error = attempt(lambda: load_op_plugin_yaml(path, NAMESPACE))
    if error is not None:
        assert error.why
        return
    for name in report.registered:
        assert name.startswith(f"{NAMESPACE}::fuzz_")
    assert all(entry.reason for entry in report.entries if entry.status != "registered")


_SCHEMA_PARTS = (
    "f op ( ) -> Tensor Tensor? Tensor[] Tensor(a!) int int? float=1 str='x' Scalar x y , * ... class : :: . []"
)

_QUICK = settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
_LONG = settings(max_examples=10_000, deadline=None, suppress_health_check=list(HealthCheck))


@_QUICK
@given(_JSON_FILES)
def test_any_json(text) -> None:
    check_json(text)


@_QUICK
@given(_YAML_FILES)
def test_any_yaml(text) -> None:
    check_yaml(text)


@pytest.mark.slow
@pytest.mark.timeout(7200)
@_LONG
@given(_JSON_FILES)
def test_any_json_long(text) -> None:
    check_json(text)


@pytest.mark.slow
@pytest.mark.timeout(7200)
@_LONG
@given(_YAML_FILES)
def test_any_yaml_long(text) -> None:
    check_yaml(text)


@_QUICK
@given(st.binary(max_size=60))
def test_any_bytes(data) -> None:
    for name, load in (("ops.json", load_prototypes), ("ops.yaml", lambda p: load_op_plugin_yaml(p, NAMESPACE))):
        path = FOLDER / name
        path.write_bytes(data)
        try:
            load(path)
        except OperatorFileError:
            continue


@_QUICK
@given(
    st.lists(
        st.sampled_from(_SCHEMA_PARTS.split()),
        max_size=14,
    ).map(" ".join)
    | st.text(max_size=30)
)
def test_any_schema(text) -> None:
    try:
        document = json.loads(prototype_json(text))
    except SchemaError:
        return
    assert document[0]["op"].isidentifier()


@pytest.mark.parametrize(
    "text",
    [
        "custom: !!python/object/apply:pathlib.Path.touch [{0}]",
        "!!python/object/new:pathlib.Path [{0}]",
        "custom:\n- func: !!python/name:os.system x",
        (
            "custom:\n- {{func: 'f(Tensor x) -> Tensor', op_api: all_version, gen_opapi: {{out: {{size: "
            "\"__import__('pathlib').Path('{0}').touch()\", dtype: x}}, exec: aclnnF}}}}"
        ),
        (
            "custom:\n- {{func: 'f(Tensor x) -> Tensor', op_api: all_version, gen_opapi: {{out: {{size: x, dtype: x}}, "
            "exec: \"aclnnF, open('{0}', 'w')\"}}}}"
        ),
        "custom:\n- {{func: 'f(Tensor x, str s=\"\\\"); open(\\'{0}\\')\") -> Tensor', op_api: all_version}}",
    ],
)
def test_nothing_runs(tmp_path, text) -> None:
    target = tmp_path / "made"
    path = tmp_path / "op_plugin_functions.yaml"
    path.write_text(text.format(target))
    try:
        report = load_op_plugin_yaml(path, NAMESPACE)
    except OperatorFileError:
        pass
    else:
        assert report.registered == ()
    assert not target.exists()
    assert not hasattr(getattr(torch.ops, NAMESPACE), "f")


def test_a_huge_yaml_file(tmp_path) -> None:
    path = tmp_path / "op_plugin_functions.yaml"
    path.write_text("all_version: [" + "v2.1," * 600_000 + "]")
    with pytest.raises(OperatorFileError, match="more than 500000 values"):
        load_op_plugin_yaml(path, NAMESPACE)
    path.write_text("custom: " + "x" * (17 * 2**20))
    with pytest.raises(OperatorFileError, match="bytes; 16777216 are allowed"):
        load_op_plugin_yaml(path, NAMESPACE)
