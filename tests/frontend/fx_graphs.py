"""What every test of a pass over FX graphs does: make a graph, run passes, and compare what it computes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx
from torch.testing import assert_close

from torchair import _torch_compat
from torchair.config import Options
from torchair.frontend import OptimizedFx, optimize_fx, run_capture_passes
from torchair.frontend.aliasing import same_type, storages

__all__ = ["aot_graph", "optimized", "record", "result", "targets", "text"]


def aot_graph(
    function: Callable[..., Any], *args: Any, dynamic: bool | None = False, decompositions: Any = None
) -> tuple[fx.GraphModule, Sequence[Any]]:
    """The graph that AOTAutograd makes of a function, with its fake inputs."""
    return _aot_graph(function, args, dynamic, decompositions)[:2]


def _aot_graph(
    function: Callable[..., Any], args: Sequence[Any], dynamic: bool | None, decompositions: Any = None
) -> tuple[fx.GraphModule, Sequence[Any], list[Any]]:
    """The same, and what the graph is called with: the order of inputs is Dynamo's."""
    graphs: list[tuple[fx.GraphModule, Sequence[Any]]] = []
    given: list[list[Any]] = []

    def compiler(gm: fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        graphs.append((gm, inputs))

        def run(values: list[Any]) -> Any:
            given.append(_copies(values))
            return gm(*values)

        return _torch_compat.make_boxed(run)

    def backend(gm: fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        return _torch_compat.aot_module_simplified(
            gm,
            inputs,
            fw_compiler=compiler,
            inference_compiler=compiler,
            decompositions=decompositions or {},
            keep_inference_input_mutations=True,
        )

    torch.compiler.reset()
    with torch.no_grad():
        torch.compile(function, backend=backend, fullgraph=True, dynamic=dynamic)(*_copies(args))
    torch.compiler.reset()
    ((gm, inputs),) = graphs
    (values,) = given
    return gm, inputs, values


def optimized(
    function: Callable[..., Any],
    *args: Any,
    mode: Any = "capture",
    options: Options | None = None,
    dynamic: bool | None = False,
    cats: bool = False,
) -> OptimizedFx:
    """The optimized graph of a function.

    It computes the same, its types and aliases are those that computing them anew gives, each new node has the line of
    what it stands for, and optimizing it again changes nothing.
    """
    options = options or Options()
    gm, inputs, flat = _aot_graph(function, args, dynamic)
    before, named = str(gm.graph), {node.name for node in gm.graph.nodes}
    made = optimize_fx(gm, inputs, None, options, mode=mode)
    if cats:
        made = run_capture_passes(made, options)
    assert str(gm.graph) == before, "the graph that was given was changed"
    expected, actual = _copies(flat), _copies(flat)
    torch.manual_seed(0)
    results = list(made.gm(*actual))
    torch.manual_seed(0)
    assert_close(results, list(gm(*expected)), rtol=0, atol=0)
    assert_close(actual, expected, rtol=0, atol=0)
    check_values(made.gm)
    for node in made.gm.graph.nodes:
        symbolic = isinstance(node.meta.get("val"), torch.SymInt)
        assert node.op != "call_function" or node.name in named or symbolic or node.meta.get("stack_trace"), node
    again = optimize_fx(made.gm, inputs, None, options, mode=mode)
    if cats:
        again = run_capture_passes(again, options)
    assert [r.name for r in again.records if r.rewrites] == []
    return made


def check_values(gm: fx.GraphModule) -> None:
    """Assert that ``meta["val"]`` of each node is what calling it gives, in the memory that this lies in."""
    nodes = [n for n in gm.graph.nodes if n.op == "call_function"]
    (mode,) = _torch_compat.fake_modes(n.meta.get("val") for n in gm.graph.nodes)
    with _torch_compat.fake_calls(mode):
        for node in nodes:
            if "val" not in node.meta or any("val" not in n.meta for n in node.all_input_nodes):
                continue  # a marker, or of a constant in versions that give it no type
            args, kwargs = fx.map_arg((node.args, node.kwargs), lambda n: n.meta["val"])
            anew = node.target(*args, **kwargs)
            val = node.meta["val"]
            assert same_type(anew, val), (node, anew, val)
            before = storages([n.meta["val"] for n in node.all_input_nodes])
            assert storages(anew) & before == storages(val) & before, f"{node} does not lie where it should"


def _copies(args: Sequence[Any]) -> list[Any]:
    return [a.clone() if isinstance(a, torch.Tensor) else a for a in args]


def record(made: OptimizedFx, name: str) -> Any:
    """The record of a pass."""
    (found,) = [r for r in made.records if r.name == name]
    return found


def text(gm: fx.GraphModule) -> str:
    """A graph in short: one call a line."""
    lines = []
    for node in gm.graph.nodes:
        if node.op == "output":
            lines.append(f"return {_argument(node.args[0])}")
        elif node.op != "placeholder":
            target = str(node.target) if not callable(node.target) or hasattr(node.target, "_schema") else ""
            name = target or getattr(node.target, "__name__", str(node.target))
            given = [_argument(a) for a in node.args] + [f"{k}={_argument(v)}" for k, v in node.kwargs.items()]
            lines.append(f"{node.name} = {name}({', '.join(given)})")
    return "\n".join(lines) + "\n"


def _argument(value: Any) -> str:
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_argument, value))}]"
    return str(value)


def targets(made: OptimizedFx) -> list[str]:
    """What the optimized graph calls, in order."""
    return [getattr(n.target, "__name__", "") for n in made.gm.graph.nodes if n.op == "call_function"]


def result(made: OptimizedFx) -> str:
    """The optimized graph in short."""
    return text(made.gm)
