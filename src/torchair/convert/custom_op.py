"""``torchair.ge.custom_op``: one node of an operator that is known by its prototype (specification, F-57)."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from torchair._torch_compat import OpOverload
from torchair.convert.schemas import OperatorSchema
from torchair.errors import (
    ArgumentError,
    PrototypeArgumentCountError,
    PrototypeArgumentTypeError,
    PrototypeNotFoundError,
)
from torchair.ir import Operand, Value
from torchair.opset.attributes import ATTR_CLASSES, TypedAttr, attr_value, fitting_type
from torchair.opset.builder import GraphBuilder, current_builder
from torchair.opset.prototype import AttrSpec, InputSpec, OutputSpec, Prototype, prototypes
from torchair.opset.prototype_nodes import add_prototype_node, layout_of, structured

__all__ = ["Conversion", "custom_op"]

#: Output names; ``(name, count)`` for a dynamic output.
Outputs: TypeAlias = "Sequence[str | tuple[str, int]]"


@dataclass(frozen=True, slots=True)
class Conversion:
    """The torch operator under conversion, as ``custom_op`` has to know it.

    Attributes:
        overload: The operator.
        require_prototype: Refuse IR operators that nobody declared.
        on_derived: Called with the prototype of such an operator.
    """

    overload: OpOverload
    require_prototype: bool
    on_derived: Callable[[Prototype], None]


def custom_op(
    op_type: str,
    *args: Any,
    inputs: Mapping[str, Any] | None = None,
    outputs: Outputs | None = None,
    attrs: Mapping[str, TypedAttr] | None = None,
    node_name: str | None = None,
) -> Any:
    """Add one node of an Ascend IR operator.

    ::

        torchair.ge.custom_op("MyOp", x, y, [z], 0.5, 2)  # the prototype's inputs, then its attributes
        torchair.ge.custom_op(
            "MyOp",
            inputs={"x": x, "y": y, "z": [z]},
            attrs={"attr1": torchair.ge.attr.Float(0.5), "attr2": torchair.ge.attr.Int(2)},
            outputs=["out"],
        )

    An operator that nobody declared gets its prototype from the keywords, or, in the positional form, from the schema
    of the torch operator under conversion. An output with the name of an input says that the operator writes that input
    in place.

    Args:
        op_type: Name of the operator.
        args: Inputs in the prototype's order (a tensor, None for an absent optional input, a list for a dynamic one),
            then attributes as plain Python values; one that is None is left out. With any of these, the dictionaries
            are ignored.
        inputs: Name to tensor, None or list of tensors.
        outputs: Output names, ``(name, count)`` for a dynamic output.
        attrs: Name to ``torchair.ge.attr`` value.
        node_name: Exact name of the node.

    Returns:
        One tensor; a tuple where the prototype has several outputs (a dynamic one is a list in it); None without any.

    Raises:
        NoGraphError: No conversion is in progress.
        PrototypeNotFoundError: The operator is not known and cannot be derived.
        PrototypeArgumentCountError: The number of positional arguments is wrong.
        PrototypeArgumentTypeError: An argument is of another kind than the prototype says.
        ArgumentError: A dictionary is not of the form above.
    """
    builder = current_builder("custom_op")
    if args or (inputs is None and outputs is None and attrs is None):
        call = _Call.positional(builder, op_type, args)
    else:
        call = _Call.by_keyword(builder, op_type, inputs or {}, outputs or (), attrs or {})
    prototype = call.prototype
    layout = layout_of(prototype, call.operands, call.counts)
    node = add_prototype_node(builder, prototype, call.operands, call.attrs, layout, node_name=node_name)
    results = structured(prototype, layout, node)
    return None if not results else results[0] if len(results) == 1 else tuple(results)


@dataclass(frozen=True, slots=True)
class _Call:
    """The arguments of one call, checked."""

    prototype: Prototype
    operands: list[Operand]
    attrs: dict[str, Any]
    counts: dict[str, int]

    @classmethod
    def positional(cls, builder: GraphBuilder, op_type: str, args: Sequence[Any]) -> _Call:
        prototype = prototypes.get(op_type) or _derived_from_schema(builder, op_type)
        _check_count(prototype, len(args))
        operands = [_operand(prototype, s, v) for s, v in zip(prototype.inputs, args, strict=False)]
        given = dict(zip((s.name for s in prototype.attrs), args[len(operands) :], strict=False))
        dynamic = [
            s.name for s in prototype.outputs if s.kind == "dynamic" and s.name not in prototype.reference_outputs
        ]
        if dynamic:
            raise PrototypeArgumentTypeError(
                "An operator with a dynamic output is called by keyword",
                why=f"{prototype.signature}: how many values {dynamic[0]!r} has is not known from positional arguments",
                fix=f'torchair.ge.custom_op("{op_type}", inputs=..., attrs=..., outputs=[("{dynamic[0]}", count)])',
            )
        return cls(prototype, operands, _attrs(prototype, given), {})

    @classmethod
    def by_keyword(
        cls,
        builder: GraphBuilder,
        op_type: str,
        inputs: Mapping[str, Any],
        outputs: Outputs,
        attrs: Mapping[str, TypedAttr],
    ) -> _Call:
        named_outputs = _check_keywords(op_type, inputs, outputs, attrs)
        prototype = prototypes.get(op_type)
        if prototype is None:
            prototype = _derived_from_keywords(builder, op_type, inputs, named_outputs, attrs)
        else:
            _check_names(prototype, inputs, [name for name, _ in named_outputs], attrs)
        operands = [_operand(prototype, s, inputs.get(s.name)) for s in prototype.inputs]
        counts = {name: count for name, count in named_outputs if count is not None}
        return cls(prototype, operands, _attrs(prototype, attrs), counts)


# --- prototypes that nobody declared ---


def _derived_from_schema(builder: GraphBuilder, op_type: str) -> Prototype:
    conversion = _conversion_for(builder, op_type)
    prototype = OperatorSchema.of(conversion.overload).derive_prototype(op_type)
    conversion.on_derived(prototype)
    return prototype


def _derived_from_keywords(
    builder: GraphBuilder,
    op_type: str,
    inputs: Mapping[str, Any],
    outputs: Sequence[tuple[str, int | None]],
    attrs: Mapping[str, TypedAttr],
) -> Prototype:
    conversion = _conversion_for(builder, op_type)
    prototype = Prototype(
        op_type,
        tuple(
            InputSpec(n, "dynamic" if isinstance(v, list | tuple) else "optional" if v is None else "required")
            for n, v in inputs.items()
        ),
        tuple(AttrSpec(name, value.type_name) for name, value in attrs.items()),
        tuple(OutputSpec(name, "required" if count is None else "dynamic") for name, count in outputs),
        f"derived from the converter of {conversion.overload}",
        derived=True,
    )
    conversion.on_derived(prototype)
    return prototype


def _conversion_for(builder: GraphBuilder, op_type: Any) -> Conversion:
    """The conversion in progress, where it may derive a prototype.

    Raises:
        PrototypeNotFoundError: There is none, or the user wants only declared operators.
    """
    conversion = builder.conversion
    if not isinstance(op_type, str) or not op_type:
        raise PrototypeNotFoundError(
            "An Ascend IR operator is given by its name",
            why=f"custom_op was called with {op_type!r}",
            fix='torchair.ge.custom_op("MyOp", x)',
        )
    if isinstance(conversion, Conversion) and not conversion.require_prototype:
        return conversion
    why = [f"No AscendIR {op_type} was found to be registered."]
    if isinstance(conversion, Conversion):
        why.append("config.experimental_config.require_prototype is set, so its prototype is not derived")
    else:
        why.append("outside the conversion of a torch operator nothing tells its prototype")
    close = difflib.get_close_matches(op_type, [p.name for p in prototypes], n=3)
    raise PrototypeNotFoundError(
        "An Ascend IR operator is not known",
        why=why,
        fix=(
            f'Declare it: torchair.ge.declare_op("{op_type}", inputs=[...], outputs=[...], attrs={{...}})'
            + (f"\nor use a known one: {', '.join(close)}" if close else "")
        ),
    )


# --- checks ---


def _check_count(prototype: Prototype, count: int) -> None:
    most = len(prototype.inputs) + len(prototype.attrs)
    least = len(prototype.inputs) + sum(s.required for s in prototype.attrs)
    if prototype.derived:
        least = len(prototype.inputs)
    if not least <= count <= most:
        wanted = str(most) if least == most else f"{least} to {most}"
        sizes = f"{len(prototype.inputs)} inputs, {len(prototype.attrs)} attributes"
        raise PrototypeArgumentCountError(
            "An Ascend IR operator was given another number of arguments than it has",
            why=f"{prototype.signature} takes {wanted} ({sizes}), {count} were given",
            fix="Pass the inputs in order (None for an absent one, a list for a dynamic one), then the attributes.",
        )


def _check_keywords(op_type: str, inputs: Any, outputs: Any, attrs: Any) -> list[tuple[str, int | None]]:
    """Check the form of the dictionaries, and return the outputs as (name, count) pairs."""
    problems = []
    if not isinstance(inputs, Mapping):
        problems.append(f"inputs is a {type(inputs).__name__}, not a dict of name to tensor")
    else:
        problems += [
            f"input {name!r} is {value!r}; it takes a tensor, None or a list of tensors"
            for name, value in inputs.items()
            if not (value is None or isinstance(value, Value) or _is_tensor_list(value))
        ]
    if not isinstance(attrs, Mapping):
        problems.append(f"attrs is a {type(attrs).__name__}, not a dict of name to torchair.ge.attr value")
    else:
        classes = ", ".join(f"ge.attr.{name}" for name in ATTR_CLASSES)
        problems += [
            f"attribute {name!r} is {value!r}; it takes "
            + (f"torchair.ge.attr.{fitting}({value!r})" if (fitting := fitting_type(value)) else f"one of {classes}")
            for name, value in attrs.items()
            if not isinstance(value, TypedAttr)
        ]
    named: list[tuple[str, int | None]] = []
    if not isinstance(outputs, list | tuple):
        problems.append(f"outputs is a {type(outputs).__name__}, not a list of names")
    else:
        for item in outputs:
            if isinstance(item, str):
                named.append((item, None))
            elif isinstance(item, tuple) and len(item) == 2 and isinstance(item[0], str) and _is_count(item[1]):
                named.append((item[0], item[1]))
            else:
                problems.append(f"output {item!r} is neither a name nor a (name, count) pair")
    if problems:
        raise ArgumentError(
            "custom_op was called with arguments that it cannot take",
            why=[f"{op_type}: {problem}" for problem in problems],
            fix=(
                f'torchair.ge.custom_op("{op_type}", inputs={{"x": x}}, attrs={{"a": torchair.ge.attr.Int(1)}}, '
                'outputs=["y", ("z", 2)])'
            ),
        )
    return named


def _check_names(
    prototype: Prototype, inputs: Mapping[str, Any], outputs: Sequence[str], attrs: Mapping[str, Any]
) -> None:
    """The names of the dictionaries against a declared prototype."""
    problems = []
    for title, given, known in (
        ("input", list(inputs), [s.name for s in prototype.inputs]),
        ("attribute", list(attrs), [s.name for s in prototype.attrs]),
    ):
        problems += [f"{name!r} is no {title} of it" for name in given if name not in known]
    wanted = [s.name for s in prototype.outputs]
    if list(outputs) != wanted:
        problems.append(f"its outputs are {', '.join(wanted) or 'none'}; {', '.join(outputs) or 'none'} were named")
    if problems:
        raise PrototypeArgumentTypeError(
            "The names given to an Ascend IR operator are not those of its prototype",
            why=[prototype.signature, *problems],
            fix="Use the names of the prototype; outputs in its order.",
        )


def _operand(prototype: Prototype, spec: InputSpec, value: Any) -> Operand:
    fits = {
        "required": isinstance(value, Value),
        "optional": value is None or isinstance(value, Value),
        "dynamic": _is_tensor_list(value),
    }[spec.kind]
    if not fits:
        wanted = {"required": "a tensor", "optional": "a tensor or None", "dynamic": "a list of tensors"}[spec.kind]
        raise PrototypeArgumentTypeError(
            "An input of an Ascend IR operator is of the wrong kind",
            why=f"input {spec.name!r} of {prototype.name} is {spec.kind}: it takes {wanted}, not "
            f"{type(value).__name__} ({value!r})",
            fix=f"Signature: {prototype.signature}\nA Python number becomes a tensor with torchair.ge.Const(value).",
        )
    return tuple(value) if spec.kind == "dynamic" else value


def _attrs(prototype: Prototype, given: Mapping[str, Any]) -> dict[str, Any]:
    """Attribute values as nodes hold them, defaults filled in.

    Raises:
        PrototypeArgumentTypeError: A value is of the wrong type, or a required one is missing.
    """
    values: dict[str, Any] = {}
    for spec in prototype.attrs:
        value = given.get(spec.name)
        if value is not None:
            values[spec.name] = attr_value(prototype.name, spec.name, spec.type, value)
        elif not spec.required:
            if spec.default is not None:
                values[spec.name] = attr_value(prototype.name, spec.name, spec.type, spec.default)
        elif not prototype.derived and spec.name not in given:
            raise PrototypeArgumentTypeError(
                "An Ascend IR operator lacks a required attribute",
                why=f"{spec.name!r} of {prototype.signature} was not given",
                fix=f'attrs={{"{spec.name}": torchair.ge.attr.{spec.type}(...)}}',
            )
    return values


def _is_tensor_list(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(item, Value) for item in value)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
