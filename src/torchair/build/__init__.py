"""C++ sources to loadable libraries: the compiler, a cache on disk, a lock between processes. Knows no torch types."""

from torchair.build.compiler import Compiler, find_compiler
from torchair.build.diagnostics import Diagnostic, read_diagnostics
from torchair.build.library import build_library, cache_root
from torchair.build.ninja import FailedStep, NinjaRun, Step, find_ninja, run_ninja
from torchair.build.progress_line import progress

__all__ = [
    "Compiler",
    "Diagnostic",
    "FailedStep",
    "NinjaRun",
    "Step",
    "build_library",
    "cache_root",
    "find_compiler",
    "find_ninja",
    "progress",
    "read_diagnostics",
    "run_ninja",
]
