"""Scopes in compiled functions: attributes on nodes, ordering edges, and nothing in eager mode."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import torchair
from tests.convert.conversion import check, reference_backend
from torchair.errors import ArgumentError, ArgumentTypeError, EagerCallError, ScopeError
from torchair.ir import Graph
from torchair.torchops.scopes import scope_enter, scope_exit

#: Tests pass what annotations forbid.
scope: Any = torchair.scope


def attributes(graph: Graph, op: str) -> dict[str, Any]:
    (node,) = [node for node in graph if node.op == op]
    return node.scope


def one(program: Callable[..., Any], *args: Tensor) -> Graph:
    """The graph of a program, whose results do not depend on scopes."""
    (graph,) = check(program, *(args or (torch.ones(3),)))
    return graph


@pytest.mark.parametrize(
    ("context", "expected"),
    [
        (
            lambda: scope.npu_stream_switch("a"),
            {"_user_stream_label": "a", "_user_stream_priority": "0", "_enable_inner_parallel": True},
        ),
        (
            lambda: scope.npu_stream_switch("b", 3, False),
            {"_user_stream_label": "b", "_user_stream_priority": "3", "_enable_inner_parallel": False},
        ),
        (lambda: scope.super_kernel("sk"), {"_super_kernel_scope": "sk", "_super_kernel_options": ""}),
        (
            lambda: scope.super_kernel("sk", "stream-fusion=1:feed-sync-all=0"),
            {"_super_kernel_scope": "sk", "_super_kernel_options": "stream-fusion=1:feed-sync-all=0"},
        ),
        (lambda: scope.super_kernel(None), {}),
        (lambda: scope.limit_core_num(3, 4), {"_op_aicore_num": "3", "_op_vectorcore_num": "4"}),
        (lambda: scope.op_never_timeout(), {"_op_exec_never_timeout": True}),
        (lambda: scope.op_never_timeout(False), {"_op_exec_never_timeout": False}),
        (lambda: scope.data_dump(), {"torchair_enable_data_dump": "True"}),
    ],
)
def test_nodes_inside_get_the_attributes(context, expected) -> None:
    def program(x: Tensor) -> Tensor:
        y = x.sin()
        with context():
            z = y.cos()
        return z.exp()

    graph = one(program)
    assert attributes(graph, "Cos") == expected
    assert attributes(graph, "Sin") == {}
    assert attributes(graph, "Exp") == {}


def test_an_inner_scope_overrides_an_outer_one() -> None:
    def program(x: Tensor) -> Tensor:
        with scope.npu_stream_switch("outer"):
            x = x.sin()
            with scope.npu_stream_switch("inner"), scope.op_never_timeout():
                x = x.cos()
            return x.exp()

    graph = one(program)
    assert attributes(graph, "Sin")["_user_stream_label"] == "outer"
    assert attributes(graph, "Cos")["_user_stream_label"] == "inner"
    assert attributes(graph, "Cos")["_op_exec_never_timeout"] is True
    assert attributes(graph, "Exp")["_user_stream_label"] == "outer"
    assert "_op_exec_never_timeout" not in attributes(graph, "Exp")


def test_none_takes_operators_out_of_a_super_kernel() -> None:
    def program(x: Tensor) -> Tensor:
        with scope.super_kernel("sk"):
            x = x.sin()
            with scope.super_kernel(None):
                x = x.cos()
                with scope.super_kernel("other"):
                    x = x.exp()
        return x

    graph = one(program)
    assert attributes(graph, "Sin")["_super_kernel_scope"] == "sk"
    assert attributes(graph, "Cos") == {}
    assert attributes(graph, "Exp")["_super_kernel_scope"] == "other"


def test_the_attributes_are_logged(caplog) -> None:
    def program(x: Tensor) -> Tensor:
        with scope.op_never_timeout():
            return x.cos()

    torchair.logger.propagate = True
    try:
        with caplog.at_level(logging.DEBUG, logger="torchair"):
            one(program)
    finally:
        torchair.logger.propagate = False
    assert "Set attribute _op_exec_never_timeout: True on op: Cos" in caplog.messages


def test_scopes_in_a_training_graph() -> None:
    def program(x: Tensor) -> Tensor:
        with scope.super_kernel("sk"):
            return x.sin().sum()

    forward, _ = check(program, torch.ones(3, requires_grad=True), backward=True)
    assert attributes(forward, "Sin")["_super_kernel_scope"] == "sk"


def test_scopes_do_nothing_in_eager_mode_and_elsewhere() -> None:
    with scope.super_kernel("sk"), scope.npu_stream_switch("a"), scope.limit_core_num(1, 1), scope.data_dump():
        assert torch.ones(2).sum() == 2

    def program(x: Tensor) -> Tensor:
        with scope.super_kernel("sk"):
            return x.sin()

    compiled = torch.compile(program, backend="aot_eager", fullgraph=True)
    assert torch.equal(compiled(torch.ones(2)), torch.ones(2).sin())


@pytest.mark.parametrize(
    ("program", "words"),
    [
        (lambda x: (scope_enter(["a"], ["b"]), x.sin())[1], "the scope is never closed"),
        (lambda x: (scope_exit(), x.sin())[1], "a scope is closed that was not opened"),
    ],
)
def test_markers_are_paired(program, words) -> None:
    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed) as caught:
        torch.compile(program, backend=reference_backend(), fullgraph=True)(torch.ones(3))
    error = caught.value.inner_exception
    assert isinstance(error, ScopeError)
    assert isinstance(error, RuntimeError)
    assert words in str(error)


# --- wrong arguments ---


@pytest.mark.parametrize(
    ("call", "kind", "words"),
    [
        (lambda: scope.npu_stream_switch(3), ArgumentTypeError, "stream_tag as str"),
        (lambda: scope.npu_stream_switch("a", "0"), ArgumentTypeError, "stream_priority as int"),
        (lambda: scope.npu_stream_switch("a", 0, 1), ArgumentTypeError, "enable_inner_parallel as bool"),
        (lambda: scope.super_kernel(3), ArgumentTypeError, "scope as str"),
        (lambda: scope.super_kernel("a", None), ArgumentTypeError, "options as str"),
        (lambda: scope.op_never_timeout(1), ArgumentTypeError, "enable as bool"),
        (lambda: scope.limit_core_num(1.0, 1), ArgumentTypeError, "op_aicore_num as int"),
        (lambda: scope.limit_core_num(True, 1), ArgumentTypeError, "op_aicore_num as int"),
        (lambda: scope.limit_core_num(0, 1), ArgumentError, "op_aicore_num=0; it is at least 1"),
        (lambda: scope.limit_core_num(1, -1), ArgumentError, "op_vectorcore_num=-1; it is at least 0"),
        (lambda: scope.super_kernel("a", "nothing=1"), ArgumentError, "nothing takes one of the known keys"),
        (lambda: scope.super_kernel("a", "feed-sync-all"), ArgumentError, "feed-sync-all takes 0 or 1"),
        (lambda: scope.super_kernel("a", "stream-fusion=2"), ArgumentError, "stream-fusion takes 0 or 1"),
        (lambda: scope.super_kernel("a", "strict-scope-check=no"), ArgumentError, "takes bypass or abort"),
        (lambda: scope.super_kernel("a", "dcci-disable-on-kernel="), ArgumentError, "takes operator types"),
        (lambda: scope.super_kernel("a", "debug-aic-num=0"), ArgumentError, "debug-aic-num takes a positive number"),
        (lambda: scope.super_kernel("a", "stream-fusion=1:"), ArgumentError, "an option takes one of the known keys"),
    ],
)
def test_wrong_arguments(call, kind, words) -> None:
    with pytest.raises(kind) as caught:
        call()
    assert words in str(caught.value)
    assert isinstance(caught.value, TypeError if kind is ArgumentTypeError else ValueError)


@pytest.mark.parametrize(
    "options",
    [
        "strict-scope-check=bypass",
        "strict-scope-check=abort",
        "dcci-before-kernel-start=Add,MatMul:dcci-after-kernel-end=Add:dcci-disable-on-kernel=Mul",
        "debug-aic-num=4:debug-aiv-num=8",
    ],
)
def test_options_of_super_kernels(options) -> None:
    scope.super_kernel("a", options)


def test_wrong_arguments_in_a_compiled_function() -> None:
    def program(x: Tensor) -> Tensor:
        with scope.op_never_timeout(1):
            return x.sin()

    with pytest.raises(Exception, match="op_never_timeout takes enable as bool"):
        torch.compile(program, backend=reference_backend(), fullgraph=True)(torch.ones(3))


def _wrong_option(x: Tensor) -> Tensor:
    with scope.super_kernel("outer"):
        y = x.sin()
        with scope.super_kernel("a", "foo=1"):
            return y.cos()


_WRONG_OPTION = (
    "An option of a super kernel is not valid [TA210]\n  why:\n    super_kernel was given 'foo=1' in 'foo=1'; foo"
)


def test_a_wrong_value_in_a_compiled_function_is_eager_s_error() -> None:
    with pytest.raises(ValueError, match="is not valid") as caught:
        torch.compile(_wrong_option, backend=reference_backend())(torch.ones(3))
    assert isinstance(caught.value, ArgumentError)
    assert str(caught.value).startswith(_WRONG_OPTION)


def test_a_wrong_value_in_a_full_graph_is_readable() -> None:
    with pytest.raises(torch._dynamo.exc.TorchDynamoException) as caught:
        torch.compile(_wrong_option, backend=reference_backend(), fullgraph=True)(torch.ones(3))
    text = re.sub(r"^ +", "", str(caught.value), flags=re.MULTILINE)
    assert re.sub(r"^ +", "", _WRONG_OPTION, flags=re.MULTILINE) in text
    assert "in _wrong_option" in text


# --- npu_wait_tensor ---


@pytest.mark.parametrize("use_result", [True, False])
@pytest.mark.parametrize("dynamic", [None, True])
def test_later_uses_wait(use_result, dynamic) -> None:
    def program(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        awaited = y.sin()
        before = x.cos()
        waiting = scope.npu_wait_tensor(x, awaited)
        return before, (waiting if use_result else x).exp(), awaited

    backend = reference_backend()
    compiled = torch.compile(program, backend=backend, fullgraph=True, dynamic=dynamic)
    x, y = torch.rand(3), torch.rand(3)
    actual = compiled(x, y)
    assert all(torch.equal(a, b) for a, b in zip(actual, (x.cos(), x.exp(), y.sin()), strict=True))
    graph = backend.graphs[-1].graph
    (wait,) = [node for node in graph if node.op == "Identity"]
    assert [node.op for node in wait.control] == ["Sin"]
    assert [node.op for value in wait.outputs for node in value.users] == ["Exp"]
    (cos,) = [node for node in graph if node.op == "Cos"]
    assert cos.inputs[0] is not wait.output


def test_waiting_for_an_input_needs_no_edge() -> None:
    compiled = torch.compile(lambda x, y: scope.npu_wait_tensor(x, y) + 1, backend=reference_backend(), fullgraph=True)
    assert torch.equal(compiled(torch.ones(2), torch.ones(2)), torch.full((2,), 2.0))


def test_waiting_in_a_training_graph() -> None:
    def program(x: Tensor) -> Tensor:
        y = x.sin()
        return (scope.npu_wait_tensor(x, y) * 2).sum()

    x = torch.rand(3, requires_grad=True)
    torch.compile(program, backend=reference_backend(), fullgraph=True)(x).backward()
    assert x.grad is not None
    assert torch.equal(x.grad, torch.full((3,), 2.0))


def test_run_eagerly_returns_the_tensor() -> None:
    config = torchair.CompilerConfig()
    config.debug.run_eagerly = True
    backend = torchair.get_npu_backend(compiler_config=config)
    compiled = torch.compile(lambda x, y: scope.npu_wait_tensor(x, y) + 1, backend=backend, fullgraph=True)
    assert torch.equal(compiled(torch.ones(2), torch.ones(2)), torch.full((2,), 2.0))


def test_waiting_in_eager_mode_is_refused() -> None:
    with pytest.raises(NotImplementedError, match="not supported in eager mode") as caught:
        scope.npu_wait_tensor(torch.ones(1), torch.ones(1))
    assert isinstance(caught.value, EagerCallError)
    with pytest.raises(TypeError, match="takes dependency as Tensor"):
        scope.npu_wait_tensor(torch.ones(1), 3)
