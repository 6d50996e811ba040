"""Option ``device_semantics``: plans on the CPU under the rules of a device graph, so that mistakes show up early.

A device graph has fixed addresses. So has a capture here: outputs lie in memory that the next run overwrites, inputs
are copied into buffers (or into the tensors of the first call), and a parameter or a written input at another address
needs another capture (specification, F-25, F-26, F-30, F-31 and F-33). The mode is for finding faults; it is slower.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Sequence
from typing import Any

import torch
from torch import fx

from torchair import _torch_compat
from torchair.capture.device_limits import written_inputs
from torchair.capture.life_cycle import Capture, CapturedGraph, Key, StaticCapture
from torchair.capture.pools import Pool, named_pool
from torchair.config import Options
from torchair.errors import CaptureError
from torchair.logs import npugraph_ex_logger as logger
from torchair.runtime.instance import Arena, new_arena
from torchair.runtime.plan import Plan

__all__ = ["DeviceSemanticsGraph"]


class _FixedAddresses(StaticCapture):
    """A capture with the memory that it was made with.

    Attributes:
        in_place: Addresses of parameters and written inputs at capture, by position.
        buffers: Inputs that are copied in at each call, by position.
        kept: Inputs of the capturing call that later ones are copied into, by position.
    """

    __slots__ = ("buffers", "in_place", "kept")

    def __init__(self, plan: Plan, pool: Pool, memory: Arena | None, *, one_lane: bool = False) -> None:
        super().__init__(plan, pool, memory, one_lane=one_lane)
        self.in_place: dict[int, int] = {}
        self.buffers: dict[int, torch.Tensor] = {}
        self.kept: dict[int, torch.Tensor] = {}

    def run(self, args: list[Any]) -> list[Any]:
        with torch.no_grad(), _torch_compat.below_autograd():
            for i, buffer in self.buffers.items():
                buffer.copy_(args[i])
                args[i] = buffer
            for i, kept in self.kept.items():
                if args[i].data_ptr() != kept.data_ptr():
                    kept.copy_(args[i])
                    args[i] = kept
        return super().run(args)

    @property
    def nbytes(self) -> int:
        return super().nbytes + sum(b.untyped_storage().nbytes() for b in self.buffers.values())


class DeviceSemanticsGraph(CapturedGraph):
    """One FX graph, captured on the CPU with fixed addresses.

    Args:
        number: Counts the graphs of the process from 1.
        gm: The FX graph as it is captured.
        options: Of the compile.
        training: It is a part of a graph that is trained, which runs eagerly: the next run would overwrite results that
            the backward part reads.
        static_inputs: Positions of parameters and buffers.
        others: As :class:`CapturedGraph` takes them.
    """

    def __init__(
        self,
        number: int,
        gm: fx.GraphModule,
        options: Options,
        *,
        training: bool = False,
        static_inputs: Collection[int] = (),
        **others: Any,
    ) -> None:
        super().__init__(number, gm, options, static_inputs=static_inputs, **others)
        self._written = frozenset(written_inputs(gm.graph))
        self._parameters = sorted(self.static_inputs - self._written)
        self._own_pool = Pool()
        self._memory: Arena | None = None  # of the outputs of all captures
        self._warned = False
        tensors = [isinstance(n.meta.get("val"), torch.Tensor) for n in gm.graph.find_nodes(op="placeholder")]
        self._users = [i for i, t in enumerate(tensors) if t and i not in self.static_inputs | self._written]
        self._returned = frozenset() if self.fallbacks else self._recorder.returned_inputs()
        if training and not self.fallbacks:
            reason = "Graphs that are trained are not captured with device_semantics"
            logger.warning_once(f"{reason}; they run eagerly.")
            warnings.warn(f"{reason}; they run eagerly.", UserWarning, stacklevel=2)
            self._fall_back(reason)

    def plan_for(self, args: Sequence[Any]) -> Plan | None:
        capture = self.captures.get(self._with_addresses(self._read_key(args), args))
        return None if capture is None else capture.plan

    def _wants_static_outputs(self, training: bool) -> bool:
        return self.options.capture.clone_output is not True

    @property
    def _replays_directly(self) -> bool:
        return False

    def _run(self, key: Key, args: list[Any]) -> Sequence[Any]:
        return super()._run(key if self.fallbacks else self._with_addresses(key, args), args)

    def _with_addresses(self, key: Key, args: Sequence[Any]) -> Key:
        if self.options.frozen_parameter or not self._parameters:
            return key
        return (*key, hash(tuple([args[i].data_ptr() for i in self._parameters])))

    def _why_recapture(self, capture: Capture, args: Sequence[Any]) -> str | None:
        assert isinstance(capture, _FixedAddresses)
        if any(args[i].data_ptr() != capture.in_place[i] for i in self._written):
            return "mutated_input_change"
        moved = [i for i in self._parameters if args[i].data_ptr() != capture.in_place[i]]
        if moved:
            raise CaptureError(
                "A frozen parameter has another address than it was captured with",
                why=[f"input {i} is at {args[i].data_ptr():#x}, was at {capture.in_place[i]:#x}" for i in moved],
                fix="A device graph would read the old memory. Leave frozen_parameter out, or do not move parameters.",
            )
        return super()._why_recapture(capture, args)

    def _record(self, key: Key, args: Sequence[Any]) -> Capture:
        capture = super()._record(key, args)
        if self._memory is not None and self.static_outputs and any(k != key for k in self.captures):
            self._warn_of_overwriting()
        return capture

    def _new_capture(self, plan: Plan, args: Sequence[Any]) -> Capture:
        options = self.options.capture
        shares = options.reuse_graph_pool_in_same_fx or options.use_graph_pool is not None
        if options.use_graph_pool is not None:
            pool = named_pool(options.use_graph_pool)
        else:
            pool = self._own_pool if shares else Pool(shared=False)
        if shares and self._memory is None:
            self._memory = new_arena()
        capture = _FixedAddresses(
            plan, pool, self._memory if shares else None, one_lane=self.options.enable_single_stream
        )
        capture.in_place = {i: args[i].data_ptr() for i in (*self._written, *self._parameters)}
        for i in self._users:
            if not isinstance(args[i], torch.Tensor):
                continue
            if options.clone_input and i not in self._returned:
                with torch.inference_mode(mode=False):
                    capture.buffers[i] = torch.empty_like(args[i].detach(), memory_format=torch.preserve_format)
            else:
                capture.kept[i] = args[i].detach()
        return capture

    def _warn_of_overwriting(self) -> None:
        if self._warned:
            return
        self._warned = True
        warnings.warn(
            f"Results of {self.name} lie in memory that captures of other shapes use as well: the next run overwrites "
            "what you keep of them. Copy them, or set clone_output=True.",
            UserWarning,
            stacklevel=2,
        )
