"""Texts inside options that are checked when a graph is compiled, not when they are assigned.

Upstream's engine reads them late and reports mistakes late; here every mistake in a text is reported at once, with the
name of the option.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from torchair.config.fusion_names import FUSION_PASS_NAMES
from torchair.config.rules import show
from torchair.errors import ConfigValueError

__all__ = [
    "SuperKernelOptions",
    "check_iterations",
    "parse_core_numbers",
    "parse_super_kernel_options",
    "parse_switches",
    "super_kernel_pairs",
    "warn_unknown_passes",
]

_UNREADABLE = "The text of an option cannot be read"
_PASS_NAME = re.compile(r"[A-Za-z_][\w.-]*")


def parse_core_numbers(text: str | None, path: str = "config.ge_config.aicore_num") -> tuple[int | None, int | None]:
    """Read ``"${aicore}|${vectorcore}"``; a number that is left out is None.

    Raises:
        ConfigValueError: The text has another form.
    """
    if text is None:
        return None, None
    # [0-9], not \d: that also matches the digits of other scripts. Python refuses to read thousands of digits.
    match = re.fullmatch(r"([0-9]{0,18})\|([0-9]{0,18})", text)
    if match is None:
        why = [f"{path} = {show(text)}", "allowed: two numbers separated by '|', either may be left out"]
        raise ConfigValueError(_UNREADABLE, why=why, fix="for example '24|48'")
    cube, vector = (int(part) if part else None for part in match.groups())
    return cube, vector


def parse_switches(
    text: str | None, path: str = "config.ge_config.optimization_switch"
) -> tuple[tuple[str, bool], ...]:
    """Read ``"PassA:on;PassB:off"`` as pairs of name and whether it is on, in the order of the text.

    Raises:
        ConfigValueError: The text has another form, or names a pass twice.
    """
    if not text:
        return ()
    switches: dict[str, bool] = {}
    problems = []
    for entry in text.split(";"):
        name, colon, state = entry.partition(":")
        if not colon or state not in {"on", "off"} or _PASS_NAME.fullmatch(name) is None:
            problems.append(f"{entry!r} is not <pass name>:on or <pass name>:off")
        elif name in switches:
            problems.append(f"{name!r} is named twice")
        else:
            switches[name] = state == "on"
    if problems:
        why = [f"{path} = {show(text)}", *problems, "allowed: <pass name>:on or :off, separated by ';'"]
        raise ConfigValueError(_UNREADABLE, why=why, fix="for example 'SoftmaxFusionPass:on;CastRemoveFusionPass:off'")
    return tuple(switches.items())


def warn_unknown_passes(switches: tuple[tuple[str, bool], ...], own: Collection[str]) -> None:
    """Warn about switches of passes that neither we have (``own``) nor the vendor's engine is known to have."""
    unknown = [name for name, _ in switches if name not in FUSION_PASS_NAMES and name not in own]
    if unknown:
        text = f"config.ge_config.optimization_switch names unknown passes, which has no effect: {', '.join(unknown)}"
        warnings.warn(text, UserWarning, stacklevel=2)


def check_iterations(text: str, path: str = "config.dump_config.dump_step") -> str:
    """Return the text of an iteration list.

    Raises:
        ConfigValueError: A range ends before it starts: it would dump nothing.
    """
    for part in text.split("|"):
        start, dash, end = part.partition("-")
        if dash and int(end) < int(start):
            why = [f"{path} = {show(text)}", f"the range {part} ends before it starts"]
            raise ConfigValueError(_UNREADABLE, why=why, fix=f"write {end}-{start}")
    return text


@dataclass(frozen=True, slots=True)
class SuperKernelOptions:
    """What the text of ``torchair.scope.super_kernel(scope, options)`` says.

    Attributes:
        feed_sync_all: Insert barriers on cores that a member leaves idle.
        stream_fusion: Members may run on several inner streams.
        strict_scope_check: ``"bypass"`` or ``"abort"`` where the range must fuse as one, else None.
        dcci_before_kernel_start: Operator types whose cache flush moves to their start.
        dcci_after_kernel_end: Operator types whose cache flush moves behind their end.
        dcci_disable_on_kernel: Operator types without cache flush.
        debug_aic_num: Cube cores to launch on.
        debug_aiv_num: Vector cores to launch on.
    """

    feed_sync_all: bool = False
    stream_fusion: bool = False
    strict_scope_check: str | None = None
    dcci_before_kernel_start: tuple[str, ...] = ()
    dcci_after_kernel_end: tuple[str, ...] = ()
    dcci_disable_on_kernel: tuple[str, ...] = ()
    debug_aic_num: int | None = None
    debug_aiv_num: int | None = None


_SUPER_KERNEL_KEYS: Mapping[str, tuple[str, str]] = {
    # key: (pattern of the value, what it is in words)
    "feed-sync-all": ("[01]", "0 or 1"),
    "stream-fusion": ("[01]", "0 or 1"),
    "strict-scope-check": ("bypass|abort", "bypass or abort"),
    "dcci-before-kernel-start": (r"\w+(,\w+)*", "operator types separated by commas"),
    "dcci-after-kernel-end": (r"\w+(,\w+)*", "operator types separated by commas"),
    "dcci-disable-on-kernel": (r"\w+(,\w+)*", "operator types separated by commas"),
    "debug-aic-num": ("[1-9][0-9]{0,8}", "a positive number"),
    "debug-aiv-num": ("[1-9][0-9]{0,8}", "a positive number"),
}


def parse_super_kernel_options(text: str, path: str = "super_kernel options") -> SuperKernelOptions:
    """Read ``"key=value:key=value"``, the options of a super kernel scope.

    Raises:
        ConfigValueError: A key is unknown, a value has another form, or a key comes twice.
    """
    found: dict[str, Any] = {}
    problems = []
    for entry in text.split(":") if text else []:
        key, _, value = entry.partition("=")
        if key not in _SUPER_KERNEL_KEYS:
            problems.append(f"{key!r} is no option; there are: {', '.join(_SUPER_KERNEL_KEYS)}")
            continue
        pattern, meaning = _SUPER_KERNEL_KEYS[key]
        name = key.replace("-", "_")
        if re.fullmatch(pattern, value) is None:
            problems.append(f"{key} = {value!r}; allowed: {meaning}")
        elif name in found:
            problems.append(f"{key!r} is given twice")
        else:
            found[name] = _super_kernel_value(key, value)
    if problems:
        why = [f"{path} = {show(text)}", *problems]
        raise ConfigValueError(_UNREADABLE, why=why, fix="for example 'stream-fusion=1:strict-scope-check=bypass'")
    return SuperKernelOptions(**found)


def _super_kernel_value(key: str, value: str) -> bool | int | str | tuple[str, ...]:
    if key in {"feed-sync-all", "stream-fusion"}:
        return value == "1"
    if key.startswith("dcci"):
        return tuple(value.split(","))
    return int(value) if key.startswith("debug") else value


def super_kernel_pairs(path: str, options: Mapping[Any, Any] | None) -> tuple[tuple[str, str], ...]:
    """Write an option dictionary of capture mode's super kernels as pairs of texts.

    Lists become ``a,b``, dictionaries ``k=v,k=v``.

    Raises:
        ConfigValueError: A key is no string, or a value is nothing of the kind.
    """
    problems = []
    pairs = []
    for key, value in (options or {}).items():
        if not isinstance(key, str):
            problems.append(f"the key {show(key)} is no string")
            continue
        text = _flat_text(value)
        if text is None:
            problems.append(f"{key} = {show(value)}; allowed: a string, a number, a list or a dictionary of these")
        else:
            pairs.append((key, text))
    if problems:
        raise ConfigValueError("A dictionary of options cannot be read", why=[f"{path} = {show(options)}", *problems])
    return tuple(pairs)


def _flat_text(value: object) -> str | None:
    if isinstance(value, list | tuple):
        parts = [_scalar_text(item) for item in value]
    elif isinstance(value, Mapping):
        texts = {key: _scalar_text(item) for key, item in value.items()}
        parts = [f"{key}={item}" if isinstance(key, str) and item is not None else None for key, item in texts.items()]
    else:
        return _scalar_text(value)
    present = [part for part in parts if part is not None]
    return ",".join(present) if len(present) == len(parts) else None


def _scalar_text(value: object) -> str | None:
    if isinstance(value, bool):
        return str(int(value))
    return str(value) if isinstance(value, str | int | float) else None
