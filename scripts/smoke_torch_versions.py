"""Run the smoke tests on each supported minor version of torch, each in a virtual environment of its own.

Usage: ``python scripts/smoke_torch_versions.py [--versions 2.6 2.13] [--cpu-only] [--keep DIR]``

One environment at a time: it is made, torch and this checkout are installed with pip as it is configured,
``tests/smoke`` runs, the environment is removed. What pip finds for Linux may be the CUDA build, which also runs
without a GPU but takes several GB; ``--cpu-only`` leaves such versions out, and a version is left out when the disk has
too little room. A table of results closes the output; the exit status is 1 when a version failed or none ran.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
SUPPORTED = tuple(f"2.{minor}" for minor in range(6, 14))
TOOLS = ("pytest>=8.2", "pytest-timeout", "hypothesis")
#: Room on disk that an environment and pip's copies while it installs need, in bytes.
CUDA_ROOM, CPU_ROOM = 16 * 10**9, 3 * 10**9


@dataclass(frozen=True, slots=True)
class Result:
    """What came of one version.

    Attributes:
        minor: As asked for, ``"2.6"``.
        installed: ``torch.__version__``, empty when it was not installed.
        status: ``"pass"``, ``"fail"`` or ``"not run"``.
        remark: pytest's closing line, or why it was not run.
        seconds: Time of the tests alone.
    """

    minor: str
    installed: str
    status: str
    remark: str
    seconds: float = 0.0


def run(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Run ``command`` in the repository and capture what it prints, stderr included."""
    return subprocess.run(
        command, check=False, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=REPOSITORY
    )


def last_line(output: str, pattern: str = r"\S") -> str:
    """The last line of ``output`` that matches ``pattern``; empty if there is none."""
    return next((line.strip() for line in reversed(output.splitlines()) if re.search(pattern, line)), "")


def is_cuda_build(python: Path, requirement: str, report: Path) -> bool | None:
    """Whether pip would install a CUDA build for ``requirement``; None if pip finds none for this Python."""
    pip = [str(python), "-m", "pip", "install", "--quiet", "--dry-run", "--no-cache-dir"]
    if run([*pip, "--report", str(report), requirement]).returncode != 0:
        return None
    names = [item["metadata"]["name"].lower() for item in json.loads(report.read_text(encoding="utf-8"))["install"]]
    return any(name.startswith(("nvidia-", "cuda-")) for name in names)


def smoke(minor: str, folder: Path, *, cpu_only: bool) -> Result:
    """Make an environment for torch ``minor`` in ``folder`` and run the smoke tests in it."""
    made = run([sys.executable, "-m", "venv", str(folder)])
    python = folder / "bin" / "python"
    if made.returncode != 0:
        return Result(minor, "", "not run", f"no virtual environment: {last_line(made.stdout)}")
    requirement = f"torch=={minor}.*"
    cuda = is_cuda_build(python, requirement, folder / "report.json")
    if cuda is None:
        return Result(
            minor, "", "not run", f"pip finds no torch {minor} for Python {sys.version_info[0]}.{sys.version_info[1]}"
        )
    if cuda and cpu_only:
        return Result(minor, "", "not run", "pip offers the CUDA build only (--cpu-only)")
    room, free = (CUDA_ROOM if cuda else CPU_ROOM), shutil.disk_usage(folder).free
    if free < room:
        return Result(minor, "", "not run", f"{free / 1e9:.0f} GB free on disk, {room / 1e9:.0f} GB needed")
    pip = [str(python), "-m", "pip", "install", "--quiet", "--no-cache-dir"]
    installed = run([*pip, requirement, *TOOLS, "-e", str(REPOSITORY)])
    if installed.returncode != 0:
        return Result(minor, "", "fail", f"not installed: {last_line(installed.stdout)}")
    version = last_line(run([str(python), "-c", "import torch; print(torch.__version__)"]).stdout)
    start = time.monotonic()
    tests = run([str(python), "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/smoke"])
    seconds = time.monotonic() - start
    if tests.returncode != 0:
        print(tests.stdout)
    summary = last_line(tests.stdout, r"\d+ (passed|failed|error)").strip("= ")
    status = "pass" if tests.returncode == 0 else "fail"
    return Result(minor, version, status, summary or last_line(tests.stdout), seconds)


def table(results: Sequence[Result]) -> str:
    """``results`` as a Markdown table."""
    rows = [("torch", "installed", "status", "result", "seconds")]
    rows += [(r.minor, r.installed or "-", r.status, r.remark, f"{r.seconds:.0f}") for r in results]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |" for row in rows
    ]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(lines)


def main(arguments: Sequence[str]) -> int:
    """Run the versions asked for; the exit status."""
    parser = argparse.ArgumentParser(description="Run the smoke tests on each supported minor version of torch.")
    parser.add_argument("--versions", nargs="+", default=SUPPORTED, metavar="2.N", help="default: all supported")
    parser.add_argument("--cpu-only", action="store_true", help="leave out versions that pip offers as CUDA builds")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="make the environments in DIR and keep them")
    options = parser.parse_args(arguments)
    results = []
    for minor in options.versions:
        print(f"torch {minor} ...", flush=True)
        with tempfile.TemporaryDirectory(prefix="torch-smoke-") as scratch:
            folder = (options.keep or Path(scratch)) / f"torch-{minor}"
            results.append(smoke(minor, folder, cpu_only=options.cpu_only))
        print(f"  {results[-1].status}: {results[-1].remark}", flush=True)
    print(f"\n{table(results)}")
    statuses = {result.status for result in results}
    return 1 if "fail" in statuses or "pass" not in statuses else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
