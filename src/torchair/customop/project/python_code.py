"""What the templates of Python kernels and of tests are filled with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from torchair.convert.schemas import Argument
from torchair.customop.output_rules import to_python
from torchair.customop.project.plan import OperatorPlan

__all__ = ["call_text", "kernel_context", "meta_lines", "test_context"]

_WIDTH = 120


def kernel_context(plan: OperatorPlan, *, triton: bool = False) -> dict[str, Any]:
    """For ``op_kernel.py.jinja``: tensors come in the order of the prototype, attributes as keywords."""
    tensors = [a.name for a in plan.schema.tensors]
    attributes = [a.name for a in plan.schema.others]
    return {
        "ir_name": plan.ir_name,
        "name": plan.name,
        "schema": plan.text,
        "signature": call_text(f"def {plan.name}", [*tensors, *(["*", *attributes] if attributes else [])], ":"),
        "broadcasts": plan.like is not None,
        "body": _body(plan, in_place=triton),
        "uses_rules": _uses(plan, "rules."),
        "uses_math": _uses(plan, "math."),
    }


def test_context(plan: OperatorPlan, package: str) -> dict[str, Any]:
    """For ``test_my_op.py.jinja``."""
    samples = plan.samples
    dynamic = [n for n, size in enumerate(samples.shape) if size == samples.shape[0]]
    sizes = ", ".join("rows" if n in dynamic else str(size) for n, size in enumerate(samples.shape))
    has_optional = any(a.torch_type == "Tensor?" for a in plan.schema.tensors) and samples.takes_none
    made = []
    for a in plan.schema.tensors:
        one = f"make({sizes})"
        value = f"[{one}, {one}]" if a.is_list else one
        made.append((a.name, f"{value} if given else None" if a.torch_type == "Tensor?" and has_optional else value))
    values = {a.name: a.name if a.input_kind else _literal(samples.values[a.name]) for a in plan.schema.arguments}
    positional = [values[a.name] for a in plan.schema.arguments if not a.kwarg_only]
    keywords = [f'"{a.name}": {values[a.name]}' for a in plan.schema.arguments if a.kwarg_only]
    return {
        "name": plan.name,
        "namespace": plan.namespace,
        "package": package,
        "schema": plan.text,
        "signature": call_text("def reference", [a.name for a in plan.schema.arguments], ":"),
        "broadcasts": plan.like is not None,
        "body": _body(plan),
        "uses_rules": _uses(plan, "rules."),
        "uses_math": plan.like is None or _uses(plan, "math."),
        "rows": samples.shape[0],
        "made": made,
        "has_tensors": bool(made),
        "has_outputs": bool(plan.outputs),
        "compared": " and ".join(
            [*(["what it returns"] if plan.outputs else []), *(["what it writes"] if plan.schema.written else [])]
        ),
        "written": [(i, a.torch_type == "Tensor?") for i, a in enumerate(plan.schema.arguments) if a.written],
        "has_optional": has_optional,
        "takes_empty": samples.takes_empty and bool(made),
        "fit": samples.fit,
        "returned": _returned(positional, f"{{{', '.join(keywords)}}}"),
    }


def _returned(positional: Sequence[str], keywords: str) -> str:
    """``return (x, y), {}`` in a function."""
    if len(positional) == 1:
        return f"return ({positional[0]},), {keywords}"
    line = f"return ({', '.join(positional)}), {keywords}"
    if len(line) + 4 <= _WIDTH:
        return line
    return "return (\n" + "".join(f"        {part},\n" for part in positional) + f"    ), {keywords}"


def meta_lines(plan: OperatorPlan) -> list[str]:
    """The meta function that follows from the rules, for people to read."""
    tensors = plan.first_tensor
    results = [
        f"{f'{tensors}.new_empty' if tensors else 'torch.empty'}({to_python(o.size)}, dtype={to_python(o.dtype)})"
        for o in plan.outputs
    ]
    returned = ", ".join(results) if results else "None"
    return [f"def {plan.name}({', '.join(a.name for a in plan.schema.arguments)}):", f"    return {returned}"]


def call_text(head: str, parts: Sequence[str], tail: str = "", indent: int = 0) -> str:
    """``head(part, part)tail`` as ruff formats it: in one line, with the arguments in one line, or one a line."""
    pad = " " * indent
    inner = ", ".join(parts)
    if indent + len(head) + len(inner) + 2 + len(tail) <= _WIDTH:
        return f"{head}({inner}){tail}"
    if indent + 4 + len(inner) <= _WIDTH:
        return f"{head}(\n{pad}    {inner}\n{pad}){tail}"
    return f"{head}(\n" + "".join(f"{pad}    {part},\n" for part in parts) + f"{pad}){tail}"


def _uses(plan: OperatorPlan, prefix: str) -> bool:
    return any(prefix in to_python(rule) for o in plan.outputs for rule in (o.size, o.dtype))


def _literal(value: Any) -> str:
    """A value in Python."""
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_literal, value))}]"
    if isinstance(value, str):
        return '"' + repr(value)[1:-1].replace('"', '\\"') + '"' if "'" not in value else repr(value)
    assert value is None or isinstance(value, bool | int | float | torch.dtype)
    return repr(value)


def _numbers(arguments: Sequence[Argument]) -> str:
    """The sum of the arguments that are no tensors."""
    terms = []
    for a in arguments:
        kind, optional = a.torch_type.removesuffix("?"), a.torch_type.endswith("?")
        if a.input_kind is not None or kind in ("ScalarType", "ScalarType[]"):
            continue
        if kind == "str":
            terms.append(f'len({a.name} or "")' if optional else f"len({a.name})")
        elif kind == "str[]":
            terms.append(f'len("".join({a.name} or []))' if optional else f'len("".join({a.name}))')
        elif kind.endswith("[]"):
            terms.append(f"sum({a.name} or [])" if optional else f"sum({a.name})")
        else:
            terms.append(f"({a.name} or 0)" if optional else a.name)
    return " + ".join(terms) or "0"


def _body(plan: OperatorPlan, *, in_place: bool = False) -> list[str]:
    """The placeholder: every result and every written argument becomes the sum of all arguments.

    Args:
        in_place: A function ``add(total, tensor)`` adds, instead of ``+``.
    """
    names = {a.name for a in plan.schema.arguments} | {o.name for o in plan.outputs}
    total, tensor, target = (_fresh(name, names) for name in ("total", "tensor", "target"))
    number = _numbers(plan.schema.arguments)
    dtype = "torch.float32" if in_place else "torch.float64"
    device = [f"device={plan.first_tensor}.device"] if plan.first_tensor else []

    def loop(tensors: Sequence[Argument], into: str, indent: str = "") -> list[str]:
        if not tensors:
            return []
        items = [f"*{a.name}" if a.is_list else a.name for a in tensors]
        lines = [f"for {tensor} in [{', '.join(items)}]:"]
        pad = "    "
        if any(a.torch_type == "Tensor?" for a in tensors):
            lines.append(f"    if {tensor} is not None:")
            pad = "        "
        if in_place:
            term = f"{tensor}.expand({into}.shape)" if plan.like else tensor
            lines.append(f"{pad}add({into}, {term})")
        else:
            term = tensor if plan.like else f"repeated({tensor}, {into}.shape)"
            lines.append(f"{pad}{into} = {into} + {term}")
        return [indent + line for line in lines]

    written = plan.schema.written
    if plan.like is not None:
        parts = [f"{plan.like}.shape", number, f"dtype={dtype}"]
        lines = [call_text(f"{total} = {plan.like}.new_full", parts, indent=4)]
        lines += loop(plan.schema.tensors, total)
        results = [f"{total}.to({to_python(o.dtype)})" for o in plan.outputs]
        # What is written is read for the dtype only, so the order does not matter.
        lines += [f"{a.name}.copy_({total})" for a in written]
    else:
        lines, results = [], []
        for o in plan.outputs:
            parts = [to_python(o.size), number, f"dtype={dtype}", *device]
            lines.append(call_text(f"{o.name} = torch.full", parts, indent=4))
            lines += loop(plan.schema.tensors, o.name)
            results.append(f"{o.name}.to({to_python(o.dtype)})")
        read_only = [a for a in plan.schema.tensors if not a.written]
        for a in written:
            targets = f"[*{a.name}]" if a.is_list else f"[{a.name}]"
            lines.append(f"for {target} in {targets}:")
            pad = "    "
            if a.torch_type == "Tensor?":
                lines.append(f"    if {target} is not None:")
                pad = "        "
            start = f"{target}.float()" if in_place else f"{target}.double()"
            lines.append(f"{pad}{total} = {start} + {number}")
            lines += loop(read_only, total, pad)
            lines.append(f"{pad}{target}.copy_({total})")
    if len(results) == 1:
        lines.append(f"return {results[0]}")
    elif results:
        lines.append(f"return {', '.join(results)}")
    return lines


def _fresh(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "_"
    return name
