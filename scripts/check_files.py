"""Refuse files that are too large for the repository, and files with merge marks left in them.

Usage: ``python scripts/check_files.py FILE...``. Exit status 1 when a file is refused; each reason is printed.
"""

from __future__ import annotations

import sys
from pathlib import Path

MAX_BYTES = 1_000_000
_MARKS = (b"<" * 7 + b" ", b">" * 7 + b" ")


def problems(path: Path) -> list[str]:
    """Why ``path`` may not be committed; empty if it may."""
    data = path.read_bytes()
    found = []
    if len(data) > MAX_BYTES:
        found.append(f"{path}: {len(data)} bytes, more than {MAX_BYTES}")
    found.extend(
        f"{path}:{number}: merge mark"
        for number, line in enumerate(data.splitlines(), start=1)
        if line.startswith(_MARKS)
    )
    return found


def main(names: list[str]) -> int:
    """Check the files called ``names``; the exit status."""
    found = [problem for name in names if Path(name).is_file() for problem in problems(Path(name))]
    print("\n".join(found), end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
