"""What computes a node: a registered kernel, the operator's lowering, or the torch operator that it came from."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch

from torchair._torch_compat import OpOverload
from torchair.errors import MissingKernelError
from torchair.ir import Attr, Call, DType, Literal, Node, Slot
from torchair.opset.operator import operators
from torchair.opset.prototype import Prototype, prototypes
from torchair.opset.torch_types import torch_dtype

__all__ = [
    "Evaluator",
    "Kernel",
    "KernelRegistry",
    "evaluator_for",
    "flatten_results",
    "kernels",
    "overload_name",
    "resolve_overload",
]

#: ``(operands nested as the node's inputs, attributes) -> outputs, flattened``. A host operand is a list of numbers,
#: or one number.
Evaluator: TypeAlias = Callable[[Sequence[Any], Mapping[str, Any]], list[Any]]


@dataclass(frozen=True, slots=True)
class Kernel:
    """A user's implementation of an IR operator.

    Attributes:
        op: IR operator name.
        function: Takes tensors in the order of the prototype's inputs (None for an absent optional one, a list for a
        dynamic
            one) and attributes as keywords; returns the outputs in order, without those that have an input's name: it
            writes these into the input itself.
        kind: ``"cube"``, ``"vector"`` or None: which core budget limits it.
    """

    op: str
    function: Callable[..., Any]
    kind: str | None = None


class KernelRegistry:
    """Kernels by IR operator name (process-wide)."""

    def __init__(self) -> None:
        self._kernels: dict[str, Kernel] = {}
        self.revision = 0

    def register(self, kernel: Kernel) -> None:
        """Register; a later registration replaces an earlier one."""
        self._kernels[kernel.op] = kernel
        self.revision += 1

    def forget(self, op: str) -> None:
        """Drop the kernel of an operator."""
        self._kernels.pop(op, None)
        self.revision += 1

    def get(self, op: str) -> Kernel | None:
        return self._kernels.get(op)

    def __iter__(self) -> Iterator[Kernel]:
        return iter(tuple(self._kernels.values()))


#: The process-wide registry.
kernels = KernelRegistry()


def evaluator_for(op: str, call: Call | None, *, prefer_kernel: bool = True) -> Evaluator | None:
    """What computes an operator, in the order of architecture section 4; None when nothing does.

    Args:
        prefer_kernel: False puts a registered kernel last: type inference runs on fake tensors, which a lowering and
        a torch
            operator always take, while a kernel may not.
    """
    kernel = kernels.get(op)
    if kernel is not None and prefer_kernel:
        return _kernel_evaluator(kernel, prototypes.get(op))
    if (known := operators.get(op)) is not None and known.lowering is not None:
        return _lowering_evaluator(known.lowering)
    if call is not None:
        return _call_evaluator(call)
    return _kernel_evaluator(kernel, prototypes.get(op)) if kernel is not None else None


def node_evaluator(node: Node) -> Evaluator:
    """What computes a node.

    Raises:
        MissingKernelError: Nothing does.
    """
    evaluator = evaluator_for(node.op, node.call)
    if evaluator is None:
        raise missing_kernel(node)
    return evaluator


def missing_kernel(node: Node) -> MissingKernelError:
    """The error for an operator that nothing here can compute, with the ways out."""
    names = [spec.name for spec in proto.inputs] if (proto := prototypes.get(node.op)) else ["x"]
    attrs = "".join(f", {name}" for name in node.attrs)
    return MissingKernelError(
        "An Ascend IR operator has no kernel on this machine",
        why=[
            f"{node.op} (node {node.name}) is not an operator with a lowering, no kernel is registered for it,",
            "and it is not one-to-one with the torch operator it came from, so that one's eager kernel cannot stand in",
        ],
        fix=(
            f"Register a kernel:\n\n@torchair.ge.register_kernel({node.op!r})\n"
            f"def {node.op.lower()}({', '.join(names)}{', *' if attrs else ''}{attrs}):\n    return ...\n\n"
            "or install an operator project that has one, or let the converter pass the torch operator's\n"
            "arguments on unchanged and in order."
        ),
        where=node.origin.source,
    )


def _kernel_evaluator(kernel: Kernel, prototype: Prototype | None) -> Evaluator:
    references = prototype.reference_outputs if prototype else ()
    positions = {spec.name: i for i, spec in enumerate(prototype.inputs)} if prototype else {}
    outputs = [spec.name for spec in prototype.outputs] if prototype else []

    def run(operands: Sequence[Any], attrs: Mapping[str, Any]) -> list[Any]:
        operands, attrs = _resolved(operands, attrs, prototype)
        results = flatten_results(kernel.function(*operands, **attrs))
        if not references:
            return results
        rest = iter(results)
        return [operands[positions[name]] if name in references else next(rest) for name in outputs]

    return run


def _lowering_evaluator(lowering: Callable[..., Any]) -> Evaluator:
    def run(operands: Sequence[Any], attrs: Mapping[str, Any]) -> list[Any]:
        return flatten_results(lowering(*operands, **attrs))

    return run


def _resolved(
    operands: Sequence[Any], attrs: Mapping[str, Any], prototype: Prototype | None
) -> tuple[Sequence[Any], Mapping[str, Any]]:
    """Attributes that are known only at run time, read from the operands that follow the prototype's inputs."""
    if prototype is None or len(operands) == len(prototype.inputs):
        return operands, attrs
    flat = flatten_operands(operands)

    def value(attr: Any) -> Any:
        if isinstance(attr, Slot):
            return flat[attr.index]
        return tuple(value(a) for a in attr) if isinstance(attr, tuple) else attr

    return operands[: len(prototype.inputs)], {name: value(attr) for name, attr in attrs.items()}


def flatten_operands(operands: Sequence[Any]) -> list[Any]:
    """Operands with the lists of dynamic inputs flattened (a dynamic input is a tuple, host integers are a list)."""
    flat: list[Any] = []
    for operand in operands:
        flat.extend(operand) if isinstance(operand, tuple) else flat.append(operand)
    return flat


def flatten_results(result: Any) -> list[Any]:
    """Results of a torch operator or a lowering as a flat list; None (no tensor) is left out."""
    if result is None:
        return []
    if isinstance(result, tuple | list):
        return [leaf for item in result for leaf in flatten_results(item)]
    return [result]


def overload_name(overload: OpOverload) -> str:
    """``"ns::name.overload"``: what :func:`resolve_overload` reads."""
    return str(overload).replace(".", "::", 1)


def resolve_overload(target: str) -> OpOverload:
    """The overload that ``"ns::name.overload"`` names."""
    qualified, _, overload = target.rpartition(".")
    namespace, _, name = qualified.partition("::")
    return getattr(getattr(getattr(torch.ops, namespace), name), overload)  # type: ignore[no-any-return]


def _call_evaluator(call: Call) -> Evaluator:
    overload = resolve_overload(call.target)
    build_args = [_builder(a) for a in call.args]
    build_kwargs = [(name, _builder(a)) for name, a in call.kwargs]

    def run(operands: Sequence[Any], attrs: Mapping[str, Any]) -> list[Any]:
        flat = flatten_operands(operands)
        result = overload(*[b(flat, attrs) for b in build_args], **{k: b(flat, attrs) for k, b in build_kwargs})
        return [*(flat[i] for i in call.writes), *flatten_results(result)]

    return run


_ArgBuilder: TypeAlias = Callable[[Sequence[Any], Mapping[str, Any]], Any]


def _builder(template: Any) -> _ArgBuilder:
    """A function that makes one argument of a call from the operands and attributes of the node."""
    if isinstance(template, Slot):
        index = template.index
        return lambda flat, attrs: flat[index]
    if isinstance(template, Attr):
        name = template.name
        return lambda flat, attrs: torch_value(attrs[name])
    if isinstance(template, tuple | list):
        parts = [_builder(t) for t in template]
        return lambda flat, attrs: [part(flat, attrs) for part in parts]
    value = torch_value(template)
    return lambda flat, attrs: value


def torch_value(value: Any) -> Any:
    """An attribute or literal as torch takes it."""
    if isinstance(value, DType):
        return torch_dtype(value)
    if isinstance(value, tuple):
        return [torch_value(v) for v in value]
    if isinstance(value, Literal):
        if value.kind == "device":
            return torch.device(value.text)
        return getattr(torch, value.text)
    return value
