"""Runs sample calls in both graph modes, with fixed and symbolic sizes, and says what may be behind a difference."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from torchair import _torch_compat
from torchair._torch_compat import OpOverload
from torchair.convert.schemas import OperatorSchema
from torchair.customop.calls import Call, copies
from torchair.customop.compare import MODES, Comparison, Mode, SymbolicGraph, compare_modes, leaves, same
from torchair.customop.observe import Observation
from torchair.errors import TorchAirError, shortened

__all__ = ["Agreement", "Failure", "agreement_of"]

#: The greatest number of calls that are compiled, and of those that are compiled for symbolic sizes.
_CALLS, _SYMBOLIC = 24, 3


@dataclass(frozen=True, slots=True)
class Failure:
    """A call on which a mode disagrees with eager mode, or that it cannot run.

    Attributes:
        mode: The mode.
        call: The call.
        comparison: What became of it.
        symbolic: The graph was compiled for symbolic sizes.
        diagnosis: What the results look like; empty if nothing is known.
    """

    mode: Mode
    call: Call
    comparison: Comparison
    symbolic: bool = False
    diagnosis: str = ""

    @property
    def error(self) -> Exception | None:
        """What was raised."""
        return self.comparison.error

    def __str__(self) -> str:
        where = f"in {self.mode} mode" + (" with symbolic sizes" if self.symbolic else "")
        error = self.error
        if error is None:
            text = "\n".join(self.comparison.problems[:3])
        elif isinstance(error, TorchAirError):
            text = f"{where}:\n{error}"
        else:
            text = f"{where}: {type(error).__name__}: {shortened(error)}"
        lines = [text, *([self.diagnosis] if self.diagnosis else [])]
        if error is None and self.symbolic:
            lines.append("the graph was compiled for symbolic sizes")
        return "\n".join([*lines, f"  in the call {self.call}"])


@dataclass(frozen=True, slots=True)
class Agreement:
    """What all calls gave.

    Attributes:
        failures: What went wrong; of one kind only the first.
        calls: How many calls were run in each mode.
        symbolic: How many of them with a graph that was compiled for symbolic sizes.
    """

    failures: tuple[Failure, ...]
    calls: int
    symbolic: int


def agreement_of(overload: OpOverload, seen: Sequence[Observation]) -> Agreement:
    """Run the calls that the kernel took in both modes."""
    chosen = _chosen(seen)
    failures: list[Failure] = []
    symbolic = 0
    for mode in MODES:
        found = next(_static_failures(overload, mode, chosen), None)
        if found is not None:
            failures.append(_diagnosed(overload, found, chosen))
            continue
        for failure, number in _symbolic_failures(overload, mode, seen):
            symbolic += number
            if failure is not None:
                failures.append(_diagnosed(overload, failure, chosen))
                break
    return Agreement(tuple(failures), len(chosen), symbolic // len(MODES))


def _chosen(seen: Sequence[Observation]) -> list[Observation]:
    """The calls to compile: plain ones first, then one of each kind."""
    ranked = sorted(range(len(seen)), key=lambda i: (bool(seen[i].call.note), i))
    notes: set[str] = set()
    first: list[Observation] = []
    more: list[Observation] = []
    for i in ranked:
        note = seen[i].call.note
        (more if note in notes and note else first).append(seen[i])
        notes.add(note)
    return [*first, *more][:_CALLS]


def _static_failures(overload: OpOverload, mode: Mode, chosen: Sequence[Observation]) -> Iterator[Failure]:
    for observation in chosen:
        args, kwargs = observation.call.real()
        comparison = compare_modes(overload, args, kwargs, mode=mode)
        if not comparison.ok and comparison.mode != "eager" and not _is_random(overload, comparison):
            yield Failure(mode, observation.call, comparison)


def _symbolic_failures(
    overload: OpOverload, mode: Mode, seen: Sequence[Observation]
) -> Iterator[tuple[Failure | None, int]]:
    bases = [o for o in seen if not o.call.note and o.call.variables][:_SYMBOLIC]
    for base in bases:
        graph = SymbolicGraph(overload, base.call, mode)
        others = [o for o in seen if o.call.note == "other sizes" and o.call.args is base.call.args]
        for number, observation in enumerate([base, *others]):
            call = observation.call
            if observation.structure != base.structure:
                continue  # a graph has a fixed number of results, so that it is for these sizes only
            comparison = graph.compare(call)
            bad = not comparison.ok and comparison.mode != "eager" and not _is_random(overload, comparison)
            yield (Failure(mode, call, comparison, symbolic=True) if bad else None), int(number > 0)


def _is_random(overload: OpOverload, comparison: Comparison) -> bool:
    """Random numbers differ; what else is compared with them is compared for other operators, too."""
    return comparison.error is None and torch.Tag.nondeterministic_seeded in overload.tags


# --- what a difference looks like ---


def _diagnosed(overload: OpOverload, failure: Failure, chosen: Sequence[Observation]) -> Failure:
    if failure.error is not None or failure.symbolic:
        return failure
    diagnosis = _resembling(overload, failure)
    if not diagnosis and failure.mode == "GE":
        diagnosis = _ignored(overload, failure, chosen)
    return Failure(failure.mode, failure.call, failure.comparison, failure.symbolic, diagnosis)


def _resembling(overload: OpOverload, failure: Failure) -> str:
    """Another call whose eager results are those of the graph: two arguments exchanged, a list reversed."""
    arguments = OperatorSchema.of(overload).arguments
    args, kwargs = failure.call.real()
    names = [a.name for a in arguments if not a.kwarg_only][: len(args)] + list(kwargs)
    values = [*args, *kwargs.values()]

    def gives(changed: Sequence[Any]) -> bool:
        others = dict(zip(kwargs, changed[len(args) :], strict=True))
        flat, rebuild = _torch_compat.flatten_call(changed[: len(args)], others)
        try:
            other_args, other_kwargs = rebuild(copies(flat))
            results = leaves(overload(*other_args, **other_kwargs))
        except Exception:  # noqa: BLE001  # not that call, then
            return False
        actual = failure.comparison.results[: len(results)]
        return bool(results) and len(actual) == len(results) and all(map(same, actual, results))

    for i, j in itertools.combinations(range(len(values)), 2):
        if _kind(values[i]) == _kind(values[j]):
            changed = list(values)
            changed[i], changed[j] = values[j], values[i]
            if gives(changed):
                return f"these are the results with {names[i]!r} and {names[j]!r} exchanged"
    for i, value in enumerate(values):
        if isinstance(value, list) and len(value) > 1:
            for text, other in (("reversed", value[::-1]), ("cut to its first item", value[:1])):
                if gives([*values[:i], other, *values[i + 1 :]]):
                    return f"these are the results with the list {names[i]!r} {text}"
        for other, text in _replacements(value):
            if gives([*values[:i], other, *values[i + 1 :]]):
                return f"these are the results with {names[i]!r} {text}"
    return ""


def _replacements(value: Any) -> Iterator[tuple[Any, str]]:
    """Values that a converter that drops an argument would have used."""
    if isinstance(value, bool):
        yield not value, f"= {not value}"
    elif isinstance(value, int | float):
        for other in (0, 1, 2, 0.5, -1, int(value)):
            if other != value and (isinstance(value, float) or isinstance(other, int)):
                yield type(value)(other), f"= {type(value)(other)}"
    elif isinstance(value, torch.Tensor):
        yield None, "absent"
    elif isinstance(value, list) and value:
        yield [], "empty"


def _kind(value: Any) -> str:
    return "tensor" if isinstance(value, torch.Tensor) else type(value).__name__


def _ignored(overload: OpOverload, failure: Failure, chosen: Sequence[Observation]) -> str:
    """An argument on which eager results depend, and those of GE mode do not."""
    base = next((o for o in chosen if not o.call.note), None)
    if base is None:
        return ""
    plain = compare_modes(overload, *base.call.real()).results
    for other in chosen:
        name, equals, _ = other.call.note.partition("=")
        if not equals or len(other.results) != len(base.results) or all(map(same, other.results, base.results)):
            continue
        results = compare_modes(overload, *other.call.real()).results
        if results and len(results) == len(plain) and all(map(same, results, plain)):
            return f"GE mode gives the same for each value of {name!r}, eager mode does not"
    return ""
