"""How an Ascend IR operator is defined: in one place, by a Python signature, a lowering and what it does to memory.

::

    @ascend_op(shape=HostInts, source="CANN op_proto: transformation_ops.h")
    def Reshape(x: Value, shape: Value, *, axis: int = 0, num_axes: int = -1) -> Value:
        ...

The signature is the prototype: positional ``Value`` is a required input, ``Value | None`` optional,
``Sequence[Value]`` dynamic, keyword-only an attribute. The lowering is the operator's meaning in torch functions.
Calling the operator adds a node to the graph under construction.
"""

from __future__ import annotations

import inspect
import keyword
import typing
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic

from typing_extensions import TypeVar

from torchair.ir import Dim, DType, TensorType, Value
from torchair.opset.prototype import REQUIRED, AttrSpec, InputSpec, OutputSpec, Prototype, prototypes

__all__ = ["AscendOp", "DynamicOutput", "HostInts", "ascend_op", "operators"]

F = TypeVar("F", bound=Callable[..., Any])
#: What a call of an operator returns: a value, a list of them, a tuple of both.
R = TypeVar("R", default=Any)


class _HostInts:
    """Marks an input whose integers the lowering receives as Python numbers."""

    def __repr__(self) -> str:
        return "HostInts"


HostInts = _HostInts()


@dataclass(frozen=True, slots=True)
class DynamicOutput:
    """Marks an output that is a list."""

    name: str


#: Content of host results from the types of the operands (nested as the node's inputs) and the attributes.
ContentRule = Callable[..., "Sequence[Dim] | None"]

_ATTR_TYPE_OF_ANNOTATION: dict[Any, str] = {
    bool: "Bool",
    int: "Int",
    float: "Float",
    str: "Str",
    DType: "DataType",
    Sequence[bool]: "ListBool",
    Sequence[int]: "ListInt",
    Sequence[float]: "ListFloat",
    Sequence[str]: "ListStr",
    Sequence[DType]: "ListDataType",
    Sequence[Sequence[int]]: "ListListInt",
    Sequence[Sequence[float]]: "ListListFloat",
}


class AscendOp(Generic[R]):
    """An operator of the opset. Calling it inside a conversion adds a node and returns its output(s).

    Attributes:
        name: Ascend IR name.
        prototype: Inputs, attributes, outputs.
        lowering: Torch function that computes it; None for operators that can only be exported.
        side_effects: It must run even if nothing reads it.
        export_only: There is no lowering, on purpose.
        view: The result may share memory with the first input.
    """

    def __init__(
        self, signature: Callable[..., Any], prototype: Prototype, *, side_effects: bool, export_only: bool, view: bool
    ) -> None:
        self.name = prototype.name
        self.prototype = prototype
        self.side_effects = side_effects
        self.export_only = export_only
        self.view = view
        self.lowering: Callable[..., Any] | None = None
        self.strided_lowering: Callable[..., Any] | None = None
        self.type_rule: Callable[..., Any] | None = None
        self.content_rule: ContentRule | None = None
        self.__name__ = prototype.name
        self.__qualname__ = prototype.name
        self.__doc__ = signature.__doc__
        self.__module__ = signature.__module__
        self.__signature__ = inspect.signature(signature)
        self.__wrapped__ = signature

    def lower(self, function: F) -> F:
        """Decorator: the operator's meaning. Positional parameters are the inputs, keywords the attributes.

        It receives tensors (None for an absent optional input, a list for a dynamic one, a list of ints for a host
        input) and returns a tensor, or a tuple with one element per output (a list for a dynamic output). It never
        writes an input, unless the prototype has an output of that input's name: then it may write it and returns it.
        """
        self.lowering = function
        return function

    def lower_strided(self, function: F) -> F:
        """Decorator: the lowering of a node that asks for strides of its operands (``Node.operand_strides``)."""
        self.strided_lowering = function
        return function

    def infer(self, function: F) -> F:
        """Decorator: a type rule by hand, for export-only and hot operators.

        It receives :class:`TensorType` where the lowering receives tensors, and returns types; None leaves a case to
        the lowering.
        """
        self.type_rule = function
        return function

    def content(self, function: F) -> F:
        """Decorator: the numbers of a host result, from the types of the operands; None when they are not known."""
        self.content_rule = function
        return function

    def __call__(
        self, *args: Any, dependencies: Sequence[Value] = (), node_name: str | None = None, **kwargs: Any
    ) -> R:
        """Add a node. Python numbers and lists stand for constants.

        Args:
            dependencies: Values whose producers must run before.
            node_name: Exact name of the node.
        """
        from torchair.opset.builder import current_builder

        results: R = current_builder(self.name).call_operator(
            self, args, kwargs, dependencies=dependencies, node_name=node_name
        )
        return results

    def __repr__(self) -> str:
        return f"<AscendOp {self.prototype.signature}>"


#: All built-in operators by name.
operators: dict[str, AscendOp] = {}


def ascend_op(
    *,
    outputs: Sequence[str | DynamicOutput] = ("y",),
    side_effects: bool = False,
    export_only: bool = False,
    view: bool = False,
    source: str = "CANN op_proto",
    **constraints: _HostInts,
) -> Callable[[Callable[..., R]], AscendOp[R]]:
    """Define an operator by its signature.

    Args:
        outputs: Output names in order. One that is also an input's name says that the operator writes that input in
        place.
        side_effects: See :class:`AscendOp`.
        export_only: There will be no lowering.
        view: See :class:`AscendOp`. Only an operator with a hand-written type rule has to say it.
        source: Document (and version) of the signature.
        constraints: ``input=HostInts``.
    """

    def define(signature: Callable[..., R]) -> AscendOp[R]:
        hints = typing.get_type_hints(signature)
        inputs, attrs = [], []
        for name, parameter in inspect.signature(signature).parameters.items():
            if parameter.kind is parameter.KEYWORD_ONLY:
                default = REQUIRED if parameter.default is parameter.empty else parameter.default
                attrs.append(AttrSpec(name, _ATTR_TYPE_OF_ANNOTATION[hints[name]], default))
            else:
                inputs.append(InputSpec(_ir_name(name), _input_kind(hints[name]), constraints.get(name) is HostInts))
        specs = tuple(OutputSpec(o.name, "dynamic") if isinstance(o, DynamicOutput) else OutputSpec(o) for o in outputs)
        prototype = Prototype(signature.__name__, tuple(inputs), tuple(attrs), specs, source)
        prototypes.add_builtin(prototype)
        op = AscendOp(signature, prototype, side_effects=side_effects, export_only=export_only, view=view)
        operators[op.name] = op
        return op

    return define


def _ir_name(parameter: str) -> str:
    """The IR name of an input; one that is a Python keyword is written with an underscore behind it (``else_``)."""
    bare = parameter.removesuffix("_")
    return bare if keyword.iskeyword(bare) else parameter


def _input_kind(hint: Any) -> typing.Literal["required", "optional", "dynamic"]:
    if hint is Value:
        return "required"
    if type(None) in typing.get_args(hint):
        return "optional"
    return "dynamic"


def infer_types(op: AscendOp, operands: Sequence[Any], attrs: dict[str, Any]) -> Sequence[TensorType] | None:
    """Types by the operator's hand-written rule, flattened; None when it has none, or leaves this case out."""
    if op.type_rule is None:
        return None
    result = op.type_rule(*operands, **attrs)
    if result is None:
        return None
    flat: list[TensorType] = []
    for item in (result,) if isinstance(result, TensorType) else result:
        flat.extend([item] if isinstance(item, TensorType) else item)
    return flat
