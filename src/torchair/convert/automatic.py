"""Automatic conversion of custom operators: ``my_op`` becomes the IR operator ``MyOp`` (F-62, architecture section 4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import fx

from torchair._torch_compat import OpOverload
from torchair.convert.results import flatten
from torchair.convert.torch_calls import CallTemplate, is_random, schema_arguments
from torchair.errors import AutoConversionError
from torchair.ir import Call, DType, Node, Operand, Slot, Value
from torchair.logs import logger
from torchair.opset.builder import freeze, output_names_of, results
from torchair.opset.kernels import evaluator_for
from torchair.opset.operator import operators
from torchair.opset.prototype import REQUIRED, AttrSpec, InputSpec, OutputSpec, Prototype, prototypes

if TYPE_CHECKING:
    from torchair.convert.driver import Driver

__all__ = ["adopt_kernel", "convert", "derive_prototype", "ir_name"]

_INPUT_KINDS = {
    "Tensor": "required",
    "Optional[Tensor]": "optional",
    "List[Tensor]": "dynamic",
    "List[Optional[Tensor]]": "dynamic",
}

_ATTR_TYPES = {
    "int": "Int",
    "SymInt": "Int",
    "float": "Float",
    "bool": "Bool",
    "str": "Str",
    "ScalarType": "DataType",
    "List[int]": "ListInt",
    "List[SymInt]": "ListInt",
    "List[float]": "ListFloat",
    "List[bool]": "ListBool",
    "List[str]": "ListStr",
}


def ir_name(overload: OpOverload) -> str:
    """``ns::my_op_functional.default`` -> ``MyOp``: words capitalized and joined, a last word ``functional`` dropped."""
    words = overload._schema.name.partition("::")[2].split("_")
    if len(words) > 1 and words[-1] == "functional":
        words.pop()
    return "".join(w.capitalize() for w in words)


def _type_name(argument: Any) -> str:
    text = str(argument.real_type if hasattr(argument, "real_type") else argument.type)
    return text.replace("number", "Scalar")


def input_kind(argument: Any) -> str | None:
    """The kind of prototype input that a schema argument is, or None for an attribute."""
    return _INPUT_KINDS.get(str(argument.type))


def derive_prototype(overload: OpOverload) -> Prototype:
    """A prototype from a torch schema: inputs first, then attributes; outputs are the written inputs, then ``out0``, ``out1`` ..."""
    schema = overload._schema
    inputs, attrs = [], []
    for argument in schema.arguments:
        kind = input_kind(argument)
        if kind is not None:
            inputs.append(InputSpec(argument.name, kind))  # type: ignore[arg-type]
        else:
            inner = (
                _type_name(argument).removeprefix("Optional[").removesuffix("]")
                if _type_name(argument).startswith("Optional[")
                else _type_name(argument)
            )
            default = argument.default_value if argument.has_default_value() else REQUIRED
            attrs.append(AttrSpec(argument.name, _ATTR_TYPES.get(inner, "Str"), default))
    taken = {a.name for a in schema.arguments}
    outputs = [
        OutputSpec(a.name, "dynamic" if input_kind(a) == "dynamic" else "required")
        for a in schema.arguments
        if a.alias_info is not None and a.alias_info.is_write
    ]
    for i, returned in enumerate(schema.returns):
        name = f"out{i}"
        while name in taken:
            name += "_"
        outputs.append(OutputSpec(name, "dynamic" if str(returned.type) == "List[Tensor]" else "required"))
    return Prototype(
        ir_name(overload), tuple(inputs), tuple(attrs), tuple(outputs), f"derived from {schema}", derived=True
    )


def convert(
    driver: Driver, node: fx.Node, overload: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any], val: Any
) -> Any:
    """Convert a custom operator by its schema and the prototype of its name.

    Raises:
        AutoConversionError: They do not fit; says which rule is broken and shows the converter to write.
    """
    lowered = {k: driver.lower_args(v) for k, v in kwargs.items()}
    pairs = schema_arguments(overload, driver.lower_args(args), lowered)
    name = ir_name(overload)
    prototype = prototypes.get(name)
    problems = _problems(overload, prototype, name, driver.require_prototype)
    if problems:
        raise refusal(overload, name, prototype, problems, driver.builder.origin.source)
    if prototype is None:
        prototype = derive_prototype(overload)
        driver.report.derived.append(name)
    inputs: list[Operand] = [_operand(value) for argument, value in pairs if input_kind(argument) is not None]
    written = [a.name for a, _ in pairs if a.alias_info is not None and a.alias_info.is_write]
    if not written and prototype.reference_outputs:
        inputs = [
            _move(operand) if spec.name in prototype.reference_outputs else operand
            for spec, operand in zip(prototype.inputs, inputs, strict=True)
        ]
    attrs, extra = _attributes(prototype, [(a, v) for a, v in pairs if input_kind(a) is None], inputs)
    call = call_of(overload, pairs, [*inputs, *extra]) if not (prototype.reference_outputs and not written) else None
    count = _output_count(prototype, inputs, written, val)
    names = output_names_of(prototype, count)
    made = driver.builder.node(
        name,
        [*inputs, *extra],
        attrs,
        prototype if not extra else None,
        output_names=names,
        call=call,
        side_effects=is_random(overload),
        types=None if evaluator_for(name, call) is not None else _types(driver, prototype, inputs, written, val),
        value_name=node.name,
        writes=[],
    )
    if extra:
        made.writes = tuple(_writes(prototype, inputs, names))
    driver.report.auto_converted[str(overload)] += 1
    logger.info(
        f"The converter for the Ascend operator {overload} has been automatically converted: {prototype.signature}"
    )
    values = results(made, prototype)
    outputs = list(values) if isinstance(values, tuple) else [] if values is None else [values]
    if written:
        outputs = [
            o
            for spec, o in zip(prototype.outputs, outputs, strict=True)
            if spec.name not in prototype.reference_outputs
        ]
    return _shape_like(val, outputs)


def _shape_like(val: Any, outputs: list[Any]) -> Any:
    if val is None or not outputs:
        return None
    return outputs[0] if len(outputs) == 1 and not (isinstance(val, tuple) and len(val) == 1) else tuple(outputs)


def _operand(value: Any) -> Operand:
    if isinstance(value, list | tuple):
        return tuple(v for v in value if v is not None)
    return value  # type: ignore[no-any-return]


def _move(operand: Operand) -> Operand:
    if isinstance(operand, tuple):
        return tuple(operators["TensorMove"](v) for v in operand)
    return None if operand is None else operators["TensorMove"](operand)


def _attributes(
    prototype: Prototype, pairs: Sequence[tuple[Any, Any]], inputs: Sequence[Operand]
) -> tuple[dict[str, Any], list[Operand]]:
    """Attribute values in the prototype's order; a symbolic number is read from an extra operand at run time."""
    attrs: dict[str, Any] = {}
    extra: list[Value] = []
    start = sum(len(i) if isinstance(i, tuple) else 1 for i in inputs)

    def attribute(value: Any) -> Any:
        if isinstance(value, Value):
            extra.append(value)
            return Slot(start + len(extra) - 1, host=True)
        if isinstance(value, list | tuple):
            return tuple(attribute(v) for v in value)
        return value

    for spec, (_, value) in zip(prototype.attrs, pairs, strict=False):
        if value is not None:
            attrs[spec.name] = freeze(attribute(value), spec.type)
        elif not spec.required and spec.default is not None:
            attrs[spec.name] = freeze(spec.default, spec.type)
    for spec in prototype.attrs[len(pairs) :]:
        if not spec.required and spec.default is not None:
            attrs[spec.name] = freeze(spec.default, spec.type)
    return attrs, [tuple(extra)] if extra else []


def call_of(overload: OpOverload, pairs: Sequence[tuple[Any, Any]], inputs: Sequence[Operand]) -> Call | None:
    """The call of the torch operator on the operands of an IR node that has the same inputs, in order."""
    flat: list[Value | None] = []
    for operand in inputs:
        flat.extend(operand) if isinstance(operand, tuple) else flat.append(operand)
    template = CallTemplate()
    args: list[Any] = []
    kwargs: list[tuple[str, Any]] = []
    writes: list[int] = []
    try:
        for argument, value in pairs:
            start = len(template.values)
            part = template.of(value)
            if argument.kwarg_only:
                kwargs.append((argument.name, part))
            else:
                args.append(part)
            if argument.alias_info is not None and argument.alias_info.is_write:
                writes += range(start, len(template.values))
    except TypeError:
        return None
    positions = [i for i, v in enumerate(flat) if v is not None]
    present = [flat[i] for i in positions]
    order: list[int] = []
    for value in template.values:
        if not any(value is p for p in present):
            return None
        candidates = [positions[i] for i, p in enumerate(present) if p is value]
        order.append(next((c for c in candidates if c not in order), candidates[0]))
    tensors = [o for o, v in zip(order, template.values, strict=True) if not Slot(0, True) == _slot_kind(v)]
    if tensors != sorted(tensors) or set(order) != set(positions):
        return None
    return Call(
        overload.name() + ("" if "." in overload.name() else ".default"),
        tuple(_renumber(a, order) for a in args),
        tuple((k, _renumber(a, order)) for k, a in kwargs),
        tuple(order[w] for w in writes),
    )


def _slot_kind(value: Value) -> Slot:
    from torchair.convert.torch_calls import is_host

    return Slot(0, is_host(value))


def _renumber(template: Any, order: Sequence[int]) -> Any:
    if isinstance(template, Slot):
        return Slot(order[template.index], template.host)
    if isinstance(template, tuple):
        return tuple(_renumber(t, order) for t in template)
    return template


def _output_count(prototype: Prototype, inputs: Sequence[Operand], written: Sequence[str], val: Any) -> int:
    count = 0
    returned = [v for v in (val if isinstance(val, list | tuple) else [val]) if v is not None]
    fixed = iter(returned)
    by_name = {spec.name: operand for spec, operand in zip(prototype.inputs, inputs, strict=True)}
    for spec in prototype.outputs:
        if spec.name in prototype.reference_outputs and written:
            operand = by_name[spec.name]
            count += len(operand) if isinstance(operand, tuple) else int(operand is not None)
        elif spec.kind == "dynamic":
            item = next(fixed, ())
            count += len(item) if isinstance(item, list | tuple) else len(returned)
        else:
            count += 1
    return count


def _types(driver: Driver, prototype: Prototype, inputs: Sequence[Operand], written: Sequence[str], val: Any) -> Any:
    from torchair.opset.torch_types import tensor_type

    by_name = {spec.name: operand for spec, operand in zip(prototype.inputs, inputs, strict=True)}
    rest = iter([v for v in flatten(val) if v is not None])
    types = []
    for spec in prototype.outputs:
        if spec.name in prototype.reference_outputs and written:
            operand = by_name[spec.name]
            types += [v.type for v in (operand if isinstance(operand, tuple) else (operand,)) if v is not None]
        else:
            types.append(tensor_type(next(rest)))
    types += [tensor_type(v) for v in rest]
    return types


def _writes(prototype: Prototype, inputs: Sequence[Operand], names: Sequence[str]) -> list[tuple[int, int]]:
    from torchair.opset.builder import written_operands

    return written_operands(prototype, inputs, names)


def _problems(overload: OpOverload, prototype: Prototype | None, name: str, require: bool) -> list[str]:
    schema = overload._schema
    scalars = [a.name for a in schema.arguments if "Scalar" in _type_name(a) and "ScalarType" not in _type_name(a)]
    problems = []
    if scalars:
        problems.append(
            f"the schema has arguments of type Scalar ({', '.join(scalars)}), which no attribute type stands for"
        )
    if prototype is None:
        if require:
            problems.append(f"No AscendIR {name} was found to be registered.")
        return problems
    tensors = [a.name for a in schema.arguments if input_kind(a) is not None]
    others = [a.name for a in schema.arguments if input_kind(a) is None]
    written = [a.name for a in schema.arguments if a.alias_info is not None and a.alias_info.is_write]
    inputs, attrs = [i.name for i in prototype.inputs], [a.name for a in prototype.attrs]
    outputs = [o.name for o in prototype.outputs]
    if len(tensors) != len(inputs):
        problems.append(
            f"it has {len(tensors)} tensor arguments ({_list(tensors)}), {name} has {len(inputs)} inputs ({_list(inputs)})"
        )
    else:
        for argument, spec in zip(
            [a for a in schema.arguments if input_kind(a) is not None], prototype.inputs, strict=True
        ):
            if input_kind(argument) != spec.kind and not (
                input_kind(argument) == "required" and spec.kind == "optional"
            ):
                problems.append(
                    f"argument {argument.name!r} is {input_kind(argument)}, input {spec.name!r} of {name} is {spec.kind}"
                )
    if len(others) > len(attrs):
        problems.append(
            f"it has {len(others)} other arguments ({_list(others)}), {name} has {len(attrs)} attributes ({_list(attrs)})"
        )
    elif missing := [a.name for a in prototype.attrs[len(others) :] if a.required]:
        problems.append(f"{name} requires the attributes {_list(missing)}, for which it has no arguments")
    if len(written) + len(schema.returns) != len(outputs):
        problems.append(
            f"it writes {len(written)} arguments ({_list(written)}) and returns {len(schema.returns)} values, "
            f"{name} has {len(outputs)} outputs ({_list(outputs)})"
        )
    references = prototype.reference_outputs
    if written and len(written) != len(references):
        problems.append(
            f"it writes {len(written)} arguments ({_list(written)}), {name} has {len(references)} outputs "
            f"with the name of an input ({_list(references)})"
        )
    return problems


def _list(names: Sequence[str]) -> str:
    return ", ".join(names) or "none"


def refusal(
    overload: OpOverload, name: str, prototype: Prototype | None, problems: Sequence[str], source: str
) -> AutoConversionError:
    """The error, with a converter to paste."""
    schema = overload._schema
    parameters = []
    for a in schema.arguments:
        if a.kwarg_only and "*" not in parameters:
            parameters.append("*")
        parameters.append(a.name + (f"={a.default_value!r}" if a.has_default_value() else ""))
    tensors = [a.name for a in schema.arguments if input_kind(a) is not None]
    fix = [
        f"Declare an AscendIR prototype {name} that fits, or write a converter:",
        "",
        f"@torchair.register_fx_node_ge_converter(torch.ops.{str(overload)})",
        f"def convert({', '.join([*parameters, 'meta_outputs=None'] if '*' not in parameters else [*parameters, 'meta_outputs=None'])}):",
        f'    return torchair.ge.custom_op("{name}", {", ".join(tensors)})',
    ]
    why = [f"schema:    {schema}"]
    if prototype is not None:
        why.append(f"prototype: {prototype.signature}")
    return AutoConversionError(
        f"Failed to auto-generated converter for {overload} to AscendIR:",
        why=[*why, *problems],
        fix="\n".join(fix),
        where=source,
    )


def adopt_kernel(
    driver: Driver, overload: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any], added: Sequence[Node]
) -> None:
    """Let the torch operator's own kernel stand for the one IR node of a converter that is one-to-one.

    One-to-one: the converter added one node that nothing here can compute, its inputs are the operator's tensor arguments in
    order, and its attributes are among the operator's other arguments.
    """
    opaque = [n for n in added if evaluator_for(n.op, n.call) is None and n.op not in ("Const", "HostInts")]
    if len(opaque) != 1:
        return
    (node,) = opaque
    pairs = schema_arguments(overload, args, kwargs)
    literals = [_literal(v) for a, v in pairs if input_kind(a) is None]
    if not all(_literal(v) in literals for v in node.attrs.values()):
        return
    call = call_of(overload, pairs, node.inputs)
    written = {a.name for a, _ in pairs if a.alias_info is not None and a.alias_info.is_write}
    if call is None or len(written) != len({o for _, o in node.writes}):
        return
    node.call = call
    inferred = driver.builder.types.infer(
        node.op,
        [tuple(v.type for v in i) if isinstance(i, tuple) else i and i.type for i in node.inputs],
        node.attrs,
        call,
    )
    if inferred is not None and len(inferred[0]) == len(node.outputs):
        for value, type in zip(node.outputs, inferred[0], strict=True):
            driver.graph.set_type(value, type)
        node.aliases = inferred[1]


def _literal(value: Any) -> Any:
    if isinstance(value, torch.dtype):
        from torchair.opset.torch_types import dtype_of

        return dtype_of(value)
    if isinstance(value, list | tuple):
        return tuple(_literal(v) for v in value)
    return DType(value) if isinstance(value, DType) else value
