"""Find the C++ compiler of this machine and run it."""

from __future__ import annotations

import functools
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from torchair.errors import BuildError, Rejection

__all__ = ["Compiler", "find_compiler"]

_CANDIDATES = ("c++", "g++", "clang++")


@dataclass(frozen=True, slots=True)
class Compiler:
    """A C++ compiler.

    Attributes:
        command: How it is called: the program, and what the variable ``CXX`` adds to it.
        identity: What it says about its version; part of cache keys.
    """

    command: tuple[str, ...]
    identity: str

    def compile(self, sources: Sequence[Path], output: Path, flags: Sequence[str]) -> None:
        """Compile and link sources to a shared library.

        Raises:
            BuildError: With the messages of the compiler.
        """
        call = [*self.command, *(str(s) for s in sources), "-o", str(output), *flags]
        ran = subprocess.run(call, capture_output=True, text=True, check=False)
        if ran.returncode != 0:
            raise BuildError(
                "A C++ source does not compile",
                why=[f"{self.command[0]} ended with {ran.returncode}", *ran.stderr.splitlines()[:40]],
                fix=f"The call was:\n{shlex.join(call)}",
            )


@functools.cache
def find_compiler(chosen: str = "") -> Compiler | Rejection:
    """The first usual compiler that runs; or why there is none.

    Args:
        chosen: The command to use instead, as the variable ``CXX`` says it; empty where it says nothing.
    """
    commands = [tuple(shlex.split(chosen))] if chosen.strip() else [(name,) for name in _CANDIDATES]
    for command in commands:
        if shutil.which(command[0]) is None:
            continue
        try:
            ran = subprocess.run([*command, "--version"], capture_output=True, text=True, check=False, timeout=60)
        except (OSError, subprocess.TimeoutExpired):
            continue
        if ran.returncode == 0:
            return Compiler(command, ran.stdout.strip())
    tried = " ".join(commands[0]) if chosen.strip() else ", ".join(_CANDIDATES)
    return Rejection(
        f"no C++ compiler runs on this machine (tried: {tried})",
        "Install one (Debian: apt install g++; Fedora: dnf install gcc-c++; macOS: xcode-select --install),\n"
        "or name one: CXX=/path/to/c++",
    )
