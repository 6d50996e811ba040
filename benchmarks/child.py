"""One variant of one case in a process of its own; the result is a line of JSON. ``benchmarks.start`` starts it.

Usage: ``python -m benchmarks.child CASE VARIANT [--layers N]``. CASE ``nothing`` is a trivial function: what is built
once a machine is built then. With layers, CASE must be ``decode``, which then has that many.
"""

from __future__ import annotations

import argparse
import functools
import json
import resource
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from benchmarks.cases import CASES
from benchmarks.harness import Case, Reference, Unavailable, Variant, Workload, first_call, first_line
from benchmarks.models import build_decode
from benchmarks.variants import VARIANTS

__all__ = ["main", "run"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Print what was found."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.child")
    parser.add_argument("case", choices=["nothing", *CASES])
    parser.add_argument("variant", choices=list(VARIANTS))
    parser.add_argument("--layers", type=int)
    parser.add_argument("--threads", type=int)
    given = parser.parse_args(arguments)
    if given.threads:
        torch.set_num_threads(given.threads)
    case = Case("nothing", "", _nothing) if given.case == "nothing" else CASES[given.case]
    if given.layers:
        case = Case("decode", "", functools.partial(build_decode, layers=given.layers), atol=case.atol)
    print(json.dumps(run(case, VARIANTS[given.variant])))
    return 0


def run(case: Case, variant: Variant) -> dict[str, Any]:
    """Compile and call once, compare with eager.

    Returns:
        ``status`` and ``reason`` as in a row of the results; if it is right, ``seconds`` of the first call,
        ``backend_seconds`` of it (without Dynamo and AOTAutograd; None where that is not known), and ``peak_bytes``
        of this process.
    """
    device = torch.device("cpu")
    try:
        case.require()
        variant.require(device)
    except Unavailable as missing:
        return {"status": "not available", "reason": str(missing)}
    with torch.no_grad():
        reference = Reference(case, device, checks=1)
        phases = _Phases()
        try:
            started = time.perf_counter()
            workload, got = first_call(reference, variant)
            ended = time.perf_counter()
        except Exception as error:  # noqa: BLE001 (the parent reports it)
            cause = getattr(error, "inner_exception", None) or error
            status = "not available" if isinstance(cause, Unavailable) else "failed"
            return {"status": status, "reason": f"{type(cause).__name__}: {first_line(cause)}"}
        finally:
            phases.close()
        del workload
        if wrong := reference.differs(0, got):
            return {"status": "wrong", "reason": wrong}
    return {
        "status": "ok",
        "reason": "",
        "seconds": ended - started,
        "backend_seconds": phases.backend(ended),
        "peak_bytes": _peak_bytes(),
    }


class _Phases:
    """What the first call does in the backend: compiling, and the first run after Dynamo is done."""

    def __init__(self) -> None:
        self._ours: list[float] = []
        self._ends: list[float] = []
        from torch._dynamo import callback

        self._callbacks = callback.callback_handler
        self._callbacks.register_end_callback(self._end)
        from torchair.pipeline import backends

        self._backends = backends
        self._compile = backends._compile
        backends._compile = self._timed(backends._compile)

    def close(self) -> None:
        """Take no more notice."""
        self._backends._compile = self._compile
        self._callbacks.remove_end_callback(self._end)

    def _end(self, *_: Any) -> None:
        self._ends.append(time.perf_counter())

    def _timed(self, compile_: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(compile_)
        def timed(*args: Any, **kwargs: Any) -> Any:
            started = time.perf_counter()
            try:
                return compile_(*args, **kwargs)
            finally:
                self._ours.append(time.perf_counter() - started)

        return timed

    def backend(self, ended: float) -> float | None:
        from torch._dynamo.utils import compilation_time_metrics

        inner = self._ours or compilation_time_metrics.get("compile_fx.<locals>.fw_compiler_base", [])
        return sum(inner) + ended - self._ends[-1] if inner and self._ends else None


def _peak_bytes() -> int:
    # The kernel's count of a process; that of getrusage begins with what the parent had.
    status = Path("/proc/self/status")
    if status.exists():
        for line in status.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return 1024 * int(line.split()[1])
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return used if sys.platform == "darwin" else 1024 * used


def _nothing(device: torch.device) -> Workload:
    return Workload(_twice, lambda seed: (torch.full((3,), float(seed), device=device),))


def _twice(x: torch.Tensor) -> torch.Tensor:
    return x * 2


if __name__ == "__main__":
    sys.exit(main())
