"""Operators with one fault each: ``check_operator`` finds it, in the row it belongs to, and says what it is."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor

import torchair
from tests.custom_operators import define, ops
from torchair import _torch_compat, ge
from torchair.convert import converters
from torchair.customop import OperatorReport
from torchair.customop.kernel_rows import kernel_rows
from torchair.customop.observe import observe
from torchair.opset.kernels import kernels
from torchair.opset.prototype import prototypes

KERNEL = "eager kernel (cpu)"
META = "meta function"
PROTOTYPE = "IR prototype"
IR_KERNEL = "kernel of the IR operator"
AGREEMENT = "agreement of the modes"


def like(x: Tensor, *_: Any, **__: Any) -> Tensor:
    return torch.empty_like(x)


def row(report: OperatorReport, deliverable: str) -> Any:
    (found,) = [r for r in report.rows if r.deliverable == deliverable]
    return found


# --- faults of kernel, meta function and schema: an operator each ---


def _reading(x: Tensor) -> Tensor:
    return x.new_empty(int(x.sum().item()) * 0 + x.shape[0])


_REAL = torch.zeros(2, 3)


class _Counting:
    """Adds the number of the call."""

    calls = 0

    def __call__(self, x: Tensor) -> Tensor:
        self.calls += 1
        return x + self.calls


class _Caching:
    """Returns the same memory each time."""

    memory: Tensor | None = None

    def __call__(self, x: Tensor) -> Tensor:
        if self.memory is None or self.memory.shape != x.shape or self.memory.dtype != x.dtype:
            self.memory = torch.empty_like(x, memory_format=torch.contiguous_format)
        torch.add(x, 1, out=self.memory)
        return self.memory


def _partly(x: Tensor) -> Tensor:
    out = torch.empty(x.shape, dtype=x.dtype)
    out[..., 1:] = x[..., 1:]
    return out


def _whole(x: Tensor) -> Tensor:
    out = torch.empty(x.shape, dtype=x.dtype)
    out.copy_(x + 1)
    return out


def _ignoring_strides(x: Tensor) -> Tensor:
    return torch.as_strided(x, x.shape, torch.empty(x.shape, device="meta").stride()) + 1


def _needs_flat(x: Tensor) -> Tensor:
    return x.view(-1).add(1).view(x.shape)


def _divides_by_size(x: Tensor) -> Tensor:
    return x * (6 // x.numel() + 1) * 1.0


def _says_empty(x: Tensor) -> Tensor:
    if x.numel() == 0:
        raise ValueError("x must not be empty")
    return x + 1


_META = torch.library.Library("custom_operators", "IMPL", "Meta")


@dataclass(frozen=True)
class Fault:
    """An operator and where its fault shows."""

    schema: str
    kernel: Callable[..., Any] | None
    fake: Callable[..., Any] | None
    deliverable: str
    words: str
    status: str = "wrong"
    meta: Callable[..., Any] | None = None

    @property
    def name(self) -> str:
        return self.schema.partition("(")[0]


FAULTS = [
    Fault(
        "f_dtype(Tensor x) -> Tensor", lambda x: x.double() + 1, like, META,
        "result 0 has dtype torch.float64, its fake kernel promises torch.float32",
    ),
    Fault(
        "f_strides(Tensor x) -> Tensor", lambda x: (x + 1).transpose(-1, 0).contiguous().transpose(-1, 0), like, META,
        "result 0 has strides [1, 2], its fake kernel promises [3, 1]",
    ),
    Fault(
        "f_strides_follow(Tensor x) -> Tensor", lambda x: x + 1, lambda x: x.new_empty(x.shape), META,
        "result 0 has strides [1, 2], its fake kernel promises [3, 1]\n  in the call (float32[2, 3] transposed)",
    ),
    Fault(
        "f_other_dimension(Tensor x) -> Tensor", lambda x: x.sum(-1), lambda x: x.new_empty(x.shape[1:]), META,
        "result 0 has shape [2], its fake kernel promises [3]",
    ),
    Fault(
        "f_square(Tensor x, Tensor y) -> Tensor", lambda x, y: x @ y,
        lambda x, y: x.new_empty((*x.shape[:-1], y.shape[-2])), META,
        "result 0 has shape [2, 4], its fake kernel promises [2, 3]",
    ),
    Fault(
        "f_constant(Tensor x) -> Tensor", lambda x: x + 1, lambda x: x.new_empty(2, 3), META,
        "result 0 has shape [5, 7], its fake kernel promises [2, 3]",
    ),
    Fault(
        "f_specialized(Tensor x) -> Tensor", lambda x: (x + 1).contiguous(),
        lambda x: x.new_empty([int(n) for n in x.shape]), META,
        "it takes the size of dimension 0 of tensor 0 as the number 2",
    ),
    Fault(
        "f_loops(Tensor x) -> Tensor", lambda x: x[0] + 1 if x.ndim else x + 1,
        lambda x: next(x.new_empty(x.shape[1:]) for _ in range(x.shape[0] if x.ndim else 1)), META,
        "it takes the size of dimension 0 of tensor 0 as the number 2",
    ),
    Fault("f_reads(Tensor x) -> Tensor", lambda x: x.reshape(x.shape[0], -1)[:, 0].clone(), _reading, META,
          "the fake kernel reads the elements of a tensor"),
    Fault("f_numpy(Tensor x) -> Tensor", lambda x: x + 1, lambda x: torch.from_numpy(x.numpy()), META,
          "the fake kernel reads the elements of a tensor"),
    Fault("f_real(Tensor x) -> Tensor", lambda x: x.new_zeros(2, 3), lambda x: _REAL, META,
          "result 0 of the fake kernel is a real tensor on cpu"),
    Fault("f_on_cpu(Tensor x) -> Tensor", lambda x: x + 1, None, META,
          "tensor's device must be `meta`, got cpu instead",
          meta=lambda x: torch.empty(x.shape, dtype=x.dtype, device="cpu")),
    Fault("f_fake_raises(Tensor x) -> Tensor", lambda x: x + 1, lambda x: x.nothing, META,
          "its fake kernel raised AttributeError"),
    Fault("f_counts(Tensor x) -> (Tensor, Tensor)", lambda x: (x + 1, x + 2), lambda x: like(x), META,
          "returned 2 results, its fake kernel promises 1 result"),
    Fault("f_list_count(Tensor x) -> Tensor[]", lambda x: [x + 1, x + 2], lambda x: [like(x)], META,
          "returned 2 results, its fake kernel promises 1 result"),
    Fault("f_no_meta(Tensor x) -> Tensor", lambda x: x + 1, None, META, "nothing tells the shapes", "missing"),
    Fault("f_alias(Tensor x) -> Tensor", lambda x: x.view(x.shape), like, "schema",
          "result 0 lies in the memory of the argument 'x', and the schema does not say so"),
    Fault("f_alias_sometimes(Tensor x) -> Tensor", lambda x: x.contiguous(), lambda x: x.new_empty(x.shape), "schema",
          "result 0 lies in the memory of the argument 'x'"),
    Fault("f_alias_agreed(Tensor x) -> Tensor", lambda x: x, lambda x: x, "schema",
          "result 0 lies in the memory of the argument 'x'"),
    Fault("f_results_alias(Tensor x) -> (Tensor, Tensor)", lambda x: (y := x + 1, y), lambda x: (like(x), like(x)),
          "schema", "result 1 lies in the memory of result 0"),
    Fault("f_writes(Tensor x, Tensor y) -> Tensor", lambda x, y: y.mul_(2) + x, like, "schema",
          "it writes the argument 'y', and its schema does not say so"),
    Fault("f_writes_list(Tensor x, Tensor[] ys) -> Tensor", lambda x, ys: (x + 1, [y.add_(1) for y in ys])[0], like,
          "schema", "it writes the argument 'ys', and its schema does not say so"),
    Fault("f_returns_written(Tensor(a!) x) -> Tensor(a!)", lambda x: x.add_(1), lambda x: x, "schema",
          "an operator must not return what it writes"),
    Fault("f_no_kernel(Tensor x) -> Tensor", None, like, KERNEL, "no kernel of", "missing"),
    Fault("f_raises(Tensor x) -> Tensor", lambda x: x.nothing, like, KERNEL, "AttributeError"),
    Fault("f_strides_ignored(Tensor x) -> Tensor", _ignoring_strides, lambda x: x.new_empty(x.shape), KERNEL,
          "result 0 has other values than with contiguous ones"),
    Fault("f_contiguous_only(Tensor x) -> Tensor", _needs_flat, lambda x: x.new_empty(x.shape), KERNEL,
          "it takes contiguous tensors, and refuses others with the same values"),
    Fault("f_empty(Tensor x) -> Tensor", _divides_by_size, like, KERNEL,
          "it fails for empty tensors, without saying that it refuses them: ZeroDivisionError"),
    Fault("f_state(Tensor x) -> Tensor", _Counting(), like, KERNEL,
          "two calls with the same arguments differ in result 0: it keeps state"),
    Fault("f_cache(Tensor x) -> Tensor", _Caching(), lambda x: x.new_empty(x.shape), KERNEL,
          "it lies in memory that the kernel keeps and uses again"),
    Fault("f_partly(Tensor x) -> Tensor", _partly, lambda x: x.new_empty(x.shape), KERNEL,
          "what memory held before (torch.empty), of which it does not write all"),
    Fault("f_random(Tensor x) -> Tensor", lambda x: torch.rand_like(x), like, KERNEL,
          "is random (then it needs tags=torch.Tag.nondeterministic_seeded)"),
    Fault("f_scalar(Tensor x, Scalar s) -> Tensor", lambda x, s: x * s, like, "converter",
          "argument 's' is of type Scalar", "missing"),
]  # fmt: skip

for fault in FAULTS:
    define(fault.schema, fault.kernel, fault.fake)
    if fault.meta is not None:
        _META.impl(fault.name, fault.meta)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda f: f.name)
def test_a_fault_of_the_operator_is_found(fault: Fault) -> None:
    report = torchair.check_operator(getattr(ops, fault.name))
    found = row(report, fault.deliverable)
    assert (found.status, fault.words in found.why) == (fault.status, True), str(report)
    assert not report.ok


#: For each fault, what is right and looks alike.
define("g_whole(Tensor x) -> Tensor", _whole, lambda x: x.new_empty(x.shape))
define("g_says_empty(Tensor x) -> Tensor", _says_empty, like)
define("g_no_alias(Tensor x) -> Tensor", lambda x: x.contiguous().clone(), lambda x: x.new_empty(x.shape))
define("g_strides(Tensor x) -> Tensor", lambda x: x.flip(0) if x.ndim else x + 0, lambda x: torch.empty_like(x))
define("g_matmul(Tensor x, Tensor y) -> Tensor", lambda x, y: torch.mm(x, y),
       lambda x, y: x.new_empty((*x.shape[:-1], y.shape[-1])))  # fmt: skip
define("g_broadcast(Tensor x, Tensor y) -> Tensor", lambda x, y: (x + y).contiguous(),
       lambda x, y: x.new_empty(torch.broadcast_shapes(x.shape, y.shape)))  # fmt: skip
define("g_random(Tensor x) -> Tensor", lambda x: torch.rand_like(x), like, tags=[torch.Tag.nondeterministic_seeded])
define("g_unbind(Tensor x) -> Tensor[]", lambda x: [t.clone() for t in x.unbind(0)],
       lambda x: [torch.empty_like(t) for t in x.unbind(0)])  # fmt: skip
define("g_reads(Tensor x) -> Tensor", lambda x: x.flatten()[: int(x.numel() * 0)].clone(),
       lambda x: x.new_empty(0))  # fmt: skip
define("g_nonzero(Tensor x) -> Tensor", lambda x: x.nonzero().contiguous(),
       lambda x: x.new_empty((torch.library.get_ctx().new_dynamic_size(), x.ndim), dtype=torch.int64))  # fmt: skip
define("g_rows(Tensor table, Tensor indices) -> Tensor", lambda table, indices: table[indices].contiguous(),
       lambda table, indices: table.new_empty((*indices.shape, *table.shape[1:])))  # fmt: skip
define("g_softmax(Tensor x, int dim=-1) -> Tensor", lambda x, dim=-1: torch.softmax(x, dim).contiguous(),
       lambda x, dim=-1: x.new_empty(x.shape))  # fmt: skip
define("g_constant(int n, float value) -> Tensor", None, lambda n, value: torch.empty(n))
torch.library.impl("custom_operators::g_constant", "CompositeExplicitAutograd")(
    lambda n, value: torch.full((n,), value)
)
define("g_none(Tensor(a!) x) -> ()", lambda x: x.add_(1) and None if x.numel() == 1 else (x.add_(1), None)[1],
       lambda x: None)  # fmt: skip


@pytest.mark.parametrize(
    "name",
    [
        "g_whole", "g_says_empty", "g_no_alias", "g_matmul", "g_broadcast", "g_random", "g_unbind", "g_reads",
        "g_nonzero", "g_rows", "g_softmax", "g_constant", "g_none", "my_op", "my_inplace", "accumulate", "exchange",
        "fill_all", "write_some", "two", "pieces", "mixed", "positive", "attributes", "placed", "sized", "gathered",
    ],
)  # fmt: skip
def test_a_correct_operator_passes(name: str) -> None:
    report = torchair.check_operator(getattr(ops, name))
    assert report.ok, str(report)
    assert row(report, AGREEMENT).status == "pass"


# --- faults of converters, prototypes and kernels of IR operators ---

define(
    "mingle(Tensor x, Tensor y, Tensor? z, Tensor[] w, float a, int b) -> Tensor",
    lambda x, y, z, w, a, b: (
        x * a - y + b + (0 if z is None else z * 3) + sum((i + 2) * t for i, t in enumerate(w))
    ).contiguous(),
    lambda x, y, z, w, a, b: x.new_empty(x.shape),
)
define(
    "spread(Tensor x, Tensor y) -> Tensor",
    lambda x, y: (x * 0 + y).contiguous(),
    lambda x, y: x.new_empty(torch.broadcast_shapes(x.shape, y.shape)),
)
define("scaled_write(Tensor(a!) x, Tensor y) -> Tensor", lambda x, y: x.mul_(y) * 2, lambda x, y: torch.empty_like(x))


@contextlib.contextmanager
def converter(overload: Any, function: Callable[..., Any]) -> Iterator[None]:
    torchair.register_fx_node_ge_converter(overload)(function)
    try:
        yield
    finally:
        converters.forget(overload)


@contextlib.contextmanager
def kernel(name: str, function: Callable[..., Any]) -> Iterator[None]:
    ge.register_kernel(name)(function)
    try:
        yield
    finally:
        kernels.forget(name)


@contextlib.contextmanager
def prototype(name: str, **fields: Any) -> Iterator[None]:
    ge.declare_op(name, **fields)
    try:
        yield
    finally:
        prototypes.forget(name)


def blended(x: Any, y: Any, z: Any, w: Any, a: Any, b: Any) -> Any:
    """The converter of ``mingle``."""
    total = ge.Add(ge.Sub(ge.Mul(x, a), y), float(b))
    if z is not None:
        total = ge.Add(total, ge.Mul(z, 3.0))
    for i, tensor in enumerate(w):
        total = ge.Add(total, ge.Mul(tensor, float(i + 2)))
    return total


def with_z(x: Any, y: Any, z: Any, w: Any, a: Any, b: Any) -> Any:
    """The same, for calls that pass ``z`` only."""
    return ge.Add(blended(x, y, None, w, a, b), ge.Mul(z, 3.0))


def wrong_type(x: Any, y: Any, z: Any, w: Any, a: Any, b: Any) -> Any:
    attrs = {"a": ge.attr.Int(a), "b": ge.attr.Int(b)}
    return ge.custom_op("Blend", inputs={"x": x, "y": y, "z": z, "w": w}, attrs=attrs, outputs=["out"])


def test_a_correct_converter_passes() -> None:
    with converter(ops.mingle.default, blended):
        report = torchair.check_operator(ops.mingle)
    assert report.ok, str(report)


CONVERTERS = [
    ("swapped inputs", lambda x, y, z, w, a, b: blended(y, x, z, w, a, b), "with 'x' and 'y' exchanged"),
    ("list reversed", lambda x, y, z, w, a, b: blended(x, y, z, w[::-1], a, b), "the list 'w' reversed"),
    ("list cut", lambda x, y, z, w, a, b: blended(x, y, z, w[:1], a, b), "the list 'w' cut to its first item"),
    ("optional dropped", lambda x, y, z, w, a, b: blended(x, y, None, w, a, b), "with 'z' absent"),
    ("optional required", with_z, "float32[2, 3], None, ["),
    ("attribute dropped", lambda x, y, z, w, a, b: blended(x, y, z, w, a, 7), "the same for each value of 'b'"),
    ("attribute fixed", lambda x, y, z, w, a, b: blended(x, y, z, w, 1.0, b), "with 'a' = 1.0"),
    ("attribute of a wrong type", wrong_type, "0.5"),
    ("raises", lambda x, y, z, w, a, b: x.nothing, "has no attribute 'nothing'"),
    ("wrong number of results", lambda x, y, z, w, a, b: (x, y), "2"),
    ("wrong dtype", lambda x, y, z, w, a, b: ge.Cast(blended(x, y, z, w, a, b), dst_type=11), "float64"),
]


@pytest.mark.parametrize(("function", "words"), [c[1:] for c in CONVERTERS], ids=[c[0] for c in CONVERTERS])
def test_a_fault_of_a_converter_is_found(function: Callable[..., Any], words: str) -> None:
    def convert_blend(x, y, z, w, a, b):
        return function(x, y, z, w, a, b)

    with converter(ops.mingle.default, convert_blend):
        report = torchair.check_operator(ops.mingle)
    found = row(report, "converter")
    assert (found.status, words in found.why) == ("wrong", True), str(report)
    assert "Correct the converter convert_blend (" in found.fix
    assert __file__ in found.fix
    assert row(report, AGREEMENT).status == "missing"


def test_a_converter_that_bakes_in_a_size_is_found() -> None:
    def convert_spread(x, y):
        return ge.BroadcastTo(y, [2, 3])

    with converter(ops.spread.default, convert_spread):
        report = torchair.check_operator(ops.spread, torch.ones(2, 3), torch.ones(2, 3))
    found = row(report, "converter")
    assert found.status == "wrong", str(report)
    assert "(float32[5, 7], float32[5, 7])" in found.why


def test_a_prototype_in_another_order_is_found() -> None:
    with prototype("Spread", inputs=["y", "x"], outputs=["out"]):
        found = row(torchair.check_operator(ops.spread), PROTOTYPE)
    assert found.status == "wrong"
    assert "the inputs stand in another order (y, x) than the arguments (x, y)" in found.why
    with prototype("Spread", inputs=["x", "y"], outputs=["out"]):
        assert torchair.check_operator(ops.spread).ok
    with prototype("Spread", inputs=["x1", "x2"], outputs=["out"]):
        assert torchair.check_operator(ops.spread).ok


define("two_numbers(Tensor x, float low, float high) -> Tensor", lambda x, low, high: x * low + high, like)


def test_attributes_in_another_order_are_found() -> None:
    fields: dict[str, Any] = {"inputs": ["x"], "outputs": ["out"]}
    with prototype("TwoNumbers", **fields, attrs={"high": "Float", "low": "Float"}):
        report = torchair.check_operator(ops.two_numbers)
    assert "the attributes stand in another order (high, low)" in row(report, PROTOTYPE).why


def test_an_output_named_like_an_input_that_is_not_written_is_found() -> None:
    with prototype("Spread", inputs=["x", "y"], outputs=["x"]):
        found = row(torchair.check_operator(ops.spread), PROTOTYPE)
    assert found.status == "wrong"
    assert "output 'x' has the name of an input" in found.why


def test_a_prototype_that_does_not_write_is_found() -> None:
    with prototype("ScaledWrite", inputs=["x", "y"], outputs=["a", "b"]):
        found = row(torchair.check_operator(ops.scaled_write), PROTOTYPE)
    assert found.status == "wrong"
    assert "it writes 1 argument (x)" in found.why
    assert torchair.check_operator(ops.scaled_write).ok


def test_a_wrong_kernel_of_the_ir_operator_is_found() -> None:
    with kernel("Spread", lambda x, y: (y * 0 + x).contiguous()):
        report = torchair.check_operator(ops.spread)
    found = row(report, AGREEMENT)
    assert found.status == "wrong"
    assert "these are the results with 'x' and 'y' exchanged" in found.why
    with kernel("Spread", lambda x, y: x.nothing):
        found = row(torchair.check_operator(ops.spread), IR_KERNEL)
    assert found.status == "wrong"
    assert "has no attribute 'nothing'" in found.why


def test_a_kernel_of_the_ir_operator_is_used() -> None:
    with kernel("Spread", lambda x, y: (x * 0 + y).contiguous()):
        report = torchair.check_operator(ops.spread)
    assert report.ok, str(report)
    assert row(report, IR_KERNEL).why == "Spread has a kernel of its own"


def test_an_ir_operator_without_a_kernel_is_found() -> None:
    def convert_spread(x, y):
        return ge.custom_op("NobodyHasThis", inputs={"a": ge.Add(x, y), "b": y}, outputs=["out"])

    with converter(ops.spread.default, convert_spread):
        found = row(torchair.check_operator(ops.spread), IR_KERNEL)
        assert found.status == "missing"
        assert '@torchair.ge.register_kernel("NobodyHasThis")' in found.why
        with kernel("NobodyHasThis", lambda a, b: (a * 0 + b).contiguous()):
            report = torchair.check_operator(ops.spread)
        assert report.ok, str(report)


def test_a_kernel_that_is_missing_for_a_device_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_torch_compat, "private_device_name", lambda: "npu")
    found = row(torchair.check_operator(ops.spread), "eager kernel (npu)")
    assert found.status == "missing"
    assert found.why == "no kernel of custom_operators::spread is registered for PrivateUse1"
    assert '@torch.library.impl("custom_operators::spread", "PrivateUse1")' in found.fix


class _OnDevices:
    """Right for as long as the kernel for the CPU is looked at."""

    calls = 0
    good = 10**6

    def __call__(self, x: Tensor) -> Tensor:
        self.calls += 1
        return x + (1 if self.calls <= self.good else 2)


def test_kernels_of_devices_that_disagree_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is no second device here, so that the CPU stands for it."""
    monkeypatch.setattr(_torch_compat, "private_device_name", lambda: "cpu")
    monkeypatch.setattr(_torch_compat, "device_is_available", lambda kind: True)
    on_devices = _OnDevices()
    define("on_devices(Tensor x) -> Tensor", on_devices, like)
    torch.library.impl("custom_operators::on_devices", "PrivateUse1")(on_devices)

    def device_row() -> Any:
        return [r for r in torchair.check_operator(ops.on_devices).rows if r.deliverable == "eager kernel (cpu)"][1]

    assert device_row().why == "agrees with the kernel for the CPU in 12 calls"
    observed = observe(ops.on_devices.default, ())
    on_devices.good = on_devices.calls
    (found,) = [r for r in kernel_rows(ops.on_devices.default, observed) if "CPU" in r.why]
    assert found.status == "wrong"
    assert "result 0 differs from that of the kernel for the CPU: (float32[2, 3])" in found.why


def test_whatever_is_broken_the_check_ends() -> None:
    """All the operators with faults, with arguments that fit none of them."""
    for fault in FAULTS:
        report = torchair.check_operator(getattr(ops, fault.name), "nothing", 3, x=None)
        assert not report.ok
        assert str(report)
