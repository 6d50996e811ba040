"""``torchair.ge.declare_op`` and ``register_kernel``."""

from __future__ import annotations

from typing import Any

import pytest

import torchair
from tests.custom_operators import ops  # noqa: F401  # defines MyInplace
from tests.ge.building import declared
from torchair.errors import ArgumentError, PrototypeError
from torchair.ge import attr
from torchair.opset import declarations, prototype
from torchair.opset.kernels import kernels
from torchair.opset.prototype import prototypes

#: Tests pass what annotations forbid.
ge: Any = torchair.ge


def test_forms_of_a_declaration() -> None:
    with declared(
        lambda: ge.declare_op(
            "GeDeclared",
            inputs={"x": "required", "y": "optional", "z": "dynamic"},
            outputs=["out"],
            attrs={"a": "Float", "b": ("Int", 2), "c": attr.ListInt, "d": attr.Str("x"), "e": ("Bool", None)},
        )
    ) as first:
        assert first.signature == (
            "GeDeclared(x, y?, z[]; a: Float, b: Int = 2, c: ListInt, d: Str = 'x', e: Bool = None) -> (out)"
        )
        again = ge.declare_op(
            "GeDeclared",
            inputs=["x", ("y", "optional"), ("z", "dynamic")],
            outputs={"out": "required"},
            attrs=[("a", "Float"), ("b", ("Int", 2)), ("c", "ListInt"), ("d", ("Str", "x")), ("e", ("Bool", None))],
        )
        assert again == first
        assert prototypes.get("GeDeclared") == first


def test_an_output_like_an_input_says_in_place() -> None:
    with declared(lambda: ge.declare_op("GeInplace", inputs=["x", "y"], outputs=["x", "z"])) as prototype:
        assert prototype.reference_outputs == ("x",)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"inputs": "x"}, "the inputs are 'x'"),
        ({"inputs": 3}, "the inputs are 3"),
        ({"inputs": [3]}, "input 3 is not a name"),
        ({"inputs": {"x": "maybe"}}, "input 'x' is 'maybe'; kinds are required, optional, dynamic"),
        ({"outputs": {"x": "optional"}}, "output 'x' is 'optional'; kinds are required, dynamic"),
        ({"inputs": ["x", "x"]}, "input 'x' is declared twice"),
        ({"inputs": ["1x"]}, "input '1x' is not an identifier"),
        ({"attrs": ["a"]}, "attribute 'a' is not a (name, type) pair"),
        ({"attrs": "a"}, "the attributes are 'a'"),
        ({"attrs": {"a": "float"}}, "attribute 'a' has type 'float', which is none of Bool"),
        ({"attrs": {"a": ("Int", "x")}}, "the default of attribute 'a' is 'x', which is not a value of type Int"),
        ({"inputs": ["a"], "attrs": {"a": "Int"}}, "'a' is both an input and an attribute"),
    ],
)
def test_malformed_declarations(arguments, words) -> None:
    with pytest.raises(ValueError, match="An operator prototype is not valid") as caught:
        ge.declare_op("GeMalformed", **arguments)
    assert isinstance(caught.value, PrototypeError)
    assert words in str(caught.value)
    assert prototypes.get("GeMalformed") is None


@pytest.mark.parametrize("name", ["My Op", "", None, "1Op"])
def test_malformed_names(name) -> None:
    with pytest.raises(PrototypeError, match="is not an identifier"):
        ge.declare_op(name, outputs=["y"])


def test_a_built_in_name_is_taken() -> None:
    with pytest.raises(PrototypeError, match="A built-in operator of that name has another prototype"):
        ge.declare_op("Add", inputs=["x"], outputs=["z"])


def test_a_later_declaration_replaces_an_earlier_one(monkeypatch) -> None:
    said: list[str] = []
    monkeypatch.setattr(prototype.logger, "warning", lambda text, *args: said.append(text % args))
    with declared(lambda: ge.declare_op("GeTaken", inputs=["x"], outputs=["y"])):
        revision = prototypes.revision
        ge.declare_op("GeTaken", inputs=["x"], outputs=["y"])
        assert said == []
        again = ge.declare_op("GeTaken", inputs=["x"], outputs=["x", "y"])
        assert prototypes.get("GeTaken") == again
        assert prototypes.revision > revision
    assert said == ["GeTaken is declared again: GeTaken(x) -> (x, y) instead of GeTaken(x) -> (y)"]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("MyInplce", ["Did you mean MyInplace?"]),
        ("GeTakenn", ["Did you mean GeTaken?"]),
        ("MyInplace", []),
        ("GeTaken", []),
        ("Quite another", []),
    ],
)
def test_a_kernel_for_a_name_like_a_known_one(monkeypatch, name, words) -> None:
    said: list[str] = []
    monkeypatch.setattr(declarations.logger, "warning", lambda text, *args: said.append(text % args))
    name = name.replace(" ", "")
    with declared(lambda: ge.declare_op("GeTaken", inputs=["x"], outputs=["y"])):
        ge.register_kernel(name)(lambda x: x)
        kernels.forget(name)
    assert [text[-len(word) :] for text, word in zip(said, words, strict=True)] == words


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("",), "by its name"),
        ((3,), "by its name"),
        (("My Op",), "by its name"),
        (("MyOp", "tensor"), "the kind of the kernel of MyOp is 'tensor'"),
    ],
)
def test_malformed_kernel_registrations(arguments, words) -> None:
    with pytest.raises(ArgumentError) as caught:
        ge.register_kernel(*arguments[:1], **({"kind": arguments[1]} if len(arguments) > 1 else {}))
    assert words in str(caught.value)


def test_a_kernel_is_a_function() -> None:
    with pytest.raises(ArgumentError, match="A kernel is a function"):
        ge.register_kernel("GeNoKernel")(3)
    assert kernels.get("GeNoKernel") is None


def test_a_kernel_stays_the_function_that_it_is() -> None:
    @ge.register_kernel("GeKernel", kind="cube")
    def kernel(x):
        return x

    try:
        found = kernels.get("GeKernel")
        assert found is not None
        assert (found.function, found.kind) == (kernel, "cube")
    finally:
        kernels.forget("GeKernel")
