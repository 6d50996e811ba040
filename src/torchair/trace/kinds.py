"""What tasks of a trace are: control, communication, and how many vector cores they need (specification, F-46)."""

from __future__ import annotations

from torchair.errors import TraceFileError
from torchair.trace.tasks import Task, control_kind

__all__ = ["activates", "is_communication", "is_control", "is_record", "is_wait", "vector_cores"]

#: Types of tasks whose blocks are vector cores.
_VECTOR = frozenset({"AI_VECTOR_CORE", "AIVEC", "AIV", "VECTOR", "MIX_AIV"})
#: Kernels of both kinds, counted in cube cores.
_MIXED = frozenset({"MIX_AIC", "MIX"})
_CUBE = frozenset({"AI_CORE", "AICORE", "AIC", "CUBE"})
_COMMUNICATION = frozenset({"COMMUNICATION", "HCCL", "HCCL_AIV"})

#: Vector cores for a block of a mixed kernel, by ratio of cube to vector.
_PER_BLOCK = {"0": 0, "1:0": 0, "1": 2, "1:1": 2, "2": 2, "1:2": 2, "0:1": 1}


def is_record(task: Task) -> bool:
    """Whether it lets waits of other streams go on."""
    return _control(task) in ("EVENT_RECORD", "MEM_WRITE_VALUE")


def is_wait(task: Task) -> bool:
    """Whether it waits for a record."""
    return _control(task) in ("EVENT_WAIT", "MEM_WAIT_VALUE")


def is_control(task: Task) -> bool:
    """Whether it orders streams."""
    return bool(_control(task))


def _control(task: Task) -> str:
    return (control_kind(task.name) or control_kind(task.type) or ("",))[0]


def activates(task: Task) -> bool:
    """Whether it starts another stream, which goes on with the work of its own."""
    return any(text.upper().replace("_", "").startswith("STREAMACTIVE") for text in (task.name, task.type))


def is_communication(task: Task) -> bool:
    """Whether it waits for other devices while it holds its cores."""
    name = task.name.lower()
    return not is_control(task) and (
        "aiv_" in name or "dispatch" in name or "combine" in name or _type(task) in _COMMUNICATION
    )


def vector_cores(task: Task) -> tuple[int, str]:
    """How many vector cores a task takes at once, and a doubt about it; empty where there is none.

    Raises:
        TraceFileError: The trace does not say enough.
    """
    type = _type(task)
    if type in _CUBE:
        return 0, ""
    if task.blocks is None:
        raise _lacking(task, "Numblocks")
    if type in _VECTOR or type in _COMMUNICATION:
        return task.blocks, ""
    if type not in _MIXED:
        return (
            task.blocks,
            f"{task} has task type {task.type!r}, which is not known: each block counts as a vector core",
        )
    if task.ratio is None:
        raise _lacking(task, "Task Ration")
    if task.ratio not in _PER_BLOCK:
        raise TraceFileError(
            "A task has a ratio that is not known",
            why=f"{task}: Task Ration is {task.ratio[:40]!r}",
            fix=f"Ratios are {', '.join(_PER_BLOCK)}.",
        )
    return _PER_BLOCK[task.ratio] * task.blocks, ""


def _lacking(task: Task, key: str) -> TraceFileError:
    return TraceFileError(
        "A communication task does not say how many cores it takes",
        why=f"{task} has no {key} among its args",
        fix=f'Add it to the trace: "args": {{"TaskId": {task.number}, "{key}": ...}}.',
    )


def _type(task: Task) -> str:
    return task.type.upper().removeprefix("KERNEL_").replace("MIX_AICORE", "MIX_AIC")
