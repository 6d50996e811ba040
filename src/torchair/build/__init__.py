"""C++ sources to loadable libraries: the compiler, a cache on disk, a lock between processes. Knows no torch types."""

from torchair.build.compiler import Compiler, find_compiler
from torchair.build.library import build_library, cache_root

__all__ = ["Compiler", "build_library", "cache_root", "find_compiler"]
