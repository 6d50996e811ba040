"""Which graph passes GE mode runs, by the options."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from torchair import _torch_compat
from torchair.config import Options
from torchair.ir import Graph, Node
from torchair.passes import (
    VIEW_PASSES,
    Caller,
    HoistFrozenComputations,
    PassRecord,
    PassRunner,
    Prologue,
    default_passes,
)
from torchair.pipeline.fusion_switches import switched_off

__all__ = ["PassResults", "returned_inputs", "run_passes"]

#: Scope attributes that leave view optimization on (specification, F-64).
_SUPER_KERNEL = {"_super_kernel_scope", "_super_kernel_options"}


@dataclass(frozen=True, slots=True)
class PassResults:
    """What the passes did beside changing the graph.

    Attributes:
        records: A record of each pass.
        prologue: What is computed once for each state of the parameters; None where nothing is.
    """

    records: tuple[PassRecord, ...]
    prologue: Prologue | None


def run_passes(
    graph: Graph,
    inputs: Sequence[Any],
    options: Options,
    remade_outputs: Sequence[int] = (),
    *,
    fuel: int | None = None,
    frozen: Collection[int] = (),
    marked: Collection[int] = (),
) -> PassResults:
    """Optimize the graph in place.

    Args:
        inputs: Fake inputs, one for each graph input.
        remade_outputs: Numbers of the outputs that are inputs (:func:`returned_inputs`).
        fuel: How many passes may change the graph; None: no limit.
        frozen: Numbers of the graph inputs that are frozen parameters.
        marked: Numbers of the graph inputs that are weights to be packed.

    Raises:
        PassError: A pass failed.
        ConfigValueError: The file of fusion switches cannot be read.
    """
    overlapping = [i for i, given in enumerate(inputs) if isinstance(given, torch.Tensor) and _is_fixed(given)]
    passes = default_passes(Caller(remade_outputs, overlapping), options.topology_sorting_strategy, frozen, marked)
    disabled = switched_off(options, [p.name for p in passes])
    if not options.enable_view_optimize or any(map(_wants_its_views, graph)):
        disabled += VIEW_PASSES
    runner = PassRunner(
        passes,
        disabled_passes=disabled,
        pass_fuel=fuel,
        verify=options.verify_graphs,
    )
    records = runner.run(graph)
    prologue = next((p.prologue for p in passes if isinstance(p, HoistFrozenComputations)), None)
    return PassResults(records, prologue)


def _wants_its_views(node: Node) -> bool:
    """Whether a node turns view optimization off (specification, F-64).

    Inside a scope each node must stay one, to get the scope's attributes; and a product of quantized weights expects
    the layout that the program gives it.
    """
    return not node.scope.keys() <= _SUPER_KERNEL or node.op.startswith("WeightQuantBatchMatmul")


def returned_inputs(gm: fx.GraphModule) -> list[int]:
    """Numbers of the outputs of an FX graph that are one of its inputs after it was updated (``copy_`` returns it)."""
    (output,) = gm.graph.find_nodes(op="output")
    values: Sequence[Any] = output.args[0]
    copy = torch.ops.aten.copy_.default
    return [
        i
        for i, value in enumerate(values)
        if isinstance(value, fx.Node) and value.target is copy and value.all_input_nodes[0].op == "placeholder"
    ]


def _is_fixed(tensor: torch.Tensor) -> bool:
    """Whether the memory of an input is not to be written in place: several elements may lie at one address."""
    return tensor.layout is not torch.strided or _torch_compat.is_expanded(tensor)
