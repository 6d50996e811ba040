"""Inductor's pattern matcher over FX graphs."""

from __future__ import annotations

import contextlib
import functools
import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import fx

from torchair._torch_compat.aot import disabled_autocast
from torchair._torch_compat.calls import no_dispatch_modes

__all__ = [
    "PatternMatcher",
    "default_pattern_trace",
    "outside_of_compiles",
    "pattern_of",
    "trace_pattern",
]


# --- patterns in FX graphs ---------------------------------------------------------------------------------------


def trace_pattern(
    function: Callable[..., Any], args: Sequence[Any], decompositions: Mapping[Any, Callable[..., Any]]
) -> fx.GraphModule:
    """Trace a function of fake tensors into a graph of ATen operators, as AOTAutograd leaves them."""
    from torch._dispatch.python import enable_python_dispatcher
    from torch.fx.experimental.proxy_tensor import make_fx

    with disabled_autocast(), torch.no_grad(), enable_python_dispatcher():
        return make_fx(function, decomposition_table=dict(decompositions))(*args)


@contextlib.contextmanager
def outside_of_compiles() -> Iterator[None]:
    """A context that knows nothing of a compile in progress: neither its fake tensors nor its dispatch modes."""
    from torch._guards import tracing

    with tracing(None), no_dispatch_modes():
        yield


def default_pattern_trace() -> Any:
    """``torch._inductor.pattern_matcher.fwd_only``: what users give as ``trace_fn`` for a graph without gradients."""
    from torch._inductor.pattern_matcher import fwd_only

    return fwd_only


def pattern_of(gm: fx.GraphModule, names: Sequence[str], scalars: Mapping[str, float | int]) -> tuple[str, set[str]]:
    """What Inductor's matcher would look for: as text, and the names of the arguments that a match binds."""
    from torch._inductor.pattern_matcher import PatternPrettyPrinter, fx_to_pattern

    ignored = (int, float, list, torch.device, torch.dtype)
    pattern: Any = fx_to_pattern(gm, ignore_types=ignored, argnames=names, scalar_workaround=dict(scalars))
    text = PatternPrettyPrinter.run(pattern)
    return text, set(re.findall(r"KeywordArg\('(\w+)'", text))


class PatternMatcher:
    """Inductor's matcher of patterns in FX graphs, with replacements of ours.

    Args:
        name: What Inductor calls the pass.
    """

    def __init__(self, name: str) -> None:
        from torch._inductor.pattern_matcher import PatternMatcherPass

        self._pass: Any = PatternMatcherPass(pass_name=name)

    def add(
        self,
        search: Callable[..., Any],
        replace: Callable[..., Any],
        example_inputs: Sequence[Any],
        trace: Callable[..., fx.GraphModule],
        check: Callable[[Any], bool],
        accept: Callable[[Any], bool],
        *,
        scalars: Mapping[str, float | int],
        pattern: Any = None,
    ) -> None:
        """Add a replacement.

        Args:
            check: Looks at a match before the replacement is traced.
            accept: Looks at it afterwards: then ``replacement_graph`` is there.
        """
        from torch._inductor import pattern_matcher

        register: Any = pattern_matcher.register_replacement
        # Since 2.7; which replacements are equal was looked at when they were registered.
        more = {"skip_duplicates": True} if "skip_duplicates" in inspect.signature(register).parameters else {}
        known = {id(entry) for entry in self._entries()}
        with _no_patterns_seen():
            register(
                search,
                replace,
                list(example_inputs),
                trace,
                self._pass,
                extra_check=check,
                scalar_workaround=dict(scalars),
                search_fn_pattern=pattern,
                **more,
            )
        for entry in {id(entry): entry for entry in self._entries() if id(entry) not in known}.values():
            entry.extra_check = functools.partial(_both, entry.extra_check, accept)

    def _entries(self) -> list[Any]:
        return [entry for entries in self._pass.patterns.values() for entry in entries]

    def apply(self, gm: fx.GraphModule) -> int:
        """Replace what is found, and return how often; nodes may stand in the wrong order for a moment."""
        from torch._inductor.pattern_matcher import stable_topological_sort

        count = int(self._pass.apply(gm))
        if count:
            stable_topological_sort(gm.graph)
        for node in gm.graph.nodes:
            node.meta.pop("mutation_region_id", None)
        return count


@contextlib.contextmanager
def _no_patterns_seen() -> Iterator[None]:
    """2.6 refuses a pattern that any pass of the process has already."""
    from torch._inductor import pattern_matcher

    seen: Any = getattr(pattern_matcher, "_seen_patterns", set())
    saved = list(seen)
    seen.clear()
    try:
        yield
    finally:
        seen.clear()
        seen.update(saved)


def _both(first: Callable[[Any], Any], second: Callable[[Any], bool], match: Any) -> bool:
    return bool(first(match)) and second(match)
