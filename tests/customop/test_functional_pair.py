"""Functional pairs that are written by hand (specification, F-114): for PyTorch without automatic functionalization."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

import npugraph_ex
import torchair
from tests.custom_operators import define, ops
from tests.ge.building import declared
from torchair import ge
from torchair.convert import converters
from torchair.customop.schema_rows import functionalization_row
from torchair.opset.kernels import kernels

NAMESPACE = "custom_operators"


def pair_write(x: Tensor, y: Tensor) -> Tensor:
    x.add_(y)
    return (x * 2).contiguous()


def pair_write_functional(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    new = x.clone()
    return ops.pair_write(new, y), new


def pair_write_functionalize(x: Tensor, y: Tensor) -> Tensor:
    out, new = ops.pair_write_functional(x, y)
    x.copy_(new)
    return out


define("pair_write(Tensor(a!) x, Tensor y) -> Tensor", pair_write, lambda x, y: x.new_empty(x.shape))
define(
    "pair_write_functional(Tensor x, Tensor y) -> (Tensor, Tensor)",
    pair_write_functional,
    lambda x, y: (x.new_empty(x.shape), torch.empty_like(x)),
)
torch.library.impl(f"{NAMESPACE}::pair_write", "Functionalize")(pair_write_functionalize)


def backends() -> list[Any]:
    return [torchair.get_npu_backend(), npugraph_ex.get_npu_backend()]


def model(x: Tensor, y: Tensor) -> Tensor:
    out = ops.pair_write(x, y * 2)
    return out + x


@pytest.mark.parametrize("number", [0, 1], ids=["GE", "npugraph_ex"])
@pytest.mark.parametrize("dynamic", [False, True])
def test_the_pair_runs_in_both_modes(number: int, dynamic: bool) -> None:
    backend = backends()[number]
    compiled = torch.compile(model, backend=backend, fullgraph=True, dynamic=dynamic)
    for rows in (2, 5):
        x, y = torch.arange(3.0 * rows).reshape(rows, 3), torch.ones(rows, 3)
        eager_x, address = x.clone(), x.data_ptr()
        expected = model(eager_x, y)
        assert torch.equal(compiled(x, y), expected)
        assert torch.equal(x, eager_x)
        assert x.data_ptr() == address


def test_the_graph_calls_the_functional_variant() -> None:
    backend = torchair.get_npu_backend()
    compiled = torch.compile(model, backend=backend, fullgraph=True)
    compiled(torch.ones(2, 3), torch.ones(2, 3))
    assert "PairWrite" in backend.graphs[-1].text
    assert "pair_write_functional" in str(backend.graphs[-1].report.auto_converted)


def test_check_operator_knows_it() -> None:
    report = torchair.check_operator(ops.pair_write)
    (found,) = [r for r in report.rows if r.deliverable == "functionalization"]
    assert found.status == "pass"
    assert found.why == "written by hand, with custom_operators.pair_write_functional.default"
    assert report.ok, str(report)
    report = torchair.check_operator(ops.pair_write_functional)
    (found,) = [r for r in report.rows if r.deliverable == "functionalization"]
    assert found.why == "it writes no argument; it is the functional variant of custom_operators.pair_write.default"
    assert report.ok, str(report)


def test_a_pair_without_a_functional_variant() -> None:
    define("alone_write(Tensor(a!) x) -> ()", lambda x: (x.add_(1), None)[1], lambda x: None)

    def functionalize(x: Tensor) -> None:
        x.copy_(x + 1)

    torch.library.impl(f"{NAMESPACE}::alone_write", "Functionalize")(functionalize)
    report = torchair.check_operator(ops.alone_write)
    (found,) = [r for r in report.rows if r.deliverable == "functionalization"]
    assert (found.status, found.why) == ("pass", "written by hand")
    assert report.ok, str(report)


@pytest.mark.parametrize(
    ("name", "functional", "why"),
    [
        ("unfit_a", "(Tensor x) -> Tensor", "it returns 1 values; expected are 2: its results, then what is written"),
        ("unfit_b", "(Tensor y) -> (Tensor, Tensor)", "it takes Tensor y, where Tensor x are expected"),
        ("unfit_c", "(Tensor(a!) x) -> (Tensor, Tensor)", "custom_operators::unfit_c_functional writes x itself"),
        ("unfit_d", "(Tensor x) -> (Tensor, Tensor)", "it has no meta function (fake kernel)"),
    ],
)
def test_a_pair_that_does_not_fit(name: str, functional: str, why: str) -> None:
    define(f"{name}(Tensor(a!) x) -> Tensor", lambda x: x.add_(1) * 2, lambda x: torch.empty_like(x))
    define(f"{name}_functional{functional}", lambda x: (x + 1, x + 2))
    torch.library.impl(f"{NAMESPACE}::{name}", "Functionalize")(lambda x: x * 2)
    found = functionalization_row(getattr(ops, name).default)
    assert (found.status, why in found.why) == ("wrong", True)
    assert found.fix == (
        f'torch.library.define("custom_operators::{name}_functional", "(Tensor x) -> (Tensor, Tensor)")'
    )


def test_the_functional_variant_runs_as_the_operator_that_writes() -> None:
    """A converter for the functional variant copies, and calls the IR operator that writes."""

    def kernel(x: Tensor, y: Tensor) -> Tensor:
        x.add_(y)
        return x * 2

    with declared(lambda: ge.declare_op("PairWrite", inputs=["x", "y"], outputs=["x", "out"])):
        ge.register_kernel("PairWrite")(kernel)

        @torchair.register_fx_node_ge_converter(ops.pair_write_functional.default)
        def convert(x, y):
            new, out = ge.custom_op("PairWrite", ge.TensorMove(x), y)
            return out, new

        try:
            backend = torchair.get_npu_backend()
            compiled = torch.compile(model, backend=backend, fullgraph=True)
            x, y = torch.ones(2, 3), torch.ones(2, 3)
            eager_x, address = x.clone(), x.data_ptr()
            assert torch.equal(compiled(x, y), model(eager_x, y))
            assert torch.equal(x, eager_x)
            assert x.data_ptr() == address
            report = torchair.check_operator(ops.pair_write_functional)
            assert report.ok, str(report)
        finally:
            converters.forget(ops.pair_write_functional.default)
            kernels.forget("PairWrite")
