"""``torchair.check_operator``: what an operator still lacks to work in graph mode (architecture, section 4)."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from torchair import _torch_compat
from torchair._torch_compat import OpOverload, OpOverloadPacket
from torchair.convert.schemas import OperatorSchema
from torchair.customop.agreement import agreement_of
from torchair.customop.conversion_rows import agreement_row, converter_row, kernel_row, prototype_row
from torchair.customop.kernel_rows import kernel_rows
from torchair.customop.meta_row import meta_row
from torchair.customop.observe import Observations, observe
from torchair.customop.report import AGREEMENT, OperatorReport, Row
from torchair.customop.schema_rows import autograd_row, functionalization_row, schema_row
from torchair.errors import ArgumentTypeError
from torchair.opset.prototype import REQUIRED
from torchair.pipeline.builtin import load_converters

__all__ = ["OperatorReport", "Row", "check_operator", "check_operator_with"]


def check_operator(op: Any, *sample_args: Any, **sample_kwargs: Any) -> OperatorReport:
    """Say what an operator has and lacks, before any compile.

    ::

        print(torchair.check_operator(torch.ops.my_ns.my_op, torch.randn(2, 3), None, [], 0.5, 2))

    Its kernel and its fake kernel are run and compared, with real and with symbolic sizes, and the call is run eagerly
    and in both graph modes: with the sample arguments and variants of them (other sizes, other strides), or with calls
    generated from the schema where none are given. The arguments are not changed, and whatever the operator raises is a
    finding.

    Args:
        op: An overload, an operator with one overload, what ``torch.library.custom_op`` returned, or
            ``"ns::name"``.
        sample_args, sample_kwargs: Arguments of one call.

    Raises:
        ArgumentTypeError: ``op`` is no operator, or has several overloads.
    """
    given = [(sample_args, sample_kwargs)] if sample_args or sample_kwargs else []
    return check_operator_with(op, given)


def check_operator_with(op: Any, samples: Iterable[tuple[Sequence[Any], Mapping[str, Any]]] = ()) -> OperatorReport:
    """Say what an operator has and lacks, like :func:`check_operator`, with several sample calls.

    Args:
        op: As there.
        samples: Arguments and keyword arguments of each call; generated from the schema where there are none.

    Raises:
        ArgumentTypeError: ``op`` is no operator, or has several overloads.
    """
    load_converters()
    overload = _overload_of(op)
    calls = [(tuple(args), dict(kwargs)) for args, kwargs in samples]
    unfit = next(filter(None, (_unfit(overload, args, kwargs) for args, kwargs in calls)), "")
    runs = _torch_compat.has_kernel(overload, "CPU") and not unfit
    with _torch_compat.quiet_fakes(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        seen = observe(overload, calls) if runs else Observations(generated=not calls)
        rows = [schema_row(overload, seen), *kernel_rows(overload, seen), meta_row(overload, seen)]
        rows += [functionalization_row(overload), autograd_row(overload)]
        prototype = prototype_row(overload)
        converter, kernel = converter_row(overload, prototype), kernel_row(overload)
        blocking = [row.deliverable for row in (*rows, prototype, converter, kernel) if row.blocks]
        if unfit:
            agreement = Row(
                AGREEMENT, "missing", f"not checked: {unfit}", f"The arguments are those of\n{overload._schema}"
            )
        elif blocking and (calls or seen.taken):
            agreement = Row(AGREEMENT, "missing", f"not checked: first mend {', '.join(blocking)}")
        elif not runs:
            agreement = Row(AGREEMENT, "not needed", "not checked: there is no eager kernel to compare with")
        elif not seen.taken:
            why = seen.note or "not checked: no call was taken"
            agreement = Row(AGREEMENT, "not needed", why, "Pass the arguments of one call.")
        else:
            found = agreement_of(overload, [o for o in seen.taken if not (o.call.unusual and o.problems)])
            converter = converter_row(overload, prototype, found.failures)
            kernel = kernel_row(overload, found.failures)
            agreement = agreement_row(overload, found)
    return OperatorReport(str(overload._schema), (*rows, prototype, converter, kernel, agreement), seen.summary)


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
