"""A torch operator made from its schema, the rules of its outputs, and the name of the IR operator that computes it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from torchair import _torch_compat
from torchair._torch_compat import OpOverload
from torchair.convert.schemas import OperatorSchema
from torchair.customop.output_rules import OutputRule, Rule, evaluate
from torchair.errors import (
    MissingKernelError,
    OperatorContractError,
    PrototypeArgumentCountError,
    PrototypeNotFoundError,
)
from torchair.ir import DType
from torchair.opset.attributes import attr_value
from torchair.opset.kernels import evaluator_for, torch_value
from torchair.opset.loading import load_operators
from torchair.opset.prototype import Prototype, prototypes
from torchair.opset.torch_types import dtype_of

__all__ = ["Adaptation"]


@dataclass(frozen=True, slots=True)
class Adaptation:
    """How a torch operator calls the kernel of an IR operator.

    The kernel allocates its results; they are compared with the rules, so that the meta function, which knows only
    these, cannot promise anything else.

    Attributes:
        schema: Schema of the torch operator.
        outputs: The rules of its results, in the order of the schema; for a result that goes into an argument, None
            where the file has none.
        kernel: The IR operator: ``"MyOp"``.
        arguments: What the kernel is given: tensors are its inputs, the rest its attributes, in order.
        order: For each result, which of the kernel's outputs it is.
        parameters: Further variables, each computed from the arguments and those before it.
        destinations: Arguments that the results are copied into (``out=``), instead of being returned.
        source: Where it is from, for messages: ``"op_plugin_functions.yaml:12"``.
    """

    schema: OperatorSchema
    outputs: tuple[OutputRule | None, ...]
    kernel: str
    arguments: tuple[Rule, ...]
    order: tuple[int, ...]
    parameters: tuple[tuple[str, Rule], ...] = ()
    destinations: tuple[str, ...] = ()
    source: str = ""

    @property
    def operator(self) -> str:
        """The torch operator: ``"npu::my_op"``, ``"npu::my_op.out"``."""
        parsed = self.schema.torch_schema
        return f"{parsed.name}.{parsed.overload_name}" if parsed.overload_name else str(parsed.name)

    def overload(self) -> OpOverload:
        """The operator in the dispatcher, once it is registered."""
        found = _torch_compat.find_exact(self.operator)
        assert found is not None, self.operator
        return found

    def eager(self, *args: Any, **kwargs: Any) -> Any:
        """Run the kernel.

        Raises:
            OutputRuleError: A rule gives nothing for these arguments.
            MissingKernelError: Nothing computes the IR operator on this machine.
            OperatorContractError: The kernel returned something else than the rules say.
        """
        values = self._values(args, kwargs)
        promised = self._promised(values)
        with (
            _torch_compat.below_autograd()
        ):  # a gradient is what register_autograd says, not what the kernel is made of
            results = self._run(values)
        if len(results) != len(promised):
            raise self._broken([f"it returned {len(results)} results, there are to be {len(promised)}"])
        results = [results[i] for i in self.order]
        device = self._device(values)
        problems = [
            problem
            for i, (result, wanted) in enumerate(zip(results, promised, strict=True))
            for problem in _differences(self._name(i), result, wanted, device)
        ]
        if problems:
            raise self._broken(problems)
        if self.destinations:
            for name, result in zip(self.destinations, results, strict=True):
                self._store(name, values[name], result)
            return self._returned(values, [])
        return self._returned(values, self._own_memory(values, results))

    def meta(self, *args: Any, **kwargs: Any) -> Any:
        """The results without their elements, from the rules.

        Raises:
            OutputRuleError: A rule gives nothing for these arguments.
        """
        values = self._values(args, kwargs)
        promised = self._promised(values)
        if self.destinations:
            for name, wanted in zip(self.destinations, promised, strict=True):
                if wanted is not None and self._resizes(name) and values[name].dim() != len(wanted[0]):
                    values[name].resize_(wanted[0])
            return self._returned(values, [])
        device = self._device(values)
        made = [torch.empty(size, dtype=dtype, device=device) for size, dtype in filter(None, promised)]
        return self._returned(values, made)

    def _values(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        values = {argument.name: value for argument, value in self.schema.pairs(args, kwargs)}
        for name, rule in self.parameters:
            values[name] = evaluate(rule, values)
        return values

    def _promised(self, values: Mapping[str, Any]) -> list[tuple[list[Any], torch.dtype] | None]:
        return [
            None if rule is None else (evaluate(rule.size, values), evaluate(rule.dtype, values))
            for rule in self.outputs
        ]

    def _tensors(self, values: Mapping[str, Any]) -> Iterator[torch.Tensor]:
        for argument in self.schema.tensors:
            value = values[argument.name]
            for item in value if isinstance(value, list | tuple) else [value]:
                if isinstance(item, torch.Tensor):
                    yield item

    def _device(self, values: Mapping[str, Any]) -> torch.device:
        first = next(self._tensors(values), None)
        return torch.device("cpu") if first is None else first.device

    def _run(self, values: Mapping[str, Any]) -> list[Any]:
        load_operators()
        evaluator = evaluator_for(self.kernel, None)
        if evaluator is None:
            name = self.schema.torch_schema.name
            names: dict[bool, list[str]] = {True: [], False: []}
            for i, rule in enumerate(self.arguments):
                own = str(rule.expression.value) if rule.expression.op == "argument" else f"value{i}"
                names[_is_tensor(rule)].append(own)
            parameters = ", ".join([*names[True], *(["*", *names[False]] if names[False] else [])])
            raise MissingKernelError(
                "An Ascend IR operator has no kernel on this machine",
                why=f"{name} runs aclnn{self.kernel}, and no kernel of {self.kernel} is registered",
                fix="Load the library that has it, or register one:\n\n"
                f'@torchair.ge.register_kernel("{self.kernel}")\n'
                f"def {name.rpartition('::')[2]}({parameters}):\n    ...  # compute and return the outputs",
                where=self.source,
            )
        operands = []
        others = []
        for rule in self.arguments:
            value = evaluate(rule, values)
            if _is_tensor(rule):
                operands.append(tuple(value) if isinstance(value, list) else value)
            else:
                others.append((rule, value))
        return evaluator(operands, self._attributes(operands, others))

    def _attributes(self, operands: Sequence[Any], others: Sequence[tuple[Rule, Any]]) -> dict[str, Any]:
        """The attributes of the IR operator by name, as GE mode passes them."""
        prototype = prototypes.get(self.kernel)
        if prototype is None:
            unnamed = [rule.text for rule, _ in others if rule.expression.op != "argument"]
            if unnamed:
                raise PrototypeNotFoundError(
                    "An Ascend IR operator is not known",
                    why=[
                        f"No AscendIR {self.kernel} was found to be registered.",
                        f"it is given {', '.join(unnamed)}, and only its prototype says which attribute that is",
                    ],
                    fix="Load its prototype file (torchair.customop.load_prototypes), or torchair.ge.declare_op.",
                    where=self.source,
                )
            return {str(rule.expression.value): value for rule, value in others if value is not None}
        if len(operands) != len(prototype.inputs) or len(others) > len(prototype.attrs):
            raise PrototypeArgumentCountError(
                "An Ascend IR operator has other inputs or attributes than it is given",
                why=[
                    f"prototype: {prototype.signature}",
                    f"{self.schema.torch_schema.name} gives it {len(operands)} tensors and {len(others)} other values",
                ],
                fix="List its arguments: exec: aclnnMyOp, x, y, attr1",
                where=self.source,
            )
        return dict(_typed(prototype, [value for _, value in others]))

    def _name(self, result: int) -> str:
        rule = self.outputs[result]
        return rule.name if rule is not None else self.destinations[result]

    def _broken(self, problems: Sequence[str]) -> OperatorContractError:
        rules = [
            f"rule of {rule.name}: size: {rule.size.text}, dtype: {rule.dtype.text}"
            for rule in self.outputs
            if rule is not None
        ]
        return OperatorContractError(
            "A kernel does something else than the rules of its operator's outputs say",
            why=[*(f"{self.schema.torch_schema.name}, kernel {self.kernel}: {p}" for p in problems), *rules],
            fix="Correct the kernel (of a project: its size inference in op_host/*.cpp, too), or the rules.",
            where=self.source,
        )

    def _resizes(self, name: str) -> bool:
        """Whether a destination takes the size of the result (an ``out`` argument), or has its own."""
        return any(a.name == name and a.kwarg_only for a in self.schema.arguments)

    def _store(self, name: str, destination: torch.Tensor, result: torch.Tensor) -> None:
        if destination.shape != result.shape:
            if not self._resizes(name):
                raise self._broken(
                    [f"the result has shape {list(result.shape)}, {name!r} has {list(destination.shape)}"]
                )
            destination.resize_(result.shape)
        if not torch.can_cast(result.dtype, destination.dtype):
            raise self._broken(
                [f"the result has dtype {result.dtype}, which {name!r}, {destination.dtype}, cannot hold"]
            )
        destination.copy_(result)

    def _own_memory(self, values: Mapping[str, Any], results: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """The results as the meta function promises them: contiguous, in memory of their own."""
        taken = {_torch_compat.storage_id(t) for t in self._tensors(values) if t.layout is torch.strided}
        own = []
        for result in results:
            fresh = result.contiguous()
            if _torch_compat.storage_id(fresh) in taken:
                fresh = fresh.clone()
            taken.add(_torch_compat.storage_id(fresh))
            own.append(fresh)
        return own

    def _returned(self, values: Mapping[str, Any], results: Sequence[torch.Tensor]) -> Any:
        fresh = iter(results)
        returned = [next(fresh) if name is None else values[name] for name in self.schema.returned_arguments]
        return None if not returned else returned[0] if len(returned) == 1 else tuple(returned)


def _is_tensor(rule: Rule) -> bool:
    return rule.expression.kind.removesuffix("?") in ("tensor", "tensors")


def _differences(
    name: str, result: Any, wanted: tuple[list[Any], torch.dtype] | None, device: torch.device
) -> Iterator[str]:
    if not isinstance(result, torch.Tensor):
        yield f"{name} is a {type(result).__name__}, not a tensor"
        return
    if result.device != device:
        yield f"{name} is on {result.device}, its rule says {device}"
    if wanted is None:
        return
    size, dtype = wanted
    if list(result.shape) != size:
        yield f"{name} has shape {list(result.shape)}, its rule says {size}"
    if result.dtype != dtype:
        yield f"{name} has dtype {result.dtype}, its rule says {dtype}"


def _typed(prototype: Prototype, values: Sequence[Any]) -> Iterator[tuple[str, Any]]:
    for spec, value in zip(prototype.attrs, values, strict=False):
        given = spec.default if value is None and not spec.required else value
        if spec.type == "Int" and isinstance(given, torch.dtype):
            given = int(dtype_of(given))
        if given is not None:
            frozen = attr_value(prototype.name, spec.name, spec.type, given)
            yield spec.name, torch_value(DType(frozen) if spec.type == "DataType" else frozen)
    for spec in prototype.attrs[len(values) :]:
        if not spec.required and spec.default is not None:
            yield spec.name, torch_value(spec.default)
