"""Kernels -> machine code. Equal functions are compiled once: in a process, and, by their text, on the machine."""

from __future__ import annotations

import ctypes
import hashlib
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from torchair.build import build_library, cache_root, progress
from torchair.config import Environment
from torchair.errors import BuildError, Rejection
from torchair.native.emit import Kernel
from torchair.native.support import Support, load_support

__all__ = ["addresses"]

#: Functions in one source file; files are compiled at the same time.
_PER_FILE = 12
_WORKERS = 2

_lock = threading.Lock()
_known: dict[str, int] = {}
_libraries: list[ctypes.CDLL] = []


@dataclass(frozen=True, slots=True)
class _Source:
    """One source file.

    Attributes:
        bodies: Of its functions, ``k0`` and so on.
        text: All of it.
    """

    bodies: tuple[str, ...]
    text: str


def addresses(kernels: Sequence[Kernel]) -> list[int]:
    """The address of each kernel's function; those that are new are compiled.

    Raises:
        BuildError: There is no compiler, or one of the functions does not compile or cannot be loaded.
    """
    support = load_support()
    if isinstance(support, Rejection):
        raise BuildError("Native code cannot be compiled on this machine", why=support.reason)
    with _lock:
        comments = {k.body: k.comment for k in reversed(kernels) if k.body not in _known}
        new = list(dict.fromkeys(k.body for k in kernels if k.body in comments))
        files = [_source(new[i : i + _PER_FILE], comments) for i in range(0, len(new), _PER_FILE)]
        if files:
            with progress(f"{len(new)} native functions"), ThreadPoolExecutor(_WORKERS) as pool:
                for source, library in zip(files, pool.map(lambda s: _build(s, support), files), strict=True):
                    handle = _loaded(library)
                    _libraries.append(handle)
                    for i, body in enumerate(source.bodies):
                        _known[body] = ctypes.cast(getattr(handle, f"k{i}"), ctypes.c_void_p).value or 0
        return [_known[k.body] for k in kernels]


def _loaded(library: Path) -> ctypes.CDLL:
    try:
        return ctypes.CDLL(str(library))
    except OSError as error:
        raise BuildError("Native code cannot be loaded", why=str(error)) from error


def _source(bodies: Sequence[str], comments: dict[str, tuple[str, ...]]) -> _Source:
    functions = []
    for i, body in enumerate(bodies):
        comment = "".join(f"// {line}\n" for line in comments[body])
        functions.append(
            f'{comment}extern "C" __attribute__((visibility("default"))) void k{i}(\n'
            "    void* const* p, const int64_t* s, int64_t worker, int64_t workers) {\n"
            f"{body}\n}}\n"
        )
    headers = ["scalars", "math", "program"]
    text = "\n".join(functions)
    used = (("matvec", "tair::dot_"), ("attention", "tair::attention"), ("reductions", "_over<"))
    headers += [h for h, name in used if name in text]
    includes = "".join(f"#include <torchair_native/{h}.h>\n" for h in headers)
    return _Source(tuple(bodies), f"{includes}\n{text}")


def _without_comments(text: str) -> str:
    return "\n".join(line for line in text.splitlines() if not line.startswith("//"))


def _build(source: _Source, support: Support) -> Path:
    # What the comments say is not part of what is compiled.
    code = _without_comments(source.text)
    digest = hashlib.sha256("\0".join((code, *support.flags, *support.facts)).encode()).hexdigest()[:24]
    home = Environment.read().cache_home
    path = cache_root(home) / "native" / f"kernels_{digest}.cpp"
    path.parent.mkdir(mode=0o700, exist_ok=True)
    # A machine that went down may have left half of it.
    if not path.exists() or _without_comments(path.read_text(encoding="utf-8", errors="replace")) != code:
        scratch = path.with_suffix(f".{threading.get_ident()}")
        scratch.write_text(source.text, encoding="utf-8")
        scratch.replace(path)
    return build_library(
        f"kernels_{digest}",
        [path],
        support.compiler,
        support.flags,
        headers=support.headers,
        facts=support.facts,
        cache_home=home,
    )
