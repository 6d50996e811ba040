"""A few programs that touch what differs between torch versions; ``scripts/smoke_torch_versions.py`` runs them on each.

Needs nothing beyond torch, torchair and pytest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

import torchair


def _smoke_op(x: torch.Tensor, y: torch.Tensor | None, z: list[torch.Tensor], attr1: float, attr2: int) -> torch.Tensor:
    out = x * attr1 + attr2
    if y is not None:
        out = out + y
    for tensor in z:
        out = out - tensor
    return out


def _smoke_inplace(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    x.add_(y)
    return x * 2


@pytest.fixture(scope="module", autouse=True)
def _library() -> Iterator[None]:
    library = torch.library.Library("torchair_smoke", "DEF")
    library.define("smoke_op(Tensor x, Tensor? y, Tensor[] z, float attr1, int attr2) -> Tensor")
    library.impl("smoke_op", _smoke_op, "CPU")
    library.define("smoke_inplace(Tensor(a!) x, Tensor y) -> Tensor")
    library.impl("smoke_inplace", _smoke_inplace, "CPU")
    torch.library.register_fake("torchair_smoke::smoke_op", lambda x, *_: torch.empty_like(x), lib=library)
    torch.library.register_fake("torchair_smoke::smoke_inplace", lambda x, _: torch.empty_like(x), lib=library)
    torchair.ge.declare_op(
        "SmokeOp",
        inputs={"x": "required", "y": "optional", "z": "dynamic"},
        outputs=["out"],
        attrs={"attr1": "Float", "attr2": "Int"},
    )
    yield
    library._destroy()


def test_custom_operator_converts_automatically() -> None:
    def program(x: torch.Tensor, y: torch.Tensor | None, z: torch.Tensor) -> torch.Tensor:
        return torch.ops.torchair_smoke.smoke_op(x, y, [z, x], 2.0, 3).relu()

    x, y, z = torch.randn(3, 4, 5).unbind()
    compiled = torch.compile(program, backend=torchair.get_npu_backend(), fullgraph=True)
    torch.testing.assert_close(compiled(x, y, z), program(x, y, z))
    torch.testing.assert_close(compiled(x, None, z), program(x, None, z))


def test_custom_operator_writes_its_input() -> None:
    def program(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.ops.torchair_smoke.smoke_inplace(x, y) + x

    x, y = torch.randn(2, 4, 5).unbind()
    x, expected_x = x.clone(), x.clone()
    expected = program(expected_x, y)
    compiled = torch.compile(program, backend="torchair", fullgraph=True)
    torch.testing.assert_close(compiled(x, y), expected)
    torch.testing.assert_close(x, expected_x)


def _mlp() -> nn.Module:
    return nn.Sequential(nn.LayerNorm(16), nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 8), nn.Softmax(dim=-1))


@pytest.mark.parametrize("engine", ["reference", "inductor"])
def test_mlp(engine: str) -> None:
    config = torchair.CompilerConfig()
    config.engine = engine
    model, x = _mlp(), torch.randn(4, 16)
    compiled = torch.compile(model, backend=torchair.get_npu_backend(compiler_config=config), fullgraph=True)
    with torch.no_grad():
        torch.testing.assert_close(compiled(x), model(x))


def test_mlp_trains() -> None:
    model, x = _mlp(), torch.randn(4, 16)
    loss = torch.compile(lambda x: model(x).square().sum(), backend="torchair", fullgraph=True)
    loss(x).backward()
    found = [parameter.grad for parameter in model.parameters()]
    model.zero_grad(set_to_none=True)
    model(x).square().sum().backward()
    torch.testing.assert_close(found, [parameter.grad for parameter in model.parameters()])


def test_dynamic_shapes_compile_once() -> None:
    model = _mlp()
    compiled = torch.compile(model, backend="torchair", fullgraph=True, dynamic=True)
    with torch.no_grad():
        compiled(torch.randn(5, 16))
        with torch.compiler.set_stance("fail_on_recompile"):
            for batch in (2, 3, 7, 64):
                x = torch.randn(batch, 16)
                torch.testing.assert_close(compiled(x), model(x))


def test_checkpointed_dropout_trains() -> None:
    def block(x: torch.Tensor) -> torch.Tensor:
        return nn.functional.dropout(x.exp(), 0.5)

    def loss(x: torch.Tensor) -> torch.Tensor:
        return checkpoint(block, x, use_reentrant=False).square().sum()

    def gradient(function: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
        torch.manual_seed(7)
        x = torch.linspace(-1, 1, 24).requires_grad_()
        function(x).backward()
        assert x.grad is not None
        return x.grad

    compiled = torch.compile(loss, backend="torchair", fullgraph=True)
    torch.testing.assert_close(gradient(compiled), gradient(loss))
