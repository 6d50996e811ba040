"""One call of an operator, eagerly and in GE mode."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from torchair import _torch_compat
from torchair._torch_compat import OpOverload
from torchair.config import CompilerConfig
from torchair.pipeline.backends import get_compiler

__all__ = ["Comparison", "compare_modes"]


@dataclass(frozen=True, slots=True)
class Comparison:
    """What became of one call.

    Attributes:
        problems: What differs between the modes, one sentence each.
        error: The exception that eager mode or GE mode raised, if any.
        mode: The mode that raised it: ``"eager"`` or ``"GE"``.
    """

    problems: tuple[str, ...] = ()
    error: Exception | None = None
    mode: str = ""


def compare_modes(
    overload: OpOverload,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    *,
    config: CompilerConfig | None = None,
    rtol: float | None = None,
    atol: float | None = None,
) -> Comparison:
    """Call an operator eagerly and as a compiled graph, on copies of the arguments, and compare results and arguments.

    Args:
        config: Configuration of GE mode; by default the reference engine.
        rtol, atol: Tolerances as of ``torch.testing.assert_close``.
    """
    if config is None:
        config = CompilerConfig()
        config.engine = "reference"
    flat, rebuild = _torch_compat.flatten_call(args, kwargs)
    eager_flat, graph_flat = _copies(flat), _copies(flat)
    with torch.no_grad():
        try:
            eager_args, eager_kwargs = rebuild(eager_flat)
            expected = overload(*eager_args, **eager_kwargs)
        except Exception as e:  # noqa: BLE001  # whatever a user's kernel raises is the finding
            return Comparison(error=e, mode="eager")
        try:
            gm, positions = _graph_of(overload, flat, rebuild)
            inputs = [graph_flat[i] for i in positions]
            actual = get_compiler(config)(gm, inputs)(*inputs)
        except Exception as e:  # noqa: BLE001
            return Comparison(error=e, mode="GE")
    problems = [*_differences("result", _leaves(actual), _leaves(expected), rtol, atol)]
    problems += _differences(
        "argument",
        [t for t in graph_flat if isinstance(t, torch.Tensor)],
        [t for t in eager_flat if isinstance(t, torch.Tensor)],
        rtol,
        atol,
    )
    return Comparison(tuple(problems))


def _graph_of(overload: OpOverload, flat: Sequence[Any], rebuild: Any) -> tuple[fx.GraphModule, list[int]]:
    """A graph of the one call, whose inputs are the tensors among the arguments."""
    graph = fx.Graph()
    positions = [i for i, a in enumerate(flat) if isinstance(a, torch.Tensor)]
    nodes = {i: graph.placeholder(f"arg{i}") for i in positions}
    args, kwargs = rebuild([nodes.get(i, a) for i, a in enumerate(flat)])
    graph.output((graph.call_function(overload, args, kwargs),))
    return fx.GraphModule(torch.nn.Module(), graph), positions


def _copies(flat: Sequence[Any]) -> list[Any]:
    """The arguments with memory of their own; views of one storage stay views of one."""
    storages: dict[int, torch.UntypedStorage] = {}
    copies: list[Any] = []
    for value in flat:
        if isinstance(value, torch.Tensor) and value.layout is torch.strided:
            key = _torch_compat.storage_id(value)
            if key not in storages:
                storages[key] = _torch_compat.storage_copy(value)
            storage = storages[key]
            made = torch.empty(0, dtype=value.dtype, device=value.device)
            copies.append(made.set_(storage, value.storage_offset(), value.size(), value.stride()))
        else:
            copies.append(value)
    return copies


def _differences(
    title: str, actual: Sequence[Any], expected: Sequence[Any], rtol: float | None, atol: float | None
) -> list[str]:
    if len(actual) != len(expected):
        return [f"{len(actual)} {title}s in GE mode, {len(expected)} in eager mode"]
    pairs = enumerate(zip(actual, expected, strict=True))
    found = ((i, _difference(a, b, rtol, atol)) for i, (a, b) in pairs)
    return [f"{title} {i} differs between GE mode and eager mode: {text}" for i, text in found if text]


def _difference(a: Any, b: Any, rtol: float | None, atol: float | None) -> str:
    try:
        torch.testing.assert_close(a, b, rtol=rtol, atol=atol, equal_nan=True, check_stride=True)
    except AssertionError as e:
        return " ".join(str(e).split())
    return ""


def _leaves(value: Any) -> list[Any]:
    if value is None:
        return []
    return [leaf for v in value for leaf in _leaves(v)] if isinstance(value, list | tuple) else [value]
