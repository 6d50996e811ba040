"""Build and load ``plan.cpp``, on first use."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import threading
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

from torchair import _torch_compat
from torchair.build import Compiler, build_library, find_compiler, progress
from torchair.config import Environment
from torchair.errors import BuildError, Rejection
from torchair.logs import get_logger, warn_once

__all__ = ["load_extension"]

_log = get_logger(__name__)
_NAME = "torchair_plan"
_lock = threading.Lock()
_loaded: ModuleType | Rejection | None = None


def load_extension() -> ModuleType | Rejection:
    """The C++ runtime; or, warned about once, why plans are replayed from Python instead."""
    global _loaded  # noqa: PLW0603  one library for the process
    with _lock:
        if _loaded is None:
            _loaded = _load()
            if isinstance(_loaded, Rejection):
                warn_once(f"Captured graphs are replayed from Python, which is slower: {_loaded.reason}\n{_loaded.fix}")
    return _loaded


def _load() -> ModuleType | Rejection:
    environment = Environment.read()
    compiler = find_compiler(environment.cxx)
    if isinstance(compiler, Rejection):
        return compiler
    flags = [
        "-std=c++17",
        "-O2",
        "-fPIC",
        "-shared",
        "-fvisibility=hidden",
        "-ffp-contract=off",  # the results are to be those of eager mode
        f"-DTORCH_EXTENSION_NAME={_NAME}",
        *_torch_compat.extension_flags(),
    ]
    found = _build(compiler, [*flags, *_torch_compat.kernel_flags()], environment.cache_home)
    if isinstance(found, Rejection):
        _log.info("ATen's kernels cannot be called directly: %s", found.reason)
        found = _build(compiler, [*flags, "-DTORCHAIR_WITHOUT_KERNELS"], environment.cache_home)
    return found


def _build(compiler: Compiler, flags: Sequence[str], cache_home: str | None) -> ModuleType | Rejection:
    try:
        return _load_library(compiler, flags, cache_home)
    except (BuildError, ImportError) as error:
        return Rejection(f"the C++ runtime cannot be built or loaded: {error}")


def _load_library(compiler: Compiler, flags: Sequence[str], cache_home: str | None) -> ModuleType:
    facts = _torch_compat.extension_facts()
    folder = Path(__file__).parent
    with progress("the runtime, once on this machine"):
        library = build_library(
            _NAME,
            [folder / "plan.cpp"],
            compiler,
            flags,
            headers=sorted(folder.glob("*.h")),
            facts=facts,
            cache_home=cache_home,
        )
    loader = importlib.machinery.ExtensionFileLoader(_NAME, str(library))
    spec = importlib.util.spec_from_file_location(_NAME, library, loader=loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module
