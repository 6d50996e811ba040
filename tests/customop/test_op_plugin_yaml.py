"""``op_plugin_functions.yaml``: operators that run eagerly and in both modes, and entries that cannot be used."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import dedent, indent
from typing import Any

import pytest
import torch
from torch import Tensor

import npugraph_ex
import torchair
from torchair.convert import converters
from torchair.customop import YamlReport, load_op_plugin_yaml, load_prototypes, prototype_json
from torchair.customop.op_plugin_yaml import adaptation_of
from torchair.errors import (
    ArgumentError,
    MissingKernelError,
    OperatorClashError,
    OperatorContractError,
    OperatorFileError,
    OperatorFileNotFoundError,
    OutputRuleError,
    PrototypeArgumentCountError,
    PrototypeNotFoundError,
    TorchAirError,
)
from torchair.opset.kernels import kernels
from torchair.opset.prototype import prototypes

_namespaces = (f"yaml_test_{i}" for i in itertools.count())

MY_OP = """
- func: my_op(Tensor x, Tensor? y, Tensor[] z, float attr1, int attr2) -> Tensor
  op_api: all_version
  gen_opapi:
    out:
      size: x
      dtype: x
    exec: aclnnMyOp
"""
MY_INPLACE = """
- func: my_inplace(Tensor(a!) x, Tensor y) -> Tensor
  op_api: all_version
  gen_opapi:
    out:
      size: y
      dtype: y
    exec: aclnnMyInplace
"""


class Loaded:
    """A file in a namespace of its own."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.namespace = next(_namespaces)
        self.report: YamlReport | None = None

    @property
    def ops(self) -> Any:
        return getattr(torch.ops, self.namespace)

    def load(self, custom: str, rest: str = "") -> YamlReport:
        self.path.write_text(f"custom:\n{indent(dedent(custom), '  ')}\n{dedent(rest)}", encoding="utf-8")
        self.report = load_op_plugin_yaml(self.path, self.namespace)
        return self.report

    def refusal(self, custom: str, rest: str = "") -> str:
        """The reason of the only entry."""
        (entry,) = self.load(custom, rest).refused
        assert entry.group == "custom"
        return entry.reason


@pytest.fixture
def file(tmp_path) -> Loaded:
    return Loaded(tmp_path / "op_plugin_functions.yaml")


@pytest.fixture(autouse=True)
def _registries() -> Iterator[None]:
    """Kernels and prototypes of a test are gone after it."""
    known, declared = {k.op for k in kernels}, {p.name for p in prototypes.snapshot()}
    yield
    for kernel in kernels:
        if kernel.op not in known:
            kernels.forget(kernel.op)
    for prototype in prototypes.snapshot():
        if prototype.name not in declared:
            prototypes.forget(prototype.name)


def my_op_kernel(x: Tensor, y: Tensor | None, z: list[Tensor], *, attr1: float, attr2: int) -> Tensor:
    total = x * attr1 + attr2
    for tensor in [*z, *([] if y is None else [y])]:
        total = total + tensor
    return total


def my_inplace_kernel(x: Tensor, y: Tensor) -> Tensor:
    x.add_(y)
    return y * 2


def numbers(*shape: int) -> Tensor:
    return torch.arange(float(torch.Size(shape).numel())).reshape(shape)


MODES = ("npu", "npugraph_ex")


def backend(mode: str) -> Any:
    """A backend that compiles quickly."""
    if mode == "npugraph_ex":
        return npugraph_ex.get_npu_backend()
    config = torchair.CompilerConfig()
    config.engine = "reference"
    return torchair.get_npu_backend(compiler_config=config)


def compare(program: Callable[..., Any], *args: Any, mode: str, dynamic: bool | None = None) -> None:
    """Compare a mode with eager mode, results and arguments."""
    torch._dynamo.reset()
    copies = [a.clone() if isinstance(a, Tensor) else a for a in args]
    with torch.no_grad():
        expected = program(*args)
        actual = torch.compile(program, backend=backend(mode), fullgraph=True, dynamic=dynamic)(*copies)
    torch.testing.assert_close(actual, expected, check_stride=True)
    torch.testing.assert_close(copies, list(args))


# --- the operators of the guide ---


def test_the_operators_of_the_guide_pass_opcheck(file) -> None:
    report = file.load(MY_OP + MY_INPLACE)
    assert report.registered == (f"{file.namespace}::my_op", f"{file.namespace}::my_inplace")
    report.require()
    torchair.ge.register_kernel("MyOp")(my_op_kernel)
    torchair.ge.register_kernel("MyInplace")(my_inplace_kernel)
    x = numbers(2, 3)
    assert torch.equal(file.ops.my_op(x, None, [x], 0.5, 2), x * 0.5 + 2 + x)
    torch.library.opcheck(file.ops.my_op.default, (x, x, [x, x], 0.5, 2))
    torch.library.opcheck(file.ops.my_op.default, (x.clone().requires_grad_(), None, [], 0.5, 2))
    torch.library.opcheck(file.ops.my_inplace.default, (x.clone(), x + 1))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dynamic", [None, True])
def test_the_operators_of_the_guide_in_both_modes(file, mode, dynamic) -> None:
    file.load(MY_OP + MY_INPLACE)
    torchair.ge.register_kernel("MyOp")(my_op_kernel)
    torchair.ge.register_kernel("MyInplace")(my_inplace_kernel)
    ops = file.ops

    def program(x, y):
        first = ops.my_op(x, None, [y, y], 0.5, 2)
        return first, ops.my_inplace(x, first), ops.my_op(x, y, [], 1.5, -1)

    compare(program, numbers(4, 5), numbers(4, 5), mode=mode, dynamic=dynamic)


def test_the_report_of_check_operator(file) -> None:
    file.load(MY_OP)
    torchair.ge.register_kernel("MyOp")(my_op_kernel)
    x = numbers(2, 3)
    report = torchair.check_operator(file.ops.my_op, x, None, [x], 0.5, 2)
    assert report.ok, report


def test_with_the_prototype_file(file, tmp_path) -> None:
    (tmp_path / "ops.json").write_text(
        prototype_json("my_op(Tensor x, Tensor? y, Tensor[] z, float attr1, int attr2) -> Tensor")
    )
    load_prototypes(tmp_path / "ops.json")
    file.load(MY_OP)
    seen = []

    @torchair.ge.register_kernel("MyOp")
    def kernel(x, y, z, *, attr1, attr2):
        seen.append((type(attr1), type(attr2)))
        return my_op_kernel(x, y, z, attr1=attr1, attr2=attr2)

    x = numbers(2, 3)
    assert torch.equal(file.ops.my_op(x, None, [], 2, 3), x * 2 + 3)
    assert seen == [(float, int)]


# --- rules, outputs, parameters, exec ---


TWO = """
- func: two(Tensor x, Tensor y, int n=2) -> (Tensor, Tensor)
  op_api: all_version
  gen_opapi:
    out0:
      size: broadcast_ops_npu_output_size(x, y)
      dtype: at::result_type(x, y)
      name: x
    out1:
      size: '{n, x.size(0), m}'
      dtype: 'isIntegralType(x.scalar_type(), true) ? at::kFloat : x.scalar_type()'
    new_params:
      k: n * 2
      m: k + 1
    exec: aclnnTwo, x, y, m, out1, out0
"""


@pytest.mark.parametrize("mode", MODES)
def test_rules_parameters_and_outputs_in_another_order(file, mode) -> None:
    file.load(TWO)

    @torchair.ge.register_kernel("Two")
    def two(x, y, *, m):
        wide = torch.full(((m - 1) // 2, x.size(0), m), 3.0, dtype=x.dtype if x.is_floating_point() else torch.float32)
        return wide, x + y

    x, y = torch.ones(2, 3, dtype=torch.int32), numbers(3)
    total, wide = file.ops.two(x, y)
    assert torch.equal(total, x + y)
    assert wide.shape == (2, 2, 5)
    torch.library.opcheck(file.ops.two.default, (x, y))
    for dynamic in (None, True):
        compare(lambda x, y: file.ops.two(x, y, 3), x, y, mode=mode, dynamic=dynamic)


@pytest.mark.parametrize("mode", MODES)
def test_arguments_in_another_order(file, mode) -> None:
    file.load(
        """
        - func: swap(Tensor x, Tensor y, int n, int? k=None) -> (Tensor, Tensor)
          op_api: all_version
          gen_opapi:
            out0: {size: x, dtype: x}
            out1: {size: y, dtype: y}
            exec: aclnnSwapped, y, x, n, k, out1, out0
        """
    )

    @torchair.ge.register_kernel("Swapped")
    def swapped(y, x, *, n, k):
        return y + n, x - (0 if k is None else k)

    x, y = numbers(2, 3), numbers(4)
    first, second = file.ops.swap(x, y, 3)
    assert torch.equal(first, x)
    assert torch.equal(second, y + 3)
    compare(lambda x, y: file.ops.swap(x, y, 3, 4), x, y, mode=mode)
    compare(lambda x, y: file.ops.swap(x, y, 3), x, y, mode=mode)


@pytest.mark.parametrize("mode", MODES)
def test_an_operator_in_place_that_lists_its_arguments(file, mode) -> None:
    file.load(
        """
        - func: write(Tensor(a!) x, Tensor y) -> Tensor
          op_api: all_version
          gen_opapi:
            out: {size: x, dtype: x}
            exec: aclnnWriteInto, y, x, out
        - func: only_write(Tensor(a!) x, float value) -> ()
          op_api: all_version
          gen_opapi:
            exec: aclnnOnlyWrite
        """
    )

    @torchair.ge.register_kernel("WriteInto")
    def write(y, x):
        x.add_(y)
        return x + y

    @torchair.ge.register_kernel("OnlyWrite")
    def only_write(x, *, value):
        x.mul_(value)

    def program(x, y):
        file.ops.only_write(y, 2.0)
        return file.ops.write(x, y)

    torch.library.opcheck(file.ops.only_write.default, (numbers(3), 2.0))
    compare(program, numbers(2, 3), numbers(2, 3), mode=mode)


ABS = """
- func: my_abs.out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)
  op_api: all_version
  gen_opapi:
    out:
      size: self
      dtype: self
      name: self
    exec: aclnnAbs, self, out
- func: my_abs(Tensor self) -> Tensor
  op_api: all_version
  gen_opapi:
    structured_inherit: my_abs.out
- func: my_abs_(Tensor(a!) self) -> Tensor(a!)
  op_api: all_version
  gen_opapi:
    structured_inherit: my_abs.out
"""


def test_inheriting_from_an_out_variant_and_a_built_in_kernel(file) -> None:
    report = file.load(ABS)
    assert [e.status for e in report.entries] == ["registered"] * 3
    assert "graph mode refuses it" in report.entries[2].reason
    x = numbers(2, 3) - 2
    assert torch.equal(file.ops.my_abs(x), x.abs())
    out = torch.empty(0)
    assert file.ops.my_abs(x, out=out) is out
    assert torch.equal(out, x.abs())
    y = x.clone()
    assert file.ops.my_abs_(y) is y
    assert torch.equal(y, x.abs())
    graphs = backend("npu")
    torch._dynamo.reset()
    assert torch.equal(torch.compile(lambda x: file.ops.my_abs(x), backend=graphs, fullgraph=True)(x), x.abs())
    assert "= Abs(" in graphs.graphs[-1].text
    with pytest.raises(
        OperatorContractError, match=r"has dtype torch\.float32, which 'out', torch\.int32, cannot hold"
    ):
        file.ops.my_abs(x, out=torch.empty(2, 3, dtype=torch.int32))


def test_symbolic_integers(file) -> None:
    file.load(
        """
        - func: pad(Tensor x, SymInt n, SymInt[] more) -> Tensor
          op_api: all_version
          gen_opapi:
            out: {size: '{x.size(0) + n, more[0]}', dtype: x}
            exec: aclnnPadTo
        """
    )

    @torchair.ge.register_kernel("PadTo")
    def pad(x, *, n, more):
        return x.new_zeros(x.size(0) + n, more[0])

    torch._dynamo.reset()
    compiled = torch.compile(
        lambda x, n: file.ops.pad(x, n, [n, 1]), backend=backend("npu"), fullgraph=True, dynamic=True
    )
    assert compiled(torch.ones(2), 3).shape == (5, 3)
    assert compiled(torch.ones(4), 7).shape == (11, 7)


def test_results_are_contiguous_and_in_memory_of_their_own(file) -> None:
    file.load(MY_OP)

    @torchair.ge.register_kernel("MyOp")
    def kernel(x, y, z, *, attr1, attr2):
        return x.t().contiguous().t() if attr2 else x

    x = numbers(2, 3)
    assert file.ops.my_op(x, None, [], 1.0, 1).is_contiguous()
    result = file.ops.my_op(x, None, [], 1.0, 0)
    assert result.data_ptr() != x.data_ptr()
    torch.library.opcheck(file.ops.my_op.default, (x, None, [], 1.0, 0))


def test_literals_and_conditions_in_exec(file, tmp_path) -> None:
    text = """
    - func: lit(Tensor x, bool b) -> Tensor
      op_api: all_version
      gen_opapi:
        out: {size: 'b ? x.sizes() : at::IntArrayRef{1}', dtype: at::kDouble}
        exec: aclnnLit, x, 3, b
    """
    file.load(text)

    @torchair.ge.register_kernel("Lit")
    def lit(x, *, count, flag):
        return (x if flag else x.sum().reshape(1)).double() * count

    with pytest.raises(PrototypeNotFoundError, match="it is given 3, and only its prototype"):
        file.ops.lit(numbers(2), True)
    torchair.ge.declare_op("Lit", inputs=["x"], outputs=["y"], attrs={"count": "Int", "flag": "Bool"})
    assert file.ops.lit(numbers(2), True).tolist() == [0, 3]
    assert file.ops.lit(numbers(2), False).tolist() == [3]
    compare(lambda x: file.ops.lit(x, False), numbers(2), mode="npu")
    torchair.ge.declare_op("Lit", inputs=["x", "w"], outputs=["y"])
    with pytest.raises(PrototypeArgumentCountError, match="gives it 1 tensors and 2 other values"):
        file.ops.lit(numbers(2), True)


# --- kernels that are missing or wrong ---


def test_no_kernel(file) -> None:
    file.load(MY_OP.replace("aclnnMyOp", "aclnnNobodyHasIt"))
    with pytest.raises(MissingKernelError, match="and no kernel of NobodyHasIt is registered"):
        file.ops.my_op(numbers(2), None, [], 1.0, 2)


@pytest.mark.parametrize(
    ("result", "problem"),
    [
        (lambda x: x[0], "out has shape [3], its rule says [2, 3]"),
        (lambda x: x.double(), "out has dtype torch.float64, its rule says torch.float32"),
        (lambda x: (x, x), "it returned 2 results, there are to be 1"),
        (lambda x: None, "it returned 0 results, there are to be 1"),
        (lambda x: 5, "out is a int, not a tensor"),
        (lambda x: x.to("meta"), "out is on meta, its rule says cpu"),
    ],
)
def test_kernels_that_do_something_else(file, result, problem) -> None:
    file.load(MY_OP)
    torchair.ge.register_kernel("MyOp")(lambda x, y, z, *, attr1, attr2: result(x))
    with pytest.raises(OperatorContractError) as caught:
        file.ops.my_op(numbers(2, 3), None, [], 1.0, 2)
    assert problem in caught.value.why[0]
    assert caught.value.why[-1] == "rule of out: size: x, dtype: x"
    assert caught.value.where == ("op_plugin_functions.yaml:3",)


def test_rules_that_give_nothing_for_a_call(file) -> None:
    file.load(TWO)
    with pytest.raises(OutputRuleError, match="cannot be broadcast"):
        file.ops.two(numbers(2), numbers(3))
    with pytest.raises(OutputRuleError, match="cannot be broadcast"):
        file.ops.two(numbers(2).to("meta"), numbers(3).to("meta"))


# --- entries that cannot be used ---


def entry(func: str = "f(Tensor x) -> Tensor", **fields: str) -> str:
    given = {"op_api": "all_version", "size": "x", "dtype": "x", "exec": "aclnnF", "out": "out", **fields}
    size = f"size: '{given['size']}', " if given["size"] else ""
    dtype = f"dtype: '{given['dtype']}'" if given["dtype"] else ""
    return dedent(f"""
        - func: "{func}"
          op_api: {given["op_api"]}
          gen_opapi:
            {given["out"]}: {{{size}{dtype}}}
            exec: "{given["exec"]}"
    """)


@pytest.mark.parametrize(
    ("custom", "reason"),
    [
        (entry("f(Tensor x"), "expected )"),
        (entry("f(Tensor class) -> Tensor"), "expected ident"),
        (entry("aten::f(Tensor x) -> Tensor"), "one of PyTorch's own namespaces"),
        (entry("f(Tensor x) -> Tensor[]"), "result 0 is a list of tensors"),
        (entry("f(Tensor x) -> int"), "result 0 is no tensor"),
        (entry("f(Tensor(a) x) -> Tensor(a)"), "a view of an argument"),
        (entry("f(Tensor x) -> ()"), "returns nothing and writes nothing"),
        (entry("f(Tensor x, *, Tensor(a!) out) -> Tensor"), "results and arguments that results go into"),
        (entry(size="my_output_size(x)"), "the function 'my_output_size' is not known"),
        (entry(size="x.size(0"), "it ends too early"),
        (entry(size=""), "the output out has no size:"),
        (entry(dtype="", size=""), "the output out has no size: and no dtype:"),
        (entry(dtype="x.foo()"), "the method 'foo' is not known"),
        (entry(dtype="at::kFloat; system(1)"), "';' is not expected there"),
        (entry(out="result"), "has the outputs result; its outputs are out"),
        (entry("f(Tensor x) -> (Tensor, Tensor)"), "has the outputs out; its outputs are out0, out1"),
        (entry("f(Tensor(a!) x) -> ()"), "its outputs are none, since it returns nothing"),
        (entry(exec="MyOp"), "is no aclnn function"),
        (entry(exec="aclnnMy Op"), "is no aclnn function"),
        (entry(exec="aclnnF, x, __import__(x)"), "the function '__import__' is not known"),
        (entry(exec="aclnnF, x, y"), "'y', which is no argument"),
        (entry(exec="aclnnF, x, out, out"), "or one twice"),
        (entry(op_api="v2.1"), "does not hold for PyTorch"),
        (entry(op_api="[v2.1, v2.2]"), "op_api: v2.1, v2.2 does not hold"),
        ("- func: f(Tensor x) -> Tensor\n  op_api: all_version", "it has no gen_opapi:"),
        ("- func: f(Tensor x) -> Tensor\n  acl_op: all_version", "it has no op_api:"),
        ("- func: f(Tensor x) -> Tensor\n  op_api: all_version\n  gen_opapi: {out: {size: x}}", "has no exec:"),
        (
            "- func: f(Tensor x) -> Tensor\n  op_api: all_version\n  gen_opapi: {structured_inherit: g.out}",
            "the file has no entry 'g.out'",
        ),
        (
            "- func: f(Tensor x) -> Tensor\n  op_api: all_version\n  gen_opapi: {structured_inherit: f}",
            "f -> f is a circle",
        ),
        (entry().replace("exec:", "new_params: {x: '1'}\n    exec:"), "new_params: 'x' is an argument"),
        (entry().replace("exec:", "new_params: {class: '1'}\n    exec:"), "new_params: 'class' is a keyword"),
        (entry().replace("exec:", "new_params: {a: 'b + 1'}\n    exec:"), "'b', which is no argument"),
    ],
)
def test_entries_that_are_refused(file, custom, reason) -> None:
    found = file.refusal(custom)
    assert reason in found
    assert not hasattr(file.ops, "f")
    with pytest.raises(OperatorFileError, match="Entries of an operator file cannot be used"):
        file.report.require()


def test_all_problems_of_an_entry_at_once(file) -> None:
    found = file.refusal(entry(size="my_output_size(x)", dtype="b").replace('    exec: "aclnnF"\n', ""))
    assert "gen_opapi: has no exec:" in found
    assert "the function 'my_output_size' is not known" in found
    assert "'b', which is no argument" in found
    found = file.refusal(entry(size="", dtype="x.foo()", exec="aclnnF, y", op_api="v2.1"))
    for problem in ("does not hold for PyTorch", "has no size:", "method 'foo' is", "'y', which is no argument"):
        assert problem in found


def test_a_refused_entry_keeps_no_other_out(file, caplog) -> None:
    with caplog.at_level("WARNING", logger="torchair"):
        report = file.load(MY_OP + entry(size="secret(x)") + entry("g(Tensor x) -> Tensor"))
    assert [(e.operator.partition("::")[2], e.status, e.line) for e in report.entries] == [
        ("my_op", "registered", 3),
        ("f", "refused", 11),
        ("g", "registered", 17),
    ]
    assert "f is not registered: 'secret(x)' is to give a size" in caplog.text
    assert "secret" in str(report)


def test_two_entries_of_one_name(file) -> None:
    report = file.load(entry() + entry("f(Tensor x, Tensor y) -> Tensor"))
    assert [e.status for e in report.entries] == ["registered", "refused"]
    assert report.entries[1].reason == "line 3 defines it"


@pytest.mark.parametrize(
    ("op_api", "all_version", "holds"),
    [
        ("all_version", "[v1.11, v2.1]", True),
        ("v1.11, v2.1", "[v1.11, v2.1]", True),
        ("v1.11", "[v1.11, v2.1]", False),
        ("[v1.11, newest]", "[v1.11, v2.1]", True),
        ("[v1.11, v2.1]", "[v1.11, v2.1]", True),
        ("[v1.11, v2.0]", "[v1.11, v2.0, v2.1]", False),
        ("[v99.0, newest]", "[v1.11, v2.1]", False),
        ("newest", "[v1.11, v2.1]", True),
        ("[v2.0, v99.9]", "[v1.11, v99.9]", True),
        ("nonsense", "[v1.11, v2.1]", False),
    ],
)
def test_versions(file, op_api, all_version, holds) -> None:
    report = file.load(entry(op_api=op_api), f"all_version: {all_version}")
    assert bool(report.registered) is holds


def test_groups_that_are_not_handled(file) -> None:
    report = file.load(
        MY_OP,
        """
        official:
          - func: abs(Tensor self) -> Tensor
            op_api: all_version
        symint:
          - func: zeros(SymInt[] size) -> Tensor
            acl_op: [v2.1, newest]
        quantized:
          - anything
        """,
    )
    assert [(e.operator, e.group, e.status) for e in report.entries[1:]] == [
        ("abs", "official", "not handled"),
        ("zeros", "symint", "not handled"),
        ("quantized:", "quantized", "not handled"),
    ]
    report.require()  # nothing was refused


# --- loading again, clashes ---


def test_loading_twice_takes_the_rules_as_they_are_now(file) -> None:
    file.load(MY_OP)
    operator = file.ops.my_op.default
    assert file.load(MY_OP).registered == (f"{file.namespace}::my_op",)
    assert file.ops.my_op.default is operator
    torchair.ge.register_kernel("MyOther")(lambda x, y, z, *, attr1, attr2: x.double())
    file.load(MY_OP.replace("dtype: x", "dtype: at::kDouble").replace("aclnnMyOp", "aclnnMyOther"))
    assert file.ops.my_op(numbers(2), None, [], 1.0, 2).dtype is torch.float64
    assert file.ops.my_op(numbers(2).to("meta"), None, [], 1.0, 2).dtype is torch.float64
    compare(lambda x: file.ops.my_op(x, None, [], 1.0, 2), numbers(2), mode="npu")


def test_another_schema(file) -> None:
    file.load(MY_OP)
    with pytest.raises(OperatorClashError) as caught:
        file.load(entry("g(Tensor x) -> Tensor") + MY_OP.replace("int attr2", "float attr2"))
    assert isinstance(caught.value, ValueError)
    assert not hasattr(file.ops, "g")  # nothing of such a file
    assert adaptation_of(f"{file.namespace}::my_op") is not None


def test_an_operator_that_somebody_defined(file) -> None:
    library = torch.library.Library(file.namespace, "DEF")
    library.define("f(Tensor x) -> Tensor")
    library.define("g(Tensor x) -> Tensor")
    library.impl("g", lambda x: x + 7, "CPU")
    report = file.load(entry() + entry("g(Tensor x) -> Tensor", exec="aclnnG"))
    assert report.entries[1].reason == "it was defined before, and keeps its own kernel"
    torchair.ge.register_kernel("F")(lambda x: x + 1)
    assert file.ops.f(numbers(2)).tolist() == [1, 2]
    assert file.ops.g(numbers(2)).tolist() == [7, 8]
    assert file.ops.f(numbers(2).to("meta")).shape == (2,)


def test_a_converter_of_the_user_stays(file) -> None:
    file.load(entry(exec="aclnnRenamed"))
    overload = file.ops.f.default
    assert converters.get(overload) is not None
    mine = torchair.register_fx_node_ge_converter(overload)(lambda x: torchair.ge.Neg(x))
    file.load(entry(exec="aclnnRenamed"))
    assert converters.get(overload) is mine
    torch._dynamo.reset()
    assert torch.compile(lambda x: file.ops.f(x), backend=backend("npu"), fullgraph=True)(numbers(2)).tolist() == [
        0,
        -1,
    ]


# --- malformed files ---

MALFORMED: list[tuple[str, str, str]] = [
    ("empty", "", "line 1: the file is a mapping, not nothing"),
    ("list", "- a", "line 1: the file is a mapping, not a list"),
    ("no groups", "{}", "the file has no group custom:"),
    ("syntax", "custom: [", "line 2, column 1: "),
    ("tab", "custom:\n\t- a", "line 2, column 1: "),
    ("tag", "custom: !!python/object/apply:os.system ['true']", "line 1: tags are not allowed"),
    ("own tag", "custom: !x []", "line 1: tags are not allowed (!x)"),
    ("tag directive", "%TAG ! tag:x,2000:\n---\ncustom: []", "tags are not allowed (%TAG)"),
    ("anchor", "custom: &a []", "line 1: anchors are not allowed (&a)"),
    ("alias", "a: &a [1]\nb: *a", "line 1: anchors are not allowed"),
    ("unknown alias", "b: *a", "are not allowed (*a)"),
    ("bomb", "a: &a [x,x]\nb: &b [*a,*a]\nc: &c [*b,*b]", "anchors are not allowed"),
    ("documents", "custom: []\n---\ncustom: []", "line 2: a second document begins"),
    ("deep", "custom: " + "[" * 50 + "]" * 50, "nested more than 20 deep"),
    ("deep blocks", "\n".join("  " * i + "a:" for i in range(40)), "nested more than 20 deep"),
    ("very deep", "custom: " + "[" * 100_000, "line 1"),
    ("key twice", "custom: []\ncustom: []", "line 2: the key 'custom' is there twice, first in line 1"),
    ("key no text", "[a]: b", "line 1: a key is a text"),
    ("null key", "~: b", "line 1: a key is a text"),
    ("misspelt group", "custm: []", "no group is called 'custm'; did you mean 'custom'?"),
    ("group no list", "custom: {a: b}", "line 1: custom: is a list of entries, not a mapping"),
    ("entry no mapping", "custom: [a]", "line 1: an entry is a mapping, not a text"),
    ("no func", "custom: [{op_api: all_version}]", "line 1: an entry has no func:"),
    ("func no text", "custom: [{func: []}]", "line 1: func is a text, not a list"),
    ("misspelt field", "custom: [{func: f, genopapi: {}}]", "no field is called 'genopapi'; did you mean 'gen_opapi'?"),
    ("gen_opapi", "custom: [{func: f, gen_opapi: x}]", "gen_opapi is a mapping, not a text"),
    ("exec", "custom: [{func: f, gen_opapi: {exec: [a]}}]", "exec is a text, not a list"),
    ("new_params", "custom: [{func: f, gen_opapi: {new_params: [a]}}]", "new_params is a mapping, not a list"),
    ("output", "custom: [{func: f, gen_opapi: {out: x}}]", "no field is called 'out'; known are exec"),
    ("output field", "custom: [{func: f, gen_opapi: {out: {sizes: x}}}]", "'sizes'; did you mean 'size'?"),
    ("size", "custom: [{func: f, gen_opapi: {out: {size: [4]}}}]", "size is a text, not a list"),
    (
        "size in braces",
        "custom:\n- {func: f, gen_opapi: {out: {size: {4, 5}}}}",
        "size is a text, not a mapping; put '{...}' in quotes",
    ),
    ("op_api", "custom: [{func: f, op_api: {a: b}}]", "op_api is a text or a list of texts, not a mapping"),
    ("all_version", "all_version: {a: b}", "all_version is a text or a list of texts, not a mapping"),
    ("control character", "custom: \x01", "characters are not allowed"),
]


@pytest.mark.parametrize(("text", "problem"), [case[1:] for case in MALFORMED], ids=[case[0] for case in MALFORMED])
def test_malformed_files(tmp_path, text, problem) -> None:
    path = tmp_path / "op_plugin_functions.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(OperatorFileError) as caught:
        load_op_plugin_yaml(path, namespace="yaml_test_malformed")
    assert any(problem in line for line in caught.value.why), caught.value
    assert caught.value.where == (str(path),)


def test_all_problems_of_a_file_at_once(tmp_path) -> None:
    path = tmp_path / "op_plugin_functions.yaml"
    path.write_text("custom:\n- a\n- {op_api: x}\n- func: f\n  gen_opapi: {out: x, exec: []}\n")
    with pytest.raises(OperatorFileError) as caught:
        load_op_plugin_yaml(path, namespace="yaml_test_malformed")
    assert [line.partition(":")[0] for line in caught.value.why] == ["line 2", "line 3", "line 5", "line 5"]


def test_files_that_are_not_there(tmp_path) -> None:
    with pytest.raises(OperatorFileNotFoundError):
        load_op_plugin_yaml(tmp_path / "none.yaml")
    with pytest.raises(OperatorFileError, match="not a regular file"):
        load_op_plugin_yaml(tmp_path)


@pytest.mark.parametrize("namespace", ["aten", "a b", "../x", "", "class", None, "x::y", "prims"])
def test_namespaces_that_are_refused(tmp_path, namespace) -> None:
    path = tmp_path / "op_plugin_functions.yaml"
    path.write_text("custom: []")
    with pytest.raises(ArgumentError, match="Operators cannot be defined in this namespace"):
        load_op_plugin_yaml(path, namespace)


def test_an_empty_group(file) -> None:
    assert file.load("").entries == ()
    assert str(file.report) == str(file.path)


def test_errors_are_typed(file) -> None:
    assert issubclass(OperatorClashError, TorchAirError)
    assert issubclass(OutputRuleError, ValueError)
