"""What an operator to be generated is, decided and checked before any file is written."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from torchair.convert.schemas import Argument, OperatorSchema
from torchair.customop.output_rules import Expression, Rule, evaluate, parse_dtype, parse_size
from torchair.customop.schema_text import identifier_problem, parse_schema, schema_problems
from torchair.errors import OutputRuleError, ProjectError
from torchair.opset.loading import load_operators
from torchair.opset.prototype import REQUIRED, prototypes

__all__ = ["OperatorPlan", "PlannedOutput", "Samples", "plan_operator"]

#: What generated code uses besides the arguments, or what a header defines as a macro.
_TAKEN = """
    std torchair torch pytest math rules
    Tensor TensorList Span Sizes Floats Output Outputs DType T R compute compute_t element elements
    dispatch_all dispatch_floating parallel_for
    linux unix i386 errno stdin stdout stderr
"""
_TAKEN_NAMES = frozenset(_TAKEN.split())

#: Sizes of the tensors of a sample, in the order in which they are tried.
_SHAPES = ((3, 4), (4, 4), (2, 3, 4), (4, 4, 4), (2, 3, 4, 5), (3, 3, 3, 3), (5,))
_INTEGERS = (2, 1, 0)
_INTEGER_LISTS = ((1, 2), (1, 0), (0,), (0, 1, 2), (2, 1, 0))

_VALUES: dict[str, Any] = {
    "float": 0.5,
    "bool": True,
    "str": "a",
    "ScalarType": torch.float32,
    "float[]": [0.5, 1.5],
    "bool[]": [True, False],
    "str[]": ["a", "bc"],
    "ScalarType[]": [torch.float32],
}


@dataclass(frozen=True, slots=True)
class PlannedOutput:
    """One result.

    Attributes:
        name: Its name in the kernel: no argument has it.
        key: Its name in the YAML file.
        size, dtype: Its rules.
    """

    name: str
    key: str
    size: Rule
    dtype: Rule

    @property
    def like(self) -> str | None:
        """The tensor argument whose sizes it has; None where it has others."""
        return _tensor_of(self.size.expression, "sizes")

    @property
    def dtype_like(self) -> str | None:
        """The tensor argument whose dtype it has; None where it has another."""
        return _tensor_of(self.dtype.expression, "dtype")

    @property
    def fixed_dtype(self) -> torch.dtype | None:
        """Its dtype where that is always the same."""
        value = self.dtype.expression.value
        return value if isinstance(value, torch.dtype) else None


@dataclass(frozen=True, slots=True)
class Samples:
    """Arguments that the size rules take.

    Attributes:
        shape: Sizes of every tensor.
        values: The other arguments.
        takes_empty: Whether the first dimension may be 0.
        takes_none: Whether every optional tensor may be None.
        fit: Whether the rules take these at all.
    """

    shape: tuple[int, ...]
    values: Mapping[str, Any]
    takes_empty: bool
    takes_none: bool
    fit: bool


@dataclass(frozen=True, slots=True)
class OperatorPlan:
    """An operator.

    Attributes:
        schema: Its schema.
        outputs: Its results, without arguments that it writes.
        samples: Arguments for its tests.
    """

    schema: OperatorSchema
    outputs: tuple[PlannedOutput, ...]
    samples: Samples

    @property
    def name(self) -> str:
        """``my_op``."""
        return str(self.schema.torch_schema.name.rpartition("::")[2])

    @property
    def namespace(self) -> str:
        return str(self.schema.torch_schema.name.rpartition("::")[0])

    @property
    def ir_name(self) -> str:
        """``MyOp``."""
        return self.schema.name

    @property
    def parameters(self) -> str:
        """``(Tensor x, Tensor? y) -> Tensor``."""
        return "(" + str(self.schema.torch_schema).partition("(")[2]

    @property
    def text(self) -> str:
        """``my_op(Tensor x, Tensor? y) -> Tensor``."""
        return self.name + self.parameters

    @property
    def like(self) -> str | None:
        """The one tensor whose sizes everything has that the operator makes or writes; None if there are several."""
        made = {o.like for o in self.outputs} | {
            a.name if a.torch_type == "Tensor" else None for a in self.schema.written
        }
        return made.pop() if len(made) == 1 else None

    @property
    def first_tensor(self) -> str | None:
        """The first argument that is always a tensor."""
        return next((a.name for a in self.schema.tensors if a.torch_type == "Tensor"), None)


def plan_operator(
    name: str,
    schema: str,
    namespace: str,
    *,
    inplace: bool = False,
    sizes: Sequence[str] = (),
    dtypes: Sequence[str] = (),
) -> OperatorPlan:
    """Decide what an operator is.

    Args:
        name: ``my_op``.
        schema: ``(Tensor x) -> Tensor``, with or without the name before it.
        namespace: Where it is defined.
        inplace: Mark the first tensor as written, if the schema marks none.
        sizes, dtypes: A rule for each result; by default those of the first tensor.

    Raises:
        SchemaError: The schema cannot be read.
        OutputRuleError: A rule cannot be read.
        ProjectError: The name, the schema or the number of rules is not one that can be generated.
    """
    _check_name(name)
    parsed = parse_schema(_full_text(name, schema), namespace=namespace)
    if inplace and not parsed.written:
        parsed = parse_schema(_marked(str(parsed.torch_schema), parsed), namespace=namespace)
    problems = [*_argument_problems(parsed), *schema_problems(parsed)]
    if parsed.torch_schema.name != f"{namespace}::{name}" or parsed.torch_schema.overload_name:
        problems.append(
            f"the schema is one of {str(parsed.torch_schema).partition('(')[0]}, not of {namespace}::{name}"
        )
    load_operators()
    known = prototypes.get(parsed.name)
    if known is not None and known.source != "user":
        problems.append(f"{name} would be the Ascend IR operator {parsed.name}, which exists: {known.signature}")
    if problems:
        raise ProjectError(
            "An operator cannot be generated",
            why=[f"schema: {parsed.torch_schema}", *problems],
            fix="Change the schema or the name.",
        )
    outputs = _outputs(parsed, sizes, dtypes)
    return OperatorPlan(parsed, outputs, _samples(parsed, outputs))


def _check_name(name: str) -> None:
    problem = identifier_problem(name)
    if problem is None and name != name.lower():
        problem = "has capitals; the Ascend IR operator gets its capitals from the underscores: my_op is MyOp"
    if problem is None and name.endswith(("_functional", "_")):
        problem = "ends in _ or _functional, which the Ascend IR operator's name leaves out"
    if problem:
        raise ProjectError(
            "An operator cannot have that name",
            why=f"{name!r} {problem}",
            fix="Choose a name like my_op.",
        )


def _full_text(name: str, schema: str) -> str:
    return name + schema.strip() if schema.strip().startswith("(") else schema


def _marked(text: str, schema: OperatorSchema) -> str:
    """The schema with the first tensor marked as written."""
    first = next((a for a in schema.tensors if a.torch_type == "Tensor"), None)
    if first is None:
        raise ProjectError(
            "An operator cannot be generated",
            why=[f"schema: {text}", "it has no argument of type Tensor that could be written in place"],
            fix="Give it one: (Tensor(a!) x, Tensor y) -> Tensor",
        )
    return re.sub(rf"\bTensor {first.name}\b", f"Tensor(a!) {first.name}", text, count=1)


def _argument_problems(schema: OperatorSchema) -> list[str]:
    problems = [
        f"argument {a.name!r} is of type {a.torch_type}; inputs say where a result lies"
        for a in schema.arguments
        if a.is_placement
    ]
    problems += [
        f"argument {a.name!r} has the name of a parameter that every converter has; choose another"
        for a in schema.arguments
        if a.name == "meta_outputs"
    ]
    problems += [
        f"argument {a.name!r} is of type {a.torch_type}; write Tensor[]"
        for a in schema.tensors
        if a.torch_type not in ("Tensor", "Tensor?", "Tensor[]")
    ]
    problems += [
        f"argument {a.name!r} is written and passed by keyword; write it before the *"
        for a in schema.written
        if a.kwarg_only
    ]
    names = [a.name for a in schema.arguments] + [name for name in schema.result_names if name]
    problems += [f"{n!r} is a name that generated code uses" for n in names if n in _TAKEN_NAMES]
    problems += [
        f"result {number} is no Tensor, whose size and dtype a rule could give"
        for number, kind in enumerate(schema.returns)
        if kind in ("list", "optional")
    ]
    texts = [a.default for a in schema.arguments if isinstance(a.default, str)]
    problems += [
        f"the default {text!r} has characters that are not printable" for text in texts if not text.isprintable()
    ]
    return problems


# --- results ---


def _outputs(schema: OperatorSchema, sizes: Sequence[str], dtypes: Sequence[str]) -> tuple[PlannedOutput, ...]:
    count = len(schema.returns)
    for option, given in (("--size", sizes), ("--dtype", dtypes)):
        if given and len(given) != count:
            raise ProjectError(
                "An operator has another number of results than of rules",
                why=f"{option} is given {len(given)} times, and {schema.torch_schema} has {count} results",
                fix=f"Give {option} once for each result, in order.",
            )
    first = next((a.name for a in schema.tensors if a.torch_type == "Tensor"), "")
    if not count and not first:
        raise ProjectError(
            "An operator cannot be generated",
            why=[f"schema: {schema.torch_schema}", "it has neither a result nor an argument of type Tensor"],
            fix="Give it one.",
        )
    if count and not first and not (sizes and dtypes):
        raise ProjectError(
            "Nothing says the size and dtype of an operator's results",
            why=f"{schema.torch_schema} has no argument of type Tensor to take them from",
            fix="Say them: --size '{4, n}' --dtype at::kFloat",
        )
    names = [spec.name for spec in schema.derive_prototype().outputs][len(schema.written) :]
    if len(names) == 1 and not schema.result_names[0] and all(a.name != "out" for a in schema.arguments):
        names = ["out"]
    return tuple(
        PlannedOutput(
            name,
            schema.result_names[i] or ("out" if count == 1 else f"out{i}"),
            parse_size(sizes[i] if sizes else first, schema),
            parse_dtype(dtypes[i] if dtypes else first, schema),
        )
        for i, name in enumerate(names)
    )


def _tensor_of(expression: Expression, function: str) -> str | None:
    if expression.op != "call" or expression.value.name != function:
        return None
    (operand,) = expression.operands
    return str(operand.value) if operand.op == "argument" else None


# --- samples ---


def _samples(schema: OperatorSchema, outputs: Sequence[PlannedOutput]) -> Samples:
    """Sizes and numbers that all rules take, tried in order."""
    found = None
    for shape, integer, integers in itertools.product(_SHAPES, _INTEGERS, _INTEGER_LISTS):
        values = {a.name: _value(a, integer, integers) for a in schema.arguments if a.input_kind is None}
        empty = (0, *(0 if size == shape[0] else size for size in shape[1:]))
        candidate = Samples(
            shape,
            values,
            _evaluates(schema, outputs, empty, values),
            _evaluates(schema, outputs, shape, values, given=False),
            fit=True,
        )
        if _evaluates(schema, outputs, shape, values):
            if candidate.takes_empty:
                return candidate
            found = found or candidate
    values = {a.name: _value(a, _INTEGERS[0], _INTEGER_LISTS[0]) for a in schema.arguments if a.input_kind is None}
    return found or Samples(_SHAPES[0], values, takes_empty=False, takes_none=False, fit=False)


def _value(argument: Argument, integer: int, integers: tuple[int, ...]) -> Any:
    kind = argument.torch_type.removesuffix("?")
    if kind in ("int", "SymInt"):
        return integer
    if kind in ("int[]", "SymInt[]"):
        return list(integers)
    return _VALUES.get(kind, None if argument.default is REQUIRED else argument.default)


def _evaluates(
    schema: OperatorSchema,
    outputs: Sequence[PlannedOutput],
    shape: tuple[int, ...],
    values: Mapping[str, Any],
    *,
    given: bool = True,
) -> bool:
    tensor = torch.empty(shape, device="meta")
    arguments: dict[str, Any] = dict(values)
    for a in schema.tensors:
        absent = a.torch_type.endswith("?") and not given
        arguments[a.name] = [tensor, tensor] if a.is_list else None if absent else tensor
    try:
        for output in outputs:
            evaluate(output.size, arguments)
            evaluate(output.dtype, arguments)
    except OutputRuleError:
        return False
    return True
