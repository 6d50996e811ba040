"""The option ``deadlock_check``: what a graph was captured as is written and searched (specification, F-46, F-105)."""

from __future__ import annotations

import os
import sys
import time
from datetime import datetime
from pathlib import Path

import torch

from torchair import _torch_compat
from torchair.config import core_counts
from torchair.runtime.plan import Plan
from torchair.trace.deadlock import DeadlockReport, check_deadlocks
from torchair.trace.plans import plan_trace

__all__ = ["check_captured", "check_compiled"]


def check_captured(plan: Plan, number: int) -> DeadlockReport:
    """Write and search the tasks of a graph of capture mode, and print what was found.

    The files are ``graph_${n}_id_${id}_rank_${r}_pid_${pid}_ts_${ts}.json``, ``..._filtered.json`` and, if there is a
    deadlock, ``..._filtered_deadlock_check.json``, in PyTorch's folder for debug output.

    Args:
        plan: What was captured.
        number: Which graph of the process it is.

    Raises:
        OutputFileError: A file cannot be written.
    """
    rank = _rank()
    run = _torch_compat.debug_directory()
    if rank is not None:
        run = run.with_name(f"{run.name}-rank_{rank}")
    # In nanoseconds: a graph is captured for several keys within one second.
    name = f"graph_{number}_id_{id(plan)}_rank_{rank or 0}_pid_{os.getpid()}_ts_{time.time_ns()}"
    return _check(plan, f"graph_{number}", run / "npugraph_ex" / f"model__{number}" / name)


def check_compiled(plan: Plan, number: int) -> DeadlockReport:
    """The same for a graph of GE mode: ``debug_output_graph_${id}_timestamp${time}_pid_${pid}.json`` and so on.

    The files lie in the current directory.

    Raises:
        OutputFileError: A file cannot be written.
    """
    now = datetime.now().astimezone().strftime("%Y%m%d%H%M%S")
    name = f"debug_output_graph_{number}_timestamp{now}_pid_{os.getpid()}"
    return _check(plan, f"graph_{number}", Path(name))


def _check(plan: Plan, name: str, base: Path) -> DeadlockReport:
    trace = plan_trace(plan, name)
    trace.write(base.with_name(f"{base.name}.json"))
    report = check_deadlocks(trace, core_counts().for_vector)
    report.filtered.write(base.with_name(f"{base.name}_filtered.json"))
    if report.deadlock:
        report.marked.write(base.with_name(f"{base.name}_filtered_deadlock_check.json"))
    sys.stdout.write(f"{report}\n")
    sys.stdout.flush()
    return report


def _rank() -> int | None:
    """The rank of the process; None where it runs alone."""
    group = torch.distributed
    return group.get_rank() if group.is_available() and group.is_initialized() else None
