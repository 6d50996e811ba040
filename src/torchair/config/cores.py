"""How many cores the machine has, and limits of how many operators may use (specification, F-75 and F-118).

The counts are those of the platform description that ``TORCHAIR_PLATFORM_CONFIG`` names, or what the machine has.
"""

from __future__ import annotations

import configparser
import functools
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from torchair.config.env import Environment
from torchair.config.rules import show
from torchair.errors import ArgumentError, ConfigFileNotFoundError, ConfigValueError

__all__ = ["CoreCounts", "core_counts", "core_limit"]

_VARIABLE = "TORCHAIR_PLATFORM_CONFIG"


@dataclass(frozen=True, slots=True)
class CoreCounts:
    """Cores by kind: how many there are, or how many operators may use at most.

    Attributes:
        cube: For products of matrices.
        vector: For everything else; 0 where there are no separate ones, and the same cores do both.
    """

    cube: int
    vector: int

    @property
    def for_vector(self) -> int:
        """Cores for everything but products of matrices."""
        return self.vector or self.cube

    @property
    def for_mixed(self) -> int:
        """Cores for kernels that do both."""
        return max(self.cube, self.for_vector)

    def clipped(self, cube: int | None, vector: int | None) -> CoreCounts:
        """A limit of the whole process; a number that is left out, or is too large, is all cores."""
        at_most = [have if n is None else min(n, have) for n, have in ((cube, self.cube), (vector, self.vector))]
        return CoreCounts(max(at_most[0], 1), at_most[1] if self.vector == 0 else max(at_most[1], 1))


def core_counts() -> CoreCounts:
    """The cores that there are.

    Raises:
        ConfigFileNotFoundError: There is no file of the name in ``TORCHAIR_PLATFORM_CONFIG``.
        ConfigValueError: It does not say how many cores there are.
    """
    path = Environment.read().platform_config
    if path is not None:
        return _described(path)
    number = _physical_cores()
    return CoreCounts(number, number)


def core_limit(attributes: Mapping[str, object]) -> CoreCounts | None:
    """The limit that ``_op_aicore_num`` and ``_op_vectorcore_num`` in the attributes of a node mean; None without.

    Raises:
        ArgumentError: A number is out of range.
        ConfigFileNotFoundError, ConfigValueError: See :func:`core_counts`.
    """
    if "_op_aicore_num" not in attributes and "_op_vectorcore_num" not in attributes:
        return None
    have = core_counts()
    ranges = (("op_aicore_num", 1, have.cube), ("op_vectorcore_num", min(have.vector, 1), have.vector))
    numbers, problems = [], []
    for name, least, most in ranges:
        text = str(attributes.get(f"_{name}", most))
        if re.fullmatch("[0-9]{1,9}", text) is not None and least <= int(text) <= most:
            numbers.append(int(text))
        else:
            allowed = str(most) if least == most else f"from {least} to {most}"
            problems.append(f"limit_core_num was given {name}={text[:40]}; here it is {allowed}")
    if problems:
        raise ArgumentError(
            "A number of cores is out of range",
            why=problems,
            fix=f"Give no more than there are; {_VARIABLE}=/path/to/platform.ini describes another machine.",
        )
    return CoreCounts(*numbers)


def _described(path: str) -> CoreCounts:
    parser = configparser.ConfigParser(strict=False, interpolation=None)
    try:
        parser.read_string(Path(path).read_text(encoding="utf-8"))
    except OSError as e:
        raise ConfigFileNotFoundError(
            "The platform description cannot be read",
            why=[f"{_VARIABLE} = {show(path)}", str(e)],
            fix="Name an INI file with a section [SoCInfo], or remove the variable.",
        ) from e
    except (configparser.Error, UnicodeDecodeError) as e:
        raise _unreadable(path, str(e)) from e
    section = parser["SoCInfo"] if parser.has_section("SoCInfo") else {}
    numbers = {}
    for key in ("ai_core_cnt", "cube_core_cnt", "vector_core_cnt"):
        text = section.get(key, "0").strip()
        if re.fullmatch("[0-9]{1,9}", text) is None:
            raise _unreadable(path, f"{key} = {show(text)}")
        numbers[key] = int(text)
    cube = numbers["cube_core_cnt"] or numbers["ai_core_cnt"]
    if not cube:
        raise _unreadable(path, "[SoCInfo] has neither cube_core_cnt nor ai_core_cnt")
    return CoreCounts(cube, numbers["vector_core_cnt"])


def _unreadable(path: str, reason: str) -> ConfigValueError:
    return ConfigValueError(
        "The platform description cannot be read",
        why=[f"{_VARIABLE} = {show(path)}", reason],
        fix="In its section [SoCInfo] stand cube_core_cnt (or ai_core_cnt) and vector_core_cnt, each a number.",
    )


@functools.cache
def _physical_cores() -> int:
    """Cores of the machine; threads that share a core count once, where the system tells."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        text = ""
    cores = set(re.findall(r"(?ms)^physical id\s*:\s*(\d+)$.*?^core id\s*:\s*(\d+)$", text))
    return len(cores) or os.cpu_count() or 1
