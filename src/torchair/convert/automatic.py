"""Automatic conversion of custom operators: ``my_op`` becomes the IR operator ``MyOp`` (specification, F-62)."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import torch
from torch import fx

from torchair._torch_compat import OpOverload
from torchair.convert.matching import output_roles, own_name, why_not
from torchair.convert.one_to_one import CallMapping
from torchair.convert.pasting import converter_code
from torchair.convert.results import check_results, flatten
from torchair.convert.schemas import Argument, OperatorSchema
from torchair.convert.torch_calls import is_random, operand_strides, shared_memory
from torchair.errors import AutoConversionError, Rejection
from torchair.ir import Operand, TensorType, Value
from torchair.logs import logger
from torchair.opset.attributes import attr_value
from torchair.opset.kernels import kernels
from torchair.opset.operator import operators
from torchair.opset.prototype import Prototype, prototypes
from torchair.opset.prototype_nodes import (
    Layout,
    add_prototype_node,
    flatten_operand,
    structured,
    symbolic_attrs,
)
from torchair.opset.torch_types import dtype_of, host_type, tensor_type

if TYPE_CHECKING:
    from torchair.convert.driver import Driver

__all__ = ["convert", "refusal"]

_GUIDE = "the rules are in docs/custom-operators.md"

_Pairs: TypeAlias = "Sequence[tuple[Argument, Any]]"


def convert(
    driver: Driver, node: fx.Node, overload: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any], val: Any
) -> Any:
    """Convert a custom operator by its schema and the prototype of its name.

    Args:
        args, kwargs: FX arguments, or IR values that stand for them.
        val: What the fake kernel promised.

    Returns:
        The operator's results, in the structure of ``val``.

    Raises:
        AutoConversionError: They do not fit; says which rule is broken and shows the converter to write.
        ConverterResultError: The built-in IR operator of that name has other results than the torch operator.
    """
    source = driver.builder.origin.source
    schema = OperatorSchema.of(overload)
    rejection = why_not(overload, require_prototype=driver.require_prototype)
    if rejection is not None:
        raise refusal(overload, rejection, source)
    prototype = prototypes.get(schema.name)
    if prototype is None:
        prototype = schema.derive_prototype()
        driver.report.derived.append(prototype.name)
    pairs = schema.pairs(driver.lower_args(args), {k: driver.lower_args(v) for k, v in kwargs.items()})
    operands = [_operand(value) for argument, value in pairs if argument.input_kind is not None]
    attrs = _attrs(prototype, pairs)
    outputs = _Outputs.of(schema, prototype, pairs, val)
    extra = symbolic_attrs(attrs, operands)[1]
    mapping = CallMapping([*flatten_operand(operands), *extra])
    unusable = [argument for argument, value in pairs if not mapping.add(argument, value)]
    if unusable:
        raise _unusable(overload, unusable, source)
    known = operators.get(prototype.name)
    inferred = known is not None and known.lowering is not None and not extra
    made = add_prototype_node(
        driver.builder,
        prototype,
        operands,
        attrs,
        outputs.layout,
        types=None if inferred else outputs.types,
        call=mapping.call(overload, outputs.order),
        side_effects=is_random(overload) or not (overload._schema.returns or schema.written),
        value_name=node.name,
    )
    if not inferred:
        made.aliases = tuple(shared_memory(driver, node, made.operands, outputs.metas))
    made.operand_strides = operand_strides(driver, node, made.operands)
    _report(driver, schema, prototype)
    results = outputs.results(schema, structured(prototype, outputs.layout, made))
    if results is None:
        return None
    fix = "Register a converter to an operator of another name:\n\n" + converter_code(schema, own_name(overload))
    return check_results(driver, overload, node, results, val, by=f"automatic conversion to {prototype.name}", fix=fix)


@dataclass(frozen=True, slots=True)
class _Outputs:
    """How the outputs of the prototype, the results of the torch operator and the outputs of the node belong together.

    Attributes:
        roles: For each output of the prototype, the written argument whose new value it is, or the number of the
            result that it is.
        layout: See :data:`~torchair.opset.prototype_nodes.Layout`.
        order: See :class:`torchair.ir.Call`.
        types, metas: For each output of the node; the fake tensor is None for a written argument.
    """

    roles: tuple[str | int, ...]
    layout: Layout
    order: tuple[int, ...]
    types: tuple[TensorType, ...]
    metas: tuple[Any, ...]

    @classmethod
    def of(cls, schema: OperatorSchema, prototype: Prototype, pairs: _Pairs, val: Any) -> _Outputs:
        roles = output_roles(schema, prototype)
        results = _own_results(schema, val)
        operands = {a.name: _operand(v) for a, v in pairs if a.input_kind is not None}
        items: dict[str | int, Any] = {a.name: operands[a.name] for a in schema.written}
        items.update(enumerate(results))
        starts: dict[str | int, int] = {}
        position = 0
        for role in (*(a.name for a in schema.written), *range(len(results))):
            starts[role] = position
            position += len(_leaves(items[role]))
        layout: list[int | None] = []
        order: list[int] = []
        metas: list[Any] = []
        for role in roles:
            item, leaves = items[role], _leaves(items[role])
            layout.append(len(leaves) if item is None or isinstance(item, list | tuple) else None)
            order += range(starts[role], starts[role] + len(leaves))
            metas += leaves
        types = [m.type.with_content(None) if isinstance(m, Value) else _type(m) for m in metas]
        fakes = [None if isinstance(m, Value) else m for m in metas]
        return cls(roles, tuple(layout), tuple(order), tuple(types), tuple(fakes))

    def results(self, schema: OperatorSchema, outputs: Sequence[Any]) -> Any:
        """What the torch operator returns, from the outputs of the node."""
        values = dict(zip(self.roles, outputs, strict=True))
        own = iter(range(len(schema.returns)))
        results = [values[next(own) if argument is None else argument] for argument in schema.returned_arguments]
        return None if not results else results[0] if len(results) == 1 else tuple(results)


def _own_results(schema: OperatorSchema, val: Any) -> list[Any]:
    """What FX promises for each result that is no written argument."""
    count = len(schema.returned_arguments)
    results = list(val) if count > 1 else [val] * count
    return [v for v, argument in zip(results, schema.returned_arguments, strict=True) if argument is None]


def _leaves(item: Any) -> list[Any]:
    return [leaf for leaf in flatten(item) if leaf is not None]


def _type(meta: Any) -> TensorType:
    return tensor_type(meta) if hasattr(meta, "dtype") and hasattr(meta, "device") else host_type(meta)


def _operand(value: Any) -> Operand:
    return tuple(v for v in value if v is not None) if isinstance(value, list | tuple) else value


def _attrs(prototype: Prototype, pairs: _Pairs) -> dict[str, Any]:
    """Attribute values in the prototype's order, without those that are None, defaults filled in."""
    given = [value for argument, value in pairs if argument.input_kind is None and not argument.is_placement]
    attrs: dict[str, Any] = {}
    for i, spec in enumerate(prototype.attrs):
        value = given[i] if i < len(given) else None
        if value is None and not spec.required:
            value = spec.default
        if spec.type == "Int" and isinstance(value, torch.dtype):
            value = int(dtype_of(value))
        if value is not None:
            attrs[spec.name] = attr_value(prototype.name, spec.name, spec.type, value)
    return attrs


def _report(driver: Driver, schema: OperatorSchema, prototype: Prototype) -> None:
    overload = schema.overload
    driver.report.auto_converted[str(overload)] += 1
    code = textwrap.indent(converter_code(schema, prototype.name), "  ")
    logger.info(
        "The converter for the Ascend operator %s has been automatically converted: %s\n%s",
        overload,
        prototype.signature,
        code,
    )
    if prototype.name in operators and kernels.get(prototype.name) is None:
        logger.warning_once(
            f"{overload} runs as the built-in Ascend IR operator {prototype.name}, because of its name; its own kernel "
            "is not used. If it is another operator, register a converter to an operator of another name."
        )


def _unusable(overload: OpOverload, arguments: Sequence[Argument], source: str) -> AutoConversionError:
    return AutoConversionError(
        f"Failed to auto-generated converter for {overload} to AscendIR:",
        why=[f"schema: {overload._schema}"]
        + [f"the value of argument {a.name!r} (of type {a.torch_type}) cannot be part of a graph" for a in arguments],
        fix="Keep the operator out of the compiled region with a graph break.",
        where=source,
    )


def refusal(overload: OpOverload, rejection: Rejection, source: str = "") -> AutoConversionError:
    """The error for an operator that :func:`~torchair.convert.matching.why_not` rejects."""
    return AutoConversionError(
        f"Failed to auto-generated converter for {overload} to AscendIR:",
        why=[*rejection.reason.splitlines(), _GUIDE],
        fix=rejection.fix,
        where=source,
    )
