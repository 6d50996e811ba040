"""Capture mode: FX graph -> FX passes -> reinplacing (-> native programs) -> a plan for each shape key -> replay."""

from __future__ import annotations

import functools
import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch import fx

from torchair import _torch_compat
from torchair.capture.device_life_cycle import CapturedDeviceGraph, device_with_graphs
from torchair.capture.device_semantics import DeviceSemanticsGraph
from torchair.capture.life_cycle import CapturedGraph
from torchair.config import Options
from torchair.errors import Rejection
from torchair.frontend import FxPassRecord, OptimizedFx, optimize_fx, run_capture_passes
from torchair.frontend.dead_nodes import drop_dead_nodes
from torchair.frontend.reinplace import ReinplaceRecord, reinplace
from torchair.frontend.stream_scopes import resolve_streams
from torchair.logs import npugraph_ex_logger as logger, warn_once
from torchair.native import PartitionRecord, fuses_with_copy, replace_regions
from torchair.native.scopes import mark
from torchair.native.support import load_support
from torchair.pipeline.collector import collections_put_off
from torchair.runtime.plan import Plan
from torchair.trace.plan_check import check_captured

__all__ = ["REINPLACE", "CapturedGraph", "capture_graph"]

_numbers = itertools.count(1)

#: What ``disabled_passes``, records and logs call the last pass.
REINPLACE = "reinplace-fx"


@collections_put_off()
def capture_graph(
    gm: fx.GraphModule,
    inputs: Sequence[Any],
    options: Options,
    config: Any = None,
    decompositions: Mapping[Any, Callable[..., Any]] | None = None,
) -> CapturedGraph:
    """Compile an AOT-level FX graph for capture and replay.

    Args:
        gm: The graph; it is not changed.
        inputs: Fake inputs.
        config: The user's config object, for custom passes.
        decompositions: What the graph was traced with.

    Returns:
        A callable that takes one list, the flat arguments of the graph. It captures when it is called.
    """
    number = next(_numbers)
    phase = _torch_compat.aot_phase()
    logger.info("compiler inputs: %s", inputs)
    logger.info("graph: %s", gm.graph)
    optimized = optimize_fx(gm, inputs, config, options, mode="capture", decompositions=decompositions)
    _resolve_streams(optimized.gm, super_kernels=bool(options.capture.native_code) and not options.run_eagerly)
    optimized = run_capture_passes(optimized, options)
    gm = optimized.gm
    drop_dead_nodes(gm.graph)
    on_device = device_with_graphs(gm)
    native_code = bool(options.capture.native_code) and on_device is None and not options.run_eagerly
    record, reinplaced = _reinplace(optimized, options, phase, native_code=native_code)
    gm.recompile()
    logger.debug("graph_%d is captured as %s", number, gm.graph)
    native = None
    if native_code:
        if isinstance(missing := load_support(), Rejection):
            warn_once(f"{options.capture.native_code} has no effect: {missing.reason}.\n{missing.fix}")
        gm, native = replace_regions(gm)
    build: Callable[..., CapturedGraph] = DeviceSemanticsGraph if options.device_semantics else CapturedGraph
    if on_device is not None:
        build = functools.partial(CapturedDeviceGraph, module=on_device[0], device=on_device[1])
    if options.deadlock_check and on_device is not None:
        logger.warning_once("deadlock_check: device graphs have no list of tasks, so nothing is checked")
    return build(
        number,
        gm,
        options,
        # AOTAutograd says it of the forward graph only.
        static_inputs=() if phase == "backward" else _torch_compat.static_input_positions(),
        training=phase in ("forward", "backward", "joint"),
        fx_passes=(*optimized.records, record),
        reinplaced=reinplaced,
        native=native,
        on_plan=functools.partial(_note_plan, number=number, options=options, native=native),
    )


def _note_plan(plan: Plan, number: int, options: Options, native: PartitionRecord | None) -> None:
    """What options say of each plan that is captured."""
    if options.capture.super_kernel_optimize and native is not None and native.programs:
        logger.info("Success to optimize AclGraph{id: %d} with super kernel.", number)
    if options.deadlock_check:
        check_captured(plan, number)


def _resolve_streams(gm: fx.GraphModule, *, super_kernels: bool) -> None:
    """Turn markers of scopes and events into what the recorder reads."""
    logger.debug("before streams and events are resolved, graph is %s", gm.graph)
    with _torch_compat.no_dispatch_modes():
        streams = resolve_streams(gm, super_kernels=super_kernels)
    for node, scope in streams.scopes.items():
        mark([node], node.name, scope)
    logger.debug("after streams and events are resolved, graph is %s", gm.graph)
    if streams.labels:
        logger.info("streams of the graph: %s", ", ".join(map(repr, streams.labels)))


def _reinplace(
    optimized: OptimizedFx, options: Options, phase: str, *, native_code: bool
) -> tuple[FxPassRecord, ReinplaceRecord]:
    """Let operators write in place, as far as the options allow; wrapped operators are unwrapped in any case."""
    skipped = ""
    if REINPLACE in options.disabled_passes:
        skipped = "disabled"
    elif optimized.fuel_left == 0:
        skipped = "no fuel"
    start = time.perf_counter()
    with _torch_compat.no_dispatch_modes():
        record = reinplace(
            optimized.gm,
            intermediates=options.capture.inplace_pass and not skipped,
            inputs=options.capture.input_inplace_pass and not skipped,
            regenerated=() if phase == "backward" else _torch_compat.outputs_made_from_inputs(),
            keep=fuses_with_copy if native_code else None,
        )
    for kept in record.kept:
        logger.debug("%s", kept)
    return FxPassRecord(REINPLACE, time.perf_counter() - start, record.rewrites, skipped), record
