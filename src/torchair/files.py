"""Files that TorchAir writes for users to read: traces, saved tensors (specification, Appendix 2)."""

from __future__ import annotations

import os
from pathlib import Path

from torchair.errors import OutputFileError

__all__ = ["write_file"]


def write_file(path: str | Path, data: str | bytes) -> None:
    """Write a file that only its owner reads; folders are created, what was there is replaced.

    Raises:
        OutputFileError: The path is a symbolic link, or nothing can be written there.
    """
    content = data.encode() if isinstance(data, str) else data
    target = Path(path)
    try:
        if target.is_symlink():
            raise OutputFileError(
                "A file cannot be written",
                why=f"{target} is a symbolic link, which could lead anywhere",
                fix="Name the file that it leads to, or remove the link.",
            )
        target.parent.mkdir(parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_NOFOLLOW", 0)
        with os.fdopen(os.open(target, flags, 0o600), "wb") as file:
            file.write(content)
    except (OSError, ValueError) as e:  # ValueError: a zero byte in the path
        if isinstance(e, OutputFileError):
            raise
        raise OutputFileError(
            "A file cannot be written",
            why=f"{target}: {(e.strerror if isinstance(e, OSError) else None) or e}",
            fix="Name a file in a folder that you may write to.",
        ) from e
