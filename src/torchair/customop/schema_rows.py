"""Rows about what the schema says: conventions, functionalization, gradients."""

from __future__ import annotations

import re
import string
from collections.abc import Sequence

from torchair import _torch_compat
from torchair._torch_compat import OpOverload
from torchair.convert.schemas import OperatorSchema
from torchair.customop.observe import Observations
from torchair.customop.report import Row
from torchair.frontend.mutation_rules import schema_problem

__all__ = ["autograd_row", "functionalization_row", "schema_row"]


def schema_row(overload: OpOverload, seen: Observations) -> Row:
    """Whether the schema follows the rules, and says what the kernel does to memory."""
    title = "schema"
    problem = schema_problem(overload)
    if problem is not None:
        return Row(title, "wrong", *problem)
    if writes := seen.problems("write"):
        names = [found[1] for p in writes if (found := re.search(r"argument '(\w+)'", p))]
        full, parameters = overload._schema.name, _with_marks(overload, names).partition("(")[2]
        fix = f'Mark what the kernel writes, or do not write it:\n\ntorch.library.define("{full}", "({parameters}")'
        return Row(title, "wrong", "\n".join(writes), fix)
    if shared := seen.problems("alias"):
        return Row(title, "wrong", "\n".join(shared), "Return memory of its own: clone() the result in the kernel.")
    return Row(title, "pass", "\n".join(_remarks(overload)))


def _remarks(overload: OpOverload) -> list[str]:
    """What is allowed, and worth knowing."""
    arguments = OperatorSchema.of(overload).arguments
    remarks = []
    kinds = [a.input_kind is not None for a in arguments]
    if kinds != sorted(kinds, reverse=True):
        remarks.append(
            "tensors do not all stand before other arguments; the IR operator has inputs first, then attributes"
        )
    scalars = [a.name for a in arguments if a.torch_type.removesuffix("?") in ("Scalar", "Scalar[]")]
    if scalars:
        remarks.append(
            f"{', '.join(scalars)}: a Scalar is an int or a float, which no attribute is; float or int in the schema "
            "needs no converter"
        )
    return remarks


def _with_marks(overload: OpOverload, names: Sequence[str]) -> str:
    """The schema with ``Tensor(a!)`` on the arguments of these names."""
    text = str(overload._schema)
    labels = (f"({letter}!)" for letter in string.ascii_lowercase if f"({letter}" not in text)
    for name in dict.fromkeys(names):
        text = re.sub(rf"\bTensor(?:\([^)]*\))?([?\[\]]*) {name}\b", rf"Tensor{next(labels)}\1 {name}", text, count=1)
    return text


def functionalization_row(overload: OpOverload) -> Row:
    """How PyTorch makes a graph with the operator functional."""
    title = "functionalization"
    if not overload._schema.is_mutable:
        if (writer := _written_counterpart(overload)) is not None:
            return Row(title, "not needed", f"it writes no argument; it is the functional variant of {writer}")
        return Row(title, "not needed", "it writes no argument")
    if schema_problem(overload) is not None:
        return Row(title, "wrong", "PyTorch cannot functionalize it; see the schema")
    if not _torch_compat.is_functionalized_by_kernel(overload):
        return Row(title, "pass", "PyTorch's automatic functionalization")
    functional = functional_variant(overload)
    if functional is None:
        return Row(title, "pass", "written by hand")
    if problem := _unfit_variant(overload, functional):
        return Row(title, "wrong", f"written by hand, with {functional}: {problem}", _variant_fix(overload))
    return Row(title, "pass", f"written by hand, with {functional}")


def functional_variant(overload: OpOverload) -> OpOverload | None:
    """The operator ``<name>_functional`` of a hand-written pair."""
    name = overload._schema.name.rpartition("::")[2]
    return _torch_compat.find_overload(overload.namespace, f"{name}_functional")


def _written_counterpart(overload: OpOverload) -> OpOverload | None:
    name = overload._schema.name.rpartition("::")[2]
    if not name.endswith("_functional"):
        return None
    return _torch_compat.find_overload(overload.namespace, name.removesuffix("_functional"))


def _unfit_variant(overload: OpOverload, functional: OpOverload) -> str:
    """Why a functional variant does not fit (specification, F-114); empty if it does."""
    wanted, given = OperatorSchema.of(overload), OperatorSchema.of(functional)
    if given.written:
        return f"{functional._schema.name} writes {', '.join(a.name for a in given.written)} itself"
    ours = [(a.name, a.torch_type) for a in wanted.arguments]
    theirs = [(a.name, a.torch_type) for a in given.arguments]
    if ours != theirs:
        return f"it takes {_names(theirs)}, where {_names(ours)} are expected"
    expected = len(wanted.returns) + len(wanted.written)
    if len(given.returns) != expected:
        return f"it returns {len(given.returns)} values; expected are {expected}: its results, then what is written"
    if not _torch_compat.has_fake_kernel(functional):
        return "it has no meta function (fake kernel)"
    return ""


def _names(arguments: Sequence[tuple[str, str]]) -> str:
    return ", ".join(f"{kind} {name}" for name, kind in arguments) or "nothing"


def _variant_fix(overload: OpOverload) -> str:
    schema = OperatorSchema.of(overload)
    parameters = ", ".join(f"{a.torch_type} {a.name}" for a in schema.arguments)
    kinds = {"tensor": "Tensor", "list": "Tensor[]", "optional": "Tensor?"}
    returns = [kinds.get(r, "Tensor") for r in schema.returns] + [a.torch_type for a in schema.written]
    name = f"{overload._schema.name}_functional"
    return f'torch.library.define("{name}", "({parameters}) -> ({", ".join(returns)})")'


def autograd_row(overload: OpOverload) -> Row:
    """Whether gradients flow through the operator."""
    title = "autograd"
    if _torch_compat.has_autograd_kernel(overload):
        return Row(title, "pass", "a formula is registered")
    if _torch_compat.is_composite(overload):
        return Row(title, "pass", "by the operators that it is composed of")
    return Row(title, "not needed", "no formula is registered: for inference; gradients do not flow through it")
