"""What a recorder knows of the values of an FX graph: their numbers under a shape key, and what memory they share."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import fx

from torchair import _torch_compat
from torchair._torch_compat import OpOverload
from torchair.errors import CaptureError

__all__ = [
    "KeySource",
    "Numbers",
    "aliases_arguments",
    "call_arguments",
    "is_contiguous",
    "is_dense",
    "is_dense_cpu",
    "key_sources",
    "key_symbols",
    "reach",
    "tensor_leaves",
    "written_arguments",
]

#: Views by what they do, though their schemas do not say so.
_UNDECLARED_VIEWS = frozenset({"aten::_unsafe_view"})

Symbols = Mapping[Any, int]


class Numbers:
    """Numbers of FX graphs as integers, once the symbols of a shape key have values.

    Args:
        symbols: Symbols of the key and their values.
    """

    def __init__(self, symbols: Symbols) -> None:
        self._symbols = dict(symbols)
        self._memo: dict[tuple[type, Any], int | float | bool | None] = {}

    @property
    def symbols(self) -> Mapping[Any, Any]:
        """The value of each symbol, as an expression."""
        return {symbol: _torch_compat.sympy_number(value) for symbol, value in self._symbols.items()}

    def value(self, number: Any) -> Any:
        """The number, or None when it depends on a symbol that is not in the key."""
        if not isinstance(number, torch.SymInt | torch.SymFloat | torch.SymBool):
            return number
        key = type(number), number.node.expr
        if key not in self._memo:
            self._memo[key] = _evaluate(number, self._symbols)
        return self._memo[key]

    def all(self, numbers: Any) -> tuple[int, ...] | None:
        """Several numbers, or None when one of them is not known."""
        values = tuple(self.value(n) for n in numbers)
        return None if any(v is None for v in values) else values


def _evaluate(number: Any, symbols: Symbols) -> int | float | bool | None:
    expr = number.node.expr
    if not expr.free_symbols <= symbols.keys():
        return None
    found = expr.xreplace({s: _torch_compat.sympy_number(symbols[s]) for s in expr.free_symbols})
    if isinstance(number, torch.SymBool):
        return bool(found)
    return int(found) if isinstance(number, torch.SymInt) else float(found)


def tensor_leaves(value: Any) -> Iterator[torch.Tensor]:
    """The tensors in ``meta["val"]``."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for v in value:
            yield from tensor_leaves(v)


def key_symbols(graph: fx.Graph) -> list[Any]:
    """The symbols that decide sizes and strides in a graph, in order of appearance.

    Without those of sizes that are known only when an operator has run.
    """
    found: dict[Any, None] = {}
    for node in graph.nodes:
        for tensor in tensor_leaves(node.meta.get("val")):
            for number in (*tensor.shape, *(tensor.stride() if tensor.layout is torch.strided else ())):
                if isinstance(number, torch.SymInt):
                    for symbol in sorted(number.node.expr.free_symbols, key=str):
                        if not _torch_compat.is_unbacked(symbol):
                            found.setdefault(symbol)
    return list(found)


@dataclass(frozen=True, slots=True)
class KeySource:
    """Where a call finds the value of a symbol.

    Attributes:
        symbol: The symbol.
        position: Which input.
        of: ``"number"``: the input itself; ``"size"`` or ``"stride"``: one of a tensor's.
        dim: Which one.
    """

    symbol: Any
    position: int
    of: str = "number"
    dim: int = 0

    def read(self, inputs: Sequence[Any]) -> int:
        """The value in a call."""
        given = inputs[self.position]
        if self.of == "number":
            return given  # type: ignore[no-any-return]
        return int(given.size(self.dim) if self.of == "size" else given.stride(self.dim))


def key_sources(graph: fx.Graph, symbols: Sequence[Any]) -> list[KeySource]:
    """Where the values of symbols are found: in an input that is a number before a size, before a stride.

    Raises:
        CaptureError: A symbol is none of these.
    """
    found: dict[Any, KeySource] = {}

    def note(number: Any, source: KeySource) -> None:
        if isinstance(number, torch.SymInt | torch.SymFloat | torch.SymBool) and number.node.expr.is_Symbol:
            found.setdefault(number.node.expr, replace(source, symbol=number.node.expr))

    values = [node.meta.get("val") for node in graph.nodes if node.op == "placeholder"]
    for i, value in enumerate(values):
        note(value, KeySource(None, i))
    for of in ("size", "stride"):
        for i, value in enumerate(values):
            if isinstance(value, torch.Tensor) and value.layout is torch.strided:
                for d, number in enumerate(value.shape if of == "size" else value.stride()):
                    note(number, KeySource(None, i, of, d))
    missing = [str(s) for s in symbols if s not in found]
    if missing:
        raise CaptureError(
            "A size of the graph cannot be found in its inputs",
            why=[f"{name}: no input is this number, and none has it as a size or a stride" for name in missing],
            fix="Pass the number as an input of the graph.",
        )
    return [found[s] for s in symbols]


def call_arguments(op: OpOverload, node: fx.Node) -> list[Any]:
    """The arguments of a call in the order of the schema, defaults filled in."""
    result = []
    for i, argument in enumerate(op._schema.arguments):
        if argument.kwarg_only or i >= len(node.args):
            result.append(node.kwargs.get(argument.name, argument.default_value))
        else:
            result.append(node.args[i])
    return result


def written_arguments(op: OpOverload) -> list[int]:
    """Positions of the arguments that a call writes."""
    return [i for i, a in enumerate(op._schema.arguments) if a.alias_info is not None and a.alias_info.is_write]


def aliases_arguments(op: OpOverload) -> list[int]:
    """Positions of the arguments that results may be views of."""
    if op._schema.name in _UNDECLARED_VIEWS:
        return [0]
    labels: set[str] = set()
    lists = False  # of a list of views, ``Tensor(a)[]``, PyTorch tells no label; its argument is ``Tensor(a -> *)``
    for r in op._schema.returns:
        if r.alias_info is not None:
            labels |= set(r.alias_info.before_set)
            lists |= not r.alias_info.before_set
    return [
        i
        for i, a in enumerate(op._schema.arguments)
        if a.alias_info is not None
        and (labels & set(a.alias_info.before_set) or (lists and "*" in a.alias_info.after_set))
    ]


def is_dense_cpu(tensor: Any) -> bool:
    """Whether a value is a strided tensor on the CPU."""
    return isinstance(tensor, torch.Tensor) and tensor.device.type == "cpu" and tensor.layout is torch.strided


def reach(sizes: Sequence[int], strides: Sequence[int]) -> int:
    """Elements of memory from the first to the last of a tensor, those in gaps included."""
    if 0 in sizes:
        return 0
    return 1 + sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True))


def is_dense(sizes: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether elements fill their memory without gaps and overlaps."""
    expected = 1
    for size, stride in sorted(zip(sizes, strides, strict=True), key=operator.itemgetter(1, 0)):
        if size == 1:
            continue
        if stride != expected:
            return 0 in sizes
        expected *= size
    return True


def is_contiguous(sizes: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether elements lie in the order of their indices, without gaps."""
    expected = 1
    for size, stride in zip(reversed(sizes), reversed(strides), strict=True):
        if size != 1 and stride != expected:
            return False
        expected *= max(size, 1)
    return True
