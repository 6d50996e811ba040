"""The tools for traces as programs of their own: ``python -m torchair.tools.gegraph_check.deadlock_check x.json``.

They need no click, so they run where the extra ``cli`` is not installed.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from torchair.errors import TorchAirError
from torchair.trace.align import GAP, align_trace_json
from torchair.trace.deadlock import TOTAL, deadlock_check
from torchair.trace.filtering import filter_comm_ops

__all__ = ["align_main", "check_main", "filter_main"]


def filter_main(args: Sequence[str] | None = None) -> int:
    """``filter_operators.py input [-o OUTPUT] [--merge-gap 0.0]``; returns the exit status."""
    parser = _parser("filter_operators.py", "Keep the tasks of a trace that order streams, and those that communicate.")
    given = parser.parse_args(args)
    return _run(lambda: _say(filter_comm_ops(given.input, given.output, given.merge_gap)))


def align_main(args: Sequence[str] | None = None) -> int:
    """``align_trace.py input [-o OUTPUT] [--gap 0.2] [--merge-gap 0.0]``; returns the exit status."""
    parser = _parser("align_trace.py", "Replace the times of a trace by a logical order.")
    parser.add_argument("--gap", type=float, default=GAP, help=f"time between tasks, each of which takes 1 [{GAP}]")
    given = parser.parse_args(args)
    return _run(lambda: _say(align_trace_json(given.input, given.output, given.gap, given.merge_gap)))


def check_main(args: Sequence[str] | None = None) -> int:
    """``deadlock_check.py input [-o OUTPUT] [--aivec-total 48] [--merge-gap 0.0]``; returns the exit status."""
    parser = _parser("deadlock_check.py", "Look for tasks of a trace that could wait for each other forever.")
    parser.add_argument("--aivec-total", type=int, default=TOTAL, help=f"vector cores of the device [{TOTAL}]")
    given = parser.parse_args(args)
    return _run(lambda: deadlock_check(given.input, given.output, given.aivec_total, given.merge_gap).found)


def _parser(name: str, about: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=name, description=about)
    parser.add_argument("input", help="a trace: a JSON file with traceEvents")
    parser.add_argument("-o", "--output", help="where the result is written [beside the input]")
    parser.add_argument(
        "--merge-gap", type=float, default=0.0, help="microseconds from a stream-activate task to its stream [0.0]"
    )
    return parser


def _run(tool: Callable[[], object]) -> int:
    """Exit status: 0; 1 where the tool found something; 2 for a file that it cannot read or write."""
    try:
        return 1 if tool() is True else 0
    except TorchAirError as error:
        sys.stderr.write(f"{error}\n")
        return 2


def _say(path: Path) -> None:
    sys.stdout.write(f"{path}\n")
