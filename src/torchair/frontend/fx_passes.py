"""The passes over the AOT graph that both modes run, in order (specification, F-14)."""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from torch import fx

from torchair import _torch_compat
from torchair.config import Options
from torchair.frontend.cat_slices import RemoveCatOps
from torchair.frontend.custom_pass import CustomPostPass, CustomPrePass
from torchair.frontend.fx_pass import FxPass, FxPassRecord, FxPassRunner
from torchair.frontend.inplace_recovery import RecoverInplaceViews
from torchair.frontend.noop_ops import RemoveNoopOps
from torchair.frontend.pattern_fusion import FusePatterns
from torchair.frontend.replacement import replacements
from torchair.frontend.reshapes import ViewsToReshapes
from torchair.frontend.scope_pairs import check_scopes
from torchair.frontend.symbolic_inputs import RewriteSymbolicInputs
from torchair.logs import logger, npugraph_ex_logger

__all__ = ["FX_PASS_NAMES", "Mode", "OptimizedFx", "capture_passes", "optimize_fx", "run_capture_passes"]

Mode = Literal["ge", "capture"]

#: Names of all passes over FX graphs, in the order in which they run.
FX_PASS_NAMES = tuple(
    p.name
    for p in (
        CustomPrePass,
        RemoveNoopOps,
        RecoverInplaceViews,
        RewriteSymbolicInputs,
        FusePatterns,
        ViewsToReshapes,
        CustomPostPass,
        RemoveCatOps,
    )
)


@dataclass(frozen=True, slots=True)
class OptimizedFx:
    """A graph after the passes.

    Attributes:
        gm: The graph; the one that was given is not changed.
        records: What became of each pass.
        fuel_left: How many further passes, of whatever kind, may change what is compiled; None: no limit.
    """

    gm: fx.GraphModule
    records: tuple[FxPassRecord, ...]
    fuel_left: int | None


def optimize_fx(
    gm: fx.GraphModule,
    inputs: Sequence[Any],
    config: Any,
    options: Options,
    *,
    mode: Mode,
    decompositions: Mapping[Any, Callable[..., Any]] | None = None,
) -> OptimizedFx:
    """Run the FX passes on a private copy of the graph.

    Args:
        inputs: Fake inputs, passed on to the user's passes.
        config: The user's config object, passed on likewise.
        options: Says which passes run.
        mode: Which mode the graph is compiled in; some passes belong to one of them.
        decompositions: The table that the graph was traced with; patterns are traced with it too.

    Raises:
        PassError: A pass raised, or left an invalid graph behind; names the pass, and the user's line where known.
        ScopeError: A scope is opened and not closed, or the other way round.
    """
    log = logger if mode == "ge" else npugraph_ex_logger
    gm = _torch_compat.graph_module(gm, copy.deepcopy(gm.graph))
    runner = FxPassRunner(
        _passes(inputs, config, options, mode, decompositions or {}, log),
        disabled_passes=options.disabled_passes,
        pass_fuel=options.pass_fuel,
        switched_off=_switched_off(options),
        log=log,
    )
    with _torch_compat.no_dispatch_modes():
        records = runner.run(gm)
    check_scopes(gm.graph)
    log.debug("after fx graph optimization, graph is %s", gm.graph)
    return OptimizedFx(gm, records, runner.fuel_left)


def _passes(
    inputs: Sequence[Any],
    config: Any,
    options: Options,
    mode: Mode,
    decompositions: Mapping[Any, Callable[..., Any]],
    log: logging.Logger,
) -> list[FxPass]:
    pre, post = options.post_grad_custom_pre_pass, options.post_grad_custom_post_pass
    ge_only: list[FxPass] = [RewriteSymbolicInputs(log)] if mode == "ge" else []
    return [
        *([CustomPrePass(pre, inputs, config, log)] if pre is not None else []),
        RemoveNoopOps(log),
        RecoverInplaceViews(),
        *ge_only,
        FusePatterns(mode, replacements[mode].snapshot(), decompositions, options.remove_noop_ops),
        *([ViewsToReshapes()] if mode == "ge" else []),
        *([CustomPostPass(post, inputs, config, log)] if post is not None else []),
    ]


def _switched_off(options: Options) -> dict[str, str]:
    switches = {
        RemoveNoopOps.name: ("remove_noop_ops", options.remove_noop_ops),
        FusePatterns.name: ("pattern_fusion_pass", options.pattern_fusion_pass),
        RemoveCatOps.name: ("remove_cat_ops", options.capture.remove_cat_ops),
    }
    return {name: f"{option}=False" for name, (option, on) in switches.items() if not on}


def capture_passes() -> tuple[FxPass, ...]:
    """The passes that capture mode runs between the common ones and reinplacing (specification, F-36)."""
    return (RemoveCatOps(npugraph_ex_logger),)


def run_capture_passes(optimized: OptimizedFx, options: Options) -> OptimizedFx:
    """Run the passes of capture mode on what :func:`optimize_fx` returned; the graph is edited in place.

    Afterwards it is no longer functional: operators write into slices of buffers.

    Raises:
        PassError: A pass raised, or left an invalid graph behind.
    """
    runner = FxPassRunner(
        capture_passes(),
        disabled_passes=options.disabled_passes,
        pass_fuel=optimized.fuel_left,
        switched_off=_switched_off(options),
        log=npugraph_ex_logger,
    )
    with _torch_compat.no_dispatch_modes():
        records = runner.run(optimized.gm)
    return OptimizedFx(optimized.gm, (*optimized.records, *records), runner.fuel_left)
