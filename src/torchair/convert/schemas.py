"""What a torch schema says, in the terms of an IR prototype: inputs, attributes, what is written, what is returned."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import torch

from torchair._torch_compat import OpOverload
from torchair.opset.prototype import REQUIRED, AttrSpec, InputSpec, Kind, OutputSpec, Prototype, ir_name

__all__ = ["Argument", "OperatorSchema", "ReturnKind", "ir_name", "own_name"]

ReturnKind: TypeAlias = Literal["tensor", "optional", "list", "number", "other"]

_INPUT_KINDS: dict[str, Kind] = {
    "Tensor": "required",
    "Optional[Tensor]": "optional",
    "List[Tensor]": "dynamic",
    "List[Optional[Tensor]]": "dynamic",
    "Optional[List[Tensor]]": "dynamic",
    "Optional[List[Optional[Tensor]]]": "dynamic",
}

_ATTR_TYPES = {
    "int": "Int",
    "SymInt": "Int",
    "float": "Float",
    "bool": "Bool",
    "SymBool": "Bool",
    "str": "Str",
    "ScalarType": "DataType",
    "List[int]": "ListInt",
    "List[SymInt]": "ListInt",
    "List[float]": "ListFloat",
    "List[bool]": "ListBool",
    "List[str]": "ListStr",
    "List[ScalarType]": "ListDataType",
}

#: Where and how a result is stored. No part of an Ascend IR operator: the graph decides it.
_PLACEMENTS = frozenset({"Device", "Layout", "MemoryFormat"})

_RETURNS: dict[str, ReturnKind] = {
    "Tensor": "tensor",
    "Optional[Tensor]": "optional",
    "List[Tensor]": "list",
    "int": "number",
    "SymInt": "number",
    "float": "number",
    "bool": "number",
    "SymBool": "number",
    "number": "number",
}

_SCALARS = {"Scalar": "Float", "Scalar[]": "ListFloat"}

_OUTPUT_KINDS: dict[ReturnKind, Kind] = {"list": "dynamic", "optional": "optional"}


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument of an operator.

    Attributes:
        name: Its name.
        torch_type: Its type as people write it: ``"Tensor?"``, ``"Scalar"``, ``"int[]"``.
        input_kind: The kind of IR input that it is; None for what is no tensor.
        attr_type: The type of IR attribute that it is (one of ``ATTR_TYPES``); None for tensors, placements and types
            that no attribute has.
        is_placement: It says where or how a result is stored (device, layout, memory format).
        written: The operator writes it in place.
        kwarg_only: It is passed by keyword.
        default: Its default, or ``REQUIRED``.
    """

    name: str
    torch_type: str
    input_kind: Kind | None
    attr_type: str | None
    is_placement: bool
    written: bool
    kwarg_only: bool
    default: Any

    @property
    def is_list(self) -> bool:
        """A list of tensors."""
        return self.input_kind == "dynamic"


@dataclass(frozen=True, slots=True)
class OperatorSchema:
    """The schema of one overload, or one that somebody wrote down and nobody defined yet.

    Attributes:
        torch_schema: PyTorch's form of it.
        name: Name of the IR operator that belongs to it by the naming rule: ``ns::my_op_functional`` is ``MyOp``.
        arguments: All arguments in order.
        returns: Kinds of the values that it returns beyond the arguments that it writes.
        returned_arguments: For each return of the schema, the written argument that it is, or None.
    """

    torch_schema: torch.FunctionSchema
    name: str
    arguments: tuple[Argument, ...]
    returns: tuple[ReturnKind, ...]
    returned_arguments: tuple[str | None, ...]
    _overload: OpOverload | None = None

    @classmethod
    def of(cls, overload: OpOverload) -> OperatorSchema:
        """Read the schema of an overload."""
        return _read_overload(overload)

    @classmethod
    def of_torch_schema(cls, schema: torch.FunctionSchema) -> OperatorSchema:
        """Read a schema that need not belong to an operator."""
        return _read(schema, None)

    @property
    def overload(self) -> OpOverload:
        """The overload that it is the schema of."""
        assert self._overload is not None, f"{self.torch_schema} is no operator's"
        return self._overload

    @property
    def path(self) -> str:
        """``"ns.my_op.default"``: where the overload is in ``torch.ops``."""
        schema = self.torch_schema
        return f"{schema.name.replace('::', '.')}.{schema.overload_name or 'default'}"

    @property
    def tensors(self) -> tuple[Argument, ...]:
        """Arguments that become inputs."""
        return tuple(a for a in self.arguments if a.input_kind is not None)

    @property
    def others(self) -> tuple[Argument, ...]:
        """Arguments that become attributes, or would if an attribute type stood for them."""
        return tuple(a for a in self.arguments if a.input_kind is None and not a.is_placement)

    @property
    def written(self) -> tuple[Argument, ...]:
        """Arguments that the operator writes in place."""
        return tuple(a for a in self.arguments if a.written)

    @property
    def result_names(self) -> tuple[str, ...]:
        """Names that the schema gives to the values of :attr:`returns`; empty where it gives none."""
        returns = zip(self.torch_schema.returns, self.returned_arguments, strict=True)
        return tuple(r.name for r, argument in returns if argument is None)

    def pairs(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[tuple[Argument, Any]]:
        """Every argument with its value in a call, defaults filled in (None for one that is missing)."""
        values = []
        positional = iter(args)
        for argument in self.arguments:
            missing = None if argument.default is REQUIRED else argument.default
            if argument.kwarg_only or argument.name in kwargs:
                values.append((argument, kwargs.get(argument.name, missing)))
            else:
                values.append((argument, next(positional, missing)))
        return values

    def derive_prototype(self, name: str | None = None, *, scalars: bool = False) -> Prototype:
        """The prototype that this schema would have.

        Inputs come first, then attributes. Outputs are the written inputs, then the results, under the names that the
        schema gives them or ``out0``, ``out1`` ..., never the name of an argument that is not written.

        Args:
            name: Name of the IR operator; by default the one of the naming rule.
            scalars: Give an argument of type Scalar an attribute of type Float; by default it gets none.
        """
        taken = {a.name for a in self.arguments}
        outputs = [OutputSpec(a.name, a.input_kind or "required") for a in self.written]
        for i, (kind, given) in enumerate(zip(self.returns, self.result_names, strict=True)):
            fresh = given or f"out{i}"
            while fresh in taken:
                fresh += "_"
            taken.add(fresh)
            outputs.append(OutputSpec(fresh, _OUTPUT_KINDS.get(kind, "required")))
        return Prototype(
            name or self.name,
            tuple(InputSpec(a.name, a.input_kind) for a in self.tensors if a.input_kind is not None),
            tuple(
                AttrSpec(a.name, attr_type, a.default)
                for a in self.others
                if (attr_type := a.attr_type or (scalars and _SCALARS.get(a.torch_type.removesuffix("?"))) or None)
            ),
            tuple(outputs),
            f"derived from {self.torch_schema}",
            derived=True,
        )


def own_name(overload: OpOverload) -> str:
    """A name with the namespace, for a torch operator whose own name is taken: ``ns::add`` is ``NsAdd``."""
    return ir_name(f"{overload.namespace}_{overload._schema.name.rpartition('::')[2]}")


@functools.lru_cache(maxsize=4096)
def _read_overload(overload: OpOverload) -> OperatorSchema:
    return _read(overload._schema, overload)


def _read(schema: torch.FunctionSchema, overload: OpOverload | None) -> OperatorSchema:
    arguments = tuple(map(_argument, schema.arguments))
    returned = tuple(_returned_argument(schema, r) for r in schema.returns)
    own = [r for r, argument in zip(schema.returns, returned, strict=True) if argument is None]
    return OperatorSchema(
        schema,
        ir_name(schema.name),
        arguments,
        tuple(_RETURNS.get(str(r.type), "other") for r in own),
        returned,
        overload,
    )


def _argument(argument: torch.Argument) -> Argument:
    kind = _INPUT_KINDS.get(str(argument.type))
    real = str(argument.real_type)
    inner = real.removeprefix("Optional[").removesuffix("]") if real.startswith("Optional[") else real
    default = argument.default_value if argument.has_default_value() else REQUIRED
    return Argument(
        argument.name,
        _written_type(real),
        kind,
        None if kind is not None else _ATTR_TYPES.get(inner),
        inner in _PLACEMENTS,
        argument.alias_info is not None and argument.alias_info.is_write,
        argument.kwarg_only,
        tuple(default) if isinstance(default, list) else default,
    )


def _written_type(real: str) -> str:
    """``Optional[List[number]]`` -> ``Scalar[]?``."""
    if real.startswith("Optional["):
        return _written_type(real.removeprefix("Optional[").removesuffix("]")) + "?"
    if real.startswith("List["):
        return _written_type(real.removeprefix("List[").removesuffix("]")) + "[]"
    return "Scalar" if real == "number" else real


def _returned_argument(schema: torch.FunctionSchema, returned: torch.Argument) -> str | None:
    """The written argument that a return is by its alias annotation: ``Tensor(a!)`` on both."""
    if returned.alias_info is None or not returned.alias_info.is_write:
        return None
    labels = returned.alias_info.before_set
    for argument in schema.arguments:
        info = argument.alias_info
        if info is not None and info.is_write and info.before_set & labels:
            return argument.name
    return None
