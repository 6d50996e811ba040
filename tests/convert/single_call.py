"""One call of an operator, converted without AOTAutograd, which would take composite operators apart first."""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch import fx
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.testing import assert_close

from torchair.convert.driver import convert_graph
from torchair.convert.registry import converters
from torchair.engines.reference import ReferenceExecutable
from torchair.pipeline.builtin import load_converters

__all__ = ["check_overload"]


def check_overload(overload: Any, *args: Any, rtol: float = 0.0, atol: float = 0.0, **kwargs: Any) -> list[str]:
    """Convert the call, run it on the reference engine, and compare the results with eager.

    Returns:
        Names of the IR operators.
    """
    load_converters()
    graph = fx.Graph()
    tensors = [a for a in args if isinstance(a, torch.Tensor)]
    nodes = {a: graph.placeholder(f"arg{i}") for i, a in enumerate(tensors)}
    call = graph.call_function(
        overload, tuple(nodes.get(a, a) if isinstance(a, torch.Tensor) else a for a in args), kwargs
    )
    with FakeTensorMode() as mode:
        for tensor, node in nodes.items():
            node.meta["val"] = mode.from_tensor(tensor)
        fakes = [a.meta["val"] if isinstance(a, fx.Node) else a for a in call.args]
        call.meta["val"] = results = overload(*fakes, **kwargs)
    outputs = [call]
    if not isinstance(results, torch.Tensor):
        outputs = [graph.call_function(operator.getitem, (call, i)) for i in range(len(results))]
        for node, result in zip(outputs, results, strict=True):
            node.meta["val"] = result
    graph.output(tuple(outputs))
    module = fx.GraphModule(torch.nn.Module(), graph)
    converted = convert_graph(module, converters.snapshot(), unconverted_ops="error").graph
    expected = overload(*args, **kwargs)
    actual = ReferenceExecutable(converted)(*tensors)
    assert_close(
        actual,
        [expected] if isinstance(expected, torch.Tensor) else list(expected),
        rtol=rtol,
        atol=atol,
        equal_nan=True,
    )
    return [node.op for node in converted if node.op not in ("Const", "HostInts")]
