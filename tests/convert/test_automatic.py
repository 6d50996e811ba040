"""Custom operators without a converter: what they become, and every reason why they cannot."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import torchair
from tests.convert.conversion import check, reference_backend
from tests.custom_operators import NAMESPACE, define, ops
from tests.ge.building import declared
from torchair import ge
from torchair.config import CompilerConfig
from torchair.convert import converters
from torchair.convert.matching import why_not
from torchair.errors import AutoConversionError, ConverterResultError, TorchAirError
from torchair.ir import DType, Graph, Node
from torchair.opset.kernels import kernels
from torchair.opset.prototype import prototypes


def numbers(*shape: int) -> Tensor:
    return torch.arange(float(torch.Size(shape).numel())).reshape(shape)


def only_node(graph: Graph, op: str) -> Node:
    (node,) = [node for node in graph if node.op == op]
    return node


def refused(program: Callable[..., Any], *args: Any, require_prototype: bool = False) -> TorchAirError:
    """The error of a compile, which is ours."""
    config = CompilerConfig()
    config.engine = "reference"
    config.experimental_config.require_prototype = require_prototype
    backend = torchair.get_npu_backend(compiler_config=config)
    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed) as caught, torch.no_grad():
        torch.compile(program, backend=backend, fullgraph=True)(*args)
    error = caught.value.inner_exception
    assert isinstance(error, TorchAirError), error
    return error


# --- what operators become ---


def test_the_operator_of_the_guide() -> None:
    (graph,) = check(lambda x, y: ops.my_op(x, y, [x, y], 0.5, 3), numbers(2, 3), numbers(2, 3))
    node = only_node(graph, "MyOp")
    x, y = node.inputs[:2]
    assert node.inputs == (x, y, (x, y))
    assert x is not y
    assert (node.attrs, node.output_names) == ({"attr1": 0.5, "attr2": 3}, ("out0",))
    (graph,) = check(lambda x: ops.my_op(x, None, [], 0.5, 3), numbers(2, 3))
    assert only_node(graph, "MyOp").inputs == (graph.inputs[0], None, ())


@pytest.mark.parametrize("dynamic", [None, True])
def test_all_kinds_of_results(dynamic) -> None:
    def program(x: Tensor) -> Any:
        return ops.two(x), ops.pieces(x, 3), ops.pieces(x, 1), ops.pieces(x, 0), ops.mixed(x, 2)

    (graph,) = check(program, numbers(2, 3), dynamic=dynamic)
    assert only_node(graph, "Mixed").output_names == ("out0", "out10", "out11", "out2")


@pytest.mark.parametrize("dynamic", [None, True])
def test_results_whose_size_depends_on_data(dynamic) -> None:
    def program(x: Tensor) -> Tensor:
        return torch.cat([ops.positive(x - 2) * 2, ops.positive(x - 3), x.view(-1)])

    # The default since torch 2.9.
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        check(program, numbers(2, 3), dynamic=dynamic)


@pytest.mark.parametrize("dynamic", [None, True])
def test_all_kinds_of_attributes(dynamic) -> None:
    def program(x: Tensor) -> Any:
        n, m = x.shape
        return (
            ops.attributes(x, 1, 2.5, True, "abc", [1, 2], [1.0, 2.0], [True, False]),
            ops.attributes(x, n, 2, False, "", [n, 3, m], [], [], oi=m, d=float("inf")),
            ops.sized(x, n, [m, 2, n]),
            ops.gathered([x[0, :2], None, x[1, :2]], None),
            ops.gathered([None, x[0, :2]], [x, x]),
        )

    check(program, numbers(2, 3), dynamic=dynamic)


def test_where_a_result_lies_is_no_attribute() -> None:
    (graph,) = check(lambda x: ops.placed(x, torch.float64, device=torch.device("cpu")), numbers(2, 3))
    assert only_node(graph, "Placed").attrs == {"dtype": DType.DT_DOUBLE}


def test_a_trailing_functional_is_no_part_of_the_name() -> None:
    define("some_thing_functional(Tensor x) -> Tensor", lambda x: x + 1, lambda x: torch.empty_like(x))
    (graph,) = check(lambda x: ops.some_thing_functional(x), numbers(2))
    only_node(graph, "SomeThing")


def test_opaque_operators_see_eager_strides() -> None:
    define(
        "flat_memory(Tensor x) -> Tensor",
        lambda x: torch.as_strided(x, (x.numel(),), (1,)).clone(),
        lambda x: x.new_empty(x.numel()),
    )
    check(lambda x: (ops.flat_memory((x + 1).t()), ops.flat_memory(x.t() + 1)), numbers(3, 4))


def test_views_are_for_pytorch_only() -> None:
    define("seen(Tensor(a) x) -> Tensor(a)", lambda x: x.view(-1), lambda x: x.view(-1))
    error = refused(lambda x: ops.seen(x) + 1, numbers(2, 3))
    assert "result 0 is a view of an argument, which only PyTorch's own operators may return" in str(error)


def test_random_operators_run_once_and_in_order() -> None:
    define(
        "noise(Tensor x) -> Tensor",
        lambda x: x + torch.rand(()),
        lambda x: torch.empty_like(x),
        tags=(torch.Tag.nondeterministic_seeded,),
    )
    (graph,) = check(lambda x: (ops.noise(x), ops.noise(x)), numbers(3), seed=0)
    assert [node.side_effects for node in graph if node.op == "Noise"] == [True, True]


def test_operators_without_results_run() -> None:
    seen: list[float] = []
    define("look(Tensor x) -> ()", lambda x: seen.append(x.sum().item()), lambda x: None)
    torch.fx.node.has_side_effect(ops.look.default)
    (graph,) = check(lambda x: (ops.look(x), x + 1)[1], numbers(3))
    assert only_node(graph, "Look").side_effects
    assert seen == [3.0, 3.0]  # eager, then compiled


def test_two_namespaces_with_one_name() -> None:
    library = torch.library.Library("custom_operators_2", "DEF")
    library.define("two(Tensor x, int n) -> Tensor")
    library.impl("two", lambda x, n: x * n, "CPU")
    torch.library.register_fake("custom_operators_2::two", lambda x, n: torch.empty_like(x), lib=library)
    (graph,) = check(lambda x: (ops.two(x), torch.ops.custom_operators_2.two(x, 3)), numbers(3))
    assert graph.count("Two") == 2
    library._destroy()


# --- declared prototypes ---


def test_a_declared_prototype_gives_the_names() -> None:
    with declared(
        lambda: ge.declare_op(
            "MyOp",
            inputs={"a": "required", "b": "optional", "c": "dynamic"},
            outputs=["result"],
            attrs={"d": "Float", "e": "Int", "f": ("Str", "default"), "g": ("Int", None)},
        )
    ):
        (graph,) = check(lambda x, y: ops.my_op(x, y, [x], 0.5, 3), numbers(2, 3), numbers(2, 3))
    node = only_node(graph, "MyOp")
    assert node.attrs == {"d": 0.5, "e": 3, "f": "default"}
    assert node.output_names == ("result",)


def test_a_required_argument_may_be_an_optional_input() -> None:
    with declared(lambda: ge.declare_op("Two", inputs={"x": "optional"}, outputs=["a", "b"])):
        check(lambda x: ops.two(x), numbers(2, 3))


def test_attribute_types_that_take_other_values() -> None:
    with declared(
        lambda: ge.declare_op("Sized", inputs=["x"], outputs=["y"], attrs={"n": "Float", "sizes": "ListFloat"})
    ):
        (graph,) = check(lambda x: ops.sized(x, 3, [2, 2]), numbers(2))
    assert only_node(graph, "Sized").attrs == {"n": 3.0, "sizes": (2.0, 2.0)}
    with declared(lambda: ge.declare_op("Placed", inputs=["x"], outputs=["y"], attrs={"dtype": "DataType"})):
        check(lambda x: ops.placed(x, torch.int32), numbers(2))


def test_in_place_with_the_results_first() -> None:
    with declared(lambda: ge.declare_op("MyInplace", inputs=["x", "y"], outputs=["z", "x"])):
        (graph,) = check(lambda x, y: (ops.my_inplace(x, y), x + 1), numbers(2, 3), numbers(2, 3))
    node = only_node(graph, "MyInplace")
    assert node.writes == ((1, 0),)
    assert node.call is not None
    assert node.call.order == (1, 0)
    assert graph.count("TensorMove") == 0


def test_a_functional_operator_with_an_in_place_prototype_keeps_its_argument() -> None:
    define(
        "add_into(Tensor x, Tensor y) -> Tensor",
        lambda x, y: x + y,
        lambda x, y: torch.empty_like(x),
    )
    with declared(lambda: ge.declare_op("AddInto", inputs=["x", "y"], outputs=["x"])):
        (graph,) = check(lambda x, y: (ops.add_into(x, y), x + 1), numbers(2, 3), numbers(2, 3))
        assert only_node(graph, "AddInto").writes == ((0, 0),)

        @ge.register_kernel("AddInto")
        def kernel(x: Tensor, y: Tensor) -> None:
            x.add_(y)

        try:
            (graph,) = check(lambda x, y: (ops.add_into(x, y), x + 1), numbers(2, 3), numbers(2, 3))
        finally:
            kernels.forget("AddInto")
    assert graph.count("TensorMove") == 1


# --- built-in operators and kernels ---


def test_a_built_in_operator_of_that_name_runs_instead(caplog) -> None:
    define("mul(Tensor x, Tensor y) -> Tensor", lambda x, y: x + 0 * y, lambda x, y: torch.empty_like(x))
    torchair.logger.propagate = True
    try:
        with caplog.at_level(logging.WARNING, logger="torchair"):
            compiled = torch.compile(lambda x: ops.mul(x, x), backend=reference_backend(), fullgraph=True)
            assert compiled(numbers(3)).tolist() == [0.0, 1.0, 4.0]
    finally:
        torchair.logger.propagate = False
    assert (
        "custom_operators.mul.default runs as the built-in Ascend IR operator Mul, because of its name" in caplog.text
    )


def test_a_built_in_operator_with_other_results() -> None:
    define(
        "reciprocal(Tensor x) -> Tensor", lambda x: 1 / x.double(), lambda x: torch.empty_like(x, dtype=torch.float64)
    )
    error = refused(lambda x: ops.reciprocal(x), numbers(3))
    assert isinstance(error, ConverterResultError)
    assert "automatic conversion to Reciprocal" in str(error)
    assert "result 0 is float32[3], promised float64[3]" in str(error)
    assert '"CustomOperatorsReciprocal"' in error.fix


def test_a_registered_kernel_runs_instead_of_the_torch_operator() -> None:
    calls: list[Any] = []

    @ge.register_kernel("MyOp")
    def kernel(x: Tensor, y: Tensor | None, z: list[Tensor], *, attr1: float, attr2: int) -> Tensor:
        calls.append((y, len(z), attr1, attr2))
        return x * 100

    try:
        compiled = torch.compile(
            lambda x, n: ops.my_op(x, None, [x, x], 0.5, n), backend=reference_backend(), fullgraph=True, dynamic=True
        )
        assert compiled(numbers(3), 7).tolist() == [0.0, 100.0, 200.0]
        assert compiled(numbers(3), 8).tolist() == [0.0, 100.0, 200.0]
    finally:
        kernels.forget("MyOp")
    assert calls == [(None, 2, 0.5, 7), (None, 2, 0.5, 8)]


def test_a_kernel_writes_into_the_argument_itself() -> None:
    @ge.register_kernel("MyInplace")
    def kernel(x: Tensor, y: Tensor) -> Tensor:
        x.sub_(y)
        return x * 3

    try:
        compiled = torch.compile(lambda x, y: ops.my_inplace(x, y), backend=reference_backend(), fullgraph=True)
        x = numbers(3)
        assert compiled(x, torch.ones(3)).tolist() == [-3.0, 0.0, 3.0]
        assert x.tolist() == [-1.0, 0.0, 1.0]
    finally:
        kernels.forget("MyInplace")


def test_a_kernel_gets_none_and_torch_dtypes() -> None:
    seen: list[Any] = []

    @ge.register_kernel("Placed")
    def placed(x: Tensor, *, dtype: torch.dtype) -> Tensor:
        seen.append(dtype)
        return x.to(dtype)

    @ge.register_kernel("Attributes")
    def attributes(x: Tensor, **attrs: Any) -> Tensor:
        seen.append(sorted(attrs))
        return x

    @ge.register_kernel("OptionalAttr")
    def optional_attr(x: Tensor, n: int | None) -> Tensor:
        seen.append(n)
        return x + 1

    define(
        "optional_attr(Tensor x, int? n=None) -> Tensor", lambda x, n=None: x + 1, lambda x, n=None: torch.empty_like(x)
    )
    try:
        check(lambda x: ops.placed(x, torch.int32), numbers(3))
        check(lambda x: ops.attributes(x, 0, 0.0, False, "", [], [], [], d=0.0), numbers(3))
        check(lambda x: ops.optional_attr(x), numbers(3))
    finally:
        for name in ("Placed", "Attributes", "OptionalAttr"):
            kernels.forget(name)
    assert seen == [torch.int32, ["b", "d", "f", "i", "lb", "lf", "li", "s"], None]


# --- the log (specification, F-62) ---


def test_the_converter_is_logged(caplog) -> None:
    torchair.logger.propagate = True
    try:
        with caplog.at_level(logging.DEBUG, logger="torchair"):
            check(lambda x: ops.two(x), numbers(2, 3))
    finally:
        torchair.logger.propagate = False
    (message,) = {r.getMessage() for r in caplog.records if "automatically converted" in r.getMessage()}
    assert message.startswith(
        "The converter for the Ascend operator custom_operators.two.default has been automatically converted: "
        "Two(x) -> (out0, out1)\n  @torchair.register_fx_node_ge_converter(torch.ops.custom_operators.two.default)\n"
    )


def test_the_report_tells_what_was_derived() -> None:
    backend = reference_backend()
    torch.compile(lambda x: ops.two(x), backend=backend, fullgraph=True)(numbers(2, 3))
    (compiled,) = backend.graphs
    assert compiled.report.auto_converted == {"custom_operators.two.default": 1}
    assert compiled.report.derived == ["Two"]


# --- every reason for a refusal (specification, F-62) ---

define("three(Tensor x, Tensor y, int n) -> Tensor", lambda x, y, n: x + y * n, lambda x, y, n: torch.empty_like(x))


@pytest.mark.parametrize(
    ("declaration", "program", "args", "reason"),
    [
        (
            {"inputs": ["x"], "outputs": ["z"], "attrs": {"n": "Int"}},
            lambda x: ops.three(x, x, 2),
            1,
            "it has 2 tensor arguments (x, y), {name} has 1 input (x)",
        ),
        (
            {"inputs": ["x", "y", "w"], "outputs": ["z"], "attrs": {"n": "Int"}},
            lambda x: ops.three(x, x, 2),
            1,
            "it has 2 tensor arguments (x, y), {name} has 3 inputs (x, y, w)",
        ),
        (
            {"inputs": {"x": "required", "y": "dynamic"}, "outputs": ["z"], "attrs": {"n": "Int"}},
            lambda x: ops.three(x, x, 2),
            1,
            "argument 'y' is required (Tensor), input 'y' of {name} is dynamic",
        ),
        (
            {"inputs": ["x", "y"], "outputs": ["z"]},
            lambda x: ops.three(x, x, 2),
            1,
            "it has 1 other argument (n), {name} has 0 attributes (none)",
        ),
        (
            {"inputs": ["x", "y"], "outputs": ["z"], "attrs": {"n": "Str"}},
            lambda x: ops.three(x, x, 2),
            1,
            "argument 'n' is of type int, attribute 'n' of {name} of type Str",
        ),
        (
            {"inputs": ["x", "y"], "outputs": ["z"], "attrs": {"n": "Int", "m": "Int"}},
            lambda x: ops.three(x, x, 2),
            1,
            "{name} requires the attributes m, for which it has no argument",
        ),
        (
            {"inputs": ["x", "y"], "outputs": ["z", "w"], "attrs": {"n": "Int"}},
            lambda x: ops.three(x, x, 2),
            1,
            "it writes 0 arguments (none) and returns 1 further value, {name} has 2 outputs (z, w)",
        ),
        (
            {"inputs": ["x", "y"], "outputs": ["a", "b"]},
            lambda x, y: ops.my_inplace(x, y),
            2,
            "it writes 1 argument (x), {name} has 0 outputs with the name of an input (none)",
        ),
        (
            {"inputs": ["x", "y"], "outputs": ["y", "b"]},
            lambda x, y: ops.my_inplace(x, y),
            2,
            "it writes the tensor arguments number 0 (x), {name} writes the inputs number 1 (y)",
        ),
        (
            {"inputs": ["x"], "outputs": ["ys"], "attrs": {"n": "Int"}},
            lambda x: ops.pieces(x, 2),
            1,
            "result 0 is a list, output 'ys' of {name} is required",
        ),
    ],
)
def test_differences_from_the_prototype(declaration, program, args, reason) -> None:
    name = {"three": "Three", "my_inplace": "MyInplace", "pieces": "Pieces"}[program.__code__.co_names[1]]
    with declared(lambda: ge.declare_op(name, **declaration)) as prototype:
        error = refused(program, *[numbers(2, 3)] * args)
    assert isinstance(error, AutoConversionError)
    assert isinstance(error, RuntimeError)
    text = str(error)
    assert text.startswith("Failed to auto-generated converter for custom_operators.")
    assert reason.format(name=name) in error.why
    assert f"prototype: {prototype.signature}, declared" in error.why
    assert error.why[0].startswith("schema:    custom_operators::")
    written = "with the name of an input" in reason or "writes the tensor arguments" in reason
    assert f"Declare {name} {'so' if written else 'as the schema has it'}:" in error.fix
    assert "test_automatic.py" in error.where[0]


def test_scalars() -> None:
    error = refused(lambda x: ops.scaled(x, 2.5), numbers(3))
    assert isinstance(error, AutoConversionError)
    assert (
        "argument 'factor' is of type Scalar, which no attribute type stands for: it may be an int or a float"
        in error.why
    )


def test_types_that_no_attribute_has() -> None:
    define("generated(Tensor x, complex c) -> Tensor", lambda x, c: x + c.real, lambda x, c: torch.empty_like(x))
    error = refused(lambda x: ops.generated(x, 1j), numbers(3))
    assert "argument 'c' is of type complex, which no attribute type stands for" in error.why


def test_prototypes_that_nobody_declared() -> None:
    error = refused(lambda x: ops.two(x), numbers(3), require_prototype=True)
    assert "No AscendIR Two was found to be registered." in error.why
    with declared(lambda: ge.declare_op("Two", inputs=["x"], outputs=["a", "b"])):
        config = CompilerConfig()
        config.engine = "reference"
        config.experimental_config.require_prototype = True
        backend = torchair.get_npu_backend(compiler_config=config)
        torch.compile(lambda x: ops.two(x), backend=backend, fullgraph=True)(numbers(3))


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        (torch.sin, "builtin_function_or_method"),
        (torch.ops.aten.sin, "an operator with several overloads, not an operator overload"),
        (torch.ops.aten.sin.default, "one of PyTorch's own operators"),
        (torch.ops.prims.sin.default, "one of PyTorch's own operators"),
        (lambda x: x, "function"),
    ],
)
def test_what_is_no_custom_operator(target, reason) -> None:
    rejection = why_not(target)
    assert rejection is not None
    assert reason in rejection.reason


def test_a_namespace_that_contains_aten_is_none_of_pytorch() -> None:
    library = torch.library.Library("my_aten_prims", "DEF")
    library.define("thing(Tensor x) -> Tensor")
    library.impl("thing", lambda x: x + 1, "CPU")
    torch.library.register_fake("my_aten_prims::thing", lambda x: torch.empty_like(x), lib=library)
    (graph,) = check(lambda x: torch.ops.my_aten_prims.thing(x), numbers(3))
    only_node(graph, "Thing")
    library._destroy()


# --- the pasted code works ---


def paste(code: str, declares: str = "") -> Any:
    """Execute what an error tells to paste; returns the prototype that it declares."""
    exec(code, {"torchair": torchair, "torch": torch})
    return prototypes.get(declares)


def code_of(fix: str) -> str:
    """The code in a fix: what stands behind the last line that ends with a colon and before the next sentence."""
    return fix[fix.index("\n\n") + 2 :]


define(
    "plenty(Tensor x, Tensor? y, Tensor[] zs, Scalar s, Scalar[] ss, *, int? n=None, "
    'str mode="a", float inf=2.0, Scalar? t=None) -> (Tensor, Tensor)',
    lambda x, y, zs, s, ss, *, n=None, mode="a", inf=2.0, t=None: (
        x * s + sum(ss) + (n or 0),
        x + len(zs) + len(mode) + inf,
    ),
    lambda x, y, zs, s, ss, *, n=None, mode="a", inf=2.0, t=None: (torch.empty_like(x), torch.empty_like(x)),
)
define(
    "write_scaled(Tensor(a!) x, Tensor(b!)[] ys, Tensor(c!)? z, Scalar s) -> Tensor",
    lambda x, ys, z, s: torch.cat([t.mul_(s) for t in (x, *ys, *([] if z is None else [z]))]).sum(),
    lambda x, ys, z, s: x.new_empty(()),
)
define(
    "scaled_pieces(Tensor x, Scalar s) -> Tensor[]",
    lambda x, s: [x * s, x + 1],
    lambda x, s: [torch.empty_like(x), torch.empty_like(x)],
)
define(
    "scaled_mixed(Tensor x, Scalar s) -> (Tensor, Tensor[])",
    lambda x, s: (x * s, [x + 1, x + 2]),
    lambda x, s: (torch.empty_like(x), [torch.empty_like(x), torch.empty_like(x)]),
)


@pytest.mark.parametrize(
    ("overload", "program", "args"),
    [
        (ops.scaled.default, lambda x: (ops.scaled(x, 2.5), ops.scaled(x, 3)), (numbers(3),)),
        (
            ops.plenty.default,
            lambda x: (ops.plenty(x, None, [x], 2, [1, 2.5]), ops.plenty(x, x, [], 2.5, [], n=4, mode="b", t=1)),
            (numbers(3),),
        ),
        (
            ops.write_scaled.default,
            lambda x, y: (ops.write_scaled(x, [y[0], y[1]], None, 2), ops.write_scaled(x, [], y[2], 2.5), x + 1),
            (numbers(3), numbers(3, 3)),
        ),
        (ops.scaled_pieces.default, lambda x: ops.scaled_pieces(x, 2), (numbers(3),)),
        (ops.scaled_mixed.default, lambda x: ops.scaled_mixed(x, 2), (numbers(3),)),
    ],
)
def test_the_converter_of_the_message_works_when_pasted(overload, program, args) -> None:
    error = refused(program, *[a.clone() for a in args])
    paste(code_of(error.fix))
    try:
        check(program, *args)
        check(program, *args, dynamic=True)
    finally:
        assert converters.forget(overload) is not None


def test_the_declaration_of_the_message_works_when_pasted() -> None:
    program = lambda x, y: ops.my_op(x, y, [x], 0.5, 3)  # noqa: E731
    error = refused(program, numbers(3), numbers(3), require_prototype=True)
    with declared(lambda: paste(code_of(error.fix), "MyOp")):
        config = CompilerConfig()
        config.engine = "reference"
        config.experimental_config.require_prototype = True
        backend = torchair.get_npu_backend(compiler_config=config)
        compiled = torch.compile(program, backend=backend, fullgraph=True)
        assert torch.equal(compiled(numbers(3), numbers(3)), program(numbers(3), numbers(3)))


def test_the_declaration_that_corrects_another_works_when_pasted() -> None:
    program = lambda x: ops.three(x, x, 2)  # noqa: E731
    with declared(lambda: ge.declare_op("Three", inputs=["x"], outputs=["z"])):
        error = refused(program, numbers(3))
    code = code_of(error.fix).partition("\n\nor register")[0]
    with declared(lambda: paste(code, "Three")):
        check(program, numbers(3))


def test_the_converter_that_goes_around_a_built_in_operator_works_when_pasted() -> None:
    define("add(Tensor x, Tensor y, float f) -> Tensor", lambda x, y, f: x + f * y, lambda x, y, f: torch.empty_like(x))
    program = lambda x, y: ops.add(x, y, 2.5)  # noqa: E731
    error = refused(program, numbers(3), numbers(3))
    assert "prototype: Add(x1, x2) -> (y), built-in" in error.why
    paste(code_of(error.fix))
    try:
        (graph,) = check(program, numbers(3), numbers(3))
    finally:
        converters.forget(getattr(torch.ops, NAMESPACE).add.default)
    only_node(graph, "CustomOperatorsAdd")


def test_a_required_declaration_of_scalars_works_when_pasted() -> None:
    program = lambda x: ops.scaled(x, 2.5)  # noqa: E731
    error = refused(program, numbers(3), require_prototype=True)
    first, _, second = code_of(error.fix).partition("\n\nand register a converter:\n\n")
    with declared(lambda: paste(first, "Scaled")):
        paste(second)
        try:
            check(program, numbers(3))
        finally:
            converters.forget(ops.scaled.default)
