"""The entry points: names, configuration, custom passes and decompositions, failures and what comes after them."""

from __future__ import annotations

import copy
import functools
import gc
import pickle
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import fx, nn

import torchair
from tests.conformance.op_db import backend
from torchair.config import PROCESS_OPTIONS
from torchair.errors import (
    ConfigTypeError,
    GraphInputError,
    ProcessOptionsError,
    ScopeError,
    UnknownOptionError,
)


@pytest.fixture(autouse=True)
def _fresh_process_options() -> None:
    PROCESS_OPTIONS.reset()


@pytest.mark.parametrize("name", ["torchair", "npu"])
def test_names_work_without_an_import(name: str) -> None:
    code = (
        "import sys, torch\n"
        "assert 'torchair' not in sys.modules\n"
        f"f = torch.compile(lambda x: torch.relu(x) + 1, backend={name!r}, fullgraph=True)\n"
        "print(f(torch.tensor([-1.0, 2.0])).tolist())"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.stdout.strip() == "[1.0, 3.0]", result.stderr


def test_backend_is_a_partial_that_holds_the_config() -> None:
    config = torchair.CompilerConfig()
    made = torchair.get_npu_backend(compiler_config=config)
    assert isinstance(made, functools.partial)
    assert made.keywords["compiler_config"] is config
    assert isinstance(torchair.get_npu_backend().keywords["compiler_config"], torchair.CompilerConfig)
    with pytest.raises(TypeError):
        torchair.get_npu_backend(config)  # type: ignore[call-arg]


def test_config_may_change_before_the_first_compile() -> None:
    config = torchair.CompilerConfig()
    made = torchair.get_npu_backend(compiler_config=config)
    config.engine = "reference"
    torch.compile(lambda x: x + 1, backend=made)(torch.ones(2))
    assert made.graphs[0].engine == "reference"


def test_graphs_are_freed_with_the_compiled_function() -> None:
    made = backend("reference")
    compiled = torch.compile(lambda x: x + 1, backend=made)
    compiled(torch.ones(2))
    assert len(made.graphs) == 1
    del compiled
    torch.compiler.reset()
    gc.collect()
    assert made.graphs == []


def test_compiler_in_a_backend_of_ones_own() -> None:
    from torch._functorch.aot_autograd import aot_module_simplified

    config = torchair.CompilerConfig()
    config.engine = "reference"
    compiler = torchair.get_compiler(config)
    runs: list[Callable[..., Any]] = []

    def own(gm: fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        def compile_and_keep(graph: fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
            runs.append(compiler(graph, example_inputs))
            return runs[-1]

        compile_one: Any = compile_and_keep
        made: Callable[..., Any] = aot_module_simplified(gm, inputs, fw_compiler=compile_one)
        return made

    x = torch.randn(3)
    with torch.no_grad():
        torch.testing.assert_close(torch.compile(lambda x: x.sin() * 2, backend=own)(x), x.sin() * 2)
    with pytest.raises(GraphInputError, match=r"input 0 \(%arg0_1\) is float64\[3\], compiled for float32\[3\]"):
        runs[0](x.double())


def test_user_decompositions_win() -> None:
    seen: list[int] = []

    def decomposed(x: torch.Tensor) -> torch.Tensor:
        seen.append(1)
        return torch.ops.aten.mul.Tensor(x, 3)

    config = torchair.CompilerConfig()
    config.engine = "reference"
    made = torchair.get_npu_backend(
        compiler_config=config, custom_decompositions={torch.ops.aten.sin.default: decomposed}
    )
    assert torch.compile(torch.sin, backend=made)(torch.ones(2)).tolist() == [3.0, 3.0]
    assert seen


def test_run_eagerly_converts_nothing() -> None:
    config = torchair.CompilerConfig()
    config.debug.run_eagerly = True
    made = torchair.get_npu_backend(compiler_config=config)
    model = nn.Linear(3, 2)
    x = torch.randn(4, 3)
    torch.testing.assert_close(torch.compile(model, backend=made)(x), model(x))
    assert made.graphs == []


def test_custom_passes_run_in_order_with_the_config() -> None:
    order: list[tuple[str, bool]] = []
    config = torchair.CompilerConfig()
    config.engine = "reference"

    def pre(gm: fx.GraphModule, example_inputs: Sequence[Any], given: Any) -> None:
        order.append(("pre", given is config))
        for node in gm.graph.nodes:
            if node.target is torch.ops.aten.add.Tensor:
                node.target = torch.ops.aten.mul.Tensor

    def post(gm: fx.GraphModule, example_inputs: Sequence[Any], given: Any) -> None:
        order.append(("post", any(n.target is torch.ops.aten.mul.Tensor for n in gm.graph.nodes)))

    config.post_grad_custom_pre_pass = pre
    config.post_grad_custom_post_pass = post
    got = torch.compile(lambda x: x + 5, backend=torchair.get_npu_backend(compiler_config=config))(torch.ones(2))
    assert got.tolist() == [5.0, 5.0]
    assert order == [("pre", True), ("post", True)]


def test_a_scope_that_is_never_closed_is_refused() -> None:
    config = torchair.CompilerConfig()

    def open_only(gm: fx.GraphModule, example_inputs: Sequence[Any], given: Any) -> None:
        import torchair.scope  # noqa: F401  (defines the operators)

        with gm.graph.inserting_before(next(n for n in gm.graph.nodes if n.op == "call_function")):
            gm.graph.call_function(torch.ops.air.scope_enter.default, (["a"], ["b"]))

    config.post_grad_custom_pre_pass = open_only
    compiled = torch.compile(lambda x: x + 1, backend=torchair.get_npu_backend(compiler_config=config))
    with pytest.raises(Exception, match="the scope is never closed") as info:
        compiled(torch.ones(2))
    assert isinstance(info.value.__cause__ or info.value, ScopeError) or "TA215" in str(info.value)


def test_capture_mode_by_the_old_spelling() -> None:
    config = torchair.CompilerConfig()
    config.mode = "npugraph_ex"
    run = torchair.get_compiler(config)(fx.symbolic_trace(lambda x: x + 1), [torch.ones(1)])
    assert [t.item() for t in run(torch.ones(1))] == [2.0]
    made = torchair.get_npu_backend(compiler_config=config)
    assert torch.compile(lambda x: x + 1, backend=made)(torch.ones(1)).item() == 2.0
    assert str(made.graphs[0]).startswith("<CapturedGraph graph_")


def test_options_of_the_other_backend() -> None:
    made = backend("reference")
    compiled = torch.compile(lambda x: x + 1, backend=made, options={"remove_noop_ops": False})
    with pytest.warns(UserWarning, match='options= is meant for the backend "npugraph_ex"'):
        assert compiled(torch.ones(1)).item() == 2.0
    with pytest.raises(Exception, match="no_such_option") as info:
        torch.compile(lambda x: x + 2, backend=made, options={"no_such_option": 1})(torch.ones(1))
    assert UnknownOptionError.code in str(info.value)


def test_process_options_are_fixed_by_the_first_compile() -> None:
    torch.compile(lambda x: x + 1, backend=backend("reference"))(torch.ones(2))
    config = torchair.CompilerConfig()
    config.ge_config.oo_level = "O1"
    with pytest.raises(Exception, match="Unsupport twice initialtion with different options") as info:
        torch.compile(lambda x: x + 3, backend=torchair.get_npu_backend(compiler_config=config))(torch.ones(2))
    assert ProcessOptionsError.code in str(info.value)


def test_capture_mode_fixes_no_process_options() -> None:
    program = """
import torch, torchair
config = torchair.CompilerConfig()
config.mode = "npugraph_ex"
x = torch.ones(2)
print(torch.compile(lambda x: x + 1, backend=torchair.get_npu_backend(compiler_config=config))(x))
print(torch.compile(lambda x: x + 2, backend="torchair")(x))
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout == "tensor([2., 2.])\ntensor([3., 3.])\n"


def test_the_next_compile_works_after_a_failed_one() -> None:
    def fail(gm: fx.GraphModule, example_inputs: Sequence[Any], given: Any) -> None:
        raise ValueError("on purpose")

    config = torchair.CompilerConfig()
    config.engine = "reference"
    config.post_grad_custom_pre_pass = fail
    with pytest.raises(Exception, match="on purpose"):
        torch.compile(lambda x: x + 1, backend=torchair.get_npu_backend(compiler_config=config))(torch.ones(2))
    assert torch.compile(lambda x: x + 1, backend=backend("reference"))(torch.ones(2)).tolist() == [2.0, 2.0]


class _Counter(nn.Module):
    """A buffer that forward updates, and a graph break."""

    def __init__(self, breaks: bool) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.breaks = breaks
        self.steps: torch.Tensor
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.steps += 1
        y = self.linear(x)
        if self.breaks:
            torch._dynamo.graph_break()
        out: torch.Tensor = y * self.steps
        return out


@pytest.mark.parametrize("breaks", [False, True])
@pytest.mark.parametrize("context", [torch.no_grad, torch.inference_mode, torch.enable_grad])
def test_buffers_updated_in_forward(breaks: bool, context: Callable[[], Any]) -> None:
    model, theirs = _Counter(breaks), _Counter(breaks)
    theirs.load_state_dict(model.state_dict())
    compiled = torch.compile(model, backend=backend("reference"))
    with context():
        for _ in range(3):
            x = torch.randn(2, 3)
            torch.testing.assert_close(compiled(x), theirs(x))
    assert model.steps.item() == 3


@pytest.mark.parametrize("dynamic", [None, True])
def test_gradients_of_parameters_and_inputs(dynamic: bool | None) -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.LayerNorm(8), nn.Dropout(0.0), nn.Linear(8, 2))
    compiled = torch.compile(model, backend=backend("reference"), dynamic=dynamic)
    for batch in (3, 5):
        x = torch.randn(batch, 4)
        grads = []
        for run in (model, compiled):
            model.zero_grad()
            leaf = x.clone().requires_grad_()
            (run(leaf) ** 2).sum().backward()
            grads.append([leaf.grad, *(p.grad for p in model.parameters())])
        for want, got in zip(*grads, strict=True):
            torch.testing.assert_close(got, want)


def test_weights_replaced_and_updated_in_place_are_seen() -> None:
    model = nn.Linear(2, 2)
    compiled = torch.compile(model, backend=backend("reference"))
    x = torch.randn(3, 2)
    with torch.no_grad():
        torch.testing.assert_close(compiled(x), model(x))
        model.weight.mul_(2)
        torch.testing.assert_close(compiled(x), model(x))
        model.weight = nn.Parameter(torch.randn(2, 2))
        torch.testing.assert_close(compiled(x), model(x))


def test_frozen_parameters_are_a_promise() -> None:
    config = torchair.CompilerConfig()
    config.experimental_config.frozen_parameter = True
    with pytest.warns(UserWarning, match="promises that parameters keep their addresses. What depends .* and again"):
        torchair.get_npu_backend(compiler_config=config)
    config.mode = "npugraph_ex"
    with pytest.warns(UserWarning, match="promises that parameters keep their addresses. A device graph, or"):
        torchair.get_npu_backend(compiler_config=config)


def test_assertions_of_the_model_stay() -> None:
    def positive(x: torch.Tensor) -> torch.Tensor:
        # pytest rewrites assert statements; this is what Dynamo makes of one.
        torch._assert_async((x > 0).all(), "must be positive")
        return x + 1

    compiled = torch.compile(positive, backend=backend("reference"), fullgraph=True)
    assert compiled(torch.ones(1)).item() == 2.0
    with pytest.raises(RuntimeError, match="must be positive"):
        compiled(-torch.ones(1))
    hot = torch.compile(lambda i: nn.functional.one_hot(i, 3), backend=backend("reference"), fullgraph=True)
    with pytest.raises(RuntimeError, match="Class values must be smaller than num_classes"):
        hot(torch.tensor([0, 5]))


def test_an_assignment_to_data_is_refused() -> None:
    def assign(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x.data = y
        return x + 1

    compiled = torch.compile(assign, backend=backend("reference"))
    with pytest.raises(Exception, match=r"aten\.set_\.source_Tensor: it changes an argument of the graph itself"):
        compiled(torch.zeros(3), torch.ones(3))


def test_numbers_read_from_tensors() -> None:
    def read(x: torch.Tensor) -> tuple[Any, ...]:
        return x[0].item(), x.tolist(), (x > 1).any().item(), x + x[1].item()

    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        compiled = torch.compile(read, backend=backend("reference"), fullgraph=True)
        for x in (torch.tensor([1, 2]), torch.tensor([0, 1])):
            got, want = compiled(x), read(x)
            assert got[:3] == want[:3]
            assert [type(v) for v in got[:3]] == [type(v) for v in want[:3]]
            torch.testing.assert_close(got[3], want[3])


def test_errors_at_run_time_keep_their_builtin_class() -> None:
    compiled = torch.compile(lambda x, i: x[i], backend=backend("reference"))
    with pytest.raises(IndexError, match="index 7 is out of bounds"):
        compiled(torch.ones(3), torch.tensor([7]))


def test_a_backend_can_be_pickled_and_copied() -> None:
    made = backend("reference")
    assert pickle.dumps(made)
    other = copy.deepcopy(made)
    assert other.keywords["compiler_config"] == made.keywords["compiler_config"]
    assert torch.compile(lambda x: x + 1, backend=other)(torch.ones(1)).item() == 2.0


@pytest.mark.parametrize("wrong", [{"engine": "reference"}, torchair.CompilerConfig])
def test_a_config_of_another_type_is_refused(wrong: Any) -> None:
    with pytest.raises(ConfigTypeError, match=r"compiler_config takes a torchair\.CompilerConfig"):
        torchair.get_npu_backend(compiler_config=wrong)
