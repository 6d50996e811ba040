"""Converters by operator overload: the one form for ours and for users'."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from types import MappingProxyType
from typing import Any

from torch import fx

from torchair._torch_compat import OpOverload, OpOverloadPacket
from torchair.convert.errors import definition, failing_line
from torchair.convert.pasting import parameters_of
from torchair.convert.schemas import OperatorSchema
from torchair.errors import ConverterRegistrationError, Rejection, TorchAirError
from torchair.opset.prototype import REQUIRED

__all__ = ["Converter", "ConverterRegistry", "Supports", "converters", "register_fx_node_ge_converter"]

#: Looks at the FX node before conversion; a :class:`Rejection` counts as no converter.
Supports = Callable[[fx.Node], "Rejection | None"]


class Converter:
    """A registered conversion of one operator overload.

    Calling it runs the function; the driver adds ``meta_outputs`` when the function has such a parameter.
    """

    def __init__(
        self, overload: OpOverload, function: Callable[..., Any], supports: Supports | None, *, builtin: bool
    ) -> None:
        self.overload = overload
        self.function = function
        self.supports = supports
        self.builtin = builtin
        self.supported_declaration: Any = None
        self.takes_meta_outputs = "meta_outputs" in inspect.signature(function).parameters
        self.__name__ = getattr(function, "__name__", str(overload))
        self.__doc__ = function.__doc__
        self.__wrapped__ = function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return self.function(*args, **kwargs)
        except TorchAirError as e:
            if not self.builtin:  # the line of the model is known to the driver, this one is not
                e.why = (*e.why, f"at {failing_line(self.function, e)[0]}")
            raise

    def __repr__(self) -> str:
        return f"<Converter of {self.overload}>"


class ConverterRegistry:
    """Converters by overload (process-wide). Users' win over ours."""

    def __init__(self) -> None:
        self._converters: dict[OpOverload, Converter] = {}
        self.revision = 0

    def register(self, converter: Converter) -> None:
        """Register; a later registration replaces an earlier one."""
        self._converters[converter.overload] = converter
        self.revision += 1

    def forget(self, overload: OpOverload) -> Converter | None:
        """Drop and return the converter of an overload."""
        self.revision += 1
        return self._converters.pop(overload, None)

    def get(self, overload: Any) -> Converter | None:
        return self._converters.get(overload)

    def __iter__(self) -> Iterator[Converter]:
        return iter(tuple(self._converters.values()))

    def snapshot(self) -> MappingProxyType[OpOverload, Converter]:
        """The converters as they are now, for one compile."""
        return MappingProxyType(dict(self._converters))


#: The process-wide registry.
converters = ConverterRegistry()


def register_fx_node_ge_converter(
    aten_op: OpOverload | None, *, supports: Supports | None = None
) -> Callable[[Any], Any]:
    """Register the decorated function as the conversion of one operator overload to Ascend IR.

    The function takes the operator's arguments by its schema (same names, order and keywords): tensors as
    ``torchair.ge.Tensor``, symbolic numbers as 0-d host tensors, the rest as it is. With a parameter
    ``meta_outputs`` it also gets ``TensorSpec`` of the results. It returns as many tensors as the operator.

    Args:
        aten_op: The overload, ``torch.ops.ns.name.default``. None (an operator that this torch lacks) registers
        nothing.
        supports: Looks at the FX node first; a :class:`~torchair.errors.Rejection` counts as no converter.

    Returns:
        A decorator; the decorated name becomes a :class:`Converter`.

    Raises:
        ConverterRegistrationError: ``aten_op`` is a packet (then its overloads are listed) or not an operator, or no
            call of the operator fits the function's parameters.
    """
    if aten_op is None:
        return lambda function: function
    if isinstance(aten_op, OpOverloadPacket):
        names: list[str] = aten_op.overloads()  # type: ignore[no-untyped-call]
        overloads = [f"torch.ops.{str(aten_op).replace('::', '.')}.{name}" for name in names]
        raise ConverterRegistrationError(
            "A converter is registered for one overload, not for all overloads of an operator",
            why=[f"{aten_op} has the overloads:", *(f"  {name}" for name in overloads)],
            fix=f"@torchair.register_fx_node_ge_converter({overloads[0]})",
        )
    if not isinstance(aten_op, OpOverload):
        raise ConverterRegistrationError(
            "A converter is registered for an operator overload",
            why=f"{aten_op!r} is a {type(aten_op).__name__}",
            fix="@torchair.register_fx_node_ge_converter(torch.ops.my_namespace.my_op.default)",
        )

    def register(function: Any) -> Converter:
        if not callable(function):
            raise ConverterRegistrationError(
                "A converter is a function",
                why=f"{function!r} is a {type(function).__name__}",
                fix="Decorate a function.",
            )
        builtin = (getattr(function, "__module__", None) or "").startswith("torchair.convert.")
        if not builtin:
            _check_parameters(aten_op, function)
        converter = Converter(aten_op, function, supports, builtin=builtin)
        converters.register(converter)
        return converter

    return register


def _check_parameters(overload: OpOverload, function: Any) -> None:
    """Check that at least one form of a call of the operator (defaults left out or not) fits a converter's parameters.

    Raises:
        ConverterRegistrationError: None does; names both lists.
    """
    try:
        signature = inspect.signature(function)
    except ValueError:  # not written in Python
        return
    arguments = OperatorSchema.of(overload).arguments
    positional = [a for a in arguments if not a.kwarg_only]
    least = sum(a.default is REQUIRED for a in positional)
    keywords = [a for a in arguments if a.kwarg_only]
    extra = {"meta_outputs"} & set(signature.parameters)
    for count in range(least, len(positional) + 1):
        for also in ((), signature.parameters):
            named = [a for a in keywords if a.default is REQUIRED or a.name in also]
            try:
                signature.bind(*[None] * count, **dict.fromkeys([*(a.name for a in named), *extra]))
            except TypeError:
                continue
            return
    name = getattr(function, "__name__", "convert")
    name = name if name.isidentifier() else "convert"
    place = definition(function)
    raise ConverterRegistrationError(
        "A converter has other parameters than its operator",
        why=[
            f"operator:  {overload._schema}",
            f"converter: {name}{signature}",
            *([f"at {place}"] if place else []),
        ],
        fix=f"def {name}({', '.join(parameters_of(arguments))}):",
    )
