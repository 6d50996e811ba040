"""The conversion of an adapted operator whose call of its kernel is not what automatic conversion would make."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torchair.convert.custom_op import custom_op
from torchair.convert.matching import own_name
from torchair.convert.registry import converters, register_fx_node_ge_converter
from torchair.convert.schemas import OperatorSchema
from torchair.customop.adaptation import Adaptation
from torchair.opset.attributes import ATTR_CLASSES, TypedAttr
from torchair.opset.prototype import prototypes

__all__ = ["converts_by_name", "register_converter"]


def converts_by_name(adaptation: Adaptation) -> bool:
    """Whether automatic conversion passes the same arguments to the same IR operator.

    It takes the operator of the naming rule and all arguments in the order of the schema.
    """
    schema = adaptation.schema
    wanted = [*(a.name for a in schema.tensors), *(a.name for a in schema.others)]
    tensors = {a.name for a in schema.tensors}
    given = [str(rule.expression.value) for rule in adaptation.arguments if rule.expression.op == "argument"]
    in_order = [*(name for name in given if name in tensors), *(name for name in given if name not in tensors)]
    return (
        adaptation.kernel == schema.name
        and len(given) == len(adaptation.arguments)
        and in_order == wanted
        and list(adaptation.order) == sorted(adaptation.order)
    )


def register_converter(adaptation: Adaptation, find: Callable[[], Adaptation]) -> None:
    """Register a converter for an operator that is not converted by its name, unless somebody did.

    Where ``exec`` passes arguments as they are, it becomes the IR operator of ``exec``; where it computes some of them,
    an IR operator of the torch operator's own, which its eager kernel runs.

    Args:
        find: Gives the adaptation as it is when a graph is converted.
    """
    overload = adaptation.overload()
    if adaptation.destinations or converters.get(overload) is not None or converts_by_name(adaptation):
        return

    def convert(*args: Any, **kwargs: Any) -> Any:
        current = find()
        schema = OperatorSchema.of(overload)
        values = {argument.name: value for argument, value in schema.pairs(args, kwargs)}
        plain = all(rule.expression.op == "argument" and rule.text in values for rule in current.arguments)
        if plain:
            names = [rule.text for rule in current.arguments]
            return _node(current, current.kernel, names, values, current.order)
        names = [a.name for a in schema.arguments if not a.is_placement]
        return _node(current, own_name(overload), names, values, tuple(range(len(current.outputs))))

    register_fx_node_ge_converter(overload)(convert)


def _node(adaptation: Adaptation, op: str, names: list[str], values: dict[str, Any], order: tuple[int, ...]) -> Any:
    schema = adaptation.schema
    by_name = {a.name: a for a in schema.arguments}
    prototype = prototypes.get(op)
    if prototype is not None:
        tensors = [values[n] for n in names if by_name[n].input_kind is not None]
        others = [values[n] for n in names if by_name[n].input_kind is None]
        made = custom_op(op, *tensors, *others)
        written = len(prototype.reference_outputs)
    else:
        attrs: dict[str, TypedAttr] = {}
        for name in names:
            attr_type = by_name[name].attr_type or ("Float" if by_name[name].torch_type.startswith("Scalar") else None)
            if by_name[name].input_kind is None and attr_type is not None and values[name] is not None:
                attrs[name] = ATTR_CLASSES[attr_type](values[name])
        inputs = {name: values[name] for name in names if by_name[name].input_kind is not None}
        in_place = [a.name for a in schema.written if a.name in inputs]
        outputs = [*in_place, *(f"out{i}" for i in range(len(order)))]
        made = custom_op(op, inputs=inputs, attrs=attrs, outputs=outputs)
        written = len(in_place)
    results = list(made) if isinstance(made, tuple) else [] if made is None else [made]
    results = results[written:]
    picked = [results[i] for i in order] if len(results) == len(order) else results
    return None if not picked else picked[0] if len(picked) == 1 else tuple(picked)
