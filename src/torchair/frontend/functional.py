"""Graphs that do not come from AOTAutograd: made functional and typed before they are converted.

``get_compiler`` takes AOT graphs. What users hand to it may come from ``make_fx`` or ``symbolic_trace`` instead, write
tensors in place, or carry no types.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import fx
from torch.fx import traceback

from torchair import _torch_compat
from torchair._torch_compat import OpOverload, OpOverloadPacket
from torchair.errors import MissingFakeKernelError, MutationError, TorchAirError
from torchair.source_lines import source_line

__all__ = ["functional_graph"]


def functional_graph(gm: fx.GraphModule, inputs: Sequence[Any]) -> tuple[fx.GraphModule, tuple[str, ...]]:
    """The graph itself when it is functional and typed, else what tracing it again gives.

    Args:
        inputs: One argument for each placeholder, real or fake.

    Returns:
        The graph, and the names of the parameters and buffers of ``gm`` that are inputs of it after the others: what a
        graph holds may change between calls, and the graph may write it.

    Raises:
        MissingFakeKernelError: An operator has no fake kernel, so its result types are not known.
        MutationError: PyTorch cannot make the graph functional.
    """
    nodes = list(gm.graph.nodes)
    held = dict([*gm.named_parameters(), *gm.named_buffers()])
    modes = _torch_compat.fake_modes(n.meta.get("val") for n in nodes)
    if len(modes) < 2 and not held and all(_is_plain(node) for node in nodes):
        return gm, ()
    metas = [n.meta.get("val") for n in nodes if n.op == "placeholder"]
    given_modes = _torch_compat.fake_modes([*metas, *inputs])
    # make_fx without fake inputs gives each value a mode of its own; such types cannot be used together.
    fake_mode = given_modes[0] if len(given_modes) == 1 else _torch_compat.new_fake_mode()
    fakes = [_fake(fake_mode, meta, given) for meta, given in zip(metas, inputs, strict=True)]
    lifted = [fake_mode.from_tensor(tensor.detach(), static_shapes=True) for tensor in held.values()]
    module = _Traced(gm)

    def program(*args: Any) -> tuple[Sequence[Any], Mapping[int, Any]]:
        values = dict(zip((f"gm.{name}" for name in held), args[len(fakes) :], strict=True))
        outputs = torch.func.functional_call(module, values, args[: len(fakes)])
        return _leaves(outputs), {}

    with traceback.preserve_node_meta():
        traced = _torch_compat.functional_trace(program, [*fakes, *lifted], fake_mode, {})
    return traced, tuple(held)


def _leaves(value: Any) -> list[Any]:
    """The outputs of a graph as AOTAutograd returns them: a flat list."""
    return [leaf for v in value for leaf in _leaves(v)] if isinstance(value, list | tuple) else [value]


class _Traced(torch.nn.Module):
    """A graph as a module that runs node by node."""

    def __init__(self, gm: fx.GraphModule) -> None:
        super().__init__()
        self.gm = gm

    def forward(self, *args: Any) -> Any:
        """Run the graph."""
        return _Tracer(self.gm).run(*args)


class _Tracer(fx.Interpreter):
    """Runs a graph node by node, keeps the lines of the user's source, and says which node failed."""

    def run_node(self, n: fx.Node) -> Any:
        try:
            return super().run_node(n)
        except TorchAirError:
            raise
        except Exception as e:
            raise _explained(n, e) from e


def _explained(node: fx.Node, error: Exception) -> Exception:
    where = source_line(node)
    if _torch_compat.lacks_fake_kernel(error):
        target = node.target
        overload = (
            getattr(target, _torch_compat.overload_names(target)[0]) if isinstance(target, OpOverloadPacket) else target
        )
        name = str(overload._schema.name) if isinstance(overload, OpOverload) else str(target)
        arguments = overload._schema.arguments if isinstance(overload, OpOverload) else ()
        parameters = [argument.name for argument in arguments] or ["x"]
        return MissingFakeKernelError(
            "An operator has no fake kernel (meta function)",
            why=f"{name} was reached with fake tensors, and nothing tells the shapes and dtypes of its results",
            fix=(
                f'@torch.library.register_fake("{name}")\n'
                f"def _({', '.join(parameters)}):\n"
                f"    return torch.empty_like({parameters[0]})  # the shapes and dtypes of the results"
            ),
            where=where,
        )
    return MutationError(
        "A graph cannot be made functional",
        why=[
            f"node {node.name}, {node.target}",
            f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}",
        ],
        fix="Give get_compiler a graph from aot_module_simplified.",
        where=where,
    )


def _is_plain(node: fx.Node) -> bool:
    """True for nodes as AOTAutograd leaves them."""
    if node.op == "output":
        return isinstance(node.args[0], list | tuple)
    if node.op in ("placeholder", "get_attr"):
        return node.op == "get_attr" or "val" in node.meta
    if node.op != "call_function":
        return False
    if "val" not in node.meta and node.target is not operator.getitem:
        # A scope marker has no value, and is no mutation.
        return (
            isinstance(node.target, OpOverload)
            and not node.target._schema.returns
            and not node.target._schema.is_mutable
        )
    return not isinstance(node.target, OpOverload) or not node.target._schema.is_mutable or _is_update(node)


def _is_update(node: fx.Node) -> bool:
    """``copy_`` into an input, which nothing reads afterwards."""
    target = node.args[0]
    if node.target is not torch.ops.aten.copy_.default or not isinstance(target, fx.Node) or target.op != "placeholder":
        return False
    following = node
    while (following := following.next).op != "root":
        if target in following.all_input_nodes and following.op != "output":
            return False
    return target not in following.prev.all_input_nodes


def _fake(fake_mode: Any, meta: Any, given: Any) -> Any:
    """A placeholder's value for tracing."""
    value = given if meta is None else meta
    if not isinstance(value, torch.Tensor):
        return value
    if not _torch_compat.is_fake(value):
        return fake_mode.from_tensor(value, static_shapes=True)
    if _torch_compat.fake_modes([value]) == [fake_mode]:
        return value
    with fake_mode:
        return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=value.device)
