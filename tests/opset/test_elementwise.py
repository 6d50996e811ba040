"""What elementwise operators mean: attributes that no converter uses, gradients, and arithmetic on sizes."""

from __future__ import annotations

import math
from typing import Any

import pytest
import sympy
import torch

from torchair.ir import DType, TensorType
from torchair.opset import activation, comparison, complex_number, elementwise, foreach
from torchair.opset.cast import Cast
from torchair.opset.infer import TypeInference
from torchair.opset.operator import AscendOp, operators

X = torch.linspace(-3, 3, 13)
POSITIVE = torch.linspace(0.5, 3, 6)


def run(op: AscendOp[Any], *inputs: Any, **attrs: Any) -> Any:
    """The lowering with the attributes' defaults filled in, as a node has them."""
    assert op.lowering is not None
    defaults = {a.name: a.default for a in op.prototype.attrs if not a.required}
    return op.lowering(*inputs, **(defaults | attrs))


@pytest.mark.parametrize("module", [elementwise, activation, comparison, complex_number])
def test_every_operator_is_documented(module: Any) -> None:
    for name in module.__all__:
        op = operators[name]
        assert getattr(module, name) is op
        assert op.lowering is not None
        assert "dtypes:" in str(op.__doc__)


def test_formulas() -> None:
    y = X.flip(0) + 0.1
    expected = {
        "Div": (run(elementwise.Div, X, y), X / y),
        "Muls": (run(elementwise.Muls, X, value=0.3), X * 0.3),
        "Sxpy": (run(elementwise.Sxpy, X, y, None), X - y),
        "Sxpy(alpha)": (run(elementwise.Sxpy, X, y, torch.tensor(2.0)), X - 2 * y),
        "Exp": (run(elementwise.Exp, X, base=3.0, scale=2.0, shift=1.0), 3.0 ** (2 * X + 1)),
        "Log": (run(elementwise.Log, POSITIVE, base=3.0, scale=2.0, shift=1.0), (2 * POSITIVE + 1).log() / math.log(3)),
        "Gelu": (run(activation.Gelu, X), torch.nn.functional.gelu(X, approximate="tanh")),
        "FastGelu": (run(activation.FastGelu, X), X * torch.sigmoid(1.702 * X)),
        "Swish": (run(activation.Swish, X, scale=2.0), X * torch.sigmoid(2 * X)),
        "HardSigmoid": (run(activation.HardSigmoid, X, alpha=0.3, beta=0.4), (0.3 * X + 0.4).clamp(0, 1)),
        "ThresholdV2": (run(activation.ThresholdV2, X, torch.tensor(0.5), None), torch.where(X > 0.5, X, 0.0)),
        "PRelu": (run(activation.PRelu, X, y), torch.where(X > 0, X, X * y)),
    }
    for name, (got, wanted) in expected.items():
        torch.testing.assert_close(got, wanted, msg=f"{name}: {got} is not {wanted}")


def test_integers_divide_toward_zero() -> None:
    got = run(elementwise.Div, torch.tensor([7, -7, 6]), torch.tensor([2, 2, -4]))
    assert got.tolist() == [3, -3, -1]


@pytest.mark.parametrize(
    ("forward", "gradient", "attrs"),
    [
        (activation.FastGelu, activation.FastGeluGrad, {}),
        (activation.HardSigmoid, activation.HardSigmoidGrad, {"alpha": 0.3, "beta": 0.4}),
        (activation.HardSigmoid, activation.HardSigmoidGrad, {}),
        (activation.GeluV2, activation.GeluGradV2, {"approximate": "tanh"}),
    ],
)
def test_gradients(forward: AscendOp[Any], gradient: AscendOp[Any], attrs: dict[str, Any]) -> None:
    x = (X + 0.05).requires_grad_()
    dy = torch.linspace(1, 2, 13)
    (expected,) = torch.autograd.grad(run(forward, x, **attrs), x, dy)
    torch.testing.assert_close(run(gradient, dy, x.detach(), **attrs), expected)


def test_gradients_by_results() -> None:
    z = torch.randn(5, dtype=torch.complex64)
    dy = torch.randn(5, dtype=torch.complex64)
    for op, factor in ((activation.SigmoidGrad, z * (1 - z)), (activation.TanhGrad, 1 - z * z)):
        torch.testing.assert_close(run(op, z, dy), dy * factor)
        torch.testing.assert_close(run(op, z, dy, complex_conj=True), dy * factor.conj())
    torch.testing.assert_close(
        run(activation.GeluGrad, X, X, X), torch.ops.aten.gelu_backward(X, X, approximate="tanh")
    )


def test_lists_of_numbers_in_a_tensor() -> None:
    """``ForeachAddcmulList`` reads its numbers from a tensor."""
    x = [torch.ones(2, dtype=torch.bfloat16), torch.ones(3, dtype=torch.bfloat16)]
    got = run(foreach.FOREACH_TERNARY["addcmul"]["Tensor"], x, x, x, torch.tensor([0.7123, 2.0]))
    wanted = [torch.addcmul(a, a, a, value=v) for a, v in zip(x, (0.7123, 2.0), strict=True)]
    assert all(torch.equal(a, b) for a, b in zip(got, wanted, strict=True))


def test_rounding_modes() -> None:
    op = foreach.ForeachRoundOffNumber
    (rounded,) = run(op, [torch.tensor([1.5, 2.5, -1.2])], 1)
    assert rounded.tolist() == [2.0, 2.0, -1.0]
    with pytest.raises(ValueError, match="roundMode is 4; the modes with a meaning here are 1, 2, 3, 5"):
        run(op, [torch.ones(2)], [4])


# --- sizes ---

S0, S1 = (sympy.Symbol(name, integer=True, positive=True) for name in ("s0", "s1"))


def host(*content: Any, dtype: DType = DType.DT_INT64, rank: int = 0) -> TensorType:
    return TensorType.of(dtype, (len(content),) if rank else (), content=content)


@pytest.mark.parametrize(
    ("op", "left", "right", "expected"),
    [
        ("Add", host(2), host(3), (5,)),
        ("Sub", host(2, 5, rank=1), host(3), (-1, 2)),
        ("Mul", host(2, 5, rank=1), host(3, 4, rank=1), (6, 20)),
        ("FloorDiv", host(-7), host(2), (-4,)),
        ("FloorDiv", host(7), host(0), None),
        ("Maximum", host(2), host(3), (3,)),
        ("Minimum", host(2), host(3), (2,)),
        ("Add", host(2**31 - 1, dtype=DType.DT_INT32), host(1, dtype=DType.DT_INT32), None),
        ("Add", host(2**63 - 1), host(1), None),
        ("Add", host(2), TensorType.of(DType.DT_INT64), None),
        ("Add", host(200, dtype=DType.DT_UINT8), host(100, dtype=DType.DT_UINT8), None),
    ],
)
def test_arithmetic_on_host_numbers(op: str, left: TensorType, right: TensorType, expected: Any) -> None:
    rule = operators[op].content_rule
    assert rule is not None
    content = rule(left, right)
    assert (None if content is None else tuple(content)) == expected


def test_arithmetic_on_symbolic_sizes() -> None:
    def content(op: str, left: Any, right: Any) -> Any:
        rule = operators[op].content_rule
        assert rule is not None
        (result,) = rule(host(left), host(right)) or (None,)
        return result

    assert content("Add", S0, 1) == S0 + 1
    assert content("Sub", S0, S1) == S0 - S1
    assert content("Mul", 2, S1) == 2 * S1
    assert str(content("FloorDiv", S0, 2)) == "(s0//2)"
    assert content("Maximum", S0, 1).subs(S0, 5) == 5
    assert content("Minimum", S0, 3).subs(S0, 5) == 3


def test_sizes_keep_their_content_through_inference() -> None:
    inferred = TypeInference().infer("Add", [host(2, rank=1), host(3)], {})
    assert inferred is not None
    assert inferred[0][0] == TensorType.of(DType.DT_INT64, (1,), content=(5,))


@pytest.mark.parametrize(
    ("numbers", "dtype", "expected"),
    [
        ((3, -4), DType.DT_INT32, (3, -4)),
        ((300,), DType.DT_INT8, None),
        ((-1,), DType.DT_UINT8, None),
        ((255,), DType.DT_UINT8, (255,)),
        ((2**31,), DType.DT_INT32, None),
        ((S0,), DType.DT_INT32, (S0,)),
        ((S0,), DType.DT_INT16, None),
        ((3,), DType.DT_FLOAT, None),
    ],
)
def test_casts_keep_host_numbers_that_fit(numbers: tuple[Any, ...], dtype: DType, expected: Any) -> None:
    assert Cast.content_rule is not None
    assert Cast.content_rule(host(*numbers, rank=1), dst_type=dtype) == expected
