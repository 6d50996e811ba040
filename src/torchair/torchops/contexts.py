"""The context managers of ``torchair.scope`` (specification, F-71 to F-77)."""

from __future__ import annotations

from types import TracebackType
from typing import Any

import torch

from torchair.errors import EagerCallError
from torchair.torchops.ordering import wait_tensor
from torchair.torchops.refusing import refuse_type, refuse_value
from torchair.torchops.scopes import scope_enter, scope_exit

__all__ = [
    "Scope",
    "data_dump",
    "limit_core_num",
    "npu_stream_switch",
    "npu_wait_tensor",
    "op_never_timeout",
    "super_kernel",
]


class Scope:
    """Marks a part of a compiled function; the IR nodes made for it get the attributes.

    Dynamo traces ``__enter__`` and ``__exit__``, so both do nothing but call the marker.
    """

    def __init__(self, keys: list[str], values: list[str]) -> None:
        self.keys = keys
        self.values = values

    def __enter__(self) -> None:
        scope_enter(self.keys, self.values)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        scope_exit()


def npu_stream_switch(stream_tag: str, stream_priority: int = 0, enable_inner_parallel: bool = True) -> Scope:
    """Run what is inside on another stream.

    Args:
        stream_tag: Equal tags mean the same stream; outside all blocks is the default stream, the innermost tag wins.
        stream_priority: Reserved; leave it 0.
        enable_inner_parallel: Whether the engine may distribute these operators further.

    Raises:
        ArgumentTypeError: An argument is of another type.
    """
    _check(stream_tag, str, "npu_stream_switch", "stream_tag")
    _check(stream_priority, int, "npu_stream_switch", "stream_priority")
    _check(enable_inner_parallel, bool, "npu_stream_switch", "enable_inner_parallel")
    return Scope(
        ["_user_stream_label", "_user_stream_priority", "_enable_inner_parallel"],
        [stream_tag, str(stream_priority), str(enable_inner_parallel)],
    )


def super_kernel(scope: str | None, options: str = "") -> Scope:
    """Compile what is inside into one kernel.

    Args:
        scope: Name of the range; equal names are one range. None takes what is inside out of the range around it.
        options: ``key=value`` pairs separated by ``:``.

    Raises:
        ArgumentTypeError: An argument is of another type.
        ArgumentError: An option is unknown or malformed.
    """
    if scope is not None:
        _check(scope, str, "super_kernel", "scope")
    _check(options, str, "super_kernel", "options")
    _check_super_kernel_options(options)
    return Scope(["_super_kernel_scope", "_super_kernel_options"], [scope or "", options])


def limit_core_num(op_aicore_num: int, op_vectorcore_num: int) -> Scope:
    """Limit the cores that each operator inside may use.

    More cores than there are refuse to compile in GE mode: the machine's, or those of the platform description that
    ``TORCHAIR_PLATFORM_CONFIG`` names.

    Args:
        op_aicore_num: For products of matrices; at least 1.
        op_vectorcore_num: For everything else; at least 1, and 0 on a device without separate vector cores.

    Raises:
        ArgumentTypeError: A number is no int.
        ArgumentError: A number is too small.
    """
    for name, number, least in (("op_aicore_num", op_aicore_num, 1), ("op_vectorcore_num", op_vectorcore_num, 0)):
        _check(number, int, "limit_core_num", name)
        if number < least:
            refuse_value(
                "A number of cores is out of range",
                f"limit_core_num was given {name}={number}; it is at least {least}",
                "Give the number of cores that an operator may use at most.",
            )
    return Scope(["_op_aicore_num", "_op_vectorcore_num"], [str(op_aicore_num), str(op_vectorcore_num)])


def op_never_timeout(enable: bool = True) -> Scope:
    """Exempt the operators inside from the device's time limit, or (False) make them subject to it again.

    Raises:
        ArgumentTypeError: ``enable`` is no bool.
    """
    _check(enable, bool, "op_never_timeout", "enable")
    return Scope(["_op_exec_never_timeout"], [str(enable)])


def data_dump() -> Scope:
    """Add the operators inside to those whose data is dumped."""
    return Scope(["torchair_enable_data_dump"], ["True"])


def npu_wait_tensor(self: torch.Tensor, dependency: torch.Tensor) -> torch.Tensor:
    """Order two tensors in a compiled graph: what uses ``self`` after this call runs after ``dependency`` was made.

    Returns:
        ``self``; it need not be used.

    Raises:
        ArgumentTypeError: An argument is no tensor.
        EagerCallError: Called outside a compiled function.
    """
    _check(self, torch.Tensor, "npu_wait_tensor", "self")
    _check(dependency, torch.Tensor, "npu_wait_tensor", "dependency")
    if not torch.compiler.is_compiling():
        raise EagerCallError(
            "npu_wait_tensor is not supported in eager mode",
            why="outside a compiled function operators run in program order, and there is nothing to wait for",
            fix="Call it inside a function that torch.compile compiles with a backend of torchair.",
        )
    result: torch.Tensor = wait_tensor(self, dependency)
    return result


def _check(value: Any, kind: type, function: str, name: str) -> None:
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        refuse_type(
            "An argument is of the wrong type",
            f"{function} takes {name} as {kind.__name__}, it was given {value!r} of type {type(value).__name__}",
            "See the function's documentation.",
        )


#: Option -> what it takes.
_SWITCHES = ("feed-sync-all", "stream-fusion")
_OPERATOR_LISTS = ("dcci-before-kernel-start", "dcci-after-kernel-end", "dcci-disable-on-kernel")
_CORES = ("debug-aic-num", "debug-aiv-num")


def _check_super_kernel_options(options: str) -> None:
    """Refuse what the engine would refuse later (specification, F-74 and D-26)."""
    for pair in options.split(":") if options else []:
        key, separator, value = pair.partition("=")
        if key in _SWITCHES:
            valid, wanted = value in ("0", "1"), "0 or 1"
        elif key == "strict-scope-check":
            valid, wanted = value in ("bypass", "abort"), "bypass or abort"
        elif key in _OPERATOR_LISTS:
            valid = bool(value) and all(name.isidentifier() for name in value.split(","))
            wanted = "operator types separated by commas"
        elif key in _CORES:
            valid, wanted = value.isdecimal() and int(value) > 0, "a positive number"
        else:
            known = ", ".join([*_SWITCHES, "strict-scope-check", *_OPERATOR_LISTS, *_CORES])
            valid, wanted = False, f"one of the known keys ({known})"
        if not (separator and valid):
            refuse_value(
                "An option of a super kernel is not valid",
                f"super_kernel was given {pair!r} in {options!r}; {key or 'an option'} takes {wanted}",
                'super_kernel("name", "stream-fusion=1:strict-scope-check=bypass")',
            )
