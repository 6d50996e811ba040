"""``torchair.check_operator``: one row for each deliverable."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch
from expecttest import assert_expected_inline
from torch import Tensor

import torchair
import torchair.ops
import torchair.scope
from tests.custom_operators import define, ops
from tests.ge.building import declared
from torchair import ge
from torchair.contracts import check_call
from torchair.convert import converters
from torchair.customop import check_operator_with
from torchair.errors import ArgumentTypeError
from torchair.opset.kernels import kernels


def numbers(*shape: int) -> Tensor:
    return torch.arange(float(torch.Size(shape).numel())).reshape(shape)


def like(x: Tensor, *_) -> Tensor:
    return torch.empty_like(x)


def statuses(report) -> dict[str, str]:
    return {row.deliverable: row.status for row in report.rows}


def row(report, deliverable: str):
    (found,) = [r for r in report.rows if r.deliverable == deliverable]
    return found


READY = {
    "schema": "pass",
    "eager kernel (cpu)": "pass",
    "meta function": "pass",
    "functionalization": "not needed",
    "autograd": "not needed",
    "IR prototype": "not needed",
    "converter": "not needed",
    "kernel of the IR operator": "not needed",
    "agreement of the modes": "pass",
}


def test_an_operator_that_is_ready() -> None:
    report = torchair.check_operator(ops.my_op, numbers(2, 3), None, [numbers(2, 3)], 0.5, 2)
    found = statuses(report)
    found.pop("eager kernel (cuda)", None)
    assert found == READY
    assert report.ok
    assert "MyOp(x, y?, z[]; attr1: Float, attr2: Int) -> (out0)" in row(report, "IR prototype").why


def test_an_operator_in_place_that_is_ready() -> None:
    x = numbers(2, 3)
    report = torchair.check_operator(ops.my_inplace, x, numbers(2, 3))
    assert statuses(report)["functionalization"] == "pass"
    assert report.ok
    assert torch.equal(x, numbers(2, 3))  # the sample is not changed


@pytest.mark.parametrize(
    "op",
    [ops.my_inplace, ops.my_inplace.default, "custom_operators::my_inplace", "custom_operators::my_inplace.default"],
)
def test_ways_to_name_an_operator(op) -> None:
    assert torchair.check_operator(op).operator == str(ops.my_inplace.default._schema)


def test_operators_of_torch_library() -> None:
    @torch.library.custom_op("custom_operators_check::doubled", mutates_args=())
    def doubled(x: Tensor) -> Tensor:
        return x * 2

    report = torchair.check_operator(doubled, numbers(3))
    assert statuses(report)["meta function"] == "missing"
    doubled.register_fake(like)
    assert torchair.check_operator(doubled, numbers(3)).ok


@pytest.mark.parametrize(
    ("op", "words"),
    [
        (torch.ops.aten.add, "aten.add has the overloads Tensor"),
        (torch.add, "is a builtin_function_or_method"),
        ("custom_operators::no_such_thing", "no operator 'custom_operators::no_such_thing' is defined"),
        ("my_inplace", "no operator 'my_inplace' is defined"),
        ("custom_operators::my_inplace.out", "has no overload 'out'"),
        (3, "3 is a int"),
    ],
)
def test_what_is_no_operator(op, words) -> None:
    with pytest.raises(TypeError, match="check_operator takes one operator overload") as caught:
        torchair.check_operator(op)
    assert isinstance(caught.value, ArgumentTypeError)
    assert words in str(caught.value)


def test_without_sample_arguments() -> None:
    report = torchair.check_operator(ops.two)
    assert report.ok
    assert row(report, "meta function").why.startswith("agrees with the kernel on ")
    assert row(report, "agreement of the modes").why.startswith(
        "eager, npugraph_ex and GE mode give the same results in "
    )
    assert report.tried[0].startswith("checked with ")
    assert "(generated from the schema): plain, other sizes, transposed tensors, empty tensors" in report.tried[0]
    assert str(report).endswith("\n  ready for graph mode")


def test_without_arguments_that_could_be_generated() -> None:
    report = torchair.check_operator(ops.check_strange)
    assert row(report, "agreement of the modes").status == "not needed"
    assert "no value is known for the argument 'g' (of type Generator)" in row(report, "agreement of the modes").why
    assert row(report, "meta function").why == "not compared with the kernel, which did not run"


define("check_strange(Tensor x, Generator g) -> Tensor", lambda x, g: x + 1, lambda x, g: like(x))
define("check_no_kernel(Tensor x, int n) -> Tensor", None, lambda x, n: like(x))
define("check_no_meta(Tensor x) -> Tensor", lambda x: x + 1)
define("check_wrong_meta(Tensor x) -> Tensor", lambda x: x.sum(0), like)
define("check_writes(Tensor x) -> Tensor", lambda x: x.add_(1) * 2, like)
define("check_returns(Tensor(a!) x) -> Tensor(a!)", lambda x: x.add_(1), lambda x: x)
define("check_lists(Tensor(a!) x) -> Tensor[]", lambda x: [x.add_(1) * 2], lambda x: [like(x)])
define("check_raises(Tensor x) -> Tensor", lambda x: x.nothing, like)
define("check_late_tensor(float f, Tensor x) -> Tensor", lambda f, x: x * f, lambda f, x: like(x))
define("sub(Tensor x, Tensor y) -> Tensor", lambda x, y: x + y, lambda x, y: like(x))


@pytest.mark.parametrize(
    ("op", "args", "deliverable", "status", "why", "fix"),
    [
        (ops.check_no_kernel, (numbers(3), 2), "eager kernel (cpu)", "missing", "no kernel of", "def _(x, n):"),
        (
            ops.check_no_meta,
            (numbers(3),),
            "meta function",
            "missing",
            "nothing tells the shapes",
            '@torch.library.register_fake("custom_operators::check_no_meta")',
        ),
        (
            ops.check_wrong_meta,
            (numbers(2, 3),),
            "meta function",
            "wrong",
            "result 0 has shape [3], its fake kernel promises [2, 3]",
            "Correct the kernel, or its fake kernel.",
        ),
        (
            ops.check_writes,
            (numbers(3),),
            "schema",
            "wrong",
            "it writes the argument 'x', and its schema does not say so: Tensor(a!)",
            "Mark what the kernel writes",
        ),
        (ops.check_returns, (), "schema", "wrong", "an operator must not return what it writes", "Return nothing"),
        (ops.check_returns, (), "functionalization", "wrong", "see the schema", ""),
        (ops.check_lists, (), "schema", "wrong", "result 0 is of type List[Tensor]", "Return tensors one by one"),
        (
            ops.check_raises,
            (numbers(3),),
            "eager kernel (cpu)",
            "wrong",
            "it raised AttributeError",
            "Check the sample",
        ),
        (ops.check_late_tensor, (), "schema", "pass", "tensors do not all stand before other arguments", ""),
        (ops.scaled, (), "converter", "missing", "argument 'factor' is of type Scalar", "def convert_scaled"),
        (ops.sub, (numbers(3), numbers(3)), "agreement of the modes", "wrong", "result 0 differs", "Compare"),
    ],
)
def test_rows_that_tell_what_is_to_be_done(op, args, deliverable, status, why, fix) -> None:
    report = torchair.check_operator(op, *args)
    found = row(report, deliverable)
    assert (found.status, why in found.why, fix in found.fix) == (status, True, True), found
    assert report.ok == (status == "pass")


def test_a_declared_prototype() -> None:
    with declared(lambda: ge.declare_op("MyOp", inputs=["x"], outputs=["y"])):
        report = torchair.check_operator(ops.my_op, numbers(3), None, [], 0.5, 2)
        assert row(report, "IR prototype").status == "wrong"
        assert "it has 3 tensor arguments (x, y, z), MyOp has 1 input (x)" in row(report, "IR prototype").why
        assert row(report, "converter").status == "missing"
        assert "AutoConversionError" not in str(report)
    with declared(lambda: ge.declare_op("Two", inputs=["x"], outputs=["a", "b"])):
        ge.register_kernel("Two")(lambda x: (x + 1, x.sum(-1)))
        try:
            report = torchair.check_operator(ops.two, numbers(2, 3))
        finally:
            kernels.forget("Two")
        assert row(report, "IR prototype").why == "Two(x) -> (a, b), declared"
        assert row(report, "kernel of the IR operator").why == "Two has a kernel of its own"
        assert report.ok


def test_a_kernel_that_disagrees() -> None:
    ge.register_kernel("Two")(lambda x: (x + 2, x.sum(-1)))
    try:
        report = torchair.check_operator(ops.two, numbers(2, 3))
    finally:
        kernels.forget("Two")
    assert row(report, "agreement of the modes").status == "wrong"
    assert "result 0 differs between GE mode and eager mode" in row(report, "agreement of the modes").why


def test_one_error_is_told_once() -> None:
    report = torchair.check_operator(ops.check_raises, numbers(3))
    assert str(report).count("has no attribute 'nothing'") == 1
    assert row(report, "agreement of the modes").why == "not checked: first mend eager kernel (cpu)"
    with declared(lambda: ge.declare_op("MyOp", inputs=["x"], outputs=["y"])):
        assert str(torchair.check_operator(ops.my_op, numbers(3), None, [], 0.5, 2)).count("it has 3 tensor arg") == 1


def test_a_kernel_that_is_missing_is_told_in_a_few_lines() -> None:
    report = torchair.check_operator(ops.check_no_kernel, numbers(3), 2)
    assert len(str(report).splitlines()) < 25
    assert "Could not run" not in str(report)


def test_a_kernel_of_the_ascend_ir_operator_counts() -> None:
    ge.register_kernel("CheckNoKernel")(lambda x, *, n: x + n)
    try:
        report = torchair.check_operator(ops.check_no_kernel, numbers(3), 2)
    finally:
        kernels.forget("CheckNoKernel")
    assert row(report, "eager kernel (cpu)").status == "not needed"
    assert "CheckNoKernel has a kernel of its own" in row(report, "eager kernel (cpu)").why
    assert row(report, "agreement of the modes").why == "not checked: there is no eager kernel to compare with"
    assert str(report).endswith("whether the results are right was not checked")


@pytest.mark.parametrize(
    ("args", "kwargs", "why"),
    [
        ((numbers(3), None, []), {}, "the sample argument 'attr1' (float), 'attr2' (int) is missing"),
        ((numbers(3), None, [], 0.5), {}, "the sample argument 'attr2' (int) is missing"),
        ((numbers(3), None, [], 0.5, 2, 3), {}, "6 sample arguments were given by position, the operator takes 5"),
        ((numbers(3), None, [], 0.5), {"attr3": 2}, "the operator has no argument 'attr3'"),
    ],
)
def test_sample_arguments_that_do_not_fit(args, kwargs, why) -> None:
    report = torchair.check_operator(ops.my_op, *args, **kwargs)
    assert row(report, "agreement of the modes").why == f"not checked: {why}"
    assert statuses(report)["eager kernel (cpu)"] == "pass"
    assert not report.ok


define(
    "check_writes_two(Tensor x, Tensor(a) y, Tensor[] z) -> Tensor",
    lambda x, y, z: (x.add_(1), z[0].add_(1), y * 2)[2],
    lambda x, y, z: like(y),
)


def test_the_schema_that_says_what_is_written() -> None:
    report = torchair.check_operator(ops.check_writes, numbers(3))
    assert 'torch.library.define("custom_operators::check_writes", "(Tensor(a!) x) -> Tensor")' in str(report)
    report = torchair.check_operator(ops.check_writes_two, numbers(3), numbers(3), [numbers(3)])
    assert '"(Tensor(b!) x, Tensor(a) y, Tensor(c!)[] z) -> Tensor")' in str(report)


def test_a_converter() -> None:
    @torchair.register_fx_node_ge_converter(ops.scaled.default)
    def convert_scaled(x, factor):
        return ge.Mul(x, factor)

    try:
        report = torchair.check_operator(ops.scaled, numbers(3), 2.5)
    finally:
        converters.forget(ops.scaled.default)
    assert row(report, "converter").why == "registered: convert_scaled"
    assert row(report, "IR prototype").why == "a converter chooses the IR operator"
    assert report.ok
    assert row(torchair.check_operator(torch.ops.aten.sin.default), "converter").why == "built-in"


def test_nothing_is_left_behind() -> None:
    """No compile of the user's is dropped, and the next one works."""
    compiled = torch.compile(lambda x: ops.two(x), backend=torchair.get_npu_backend(), fullgraph=True)
    torchair.check_operator(ops.check_no_meta, numbers(3))
    torchair.check_operator(ops.check_raises, numbers(3))
    with torch.no_grad():
        assert len(compiled(numbers(2, 3))) == 2


define("check_prints(int n) -> int", lambda n: n)


def test_it_prints_well() -> None:
    report = torchair.check_operator(ops.check_no_kernel)
    text = "\n".join(line for line in str(report).splitlines() if "eager kernel (cuda)" not in line)
    assert_expected_inline(
        text,
        """\
custom_operators::check_no_kernel(Tensor x, int n) -> Tensor
  schema                     pass
  eager kernel (cpu)         missing     no kernel of custom_operators::check_no_kernel is registered for CPU

      @torch.library.impl("custom_operators::check_no_kernel", "CPU")
      def _(x, n):
          ...

  meta function              pass        not compared with the kernel, which did not run
  functionalization          not needed  it writes no argument
  autograd                   not needed  no formula is registered: for inference; gradients do not flow through it
  IR prototype               not needed  No AscendIR CheckNoKernel was found to be registered.
                                         here it is derived: CheckNoKernel(x; n: Int) -> (out0)
                                         a device needs one (torchair.ge.declare_op); so does require_prototype
  converter                  not needed  the operator is converted automatically
  kernel of the IR operator  missing     neither CheckNoKernel nor the torch operator has a kernel on this machine

      @torchair.ge.register_kernel("CheckNoKernel")
      def kernel(x, n):
          ...

  agreement of the modes     not needed  not checked: there is no eager kernel to compare with
  not ready for graph mode""",
    )


def test_it_is_data() -> None:
    report = torchair.check_operator(ops.check_no_meta)
    data = json.loads(json.dumps(report.as_json()))
    assert data["operator"] == "custom_operators::check_no_meta(Tensor x) -> Tensor"
    assert data["ok"] is False
    assert [r["deliverable"] for r in data["rows"]] == [r.deliverable for r in report.rows]
    assert data["rows"][2]["status"] == "missing"
    assert data["tried"] == list(report.tried)


def test_a_guessed_meta_function() -> None:
    fix = row(torchair.check_operator(ops.check_no_meta), "meta function").fix
    assert fix.startswith("# A guess: it agrees with the kernel in ")
    assert fix.endswith("""
# Check it, then keep it.
@torch.library.register_fake("custom_operators::check_no_meta")
def _(x):
    return torch.empty_like(x)""")


def joined(xs: list[Tensor]) -> Tensor:
    return torch.cat(xs).contiguous()


GUESSES: list[tuple[str, Any, str]] = [
    ("guess_mm(Tensor x, Tensor y) -> Tensor", lambda x, y: torch.mm(x, y).contiguous(),
     "x.new_empty((*x.shape[:-1], *y.shape[1:]))"),
    ("guess_linear(Tensor x, Tensor w, Tensor? b=None) -> Tensor",
     lambda x, w, b=None: torch.nn.functional.linear(x, w, b).contiguous(), "x.new_empty((*x.shape[:-1], w.shape[0]))"),
    ("guess_cat(Tensor[] xs) -> Tensor", joined, "xs[0].new_empty((sum(t.shape[0] for t in xs), *xs[0].shape[1:]))"),
    ("guess_broadcast(Tensor x, Tensor y) -> Tensor", lambda x, y: (x + y).contiguous(),
     "x.new_empty(torch.broadcast_shapes(x.shape, y.shape))"),
    ("guess_compare(Tensor x, Tensor y) -> Tensor", lambda x, y: (x > y).contiguous(),
     "x.new_empty(torch.broadcast_shapes(x.shape, y.shape), dtype=torch.bool)"),
    ("guess_repeat(Tensor x, int n) -> Tensor", lambda x, n: x.flatten().repeat(n), "x.new_empty((x.numel() * n,))"),
    ("guess_list(Tensor x, int n) -> Tensor[]", lambda x, n: [x * i for i in range(n)],
     "[torch.empty_like(x) for _ in range(n)]"),
    ("guess_like_list(Tensor[] xs) -> Tensor[]", lambda xs: [x * 1 for x in xs], "[torch.empty_like(t) for t in xs]"),
    ("guess_rows(Tensor table, Tensor rows) -> Tensor", lambda table, rows: table[rows].contiguous(),
     "table.new_empty((*rows.shape, *table.shape[1:]))"),
    ("guess_two(Tensor x) -> (Tensor, Tensor)", lambda x: tuple(t.contiguous() for t in x.max(-1)),
     "x.new_empty(x.shape[:-1]), x.new_empty(x.shape[:-1], dtype=torch.int64)"),
    ("guess_sized(Tensor x, int[] size) -> Tensor", lambda x, size: x.new_ones(size), "x.new_empty(size)"),
    ("guess_dtype(Tensor x, ScalarType dtype) -> Tensor", lambda x, dtype: x.to(dtype, copy=True).contiguous(),
     "x.new_empty(x.shape, dtype=dtype)"),
]  # fmt: skip

for schema, kernel, _ in GUESSES:
    define(schema, kernel)


@pytest.mark.parametrize(
    ("schema", "body"), [(g[0], g[2]) for g in GUESSES], ids=[g[0].partition("(")[0] for g in GUESSES]
)
def test_guesses_are_right(schema: str, body: str) -> None:
    name = schema.partition("(")[0]
    fix = row(torchair.check_operator(getattr(ops, name)), "meta function").fix
    assert fix.endswith(f"    return {body}"), fix
    names: dict[str, Any] = {"torch": torch}
    exec(fix, names)  # what the author pastes
    assert torchair.check_operator(getattr(ops, name)).ok


def roi_mean(x: Tensor, rois: Tensor, scale: float, h: int, w: int) -> Tensor:
    if x.dim() != 4 or rois.dim() != 2 or rois.size(1) != 5:
        raise RuntimeError("x must be [N, C, H, W], rois [K, 5]")
    means = x.mean((2, 3))[rois[:, 0].long()] * scale
    return means[:, :, None, None].expand(-1, -1, h, w).contiguous()


def scaled_rows(x: Tensor, rows: Tensor) -> Tensor:
    if x.size(0) != rows.size(0):
        raise RuntimeError("x and rows must have as many rows")
    return torch.zeros(x.size(0), 7)


define("guess_roi(Tensor x, Tensor rois, float scale, int h, int w) -> Tensor", roi_mean)
define("guess_tie(Tensor x, Tensor rows) -> Tensor", scaled_rows)


def test_sizes_that_are_equal_in_the_sample_are_told_apart() -> None:
    rois = torch.zeros(3, 5)
    fix = row(torchair.check_operator(ops.guess_roi, numbers(3, 3, 8, 8), rois, 0.5, 2, 2), "meta function").fix
    assert fix.endswith("    return x.new_empty((rois.shape[0], x.shape[1], h, w))"), fix
    assert "Choose" not in fix


def test_rules_that_both_fit_are_both_told() -> None:
    fix = row(torchair.check_operator(ops.guess_tie, numbers(3, 4), numbers(3, 2)), "meta function").fix
    assert "# Result 0, dimension 0: x.shape[0] and rows.shape[0] both fit. Choose the one that is meant.\n" in fix
    assert fix.endswith("    return x.new_empty((x.shape[0], 7))"), fix


def test_no_guess_where_nothing_holds() -> None:
    """The number of results of a filter is not to be told from the arguments' types."""
    fix = row(torchair.check_operator(ops.check_filter), "meta function").fix
    assert "guess" not in fix
    assert fix.endswith("# the shapes and dtypes of the results")


define("check_filter(Tensor x) -> Tensor", lambda x: x[x > 1])


def test_several_samples() -> None:
    calls = [
        ((numbers(2, 3), None, [], 0.5, 2), {}),
        ((numbers(4), numbers(4), [numbers(4)]), {"attr1": 1.0, "attr2": 3}),
    ]
    report = check_operator_with(ops.my_op, calls)
    assert report.ok
    assert report.tried[0].startswith("checked with ")
    assert "the sample and variants of it" in report.tried[0]


def test_a_sample_is_tried_at_other_sizes_and_strides() -> None:
    """The meta function is right for the sample itself."""
    report = torchair.check_operator(ops.check_fixed, numbers(2, 3))
    assert row(report, "meta function").status == "wrong"
    assert "result 0 has shape [5, 7], its fake kernel promises [2, 3]" in row(report, "meta function").why


define("check_fixed(Tensor x) -> Tensor", lambda x: x + 1, lambda x: x.new_empty(2, 3))


def ring_append(buffer: Tensor, rows: Tensor) -> Tensor:
    if rows.size(0) > 4 or not rows.is_contiguous():
        raise RuntimeError(f"rows must fit into buffer, got {rows.size(0)}")
    return buffer + rows.sum()


define("check_ring(Tensor buffer, Tensor rows) -> Tensor", ring_append, like)


def test_only_the_sample_itself_has_to_be_taken() -> None:
    """Of the calls made of it the kernel may refuse some, by size or by strides."""
    report = torchair.check_operator(ops.check_ring, numbers(4, 2), numbers(4, 2))
    assert row(report, "eager kernel (cpu)").status == "pass", report
    assert any("the kernel refused" in line and "rows must fit into buffer, got 7" in line for line in report.tried)
    calls: list[Any] = [((numbers(4, 2), numbers(4, 2)), {}), ((numbers(4, 2), numbers(6, 2)), {})]
    wrong = row(check_operator_with(ops.check_ring, calls), "eager kernel (cpu)")
    assert (wrong.status, wrong.why) == ("wrong", "it raised RuntimeError: rows must fit into buffer, got 6")


def test_a_sample_that_is_not_contiguous() -> None:
    """Graphs for symbolic sizes are called with tensors like those that they were compiled for."""
    report = torchair.check_operator(ops.check_doubled, numbers(3, 4).t())
    assert report.ok, report
    assert "with symbolic sizes" in row(report, "agreement of the modes").why


define("check_doubled(Tensor x) -> Tensor", lambda x: x.contiguous() * 2, lambda x: x.new_empty(x.shape))


def test_arguments_keep_their_memory_and_views() -> None:
    base = numbers(4, 3)
    before = base.clone()
    report = torchair.check_operator(ops.exchange, base[:2], base[2:].requires_grad_(False))
    assert report.ok
    assert torch.equal(base, before)


@pytest.mark.parametrize(
    ("op", "args"),
    [
        (ops.my_op, (numbers(2, 3), None, [numbers(2, 3)], 0.5, 2)),
        (ops.my_op, (numbers(2, 3), numbers(2, 3), [], 0.5, 2)),
        (ops.my_inplace, (numbers(2, 3), numbers(2, 3))),
        (ops.accumulate, (numbers(2, 3), numbers(2, 3))),
        (ops.exchange, (numbers(2, 3), numbers(2, 3))),
        (ops.fill_all, ([numbers(2), numbers(3)], 1.5)),
        (ops.write_some, (None, numbers(3), [numbers(3)])),
        (ops.two, (numbers(2, 3),)),
        (ops.pieces, (numbers(2, 3), 3)),
        (ops.mixed, (numbers(2, 3), 2)),
        (ops.positive, (numbers(2, 3) - 2,)),
        (ops.attributes, (numbers(2), 1, 2.0, True, "a", [1], [1.0], [True])),
        (ops.placed, (numbers(2), torch.float64)),
        (ops.scaled, (numbers(2), 2.5)),
        (ops.sized, (numbers(2), 3, [2, 2])),
        (ops.gathered, ([numbers(2), None], None)),
    ],
)
def test_the_operators_of_the_tests_are_correct(op, args) -> None:
    """PyTorch's own check of custom operators, on every example."""
    torch.library.opcheck(op.default, args)
    if op not in (ops.scaled, ops.positive, ops.gathered):
        assert torchair.check_operator(op, *args).ok


@pytest.mark.parametrize(
    ("op", "args"),
    [
        ("wait_tensor", (numbers(2, 3), numbers(2))),
        ("wait_tensor", (numbers(2, 3).requires_grad_(), numbers(2))),
        ("string_format", ([numbers(2, 3), numbers(9)], "a {} b {}", "{}", 2)),
        ("string_format", ([numbers(2, 3)], "{}", "{}", -1)),
    ],
)
def test_our_own_operators_are_correct(op, args) -> None:
    overload = getattr(torch.ops.air, op).default
    torch.library.opcheck(overload, args)
    assert check_call(overload, args, {}).problems == ()


def test_a_kernel_that_ends_the_process() -> None:
    library = torch.library.Library("check_exit", "DEF")
    library.define("leave(Tensor x) -> Tensor")

    def kernel(x: torch.Tensor) -> torch.Tensor:
        raise leaving

    library.impl("leave", kernel, "CPU")
    library.impl("leave", torch.empty_like, "Meta")
    leaving: BaseException = SystemExit(3)
    report = torchair.check_operator("check_exit::leave", torch.ones(2))
    row = next(row for row in report.rows if row.deliverable == "eager kernel (cpu)")
    assert (row.status, row.why) == ("wrong", "it raised ExitError: SystemExit(3) ends the process")
    assert not report.ok
    leaving = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        torchair.check_operator("check_exit::leave", torch.ones(2))
