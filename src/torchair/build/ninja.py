"""Run ninja over steps that each make one file: only what changed is made again; a failure does not stop the rest."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from torchair.errors import BuildError, Rejection

__all__ = ["FailedStep", "NinjaRun", "Step", "find_ninja", "run_ninja"]

#: Begins each of ninja's own lines; no compiler writes this character.
_MARK = "\x1e"


@dataclass(frozen=True, slots=True)
class Step:
    """One file and the command that makes it. Paths are relative to the folder that ninja runs in, or absolute.

    Attributes:
        output: The file.
        inputs: What it is made from.
        command: The program and its arguments.
        depfile: Where the command lists further files that it read, as makefiles do; None if it does not.
        also: What it depends on besides.
    """

    output: str
    inputs: tuple[str, ...]
    command: tuple[str, ...]
    depfile: str | None = None
    also: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FailedStep:
    """A step whose command failed.

    Attributes:
        output: The file that was not made.
        text: What the command wrote.
    """

    output: str
    text: str


@dataclass(frozen=True, slots=True)
class NinjaRun:
    """What became of the steps.

    Attributes:
        made: The files that were made; what was up to date is not among them.
        failed: The steps that failed.
        text: All that was written, warnings of compilers too.
    """

    made: tuple[str, ...]
    failed: tuple[FailedStep, ...]
    text: str


def find_ninja() -> str | Rejection:
    """The program: beside this Python, where ``pip install ninja`` puts it, else on the search path."""
    beside = shutil.which("ninja", path=str(Path(sys.executable).parent))
    found = beside or shutil.which("ninja") or shutil.which("ninja-build")
    return found or Rejection("ninja is not installed", "pip install ninja")


def run_ninja(
    ninja: str, folder: Path, build_folder: str, steps: Sequence[Step], *, jobs: int | None = None
) -> NinjaRun:
    """Make what is not up to date.

    Args:
        ninja: The program.
        folder: Where it runs.
        build_folder: For its own files, below ``folder``; exists.
        jobs: How many commands run at a time; by default one for each core.

    Raises:
        BuildError: A path cannot be written into ninja's file, or ninja itself fails.
    """
    script = Path(folder, build_folder, "build.ninja")
    text = _script(build_folder, steps)
    if not script.is_file() or script.read_text(encoding="utf-8") != text:
        script.write_text(text, encoding="utf-8")
    # Messages in English and without colors, since they are read.
    call = ["env", "-u", "GCC_COLORS", "LC_ALL=C", f"NINJA_STATUS={_MARK}"]
    call += [ninja, "-f", f"{build_folder}/build.ninja", "-k", "0", "-j", str(jobs or len(os.sched_getaffinity(0)))]
    ran = subprocess.run(
        call, cwd=folder, capture_output=True, text=True, encoding="utf-8", errors="replace", check=False
    )
    result = _read(ran.stdout, steps)
    if ran.returncode != 0 and not result.failed:
        raise BuildError(
            "ninja failed",
            why=[f"{ninja} ended with {ran.returncode}", *(ran.stdout + ran.stderr).replace(_MARK, "").splitlines()],
            fix=f"Remove the folder {script.parent} and build again.",
        )
    return result


def _script(build_folder: str, steps: Sequence[Step]) -> str:
    lines = [
        f"builddir = {_escaped(build_folder)}",
        "rule run",
        "  command = $call",
        "  description = $number",
        "rule run_with_depfile",
        "  command = $call",
        "  description = $number",
        "  depfile = $reads",
        "  deps = gcc",
    ]
    for number, step in enumerate(steps):
        rule = "run" if step.depfile is None else "run_with_depfile"
        also = " | " + " ".join(map(_escaped, step.also)) if step.also else ""
        lines.append(f"build {_escaped(step.output)}: {rule} {' '.join(map(_escaped, step.inputs))}{also}")
        lines.append(f"  call = {_one_line(shlex.join(step.command)).replace('$', '$$')}")
        lines.append(f"  number = {number}")
        if step.depfile is not None:
            lines.append(f"  reads = {_one_line(step.depfile).replace('$', '$$')}")
    return "\n".join(lines) + "\n"


def _escaped(path: str) -> str:
    """A path as ninja reads it."""
    return _one_line(path).replace("$", "$$").replace(" ", "$ ").replace(":", "$:").replace("|", "$|")


def _one_line(text: str) -> str:
    if not text.isprintable():
        raise BuildError("A path cannot be used in a build", why=f"{text!r} has characters that are not printable")
    return text


def _read(text: str, steps: Sequence[Step]) -> NinjaRun:
    """Take ninja's output apart: a line of its own for each step, then what the command wrote."""
    outputs = {str(number): step.output for number, step in enumerate(steps)}
    made, failed, shown = [], [], []
    for part in text.split(_MARK)[1:]:
        head, _, rest = part.partition("\n")
        output = outputs.get(head)
        if output is None:
            continue
        if not rest.startswith("FAILED: "):
            made.append(output)
            shown.append(rest)
            continue
        _, _, rest = rest.partition("\n")  # FAILED: and the name
        _, _, rest = rest.partition("\n")  # the command
        rest = "\n".join(line for line in rest.splitlines() if not line.startswith("ninja: "))
        failed.append(FailedStep(output, rest))
        shown.append(rest)
    order = {step.output: number for number, step in enumerate(steps)}
    failed.sort(key=lambda step: order[step.output])  # whichever of them ended first
    return NinjaRun(tuple(made), tuple(failed), "\n".join(filter(str.strip, shown)))
