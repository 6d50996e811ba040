"""The functions of output rules: what they compute here, and how they are written in C++ and Python.

Everything works on symbolic sizes. A guard is added only where eager PyTorch would add one: where two sizes have to be
equal, and where a condition decides.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch

from torchair import _torch_compat

__all__ = [
    "DTYPES",
    "FUNCTIONS",
    "METHODS",
    "Function",
    "Kind",
    "broadcast",
    "cat",
    "divide",
    "is_integral",
    "matmul",
    "modulo",
    "permute",
    "reduce",
]

#: What an expression is: ``tensor``, ``tensors`` (a list), ``sizes`` (whole numbers), ``int``, ``float``, ``bool``,
#: ``dtype``, ``text``, ``other``; with ``?`` where it may be None.
Kind: TypeAlias = str

#: Names of C++ (``at::kFloat``, ``at::ScalarType::Float``) and the dtypes of torch.
DTYPES: dict[str, torch.dtype] = {
    "Byte": torch.uint8,
    "Char": torch.int8,
    "Short": torch.int16,
    "Int": torch.int32,
    "Long": torch.int64,
    "UInt16": torch.uint16,
    "UInt32": torch.uint32,
    "UInt64": torch.uint64,
    "Half": torch.float16,
    "BFloat16": torch.bfloat16,
    "Float": torch.float32,
    "Double": torch.float64,
    "ComplexHalf": torch.complex32,
    "ComplexFloat": torch.complex64,
    "ComplexDouble": torch.complex128,
    "Bool": torch.bool,
    "Float8_e4m3fn": torch.float8_e4m3fn,
    "Float8_e5m2": torch.float8_e5m2,
}

# Of these PyTorch leaves the types out.
_sym_max: Callable[[Any, Any], Any] = torch.sym_max
_sym_min: Callable[[Any, Any], Any] = torch.sym_min

_INTEGRAL = (
    torch.uint8,
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.uint16,
    torch.uint32,
    torch.uint64,
)


@dataclass(frozen=True, slots=True)
class Function:
    """One function, or one method, for arguments of some kinds.

    Attributes:
        name: Its name in C++ (in the namespace of the kernel API).
        parameters: Kinds of its arguments; of a method, the object's first.
        result: Kind of its result.
        compute: What it computes; raises ValueError for arguments that it does not take.
        python: How Python writes it, with ``{0}`` for the first argument.
        spellings: Names that rules may use for it.
        variadic: The last parameter may be repeated.
    """

    name: str
    parameters: tuple[Kind, ...]
    result: Kind
    compute: Callable[..., Any]
    python: str
    spellings: tuple[str, ...]
    variadic: bool = False


# --- whole numbers ---


def divide(a: Any, b: Any) -> Any:
    """``a / b`` of whole numbers as C++ has it: rounded toward zero."""
    if _known_zero(b):
        raise ValueError("it divides by zero")
    if _torch_compat.known_true(a >= 0) and _torch_compat.known_true(b > 0):
        return a // b
    if not _torch_compat.known_true(b > 0) and bool(b == 0):  # the sign decides below anyway
        raise ValueError("it divides by zero")
    return a // b if bool(a >= 0) == bool(b > 0) else -((-a) // b)


def modulo(a: Any, b: Any) -> Any:
    """``a % b`` of whole numbers as C++ has it: with the sign of ``a``."""
    return a - divide(a, b) * b


def _known_zero(number: Any) -> bool:
    return not isinstance(number, torch.SymInt) and number == 0


def _maximum(*numbers: Any) -> Any:
    result = numbers[0]
    for number in numbers[1:]:
        result = _sym_max(result, number)
    return result


def _minimum(*numbers: Any) -> Any:
    result = numbers[0]
    for number in numbers[1:]:
        result = _sym_min(result, number)
    return result


# --- sizes ---


def _position(index: Any, length: int, what: str) -> int:
    position = int(index)
    if not -length <= position < length:
        raise ValueError(f"{what} {position} of {length}")
    return position % length if length else 0


def _size(tensor: torch.Tensor, index: Any) -> Any:
    return tensor.shape[_position(index, tensor.dim(), "it asks for dimension")]


def _item(values: Sequence[Any], index: Any) -> Any:
    return values[_position(index, len(values), "it asks for item")]


def broadcast(*sizes: Sequence[Any]) -> list[Any]:
    """The sizes that tensors of these sizes are broadcast to."""
    rank = max(map(len, sizes))
    result: list[Any] = []
    for position in range(-rank, 0):
        merged: Any = 1
        for shape in sizes:
            if len(shape) >= -position:
                merged = _merged(merged, shape[position], position, sizes)
        result.append(merged)
    return result


def _merged(a: Any, b: Any, position: int, sizes: Sequence[Sequence[Any]]) -> Any:
    if _torch_compat.known_true(b == 1):
        return a
    if _torch_compat.known_true(a == 1) or _torch_compat.known_true(a == b):
        return b
    # As eager mode decides: each of these adds a guard if it is not known.
    if a == b:
        return b
    if a == 1:
        return b
    if b == 1:
        return a
    shown = " and ".join(str(list(shape)) for shape in sizes)
    raise ValueError(f"sizes {shown} cannot be broadcast: {a} and {b} in dimension {position}")


def reduce(sizes: Sequence[Any], dims: Any, keepdim: Any = False) -> list[Any]:
    """The sizes without some dimensions (all, if ``dims`` is empty), or with 1 in their place."""
    given = [dims] if isinstance(dims, int) else list(dims)
    rank = len(sizes)
    if rank == 0 and all(d in (-1, 0) for d in given):
        return []
    gone = {_position(d, rank, "it reduces dimension") for d in given} or set(range(rank))
    if keepdim:
        return [1 if i in gone else size for i, size in enumerate(sizes)]
    return [size for i, size in enumerate(sizes) if i not in gone]


def matmul(a: Sequence[Any], b: Sequence[Any]) -> list[Any]:
    """The sizes of a matrix product as ``torch.matmul`` has it."""
    if not a or not b:
        raise ValueError("a matrix product needs at least one dimension on both sides")
    rows, columns = list(a[-2:-1]), list(b[-1:]) if len(b) > 1 else []
    inner = b[-2] if len(b) > 1 else b[0]
    if not _torch_compat.known_true(a[-1] == inner) and a[-1] != inner:
        raise ValueError(f"sizes {list(a)} and {list(b)} do not fit a matrix product: {a[-1]} and {inner}")
    return [*broadcast(a[:-2], b[:-2]), *rows, *columns]


def cat(tensors: Sequence[torch.Tensor], dim: Any) -> list[Any]:
    """The sizes of tensors that are joined along a dimension."""
    if not tensors:
        raise ValueError("it joins an empty list")
    result = list(tensors[0].shape)
    position = _position(dim, len(result), "it joins along dimension")
    if any(t.dim() != len(result) for t in tensors):
        raise ValueError("it joins tensors of different numbers of dimensions")
    result[position] = sum(t.shape[position] for t in tensors)
    return result


def permute(sizes: Sequence[Any], order: Sequence[Any]) -> list[Any]:
    """The sizes in another order."""
    positions = [_position(i, len(sizes), "it permutes dimension") for i in order]
    if sorted(positions) != list(range(len(sizes))):
        raise ValueError(f"{list(order)} is no order of {len(sizes)} dimensions")
    return [sizes[i] for i in positions]


# --- dtypes ---


def is_integral(dtype: torch.dtype, include_bool: bool) -> bool:
    """Whether a dtype has whole numbers only, as ``at::isIntegralType``."""
    return dtype in _INTEGRAL or (include_bool and dtype is torch.bool)


# --- optional values ---


def _value(value: Any) -> Any:
    if value is None:
        raise ValueError("it reads the value of an argument that is None")
    return value


def _methods() -> list[Function]:
    tensor = [
        Function("size", ("tensor", "int"), "int", _size, "{0}.size({1})", ("size", "sym_size")),
        Function("sizes", ("tensor",), "sizes", lambda x: list(x.shape), "{0}.shape", ("sizes", "sym_sizes")),
        Function("dim", ("tensor",), "int", lambda x: x.dim(), "{0}.dim()", ("dim", "ndimension")),
        Function("numel", ("tensor",), "int", lambda x: x.numel(), "{0}.numel()", ("numel", "sym_numel")),
        Function("dtype", ("tensor",), "dtype", lambda x: x.dtype, "{0}.dtype", ("scalar_type", "dtype")),
    ]
    lists = [
        Function("length", (kind,), "int", len, "len({0})", ("size",)) for kind in ("tensors", "sizes", "floats")
    ] + [
        Function("item", (kind, "int"), item, _item, "{0}[{1}]", ("at", "[]"))
        for kind, item in (("tensors", "tensor"), ("sizes", "int"), ("floats", "float"))
    ]
    optional: list[Function] = []
    for kind in ("tensor", "int", "float", "bool", "dtype", "sizes", "text"):
        given = f"{kind}?"
        optional += [
            Function("has_value", (given,), "bool", lambda v: v is not None, "({0} is not None)", ("has_value",)),
            Function("value", (given,), kind, _value, "{0}", ("value",)),
            Function(
                "value_or",
                (given, kind),
                kind,
                lambda v, other: other if v is None else v,
                "({0} if {0} is not None else {1})",
                ("value_or",),
            ),
        ]
    optional += [
        Function("has_value", ("tensor?",), "bool", lambda v: v is not None, "({0} is not None)", ("defined",)),
        Function("defined", ("tensor",), "bool", lambda v: True, "({0} is not None)", ("defined",)),
    ]
    return [*tensor, *lists, *optional]


def _functions() -> list[Function]:
    return [
        Function(
            "broadcast",
            ("sizes", "sizes"),
            "sizes",
            broadcast,
            "torch.broadcast_shapes({*})",
            ("broadcast", "broadcast_ops_npu_output_size", "infer_size"),
            variadic=True,
        ),
        Function(
            "same",
            ("sizes",),
            "sizes",
            list,
            "{0}",
            ("same", "infershape_for_elewise", "input_same_output_size", "array_to_small_vector"),
        ),
        *(
            Function(
                "reduce",
                ("sizes", dims, "bool"),
                "sizes",
                reduce,
                "rules.reduce({*})",
                ("reduce", "reduce_ops_npu_output_size"),
            )
            for dims in ("sizes", "int")
        ),
        Function("matmul", ("sizes", "sizes"), "sizes", matmul, "rules.matmul({*})", ("matmul",)),
        Function("cat", ("tensors", "int"), "sizes", cat, "rules.cat({*})", ("cat",)),
        Function("permute", ("sizes", "sizes"), "sizes", permute, "rules.permute({*})", ("permute",)),
        Function("product", ("sizes",), "int", math.prod, "math.prod({0})", ("multiply_integers",)),
        Function("min", ("int", "int"), "int", _minimum, "torch.sym_min({*})", ("min",)),
        Function("max", ("int", "int"), "int", _maximum, "torch.sym_max({*})", ("max",)),
        Function(
            "promote", ("tensor", "tensor"), "dtype", torch.result_type, "torch.result_type({*})", ("result_type",)
        ),
        Function(
            "promote",
            ("dtype", "dtype"),
            "dtype",
            torch.promote_types,
            "torch.promote_types({*})",
            ("promote_types", "promoteTypes", "promote"),
        ),
        Function(
            "is_integral",
            ("dtype", "bool"),
            "bool",
            is_integral,
            "rules.is_integral({*})",
            ("isIntegralType", "is_integral"),
        ),
        Function(
            "is_floating",
            ("dtype",),
            "bool",
            lambda d: d.is_floating_point,
            "{0}.is_floating_point",
            ("isFloatingType", "is_floating"),
        ),
        Function(
            "is_complex", ("dtype",), "bool", lambda d: d.is_complex, "{0}.is_complex", ("isComplexType", "is_complex")
        ),
        Function(
            "to_real", ("dtype",), "dtype", lambda d: d.to_real(), "{0}.to_real()", ("toRealValueType", "to_real")
        ),
        Function("to_complex", ("dtype",), "dtype", lambda d: d.to_complex(), "{0}.to_complex()", ("toComplexType",)),
    ]


def _by_spelling(functions: Sequence[Function]) -> dict[str, tuple[Function, ...]]:
    table: dict[str, tuple[Function, ...]] = {}
    for function in functions:
        for spelling in function.spellings:
            table[spelling] = (*table.get(spelling, ()), function)
    return table


#: Functions and methods by the name that rules use, one for each combination of kinds.
FUNCTIONS = _by_spelling(_functions())
METHODS = _by_spelling(_methods())
