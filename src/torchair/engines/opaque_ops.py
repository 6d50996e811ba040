"""Nodes that a compiler must not look into, as operators of ``torch.library`` in the namespace ``torchair_ir``.

A user's kernel runs inside graphs of Inductor this way, and so do operators with side effects: the operator takes a
token that it claims to write, so that every compiler keeps all of them, in order. Its fake kernel makes what the node's
types say. The name carries a digest of all that is fixed (attributes, types, what is written), so that it means the
same in every process and may stand in a compile cache.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from torchair import _torch_compat
from torchair._torch_compat import OpOverload
from torchair.engines.runtime_values import host_flags, nest, nesting, restride
from torchair.errors import ExecutionError, OutputCheckError, TorchAirError
from torchair.ir import DType, Node
from torchair.ir.symbols import evaluate_all
from torchair.opset.kernels import Evaluator, kernels, node_evaluator
from torchair.opset.torch_types import torch_dtype

__all__ = ["OpaqueOp", "opaque_op", "stands_for"]

NAMESPACE = "torchair_ir"

_lock = threading.Lock()
_made: dict[tuple[str, int], tuple[OpOverload, Any]] = {}
_libraries: list[Any] = []
_stands_for: dict[str, str] = {}


@dataclass(frozen=True, slots=True)
class _Operand:
    """How one flattened operand reaches the operator.

    Attributes:
        kind: ``"tensor"``, ``"none"``, ``"ints"``, ``"bools"`` (passed as integers), ``"reals"`` (as a float64 tensor).
        count: Number of host numbers; None for one that is not in a list.
        written: The operator writes it.
        strided: Eager's strides are passed along, for compilers that do not keep them.
    """

    kind: str
    count: int | None = None
    written: bool = False
    strided: bool = False


@dataclass(frozen=True, slots=True)
class OpaqueOp:
    """A node as one operator.

    Attributes:
        overload: The operator: token, tensors, host integers, strides of tensors, sizes of the results.
        operands: How each operand is passed.
        returned: Numbers of the node's outputs that it returns; the others are written operands.
    """

    node: Node
    overload: OpOverload
    operands: tuple[_Operand, ...]
    returned: tuple[int, ...]

    def __call__(self, flat: Sequence[Any], bindings: Mapping[str, Any], token: Any) -> list[Any]:
        """Call it on flattened operands (while a graph is traced).

        Args:
            token: What orders operators with side effects; None for an operator without.

        Returns:
            One item for each output of the node.
        """
        tensors: list[Any] = [] if token is None else [token]
        numbers: list[Any] = []
        for operand, value in zip(self.operands, flat, strict=True):
            if operand.kind == "tensor":
                tensors.append(value)
            elif operand.kind == "reals":
                tensors.append(_real_tensor(value))
            elif operand.kind != "none":
                numbers.extend(
                    int(v) if isinstance(v, bool) else v for v in ([value] if operand.count is None else value)
                )
        strides = [
            s
            for operand, wanted in zip(self.operands, self.node.operand_strides, strict=False)
            if operand.strided and wanted is not None
            for s in evaluate_all(wanted, bindings)
        ]
        sizes = [s for i in self.returned for s in evaluate_all(self.node.outputs[i].type.shape, bindings)]
        results = self.overload(*tensors, numbers, strides, sizes)
        results = iter(results if isinstance(results, tuple | list) else () if results is None else (results,))
        written = dict(self.node.writes)
        return [flat[written[i]] if i in written else next(results) for i in range(len(self.node.outputs))]


def stands_for(operator: str) -> str:
    """What users know an operator by (``str(overload)``): one of ours by the node's operator, others by their name."""
    return _stands_for.get(operator, operator)


def opaque_op(node: Node) -> OpaqueOp:
    """The operator that stands for a node; registered when it is first needed.

    Raises:
        MissingKernelError: Nothing computes the node.
    """
    evaluate = node_evaluator(node)
    written = dict(node.writes)
    strides = [*node.operand_strides, *[None] * len(node.operands)]
    operands = tuple(
        _operand(value, host, i in written.values(), strides[i] is not None)
        for i, (value, host) in enumerate(zip(node.operands, host_flags(node), strict=True))
    )
    returned = tuple(i for i in range(len(node.outputs)) if i not in written)
    kernel = kernels.get(node.op)
    text = _signature(node, operands, returned)
    with _lock:
        # A kernel that was registered later under the same name is another operator: a compiled graph keeps the one it
        # had.
        function = kernel.function if kernel is not None else None
        version = 0
        while (found := _made.get((text, version))) is not None and found[1] is not function:
            version += 1
        if found is None:
            found = _register(node, operands, returned, evaluate, text, version), function
            _made[text, version] = found
    return OpaqueOp(node, found[0], operands, returned)


def _operand(value: Any, host: bool, written: bool, strided: bool) -> _Operand:
    if value is None:
        return _Operand("none")
    if not host:
        keep = strided and not written and not _torch_compat.inductor_keeps_strides()
        return _Operand("tensor", written=written, strided=keep)
    kind = "ints" if value.dtype.is_integer else "bools" if value.dtype is DType.DT_BOOL else "reals"
    return _Operand(kind, len(value.type.content or ()) if value.rank else None)


def _signature(node: Node, operands: Sequence[_Operand], returned: Sequence[int]) -> str:
    types = tuple((node.outputs[i].dtype.name, node.outputs[i].rank, node.outputs[i].type.device) for i in returned)
    parts = (node.op, node.call, tuple(node.attrs.items()), nesting(node), tuple(operands), node.writes, types)
    return repr((*parts, node.side_effects))


def _real_tensor(value: Any) -> torch.Tensor:
    if isinstance(value, list):
        return torch.stack([_real_tensor(v) for v in value]) if value else torch.empty(0, dtype=torch.float64)
    return torch.full((), float(value) if isinstance(value, bool) else value, dtype=torch.float64)


def _register(
    node: Node, operands: Sequence[_Operand], returned: Sequence[int], evaluate: Evaluator, text: str, version: int
) -> OpOverload:
    name = f"{node.op}_{hashlib.sha256(text.encode()).hexdigest()[:12]}" + (f"_{version}" if version else "")
    run = _Implementation(node, tuple(operands), tuple(returned), evaluate)
    library: Any = torch.library.Library(NAMESPACE, "FRAGMENT")  # type: ignore[no-untyped-call]
    library.define(name + run.schema(), tags=_tags())
    library.impl(name, run, "CompositeExplicitAutograd")
    torch.library.register_fake(f"{NAMESPACE}::{name}", run.fake, lib=library)
    _libraries.append(library)
    overload: OpOverload = getattr(getattr(torch.ops, NAMESPACE), name).default
    _stands_for[str(overload)] = node.op if node.call is None else node.call.target.replace("::", ".")
    return overload


def _tags() -> tuple[torch.Tag, ...]:
    return (torch.Tag.pt2_compliant_tag, _torch_compat.strides_tag())


class _Implementation:
    """Kernel and fake kernel of one operator. It keeps no node: many nodes share it, and it outlives them."""

    def __init__(
        self, node: Node, operands: tuple[_Operand, ...], returned: tuple[int, ...], evaluate: Evaluator
    ) -> None:
        self.op = node.op
        self.attrs = dict(node.attrs)
        self.operands = operands
        self.returned = returned
        self.outputs = len(node.outputs)
        self.types = [node.outputs[i].type for i in returned]
        self.written = dict(node.writes)
        self.effects = node.side_effects
        self.evaluate = evaluate
        self.nesting = nesting(node)

    def schema(self) -> str:
        """Arguments and results; integers of all host operands are one list, sizes of all results another."""
        arguments = ["Tensor(t!) token"] if self.effects else []
        for i, operand in enumerate(self.operands):
            if operand.kind in ("tensor", "reals"):
                arguments.append(f"Tensor{f'(w{i}!)' if operand.written else ''} x{i}")
        arguments += ["SymInt[] numbers", "SymInt[] strides", "SymInt[] sizes"]
        results = ["Tensor"] * len(self.returned)
        return f"({', '.join(arguments)}) -> {results[0] if len(results) == 1 else '(' + ', '.join(results) + ')'}"

    def fake(self, *args: Any) -> Any:
        """Dense results of the types that the node has."""
        *_, sizes = args
        results = []
        position = 0
        for type in self.types:
            shape = sizes[position : position + type.rank]
            position += type.rank
            results.append(torch.empty(shape, dtype=torch_dtype(type.dtype), device=type.device))
        return self._packed(results)

    def __call__(self, *args: Any) -> Any:
        """Run the node.

        Raises:
            ExecutionError: It failed, or returned another number of results.
            OutputCheckError: A result has another type than the graph says.
        """
        *tensors, numbers, strides, sizes = args
        flat = self._operands(tensors[1:] if self.effects else tensors, list(numbers), list(strides))
        try:
            outputs = self.evaluate(nest(self.nesting, flat), self.attrs)
        except TorchAirError:
            raise
        except Exception as e:
            raise ExecutionError.of(e, self.op) from e
        if len(outputs) != self.outputs:
            raise ExecutionError(
                "An operator returned another number of results than its prototype has",
                why=f"{self.op} returned {len(outputs)}, {self.outputs} are declared",
                fix="Correct the kernel, or the prototype.",
            )
        for i, operand in self.written.items():
            _write(flat[operand], outputs[i])
        return self._packed(self._checked([outputs[i] for i in self.returned], list(sizes), flat))

    def _operands(self, tensors: Sequence[Any], numbers: list[int], strides: list[int]) -> list[Any]:
        given, position = iter(tensors), 0
        flat: list[Any] = []
        for operand in self.operands:
            if operand.kind == "none":
                flat.append(None)
            elif operand.kind == "tensor":
                tensor = next(given)
                if operand.strided:
                    tensor = restride(tensor, strides[: tensor.dim()], {})
                    del strides[: tensor.dim()]
                flat.append(tensor)
            elif operand.kind == "reals":
                flat.append(next(given).tolist())
            else:
                count = 1 if operand.count is None else operand.count
                some = [bool(n) if operand.kind == "bools" else n for n in numbers[position : position + count]]
                position += count
                flat.append(some[0] if operand.count is None else some)
        return flat

    def _checked(self, results: Sequence[Any], sizes: Sequence[int], flat: Sequence[Any]) -> list[torch.Tensor]:
        """Results as the compiler expects them: of the promised type, dense, in memory of their own."""
        taken = {_torch_compat.storage_id(t) for t in flat if isinstance(t, torch.Tensor)}
        checked = []
        position = 0
        for number, (result, type) in enumerate(zip(results, self.types, strict=True)):
            shape = tuple(sizes[position : position + type.rank])
            position += type.rank
            tensor = result if isinstance(result, torch.Tensor) else torch.tensor(result, dtype=torch_dtype(type.dtype))
            if tensor.dtype != torch_dtype(type.dtype) or tuple(tensor.shape) != shape:
                raise OutputCheckError(
                    "An operator returned a result of another type than its meta function promised",
                    why=(
                        f"{self.op}, result {number}: {tensor.dtype} {list(tensor.shape)}, "
                        f"promised {torch_dtype(type.dtype)} {list(shape)}"
                    ),
                    fix="Correct the kernel, or the meta function of the torch operator.",
                )
            tensor = tensor.contiguous()
            if (key := _torch_compat.storage_id(tensor)) in taken:
                tensor = tensor.clone()
                key = _torch_compat.storage_id(tensor)
            taken.add(key)
            checked.append(tensor)
        return checked

    def _packed(self, results: list[torch.Tensor]) -> Any:
        return None if not results else results[0] if len(results) == 1 else tuple(results)


def _write(target: torch.Tensor, value: torch.Tensor) -> None:
    """A lowering may return a new value instead of writing its operand."""
    if value is not target and _torch_compat.storage_id(value) != _torch_compat.storage_id(target):
        target.copy_(value)
