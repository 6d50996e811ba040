"""What computes a node: a registered kernel, the operator's lowering, or the torch operator that it came from."""

from __future__ import annotations

import inspect
import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch

from torchair._torch_compat import OpOverload
from torchair.errors import MissingKernelError
from torchair.ir import Attr, Call, DType, Literal, Node, Slot
from torchair.opset.operator import operators
from torchair.opset.prototype import prototypes
from torchair.opset.torch_types import torch_dtype

__all__ = [
    "Evaluator",
    "Kernel",
    "KernelRegistry",
    "evaluator_for",
    "fake_evaluator_for",
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
            dynamic one) and attributes as keywords; returns the outputs in order, without those that have an input's
            name: it writes these into the input itself.
        kind: ``"cube"``, ``"vector"`` or None: which core budget limits it.
        fake: The same on fake tensors, for type inference; None where the types of its results come from FX.
    """

    op: str
    function: Callable[..., Any]
    kind: str | None = None
    fake: Callable[..., Any] | None = None


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


def evaluator_for(op: str, call: Call | None, *, writes: Sequence[tuple[int, int]] = ()) -> Evaluator | None:
    """What computes an operator, in the order of architecture section 4; None when nothing does.

    Args:
        writes: ``Node.writes``: a registered kernel does not return these outputs, since it writes them in place.
    """
    if (kernel := kernels.get(op)) is not None:
        return _kernel_evaluator(kernel.function, writes)
    return _builtin_evaluator(op, call)


def fake_evaluator_for(op: str, call: Call | None, *, writes: Sequence[tuple[int, int]] = ()) -> Evaluator | None:
    """What computes an operator on fake tensors; None when nothing is known to.

    A lowering and a torch operator always take fake tensors; a kernel may not, so its ``fake`` is asked instead.
    """
    if (found := _builtin_evaluator(op, call)) is not None:
        return found
    kernel = kernels.get(op)
    return _kernel_evaluator(kernel.fake, writes) if kernel is not None and kernel.fake is not None else None


def _builtin_evaluator(op: str, call: Call | None) -> Evaluator | None:
    if (known := operators.get(op)) is not None and known.lowering is not None:
        return _lowering_evaluator(known.lowering)
    return None if call is None else _call_evaluator(call)


def node_evaluator(node: Node) -> Evaluator:
    """What computes a node.

    Raises:
        MissingKernelError: Nothing does.
    """
    known = operators.get(node.op)
    if known is not None and known.strided_lowering is not None and any(s is not None for s in node.operand_strides):
        return _lowering_evaluator(known.strided_lowering)
    evaluator = evaluator_for(node.op, node.call, writes=node.writes)
    if evaluator is None:
        raise missing_kernel(node)
    return evaluator


def missing_kernel(node: Node) -> MissingKernelError:
    """The error for an operator that nothing here can compute, with the ways out."""
    declared = prototypes.get(node.op)
    inputs = [spec.name for spec in declared.inputs] if declared else [f"x{i}" for i in range(len(node.inputs))]
    attrs = [spec.name for spec in declared.attrs] if declared else list(node.attrs)
    parameters = ", ".join([*inputs, *(["*", *attrs] if attrs else [])])
    returned = [name for i, name in enumerate(node.output_names) if i not in dict(node.writes)]
    why = [f"{node.op} (node {node.name}) has no lowering, and no kernel is registered for it"]
    if node.origin.fx_target:
        why.append(
            f"the kernel of {node.origin.fx_target} cannot stand in, since the converter is not one-to-one: its "
            "results would be those of one IR operator, whose inputs are the torch operator's tensors, all of them "
            "(under their names, or in their order), and whose attributes are its numbers, unchanged and all of them"
        )
    return MissingKernelError(
        "An Ascend IR operator has no kernel on this machine",
        why=why,
        fix=(
            "Register a kernel, install an operator project that has one, or make the converter one-to-one:\n\n"
            f'@torchair.ge.register_kernel("{node.op}")\n'
            f"def {_snake_case(node.op)}({parameters}):\n"
            f"    ...  # compute {', '.join(returned)}\n"
            f"    return {', '.join(returned)}"
        ),
        where=node.origin.source,
    )


def _snake_case(name: str) -> str:
    """``MyOp`` -> ``my_op``."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def _kernel_evaluator(function: Callable[..., Any], writes: Sequence[tuple[int, int]]) -> Evaluator:
    in_place = dict(writes)
    unset: list[str] | None = None

    def run(operands: Sequence[Any], attrs: Mapping[str, Any]) -> list[Any]:
        nonlocal unset
        flat = flatten_operands(operands)
        operands, attrs = _resolved(operands, attrs)
        args = [list(operand) if isinstance(operand, tuple) else operand for operand in operands]
        keywords = {name: torch_value(value) for name, value in attrs.items()}
        if unset is None:
            unset = _parameters_without_value(function, args, keywords)
        results = iter(flatten_results(function(*args, **keywords, **dict.fromkeys(unset))))
        outputs = []
        for index in itertools.count():
            if index in in_place:
                outputs.append(flat[in_place[index]])
            elif (result := next(results, None)) is not None:
                outputs.append(result)
            elif index > max(in_place, default=-1):
                return outputs
        raise AssertionError("unreachable")

    return run


def _parameters_without_value(
    function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> list[str]:
    """Parameters for attributes that the node leaves out; a kernel gets None for them."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # a builtin: it says nothing about its parameters
        return []
    names = list(signature.parameters.values())[len(args) :]
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return [p.name for p in names if p.kind in kinds and p.default is p.empty and p.name not in kwargs]


def _lowering_evaluator(lowering: Callable[..., Any]) -> Evaluator:
    def run(operands: Sequence[Any], attrs: Mapping[str, Any]) -> list[Any]:
        operands, attrs = _resolved(operands, attrs)
        return flatten_results(lowering(*operands, **attrs))

    return run


def _resolved(operands: Sequence[Any], attrs: Mapping[str, Any]) -> tuple[Sequence[Any], Mapping[str, Any]]:
    """Attributes that are known only at run time, read from the extra operand that holds them (the last one)."""
    if not any(_has_slot(attr) for attr in attrs.values()):
        return operands, attrs
    flat = flatten_operands(operands)

    def value(attr: Any) -> Any:
        if isinstance(attr, Slot):
            return flat[attr.index]
        return tuple(value(a) for a in attr) if isinstance(attr, tuple) else attr

    return operands[:-1], {name: value(attr) for name, attr in attrs.items()}


def _has_slot(attr: Any) -> bool:
    return isinstance(attr, Slot) or (isinstance(attr, tuple) and any(map(_has_slot, attr)))


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
    own = [r.alias_info is None or not r.alias_info.is_write for r in overload._schema.returns]
    drops = bool(call.writes) and not all(own)

    def run(operands: Sequence[Any], attrs: Mapping[str, Any]) -> list[Any]:
        flat = flatten_operands(operands)
        result = overload(*[b(flat, attrs) for b in build_args], **{k: b(flat, attrs) for k, b in build_kwargs})
        if drops:  # what it returns of the arguments that it wrote is among the written operands already
            returned = result if isinstance(result, tuple) else (result,)
            result = [r for r, keep in zip(returned, own, strict=True) if keep]
        outputs = [*(flat[i] for i in call.writes), *flatten_results(result)]
        return [outputs[i] for i in call.order] if call.order else outputs

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
