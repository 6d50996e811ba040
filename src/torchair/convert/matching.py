"""Whether a torch schema and an IR prototype fit together: the rules of automatic conversion (specification, F-62)."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from torchair import _torch_compat
from torchair._torch_compat import OpOverload, OpOverloadPacket
from torchair.convert.pasting import converter_code, declaration_code, positional_converter_code
from torchair.convert.schemas import OperatorSchema, own_name
from torchair.convert.torch_calls import BUILTIN_NAMESPACES
from torchair.errors import Rejection
from torchair.opset.operator import operators
from torchair.opset.prototype import OutputSpec, Prototype, prototypes

__all__ = ["mismatches", "output_roles", "own_name", "why_not"]

#: Attribute types that take a schema argument's values, besides the one of the argument's own type.
_ALSO_FITS: dict[str, tuple[str, ...]] = {"Int": ("Float",), "ListInt": ("ListFloat",), "DataType": ("Int",)}


def why_not(target: Any, *, require_prototype: bool = False) -> Rejection | None:
    """Why an operator cannot be converted automatically, or None.

    Args:
        target: An operator overload.
        require_prototype: An IR prototype that nobody declared is not derived.

    Returns:
        A reason of several lines: both sides' signatures, then each rule that is broken; with code to paste.
    """
    if not isinstance(target, OpOverload):
        overloads = ""
        if isinstance(target, OpOverloadPacket):
            path = str(target).replace("::", ".")
            overloads = "its overloads are " + ", ".join(
                f"torch.ops.{path}.{name}" for name in _torch_compat.overload_names(target)
            )
        kind = "an operator with several overloads" if overloads else f"a {type(target).__name__}"
        return Rejection("\n".join(filter(None, [f"{target} is {kind}, not an operator overload", overloads])))
    if target.namespace in BUILTIN_NAMESPACES:
        return Rejection(
            f"{target} is one of PyTorch's own operators, which have converters or run as themselves",
            fix="Register a converter:\n\n" + converter_code(OperatorSchema.of(target)),
        )
    schema = OperatorSchema.of(target)
    prototype = prototypes.get(schema.name)
    why = [f"schema:    {target._schema}"]
    if prototype is not None:
        origin = "built-in" if prototype.name in operators else "declared"
        why.append(f"prototype: {prototype.signature}, {origin}")
    untyped = [a for a in schema.others if a.attr_type is None]
    problems = [
        f"argument {a.name!r} is of type {a.torch_type}, which no attribute type stands for"
        + (": it may be an int or a float" if a.torch_type.startswith("Scalar") else "")
        for a in untyped
    ]
    if prototype is None and require_prototype:
        problems.append(f"No AscendIR {schema.name} was found to be registered.")
    differences = mismatches(schema, prototype) if prototype is not None else []
    if not problems and not differences:
        return None
    return Rejection(
        "\n".join([*why, *problems, *differences]), fix=_fix(schema, prototype, differences, require_prototype)
    )


def mismatches(schema: OperatorSchema, prototype: Prototype) -> list[str]:
    """What differs between a schema and a prototype, one line each, with both sides' lists."""
    name = prototype.name
    problems = []
    tensors, inputs = schema.tensors, prototype.inputs
    if len(tensors) != len(inputs):
        problems.append(
            f"it has {_count(len(tensors), 'tensor argument')} ({_list(a.name for a in tensors)}), "
            f"{name} has {_count(len(inputs), 'input')} ({_list(s.name for s in inputs)})"
        )
    else:
        problems += [
            f"argument {a.name!r} is {a.input_kind} ({a.torch_type}), input {s.name!r} of {name} is {s.kind}"
            for a, s in zip(tensors, inputs, strict=True)
            if a.input_kind != s.kind and (a.input_kind, s.kind) != ("required", "optional")
        ]
    others, attrs = schema.others, prototype.attrs
    if len(others) > len(attrs):
        problems.append(
            f"it has {_count(len(others), 'other argument')} ({_list(a.name for a in others)}), "
            f"{name} has {_count(len(attrs), 'attribute')} ({_list(s.name for s in attrs)})"
        )
    else:
        problems += [
            f"argument {a.name!r} is of type {a.torch_type}, attribute {s.name!r} of {name} of type {s.type}"
            for a, s in zip(others, attrs, strict=False)
            if a.attr_type is not None and s.type != a.attr_type and s.type not in _ALSO_FITS.get(a.attr_type, ())
        ]
        if missing := [s.name for s in attrs[len(others) :] if s.required]:
            problems.append(f"{name} requires the attributes {_list(missing)}, for which it has no argument")
    return problems + _output_mismatches(schema, prototype)


def _output_mismatches(schema: OperatorSchema, prototype: Prototype) -> list[str]:
    name, written, references = prototype.name, [a.name for a in schema.written], prototype.reference_outputs
    problems = []
    if len(written) + len(schema.returns) != len(prototype.outputs):
        problems.append(
            f"it writes {_count(len(written), 'argument')} ({_list(written)}) and returns "
            f"{_count(len(schema.returns), 'further value')}, "
            f"{name} has {_count(len(prototype.outputs), 'output')} ({_list(s.name for s in prototype.outputs)})"
        )
    if written and len(written) != len(references):
        problems.append(
            f"it writes {_count(len(written), 'argument')} ({_list(written)}), {name} has "
            f"{_count(len(references), 'output')} with the name of an input ({_list(references)})"
        )
    elif written and len(schema.tensors) == len(prototype.inputs):
        at = [i for i, a in enumerate(schema.tensors) if a.written]
        ref = [i for i, s in enumerate(prototype.inputs) if s.name in references]
        if at != ref:
            names = _list(prototype.inputs[i].name for i in ref)
            problems.append(
                f"it writes the tensor arguments number {_list(map(str, at))} ({_list(written)}), "
                f"{name} writes the inputs number {_list(map(str, ref))} ({names})"
            )
    if not problems:
        problems += [
            f"result {role} is {'a list' if schema.returns[role] == 'list' else 'one value'}, "
            f"output {s.name!r} of {name} is {s.kind}"
            for role, s in zip(output_roles(schema, prototype), prototype.outputs, strict=True)
            if isinstance(role, int) and (schema.returns[role] == "list") != (s.kind == "dynamic")
        ]
    return problems


def output_roles(schema: OperatorSchema, prototype: Prototype) -> tuple[str | int, ...]:
    """For each output of a prototype that fits, the written argument whose new value it is, or the result's number."""
    positions = {spec.name: i for i, spec in enumerate(prototype.inputs)}
    roles: list[str | int] = []
    result = 0
    for spec in prototype.outputs:
        if schema.written and spec.name in positions:
            roles.append(schema.tensors[positions[spec.name]].name)
        else:
            roles.append(result)
            result += 1
    return tuple(roles)


def _fix(
    schema: OperatorSchema, prototype: Prototype | None, differences: Sequence[str], require_prototype: bool
) -> str:
    if prototype is None and not require_prototype:
        return f"Register a converter that gives these arguments attribute types:\n\n{converter_code(schema)}"
    if prototype is None:
        wanted = schema.derive_prototype(scalars=True)
        text = f"Declare the prototype, as an operator project would:\n\n{declaration_code(wanted, schema)}"
        if any(a.attr_type is None for a in schema.others):
            text += f"\n\nand register a converter:\n\n{positional_converter_code(schema, wanted)}"
        return text
    if not differences:
        return f"Register a converter:\n\n{positional_converter_code(schema, prototype)}"
    if prototype.name in operators:
        return (
            f"{prototype.name} is a built-in operator. Register a converter to an operator of another name:\n\n"
            f"{converter_code(schema, own_name(schema.overload))}"
        )
    if (written := _with_written_outputs(schema, prototype)) is not None:
        return (
            f"An operator that writes an input has an output of the same name. Declare {prototype.name} so:\n\n"
            f"{declaration_code(written, schema)}"
        )
    wanted = schema.derive_prototype(scalars=True)
    return (
        f"Declare {prototype.name} as the schema has it:\n\n{declaration_code(wanted, schema)}\n\n"
        f"or register a converter that passes what the declared operator takes:\n\n"
        f"{positional_converter_code(schema, prototype)}"
    )


def _with_written_outputs(schema: OperatorSchema, prototype: Prototype) -> Prototype | None:
    """A prototype with an output for each input that the torch operator writes; None where it has them already."""
    if len(schema.tensors) != len(prototype.inputs):
        return (
            None if len(prototype.reference_outputs) >= len(schema.written) else schema.derive_prototype(scalars=True)
        )
    written = [s for a, s in zip(schema.tensors, prototype.inputs, strict=True) if a.written]
    if {s.name for s in written} == set(prototype.reference_outputs):
        return None
    rest = [s for s in prototype.outputs if s.name not in prototype.reference_outputs]
    rest = rest[max(0, len(rest) - len(schema.returns)) :]
    if len(rest) < len(schema.returns):
        return schema.derive_prototype(scalars=True)
    return dataclasses.replace(prototype, outputs=(*(OutputSpec(s.name, s.kind) for s in written), *rest))


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")


def _list(names: Any) -> str:
    return ", ".join(names) or "none"
