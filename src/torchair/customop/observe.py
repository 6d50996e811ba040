"""Runs an operator's kernel on sample calls, on copies of all arguments, and notes what it did."""

from __future__ import annotations

import contextlib
import dataclasses
import re
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from torchair import _torch_compat, contracts
from torchair._torch_compat import OpOverload
from torchair.contracts import Problem
from torchair.customop.calls import Call, TensorSpec, call_of
from torchair.customop.compare import leaves, same
from torchair.customop.samples import first_calls, size_variants, unknown_arguments, variants
from torchair.errors import shortened

__all__ = ["Observation", "Observations", "observe"]

#: The greatest number of calls of the kernel that are looked for, and the time for them in seconds.
_FIRST, _VARIED, _SECONDS = 80, 64, 60.0


class ExitError(Exception):
    """A kernel raised ``SystemExit``, which is no ``Exception``."""


@dataclass(frozen=True, slots=True)
class Observation:
    """One call that the kernel took.

    Attributes:
        call: The call.
        results: What it returned, flat.
        problems: What differs from the promises of schema and fake kernel.
        faults: What is wrong with the kernel itself.
    """

    call: Call
    results: tuple[Any, ...]
    problems: tuple[Problem, ...]
    faults: tuple[str, ...] = ()

    @property
    def structure(self) -> tuple[int, ...]:
        """Number and ranks of its results."""
        return tuple(r.ndim if isinstance(r, torch.Tensor) else -1 for r in self.results)


@dataclass(slots=True)
class Observations:
    """What the kernel did with all the calls.

    Attributes:
        taken: Calls that it took.
        refused: Calls that it refused, with what it raised; of those that :attr:`faults` names, too.
        faults: Calls that it should have taken, as text.
        generated: The calls were made up here; the user gave none.
        note: Why there are no calls, or not more.
    """

    taken: list[Observation] = field(default_factory=list)
    refused: list[tuple[Call, Exception]] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    generated: bool = True
    note: str = ""

    @property
    def usual(self) -> list[Observation]:
        """Calls in which everything has to be right."""
        return [seen for seen in self.taken if not seen.call.unusual]

    def problems(self, *kinds: str, unusual: bool = False) -> list[str]:
        """Broken promises of some kinds, each with the first call that shows it.

        Args:
            unusual: Look at the calls that the author may not have thought of.
        """
        found: dict[str, tuple[str, Call]] = {}
        for seen in self.taken:
            for problem in seen.problems:
                if problem.kind in kinds and seen.call.unusual == unusual:
                    found.setdefault(re.sub(r"\d+", "0", problem), (problem, seen.call))
        shown = list(found.values())[:4]
        several = len(self.taken) > 1
        return [f"{text}\n  in the call {call}" if several else str(text) for text, call in shown]

    @property
    def summary(self) -> tuple[str, ...]:
        """What was tried and refused, for people."""
        if not self.generated and len(self.taken) + len(self.refused) <= 1:
            return ()
        lines = []
        origin = "generated from the schema" if self.generated else "the sample and variants of it"
        if self.taken:
            notes = dict.fromkeys(seen.call.note or "plain" for seen in self.taken)
            lines.append(f"checked with {_calls(len(self.taken))} ({origin}): {', '.join(notes)}")
        kinds: dict[str, Exception] = {}
        for call, error in self.refused:
            kinds.setdefault(call.note or str(call), error)
        if self.taken and kinds:
            texts = [f"{kind} ({_short(error)})" for kind, error in list(kinds.items())[:8]]
            more = f", and {len(kinds) - 8} more" if len(kinds) > 8 else ""
            lines.append(f"the kernel refused {_calls(len(self.refused))}: {'; '.join(texts)}{more}")
        if self.note:
            lines.append(self.note)
        return tuple(lines)


def _calls(number: int) -> str:
    return f"{number} call" + ("" if number == 1 else "s")


def _short(error: Exception) -> str:
    lines = shortened(error).strip().splitlines() or [""]
    text = f"{type(error).__name__}: {lines[0]}".rstrip(": ")
    return text if len(text) <= 100 else text[:97] + "..."


def observe(overload: OpOverload, given: Sequence[tuple[Sequence[Any], Any]]) -> Observations:
    """Run the kernel.

    Args:
        given: Arguments and keyword arguments of each sample call; generated from the schema if there are none.
    """
    runner = _Runner(overload)
    seen = Observations(generated=not given)
    runner.seen = seen
    with torch.random.fork_rng(devices=()), torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if given:
            for args, kwargs in given:
                runner.accepts(call_of(args, kwargs), thorough=True)
            bases = [o.call for o in seen.taken][:4]
            for base in bases:
                for call in size_variants(base):
                    runner.accepts(call)
                for call in variants(overload, base):
                    if call.plain is not None:
                        runner.accepts(call)
        elif unknown := unknown_arguments(overload):
            seen.note = f"no calls were generated: no value is known for the argument {', '.join(unknown)}"
        else:
            bases = first_calls(overload, lambda call: runner.accepts(call, thorough=True), _FIRST)
            seen.refused = seen.refused[-8:] if not bases else []
            for base in bases:
                for call in size_variants(base):
                    runner.accepts(call)
            tried = 0
            for base in bases:
                budget = _VARIED // 2 if base is bases[0] else _VARIED // 4
                for number, call in enumerate(variants(overload, base)):
                    if number >= budget or tried >= _VARIED:
                        break
                    tried += 1
                    runner.accepts(call)
        runner.look_back()
    return seen


class _Runner:
    """Runs the calls, within a time."""

    def __init__(self, overload: OpOverload) -> None:
        self.overload = overload
        self.seen = Observations()
        self._end = time.monotonic() + _SECONDS
        self._kept: list[tuple[Call, list[Any]]] = []

    def accepts(self, call: Call, *, thorough: bool = False) -> bool:
        """Run a call; False if the kernel raised."""
        if time.monotonic() > self._end:
            self.seen.note = f"no more calls were tried after {_SECONDS:.0f} seconds"
            return False
        try:
            args, kwargs = call.real()
            checked = contracts.check_call(self.overload, args, kwargs)
        except Exception as e:  # noqa: BLE001  # whatever a user's kernel raises is the finding
            self.seen.refused.append((call, e))
            # What was made of the user's own call may be one that the kernel is not for.
            if self.seen.generated and (fault := _unexpected(call, e, self.seen.taken)):
                self.seen.faults.append(fault)
            return False
        except SystemExit as e:
            self.seen.refused.append((call, ExitError(f"SystemExit({e.code!r}) ends the process")))
            self.seen.faults.append(f"it ends the process (SystemExit) instead of raising an error: {call}")
            return False
        results = leaves(checked.result)
        faults = list(self._unlike_plain(call, results, args, kwargs))
        if thorough:
            faults += self._changing(call, results)
            self._kept = self._kept or [(call, _clones(results))]
        problems = (*checked.problems, *_undeclared_memory(self.overload, checked.result, args, kwargs))
        self.seen.taken.append(Observation(call, tuple(_clones(results)), problems, tuple(faults)))
        return True

    def _unlike_plain(self, call: Call, results: list[Any], args: Any, kwargs: Any) -> Iterator[str]:
        """The same values in another layout have the same results."""
        if call.plain is None:
            return
        plain_args, plain_kwargs = call.plain.real()
        try:
            expected = leaves(self.overload(*plain_args, **plain_kwargs))
        except Exception:  # noqa: BLE001  # a finding of the plain call
            return
        wrong = [f"result {i}" for i, (a, b) in enumerate(zip(results, expected, strict=False)) if not same(a, b)]
        ours, theirs = (_torch_compat.flatten_call(a, k)[0] for a, k in ((args, kwargs), (plain_args, plain_kwargs)))
        wrong += [f"what it writes into tensor {i}" for i, (a, b) in enumerate(zip(ours, theirs, strict=True))
                  if isinstance(a, torch.Tensor) and not same(a, b)]  # fmt: skip
        if wrong and torch.Tag.nondeterministic_seeded not in self.overload.tags:
            yield (
                f"with tensors that are not contiguous {wrong[0]} has other values than with contiguous ones of the "
                f"same values: {call}"
            )

    def _changing(self, call: Call, results: list[Any]) -> list[str]:
        """Two calls with equal arguments have equal results."""
        if torch.Tag.nondeterministic_seeded in self.overload.tags:
            return []
        again: list[list[Any]] = []
        for _ in range(2):
            args, kwargs = call.real()
            with _filled_memory():
                try:
                    again.append(_clones(leaves(self.overload(*args, **kwargs))))
                except Exception as e:  # noqa: BLE001
                    return [f"a second call with the same arguments raised {_short(e)}: {call}"]
        for one, other, why in (
            (again[0], again[1], _STATE),
            (results, again[0], "it depends on what memory held before (torch.empty), of which it does not write all"),
        ):
            wrong = [i for i, (a, b) in enumerate(zip(one, other, strict=False)) if not same(a, b)]
            if wrong or len(one) != len(other):
                which = f"result {wrong[0]}" if wrong else "the number of results"
                return [f"two calls with the same arguments differ in {which}: {why}: {call}"]
        return self._reusing(call, results)

    def _reusing(self, call: Call, results: list[Any]) -> list[str]:
        """A call with other values leaves the results of an earlier one alone."""
        before = _clones(results)
        args, kwargs = call.replacing(_other_values).real()
        with contextlib.suppress(Exception):
            self.overload(*args, **kwargs)
        wrong = [i for i, (a, b) in enumerate(zip(results, before, strict=True)) if not same(a, b)]
        if not wrong:
            return []
        why = "it lies in memory that the kernel keeps and uses again"
        return [f"result {wrong[0]} of a call changed in a later one: {why}: {call}"]

    def look_back(self) -> None:
        """The first call still gives what it gave."""
        for call, clones in self._kept:
            if torch.Tag.nondeterministic_seeded in self.overload.tags or any(o.faults for o in self.seen.taken):
                return
            args, kwargs = call.real()
            try:
                again = leaves(self.overload(*args, **kwargs))
            except Exception as e:  # noqa: BLE001
                self.seen.faults.append(f"a call raised {_short(e)} that it took before other calls: {call}")
                return
            if any(not same(a, b) for a, b in zip(again, clones, strict=False)):
                self.seen.faults.append(f"a call has other results than before other calls: it keeps state: {call}")


#: Words of errors that refuse an empty tensor on purpose.
_SAYS_EMPTY = ("empty", "numel", "non-zero", "nonzero", "zero-", "element", "size 0", "at least", "positive", "shape")

_STATE = (
    "it keeps state, is random (then it needs tags=torch.Tag.nondeterministic_seeded), or reads memory that it did not "
    "write"
)


def _other_values(spec: TensorSpec) -> TensorSpec:
    values = None if spec.values is None else spec.values.flatten().roll(1).reshape(spec.values.shape)
    return dataclasses.replace(spec, seed=spec.seed + 1000, values=values)


def _unexpected(call: Call, error: Exception, taken: Sequence[Observation]) -> str:
    """Why a call should have been taken; empty if it may be refused."""
    if call.plain is not None:
        return f"it takes contiguous tensors, and refuses others with the same values: {_short(error)}: {call}"
    text = str(error).lower()
    empty = call.note == "empty tensors" and _takes_other_sizes(call, taken)
    if empty and not any(word in text for word in _SAYS_EMPTY):
        return f"it fails for empty tensors, without saying that it refuses them: {_short(error)}: {call}"
    return ""


def _takes_other_sizes(call: Call, taken: Sequence[Observation]) -> bool:
    """Whether the sizes that are 0 may be others than in the plain call."""
    same_call = [o.call for o in taken if o.call.args is call.args]
    empty = [name for name, size in call.sizes.items() if size == 0]
    return any(len({c.sizes[name] for c in same_call if c.sizes[name] > 1}) > 1 for name in empty)


def _undeclared_memory(overload: OpOverload, result: Any, args: Any, kwargs: Any) -> list[Problem]:
    """Results that lie in the memory of an argument or of another result, which the schema does not say."""
    schema = overload._schema
    if any(r.alias_info is not None for r in schema.returns):
        return []
    given = {**dict(zip((a.name for a in schema.arguments), args, strict=False)), **kwargs}
    owners: dict[int, str] = {}
    for name, value in given.items():
        for tensor in leaves(value):
            if isinstance(tensor, torch.Tensor) and tensor.layout is torch.strided and tensor.numel():
                owners.setdefault(_torch_compat.storage_id(tensor), f"the argument {name!r}")
    problems = []
    for i, tensor in enumerate(leaves(result)):
        if isinstance(tensor, torch.Tensor) and tensor.layout is torch.strided and tensor.numel():
            key = _torch_compat.storage_id(tensor)
            if key in owners:
                text = f"result {i} lies in the memory of {owners[key]}, and the schema does not say so"
                problems.append(Problem(text, "alias"))
            owners.setdefault(key, f"result {i}")
    return problems


@contextlib.contextmanager
def _filled_memory() -> Iterator[None]:
    """Let PyTorch fill memory that nobody has written yet, so that reading it shows."""
    before = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    settings: Any = torch.utils.deterministic
    fill = settings.fill_uninitialized_memory
    torch.use_deterministic_algorithms(True, warn_only=True)
    settings.fill_uninitialized_memory = True
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before[0], warn_only=before[1])
        settings.fill_uninitialized_memory = fill


def _clones(values: Sequence[Any]) -> list[Any]:
    return [v.detach().clone() if isinstance(v, torch.Tensor) else v for v in values]
