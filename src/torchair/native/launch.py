"""A native program as a launch of a plan."""

from __future__ import annotations

from collections.abc import Sequence

from torchair.errors import Rejection
from torchair.native.program import BoundProgram, NativeProgram
from torchair.native.support import load_support
from torchair.runtime.plan import Native, Pointer

__all__ = ["bound_launch"]


def bound_launch(
    program: NativeProgram,
    bound: BoundProgram,
    args: Sequence[int],
    results: Sequence[int],
    workspace: int,
    *,
    fresh: bool,
) -> Native:
    """The launch of a program.

    Args:
        bound: The program for the sizes of the plan.
        args: Slots of its arguments.
        results: Slots of its results.
        workspace: Slot of its workspace.
        fresh: Each run allocates the results.
    """
    support = load_support()
    assert not isinstance(support, Rejection), "a program was compiled"

    def pointer(kind: int, number: int) -> Pointer:
        if kind == 0:
            return Pointer(args[number], 0, number in program.written)
        return Pointer(results[number], 0, True) if kind == 1 else Pointer(workspace, number, True)

    return Native(
        program=program,
        args=tuple(args),
        results=tuple(results),
        fresh=dict(zip(results, bound.outputs, strict=True)) if fresh else {},
        given=dict(zip(args, bound.inputs, strict=False)),
        workspace=workspace,
        errors=bound.errors,
        messages=tuple(program.messages),
        stages=bytes(bound.stages),
        count=len(program.kernels),
        sizes=tuple(bound.sizes),
        pointers=tuple(pointer(kind, number) for kind, number in bound.pointers),
        runner=support.run_paced_program_address,
        workers=program.workers,
    )
