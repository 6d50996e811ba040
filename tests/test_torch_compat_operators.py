"""The private names of torch about operators: what is registered for them, and what AOTAutograd does with them."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, fx

from tests import custom_operators
from torchair import _torch_compat

ops = custom_operators.ops

custom_operators.define("compat_bare(Tensor x) -> Tensor", None)
custom_operators.define("compat_no_fake(Tensor x) -> Tensor", lambda x: x + 1)
custom_operators.define("compat_returns_written(Tensor(a!) x) -> Tensor(a!)", lambda x: x.add_(1))
custom_operators.define("compat_effect(Tensor x) -> ()", lambda x: None, lambda x: None)


def test_operators_are_found_by_name() -> None:
    assert _torch_compat.find_overload("aten", "relu") is torch.ops.aten.relu.default
    assert _torch_compat.find_overload("aten", "no_such_operator") is None
    assert _torch_compat.find_packet("aten", "relu") is torch.ops.aten.relu
    assert _torch_compat.find_packet("aten", "no_such_operator") is None
    assert {"default", "out"} <= set(_torch_compat.overload_names(torch.ops.aten.relu))


def test_names_of_custom_operators_are_those_that_torch_does_not_define() -> None:
    names = _torch_compat.custom_operator_names()
    assert f"{custom_operators.NAMESPACE}::my_op" in names
    assert not any(name.startswith("aten::") for name in names)


def test_what_is_registered_for_an_operator_is_seen() -> None:
    bare, no_fake, complete = ops.compat_bare.default, ops.compat_no_fake.default, ops.my_op.default
    assert [_torch_compat.has_kernel(op, "CPU") for op in (bare, no_fake, complete)] == [False, True, True]
    assert [_torch_compat.has_fake_kernel(op) for op in (bare, no_fake, complete)] == [False, False, True]
    assert _torch_compat.has_kernel(torch.ops.aten.relu.default, "CPU")
    assert _torch_compat.has_kernel(torch.ops.aten.matmul.default, "CPU")


def test_mutating_operators_that_torch_functionalizes_on_its_own_are_told_apart() -> None:
    assert _torch_compat.can_auto_functionalize(ops.my_inplace.default)
    assert not _torch_compat.can_auto_functionalize(ops.compat_returns_written.default)
    assert not _torch_compat.can_auto_functionalize(ops.my_op.default)
    assert _torch_compat.is_functionalized_by_kernel(torch.ops.aten.matmul.default)
    assert not _torch_compat.is_functionalized_by_kernel(ops.my_inplace.default)
    assert _torch_compat.is_builtin(torch.ops.aten.add_.Tensor)
    assert not _torch_compat.is_builtin(ops.my_inplace.default)


def test_the_error_about_a_missing_fake_kernel_is_recognized() -> None:
    mode = _torch_compat.new_fake_mode()
    x = mode.from_tensor(torch.ones(2))
    with pytest.raises(RuntimeError, match="compat_no_fake") as missing, mode:
        ops.compat_no_fake(x)
    assert _torch_compat.lacks_fake_kernel(missing.value)
    assert not _torch_compat.lacks_fake_kernel(RuntimeError("something else"))


def test_the_fake_modes_of_tensors_are_each_given_once() -> None:
    one, two = _torch_compat.new_fake_mode(), _torch_compat.new_fake_mode()
    values = [one.from_tensor(torch.ones(2)), 3, torch.ones(1), two.from_tensor(torch.ones(1))]
    assert _torch_compat.fake_modes([*values, one.from_tensor(torch.ones(4))]) == [one, two]
    assert _torch_compat.fake_modes([torch.ones(1), "x"]) == []


def test_a_call_is_taken_apart_and_put_together() -> None:
    leaves, rebuild = _torch_compat.flatten_call(([1, 2], 3), {"a": (4,), "b": None})
    assert [leaf for leaf in leaves if leaf is not None] == [1, 2, 3, 4]
    args, kwargs = rebuild([leaf if leaf is None else leaf * 10 for leaf in leaves])
    assert args == ([10, 20], 30)
    assert kwargs == {"a": (40,), "b": None}


def test_operators_are_intercepted_below_autograd() -> None:
    seen: list[str] = []

    def record(op: Any, args: Any, kwargs: Any) -> Any:
        seen.append(str(op))
        return op(*args, **kwargs)

    x = torch.ones(2, requires_grad=True)
    with _torch_compat.intercepting_calls(record):
        y = ops.my_op(x.detach(), None, [], 2.0, 1)
        (x * 2).sum().backward()
    assert y.tolist() == [3.0, 3.0]
    assert "custom_operators.my_op.default" in seen
    assert x.grad is not None
    assert x.grad.tolist() == [2.0, 2.0]


def test_a_copy_of_the_storage_holds_all_of_it() -> None:
    base = torch.arange(6.0)
    copy = _torch_compat.storage_copy(base[2:4])
    base.zero_()
    assert torch.empty(0).set_(copy).tolist() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]


def test_operators_with_side_effects_stay_in_order() -> None:
    _torch_compat.register_ordered_effect(ops.compat_effect.default)
    targets: list[Any] = []

    def look(gm: fx.GraphModule, inputs: list[Any]) -> Any:
        targets.extend(node for node in gm.graph.nodes if node.op == "call_function")
        return _torch_compat.make_boxed(lambda args: gm(*args))

    def program(x: Tensor) -> Tensor:
        ops.compat_effect(x)
        ops.compat_effect(x + 1)
        return x * 2

    def backend(gm: fx.GraphModule, inputs: list[Any]) -> Any:
        return _torch_compat.aot_module_simplified(gm, inputs, fw_compiler=look)

    got = torch.compile(program, backend=backend, fullgraph=True)(torch.ones(2))
    assert got.tolist() == [2.0, 2.0]
    assert sum(_torch_compat.is_with_effects(node.target) for node in targets) == 2


def test_inputs_are_named_as_in_the_users_code() -> None:
    class Model(torch.nn.Module):
        cache: Tensor

        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("cache", torch.zeros(2))

        def forward(self, x: Tensor, more: list[Tensor]) -> Tensor:
            return self.cache + x + more[1]

    names: list[str] = []

    def look(gm: fx.GraphModule, inputs: list[Any]) -> Any:
        names.extend(_torch_compat.dynamo_source_name(node) for node in gm.graph.find_nodes(op="placeholder"))
        return gm.forward

    torch.compile(Model(), backend=look, fullgraph=True)(torch.ones(2), [torch.ones(2), torch.ones(2)])
    assert set(names) == {"self.cache", "x", "more[1]"}
    assert _torch_compat.dynamo_source_name(fx.Graph().placeholder("x")) == ""


def test_slices_of_wrapped_operators_are_counted_as_this_torch_does() -> None:
    """What the rows of ``auto_functionalized_v2`` mean is looked up, and followed when its graphs are converted."""
    starts: list[int] = []

    def look(gm: fx.GraphModule, inputs: list[Any]) -> Any:
        wrapped = [n for n in gm.graph.nodes if _torch_compat.is_auto_functionalized_v2(n.target)]
        starts.extend(node.kwargs["_x_slice_start"] for node in wrapped)
        results: Any = gm.graph.output_node().args[0]
        # Where slices are counted from the storage, running the graph as it stands would fail.
        return _torch_compat.make_boxed(lambda args: [torch.zeros(r.meta["val"].shape) for r in results])

    def program(base: Tensor, y: Tensor) -> None:
        ops.accumulate(base[1:3], y)

    def backend(gm: fx.GraphModule, inputs: list[Any]) -> Any:
        return _torch_compat.aot_module_simplified(gm, inputs, fw_compiler=look)

    torch.compile(program, backend=backend, fullgraph=True)(torch.zeros(8)[4:], torch.ones(2))
    assert starts == [5 if _torch_compat.slices_count_from_storage() else 1]
