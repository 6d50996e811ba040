"""What is known to be impossible on a device, from the FX graph alone. Fake tensors stand for a CUDA device."""

from __future__ import annotations

import pytest
import torch
from torch._subclasses import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from torchair.capture.device_limits import device_of, refusals, written_inputs
from torchair.torchops.printing import print_text

aten = torch.ops.aten
CUDA = torch.device("cuda", 0)


def traced(function, *makers):
    numbers = ShapeEnv(allow_scalar_outputs=True, allow_dynamic_output_shape_ops=True)
    mode = FakeTensorMode(shape_env=numbers, allow_non_fake_inputs=True)
    with mode:
        inputs = [make() for make in makers]
    with mode:
        return make_fx(function)(*inputs)


def on_device(*sizes, **kwargs):
    return lambda: torch.empty(sizes, device="cuda:0", **kwargs)


def on_host(*sizes, **kwargs):
    return lambda: torch.empty(sizes, **kwargs)


def reasons(function, *makers, repeats_random=True):
    gm = traced(function, *makers)
    return [r.reason for r in refusals(gm, CUDA, repeats_random=repeats_random)]


def test_an_ordinary_graph_is_not_refused():
    def function(x, w, i):
        y = torch.nn.functional.linear(x, w).relu()
        y = torch.nn.functional.layer_norm(y, [3]) + torch.rand(2, 3, device="cuda:0")
        return aten.index.Tensor(y, [i]).sum(), y.cumsum(0), torch.arange(3, device="cuda:0"), x.add_(1)

    assert reasons(function, on_device(2, 4), on_device(3, 4), on_device(2, dtype=torch.int64)) == []


def test_the_device_of_a_graph():
    assert device_of(traced(lambda x: (x + 1,), on_device(2))) == CUDA
    assert device_of(traced(lambda x: (x + 1,), on_host(2))) is None
    assert device_of(traced(lambda: (torch.ones(2, device="cuda:0"),))) == CUDA


def test_scalars_of_the_host_can_be_read():
    assert reasons(lambda x, s: (x * s,), on_device(2), on_host()) == []


@pytest.mark.parametrize(
    ("function", "makers", "reason"),
    [
        (lambda x: (x.cpu(),), [on_device(2)], "computes or copies to the host"),
        (lambda x, y: (x + 1, y + 1), [on_device(2), on_host(2)], "computes or copies to the host"),
        (lambda y: (y.to("cuda:0"),), [on_host(2)], "copies from the host and waits for it"),
        (lambda x, y: (aten.copy_.default(x, y),), [on_device(2), on_host(2)], "copies from the host and waits for it"),
        (
            lambda x, i: (aten.index.Tensor(x, [i]),),
            [on_device(2), on_host(2, dtype=torch.int64)],
            "reads memory of the host",
        ),
        (lambda x, m: (x.index_put_((m,), x.sum()),), [on_device(2), on_device(2, dtype=torch.bool)], "with a mask"),
        (lambda x: (aten.nonzero.default(x),), [on_device(2)], "known only when it has run"),
        (lambda x: (x.sum().item(),), [on_device(2)], "known only when it has run"),
        (lambda x, y: (x + 1, y), [on_device(2), lambda: torch.empty(2, device="cuda:1")], "lies on cuda:1"),
    ],
)
def test_refused(function, makers, reason):
    found = reasons(function, *makers)
    assert any(reason in r for r in found), found


def test_effects_on_the_host_are_refused():
    gm = traced(lambda x: (x + 1,), on_device(2))
    first = next(iter(gm.graph.nodes))
    with gm.graph.inserting_after(first):
        gm.graph.call_function(print_text, (first,))
    (found,) = (r.reason for r in refusals(gm, CUDA, repeats_random=True))
    assert found.startswith("air.print_text.default (node print_text_default) acts on the host")


def test_random_numbers_where_graphs_repeat_them():
    def drops(x):
        return torch.nn.functional.dropout(x, 0.5)

    def attends(x):
        return torch.ops.aten._scaled_dot_product_efficient_attention(x, x, x, None, False)[0]

    assert reasons(drops, on_device(2)) == []
    (found,) = reasons(drops, on_device(2), repeats_random=False)
    assert "draws random numbers, which graphs of cuda would repeat" in found
    assert reasons(attends, on_device(1, 2, 4, 8), repeats_random=False) == []


def test_the_users_line_is_told():
    gm = traced(lambda x: (x.cpu(),), on_device(2))
    for node in gm.graph.nodes:
        node.meta["stack_trace"] = 'File "model.py", line 5, in forward\n    return x.cpu()'
    (found,) = refusals(gm, CUDA, repeats_random=True)
    assert found.reason.endswith("; model.py:5, in forward: return x.cpu()")


def test_written_inputs_are_found_through_views():
    def function(a, b, c, d):
        aten.slice.Tensor(b, 0, 1).view(-1).add_(1)
        e = d.clone()
        e.mul_(2)
        c.t_()
        torch.add(a, 1, out=a)
        return (d + e,)

    gm = traced(function, *(on_device(3, 2),) * 4)
    assert written_inputs(gm.graph) == [0, 1, 2]
