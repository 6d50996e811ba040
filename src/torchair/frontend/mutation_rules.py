"""What a custom operator may write: checked on Dynamo's graph, where arguments still have the user's names.

PyTorch functionalizes a mutating operator on its own when its schema keeps some rules, and stops with a message about
alias annotations when it does not. These checks say first which rule, which argument and which line.
"""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Iterator
from typing import Any

import torch
from torch import fx

from torchair import _torch_compat
from torchair._torch_compat import OpOverload, OpOverloadPacket
from torchair.errors import MutationError
from torchair.source_lines import source_line

__all__ = ["name_expanded_inputs", "refuse_unsupported_mutations", "schema_problem"]

_PAIR = "or write a functional pair by hand (a Functionalize kernel that calls a functional variant)."


def refuse_unsupported_mutations(gm: fx.GraphModule) -> None:
    """Look at every custom operator of a Dynamo graph that writes arguments.

    Raises:
        MutationError: Lists the operators that PyTorch cannot functionalize, and the written arguments whose elements
            share memory.
    """
    problems: list[tuple[str, str, str]] = []
    for module in gm.modules():
        if isinstance(module, fx.GraphModule):
            for node in module.graph.nodes:
                if (written := _written_expanded(node)) is not None:
                    problems.append((*written, source_line(node)))
                overload = _overload(node)
                if overload is not None and not _torch_compat.is_builtin(overload):
                    problems += [(reason, fix, source_line(node)) for reason, fix in _problems(overload, node)]
    if problems:
        raise MutationError(
            "An operator writes its arguments in a way that a graph cannot express",
            why=list(dict.fromkeys(reason for reason, _, _ in problems)),
            fix="\n".join(dict.fromkeys(fix for _, fix, _ in problems)),
            where=list(dict.fromkeys(where for _, _, where in problems if where)),
        )


#: Operators whose write into an expanded tensor PyTorch loses when it makes a graph functional. All others refuse such
#: a tensor or are kept (tried for in-place methods, ``out=`` and foreach operators with torch 2.13).
_LOST = ("zero_", "fill_", "masked_fill_", "_foreach_zero_")


def _written_expanded(node: fx.Node) -> tuple[str, str] | None:
    """Reason and fix for a write into an expanded tensor, which PyTorch drops when it makes a graph functional."""
    name = node.target if node.op == "call_method" else getattr(node.target, "__name__", "")
    if not node.args or not (name in _LOST or node.target is operator.setitem):
        return None
    written = node.args[0] if isinstance(node.args[0], list | tuple) else [node.args[0]]
    for tensor in written:
        # Arguments of the graph are checked with their names.
        if isinstance(tensor, fx.Node) and tensor.op != "placeholder" and _shares_elements(tensor):
            shown = "an assignment to elements" if node.target is operator.setitem else str(name)
            reason = f"{shown} writes {tensor.name!r}, an expanded tensor"
            return (
                f"{reason}: several of its elements share one place in memory",
                "Write the tensor before it is expanded, or a copy: x.expand(...).clone().",
            )
    return None


def _shares_elements(node: fx.Node) -> bool:
    tensor = node.meta.get("example_value")
    if not isinstance(tensor, torch.Tensor) or tensor.layout is not torch.strided:
        return False
    strides: list[Any] = list(tensor.stride())  # SymInts among them: comparing one with 0 would add a guard
    return any(isinstance(s, int) and s == 0 and n != 1 for n, s in zip(tensor.shape, strides, strict=True))


def schema_problem(overload: OpOverload) -> tuple[str, str] | None:
    """Why PyTorch cannot functionalize an operator, and what to do; None if it can, or if the user has done it."""
    schema = overload._schema
    if not schema.is_mutable and all(r.alias_info is None for r in schema.returns):
        return None
    if _torch_compat.can_auto_functionalize(overload) or _torch_compat.is_functionalized_by_kernel(overload):
        return None
    written = [a.name for a in schema.arguments if a.alias_info is not None and a.alias_info.is_write]
    for number, returned in enumerate(schema.returns):
        if returned.alias_info is not None and returned.alias_info.is_write:
            labels = returned.alias_info.before_set
            names = [a.name for a in schema.arguments if a.alias_info is not None and a.alias_info.before_set & labels]
            reason = (
                f"{schema}: result {number} is the argument {', '.join(map(repr, names))} that the operator writes; "
                "an operator must not return what it writes"
            )
            return reason, f"Return nothing (-> ()) or a tensor of its own, and let callers use the argument; {_PAIR}"
        if returned.alias_info is not None:
            reason = (
                f"{schema}: result {number} is a view of an argument, which only PyTorch's own operators may return"
            )
            return reason, f"Return a clone(), and remove the alias annotation from the schema; {_PAIR}"
        if str(returned.type) != "Tensor":
            reason = (
                f"{schema}: result {number} is of type {returned.real_type}; an operator that writes arguments may "
                "return nothing or tensors"
            )
            return reason, f"Return tensors one by one; {_PAIR}"
    reason = f"{schema}: PyTorch cannot functionalize its writes to {', '.join(written)}"
    return reason, f"Mark every tensor that it writes with (a!), (b!) ... and nothing else; {_PAIR}"


def _problems(overload: OpOverload, node: fx.Node) -> Iterator[tuple[str, str]]:
    problem = schema_problem(overload)
    if problem is not None:
        yield problem
    arguments = overload._schema.arguments
    given = {**dict(zip((a.name for a in arguments), node.args, strict=False)), **node.kwargs}
    for argument in arguments:
        if argument.alias_info is None or not argument.alias_info.is_write:
            continue
        value = given.get(argument.name)
        for item in value if isinstance(value, list | tuple) else [value]:
            if isinstance(item, fx.Node) and _shows_expanded(item):
                reason = (
                    f"{overload} writes the argument {argument.name!r}, which is {_user_name(item)}: several of its "
                    "elements lie at one place of memory (it is expanded)"
                )
                yield reason, f"Pass {argument.name}.clone(), or {argument.name}.contiguous()."


def _overload(node: fx.Node) -> OpOverload | None:
    target = node.target
    if isinstance(target, OpOverloadPacket):
        names = _torch_compat.overload_names(target)
        # Which one a packet calls is known only when it runs; with several the exact one is seen later.
        return getattr(target, names[0]) if len(names) == 1 else None
    return target if isinstance(target, OpOverload) else None


def _shows_expanded(node: fx.Node) -> bool:
    value = node.meta.get("example_value")
    return isinstance(value, torch.Tensor) and _torch_compat.is_expanded(value)


def _user_name(node: fx.Node) -> str:
    """How the user calls a value: the variable of a graph input, else the expression that made it."""
    if node.op == "placeholder":
        name = _torch_compat.dynamo_source_name(node)
        return f"the input {name}" if name else f"the graph input {node.name}"
    line = source_line(node)
    return f"the result of {line}" if line else f"the result of {node.name}"


@contextlib.contextmanager
def name_expanded_inputs(gm: fx.GraphModule) -> Iterator[None]:
    """Name the inputs that may be meant when AOTAutograd refuses to write a tensor whose elements share memory.

    Raises:
        MutationError: AOTAutograd refused.
    """
    try:
        yield
    except RuntimeError as e:
        if "refers to a single memory location" not in str(e):
            raise
        inputs = [n for n in gm.graph.nodes if n.op == "placeholder" and _shows_expanded(n)]
        if not inputs:
            raise
        raise MutationError(
            "A tensor is written whose elements share memory",
            why=f"expanded inputs: {', '.join(_user_name(n).removeprefix('the input ') for n in inputs)}",
            fix="Pass a clone() of what is written.",
        ) from e
