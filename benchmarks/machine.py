"""What a result depends on, as far as it may be published: no host name, no paths."""

from __future__ import annotations

import os
import platform
from pathlib import Path

import torch

import torchair

__all__ = ["describe"]


def describe(device: torch.device) -> dict[str, str | int | float]:
    """Facts about the machine, in the order in which they are shown."""
    facts: dict[str, str | int | float] = {
        "torch": torch.__version__,
        "torchair": torchair.__version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "cpu": _cpu_name(),
        "vector_instructions": torch.backends.cpu.get_cpu_capability(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        "threads": torch.get_num_threads(),
    }
    if hasattr(os, "getloadavg"):
        # Above zero before anything was timed: others use the machine, and the numbers are worth less.
        facts["load_before"] = round(os.getloadavg()[0], 2)
    if device.type == "cuda":
        facts["gpu"] = torch.cuda.get_device_name(device)
        facts["cuda"] = torch.version.cuda or "none"
    return facts


def _cpu_name() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
