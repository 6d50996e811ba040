"""One call of an operator, eagerly and as a graph of GE mode or of capture mode."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import torch
from torch import fx

from torchair import _torch_compat
from torchair._torch_compat import OpOverload
from torchair.config import CompilerConfig
from torchair.customop.calls import Call, copies
from torchair.pipeline.backends import get_capture_compiler, get_compiler

__all__ = ["MODES", "Comparison", "Mode", "SymbolicGraph", "compare_modes", "leaves", "same"]

Mode: TypeAlias = Literal["GE", "npugraph_ex"]

MODES: tuple[Mode, ...] = ("GE", "npugraph_ex")


@dataclass(frozen=True, slots=True)
class Comparison:
    """What became of one call.

    Attributes:
        problems: What differs between the modes, one sentence each.
        error: The exception that eager mode or the graph raised, if any.
        mode: The mode that raised it: ``"eager"``, ``"GE"`` or ``"npugraph_ex"``.
        results: What the graph returned, flat, and its tensor arguments afterwards.
    """

    problems: tuple[str, ...] = ()
    error: Exception | None = None
    mode: str = ""
    results: tuple[Any, ...] = field(default=(), compare=False, repr=False)

    @property
    def ok(self) -> bool:
        """Both ran, and agree."""
        return self.error is None and not self.problems


def compare_modes(
    overload: OpOverload,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    *,
    mode: Mode = "GE",
    config: CompilerConfig | None = None,
    rtol: float | None = None,
    atol: float | None = None,
) -> Comparison:
    """Call an operator eagerly and as a compiled graph, on copies of the arguments, and compare results and arguments.

    Args:
        mode: What the graph is compiled for.
        config: Configuration of GE mode; by default the reference engine.
        rtol, atol: Tolerances as of ``torch.testing.assert_close``.
    """
    flat, rebuild = _torch_compat.flatten_call(args, kwargs)
    with torch.no_grad():
        gm, positions = _graph_of(overload, flat, rebuild)

        def graph(values: list[Any]) -> Any:
            inputs = [values[i] for i in positions]
            return _compiler(mode, config)(gm, inputs)(*inputs)

        return _compared(overload, flat, rebuild, graph, mode, rtol, atol)


class SymbolicGraph:
    """A graph of one call, compiled once for symbolic sizes.

    Attributes:
        error: What its compile raised, if anything.
    """

    def __init__(self, overload: OpOverload, call: Call, mode: Mode) -> None:
        self.overload, self.mode = overload, mode
        self.error: Exception | None = None
        self._compiled: Callable[..., Any] = lambda *inputs: inputs
        self._positions: list[int] = []
        try:
            fake_mode = _torch_compat.symbolic_fake_mode()
            symbols = {n: _torch_compat.create_size_symbol(fake_mode, n, call.sizes[n]) for n in call.variables}
            with torch.no_grad():
                with fake_mode:
                    args, kwargs = call.fake(symbols)
                flat, rebuild = _torch_compat.flatten_call(args, kwargs)
                gm, self._positions = _graph_of(overload, flat, rebuild)
                self._compiled = _compiler(mode, None)(gm, [flat[i] for i in self._positions])
        except Exception as e:  # noqa: BLE001  # whatever a user's fake kernel or converter raises is the finding
            self.error = e

    def compare(self, call: Call) -> Comparison:
        """Run it with a call at other sizes, and compare with eager mode."""
        if self.error is not None:
            return Comparison(error=self.error, mode=self.mode)
        # The graph was compiled for tensors as the call describes them; the user's own may lie otherwise in memory.
        flat, rebuild = _torch_compat.flatten_call(*call.replacing(lambda spec: spec).real())

        def graph(values: list[Any]) -> Any:
            return self._compiled(*(values[i] for i in self._positions))

        with torch.no_grad():
            return _compared(self.overload, flat, rebuild, graph, self.mode, None, None)


def _compiler(mode: Mode, config: CompilerConfig | None) -> Callable[..., Callable[..., Any]]:
    if mode == "npugraph_ex":
        return get_capture_compiler()
    if config is None:
        config = CompilerConfig()
        config.engine = "reference"
    return get_compiler(config)


def _compared(
    overload: OpOverload,
    flat: Sequence[Any],
    rebuild: Any,
    graph: Callable[[list[Any]], Any],
    mode: Mode,
    rtol: float | None,
    atol: float | None,
) -> Comparison:
    eager_flat, graph_flat = copies(flat), copies(flat)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            eager_args, eager_kwargs = rebuild(eager_flat)
            expected = overload(*eager_args, **eager_kwargs)
        except Exception as e:  # noqa: BLE001  # whatever a user's kernel raises is the finding
            return Comparison(error=e, mode="eager")
        try:
            actual = graph(graph_flat)
        except Exception as e:  # noqa: BLE001
            return Comparison(error=e, mode=mode)
    tensors, eager_tensors = ([t for t in f if isinstance(t, torch.Tensor)] for f in (graph_flat, eager_flat))
    problems = [*_differences("result", leaves(actual), leaves(expected), mode, rtol, atol)]
    problems += _differences("argument", tensors, eager_tensors, mode, rtol, atol)
    return Comparison(tuple(problems), mode=mode, results=(*leaves(actual), *tensors))


def _graph_of(overload: OpOverload, flat: Sequence[Any], rebuild: Any) -> tuple[fx.GraphModule, list[int]]:
    """A graph of the one call, whose inputs are the tensors among the arguments."""
    graph = fx.Graph()
    positions = [i for i, a in enumerate(flat) if isinstance(a, torch.Tensor)]
    nodes = {i: graph.placeholder(f"arg{i}") for i in positions}
    args, kwargs = rebuild([nodes.get(i, a) for i, a in enumerate(flat)])
    graph.output((graph.call_function(overload, args, kwargs),))
    return fx.GraphModule(torch.nn.Module(), graph), positions


def _differences(
    title: str, actual: Sequence[Any], expected: Sequence[Any], mode: Mode, rtol: float | None, atol: float | None
) -> list[str]:
    name = "GE mode" if mode == "GE" else "npugraph_ex mode"
    if len(actual) != len(expected):
        return [f"{len(actual)} {title}s in {name}, {len(expected)} in eager mode"]
    pairs = enumerate(zip(actual, expected, strict=True))
    found = ((i, _difference(a, b, rtol, atol)) for i, (a, b) in pairs)
    return [f"{title} {i} differs between {name} and eager mode: {text}" for i, text in found if text]


def _difference(a: Any, b: Any, rtol: float | None, atol: float | None) -> str:
    try:
        torch.testing.assert_close(a, b, rtol=rtol, atol=atol, equal_nan=True, check_stride=True)
    except AssertionError as e:
        return " ".join(str(e).split())
    return ""


def same(a: Any, b: Any) -> bool:
    """Whether two values are close, as results of the same computation are; strides do not matter."""
    try:
        torch.testing.assert_close(a, b, equal_nan=True)
    except (AssertionError, TypeError, ValueError):
        return False
    return True


def leaves(value: Any) -> list[Any]:
    """The results of an operator, flat, without those that are None."""
    if value is None:
        return []
    return [leaf for v in value for leaf in leaves(v)] if isinstance(value, list | tuple) else [value]
