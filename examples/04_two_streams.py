"""Two streams: branches of a model that run at the same time, in both modes, and when each launch ran.

Run: ``python examples/04_two_streams.py [FOLDER]``. With a folder, the traces are written there, for Perfetto or
``chrome://tracing``.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from torch import Tensor, nn

import torchair
from torchair.trace import Trace, check_deadlocks

MODES = {"npugraph_ex": "npugraph_ex", "GE mode": "torchair"}


class TwoBranches(nn.Module):
    """Two independent branches of small layers, each of which is too small to be split over cores."""

    def __init__(self, width: int = 32, depth: int = 16) -> None:
        super().__init__()
        self.left = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.right = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, x: Tensor) -> Tensor:
        """``[batch, width]`` to the same; the right branch runs on a stream of its own."""
        right = left = x
        with torchair.scope.npu_stream_switch("right"):
            for layer in self.right:
                right = torch.tanh(layer(right))
        for layer in self.left:
            left = torch.tanh(layer(left))
        torchair.ops.wait([right])  # the default stream goes on when the other one has made it
        return left + right


def recorded(mode: str) -> Trace:
    """The shortest of some runs of the model, with the times of its launches."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    model = TwoBranches().eval()
    x = torch.randn(32, 32)
    run = torch.compile(model, backend=MODES[mode], dynamic=False)
    with torch.no_grad():
        torch.testing.assert_close(run(x), model(x))
        traces = []
        for _ in range(300):
            with torchair.record_trace(run) as record:
                run(x)
            traces.append(record.trace)
    return min(traces, key=lambda trace: max(task.end for task in trace.tasks))


def main() -> None:
    """Print what ran on each stream, and write the traces where that is asked for."""
    for mode in MODES:
        trace = recorded(mode)
        print(f"{mode}: {len(trace.streams)} streams")
        for (_, stream), tasks in trace.streams.items():
            launches = [task for task in tasks if not task.event]
            busy = sum(task.duration for task in launches)
            print(f"  {stream}: {len(launches)} launches, busy for {busy:.0f} of {tasks[-1].end:.0f} us")
        print(f"  {check_deadlocks(trace)}")
        if len(sys.argv) > 1:
            path = Path(sys.argv[1]) / f"{mode.partition(' ')[0].lower()}.json"
            trace.write(path)
            print(f"  written: {path}")


if __name__ == "__main__":
    main()
