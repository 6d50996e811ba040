"""Replacements of patterns in FX graphs that users register (specification, F-22)."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import torch
from torch import fx

from torchair import _torch_compat
from torchair.errors import ArgumentTypeError, ReplacementError
from torchair.frontend.aliasing import tensors

__all__ = [
    "Replacement",
    "ReplacementRegistry",
    "check_replacement",
    "register_capture_replacement",
    "register_replacement",
    "replacements",
    "returned",
    "trace_arguments",
]


def _always(match: Any) -> bool:
    return True


@dataclass(frozen=True, slots=True, eq=False)
class Replacement:
    """One registered replacement.

    Attributes:
        inputs: Example inputs, fake.
        scalars: For parameters that are no tensors, the values to trace with.
        trace: The user's tracing function; None for ours.
        check: Looks at a match: ``match.kwargs[name].meta["val"]``.
        pattern: What to look for, in place of tracing ``search``.
        modes: The modes that it is for; built-in ones may be for one of them.
    """

    search: Callable[..., Any]
    replace: Callable[..., Any]
    inputs: tuple[Any, ...]
    scalars: Mapping[str, float | int] = field(default_factory=dict)
    trace: Callable[..., fx.GraphModule] | None = None
    check: Callable[[Any], bool] = _always
    pattern: Any = None
    modes: tuple[str, ...] = ("ge", "capture")

    @property
    def name(self) -> str:
        """How messages call it."""
        return _name(self.search)

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of the parameters of ``search``."""
        return tuple(inspect.signature(self.search).parameters)

    def trace_function(
        self, function: Callable[..., Any], args: Sequence[Any], decompositions: Mapping[Any, Callable[..., Any]]
    ) -> fx.GraphModule:
        """Trace one of the two functions as the graphs are traced that it is for."""
        if self.trace is None:
            return _torch_compat.trace_pattern(function, args, decompositions)
        takes_table = "get_decomp_fn" in inspect.signature(self.trace).parameters
        return self.trace(function, args, **({"get_decomp_fn": lambda: dict(decompositions)} if takes_table else {}))


class ReplacementRegistry:
    """Replacements of one package (process-wide).

    Args:
        package: ``"torchair"`` or ``"npugraph_ex"``.
    """

    def __init__(self, package: str) -> None:
        self.package = package
        self._replacements: dict[str, Replacement] = {}

    def snapshot(self) -> tuple[Replacement, ...]:
        """The replacements as they are now, for one compile."""
        return tuple(self._replacements.values())

    def forget(self, search: Callable[..., Any]) -> None:
        """Drop the replacements of what a function computes."""
        self._replacements = {key: r for key, r in self._replacements.items() if r.search is not search}

    def register(self, replacement: Replacement, *, skip_duplicates: bool) -> None:
        """Check a replacement by tracing it, and add it.

        Raises:
            ReplacementError: It cannot be traced or can never match, or gives other results than it replaces, or its
                pattern is registered already.
        """
        with _torch_compat.outside_of_compiles():
            key = check_replacement(replacement)
        if key in self._replacements:
            if skip_duplicates:
                return
            _refuse(
                replacement,
                "the same pattern is registered already, with "
                f"{_name(self._replacements[key].replace)} in its place: Duplicate pattern",
                fix="Register it once, or say skip_duplicates=True.",
            )
        self._replacements[key] = replacement

    def register_replacement(
        self,
        search_fn: Callable[..., Any],
        replace_fn: Callable[..., Any],
        example_inputs: Sequence[Any],
        trace_fn: Callable[..., fx.GraphModule] | None = None,
        extra_check: Callable[[Any], bool] = _always,
        search_fn_pattern: Any = None,
        scalar_workaround: Mapping[str, float | int] | None = None,
        skip_duplicates: bool = False,
    ) -> None:
        """Replace what ``search_fn`` computes by ``replace_fn``, in graphs that are compiled from now on.

        ``torchair.register_replacement`` is for graphs of GE mode, ``npugraph_ex.register_replacement`` for captured
        ones. Both functions take the same arguments, and are traced with example inputs, of which types and ranks
        matter, and neither contents nor exact sizes.

        Args:
            search_fn: Computes the pattern to look for.
            replace_fn: Computes the same in another way.
            example_inputs: A tensor for each parameter of ``search_fn`` that is not in ``scalar_workaround``; made
                under ``FakeTensorMode``, or real ones, whose contents are not read.
            trace_fn: ``(function, inputs) -> GraphModule``; by default the functions are traced with the operators and
                decompositions of the mode.
            extra_check: ``(match) -> bool`` on each match; ``match.kwargs["x"].meta["val"]`` is the type of the
                argument.
            search_fn_pattern: A ``PatternExpr`` of ``torch._inductor.pattern_matcher`` to look for; then ``search_fn``
                only names the parameters.
            scalar_workaround: Values for parameters that are numbers, each a different one that does not occur
                otherwise in the pattern: ``{"eps": 1e-6}``. A match binds them to the number in the graph.
            skip_duplicates: Do nothing if the same pattern is registered already; by default that is an error.

        Raises:
            ReplacementError: The replacement cannot work; the text says why.
            ArgumentTypeError: An argument is of the wrong type.

        Example:
            >>> def search(x, y):
            ...     return torch.relu(x + y)
            >>> def replace(x, y):
            ...     return torch.ops.my_ops.add_relu(x, y)
            >>> with torch._subclasses.FakeTensorMode():
            ...     x = torch.empty(4, 4)
            >>> torchair.register_replacement(search, replace, [x, x])
        """
        made = _made(
            search_fn, replace_fn, example_inputs, trace_fn, extra_check, search_fn_pattern, scalar_workaround or {}
        )
        self.register(made, skip_duplicates=skip_duplicates)


#: Mode -> the registry of the package that has it.
replacements: Mapping[str, ReplacementRegistry] = {
    "ge": ReplacementRegistry("torchair"),
    "capture": ReplacementRegistry("npugraph_ex"),
}

register_replacement = replacements["ge"].register_replacement
register_capture_replacement = replacements["capture"].register_replacement


def _made(search: Any, replace: Any, inputs: Any, trace: Any, check: Any, pattern: Any, scalars: Any) -> Replacement:
    """Check the kinds of the arguments.

    Raises:
        ReplacementError: Numbers or names do not fit.
        ArgumentTypeError: An argument is of the wrong type.
    """
    functions = {"search_fn": search, "replace_fn": replace, "extra_check": check}
    functions |= {} if trace is None else {"trace_fn": trace}
    wrong = [f"{name} is a {type(f).__name__}, not a function" for name, f in functions.items() if not callable(f)]
    if not isinstance(inputs, list | tuple):
        wrong.append(f"example_inputs is a {type(inputs).__name__}, not a list or tuple")
    if not isinstance(scalars, Mapping):
        wrong.append(f"scalar_workaround is a {type(scalars).__name__}, not a dictionary of names to numbers")
    elif not all(isinstance(v, int | float) for v in scalars.values()):
        wrong.append(f"scalar_workaround = {dict(scalars)!r} has values that are no numbers")
    if wrong:
        raise ArgumentTypeError(
            "An argument of register_replacement is of the wrong type",
            why=wrong,
            fix="register_replacement(search_fn, replace_fn, [x, y], scalar_workaround={'eps': 1e-6})",
        )
    trace = None if trace is not None and trace is _torch_compat.default_pattern_trace() else trace
    made = Replacement(search, replace, tuple(inputs), dict(scalars), trace, check, pattern)
    names = made.parameters
    unknown = [name for name in scalars if name not in names]
    if unknown:
        _refuse(made, f"scalar_workaround names {', '.join(unknown)}; {made.name} takes {', '.join(names)}")
    if len(set(scalars.values())) < len(scalars):
        _refuse(made, f"scalar_workaround = {dict(scalars)!r} has a value twice, so they cannot be told apart")
    needed = [name for name in names if name not in scalars]
    if len(needed) != len(inputs):
        _refuse(
            made,
            f"{made.name} takes {len(needed)} tensors ({', '.join(needed)}), and example_inputs has {len(inputs)}",
            fix="Give one example input for each parameter that is not in scalar_workaround.",
        )
    with _torch_compat.outside_of_compiles():
        return Replacement(search, replace, _fake(made), made.scalars, trace, check, pattern)


def _fake(replacement: Replacement) -> tuple[Any, ...]:
    """The example inputs as fake tensors of one mode, each one of its own: one given twice would trace as one argument.

    Raises:
        ReplacementError: They are of several modes.
    """
    modes = _torch_compat.fake_modes(tensors(list(replacement.inputs)))
    if len(modes) > 1:
        _refuse(replacement, "the example inputs come from several FakeTensorModes", fix="Make them under one.")
    mode = modes[0] if modes else _torch_compat.new_fake_mode()

    def fake(value: Any) -> Any:
        if isinstance(value, list | tuple):
            return type(value)(map(fake, value))
        if not isinstance(value, torch.Tensor):
            return value
        shape, strides, dtype, device = value.shape, value.stride(), value.dtype, value.device
        with mode:
            return torch.empty_strided(shape, strides, dtype=dtype, device=device)

    return tuple(map(fake, replacement.inputs))


def trace_arguments(replacement: Replacement) -> list[Any]:
    """An argument for each parameter."""
    inputs = iter(replacement.inputs)
    return [replacement.scalars[n] if n in replacement.scalars else next(inputs) for n in replacement.parameters]


def check_replacement(replacement: Replacement) -> str:
    """Trace both functions and compare them; return what identifies the pattern.

    Raises:
        ReplacementError: See :meth:`ReplacementRegistry.register`.
    """
    args = trace_arguments(replacement)
    replaced = _traced(replacement, replacement.replace, "replace_fn", args)
    if replacement.pattern is not None:
        return f"pattern {replacement.pattern!r}"
    found = _traced(replacement, replacement.search, "search_fn", args)
    flat = [
        f"{name}_{i}" if isinstance(a, list | tuple) and len(a) > 1 else name
        for name, a in zip(replacement.parameters, args, strict=True)
        for i in range(len(a) if isinstance(a, list | tuple) else 1)
    ]
    if not any(node.op == "call_function" for node in found.graph.nodes):
        _refuse(replacement, f"{replacement.name} calls no operator, so there is nothing to look for")
    before, after = (
        [n.meta.get("val") if isinstance(n, fx.Node) else n for n in returned(gm)] for gm in (found, replaced)
    )
    if any(isinstance(n, fx.Node) and n.op == "placeholder" for n in returned(found)):
        _refuse(replacement, f"{replacement.name} returns one of its arguments", fix="Return what is computed alone.")
    if [_shown(v) for v in before] != [_shown(v) for v in after]:
        _refuse(
            replacement,
            f"{replacement.name} returns {', '.join(map(_shown, before))}",
            f"{_name(replacement.replace)} returns {', '.join(map(_shown, after))}",
            fix="Return as many tensors of the same dtypes and shapes, in the same order.",
        )
    text, bound = _torch_compat.pattern_of(found, flat, replacement.scalars)
    unbound = [name for name in flat if name not in bound]
    if unbound:
        _refuse(
            replacement,
            f"the arguments {', '.join(unbound)} of {replacement.name} do not occur in what it computes, so a match "
            "does not tell what they are",
            fix="Leave them out; numbers go into scalar_workaround={name: a number that occurs nowhere else}.",
        )
    return f"{text}\n{found.graph}"


def _traced(replacement: Replacement, function: Callable[..., Any], role: str, args: Sequence[Any]) -> fx.GraphModule:
    (mode, *_) = _torch_compat.fake_modes(tensors(args)) or [_torch_compat.new_fake_mode()]
    try:
        with mode:
            gm = replacement.trace_function(function, args, {})
    except Exception as e:
        raise ReplacementError(
            "A replacement of a pattern cannot be registered",
            why=[f"{role} {_name(function)} cannot be traced with the example inputs", f"{type(e).__name__}: {e}"],
            fix="Call both functions with the example inputs, under their FakeTensorMode, to see where they fail.",
        ) from e
    return gm


def returned(gm: fx.GraphModule) -> list[Any]:
    """What a graph returns, as a list: nodes, and values that are none."""
    (output,) = gm.graph.find_nodes(op="output")
    result: Any = output.args[0]
    return list(result) if isinstance(result, list | tuple) else [result]


def _shown(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return f"{value.dtype}{list(value.shape)}".removeprefix("torch.")
    return repr(value)


def _name(function: Any) -> str:
    code = getattr(inspect.unwrap(function), "__code__", None)
    name = getattr(function, "__name__", type(function).__name__)
    return f"{name} ({Path(code.co_filename).name}:{code.co_firstlineno})" if code is not None else str(name)


def _refuse(replacement: Replacement, *why: str, fix: str = "") -> NoReturn:
    raise ReplacementError("A replacement of a pattern cannot be registered", why=why, fix=fix)
