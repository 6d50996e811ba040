"""One FX graph of a device in capture mode: a device graph for each key, under the same rules as plans.

Besides sizes, the key has what a device graph cannot be told later: numbers among the inputs, and where parameters lie.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx

from torchair import _torch_compat
from torchair.capture.device_graph import DeviceCapture, has_device_graphs
from torchair.capture.device_limits import device_of, written_inputs
from torchair.capture.device_memory import DevicePool
from torchair.capture.life_cycle import CapturedGraph, Key
from torchair.capture.pools import Pool
from torchair.config import Options
from torchair.errors import CaptureError
from torchair.logs import npugraph_ex_logger as logger
from torchair.report import CaptureRecord, Recapture
from torchair.runtime.plan import Plan

__all__ = ["CapturedDeviceGraph", "device_with_graphs"]


def device_with_graphs(gm: fx.GraphModule) -> tuple[Any, torch.device] | None:
    """The module and the device of a graph that can be captured there; None for a graph of the CPU."""
    device = device_of(gm)
    module = None if device is None else getattr(torch, device.type, None)
    return None if device is None or not has_device_graphs(module) else (module, device)


class CapturedDeviceGraph(CapturedGraph):
    """One FX graph, captured on its device once for each key and replayed.

    Args:
        number: Counts the graphs of the process from 1.
        gm: The FX graph as it is captured.
        options: Of the compile.
        module: The device's module, such as ``torch.cuda``.
        device: Where the graph runs.
        training: It is the forward or the backward part of a graph that is trained, which runs eagerly: results of the
            forward part, which the backward part reads, would be overwritten by the next run.
        others: As :class:`CapturedGraph` takes them.
    """

    has_plans = False
    _failed_once = False

    def __init__(
        self,
        number: int,
        gm: fx.GraphModule,
        options: Options,
        *,
        module: Any,
        device: torch.device,
        training: bool = False,
        **others: Any,
    ) -> None:
        super().__init__(number, gm, options, training=False, **others)
        self.captures: dict[Key, DeviceCapture]  # type: ignore[assignment]
        self._module, self._device = module, device
        self._written = frozenset(written_inputs(gm.graph))
        capture = options.capture
        self._device_pool = DevicePool(module, capture.use_graph_pool, reuse=capture.reuse_graph_pool_in_same_fx)
        self._fixed = [] if options.frozen_parameter else sorted(self.static_inputs - self._written)
        self._numbers = [
            i
            for i, node in enumerate(n for n in gm.graph.nodes if n.op == "placeholder")
            if not isinstance(node.meta.get("val"), torch.Tensor) and any(u.op != "output" for u in node.users)
        ]
        if training and not self.fallbacks:
            reason = "Graphs that are trained are not captured on a device"
            logger.warning_once(f"{reason}; they run eagerly.")
            warnings.warn(f"{reason}; they run eagerly.", UserWarning, stacklevel=2)
            self._fall_back(reason)

    def __call__(self, args: list[Any]) -> Sequence[Any]:
        """Run with the flat arguments of the FX graph; the list is emptied."""
        if self.fallbacks:
            return self._run((), args)
        key = self._device_key(args)
        capture = self.captures.get(key)
        if capture is None or self.options.capture.force_recapture:
            return self._run(key, args)
        return self._replay(capture, args)

    def records(self) -> list[CaptureRecord]:
        return [
            CaptureRecord(self.name, str(list(key)) if key else "no_updated_input", self.operators, c.held_bytes, 0)
            for key, c in list(self.captures.items())
        ]

    def plans(self) -> list[tuple[CaptureRecord, Plan]]:
        """A device graph has no plan."""
        return []

    def plan_for(self, args: Sequence[Any]) -> Plan | None:
        """A device graph has no plan."""
        return None

    def pools(self) -> list[Pool]:
        """Memory of devices lies in no arena: ``records`` say what each capture added."""
        return []

    def _device_key(self, args: Sequence[Any]) -> Key:
        return (
            *self._read_key(args),
            *[args[i] for i in self._numbers],
            *([hash(tuple([args[i].data_ptr() for i in self._fixed]))] if self._fixed else ()),
        )

    def _record(self, key: Key, args: Sequence[Any]) -> Any:
        capture = self.options.capture
        return DeviceCapture(
            self.gm,
            args,
            device_module=self._module,
            device=self._device,
            pool=self._device_pool,
            capture_error_mode=capture.capture_error_mode,
            clone_input=capture.clone_input,
            clone_output=capture.clone_output,
            static_inputs=self.static_inputs,
            mutated_inputs=self._written,
            frozen_parameter=True,  # the key has the addresses, unless they are promised to stay
            on_recapture=self._recapture_noted(key),
        )

    def _recapture_noted(self, key: Key) -> Callable[[str], None]:
        def note(reason: str) -> None:
            logger.info("The current AclGraph needs to be recaptured: %s of fx_graph %s", reason, self.name)
            _torch_compat.counters("npugraph_ex")[f"recapture_due_to_{reason}_{self.name}"] += 1
            self.recaptures.append(Recapture(self.name, str(list(key)), reason))

        return note

    @property
    def _replays_directly(self) -> bool:
        return False

    def _replay(self, capture: Any, args: list[Any]) -> Sequence[Any]:
        held = capture.held_bytes
        try:
            results: Sequence[Any] = capture.run(args)
        except CaptureError as error:  # of another capture, for which nothing has run yet
            self._give_up(error, self._device_key(args))
            return self._run_eagerly(args)
        if capture.held_bytes > held:  # it was captured anew
            self._keep_bounds(capture)
        return results

    def _give_up(self, error: CaptureError, key: Key | None = None) -> None:
        """Run eagerly; after the first failed capture only once, since libraries make themselves ready in that run."""
        if error.__cause__ is not None and not self._failed_once:
            self._failed_once = True
            logger.info("%s runs eagerly once, and is captured again then: %s", self.name, "; ".join(error.why))
            return
        super()._give_up(error, key)
