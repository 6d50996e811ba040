"""Compiled graphs that do not come from Dynamo: nothing guards their arguments, so each call checks them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import torch

from torchair import _torch_compat
from torchair.engines.base import BoxedExecutable
from torchair.engines.runtime_values import SymbolBinder
from torchair.errors import GraphInputError
from torchair.ir import Graph, Value
from torchair.ir.symbols import evaluate, evaluate_all
from torchair.opset.torch_types import torch_dtype

__all__ = ["StandaloneExecutable"]


class _Compiled(BoxedExecutable, Protocol):
    @property
    def written(self) -> tuple[int, ...]: ...


#: Compiles a graph for fake arguments of a fake mode.
Compile = Callable[[Graph, Sequence[Any], Any], _Compiled]


class _Variant:
    """One compile.

    Args:
        values: A value for each symbol. A size of 2 or more stays symbolic; 0, 1 and numbers that are not integers are
            fixed.
    """

    def __init__(self, graph: Graph, compile_for: Compile, values: Mapping[str, Any]) -> None:
        self.fixed = {name: value for name, value in values.items() if not _stays_symbolic(value)}
        fake_mode = _torch_compat.new_fake_mode()
        bindings: dict[str, Any] = dict(self.fixed)
        #: The symbol in the compile, by its name in the graph.
        self._symbols: dict[str, str] = {}
        for name, value in values.items():
            if name not in self.fixed:
                bindings[name] = _torch_compat.create_size_symbol(fake_mode, name, value)
                self._symbols[name] = str(bindings[name].node.expr)
        with fake_mode:
            inputs = [_fake_argument(value, bindings) for value in graph.inputs]
        self.executable = compile_for(graph, inputs, fake_mode)
        self._guards = _torch_compat.new_guards(fake_mode)

    def serves(self, values: Mapping[str, Any]) -> bool:
        """Whether what the compile assumed holds for these sizes."""
        if any(values[name] != value for name, value in self.fixed.items()):
            return False
        if not all(_stays_symbolic(values[name]) for name in self._symbols):
            return False
        bindings = {symbol: values[name] for name, symbol in self._symbols.items()}
        return all(evaluate(guard, bindings) for guard in self._guards)


def _stays_symbolic(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 2


def _fake_argument(value: Value, bindings: Mapping[str, Any]) -> Any:
    if value.type.content is not None:
        return evaluate(value.type.content[0], bindings)
    shape = evaluate_all(value.type.shape, bindings)
    return torch.empty(shape, dtype=torch_dtype(value.dtype), device=value.type.device)


class StandaloneExecutable:
    """A graph compiled for dense arguments.

    One compile serves all sizes for which its assumptions hold; other sizes (0 and 1 among them) are compiled when they
    come. Arguments in other strides are copied, and copied back if they are written.

    Args:
        compile_for: Compiles the graph for fake arguments.
    """

    def __init__(self, graph: Graph, compile_for: Compile) -> None:
        self._graph = graph
        self._compile_for = compile_for
        self._bind = SymbolBinder(graph)
        self._variants: list[_Variant] = []
        self._chosen: dict[tuple[Any, ...], _Variant] = {}
        self._lock = threading.Lock()
        numbers = [v for v in graph.inputs if v.type.content is not None and not v.dtype.is_integer]
        if not numbers:  # else the first call tells them
            # Distinct sizes, so that no two symbols look equal.
            guess = {name: 16 + 8 * i for i, name in enumerate(self._bind.names)}
            self._variants.append(_Variant(graph, compile_for, guess))

    def __call__(self, *inputs: Any) -> Sequence[Any]:
        """Run; see :class:`torchair.engines.base.Executable`."""
        return self.boxed(list(inputs))

    def boxed(self, inputs: list[Any]) -> Sequence[Any]:
        """Run on a list of arguments, which is emptied.

        Raises:
            GraphInputError: The arguments are not those of the graph.
            ExecutionError: An operator failed.
        """
        self._check(inputs)
        values = self._bind(inputs)
        variant = self._variant(values)
        written = variant.executable.written
        self._refuse_shared(inputs, written)
        copies = [
            (i, given, given.contiguous())
            for i, given in enumerate(inputs)
            if isinstance(given, torch.Tensor) and not given.is_contiguous()
        ]
        for i, _, copy in copies:
            inputs[i] = copy
        results = variant.executable.boxed(inputs)
        for i, given, copy in copies:
            if i in written:
                given.copy_(copy)
        return results

    def close(self) -> None:
        """Release the compiled code and the constants."""
        for variant in self._variants:
            variant.executable.close()
        self._chosen.clear()

    def _variant(self, values: Mapping[str, Any]) -> _Variant:
        key = tuple(values.values())
        found = self._chosen.get(key)
        if found is None:
            with self._lock:
                found = next((v for v in self._variants if v.serves(values)), None)
                if found is None:
                    found = _Variant(self._graph, self._compile_for, values)
                    self._variants.append(found)
                self._chosen[key] = found
        return found

    def _check(self, inputs: Sequence[Any]) -> None:
        expected = self._graph.inputs
        if len(inputs) != len(expected):
            raise _wrong_inputs([f"{len(expected)} arguments are expected, {len(inputs)} were given"])
        problems = [p for v, given in zip(expected, inputs, strict=True) if (p := _kind_problem(v, given))]
        if problems:
            raise _wrong_inputs(problems)
        values = self._bind(inputs)
        for value, given in zip(expected, inputs, strict=True):
            if isinstance(given, torch.Tensor):
                shape = evaluate_all(value.type.shape, values)
                if list(given.shape) != shape:
                    problems.append(f"%{value.name} has the shape {list(given.shape)}, the graph says {value.type}")
        if problems:
            raise _wrong_inputs(problems)

    def _refuse_shared(self, inputs: Sequence[Any], written: Sequence[int]) -> None:
        """A written argument must not share memory with another: the compiled code may write before it reads."""
        if not written:
            return
        storages = {
            i: _torch_compat.storage_id(t) for i, t in enumerate(inputs) if isinstance(t, torch.Tensor) and t.numel()
        }
        for i in written:
            for j, storage in storages.items():
                if j != i and storage == storages.get(i):
                    names = f"%{self._graph.inputs[i].name}, which the graph writes, and %{self._graph.inputs[j].name}"
                    raise _wrong_inputs([f"{names} share memory"])


def _kind_problem(value: Value, given: Any) -> str | None:
    if value.type.content is not None:
        numbers = (int,) if value.dtype.is_integer else (int, float)
        return None if isinstance(given, numbers) else f"%{value.name} is a number, {type(given).__name__} was given"
    if not isinstance(given, torch.Tensor):
        return f"%{value.name} is a tensor, {type(given).__name__} was given"
    if given.layout is not torch.strided or given.dtype != torch_dtype(value.dtype) or given.dim() != value.rank:
        return f"%{value.name} is {given.dtype} {list(given.shape)} ({given.layout}), the graph says {value.type}"
    if str(given.device) != value.type.device:
        return f"%{value.name} is on {given.device}, the graph says {value.type.device}"
    return None


def _wrong_inputs(problems: Sequence[str]) -> GraphInputError:
    return GraphInputError(
        "A compiled graph was called with other arguments than it has inputs",
        why=problems,
        fix="Pass one argument for each input of the graph, of its dtype and shape.",
    )
