"""Traces of task lists as Chrome shows them: made of plans, filtered, put in order, searched for deadlocks."""

from torchair.trace.align import align_trace_json
from torchair.trace.deadlock import DeadlockReport, check_deadlocks, deadlock_check
from torchair.trace.filtering import filter_comm_ops
from torchair.trace.plans import plan_trace
from torchair.trace.tasks import Task, Trace, read_trace

__all__ = [
    "DeadlockReport",
    "Task",
    "Trace",
    "align_trace_json",
    "check_deadlocks",
    "deadlock_check",
    "filter_comm_ops",
    "plan_trace",
    "read_trace",
]
