"""Rows about the way into Ascend IR: prototype, converter, kernel of the IR operator, and whether results agree."""

from __future__ import annotations

from collections.abc import Sequence

from torchair import _torch_compat
from torchair._torch_compat import OpOverload
from torchair.convert.matching import mismatches, why_not
from torchair.convert.registry import Converter, converters
from torchair.convert.schemas import OperatorSchema
from torchair.customop.agreement import Agreement, Failure
from torchair.customop.report import AGREEMENT, Row
from torchair.errors import (
    ExecutionError,
    MissingKernelError,
)
from torchair.opset.kernels import kernels
from torchair.opset.operator import operators
from torchair.opset.prototype import Prototype, prototypes

__all__ = ["KERNEL", "agreement_row", "converter_row", "kernel_row", "prototype_row"]

KERNEL = "kernel of the IR operator"


def prototype_row(overload: OpOverload) -> Row:
    """Whether there is a prototype, and whether it fits."""
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
    builtin = prototype.name in operators
    origin = "built-in" if builtin else "declared"
    if not differences and not builtin:
        differences = [*_other_order(schema, prototype), *_unwritten(schema, prototype)]
    if not differences:
        return Row(title, "pass", f"{prototype.signature}, {origin}")
    rejection = why_not(overload)
    fix = (
        rejection.fix
        if rejection is not None
        else f"torchair.ge.declare_op(...) as\n{schema.derive_prototype().signature}"
    )
    return Row(title, "wrong", "\n".join([f"{prototype.signature}, {origin}", *differences]), fix)


def _other_order(schema: OperatorSchema, prototype: Prototype) -> list[str]:
    """The names of the arguments in another order: they are passed by position."""
    problems = []
    for kind, ours, theirs in (
        ("input", [a.name for a in schema.tensors], [s.name for s in prototype.inputs]),
        ("attribute", [a.name for a in schema.others], [s.name for s in prototype.attrs]),
    ):
        if set(ours) & set(theirs):
            moved = [n for n in ours if n in theirs and ours.index(n) != theirs.index(n)]
            if moved:
                problems.append(
                    f"the {kind}s stand in another order ({', '.join(theirs)}) than the arguments ({', '.join(ours)}), "
                    "and are passed by position"
                )
    return problems


def _unwritten(schema: OperatorSchema, prototype: Prototype) -> list[str]:
    """Outputs with the name of an input that the operator does not write. A functional variant has them on purpose."""
    if schema.written or schema.overload._schema.name.endswith("_functional"):
        return []
    return [
        f"output {name!r} has the name of an input, which means that it is written in place; the schema of the "
        "operator does not write it: call the output something else"
        for name in prototype.reference_outputs
    ]


def converter_row(overload: OpOverload, prototype: Row, failures: Sequence[Failure] = ()) -> Row:
    """Whether there is a converter where one is needed, and whether it works."""
    title = "converter"
    found = converters.get(overload)
    if found is not None:
        blamed = [f for f in failures if blames_converter(overload, f)]
        if blamed:
            fix = f"Correct the converter {_place(found)}." if not found.builtin else ""
            return Row(title, "wrong", "\n".join(map(str, blamed)), fix)
        return Row(title, "pass", "built-in" if found.builtin else f"registered: {found.__name__}")
    rejection = why_not(overload)
    if rejection is None:
        return Row(title, "not needed", "the operator is converted automatically")
    if prototype.status == "wrong":
        return Row(title, "missing", "it is not converted automatically: the IR prototype does not fit")
    return Row(title, "missing", rejection.reason, rejection.fix)


def _place(converter: Converter) -> str:
    code = getattr(converter.function, "__code__", None)
    at = f" ({code.co_filename}:{code.co_firstlineno})" if code is not None else ""
    return f"{converter.__name__}{at}"


def blames_converter(overload: OpOverload, failure: Failure) -> bool:
    """Whether a failure is that of a converter, and not of a kernel."""
    found = converters.get(overload)
    if found is None or failure.mode != "GE" or isinstance(failure.error, MissingKernelError):
        return False
    if failure.error is None:
        return bool(failure.diagnosis) or failure.symbolic or not _has_own_kernel(overload)
    if isinstance(failure.error, ExecutionError):
        return _failed_kernel(failure) is None
    return True


def blames_kernel(failure: Failure) -> bool:
    """Whether a failure is that of the kernel of an IR operator, or of its absence."""
    if failure.mode != "GE":
        return False
    return isinstance(failure.error, MissingKernelError) or _failed_kernel(failure) is not None


def _failed_kernel(failure: Failure) -> str | None:
    """The IR operator whose registered kernel raised."""
    if not isinstance(failure.error, ExecutionError) or not failure.error.why:
        return None
    name = failure.error.why[0].partition(" ")[0]
    return name if kernels.get(name) is not None else None


def _has_own_kernel(overload: OpOverload) -> bool:
    return kernels.get(OperatorSchema.of(overload).name) is not None


def kernel_row(overload: OpOverload, failures: Sequence[Failure] = ()) -> Row:
    """What computes the IR operator on this machine."""
    name = OperatorSchema.of(overload).name
    blamed = [f for f in failures if blames_kernel(f)]
    if blamed:
        error = blamed[0].error
        status = "missing" if isinstance(error, MissingKernelError) else "wrong"
        return Row(KERNEL, status, "\n".join(map(str, blamed)), "")  # type: ignore[arg-type]
    if kernels.get(name) is not None:
        return Row(KERNEL, "pass", f"{name} has a kernel of its own")
    if converters.get(overload) is not None:
        return Row(KERNEL, "not needed", "the converter chooses the IR operators")
    if name in operators:
        return Row(KERNEL, "pass", f"{name} is a built-in operator")
    if _torch_compat.has_kernel(overload, "CPU"):
        return Row(KERNEL, "not needed", f"here {name} runs by the eager kernel; a device needs one")
    parameters = ", ".join(a.name for a in OperatorSchema.of(overload).arguments)
    code = f'@torchair.ge.register_kernel("{name}")\ndef kernel({parameters}):\n    ...'
    return Row(KERNEL, "missing", f"neither {name} nor the torch operator has a kernel on this machine", code)


def agreement_row(overload: OpOverload, agreement: Agreement) -> Row:
    """Whether both modes give what eager mode gives."""
    left = [f for f in agreement.failures if not blames_converter(overload, f) and not blames_kernel(f)]
    if left:
        return Row(
            AGREEMENT,
            "wrong",
            "\n".join(map(str, left)),
            "Compare the IR operator's kernel (or the built-in operator of that name) with the eager kernel."
            if any(f.mode == "GE" for f in left)
            else "",
        )
    if agreement.failures:
        return Row(AGREEMENT, "missing", "not the same: see above")
    if agreement.calls == 1 and not agreement.symbolic:
        return Row(AGREEMENT, "pass", "eager, npugraph_ex and GE mode give the same results on the sample arguments")
    sizes = f", {agreement.symbolic} of them with symbolic sizes" if agreement.symbolic else ""
    calls = agreement.calls + agreement.symbolic
    return Row(AGREEMENT, "pass", f"eager, npugraph_ex and GE mode give the same results in {calls} calls{sizes}")
