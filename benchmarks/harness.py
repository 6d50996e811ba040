"""Builds each variant of a case, compares it with eager, and times those that are right.

Every variant gets a copy of the model with code of its own: Dynamo keeps what it compiled on the code object, so on
shared code every variant would search through the entries of the others, and eight of them would reach its limit.
Inductor's caches are emptied before each compile, so that the first call is a cold one.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import os
import re
import subprocess
import sys
import tempfile
import time
import types
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from benchmarks.results import CaseResult, Row, Work
from benchmarks.timing import Timing, interleave

__all__ = [
    "Case",
    "Unavailable",
    "Variant",
    "Workload",
    "busy",
    "first_call",
    "first_line",
    "measure",
    "own_code",
    "prepare",
    "size_of",
    "warm_up",
]

#: Argument sets that a variant is compared on before it is timed; one more follows after it.
CHECKS = 3

#: Busy processes beside a case that is timed under load.
BUSY = 2

_BEGAN = time.perf_counter()

#: The seconds that work takes at least.
Floor = Callable[[Work], "float | None"]


class Unavailable(Exception):  # noqa: N818 (a state, not a fault)
    """A variant or case cannot run on this machine; the text says what is missing."""


@dataclass(frozen=True, slots=True)
class Workload:
    """What is timed.

    Attributes:
        function: A function or module that returns a tensor or a tuple of tensors. Called again with the same
            arguments it leaves the same state, so that it can be repeated.
        inputs: The arguments for a seed: of the same shapes for each seed, with other values.
        untouched: Bytes of parameters and buffers that a call need not touch: all but some rows of an embedding, say.
    """

    function: Callable[..., Any]
    inputs: Callable[[int], tuple[Any, ...]]
    untouched: int = 0


@dataclass(frozen=True, slots=True)
class Case:
    """A workload by name.

    Attributes:
        what: One line for readers of the results.
        build: Makes a fresh copy on a device. It is called once a variant, with the same seed.
        rtol: Relative difference from eager that is allowed, like ``atol``.
        atol: Absolute difference.
        require: Raises ``Unavailable`` if something it needs is not installed.
        loaded: It is timed a second time with two busy processes beside it.
    """

    name: str
    what: str
    build: Callable[[torch.device], Workload]
    rtol: float = 1e-4
    atol: float = 1e-5
    require: Callable[[], None] = lambda: None
    loaded: bool = False


@dataclass(frozen=True, slots=True)
class Variant:
    """A way to run a workload.

    Attributes:
        compile: Function or module to what is called instead.
        peer: One that ours is measured against.
        require: Raises ``Unavailable`` where it cannot run on a device.
        probe: Says of a case, by name, why it should not be compiled in this process; None if it can be.
    """

    name: str
    what: str
    compile: Callable[[Callable[..., Any]], Callable[..., Any]]
    peer: bool = False
    require: Callable[[torch.device], None] = lambda _: None
    probe: Callable[[str], str | None] = lambda _: None


@dataclass(frozen=True, slots=True)
class Prepared:
    """A variant that computes what eager computes.

    Attributes:
        call: One call, as it is timed.
        compile_seconds: The first call; None where nothing is compiled.
        check: Compares further argument sets; None, or what differs.
    """

    variant: Variant
    call: Callable[[], object]
    compile_seconds: float | None
    largest_error: float
    check: Callable[[int], str | None]

    def row(self, times: tuple[float, ...]) -> Row:
        """The row for these times."""
        wrong = self.check(CHECKS)
        return Row(
            self.variant.name,
            "wrong" if wrong else "ok",
            f"after timing: {wrong}" if wrong else "",
            peer=self.variant.peer,
            times=() if wrong else times,
            compile_seconds=self.compile_seconds,
            largest_error=self.largest_error,
        )


def measure(
    case: Case, variants: Sequence[Variant], device: torch.device, timing: Timing, floor: Floor | None = None
) -> list[CaseResult]:
    """Prepare each variant, time those that are right in one interleaved run, check them again.

    Args:
        floor: The fastest this machine could be for bytes and operations; without it no result has a floor.

    Returns:
        One result; a second one, under load, for cases that say so.
    """
    names = {case.name: case.what}
    if case.loaded:
        names[f"{case.name}_loaded"] = f"{case.what}; {BUSY} busy processes beside it"
    try:
        case.require()
    except Unavailable as missing:
        rows = tuple(_row(v, "not available", str(missing)) for v in variants)
        return [CaseResult(name, what, rows) for name, what in names.items()]
    torch.compiler.reset()
    results = []
    with torch.no_grad(), tempfile.TemporaryDirectory() as folder:
        reference = Reference(case, device)
        seconds = floor(reference.work) if floor is not None else None
        found = {v.name: prepare(reference, v, folder, timing) for v in variants}
        ready = {name: one for name, one in found.items() if isinstance(one, Prepared)}
        for name, what in names.items():
            progress(f"{name}: timing {', '.join(ready)}")
            with contextlib.nullcontext() if name == case.name else busy():
                times = interleave({name: one.call for name, one in ready.items()}, timing)
            rows = tuple(one.row(times[name]) if isinstance(one, Prepared) else one for name, one in found.items())
            results.append(CaseResult(name, what, rows, reference.work, seconds, loaded=name != case.name))
    torch.compiler.reset()
    return results


@contextlib.contextmanager
def busy() -> Iterator[None]:
    """Let processes compute beside what is timed, each with one thread."""
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(BUSY)]
    try:
        time.sleep(0.5)
        yield
    finally:
        for other in others:
            other.kill()
            other.wait()


def warm_up(variants: Sequence[Variant], device: torch.device) -> None:
    """Compile something trivial with each variant.

    What happens once a process or once a machine (imports, precompiled headers, building our extension) is then in no
    case's first call. A failure is not reported here: it shows in the rows.
    """
    for variant in variants:
        with torch.no_grad(), contextlib.suppress(Exception):
            variant.require(device)
            progress(f"warming up {variant.name}")
            variant.compile(own_code(_twice, f"warm_up_{variant.name}"))(torch.ones(3, device=device))
    torch.compiler.reset()


def _twice(x: Tensor) -> Tensor:
    return x * 2


def progress(text: str) -> None:
    """Say on standard error what happens now, after how many seconds."""
    print(f"{time.perf_counter() - _BEGAN:6.1f} s  {text}", file=sys.stderr, flush=True)


# ---------------------------------------------------------------- preparing a variant


class Reference:
    """What eager mode gives for each argument set, in the order in which a variant sees them.

    Attributes:
        expected: One outcome an argument set.
        work: What a call has to do at least.
    """

    def __init__(self, case: Case, device: torch.device, *, checks: int = CHECKS + 1) -> None:
        self.case = case
        self.device = device
        workload = self.build()
        self.expected = [_outcome(workload, workload.function, workload.inputs(seed)) for seed in range(checks)]
        self.work = _work(workload)

    def build(self) -> Workload:
        """A fresh copy of the workload; all copies are equal."""
        with torch.random.fork_rng():
            torch.manual_seed(0)
            return self.case.build(self.device)

    def differs(self, seed: int, got: Sequence[Tensor]) -> str | None:
        """What differs from eager on argument set ``seed``; None if nothing does."""
        expected = self.expected[seed]
        if len(got) != len(expected):
            return f"{len(got)} tensors instead of {len(expected)}"
        try:
            torch.testing.assert_close(
                list(got), list(expected), rtol=self.case.rtol, atol=self.case.atol, equal_nan=True
            )
        except AssertionError as error:
            lines = [line for line in str(error).splitlines() if line.strip()]
            details = [line for line in lines[1:] if line.startswith(("Greatest absolute", "The failure occurred"))]
            return "; ".join([f"argument set {seed}: {lines[0]}", *details])
        return None

    def error(self, seed: int, got: Sequence[Tensor]) -> float:
        """The largest absolute difference from eager on argument set ``seed``."""
        pairs = [(a, b) for a, b in zip(got, self.expected[seed], strict=True) if a.is_floating_point() and a.numel()]
        return max(((a.double() - b.double()).abs().max().item() for a, b in pairs), default=0.0)


def prepare(reference: Reference, variant: Variant, folder: str, timing: Timing) -> Prepared | Row:
    """Compile a variant and compare it with eager; a row that says why where it cannot be timed."""
    try:
        variant.require(reference.device)
    except Unavailable as missing:
        return _row(variant, "not available", str(missing))
    progress(f"{reference.case.name}: compiling {variant.name}")
    if reason := variant.probe(reference.case.name):
        return _row(variant, "failed", reason)
    try:
        return _prepare(reference, variant, folder, timing)
    except Exception as error:  # noqa: BLE001 (one variant's failure is a row, the others go on)
        # Dynamo wraps what a backend raises.
        cause = getattr(error, "inner_exception", None) or error
        status = "not available" if isinstance(cause, (Unavailable, _unavailable_feature())) else "failed"
        return _row(variant, status, f"{type(cause).__name__}: {first_line(cause)}")


def _prepare(reference: Reference, variant: Variant, folder: str, timing: Timing) -> Prepared | Row:
    workload = reference.build()
    function = own_code(workload.function, f"{reference.case.name}_{variant.name}")
    compiled = variant.compile(function)
    largest = 0.0
    compile_seconds: float | None = None
    for seed in range(CHECKS):
        inputs = workload.inputs(seed)
        if seed == 0:
            with empty_caches(folder):
                start = timing.clock()
                got = _outcome(workload, compiled, inputs)
                timing.synchronize()
                seconds = timing.clock() - start
            compile_seconds = None if compiled is function else seconds
        else:
            got = _outcome(workload, compiled, inputs)
        if wrong := reference.differs(seed, got):
            return Row(variant.name, "wrong", wrong, peer=variant.peer, compile_seconds=compile_seconds)
        largest = max(largest, reference.error(seed, got))

    def check(seed: int) -> str | None:
        return reference.differs(seed, _outcome(workload, compiled, workload.inputs(seed)))

    call = functools.partial(compiled, *workload.inputs(0))
    return Prepared(variant, call, compile_seconds, largest, check)


def first_call(reference: Reference, variant: Variant) -> tuple[Workload, list[Tensor]]:
    """Compile and call with the first arguments, whatever the caches have; what was compiled, and the outcome."""
    workload = reference.build()
    compiled = variant.compile(own_code(workload.function, f"{reference.case.name}_{variant.name}"))
    return workload, _outcome(workload, compiled, workload.inputs(0))


def own_code(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    """The function, or the module, with a code object that nothing else has."""
    if not isinstance(function, nn.Module):
        assert isinstance(function, types.FunctionType)
        return _copy(function, name)
    # The class of this one module is replaced: torch.compile then sees a module, as it does at the user's.
    kind = type(function)
    forward: Any = kind.forward
    function.__class__ = type(kind.__name__, (kind,), {"forward": _copy(forward, name), "__module__": kind.__module__})
    return function


def _copy(function: types.FunctionType, name: str) -> types.FunctionType:
    # Code objects are compared by content in places; the name makes them differ.
    code = function.__code__.replace(co_name=re.sub(r"\W", "_", name))
    copied = types.FunctionType(code, function.__globals__, code.co_name, function.__defaults__, function.__closure__)
    copied.__kwdefaults__ = function.__kwdefaults__
    return copied


@contextlib.contextmanager
def empty_caches(folder: str) -> Iterator[None]:
    """A context in which Inductor and the native engine find nothing that was compiled before, on disk or in memory.

    Args:
        folder: Where the new cache is made. It stays until the caller removes it.
    """
    # Private, but there is no other way to forget what is in memory. torch 2.6 to 2.13 have this name.
    from torch._inductor.utils import fresh_inductor_cache

    name = "TORCHAIR_CACHE_HOME"
    before = os.environ.get(name)
    os.environ[name] = tempfile.mkdtemp(dir=folder)
    native: Any = importlib.import_module("torchair.native.library")
    native._known.clear()
    try:
        with fresh_inductor_cache(dir=folder, delete=False):
            yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


def _outcome(workload: Workload, call: Callable[..., Any], inputs: tuple[Any, ...]) -> list[Tensor]:
    """Copies of all tensors that a call returned or may have written: outputs, arguments, buffers of the module."""
    outputs = call(*inputs)
    found = [*_tensors(outputs if isinstance(outputs, (tuple, list)) else (outputs,)), *_tensors(inputs)]
    if isinstance(workload.function, nn.Module):
        found += workload.function.buffers()
    return [tensor.detach().clone() for tensor in found]


def _work(workload: Workload) -> Work:
    """Bytes of arguments, weights, buffers and results; operations of matrix products and convolutions."""
    inputs = workload.inputs(0)
    with FlopCounterMode(display=False) as counter:
        outputs = workload.function(*inputs)
    tensors = [*_tensors(outputs if isinstance(outputs, (tuple, list)) else (outputs,)), *_tensors(inputs)]
    if isinstance(workload.function, nn.Module):
        tensors += [*workload.function.parameters(), *workload.function.buffers()]
    unique = {tensor.data_ptr(): tensor for tensor in tensors}
    return Work(sum(map(size_of, unique.values())) - workload.untouched, counter.get_total_flops())


def size_of(tensor: Tensor) -> int:
    """Bytes."""
    return tensor.numel() * tensor.element_size()


def _tensors(values: Iterable[Any]) -> list[Tensor]:
    return [value for value in values if isinstance(value, Tensor)]


def _row(variant: Variant, status: Any, reason: str) -> Row:
    return Row(variant.name, status, reason, peer=variant.peer)


def _unavailable_feature() -> type[Exception]:
    from torchair.errors import UnavailableFeatureError

    return UnavailableFeatureError


def first_line(error: BaseException) -> str:
    """The first line of an error, with file names instead of paths: results are published."""
    lines = str(error).strip().splitlines()
    return re.sub(r"(?<!\w)(?:/[\w.+-]+)+/(?=[\w.+-])", "", lines[0]) if lines else ""
