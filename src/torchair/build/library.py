"""Libraries in a cache folder: built once, by one of the processes that want them, and then only loaded."""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
from collections.abc import Sequence
from pathlib import Path

from torchair.build.compiler import Compiler
from torchair.errors import BuildError
from torchair.logs import get_logger

__all__ = ["build_library", "cache_root"]

_log = get_logger(__name__)
#: Beside a library: the checksum of its file.
_CHECKSUM = "checksum"


def cache_root(chosen: str | None = None) -> Path:
    """The folder for built libraries.

    Args:
        chosen: The folder, as the variable ``TORCHAIR_CACHE_HOME`` says it; when omitted the user's cache folder, or,
            where that cannot be used, one of the user's in the folder for temporary files.

    Raises:
        BuildError: It cannot be made, or another user may write into it: a library from there would run as this user.
    """
    if chosen:
        return _checked(Path(chosen))
    import platformdirs

    try:
        return _checked(Path(platformdirs.user_cache_dir("torchair", appauthor=False)))
    except BuildError as error:
        # No home directory, or one that is only read: services and containers are run like that.
        _log.info("%s", error)
        owner = os.getuid() if hasattr(os, "getuid") else "user"
        return _checked(Path(tempfile.gettempdir(), f"torchair-{owner}"))


def _checked(root: Path) -> Path:
    """The folder, made if need be, and ours alone to write into."""
    try:
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = root.stat()
        usable = os.access(root, os.W_OK | os.X_OK)
    except OSError as error:
        raise _unusable(str(error)) from error
    foreign = hasattr(os, "getuid") and status.st_uid != os.getuid()
    if foreign or not usable or stat.S_IMODE(status.st_mode) & (stat.S_IWGRP | stat.S_IWOTH):
        if foreign:
            why = f"{root} belongs to another user"
        elif not usable:
            why = f"{root} cannot be written into"
        else:
            why = f"other users may write into {root}"
        raise _unusable(why, f"chmod go-w {root}, or name")
    return root


def _unusable(why: str, fix: str = "Name") -> BuildError:
    return BuildError(
        "The cache folder cannot be used",
        why=why,
        fix=f"{fix} another folder: TORCHAIR_CACHE_HOME=/path/to/folder",
    )


def build_library(
    name: str,
    sources: Sequence[Path],
    compiler: Compiler,
    flags: Sequence[str],
    *,
    headers: Sequence[Path] = (),
    facts: Sequence[str] = (),
    cache_home: str | None = None,
    suffix: str = ".so",
) -> Path:
    """The library for these sources: the one in the cache, else a new one.

    A file in the cache that is not what was built (a full disk, a crash of the machine) is built again.

    Args:
        name: Name of the library; letters, digits and underscores.
        headers: What the sources include; part of the key.
        facts: What else the result depends on (the version of torch, say); part of the key.
        cache_home: See :func:`cache_root`.
        suffix: What the flags make: with ``-c`` an object file, ``.o``.

    Raises:
        BuildError: The sources do not compile, or the cache folder cannot be used.
    """
    if not name.isidentifier():
        raise BuildError("A library has no usable name", why=f"{name!r} is no identifier")
    digest = hashlib.sha256()
    for part in (
        compiler.identity,
        *compiler.command,
        *flags,
        *facts,
        *(s.read_text(encoding="utf-8") for s in (*sources, *headers)),
    ):
        digest.update(part.encode())
        digest.update(b"\0")
    folder = cache_root(cache_home) / "libraries" / f"{name}-{digest.hexdigest()[:24]}"
    library = folder / f"{name}{suffix}"
    if _is_whole(library):
        return library
    import filelock

    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with filelock.FileLock(folder / "lock"):
            if not _is_whole(library):
                _log.info("compiling %s, once; the result is kept in %s", name, folder)
                with tempfile.TemporaryDirectory(dir=folder) as scratch:
                    made = Path(scratch, library.name)
                    compiler.compile(sources, made, flags)
                    checksum = Path(scratch, "checksum")
                    checksum.write_text(_checksum(made), encoding="utf-8")
                    checksum.replace(folder / _CHECKSUM)
                    made.replace(library)  # whoever sees the file sees all of it
    except OSError as error:
        raise _unusable(str(error)) from error
    return library


def _is_whole(library: Path) -> bool:
    """Whether a library is there and has the contents that were built: a process that loads part of one may crash."""
    try:
        return (library.parent / _CHECKSUM).read_text(encoding="utf-8") == _checksum(library)
    except (OSError, UnicodeDecodeError):
        return False


def _checksum(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
