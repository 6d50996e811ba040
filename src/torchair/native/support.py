"""The C++ that generated kernels stand on: headers, vector mathematics and the program runner; built on first use.

The library is linked against the OpenMP library that torch loaded, so that there is one pool of threads, and against
libtorch_cpu, for the vector functions that torch's own kernels call (Sleef). Generated code includes no torch header.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import platform
import re
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from torchair import _torch_compat
from torchair.build import Compiler, build_library, find_compiler, progress
from torchair.config import Environment
from torchair.errors import BuildError, Rejection
from torchair.logs import get_logger

__all__ = ["Pace", "Stage", "Support", "load_support"]

_log = get_logger(__name__)
_NAME = "torchair_native_support"
_FOLDER = Path(__file__).parent
_lock = threading.Lock()
_loaded: Support | Rejection | None = None


class Stage(ctypes.Structure):
    """One step of a program; ``tair::Stage`` of program.h.

    Attributes:
        kernel: Address of a kernel.
        first_pointer, first_size: Where its pointers and sizes begin in the tables of the program.
        workers: At most this many take part; 0: all of them.
        barrier: 1: it begins after every worker has finished what stands before it.
    """

    _fields_ = [
        ("kernel", ctypes.c_void_p),
        ("first_pointer", ctypes.c_int32),
        ("first_size", ctypes.c_int32),
        ("workers", ctypes.c_int32),
        ("barrier", ctypes.c_int32),
    ]


class Times(ctypes.Structure):
    """The seconds that runs took lately; ``tair::Times`` of program.h.

    Attributes:
        last: The seconds, as a ring.
        count: How many runs there were.
    """

    _fields_ = [("last", ctypes.c_double * 5), ("count", ctypes.c_int64)]


class Pace(ctypes.Structure):
    """What is known of the times of a program; ``tair::Pace`` of program.h. New ones are zero.

    Attributes:
        all, one: Seconds a run, lately: on all workers, on one.
        alone_shortest: Seconds of the fastest run on one worker.
        next_trial, wait: When the other way is tried again; seconds between trials.
        runs: How many there were.
        trials: Runs of the current trial that are left.
        alone: Whether runs are on one worker now.
    """

    _fields_ = [
        *((name, Times) for name in ("all", "one")),
        *((name, ctypes.c_double) for name in ("alone_shortest", "next_trial", "wait")),
        *((name, ctypes.c_int64) for name in ("runs", "trials", "alone")),
    ]


@dataclass(frozen=True, slots=True, eq=False)
class Support:
    """The loaded support library, and what generated code is compiled with.

    Attributes:
        compiler: That built the library.
        library: The library's file; its symbols are global in this process.
        flags: Compile and link flags for generated sources: they become a shared library that uses this one.
        headers: What generated sources may include, as ``#include <torchair_native/math.h>``.
        facts: What else a compiled source depends on, for :func:`torchair.build.build_library`.
        handle: The library, for calls.
    """

    compiler: Compiler
    library: Path
    flags: tuple[str, ...]
    headers: tuple[Path, ...]
    facts: tuple[str, ...]
    handle: ctypes.CDLL

    @property
    def run_program_address(self) -> int:
        """Address of ``torchair_run_program``, for callers in C++."""
        return ctypes.cast(self.handle.torchair_run_program, ctypes.c_void_p).value or 0

    @property
    def run_paced_program_address(self) -> int:
        """Address of ``torchair_run_program_paced``: the same for programs that run often."""
        return ctypes.cast(self.handle.torchair_run_program_paced, ctypes.c_void_p).value or 0

    def run_program(
        self,
        stages: Sequence[Stage],
        pointers: Sequence[int],
        sizes: Sequence[int],
        workers: int,
        pace: Pace | None = None,
    ) -> int:
        """Run a program once. For tests and tools: engines keep the tables and call the address.

        Args:
            pace: What is known of its times, where it chooses between all workers and one; None: all workers.

        Returns:
            How many threads ran it.
        """
        tables = (
            (Stage * len(stages))(*stages),
            len(stages),
            (ctypes.c_void_p * len(pointers))(*pointers),
            (ctypes.c_int64 * len(sizes))(*sizes),
        )
        if pace is not None:
            return int(self.handle.torchair_run_program_paced(*tables, workers, ctypes.byref(pace)))
        return int(self.handle.torchair_run_program(*tables, workers))


def load_support() -> Support | Rejection:
    """The support library, built if need be; or why there is none on this machine."""
    global _loaded  # noqa: PLW0603  one library for the process
    with _lock:
        if _loaded is None:
            try:
                _loaded = _load()
            except (BuildError, OSError) as error:
                _loaded = Rejection(f"the support library of native code cannot be built or loaded: {error}")
    return _loaded


def _load() -> Support | Rejection:
    environment = Environment.read()
    compiler = find_compiler(environment.cxx)
    if isinstance(compiler, Rejection):
        return compiler
    torch_cpu = _torch_library()
    common = (
        "-std=c++17",
        "-O3",
        *_machine_flags(),
        # As eager mode computes: no errno, no traps to preserve, nothing fused that the source does not ask for.
        "-fno-math-errno",
        "-fno-trapping-math",
        "-ffp-contract=off",
        # Calls stay before a condition that selects their result: under one, they would not be vectorized.
        "-fno-tree-sink",
        "-fPIC",
        "-shared",
        "-fvisibility=hidden",
        *_vector_flags(torch_cpu),
    )
    openmp = _openmp_library(torch_cpu)
    if openmp is None:
        _log.info(
            "torch's OpenMP library is none that %s can use: native programs run on one thread", compiler.command[0]
        )
    headers = tuple(sorted((_FOLDER / "include" / "torchair_native").glob("*.h")))
    facts = (*_torch_compat.extension_facts(), *_cpu_facts())
    with progress("vector functions, once on this machine"):
        library = build_library(
            _NAME,
            sorted((_FOLDER / "csrc").glob("*.cpp")),
            compiler,
            [
                *common,
                f"-Wl,-soname,{_NAME}.so",  # what generated libraries ask for; it is loaded before them
                *_link_flags(torch_cpu),
                # torch's library comes first; the compiler's own, of the same interface, is then left out.
                *(() if openmp is None else ("-fopenmp", "-Wl,--as-needed", *_link_flags(openmp))),
            ],
            headers=headers,
            facts=facts,
            cache_home=environment.cache_home,
        )
    handle = ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL)
    arguments = (ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)
    handle.torchair_run_program.argtypes = arguments
    handle.torchair_run_program.restype = ctypes.c_int64
    handle.torchair_run_program_paced.argtypes = (*arguments, ctypes.POINTER(Pace))
    handle.torchair_run_program_paced.restype = ctypes.c_int64
    return Support(
        compiler=compiler,
        library=library,
        flags=(*common, "-fopenmp-simd", f"-I{_FOLDER / 'include'}", str(library)),
        headers=headers,
        facts=(*facts, library.parent.name),
        handle=handle,
    )


def _torch_library() -> Path:
    """The library that holds ATen's kernels."""
    suffix = "dylib" if platform.system() == "Darwin" else "so"
    return Path(torch.__file__).parent / "lib" / f"libtorch_cpu.{suffix}"


def _link_flags(library: Path) -> tuple[str, str]:
    return str(library), f"-Wl,-rpath,{library.parent}"


def _is_x86() -> bool:
    return platform.machine().lower() in ("x86_64", "amd64")


def _machine_flags() -> tuple[str, ...]:
    """Flags for the CPU this process runs on."""
    if not _is_x86():
        return ("-mcpu=native",)
    wide = "AVX512" in torch.backends.cpu.get_cpu_capability()
    # Without AVX512-FP16: GCC 12 writes masked moves of it that no assembler takes. Arithmetic is in float anyway.
    return ("-march=native", "-mprefer-vector-width=512", "-mno-avx512fp16") if wide else ("-march=native",)


@functools.cache
def _cpu_facts() -> tuple[str, ...]:
    """What the code for this CPU depends on: a cache folder may be shared by several machines."""
    facts = [platform.system(), platform.machine(), torch.backends.cpu.get_cpu_capability()]
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        text = platform.processor()
    # Model and instruction sets of the first CPU (x86: flags, Arm: Features).
    lines = re.findall(r"(?m)^(?:model name|model|cpu family|flags|Features|CPU part)\s*:.*$", text.split("\n\n")[0])
    facts.append(hashlib.sha256("\n".join(lines or [text]).encode()).hexdigest())
    return tuple(facts)


def _vector_flags(torch_cpu: Path) -> tuple[str, ...]:
    """Which vector functions there are: see math.h. Without any, its functions are those of the C library."""
    if not _is_x86() or not {"AVX2", "AVX512"} & {torch.backends.cpu.get_cpu_capability()}:
        return ()
    library = ctypes.CDLL(str(torch_cpu))
    missing = [
        name for name, symbols in _sleef_symbols().items() if not all(hasattr(library, symbol) for symbol in symbols)
    ]
    if missing:
        _log.info("torch exports no vector versions of %s", ", ".join(missing))
    return ("-DTAIR_SLEEF", *(f"-DTAIR_SCALAR_{name}=1" for name in missing))


def _sleef_symbols() -> dict[str, tuple[str, str]]:
    """The functions of math.h: name to its 256- and 512-bit versions in Sleef."""
    text = (_FOLDER / "include" / "torchair_native" / "math.h").read_text(encoding="utf-8")
    symbols = {}
    # The lists there: f(name, accuracy of the float version, of the double version).
    for name, *accuracies in re.findall(r"\b(?:f|unary|binary)\((\w+), (u\d+)?, ?(u\d+)?\)?", text):
        for_float, for_double = (f"_{accuracy}" if accuracy else "" for accuracy in accuracies)
        symbols[f"{name}f"] = (f"Sleef_{name}f8{for_float}", f"Sleef_{name}f16{for_float}")
        symbols[name] = (f"Sleef_{name}d4{for_double}", f"Sleef_{name}d8{for_double}")
    return symbols


class _SymbolInfo(ctypes.Structure):
    """``Dl_info`` of dlfcn.h."""

    _fields_ = [
        ("file", ctypes.c_char_p),
        ("base", ctypes.c_void_p),
        ("symbol", ctypes.c_char_p),
        ("address", ctypes.c_void_p),
    ]


def _openmp_library(user: Path) -> Path | None:
    """The library whose threads a library uses, if it has the interface that GCC compiles OpenMP to."""
    try:
        entry = ctypes.cast(ctypes.CDLL(str(user)).GOMP_parallel, ctypes.c_void_p)
        find_symbol = ctypes.CDLL(None).dladdr
    except (AttributeError, OSError):
        return None
    info = _SymbolInfo()
    if not find_symbol(entry, ctypes.byref(info)) or not info.file:
        return None
    return Path(info.file.decode())
