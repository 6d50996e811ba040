"""What the templates of C++ kernels are filled with."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from torchair.convert.schemas import Argument
from torchair.customop.output_rules import Rule, to_cpp
from torchair.customop.project.plan import OperatorPlan, PlannedOutput
from torchair.errors import ProjectError

__all__ = ["cpp_string", "host_context", "kernel_context", "wrapped"]

_WIDTH = 120

#: Types of the kernel API for the types of a schema; torchair/kernel.h has the same table.
_TYPES = {
    "Tensor": "Tensor",
    "Tensor[]": "TensorList",
    "int": "int64_t",
    "SymInt": "int64_t",
    "float": "double",
    "bool": "bool",
    "str": "std::string",
    "ScalarType": "DType",
    "int[]": "std::vector<int64_t>",
    "SymInt[]": "std::vector<int64_t>",
    "float[]": "std::vector<double>",
    "bool[]": "std::vector<bool>",
    "str[]": "std::vector<std::string>",
}
_BY_VALUE = frozenset({"int64_t", "double", "bool", "DType"})

#: Element types, by dtype; a kernel can make no others.
_ELEMENTS = {
    torch.uint8: "uint8_t",
    torch.int8: "int8_t",
    torch.int16: "int16_t",
    torch.int32: "int32_t",
    torch.int64: "int64_t",
    torch.float16: "Half",
    torch.bfloat16: "BFloat16",
    torch.float32: "float",
    torch.float64: "double",
    torch.bool: "bool",
}

#: Functions of rules that the standard library has, too, and would be found for arguments of its types.
_AMBIGUOUS = frozenset({"reduce", "min", "max", "size", "data"})


@dataclass(frozen=True, slots=True)
class _Target:
    """A loop of the placeholder: over what, what it adds up, and where the sum goes."""

    span: str
    start: str
    terms: tuple[str, ...]
    stores: tuple[str, ...]


def cpp_string(text: str) -> str:
    """A literal of C++. The text is printable ASCII, for which JSON and C++ write the same."""
    assert text.isascii() and text.isprintable()
    return json.dumps(text)


def wrapped(head: str, parts: Sequence[str], tail: str, indent: int = 0) -> str:
    """``head(part, part)tail``, in several lines if one is too short."""
    line = f"{head}({', '.join(parts)}){tail}"
    if indent + len(line) + 2 <= _WIDTH:
        return line
    lines, current = [], ""
    pad = " " * (indent + 4)
    for part in parts:
        joined = f"{current}, {part}" if current else part
        if current and len(pad) + len(joined) + 4 > _WIDTH:
            lines.append(f"{current},")
            joined = part
        current = joined
    return f"{head}(\n" + "\n".join(f"{pad}{text}" for text in [*lines, current]) + f"){tail}"


def host_context(plan: OperatorPlan) -> dict[str, Any]:
    """For ``op_host.cpp.jinja``."""
    taken = {a.name for a in plan.schema.arguments}
    outputs = [f"Output{{{_rule(o.size, taken)}, {_rule(o.dtype, taken)}}}" for o in plan.outputs]
    parameters = [_parameter(a) for a in plan.schema.arguments]
    return {
        "ir_name": plan.ir_name,
        "name": plan.name,
        "parameters": plan.parameters,
        "infer_signature": wrapped(f"Outputs infer_{plan.name}", parameters, ""),
        "inferred": _listed(outputs),
    }


def _listed(outputs: Sequence[str]) -> str:
    line = "{" + ", ".join(outputs) + "}"
    return line if len(line) + 10 <= _WIDTH else "{\n      " + ",\n      ".join(outputs) + "}"


def kernel_context(plan: OperatorPlan) -> dict[str, Any]:
    """For ``op_kernel.cpp.jinja``."""
    local = _local_names(plan)
    arguments, outputs = plan.schema.arguments, plan.outputs
    elements = [_element(plan, output) for output in outputs]
    dispatched = plan.first_tensor or outputs[0].name
    second = next((o.name for o, element in zip(outputs, elements, strict=True) if element == "R"), None)
    broadcast = f", {plan.like}.sizes()" if plan.like else ""
    passed, received = [], []
    for a in arguments:
        if a.input_kind is None:
            passed.append(a.name)
            received.append(_parameter(a))
            continue
        element = "T" if a.written else "const T"
        span = {"Tensor": "Span<{}>", "Tensor?": "std::optional<Span<{}>>", "Tensor[]": "std::vector<Span<{}>>"}
        passed.append(f"elements<{element}>({a.name}{'' if a.written or a.name == plan.like else broadcast})")
        received.append(f"const {span[a.torch_type].format(element)}& {a.name}")
    for output, element in zip(outputs, elements, strict=True):
        passed.append(f"elements<{element}>({output.name})")
        received.append(f"const Span<{element}>& {output.name}")
    template = "template <typename T, typename R>" if second else "template <typename T>"
    call = wrapped("compute<T, R>" if second else "compute<T>", passed, ";", 6 if second else 4)
    number, numbers = _numbers(arguments, local)
    signature = wrapped(
        f"void {plan.name}_kernel", [*map(_parameter, arguments), *(f"Tensor& {o.name}" for o in outputs)], ""
    )
    return {
        "ir_name": plan.ir_name,
        "name": plan.name,
        "schema": plan.text,
        "l": local,
        "broadcasts": plan.like is not None,
        "compute_signature": template + "\n" + wrapped("void compute", received, ""),
        "numbers": numbers,
        "targets": _targets(plan, elements, local, number),
        "kernel_signature": signature,
        "dispatch": "dispatch_floating" if second else "dispatch_all",
        "dispatched": dispatched,
        "dispatched_types": "float, double, Half, BFloat16" if second else "float, Half, int64_t, bool ...",
        "second": second,
        "call": call,
    }


def _parameter(argument: Argument) -> str:
    plain = _TYPES[argument.torch_type.removesuffix("?")]
    whole = f"std::optional<{plain}>" if argument.torch_type.endswith("?") else plain
    if argument.written:
        return f"{whole}& {argument.name}"
    return f"{whole} {argument.name}" if whole in _BY_VALUE else f"const {whole}& {argument.name}"


def _rule(rule: Rule, taken: set[str]) -> str:
    """A rule in C++, with names of namespaces only where an argument or the standard library has the same name."""
    text = to_cpp(rule, "")
    used = set(re.findall(r"\b([A-Za-z_]\w*)\s*[({]", text)) | set(re.findall(r"\bk[A-Z]\w*", text))
    return to_cpp(rule) if used & (taken | (_AMBIGUOUS - {"size"})) else text


def _element(plan: OperatorPlan, output: PlannedOutput) -> str:
    """The C++ type of a result's elements: ``T`` (that of the first tensor), a fixed one, or ``R``."""
    if output.fixed_dtype is not None:
        if output.fixed_dtype not in _ELEMENTS:
            raise ProjectError(
                "An operator cannot be generated",
                why=f"{output.name} is {output.dtype.text}; C++ kernels make {', '.join(map(str, _ELEMENTS))}",
                fix="Choose one of these, or --kernel python.",
            )
        return _ELEMENTS[output.fixed_dtype]
    if plan.first_tensor is None:
        return "T" if output is plan.outputs[0] else "R"
    return "T" if output.dtype_like == plan.first_tensor else "R"


def _local_names(plan: OperatorPlan) -> dict[str, str]:
    """Names of variables, none of which is an argument's."""
    taken = {a.name for a in plan.schema.arguments} | {o.name for o in plan.outputs}
    local = {}
    for name in ("begin", "end", "i", "sum", "each", "number", "value", "zero", "zero_out"):
        chosen = name
        while chosen in taken:
            chosen += "_"
        local[name] = chosen
    return local


def _numbers(arguments: Sequence[Argument], local: dict[str, str]) -> tuple[str, list[str]]:
    """The sum of the arguments that are no tensors: an expression, and the lines that it needs before."""
    simple, lines = [], []
    number, value = local["number"], local["value"]
    for a in arguments:
        kind, optional = a.torch_type.removesuffix("?"), a.torch_type.endswith("?")
        if a.input_kind is not None or kind in ("ScalarType", "ScalarType[]"):
            continue
        given = f"if ({a.name}) " if optional else ""
        content = f"*{a.name}" if optional else a.name
        if kind == "str":
            lines.append(f"{given}{number} += {a.name}{'->' if optional else '.'}size();")
        elif kind == "str[]":
            lines.append(f"{given}for (const auto& {value} : {content}) {number} += {value}.size();")
        elif kind.endswith("[]"):
            lines.append(f"{given}for (auto {value} : {content}) {number} += {value};")
        elif optional:
            lines.append(f"{given}{number} += *{a.name};")
        else:
            simple.append(a.name)
    expression = " + ".join(simple) or "0"
    if not lines:
        return expression, []
    return number, [f"double {number} = {expression};", *lines]


def _targets(plan: OperatorPlan, elements: Sequence[str], local: dict[str, str], number: str) -> list[_Target]:
    i, total = local["i"], local["sum"]
    outputs = list(zip(plan.outputs, elements, strict=True))

    def stored(name: str, element: str) -> str:
        return f"{name}[{i}] = static_cast<{element}>({total});"

    def loop(span: str, terms: Sequence[str], stores: Sequence[str]) -> _Target:
        """A loop; it begins with the first term where there is no number to begin with."""
        if number == "0" and terms and terms[0].startswith(f"{total} += "):
            return _Target(
                span, terms[0].removeprefix(f"{total} += ").removesuffix(";"), tuple(terms[1:]), tuple(stores)
            )
        return _Target(span, number, tuple(terms), tuple(stores))

    written = plan.schema.written
    if plan.like is not None:
        stores = [*(stored(a.name, "T") for a in written), *(stored(o.name, element) for o, element in outputs)]
        span = outputs[0][0].name if outputs else plan.like
        return [loop(span, _terms(plan.schema.tensors, local, plain=True), stores)]
    read_only = [a for a in plan.schema.tensors if not a.written]
    every = _terms(plan.schema.tensors, local, plain=False)
    others = _terms(read_only, local, plain=False)
    targets = [loop(o.name, every, [stored(o.name, element)]) for o, element in outputs]
    for a in written:
        if a.torch_type != "Tensor":
            raise ProjectError(
                "An operator cannot be generated",
                why=f"argument {a.name!r} is of type {a.torch_type} and is written; C++ kernels write Tensor(a!)",
                fix="Use --kernel python, or generate it with Tensor(a!) and change the sources.",
            )
        targets.append(loop(a.name, [f"{total} += {a.name}[{i}];", *others], [stored(a.name, "T")]))
    return targets


def _terms(tensors: Sequence[Argument], local: dict[str, str], *, plain: bool) -> list[str]:
    i, total, each = local["i"], local["sum"], local["each"]

    def element(span: str) -> str:
        return f"{total} += {span}[{i}];" if plain else f"{total} += element({span.strip('()')}, {i});"

    lines = []
    for a in tensors:
        if a.is_list:
            lines.append(f"for (const auto& {each} : {a.name}) {element(each)}")
        elif a.torch_type.endswith("?"):
            lines.append(f"if ({a.name}) {element(f'(*{a.name})')}")
        else:
            lines.append(element(a.name))
    return lines
