"""JSON prototype files: what is loaded, what is refused with its place, and what is written."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import torchair
from tests.custom_operators import define, ops
from torchair.customop import load_prototypes, prototype_json
from torchair.customop.prototype_file import read_prototypes
from torchair.errors import OperatorFileError, OperatorFileNotFoundError, SchemaError
from torchair.opset.prototype import REQUIRED, AttrSpec, Columns, InputSpec, OutputSpec, prototypes

MY_OP = "my_op(Tensor x, Tensor? y, Tensor[] z, float attr1, int attr2) -> Tensor"
MY_INPLACE = "my_inplace(Tensor(a!) x, Tensor y) -> Tensor"


@pytest.fixture(autouse=True)
def _nothing_declared() -> Iterator[None]:
    before = {p.name for p in prototypes.snapshot()}
    yield
    for prototype in prototypes.snapshot():
        if prototype.name not in before:
            prototypes.forget(prototype.name)


def written(folder: Path, document: Any) -> Path:
    path = folder / "ops.json"
    path.write_text(document if isinstance(document, str) else json.dumps(document), encoding="utf-8")
    return path


def tensor(name: str, **fields: Any) -> dict[str, Any]:
    return {"name": name, "format": ["ND"], "type": ["float"], **fields}


def operator(**fields: Any) -> dict[str, Any]:
    return {"op": "FileOp", "input_desc": [tensor("x")], "output_desc": [tensor("y")], **fields}


# --- reading ---


def test_every_field(tmp_path) -> None:
    document = [
        {
            "op": "FileOp",
            "language": "cpp",
            "input_desc": [
                {"name": "x", "param_type": "required", "format": ["ND", "NHWC"], "type": ["fp16", "bf16"]},
                {"name": "w", "param_type": "optional", "format": ["ND"], "type": ["float", "int8"]},
                {"name": "z", "param_type": "dynamic", "format": ["NC1HWC0", "FRACTAL_Z"], "type": ["double"]},
            ],
            "attr": [
                {"name": "a", "type": "float"},
                {"name": "b", "param_type": "optional", "type": "int", "default_value": -1},
                {"name": "c", "param_type": "optional", "type": "list_list_int", "default_value": [[1], []]},
                {"name": "d", "param_type": "optional", "type": "bool", "default_value": False},
                {"name": "e", "param_type": "optional", "type": "string", "default_value": 'a"b\\'},
                {"name": "f", "param_type": "optional", "type": "float", "default_value": 1},
                {"name": "g", "param_type": "optional", "type": "list_float", "default_value": [1, 2.5]},
                {"name": "h", "param_type": "optional", "type": "list_bool", "default_value": [True]},
                {"name": "i", "param_type": "optional", "type": "list_int", "default_value": []},
            ],
            "output_desc": [tensor("x", type=["half", "bfloat16"]), tensor("out", type=["qint8", "resource"])],
        }
    ]
    (prototype,) = load_prototypes(written(tmp_path, document))
    assert prototype.inputs == (
        InputSpec("x", columns=Columns(("DT_FLOAT16", "DT_BF16"), ("ND", "NHWC"))),
        InputSpec("w", "optional", columns=Columns(("DT_FLOAT", "DT_INT8"), ("ND", "ND"))),
        InputSpec("z", "dynamic", columns=Columns(("DT_DOUBLE", "DT_DOUBLE"), ("NC1HWC0", "FRACTAL_Z"))),
    )
    assert prototype.outputs[1] == OutputSpec("out", columns=Columns(("DT_QINT8", "DT_RESOURCE"), ("ND", "ND")))
    assert prototype.attrs == (
        AttrSpec("a", "Float"),
        AttrSpec("b", "Int", -1),
        AttrSpec("c", "ListListInt", ((1,), ())),
        AttrSpec("d", "Bool", False),
        AttrSpec("e", "Str", 'a"b\\'),
        AttrSpec("f", "Float", 1.0),
        AttrSpec("g", "ListFloat", (1.0, 2.5)),
        AttrSpec("h", "ListBool", (True,)),
        AttrSpec("i", "ListInt", ()),
    )
    assert prototype.attrs[0].default is REQUIRED
    assert prototype.reference_outputs == ("x",)
    assert prototype.source == "prototype file ops.json"
    assert prototypes.get("FileOp") is prototype
    assert not prototype.derived


def test_a_repeated_name_overrides_the_earlier_entry(tmp_path) -> None:
    document = [operator(input_desc=[tensor("x"), tensor("w"), tensor("x", param_type="optional")])]
    (prototype,) = load_prototypes(written(tmp_path, document))
    assert [(s.name, s.kind) for s in prototype.inputs] == [("x", "optional"), ("w", "required")]


def test_classes_of_dtypes_have_columns_of_their_own(tmp_path) -> None:
    document = [operator(input_desc=[tensor("x", type=["float", "half"]), tensor("w", type=["numbertype"])])]
    document[0]["output_desc"] = [tensor("y", type=["float", "half"])]
    (prototype,) = load_prototypes(written(tmp_path, document))
    assert prototype.inputs[1].columns == Columns(("numbertype",), ("ND",))


def test_reading_declares_nothing(tmp_path) -> None:
    assert [p.name for p in read_prototypes(written(tmp_path, [operator()]))] == ["FileOp"]
    assert prototypes.get("FileOp") is None


def test_loading_twice(tmp_path, caplog) -> None:
    path = written(tmp_path, [operator()])
    assert load_prototypes(path) == load_prototypes(str(path))
    assert "declared again" not in caplog.text


def test_a_byte_order_mark_and_an_empty_list(tmp_path) -> None:
    assert load_prototypes(written(tmp_path, "﻿[]")) == ()


def test_a_built_in_operator(tmp_path) -> None:
    same = {"op": "Add", "input_desc": [tensor("x1"), tensor("x2")], "output_desc": [tensor("y")]}
    (prototype,) = load_prototypes(written(tmp_path, [same]))
    assert prototype.name == "Add"
    assert prototypes.get("Add") is not prototype
    with pytest.raises(OperatorFileError, match=r"\$\[1\].op: 'Add' is built in as Add\(x1, x2\) -> \(y\)"):
        load_prototypes(written(tmp_path, [operator(), {**same, "input_desc": [tensor("x1")]}]))
    assert prototypes.get("FileOp") is None  # nothing of such a file


def test_unknown_fields_are_ignored_with_a_warning(tmp_path, caplog) -> None:
    with caplog.at_level("WARNING", logger="torchair"):
        load_prototypes(written(tmp_path, [operator(vendor="x")]))
    assert "$[0]: the field 'vendor' is not known and ignored" in caplog.text


def test_it_is_used_by_automatic_conversion(tmp_path) -> None:
    define("file_kv(Tensor(a!) x, Tensor y) -> Tensor", lambda x, y: x.add_(y) * 2, lambda x, y: torch.empty_like(x))
    load_prototypes(written(tmp_path, prototype_json("file_kv(Tensor(a!) x, Tensor y) -> Tensor z")))
    config = torchair.CompilerConfig()
    config.experimental_config.require_prototype = True
    backend = torchair.get_npu_backend(compiler_config=config)
    x, y = torch.ones(2), torch.ones(2)
    result = torch.compile(lambda x, y: ops.file_kv(x, y), backend=backend, fullgraph=True)(x, y)
    assert result.tolist() == [4, 4]
    assert x.tolist() == [2, 2]
    assert "= FileKv(" in backend.graphs[-1].text
    assert "-> x, z " in backend.graphs[-1].text


# --- refusals ---

REFUSED: list[tuple[str, Any, str]] = [
    ("no list", {"op": "FileOp"}, "$: it is a list of operators, not an object"),
    ("no object", [5], "$[0]: it is an object, not a number"),
    ("no op", [{"output_desc": []}], "$[0].op: the field is missing"),
    ("no output_desc", [{"op": "FileOp"}], "$[0].output_desc: the field is missing"),
    ("null", [operator(input_desc=None)], "$[0].input_desc: it is a list, not null"),
    ("lower case", [operator(op="fileOp")], '$[0].op: "fileOp" is not a name in upper camel case: MyOp'),
    ("path as name", [operator(op="../X")], '$[0].op: "../X" is not a name in upper camel case'),
    ("no text", [operator(op=["A"])], '$[0].op: ["A"] is not a name in upper camel case'),
    ("unicode", [operator(op="Äb")], "is not a name in upper camel case"),
    ("line end", [operator(op="Ab\n")], '$[0].op: "Ab\\n" is not a name'),
    ("long", [operator(op="A" * 101)], "has 101 characters"),
    ("misspelt", [operator(atr=[])], "$[0]: no field is called 'atr'; did you mean 'attr'?"),
    ("duplicate", [operator(), operator()], '$[1].op: "FileOp" is in the file already, at $[0]'),
    ("no name", [operator(input_desc=[{"format": ["ND"], "type": ["float"]}])], "$[0].input_desc[0].name: the field"),
    ("no type", [operator(input_desc=[{"name": "x", "format": ["ND"]}])], "$[0].input_desc[0].type: the field"),
    ("no format", [operator(input_desc=[{"name": "x", "type": ["float"]}])], "$[0].input_desc[0].format: the field"),
    ("keyword", [operator(input_desc=[tensor("class")])], '.name: "class" is a keyword of Python and C++'),
    ("code", [operator(input_desc=[tensor("x); system('")])], "is not an identifier"),
    ("param_type", [operator(input_desc=[tensor("x", param_type="maybe")])], '.param_type: "maybe" is none of'),
    ("param_type list", [operator(input_desc=[tensor("x", param_type=["dynamic"])])], '.param_type: ["dynamic"] is'),
    ("type", [operator(input_desc=[tensor("x", type=["foat"])])], '.type[0]: "foat" is not known; did you mean'),
    ("type no list", [operator(input_desc=[tensor("x", type="float")])], ".type: it is a list of texts, not a text"),
    ("type empty", [operator(input_desc=[tensor("x", type=[])])], ".type: it is a list of texts, not an empty list"),
    ("type number", [operator(input_desc=[tensor("x", type=[3])])], ".type[0]: 3 is not known"),
    ("format", [operator(input_desc=[tensor("x", format=["NDD"])])], '.format[0]: "NDD" is not known; did you mean'),
    (
        "lengths",
        [operator(input_desc=[tensor("x", type=["float", "half", "int8"], format=["ND", "ND"])])],
        "$[0].input_desc[0]: it has 3 types and 2 formats",
    ),
    (
        "columns",
        [operator(input_desc=[tensor("x", type=["float", "half"])])],
        "$[0]: inputs and outputs have different numbers of types (x: 2, y: 1)",
    ),
    ("optional output", [operator(output_desc=[tensor("y", param_type="optional")])], "$[0].output_desc[0].param_type"),
    (
        "output of an input",
        [operator(output_desc=[tensor("x", param_type="dynamic")])],
        "$[0]: the input 'x' is required and the output of that name, its new value, dynamic",
    ),
    ("attr no type", [operator(attr=[{"name": "a"}])], "$[0].attr[0].type: the field is missing"),
    ("attr type", [operator(attr=[{"name": "a", "type": "tensor"}])], '$[0].attr[0].type: "tensor" is none of int,'),
    ("attr input", [operator(attr=[{"name": "x", "type": "int"}])], "'x' is both an input and an attribute"),
    (
        "attr no default",
        [operator(attr=[{"name": "a", "type": "int", "param_type": "optional"}])],
        "$[0].attr[0].default_value: the field is missing, and the attribute is optional",
    ),
    (
        "attr default of a required one",
        [operator(attr=[{"name": "a", "type": "int", "default_value": 1}])],
        "$[0].attr[0].default_value: a required attribute has none",
    ),
    (
        "attr dynamic",
        [operator(attr=[{"name": "a", "type": "int", "param_type": "dynamic"}])],
        '$[0].attr[0].param_type: "dynamic" is none of required, optional',
    ),
    *(
        (
            f"attr default {json.dumps(default)}",
            [operator(attr=[{"name": "a", "type": kind, "param_type": "optional", "default_value": default}])],
            f"$[0].attr[0].default_value: {json.dumps(default)} is not of type {kind}",
        )
        for kind, default in (
            ("int", 1.5),
            ("int", True),
            ("int", "1"),
            ("int", None),
            ("int", 2**63),
            ("bool", 1),
            ("float", "1"),
            ("float", True),
            ("string", 1),
            ("list_int", 1),
            ("list_int", [1, 2.5]),
            ("list_int", [True]),
            ("list_bool", [0]),
            ("list_list_int", [1]),
            ("list_float", [None]),
        )
    ),
    ("syntax", '[{"op": }]', "line 1, column 9: Expecting value"),
    ("empty", "", "line 1, column 1: Expecting value"),
    ("two", "[] []", "line 1, column 4: Extra data"),
    ("key twice", '[{"op": "A", "op": "B"}]', "an object has the field 'op' twice"),
    ("NaN", '[{"op": NaN}]', "NaN is no JSON"),
    ("deep", "[" * 100_000, "it is nested too deep"),
    ("digits", "[" + "9" * 10_000 + "]", "4300 digits"),
    (
        "infinite",
        (
            '[{"op":"A","output_desc":[],"attr":[{"name":"a","type":"float","param_type":"optional",'
            '"default_value":1e999}]}]'
        ),
        "$[0].attr[0].default_value: Infinity is not of type float",
    ),
]


@pytest.mark.parametrize(("document", "problem"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED])
def test_refusals(tmp_path, document, problem) -> None:
    path = written(tmp_path, document)
    with pytest.raises(OperatorFileError) as caught:
        load_prototypes(path)
    assert isinstance(caught.value, ValueError)
    assert caught.value.where == (str(path),)
    assert any(problem in line for line in caught.value.why), caught.value
    assert prototypes.get("FileOp") is None


def test_all_problems_of_a_file_at_once(tmp_path) -> None:
    document = [
        operator(op="x", input_desc=[tensor("for"), 5]),
        operator(op="FileB", attr=[{"name": "a", "type": "t"}]),
    ]
    with pytest.raises(OperatorFileError) as caught:
        load_prototypes(written(tmp_path, document))
    places = [line.partition(": ")[0] for line in caught.value.why]
    assert places == ["$[0].op", "$[0].input_desc[0].name", "$[0].input_desc[1]", "$[1].attr[0].type"]


def test_many_problems_are_counted(tmp_path) -> None:
    with pytest.raises(OperatorFileError) as caught:
        load_prototypes(written(tmp_path, [5] * 1000))
    assert len(caught.value.why) == 51
    assert caught.value.why[-1] == "and 950 more"


def test_no_such_file(tmp_path) -> None:
    with pytest.raises(OperatorFileNotFoundError) as caught:
        load_prototypes(tmp_path / "none.json")
    assert isinstance(caught.value, FileNotFoundError)
    assert isinstance(caught.value, OperatorFileError)


@pytest.mark.parametrize("path", [5, None, "a\0b"])
def test_no_path(path) -> None:
    with pytest.raises(OperatorFileError, match="the path is not one of a file"):
        load_prototypes(path)


def test_what_is_no_regular_file(tmp_path) -> None:
    with pytest.raises(OperatorFileError, match="not a regular file"):
        load_prototypes(tmp_path)
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(OperatorFileError, match="not a regular file"):
        load_prototypes(tmp_path / "fifo")


def test_huge_files_and_other_encodings(tmp_path) -> None:
    path = tmp_path / "huge.json"
    with path.open("wb") as file:
        file.truncate(2**34)  # sparse: takes no room
    with pytest.raises(OperatorFileError, match=r"it has 17179869184 bytes"):
        load_prototypes(path)
    path.write_bytes(b"\xff\xfe[\x00]")
    with pytest.raises(OperatorFileError, match="it is not UTF-8"):
        load_prototypes(path)


# --- writing ---


def test_the_operators_of_the_guide(tmp_path) -> None:
    text = prototype_json([MY_OP, MY_INPLACE + " z"])
    assert json.loads(text) == [
        {
            "op": "MyOp",
            "input_desc": [
                {"name": "x", "param_type": "required", "format": ["ND"], "type": ["float"]},
                {"name": "y", "param_type": "optional", "format": ["ND"], "type": ["float"]},
                {"name": "z", "param_type": "dynamic", "format": ["ND"], "type": ["float"]},
            ],
            "attr": [
                {"name": "attr1", "param_type": "required", "type": "float"},
                {"name": "attr2", "param_type": "required", "type": "int"},
            ],
            "output_desc": [{"name": "out0", "param_type": "required", "format": ["ND"], "type": ["float"]}],
        },
        {
            "op": "MyInplace",
            "input_desc": [
                {"name": "x", "param_type": "required", "format": ["ND"], "type": ["float"]},
                {"name": "y", "param_type": "required", "format": ["ND"], "type": ["float"]},
            ],
            "output_desc": [
                {"name": "x", "param_type": "required", "format": ["ND"], "type": ["float"]},
                {"name": "z", "param_type": "required", "format": ["ND"], "type": ["float"]},
            ],
        },
    ]
    signatures = [p.signature for p in read_prototypes(written(tmp_path, text))]
    assert signatures == ["MyOp(x, y?, z[]; attr1: Float, attr2: Int) -> (out0)", "MyInplace(x, y) -> (x, z)"]


def test_defaults_and_dtypes(tmp_path) -> None:
    schema = (
        'defaults(Tensor x, *, ScalarType t, int a=-3, float b=2, bool c=True, str d="q\\"", int[2] e=1, '
        "float[] f=[1, 2.5], bool[] g) -> (Tensor p, Tensor[] q)"
    )
    text = prototype_json(schema, types=("half", "bf16"))
    (prototype,) = read_prototypes(written(tmp_path, text))
    assert prototype.attrs == (
        AttrSpec("t", "Int"),
        AttrSpec("a", "Int", -3),
        AttrSpec("b", "Float", 2.0),
        AttrSpec("c", "Bool", True),
        AttrSpec("d", "Str", 'q"'),
        AttrSpec("e", "ListInt", (1, 1)),
        AttrSpec("f", "ListFloat", (1.0, 2.5)),
        AttrSpec("g", "ListBool"),
    )
    assert prototype.outputs[1].kind == "dynamic"
    assert prototype.outputs[0].columns == Columns(("DT_FLOAT16", "DT_BF16"), ("ND", "ND"))


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ("f(Tensor x, Scalar s) -> Tensor", "'s' is of type Scalar"),
        ("f(Tensor x, int? n=None) -> Tensor", "argument 'n' may be None"),
        ("f(Tensor x, str[] s) -> Tensor", "of type ListStr"),
        ("f(Tensor x, ScalarType d=float) -> Tensor", "a dtype with a default"),
        ("f(Tensor x) -> Tensor?", "output 'out0' may be None"),
        ("f(Tensor(a!) x) -> Tensor(a!)", "must not return what it writes"),
    ],
)
def test_what_json_cannot_say(schema, reason) -> None:
    with pytest.raises(SchemaError) as caught:
        prototype_json(schema)
    assert any(reason in line for line in caught.value.why)


def test_unknown_types() -> None:
    with pytest.raises(SchemaError, match="the types of its tensors"):
        prototype_json(MY_OP, types=("float33",))
    with pytest.raises(SchemaError, match="the types of its tensors"):
        prototype_json(MY_OP, types=())
