"""Starts in fresh processes: cold and warm first calls, peak memory, and how compiling grows with the number of layers.

A cold start has caches with nothing in them but what is built once a machine (our extension, Inductor's precompiled
headers): a trivial function was compiled with that variant before, in a process of its own.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.harness import Variant, progress
from benchmarks.results import CaseResult, Start, Table

__all__ = ["Caches", "child", "compile_scaling", "start_once", "with_starts"]

#: A start that takes longer has failed.
LIMIT_SECONDS = 900

#: Numbers of layers in the table of compile times.
LAYERS = (2, 4, 8, 16, 32)


class Caches:
    """Cache folders for child processes.

    Attributes:
        once: What the first trivial compile of a variant took, by name: it builds what is built once a machine.
    """

    def __init__(self, root: Path, threads: int | None = None) -> None:
        self._root = root
        self._threads = threads
        self.once: dict[str, dict[str, Any]] = {}

    @property
    def folder(self) -> Path:
        """Where the child's caches are: always the same path, since some compilers write it into what they make."""
        return self._root / "now"

    def prepare(self, variant: Variant) -> None:
        """Leave in the folder what is built once a machine, and nothing else."""
        kept = self._root / variant.name
        shutil.rmtree(self.folder, ignore_errors=True)
        if variant.name not in self.once:
            self.folder.mkdir()
            self.once[variant.name] = self.run("nothing", variant)
            shutil.copytree(self.folder, kept)
        else:
            shutil.copytree(kept, self.folder)

    def run(self, case: str, variant: Variant, layers: int | None = None) -> dict[str, Any]:
        """Start a child that finds the folder as it is."""
        return child(case, variant, self.folder, layers=layers, threads=self._threads)

    @classmethod
    @contextlib.contextmanager
    def temporary(cls, threads: int | None = None) -> Iterator[Caches]:
        """Caches that are removed in the end."""
        with tempfile.TemporaryDirectory() as folder:
            yield cls(Path(folder), threads)


def child(
    case: str, variant: Variant, folder: Path, *, layers: int | None = None, threads: int | None = None
) -> dict[str, Any]:
    """What ``benchmarks.child`` says of a case; a process that dies or hangs is ``failed``."""
    environment = {
        **os.environ,
        "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor"),
        "TORCHAIR_CACHE_HOME": str(folder / "torchair"),
    }
    call = [sys.executable, "-m", "benchmarks.child", case, variant.name]
    call += ["--layers", str(layers)] if layers else []
    call += ["--threads", str(threads)] if threads else []
    try:
        ran = subprocess.run(
            call,
            env=environment,
            cwd=Path(__file__).parents[1],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            timeout=LIMIT_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return {"status": "failed", "reason": f"took longer than {LIMIT_SECONDS} s"}
    if ran.returncode < 0:
        return {"status": "failed", "reason": f"the process ended with {signal.Signals(-ran.returncode).name}"}
    try:
        found: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
    except (IndexError, ValueError):
        return {"status": "failed", "reason": f"the process ended with {ran.returncode} and no result"}
    return found


def with_starts(results: Iterable[CaseResult], variants: Sequence[Variant], caches: Caches) -> list[CaseResult]:
    """The results with starts of all rows that were timed; a case under load has none of its own."""
    by_name = {variant.name: variant for variant in variants}
    finished = []
    for result in results:
        rows = [
            replace(row, start=_start(result.case, by_name[row.variant], caches))
            if row.times and not result.loaded
            else row
            for row in result.rows
        ]
        finished.append(replace(result, rows=tuple(rows)))
    return finished


def _start(case: str, variant: Variant, caches: Caches) -> Start | str:
    progress(f"{case}: starting {variant.name}")
    caches.prepare(variant)
    cold, warm = (caches.run(case, variant) for _ in range(2))
    for found in (cold, warm):
        if found["status"] != "ok":
            return f"{found['status']}: {found['reason']}"
    return Start(cold["seconds"], warm["seconds"], cold["peak_bytes"])


def start_once(caches: Caches) -> Table:
    """What the first compile on a machine takes, of a trivial function, by variant."""
    rows = [
        (name, found.get("seconds"), found["peak_bytes"] / 1e6 if "peak_bytes" in found else None, found["reason"])
        for name, found in caches.once.items()
    ]
    what = (
        "First call of x * 2 on a machine where nothing was compiled before, in a fresh process, imports included: "
        "it builds what all later compiles use."
    )
    failed = any(found["status"] in ("wrong", "failed") for found in caches.once.values())
    return Table("start_once", what, ("variant", "first call s", "peak MB", "remark"), tuple(rows), failed)


def compile_scaling(variants: Sequence[Variant], caches: Caches, layers: Sequence[int] = LAYERS) -> Table:
    """Compiling the decode step with 2 to 32 layers, cold, each in a fresh process."""
    columns = (
        "variant",
        "layers",
        "first call s",
        "without Dynamo and AOTAutograd s",
        "over fewest layers",
        "peak MB",
        "functions",
        "remark",
    )
    rows: list[tuple[str | float | None, ...]] = []
    failed = False
    for variant in variants:
        first: float | None = None
        for count in layers:
            progress(f"compile_scaling: {variant.name}, {count} layers")
            caches.prepare(variant)
            before = _functions(caches.folder)
            found = caches.run("decode", variant, count)
            if found["status"] != "ok":
                failed = failed or (not variant.peer and found["status"] != "not available")
                rows.append((variant.name, float(count), *[None] * 5, f"{found['status']}: {found['reason']}"))
                continue
            backend = found["backend_seconds"]
            first = first or backend
            made = _functions(caches.folder) - before
            rows.append(
                (
                    variant.name,
                    float(count),
                    found["seconds"],
                    backend,
                    backend / first if backend and first else None,
                    found["peak_bytes"] / 1e6,
                    float(made),
                    "",
                )
            )
    what = (
        "The decode step (d=256, ff=688) with more and more layers: first call in a fresh process with empty caches. "
        "Functions are those of the C++ sources that were compiled for it: layers that are equal can share them."
    )
    return Table("compile_scaling", what, columns, tuple(rows), failed)


def _functions(folder: Path) -> int:
    """Functions in the C++ sources below a folder that Inductor or the native engine wrote."""
    sources = [p for p in folder.rglob("*.cpp") if p.is_file()]
    return sum(len(re.findall(r'^\s*extern "C"[^;{]*\{', p.read_text(errors="replace"), re.MULTILINE)) for p in sources)
