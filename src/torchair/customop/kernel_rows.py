"""Rows about the eager kernel, one for each kind of device."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from torchair import _torch_compat
from torchair._torch_compat import OpOverload
from torchair.customop.calls import Call
from torchair.customop.compare import leaves, same
from torchair.customop.observe import Observation, Observations
from torchair.customop.report import Row
from torchair.errors import shortened
from torchair.opset.kernels import kernels
from torchair.opset.prototype import ir_name

__all__ = ["kernel_rows"]

_ALL = "CompositeExplicitAutograd"

#: Calls that are run on a further device.
_ON_DEVICE = 12


def kernel_rows(overload: OpOverload, seen: Observations) -> Iterator[Row]:
    """The kernel for the CPU, and for each other kind of device that this PyTorch has."""
    yield _cpu_row(overload, seen)
    if torch.backends.cuda.is_built():  # type: ignore[no-untyped-call]
        yield _device_row(overload, seen, "CUDA", "cuda", needed=False)
    if (name := _torch_compat.private_device_name()) is not None:
        yield _device_row(overload, seen, "PrivateUse1", name, needed=True)


def _cpu_row(overload: OpOverload, seen: Observations) -> Row:
    title, name = "eager kernel (cpu)", overload._schema.name
    if not _torch_compat.has_kernel(overload, "CPU"):
        operator = ir_name(name)
        if kernels.get(operator) is not None:
            why = f"the Ascend IR operator {operator} has a kernel of its own; eager mode cannot run the operator"
            return Row(title, "not needed", why)
        return Row(title, "missing", f"no kernel of {name} is registered for CPU", _kernel_code(overload, "CPU"))
    faults = list(dict.fromkeys([*(f for o in seen.usual for f in o.faults), *seen.faults]))
    if error := next((e for call, e in seen.refused if call.is_given), None):
        return Row(title, "wrong", f"it raised {_raised(error)}", "Check the sample arguments, and the kernel.")
    if seen.refused and not seen.taken:
        call, error = seen.refused[0]
        why = f"it refused all {len(seen.refused)} calls that were tried, such as {call}:\n{_raised(error)}"
        if isinstance(error, NotImplementedError) and "no tensor arguments" in str(error):
            fix = f"An operator without tensors is registered for all devices:\n\n{_kernel_code(overload, _ALL)}"
            return Row(title, "wrong", why, fix)
        fix = (
            "Mend the kernel, or give calls that it takes:\n\n"
            f"torchair.check_operator(torch.ops.{overload}, *args)   # or: torchair op check {name} --sample FILE.py"
        )
        return Row(title, "wrong", why, fix)
    if faults:
        return Row(title, "wrong", "\n".join(faults[:5]), _fault_fix(faults[0]))
    return Row(title, "pass")


def _raised(error: Exception) -> str:
    # Of the dispatcher's pages the first paragraph.
    return f"{type(error).__name__}: {shortened(error).partition(_PAGES)[0].strip()}"


_PAGES = "\n\nCPU: registered at"


def _fault_fix(fault: str) -> str:
    if "ends the process" in fault:
        return "Raise an exception that says what is wrong instead of calling sys.exit."
    if "not contiguous" in fault or "contiguous tensors" in fault:
        return "Read tensors by their strides, or begin with x = x.contiguous()."
    if "empty tensors" in fault:
        return "Return an empty result, or refuse with an error that says that the tensor is empty."
    return "Compute all of each result from the arguments only, in memory of its own."


def _kernel_code(overload: OpOverload, key: str) -> str:
    name = overload._schema.name
    parameters = ", ".join(a.name for a in overload._schema.arguments)
    return f'@torch.library.impl("{name}", "{key}")\ndef _({parameters}):\n    ...'


def _device_row(overload: OpOverload, seen: Observations, key: str, device: str, *, needed: bool) -> Row:
    title, name = f"eager kernel ({device})", overload._schema.name
    if not _torch_compat.has_kernel(overload, key):
        why = f"no kernel of {name} is registered for {key}"
        if needed:
            return Row(title, "missing", why, _kernel_code(overload, key))
        return Row(title, "not needed", f"{why}; the operator cannot run there")
    if not _torch_compat.device_is_available(device):
        return Row(title, "pass", "registered; it was not run, since there is no such device here")
    problems: dict[str, None] = {}
    for observation in seen.taken[:_ON_DEVICE]:
        if problem := _on_device(overload, observation, device):
            problems.setdefault(f"{problem}: {observation.call}")
    if problems:
        return Row(title, "wrong", "\n".join(list(problems)[:4]), "Make the kernels of all devices agree.")
    ran = min(len(seen.taken), _ON_DEVICE)
    return Row(title, "pass", f"agrees with the kernel for the CPU in {ran} calls" if ran else "")


def _on_device(overload: OpOverload, seen: Observation, device: str) -> str:
    """What is wrong with a call on a device; empty if it gives the same as on the CPU."""
    args, kwargs = _moved(seen.call, device)
    try:
        results = leaves(overload(*args, **kwargs))
    except Exception as e:  # noqa: BLE001  # whatever a user's kernel raises is the finding
        return f"it raised {_raised(e)}, the kernel for the CPU did not"
    if len(results) != len(seen.results):
        return f"it returned {len(results)} results, the kernel for the CPU {len(seen.results)}"
    if torch.Tag.nondeterministic_seeded in overload.tags:
        return ""
    for i, (ours, cpu) in enumerate(zip(results, seen.results, strict=True)):
        if isinstance(ours, torch.Tensor) and isinstance(cpu, torch.Tensor) and not same(ours.cpu(), cpu.cpu()):
            return f"result {i} differs from that of the kernel for the CPU"
    return ""


def _moved(call: Call, device: str) -> tuple[tuple[object, ...], dict[str, object]]:
    flat, rebuild = _torch_compat.flatten_call(*call.real())
    return rebuild([v.to(device) if isinstance(v, torch.Tensor) else v for v in flat])
