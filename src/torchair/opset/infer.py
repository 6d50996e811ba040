"""Type inference: the type rule of an operator is its lowering run on fake tensors.

One :class:`TypeInference` serves one graph: it owns the fake mode whose symbols the graph's sizes are made of, and
remembers what it has inferred, since the layers of a model repeat.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import sympy
import torch

from torchair import _torch_compat
from torchair.errors import TorchAirError, TypeRuleError
from torchair.ir import Call, Dim, TensorType
from torchair.opset.kernels import fake_evaluator_for
from torchair.opset.operator import infer_types, operators
from torchair.opset.prototype import prototypes
from torchair.opset.torch_types import host_type, tensor_type, torch_dtype

__all__ = ["Inferred", "TypeInference", "host_inputs", "host_operand"]

#: Types of the outputs, and which output may share memory with which flattened operand.
Inferred = tuple[tuple[TensorType, ...], tuple[tuple[int, int], ...]]

_Types = Sequence["TensorType | None | tuple[TensorType, ...]"]


def host_inputs(op: str) -> tuple[bool, ...]:
    """For each prototype input, whether it is declared as host integers."""
    prototype = prototypes.get(op)
    return tuple(spec.host for spec in prototype.inputs) if prototype else ()


def host_operand(content: Sequence[Any], rank: int) -> Any:
    """Host numbers as a lowering receives them: a list, or one number for a 0-d value."""
    return list(content) if rank else content[0]


class TypeInference:
    """Infers the types of nodes.

    Args:
        fake_mode: The mode of the compile in progress; a new one by default.
    """

    def __init__(self, fake_mode: Any = None) -> None:
        self.fake_mode = fake_mode if fake_mode is not None else _torch_compat.new_fake_mode()
        self._memo: dict[Any, Inferred] = {}

    def number(self, dim: Dim) -> Any:
        """A size as torch takes it: an int, or a symbolic number."""
        if not isinstance(dim, sympy.Basic):
            return dim
        if isinstance(dim, sympy.logic.boolalg.Boolean) and not isinstance(dim, sympy.Symbol):
            return _torch_compat.symbolic_number(self.fake_mode, dim, bool)
        pytype = int if dim.is_integer else float
        return _torch_compat.symbolic_number(self.fake_mode, dim, pytype)

    def fake(self, type: TensorType) -> torch.Tensor:
        """A dense fake tensor of a type."""
        with self.fake_mode:
            return torch.empty([self.number(d) for d in type.shape], dtype=torch_dtype(type.dtype), device=type.device)

    def infer(
        self,
        op: str,
        types: _Types,
        attrs: Mapping[str, Any],
        call: Call | None = None,
        *,
        writes: Sequence[tuple[int, int]] = (),
    ) -> Inferred | None:
        """Types of a node's outputs, or None where nothing tells them.

        Args:
            writes: ``Node.writes``, for an operator that only a registered kernel computes.

        Raises:
            TypeRuleError: The operator refuses these types.
        """
        key = (op, tuple(types), tuple(attrs.items()), call)
        found = self._memo.get(key)
        if found is None:
            found = self._infer(op, types, attrs, call, writes)
            if found is not None:
                self._memo[key] = found
        return found

    def _infer(
        self, op: str, types: _Types, attrs: Mapping[str, Any], call: Call | None, writes: Sequence[tuple[int, int]]
    ) -> Inferred | None:
        known = operators.get(op)
        outputs: tuple[TensorType, ...]
        aliases: tuple[tuple[int, int], ...] = ()
        try:
            if known is not None and (by_rule := infer_types(known, types, dict(attrs))) is not None:
                outputs = tuple(by_rule)
                aliases = ((0, 0),) if known.view else ()
            else:
                result = self._run_fake(op, types, attrs, call, writes)
                if result is None:
                    return None
                outputs, aliases = result
            if known is not None and known.content_rule is not None:
                content = known.content_rule(*types, **attrs) if outputs[0].rank <= 1 else None
                outputs = (outputs[0].with_content(content), *outputs[1:])
            return outputs, aliases
        except TorchAirError:
            raise
        except Exception as e:
            raise TypeRuleError(
                "An Ascend IR operator refuses its inputs",
                why=[f"{op}({', '.join(map(_show, types))}){_show_attrs(attrs)}", f"{type(e).__name__}: {e}"],
                fix="Check the arguments that the converter passes to it.",
            ) from e

    def _run_fake(
        self, op: str, types: _Types, attrs: Mapping[str, Any], call: Call | None, writes: Sequence[tuple[int, int]]
    ) -> Inferred | None:
        evaluator = fake_evaluator_for(op, call, writes=writes)
        if evaluator is None:
            return None
        hosts = host_inputs(op)
        slots = _host_slots(call) if op not in operators else frozenset()
        flat: list[Any] = []
        operands: list[Any] = []
        for index, t in enumerate(types):
            host = index < len(hosts) and hosts[index]
            if isinstance(t, tuple):
                part = tuple(self._operand(e, host or len(flat) + i in slots) for i, e in enumerate(t))
                flat.extend(part)
                operands.append(part)
            else:
                part = self._operand(t, host or len(flat) in slots)
                flat.append(part)
                operands.append(part)
        with self.fake_mode:
            results = evaluator(operands, attrs)
        types_out = tuple(tensor_type(r) if isinstance(r, torch.Tensor) else host_type(r) for r in results)
        return types_out, _shared_memory(results, flat)

    def _operand(self, type: TensorType | None, host: bool) -> Any:
        if type is None:
            return None
        if host and type.content is not None:
            return host_operand([self.number(d) for d in type.content], type.rank)
        return self.fake(type)


def _host_slots(call: Call | None) -> frozenset[int]:
    """Operand numbers that a call takes as Python numbers."""
    from torchair.ir import Slot

    found: set[int] = set()

    def visit(template: Any) -> None:
        if isinstance(template, Slot) and template.host:
            found.add(template.index)
        elif isinstance(template, tuple | list):
            for t in template:
                visit(t)

    if call is not None:
        visit(call.args)
        visit([value for _, value in call.kwargs])
    return frozenset(found)


def _shared_memory(results: Sequence[Any], operands: Sequence[Any]) -> tuple[tuple[int, int], ...]:
    """Which result lies in the storage of which operand."""
    storages = {_torch_compat.storage_id(o): i for i, o in enumerate(operands) if isinstance(o, torch.Tensor)}
    return tuple(
        (i, storages[key])
        for i, r in enumerate(results)
        if isinstance(r, torch.Tensor) and (key := _torch_compat.storage_id(r)) in storages
    )


def _show(type: Any) -> str:
    if type is None:
        return "-"
    if isinstance(type, tuple):
        return "[" + ", ".join(map(_show, type)) + "]"
    content = f" = {list(type.content)}" if type.content is not None else ""
    return f"{type}{content}"


def _show_attrs(attrs: Mapping[str, Any]) -> str:
    return " " + ", ".join(f"{k}={v!r}" for k, v in attrs.items()) if attrs else ""
