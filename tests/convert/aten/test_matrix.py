from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.nn import functional as nnf

from tests.convert.conversion import check, converted_graphs, converted_ops, only, samples
from tests.convert.operands import dtypes

FLOAT, HALF, DOUBLE, INT, COMPLEX = torch.float32, torch.bfloat16, torch.float64, torch.int64, torch.complex64
ALL = (FLOAT, HALF, torch.float16, DOUBLE, INT, COMPLEX)


def made(*shapes, dtype=FLOAT):
    generator = torch.Generator().manual_seed(0)
    for shape in shapes:
        if dtype is INT:
            yield torch.randint(-9, 9, shape, generator=generator)
        else:
            yield torch.randn(shape, generator=generator, dtype=COMPLEX if dtype is COMPLEX else FLOAT).to(dtype)


def tolerance(dtype):
    """BLAS adds complex numbers in another order when the matrix is a vector."""
    return {"rtol": 1e-6, "atol": 1e-6} if dtype is COMPLEX else {}


@pytest.mark.parametrize("dtype", ALL, ids=str)
def test_products_equal_eager(dtype):
    def f(m, n, v, b, c):
        return m @ n, torch.bmm(b, c), torch.mv(m, v), nnf.linear(b, m), torch.einsum("bij,bjk->bik", b, c)

    shapes = ((3, 4), (4, 5), (4,), (2, 3, 4), (2, 4, 5))
    check(f, *made(*shapes, dtype=dtype), **tolerance(dtype), unconverted_ops="error")


@pytest.mark.parametrize("dtype", ALL, ids=str)
def test_products_with_an_addend_equal_eager(dtype):
    def f(bias, full, column, one, m, n, v, b, c):
        return (
            torch.addmm(bias, m, n),
            torch.addmm(full, m, n),
            torch.addmm(column, m, n, beta=3, alpha=2),
            torch.addmm(one, m, n, beta=0, alpha=2),
            torch.addmv(column[:, 0], m, v),
            torch.baddbmm(full, b, c, beta=3, alpha=2),
            nnf.linear(b, n.t(), bias),
        )

    shapes = ((5,), (3, 5), (3, 1), (), (3, 4), (4, 5), (4,), (2, 3, 4), (2, 4, 5))
    check(f, *made(*shapes, dtype=dtype), **tolerance(dtype), unconverted_ops="error")


def test_which_operators_they_become():
    bias, full, m, n, v = made((5,), (3, 5), (3, 4), (4, 5), (4,))
    assert converted_ops(torch.mm, m, n) == ["MatMulV2"]
    assert converted_ops(torch.bmm, m[None], n[None]) == ["BatchMatMul"]
    (graph,) = converted_graphs(torch.addmm, bias, m, n)
    node = only(graph, "MatMulV2")
    assert node.inputs[2] in graph.inputs, "the bias enters the product"
    assert converted_ops(torch.addmm, full, m, n) == ["FusedMatMul"]
    assert converted_ops(lambda c, a, b: torch.addmm(c, a, b, alpha=0.5), full, m, n) == ["GEMM"]
    assert converted_ops(torch.mv, m, v) == ["Unsqueeze", "MatMulV2", "Squeeze"]


@pytest.mark.parametrize("dtype", [FLOAT, DOUBLE, INT, COMPLEX], ids=str)
def test_dot_is_a_product(dtype):
    a, b = made((40,), (40,), dtype=dtype)
    # The one sum is made in another order.
    check(torch.dot, a, b, rtol=1e-5, atol=1e-5, ops=["MatMulV2"], unconverted_ops="error")


def test_vdot_conjugates_only_complex_operands():
    check(torch.vdot, *made((40,), (40,)), rtol=1e-5, atol=1e-5, ops=["MatMulV2"])
    check(torch.vdot, *made((40,), (40,), dtype=COMPLEX), rtol=1e-5, atol=1e-5)


def test_factors_that_do_not_spread_nan():
    c = torch.full((3, 5), torch.nan)
    check(lambda c, a, b: torch.addmm(c, a, b, beta=0), c, *made((3, 4), (4, 5)), ops=["GEMM"])


def test_fractional_factors_keep_their_precision():
    def f(c, a, b):
        return torch.addmm(c, a, b, beta=0.1, alpha=1 / 3)

    for dtype in (FLOAT, DOUBLE, HALF):
        check(f, *made((3, 5), (3, 4), (4, 5), dtype=dtype), ops=["GEMM"], unconverted_ops="error")


def test_factors_of_a_vector_in_half_precision_stay_torch_calls():
    def f(c, a, b):
        return torch.addmv(c, a, b, beta=3, alpha=2)

    check(f, *made((3,), (3, 4), (4,)), ops=["GEMM"], unconverted_ops="error")
    check(f, *made((3,), (3, 4), (4,), dtype=HALF), ops=["torch_call"])


def test_complex_factors_stay_torch_calls():
    c, a, b = made((3, 5), (3, 4), (4, 5), dtype=COMPLEX)
    check(lambda c, a, b: torch.addmm(c, a, b, alpha=2j), c, a, b, ops=["torch_call"])


def test_empty_matrices():
    check(torch.mm, *made((3, 0), (0, 5)), unconverted_ops="error")
    check(torch.addmm, *made((5,), (0, 4), (4, 5)), unconverted_ops="error")
    check(torch.mv, *made((3, 0), (0,)), unconverted_ops="error")


def test_operands_in_any_layout():
    a, b = made((6, 8), (10, 4))
    check(lambda a, b: a.t()[::2] @ b[::2, 1:].t().t()[:, :2].new_ones(6, 2), a, b)
    check(lambda a, b: torch.mm(a[::2, ::2], b.t()[:, ::3]), a, b, unconverted_ops="error")


def test_symbolic_sizes():
    def f(c, a, b):
        return torch.addmm(c, a, b, beta=0.5, alpha=2), torch.addmm(c[0], a, b)

    check(f, *made((3, 5), (3, 4), (4, 5)), dynamic=True, unconverted_ops="error")


@dtypes((FLOAT,), slow=(HALF,))
@pytest.mark.parametrize("name", ["addmm", "addmv", "baddbmm", "bmm", "mm", "mv", "matmul", "nn.functional.linear"])
def test_samples(name, dtype):
    near = 1e-5 if dtype is FLOAT else 2e-2
    for op, args, kwargs in samples(name, dtype, count=1):
        check(lambda *a, op=op, kw=kwargs: op(*a, **kw), *args, rtol=near, atol=near)


@dtypes((FLOAT, HALF, INT), slow=(torch.float16, DOUBLE, COMPLEX))
def test_outer_and_cross_products(dtype):
    def f(c, one, a, b, x, y):
        outer = torch.addr(c, a, b), torch.addr(one, a, b, beta=3, alpha=2), torch.addr(c, a, b, beta=0)
        return *outer, torch.linalg.cross(x, y), torch.cross(x.t(), y.t(), dim=0)

    # Eager fuses a product and a sum of floats, and rounds each step of half precision.
    near: Any = {"rtol": 1e-5, "atol": 1e-6} if dtype in (FLOAT, DOUBLE) else {}
    arguments = made((7, 40), (40,), (7,), (40,), (40, 3), (40, 3), dtype=dtype)
    check(f, *arguments, **near, ops=["Mul", "Add", "Roll", "Sub"], unconverted_ops="error")


def test_products_of_booleans_and_of_several_dtypes():
    bits = [torch.rand(shape) > 0.5 for shape in ((3, 4), (3,), (4,))]
    check(torch.addr, *bits, ops=["torch_call"])
    check(torch.addr, bits[0].float(), torch.tensor([1, 2, 3]), torch.rand(4).double(), unconverted_ops="error")
