"""The module that holds torch's private names: symbolic sizes, functional traces, and the way to Inductor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import fx

from torchair import _torch_compat


@pytest.fixture
def sizes() -> tuple[Any, Any, Any]:
    """A fake mode with two symbolic sizes."""
    mode = _torch_compat.new_fake_mode()
    return mode, _torch_compat.create_size_symbol(mode, "a", 16), _torch_compat.create_size_symbol(mode, "b", 24)


def test_a_condition_is_known_only_if_it_holds_for_all_values(sizes: tuple[Any, Any, Any]) -> None:
    mode, a, b = sizes
    assert _torch_compat.known_true(a >= 2)
    assert _torch_compat.known_true(2 * a == a + a)
    assert not _torch_compat.known_true(a == b)
    assert not _torch_compat.known_true(a != b)
    assert not _torch_compat.known_true(a > 10)
    assert _torch_compat.known_true(True)
    assert _torch_compat.new_guards(mode) == []


def test_hints_add_no_guard(sizes: tuple[Any, Any, Any]) -> None:
    mode, a, b = sizes
    assert _torch_compat.size_hint(a * b + 1) == 16 * 24 + 1
    assert _torch_compat.size_hint(7) == 7
    assert _torch_compat.new_guards(mode) == []


def test_what_was_assumed_is_recorded(sizes: tuple[Any, Any, Any]) -> None:
    mode, a, _ = sizes
    assert a > 10
    (guard,) = _torch_compat.new_guards(mode)
    (symbol,) = guard.free_symbols
    assert guard.subs(symbol, 11)
    assert not guard.subs(symbol, 10)


def test_a_number_is_settled_once_it_is_known_to_be_another(sizes: tuple[Any, Any, Any]) -> None:
    mode = _torch_compat.new_fake_mode()
    a, b = (_torch_compat.create_size_symbol(mode, name, 16) for name in "ab")
    assert _torch_compat.settled_number(a) is a
    assert _torch_compat.settled_number(3) == 3
    assert a == b
    first, second = (_torch_compat.settled_number(n).node._expr for n in (a, b))
    assert first == second


def _run(module: fx.GraphModule, *args: torch.Tensor) -> Any:
    return module(*args)


def test_a_functional_trace_writes_inputs_at_its_end_only() -> None:
    def program(x: torch.Tensor, y: torch.Tensor) -> tuple[Sequence[Any], dict[int, Any]]:
        x[0].add_(1)
        z = x.t() * 2
        z.zero_()
        return [z, x.view(-1)], {1: x}

    mode = _torch_compat.new_fake_mode()
    with mode:
        inputs = [torch.empty(2, 2), torch.empty(2, 2)]
    module = _torch_compat.functional_trace(program, inputs, mode, {})
    called = [node.target for node in module.graph.nodes if node.op == "call_function"]
    mutable = [t for t in called if isinstance(t, _torch_compat.OpOverload) and t._schema.is_mutable]
    assert mutable == called[-2:] == [torch.ops.aten.copy_.default] * 2
    x, y = torch.zeros(2, 2), torch.zeros(2, 2)
    z, flat = _run(module, x, y)
    assert z.tolist() == [[0, 0], [0, 0]]
    assert flat.tolist() == [1, 1, 0, 0]
    assert x.tolist() == y.tolist() == [[1, 1], [0, 0]]


def test_new_values_of_inputs_are_those_before_any_is_written() -> None:
    mode = _torch_compat.new_fake_mode()
    with mode:
        inputs = [torch.empty(2, 3), torch.empty(3, 2)]
    module = _torch_compat.functional_trace(lambda x, y: ([], {0: y.t(), 1: x.t()}), inputs, mode, {})
    x, y = torch.arange(6.0).view(2, 3), torch.arange(6.0, 12).view(3, 2)
    old_x, old_y = x.clone(), y.clone()
    _run(module, x, y)
    assert torch.equal(x, old_y.t())
    assert torch.equal(y, old_x.t())


def test_settings_of_inductor_hold_for_a_while_and_unknown_ones_are_left_out() -> None:
    from torch._inductor import config

    before = config.save_config_portable()
    with _torch_compat.inductor_settings(fallback_random=True, no_such_setting=1, custom_op_layout="flexible_layout"):
        assert config.fallback_random
        assert not hasattr(config, "no_such_setting")
    assert config.save_config_portable() == before


def test_failures_that_come_from_data_are_told_apart() -> None:
    mode = _torch_compat.new_fake_mode()
    with mode:
        x = torch.empty(3)
        with pytest.raises(Exception, match="data-dependent") as caught:
            bool(x.sum() > 0)
    assert _torch_compat.traced_data_dependence(caught.value)
    assert not _torch_compat.traced_data_dependence(ValueError("x"))


def test_inductors_options() -> None:
    names = _torch_compat.inductor_option_names()
    assert {"max_autotune", "epilogue_fusion", "triton.cudagraphs"} <= names
    assert "capture_limit" not in names
