"""What users declare about IR operators: prototypes (``torchair.ge.declare_op``) and kernels (``register_kernel``)."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

from torchair import _torch_compat
from torchair.errors import ArgumentError, PrototypeError
from torchair.logs import get_logger
from torchair.opset.attributes import ATTR_CLASSES, TypedAttr, attr_value
from torchair.opset.kernels import Kernel, kernels
from torchair.opset.loading import load_operators
from torchair.opset.prototype import (
    ATTR_TYPES,
    REQUIRED,
    AttrSpec,
    InputSpec,
    OutputSpec,
    Prototype,
    ir_name,
    prototypes,
)

__all__ = ["declare_op", "register_kernel"]

logger = get_logger(__name__)

F = TypeVar("F", bound=Callable[..., Any])

#: ``{"x": "required"}``, or a list of names and ``(name, kind)`` pairs; a bare name is required.
Operands: TypeAlias = "Mapping[str, str] | Sequence[str | tuple[str, str]]"

#: ``{"axis": "Int"}`` or ``{"axis": ("Int", 0)}`` with a default, or a list of such pairs.
Attributes: TypeAlias = "Mapping[str, Any] | Sequence[tuple[str, Any]]"

_KINDS = ("required", "optional", "dynamic")
_OUTPUT_KINDS = ("required", "dynamic")


def declare_op(name: str, *, inputs: Operands = (), outputs: Operands = (), attrs: Attributes = ()) -> Prototype:
    """Declare the prototype of an Ascend IR operator, as an operator project would.

    ::

        torchair.ge.declare_op(
            "MyOp",
            inputs={"x": "required", "y": "optional", "z": "dynamic"},
            outputs=["out"],
            attrs={"attr1": "Float", "attr2": ("Int", 0)},
        )

    An output with the name of an input says that the operator writes that input in place. A later
    declaration of a name replaces an earlier one.

    Args:
        name: Operator type in upper camel case; ``ns::my_op`` looks for ``MyOp``.
        inputs: Name to kind (``"required"``, ``"optional"``, ``"dynamic"``), in order; or a list of names and
            ``(name, kind)`` pairs, where a bare name is required.
        outputs: Likewise, with the kinds ``"required"`` and ``"dynamic"``.
        attrs: Name to attribute type, a name or a class of ``torchair.ge.attr``; or to ``(type, default)``; or to a
            typed value, ``attr.Int(0)``, which is the default.

    Returns:
        The prototype; ``print(prototype.signature)`` shows it.

    Raises:
        PrototypeError: The declaration is malformed, or a built-in operator of that name has another prototype.
    """
    problems: list[str] = []
    in_specs = [InputSpec(n, k) for n, k in _named(inputs, "input", _KINDS, problems)]  # type: ignore[arg-type]
    out_specs = [OutputSpec(n, k) for n, k in _named(outputs, "output", _OUTPUT_KINDS, problems)]  # type: ignore[arg-type]
    attr_specs = _attributes(name, attrs, problems)
    if problems:
        raise PrototypeError(
            "An operator prototype is not valid", why=[f"{name}: {p}" for p in problems], fix="Correct the declaration."
        )
    prototype = Prototype(name, tuple(in_specs), tuple(attr_specs), tuple(out_specs))
    load_operators()  # a name that is built in is taken
    prototypes.declare(prototype)
    return prototype


def _named(declared: Operands, title: str, kinds: Sequence[str], problems: list[str]) -> list[tuple[str, str]]:
    if isinstance(declared, str) or not isinstance(declared, Mapping | Sequence):
        problems.append(f"the {title}s are {declared!r}; they are a dict of name to kind, or a list of names")
        return []
    items: list[Any] = list(declared.items() if isinstance(declared, Mapping) else declared)
    found = []
    for item in items:
        pair = (item, "required") if isinstance(item, str) else item
        if not (isinstance(pair, tuple | list) and len(pair) == 2 and isinstance(pair[0], str)):
            problems.append(f"{title} {item!r} is not a name or a (name, kind) pair")
        elif pair[1] not in kinds:
            problems.append(f"{title} {pair[0]!r} is {pair[1]!r}; kinds are {', '.join(kinds)}")
        else:
            found.append((pair[0], pair[1]))
    return found


def _attributes(operator: str, declared: Any, problems: list[str]) -> list[AttrSpec]:
    if isinstance(declared, str) or not isinstance(declared, Mapping | Sequence):
        problems.append(f"the attributes are {declared!r}; they are a dict of name to type")
        return []
    specs = []
    for item in declared.items() if isinstance(declared, Mapping) else declared:
        if not (isinstance(item, tuple | list) and len(item) == 2 and isinstance(item[0], str)):
            problems.append(f"attribute {item!r} is not a (name, type) pair")
            continue
        name: str
        declaration: Any
        name, declaration = item
        default: Any = REQUIRED
        if isinstance(declaration, TypedAttr):
            declaration, default = declaration.type_name, declaration.value
        elif isinstance(declaration, tuple | list) and len(declaration) == 2:
            declaration, default = declaration
        type_name = declaration.type_name if declaration in ATTR_CLASSES.values() else declaration
        if type_name not in ATTR_TYPES:
            problems.append(f"attribute {name!r} has type {type_name!r}, which is none of {', '.join(ATTR_TYPES)}")
            continue
        try:
            frozen = (
                default if default is REQUIRED or default is None else attr_value(operator, name, type_name, default)
            )
        except TypeError:
            problems.append(
                f"the default of attribute {name!r} is {default!r}, which is not a value of type {type_name}"
            )
            continue
        specs.append(AttrSpec(name, type_name, frozen))
    return specs


def register_kernel(
    op_type: str, *, kind: str | None = None, fake: Callable[..., Any] | None = None
) -> Callable[[F], F]:
    """Register the decorated function as what computes an Ascend IR operator on this machine.

    ::

        @torchair.ge.register_kernel("MyInplace")
        def my_inplace(x, y):  # prototype MyInplace(x, y) -> (x, z)
            x.add_(y)
            return x * 2

    It takes tensors in the order of the prototype's inputs (None for an absent optional one, a list for a dynamic one)
    and attributes as keywords (None for one without a value, ``torch.dtype`` for a DataType). It returns the outputs in
    order, without those that have an input's name: it writes these into the input itself. It runs instead of the
    operator's lowering and of the torch operator's own kernel.

    Args:
        op_type: Name of the IR operator.
        kind: ``"cube"`` or ``"vector"``, which core budget limits it; the larger of both by default.
        fake: The same on fake tensors, for operators in the middle of a converter, whose types nothing else tells.

    Raises:
        ArgumentError: An argument is not of that kind.
    """
    given: Any = op_type
    if not isinstance(given, str) or not given.isidentifier():
        raise ArgumentError(
            "A kernel is registered for an Ascend IR operator by its name",
            why=f"register_kernel was given {op_type!r}",
            fix='@torchair.ge.register_kernel("MyOp")',
        )
    if kind not in (None, "cube", "vector"):
        raise ArgumentError(
            "A kernel has an unknown kind",
            why=f"the kind of the kernel of {op_type} is {kind!r}; kinds are None, 'cube', 'vector'",
            fix="Leave kind out where both core budgets apply.",
        )

    def register(function: F) -> F:
        if not callable(function):
            raise ArgumentError(
                "A kernel is a function",
                why=f"the kernel of {op_type} is {function!r}, a {type(function).__name__}",
                fix="Decorate a function.",
            )
        _warn_of_unknown_name(op_type)
        kernels.register(Kernel(op_type, function, kind, fake))
        return function

    return register


def _warn_of_unknown_name(op_type: str) -> None:
    """Say so if no IR operator is known by a kernel's name and one is by a name like it (it may be declared later)."""
    load_operators()
    known = {p.name for p in prototypes} | {ir_name(name) for name in _torch_compat.custom_operator_names()}
    close = [] if op_type in known else difflib.get_close_matches(op_type, known, n=1, cutoff=0.8)
    if close:
        logger.warning(
            "A kernel is registered for %s; no operator of that name is known so far. Did you mean %s?",
            op_type,
            close[0],
        )
