"""The environment variables that TorchAir reads, all of them here.

``TORCH_COMPILE_DEBUG`` is read by :mod:`torchair.logs` as well, through the same function, since loggers exist before
any configuration.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass

from torchair.logs import EVENT_LEVEL, compile_debug_requested, warn_once

__all__ = ["Environment"]

_NATIVE_LEVELS = {
    "0": logging.DEBUG,
    "1": logging.INFO,
    "2": logging.WARNING,
    "3": logging.ERROR,
    "4": EVENT_LEVEL,
}
_BREAK_OPS = ("SLICE", "SETITEM", "NN.CONV3D", "NN.LINEAR")


@dataclass(frozen=True, slots=True)
class Environment:
    """What the environment says.

    Attributes:
        cache_home: Directory of compile caches (``TORCHAIR_CACHE_HOME``); None where it is not set.
        cxx: The C++ compiler (``CXX``); empty where it is not set.
        max_jobs: Compilers that run at a time (``MAX_JOBS``, as PyTorch reads it); None where it is no positive number.
        native_log_level: Level of the lines below Python (``TNG_LOG_LEVEL``), as ``logging`` numbers it.
        compile_debug: Whether debug information is written (``TORCH_COMPILE_DEBUG=1``).
        local_world_size: Processes on this node (``LOCAL_WORLD_SIZE``); None where it is missing or no positive number.
        dynamic_shape_multi_stream: Whether dynamic graphs use several streams
            (``ENABLE_DYNAMIC_SHAPE_MULTI_STREAM=1``); recorded.
        hccl_op_expansion_mode: Where collectives run (``HCCL_OP_EXPANSION_MODE``, such as ``AIV``); recorded.
        dump_ge_graph: Dump of the engine's graph (``DUMP_GE_GRAPH``): 0 none, 1 full, 2 without weights, 3 nodes only.
        break_graph_ops: Python operations that break the graph (``BREAK_GRAPH_OP_LIST``).
        platform_config: INI file that says how many cores there are (``TORCHAIR_PLATFORM_CONFIG``); None: those of the
            machine.
        single_lane: Whether plans of several lanes run in one thread, in program order (``TORCHAIR_SINGLE_LANE=1``).
        huge_pages: Whether weights may be moved into huge pages (not with ``TORCHAIR_HUGE_PAGES=0``).
    """

    cache_home: str | None = None
    cxx: str = ""
    max_jobs: int | None = None
    native_log_level: int = logging.ERROR
    compile_debug: bool = False
    local_world_size: int | None = None
    dynamic_shape_multi_stream: bool = False
    hccl_op_expansion_mode: str | None = None
    dump_ge_graph: int = 0
    break_graph_ops: tuple[str, ...] = ()
    platform_config: str | None = None
    single_lane: bool = False
    huge_pages: bool = True

    @classmethod
    def read(cls, environ: Mapping[str, str] | None = None) -> Environment:
        """Read the environment; a value that means nothing is warned about and taken as not set.

        Args:
            environ: Where to look; the process environment when omitted.
        """
        source = os.environ if environ is None else environ
        debug = compile_debug_requested(source)
        return cls(
            cache_home=source.get("TORCHAIR_CACHE_HOME") or None,
            cxx=source.get("CXX", "").strip(),
            max_jobs=_positive(source.get("MAX_JOBS")),
            native_log_level=_native_log_level(source.get("TNG_LOG_LEVEL"), debug=debug),
            compile_debug=debug,
            local_world_size=_positive(source.get("LOCAL_WORLD_SIZE")),
            dynamic_shape_multi_stream=source.get("ENABLE_DYNAMIC_SHAPE_MULTI_STREAM") == "1",
            hccl_op_expansion_mode=source.get("HCCL_OP_EXPANSION_MODE") or None,
            dump_ge_graph=_dump_ge_graph(source.get("DUMP_GE_GRAPH")),
            break_graph_ops=_break_graph_ops(source.get("BREAK_GRAPH_OP_LIST", "")),
            platform_config=source.get("TORCHAIR_PLATFORM_CONFIG") or None,
            single_lane=source.get("TORCHAIR_SINGLE_LANE") == "1",
            huge_pages=source.get("TORCHAIR_HUGE_PAGES") != "0",
        )


def _native_log_level(text: str | None, *, debug: bool) -> int:
    if text is None:
        return logging.DEBUG if debug else logging.ERROR
    if text not in _NATIVE_LEVELS:
        allowed = "0 (DEBUG), 1 (INFO), 2 (WARNING), 3 (ERROR), 4 (EVENT)"
        warn_once(f"TNG_LOG_LEVEL={text!r} is none of {allowed}; the level is ERROR", stacklevel=4)
    return _NATIVE_LEVELS.get(text, logging.ERROR)


def _positive(text: str | None) -> int | None:
    # What it is missing for differs, so the feature that needs the number warns, not this module.
    return int(text) if text is not None and re.fullmatch("[1-9][0-9]{0,8}", text) else None


def _dump_ge_graph(text: str | None) -> int:
    if not text or text == "0":
        return 0
    if text not in {"1", "2", "3"}:
        warn_once(
            f"DUMP_GE_GRAPH={text!r} is none of 1 (full), 2 (without weights), 3 (nodes only); nothing is dumped",
            stacklevel=4,
        )
        return 0
    return int(text)


def _break_graph_ops(text: str) -> tuple[str, ...]:
    names = [name.strip().upper() for name in text.split(",") if name.strip()]
    if unknown := [name for name in names if name not in _BREAK_OPS]:
        warn_once(
            f"BREAK_GRAPH_OP_LIST has unknown names {', '.join(unknown)}; there are {', '.join(_BREAK_OPS)}",
            stacklevel=4,
        )
    return tuple(name for name in _BREAK_OPS if name in names)
