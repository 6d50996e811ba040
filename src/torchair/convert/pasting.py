"""Code for error messages, ready to paste: converters, declarations and fake kernels of a torch operator."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from torchair.convert.schemas import Argument, OperatorSchema
from torchair.opset.prototype import REQUIRED, Prototype

__all__ = ["converter_code", "declaration_code", "fake_kernel_code", "parameters_of", "positional_converter_code"]


def converter_code(schema: OperatorSchema, name: str | None = None) -> str:
    """A converter to an IR operator with the operands of the torch operator, by keyword; it works as it stands.

    Args:
        name: Name of the IR operator; by default the one of the naming rule.
    """
    prototype = schema.derive_prototype(name)
    written = [a.name for a in schema.written]
    outputs = []
    for index, spec in enumerate(prototype.outputs):
        if spec.kind != "dynamic":
            outputs.append(_quoted(spec.name))
        else:
            items = spec.name if spec.name in written else _promised(schema, index - len(written))
            outputs.append(f"({_quoted(spec.name)}, len({items}))")
    inputs = [f"{_quoted(a.name)}: {a.name}" for a in schema.tensors]
    attrs = [entry for a in schema.others if (entry := _attr_entry(a))]
    arguments = [_quoted(prototype.name), f"inputs={_braced(inputs)}", f"outputs=[{', '.join(outputs)}]"]
    if attrs:
        arguments.append(f"attrs={_braced(attrs)}")
    lines = [f"        {argument},\n" for argument in arguments]
    if attrs:
        lines[-1] = lines[-1].rstrip() + _scalar_note(schema) + "\n"
    call = "torchair.ge.custom_op(\n" + "".join(lines) + "    )"
    return _converter(schema, call, [spec.name for spec in prototype.outputs])


def positional_converter_code(schema: OperatorSchema, prototype: Prototype) -> str:
    """A converter to a declared IR operator that does not fit: arguments in its order, ``...`` where one is missing."""
    inputs = _in_order(
        [a.name for a in schema.tensors], {s.name: "None" if s.kind == "optional" else "..." for s in prototype.inputs}
    )
    attrs = _in_order(
        [a.name for a in schema.others], {s.name: "..." if s.required else "None" for s in prototype.attrs}
    )
    while attrs and attrs[-1] == "None":
        attrs.pop()
    call = f"torchair.ge.custom_op({', '.join([_quoted(prototype.name), *inputs, *attrs])})"
    return _converter(schema, call, [spec.name for spec in prototype.outputs])


def declaration_code(prototype: Prototype, schema: OperatorSchema | None = None) -> str:
    """The call of ``declare_op`` that declares a prototype.

    Args:
        schema: Where it is from, for a note about arguments that may be an int or a float.
    """
    inputs = [f"{_quoted(spec.name)}: {_quoted(spec.kind)}" for spec in prototype.inputs]
    outputs = [
        f'({_quoted(spec.name)}, "dynamic")' if spec.kind == "dynamic" else _quoted(spec.name)
        for spec in prototype.outputs
    ]
    attrs = [
        f"{_quoted(s.name)}: " + (_quoted(s.type) if s.required else f"({_quoted(s.type)}, {_literal(s.default)})")
        for s in prototype.attrs
    ]
    arguments = [_quoted(prototype.name), f"inputs={_braced(inputs)}", f"outputs=[{', '.join(outputs)}]"]
    if attrs:
        arguments.append(f"attrs={_braced(attrs)}")
    lines = [f"    {argument},\n" for argument in arguments]
    if attrs and schema is not None:
        lines[-1] = lines[-1].rstrip() + _scalar_note(schema, [s.name for s in prototype.attrs]) + "\n"
    return "torchair.ge.declare_op(\n" + "".join(lines) + ")"


def fake_kernel_code(schema: OperatorSchema) -> str:
    """A fake kernel (meta function) to start from: results like the first tensor."""
    first = next(iter(schema.tensors), None)
    like = "torch.empty(())"
    if first is not None:
        like = f"torch.empty_like({first.name}[0])" if first.is_list else f"torch.empty_like({first.name})"
    texts = {"list": f"[{like}]", "number": "0"}
    returned = ", ".join(texts.get(kind, like) for kind in schema.returns) or "None"
    note = "  # the shapes and dtypes of the results" if schema.returns else ""
    name, overload = schema.torch_schema.name, schema.torch_schema.overload_name
    return (
        f"@torch.library.register_fake({_quoted(f'{name}.{overload}' if overload else name)})\n"
        f"def _({', '.join(parameters_of(schema.arguments))}):\n"
        f"    return {returned}{note}"
    )


def _converter(schema: OperatorSchema, call: str, outputs: Sequence[str]) -> str:
    written = {a.name for a in schema.written}
    variables = {name: f"{name}_new" if name in written else name for name in outputs}
    own = iter([variables[name] for name in outputs if name not in written])
    returned = [next(own, "...") if a is None else variables.get(a, "...") for a in schema.returned_arguments]
    parameters = parameters_of(schema.arguments)
    if "meta_outputs" in call:
        parameters += ["meta_outputs"] if "*" in parameters else ["*", "meta_outputs"]
    name = schema.torch_schema.name.rpartition("::")[2]
    lines = [
        f"@torchair.register_fx_node_ge_converter(torch.ops.{schema.path})",
        f"def convert_{name}({', '.join(parameters)}):",
    ]
    if not returned:
        lines.append(f"    {call}")
    elif returned == list(variables.values()):
        lines.append(f"    return {call}")
    else:
        targets = ", ".join(v if v in returned else "_" for v in variables.values())
        lines += [f"    {targets} = {call}", f"    return {', '.join(returned)}"]
    return "\n".join(lines)


def _promised(schema: OperatorSchema, index: int) -> str:
    """What ``meta_outputs`` says about the result number ``index``, a list."""
    positions = [i for i, argument in enumerate(schema.returned_arguments) if argument is None]
    return "meta_outputs" if len(schema.returned_arguments) == 1 else f"meta_outputs[{positions[index]}]"


def _attr_entry(argument: Argument) -> str:
    """An entry of ``attrs``; empty for a type that no attribute has."""
    attr_type = argument.attr_type
    if attr_type is None:
        attr_type = {"Scalar": "Float", "Scalar[]": "ListFloat"}.get(argument.torch_type.removesuffix("?"))
    if attr_type is None:
        return ""
    entry = f"{_quoted(argument.name)}: torchair.ge.attr.{attr_type}({argument.name})"
    if argument.torch_type.endswith("?"):
        return f"**({_braced([entry])} if {argument.name} is not None else {{}})"
    return entry


def parameters_of(arguments: Sequence[Argument]) -> list[str]:
    """Parameters of a Python function with the names, order and defaults of a schema."""
    parameters: list[str] = []
    for argument in arguments:
        if argument.kwarg_only and "*" not in parameters:
            parameters.append("*")
        parameters.append(argument.name + ("" if argument.default is REQUIRED else f"={_literal(argument.default)}"))
    return parameters


def _in_order(given: Sequence[str], wanted: Mapping[str, str]) -> list[str]:
    """What is given for each name that is wanted: what has that name, else the next of the rest, else its filler."""
    rest = iter([name for name in given if name not in wanted])
    return [name if name in given else next(rest, filler) for name, filler in wanted.items()]


def _scalar_note(schema: OperatorSchema, names: Iterable[str] | None = None) -> str:
    """A comment about arguments that may be an int or a float."""
    scalars = [a.name for a in schema.others if a.attr_type is None and a.torch_type.startswith("Scalar")]
    if names is not None:
        scalars = [name for name in scalars if name in names]
    return f"  # {', '.join(scalars)}: choose Float or Int" if scalars else ""


def _literal(value: Any) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        return f"float({_quoted(str(value))})"
    if isinstance(value, tuple):
        return f"[{', '.join(map(_literal, value))}]"
    return _quoted(value) if isinstance(value, str) else repr(value)


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _braced(items: Iterable[str]) -> str:
    return "{" + ", ".join(items) + "}"
