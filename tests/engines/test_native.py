"""The native engine as a whole: training, sizes, verification, explain, close, threads, fork, new processes."""

from __future__ import annotations

import copy
import os
import subprocess
import sys
import textwrap
import threading

import pytest
import torch
from torch import Tensor, nn

import torchair
from tests.conformance.op_db import backend
from tests.engines.graphs import native
from torchair.errors import ExecutionError

pytestmark = pytest.mark.usefixtures("support")


class _Network(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.LayerNorm(32), nn.Linear(32, 4))

    def forward(self, x: Tensor) -> Tensor:
        return torch.softmax(self.layers(x), -1)


@pytest.mark.parametrize("dynamic", [None, True])
def test_trains_like_eager_in_batches_of_any_size(dynamic: bool | None) -> None:
    torch.manual_seed(0)
    ours = _Network()
    theirs = copy.deepcopy(ours)
    compiled = torch.compile(ours, backend=backend("native"), fullgraph=True, dynamic=dynamic)
    for batch in (6, 3, 1, 9, 0, 2):
        x = torch.randn(batch, 16)
        for run, module in ((compiled, ours), (theirs, theirs)):
            module.zero_grad()
            run(x).square().sum().backward()
        for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
            torch.testing.assert_close(a.grad, b.grad, rtol=1e-4, atol=1e-6)


def _writes(x: Tensor, y: Tensor) -> Tensor:
    x.add_(1)
    return torch.softmax(x * y, -1)


def test_every_call_can_be_verified() -> None:
    config = torchair.CompilerConfig()
    config.engine = "native"
    config.debug.verify_every = 1
    compiled = torch.compile(_writes, backend=torchair.get_npu_backend(compiler_config=config), fullgraph=True)
    for _ in range(3):
        x, y = torch.randn(5, 7), torch.randn(5, 7)
        want = x + 1
        torch.testing.assert_close(compiled(x, y), torch.softmax(want * y, -1))
        torch.testing.assert_close(x, want)


def test_explain_shows_programs_and_calls() -> None:
    def function(x: Tensor) -> Tensor:
        return torch.softmax(x.cumsum(0) * 2, -1) @ x.t()

    compiled = torch.compile(function, backend=backend("native"), fullgraph=True)
    x = torch.randn(40, 30)
    torch.testing.assert_close(compiled(x), function(x), rtol=1e-4, atol=1e-5)
    explanation = torchair.explain(compiled)
    (code,) = explanation.native
    assert code.programs == 1
    assert dict(code.left) == {
        "aten.cumsum.default": "there is no code for it",
        "aten.mm.default": "its left operand has 40 rows, and code is for up to 8",
    }
    assert "calls aten.mm.default: its left operand has 40 rows, and code is for up to 8" in str(explanation)


def test_explain_names_what_opaque_operators_stand_for() -> None:
    compiled = torch.compile(lambda x: x.bernoulli(0.5) + 1, backend=backend("native"), fullgraph=True)
    compiled(torch.ones(3))
    (code,) = torchair.explain(compiled).native
    assert code.left == (("aten.bernoulli.p", "there is no code for it"),)


def test_explain_says_that_packed_products_were_asked_for() -> None:
    model = torch.nn.Linear(64, 64)
    torchair.use_internal_format_weight(model)
    compiled = torch.compile(model, backend=backend("native"), fullgraph=True)
    with torch.no_grad():
        compiled(torch.ones(16, 64))
    (code,) = torchair.explain(compiled).native
    reason = "it is the packed product that use_internal_format_weight asks for"
    assert code.left == (("air.packed_linear.default", reason),)


def test_explain_of_other_engines_has_no_native_code() -> None:
    compiled = torch.compile(lambda x: x + 1, backend=backend("reference"))
    compiled(torch.ones(2))
    assert not torchair.explain(compiled).native
    assert "native code" not in str(torchair.explain(compiled))


def test_a_closed_graph_refuses_calls() -> None:
    run = native("""graph g(%x: float32[4, 5]):
  %y: float32[4, 5] = Tanh(%x)
  return %y
""")
    x = torch.randn(4, 5)
    torch.testing.assert_close(run(x)[0], x.tanh())
    run.close()
    with pytest.raises(ExecutionError, match="closed"):
        run(x)


def _softmax_product(x: Tensor) -> Tensor:
    return torch.softmax(x * 2, -1) @ x.t()


def test_runs_in_several_threads() -> None:
    compiled = torch.compile(_softmax_product, backend=backend("native"), fullgraph=True)
    inputs = [torch.randn(7, 300) for _ in range(4)]
    want = [_softmax_product(x) for x in inputs]
    compiled(inputs[0])
    problems: list[BaseException] = []

    def work(x: Tensor, expected: Tensor) -> None:
        try:
            for _ in range(50):
                torch.testing.assert_close(compiled(x), expected, rtol=1e-4, atol=1e-5)
        except BaseException as e:  # noqa: BLE001 (shown by the assertion below)
            problems.append(e)

    threads = [threading.Thread(target=work, args=pair) for pair in zip(inputs, want, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not problems


def _in_new_process(code: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_runs_in_a_child_process_too() -> None:
    out = _in_new_process(
        """
        import os, torch, torchair
        config = torchair.CompilerConfig()
        config.engine = "native"
        f = torch.compile(lambda x: torch.softmax(x * 2, -1), backend=torchair.get_npu_backend(compiler_config=config))
        x = torch.randn(40, 300)
        torch.testing.assert_close(f(x), torch.softmax(x * 2, -1))
        child = os.fork()
        if child == 0:
            torch.set_num_threads(1)
            os._exit(0 if torch.allclose(f(x), torch.softmax(x * 2, -1), atol=1e-5) else 1)
        print(os.waitpid(child, 0)[1])
        """
    )
    assert out.strip() == "0"


@pytest.mark.parametrize("engine", ["native", "inductor"])
def test_what_a_process_compiles_first_depends_on_no_import(engine: str) -> None:
    """PyTorch's tables of decompositions are made when they are first needed, in the middle of a compile."""
    _in_new_process(
        """
        import os, torch, torchair
        config = torchair.CompilerConfig()
        config.engine = os.environ["ENGINE"]
        def f(x):
            y = torch.nn.functional.interpolate(x, scale_factor=2.0, mode="nearest")
            return torch.nn.functional.max_pool2d(y[None], 2, return_indices=True)
        compiled = torch.compile(f, backend=torchair.get_npu_backend(compiler_config=config), fullgraph=True)
        x = torch.randn(2, 3, 4)
        torch.testing.assert_close(compiled(x), f(x))
        """,
        ENGINE=engine,
    )


def test_another_process_needs_no_compiler() -> None:
    """What one process compiled is in the cache folder, for processes that trace the same function."""
    code = """
        import os, torch, torchair
        from torchair.build import Compiler
        if os.environ["ROLE"] == "second":
            def refuse(*arguments):
                raise AssertionError(f"the compiler is called: {arguments}")
            Compiler.compile = refuse
        config = torchair.CompilerConfig()
        config.engine = "native"
        def f(x, w):
            return torch.softmax(torch.tanh(x @ w) * 3, -1) + x.sum()
        compiled = torch.compile(f, backend=torchair.get_npu_backend(compiler_config=config), fullgraph=True)
        x, w = torch.randn(3, 16), torch.randn(16, 24)
        torch.testing.assert_close(compiled(x, w), f(x, w), rtol=1e-4, atol=1e-4)
        print(torchair.explain(compiled).native[0].programs)
    """
    for role in ("first", "second"):
        assert _in_new_process(code, ROLE=role).strip() == "1"


def test_any_number_of_sizes_is_replayed() -> None:
    """More than capture mode's limit of captures; none of them makes the graph run eagerly."""
    compiled = torch.compile(_softmax_product, backend=backend("native"), fullgraph=True, dynamic=True)
    for rows in range(2, 72):
        x = torch.randn(rows, 5)
        torch.testing.assert_close(compiled(x), _softmax_product(x), rtol=1e-4, atol=1e-5)
    explanation = torchair.explain(compiled)
    assert not explanation.fallbacks
    assert not explanation.recompiles


@pytest.mark.parametrize("padding", [(-1, 1, -2, 1), (1, 1, 1, 1), (2, 0, 0, 1)])
def test_a_result_with_gaps_has_room_for_them(padding: tuple[int, ...]) -> None:
    def pad(x: Tensor) -> Tensor:
        return nn.functional.pad(x, padding, mode="circular")

    x = torch.randn(1, 3, 4, 4)
    compiled = torch.compile(pad, backend=backend("native"))
    for _ in range(2):
        torch.testing.assert_close(compiled(x), pad(x))
