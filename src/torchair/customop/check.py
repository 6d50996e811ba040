"""``torchair.check_operator``: what an operator still lacks to work in graph mode (architecture, section 4)."""

from __future__ import annotations

import re
import string
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import torch

from torchair import _torch_compat, contracts
from torchair._torch_compat import OpOverload, OpOverloadPacket
from torchair.convert.matching import mismatches, why_not
from torchair.convert.pasting import fake_kernel_code
from torchair.convert.registry import converters
from torchair.convert.schemas import OperatorSchema
from torchair.customop.compare import compare_modes
from torchair.errors import ArgumentTypeError, TorchAirError, shortened
from torchair.frontend.mutation_rules import schema_problem
from torchair.opset.kernels import kernels
from torchair.opset.operator import operators
from torchair.opset.prototype import REQUIRED, ir_name, prototypes
from torchair.pipeline.builtin import load_converters

__all__ = ["OperatorReport", "Row", "Status", "check_operator"]

_AGREEMENT = "agreement of the modes"

Status: TypeAlias = Literal["pass", "missing", "wrong", "not needed"]


@dataclass(frozen=True, slots=True)
class Row:
    """One deliverable.

    Attributes:
        deliverable: ``"schema"``, ``"eager kernel (cpu)"``, ``"meta function"`` ...
        status: ``"pass"``, ``"missing"``, ``"wrong"`` or ``"not needed"``.
        why: What was found; may have several lines.
        fix: What to do, with code to paste; empty where nothing is to be done.
    """

    deliverable: str
    status: Status
    why: str = ""
    fix: str = ""


@dataclass(frozen=True, slots=True)
class OperatorReport:
    """What an operator has and lacks.

    Attributes:
        operator: Its schema.
        rows: One for each deliverable.
    """

    operator: str
    rows: tuple[Row, ...]

    @property
    def ok(self) -> bool:
        """Nothing is missing or wrong."""
        return all(row.status in ("pass", "not needed") for row in self.rows)

    def __str__(self) -> str:
        width = max(len(row.deliverable) for row in self.rows)
        lines = [self.operator]
        for row in self.rows:
            first, *rest = row.why.splitlines() or [""]
            lines.append(f"  {row.deliverable:{width}}  {row.status:10}  {first}".rstrip())
            lines += [f"  {'':{width}}  {'':10}  {line}".rstrip() for line in rest]
            if row.fix:
                lines += [f"      {line}".rstrip() for line in ("", *row.fix.splitlines(), "")]
        unchecked = any(row.deliverable == _AGREEMENT and row.status != "pass" for row in self.rows)
        ready = (
            "nothing is missing; whether the results are right was not checked" if unchecked else "ready for graph mode"
        )
        lines.append(f"  {ready}" if self.ok else "  not ready for graph mode")
        return "\n".join(lines)


def check_operator(op: Any, *sample_args: Any, **sample_kwargs: Any) -> OperatorReport:
    """Say what an operator has and lacks, before any compile.

    ::

        print(torchair.check_operator(torch.ops.my_ns.my_op, torch.randn(2, 3), None, [], 0.5, 2))

    With sample arguments its kernel and its fake kernel are run and compared, and the call is run eagerly and in GE
    mode. The arguments are not changed.

    Args:
        op: An overload, an operator with one overload, what ``torch.library.custom_op`` returned, or
            ``"ns::name"``.
        sample_args, sample_kwargs: Arguments of one call.

    Raises:
        ArgumentTypeError: ``op`` is no operator, or has several overloads.
    """
    load_converters()
    overload = _overload_of(op)
    given = bool(sample_args or sample_kwargs)
    unfit = _unfit(overload, sample_args, sample_kwargs) if given else ""
    has_sample = given and not unfit
    contract = _Contract.of(overload, sample_args, sample_kwargs) if has_sample else _Contract()
    prototype = _prototype_row(overload)
    rows = [
        _schema_row(overload, contract),
        *_kernel_rows(overload, contract),
        _meta_row(overload, contract, has_sample=has_sample),
        _functionalization_row(overload),
        prototype,
        _converter_row(overload, prototype),
    ]
    blocking = [row.deliverable for row in rows if row.status in ("missing", "wrong")]
    if unfit:
        rows.append(
            Row(_AGREEMENT, "missing", f"not checked: {unfit}", f"The arguments are those of\n{overload._schema}")
        )
    elif blocking and has_sample:
        rows.append(Row(_AGREEMENT, "missing", f"not checked: first mend {', '.join(blocking)}"))
    else:
        rows.append(_agreement_row(overload, sample_args, sample_kwargs, has_sample=has_sample))
    return OperatorReport(str(overload._schema), tuple(rows))


@dataclass(frozen=True, slots=True)
class _Contract:
    """What one call of the kernel showed.

    Attributes:
        schema: Problems of the schema.
        meta: Problems of the fake kernel.
        error: What the kernel raised.
    """

    schema: tuple[str, ...] = ()
    meta: tuple[str, ...] = ()
    error: Exception | None = None

    @classmethod
    def of(cls, overload: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Contract:
        flat, rebuild = _torch_compat.flatten_call(args, kwargs)
        copies = rebuild([a.detach().clone() if isinstance(a, torch.Tensor) else a for a in flat])
        if not _torch_compat.has_kernel(overload, "CPU"):
            return cls()
        try:
            with torch.no_grad():
                checked = contracts.check_call(overload, *copies)
        except Exception as e:  # noqa: BLE001  # whatever a user's kernel raises is the finding
            return cls(error=e)
        unannounced = tuple(p for p in checked.problems if "its schema does not say so" in p)
        return cls(unannounced, tuple(p for p in checked.problems if p not in unannounced))


def _overload_of(op: Any) -> OpOverload:
    if isinstance(op, OpOverload):
        return op
    found = getattr(op, "_opoverload", None)  # torch.library.custom_op
    if isinstance(found, OpOverload):
        return found
    reason = f"{op!r} is a {type(op).__name__}"
    if isinstance(op, str):
        namespace, separator, rest = op.partition("::")
        name, _, overload_name = rest.partition(".")
        packet = _torch_compat.find_packet(namespace, name) if separator else None
        if packet is not None and overload_name:
            if overload_name in _torch_compat.overload_names(packet):
                exact: OpOverload = getattr(packet, overload_name)
                return exact
            reason = f"{namespace}::{name} has no overload {overload_name!r}"
        elif packet is not None:
            op = packet
        else:
            reason = f"no operator {op!r} is defined"
    if isinstance(op, OpOverloadPacket):
        names = _torch_compat.overload_names(op)
        if len(names) == 1:
            only: OpOverload = getattr(op, names[0])
            return only
        reason = f"{op} has the overloads {', '.join(names)}"
    raise ArgumentTypeError(
        "check_operator takes one operator overload",
        why=reason,
        fix="torchair.check_operator(torch.ops.my_namespace.my_op.default, x, ...)",
    )


def _unfit(overload: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """Which sample arguments are missing or too many; empty if none."""
    arguments = OperatorSchema.of(overload).arguments
    positional = [a for a in arguments if not a.kwarg_only]
    if len(args) > len(positional):
        return f"{len(args)} sample arguments were given by position, the operator takes {len(positional)}"
    known = {a.name for a in arguments}
    if unknown := [repr(name) for name in kwargs if name not in known]:
        return f"the operator has no argument {', '.join(unknown)}"
    passed = {a.name for a in positional[: len(args)]} | set(kwargs)
    missing = [f"{a.name!r} ({a.torch_type})" for a in arguments if a.default is REQUIRED and a.name not in passed]
    return f"the sample argument {', '.join(missing)} is missing" if missing else ""


def _with_marks(overload: OpOverload, names: Sequence[str]) -> str:
    """The schema with ``Tensor(a!)`` on the arguments of these names."""
    text = str(overload._schema)
    labels = (f"({letter}!)" for letter in string.ascii_lowercase if f"({letter}" not in text)
    for name in names:
        text = re.sub(rf"\bTensor(?:\([^)]*\))?([?\[\]]*) {name}\b", rf"Tensor{next(labels)}\1 {name}", text, count=1)
    return text


# --- one row each ---


def _schema_row(overload: OpOverload, contract: _Contract) -> Row:
    title = "schema"
    problem = schema_problem(overload)
    if problem is not None:
        return Row(title, "wrong", *problem)
    if contract.schema:
        names = [found[1] for p in contract.schema if (found := re.search(r"argument '(\w+)'", p))]
        full, parameters = overload._schema.name, _with_marks(overload, names).partition("(")[2]
        fix = f'Mark what the kernel writes, or do not write it:\n\ntorch.library.define("{full}", "({parameters}")'
        return Row(title, "wrong", "\n".join(contract.schema), fix)
    kinds = [a.input_kind is not None for a in OperatorSchema.of(overload).arguments]
    if kinds != sorted(kinds, reverse=True):
        return Row(
            title,
            "pass",
            "tensors do not all stand before other arguments; the IR operator has inputs first, then attributes",
        )
    return Row(title, "pass")


def _kernel_rows(overload: OpOverload, contract: _Contract) -> Iterator[Row]:
    devices = ["CPU", *(["CUDA"] if torch.cuda.is_available() else [])]
    for device in devices:
        title = f"eager kernel ({device.lower()})"
        if device == "CPU" and contract.error is not None:
            why = f"it raised {type(contract.error).__name__}: {shortened(contract.error)}"
            yield Row(title, "wrong", why, "Check the sample arguments, and the kernel.")
        elif _torch_compat.has_kernel(overload, device):
            yield Row(title, "pass")
        elif device == "CPU" and kernels.get(ir_name(overload._schema.name)) is not None:
            kernel = f"the Ascend IR operator {ir_name(overload._schema.name)} has a kernel of its own"
            yield Row(title, "not needed", f"{kernel}; eager mode cannot run the operator")
        elif device == "CPU":
            name = overload._schema.name
            parameters = ", ".join(a.name for a in overload._schema.arguments)
            code = f'@torch.library.impl("{name}", "{device}")\ndef _({parameters}):\n    ...'
            yield Row(title, "missing", f"no kernel of {name} is registered for {device}", code)
        else:
            yield Row(title, "not needed", f"no kernel is registered for {device}; the operator cannot run there")


def _meta_row(overload: OpOverload, contract: _Contract, *, has_sample: bool) -> Row:
    title = "meta function"
    if not _torch_compat.has_fake_kernel(overload):
        code = fake_kernel_code(OperatorSchema.of(overload))
        return Row(title, "missing", "nothing tells the shapes and dtypes of its results", code)
    if contract.meta:
        return Row(title, "wrong", "\n".join(contract.meta), "Correct the kernel, or its fake kernel.")
    if not has_sample or contract.error is not None or not _torch_compat.has_kernel(overload, "CPU"):
        return Row(title, "pass", "not compared with the kernel, which did not run")
    return Row(title, "pass", "agrees with the kernel on the sample arguments")


def _functionalization_row(overload: OpOverload) -> Row:
    title = "functionalization"
    if not overload._schema.is_mutable:
        return Row(title, "not needed", "it writes no argument")
    if schema_problem(overload) is not None:
        return Row(title, "wrong", "PyTorch cannot functionalize it; see the schema")
    by_hand = _torch_compat.is_functionalized_by_kernel(overload)
    return Row(title, "pass", "written by hand" if by_hand else "PyTorch's automatic functionalization")


def _prototype_row(overload: OpOverload) -> Row:
    title = "IR prototype"
    schema = OperatorSchema.of(overload)
    prototype = prototypes.get(schema.name)
    if converters.get(overload) is not None:
        return Row(title, "not needed", "a converter chooses the IR operator")
    if prototype is None:
        return Row(
            title,
            "not needed",
            f"No AscendIR {schema.name} was found to be registered.\n"
            f"here it is derived: {schema.derive_prototype().signature}\n"
            "a device needs one (torchair.ge.declare_op); so does require_prototype",
        )
    differences = mismatches(schema, prototype)
    origin = "built-in" if prototype.name in operators else "declared"
    if not differences:
        kernel = ", has a kernel of its own" if kernels.get(prototype.name) is not None else ""
        return Row(title, "pass", f"{prototype.signature}, {origin}{kernel}")
    rejection = why_not(overload)
    fix = rejection.fix if rejection is not None else ""
    return Row(title, "wrong", "\n".join([f"{prototype.signature}, {origin}", *differences]), fix)


def _converter_row(overload: OpOverload, prototype: Row) -> Row:
    title = "converter"
    found = converters.get(overload)
    if found is not None:
        return Row(title, "pass", "built-in" if found.builtin else f"registered: {found.__name__}")
    rejection = why_not(overload)
    if rejection is None:
        return Row(title, "not needed", "the operator is converted automatically")
    if prototype.status == "wrong":
        return Row(title, "missing", "it is not converted automatically: the IR prototype does not fit")
    return Row(title, "missing", rejection.reason, rejection.fix)


def _agreement_row(overload: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any], *, has_sample: bool) -> Row:
    title = _AGREEMENT
    if not has_sample:
        fix = "Pass the arguments of one call."
        return Row(title, "not needed", "not checked: no sample arguments", fix if overload._schema.arguments else "")
    if not _torch_compat.has_kernel(overload, "CPU"):
        return Row(title, "not needed", "not checked: there is no eager kernel to compare with")
    result = compare_modes(overload, args, kwargs)
    if isinstance(result.error, TorchAirError):
        return Row(title, "wrong", f"in {result.mode} mode:\n{result.error}")
    if result.error is not None:
        return Row(title, "wrong", f"in {result.mode} mode: {type(result.error).__name__}: {shortened(result.error)}")
    if result.problems:
        return Row(
            title,
            "wrong",
            "\n".join(result.problems),
            "Compare the IR operator's kernel (or the built-in operator of that name) with the eager kernel.",
        )
    return Row(title, "pass", "eager and GE mode give the same results on the sample arguments")
