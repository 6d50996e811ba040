"""What a pass over an FX graph is, and the runner that runs passes in order."""

from __future__ import annotations

import abc
import logging
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from torch import fx

from torchair.errors import PassError, ReplacementError
from torchair.frontend.fake_values import NodeError, OldValues
from torchair.logs import logger
from torchair.source_lines import source_line

__all__ = ["FxPass", "FxPassRecord", "FxPassRunner"]


class FxPass(abc.ABC):
    """A transformation of an AOT-level FX graph, in place.

    The first line of a subclass's docstring says what stands before and after. Options are dataclass fields. A pass
    need not compute ``meta["val"]`` of the nodes that it makes: the runner does, and renews what depends on it. It
    does give them the ``meta["stack_trace"]`` of what they replace (:func:`~torchair.frontend.new_nodes.inherit`).

    Attributes:
        name: What ``disabled_passes``, logs and dumps call it: ``"remove-noop-ops"``.
        uses_fuel: Whether ``pass_fuel`` limits it; the user's passes always run.
    """

    name: ClassVar[str]
    uses_fuel: ClassVar[bool] = True

    @abc.abstractmethod
    def run(self, gm: fx.GraphModule) -> int:
        """Transform the graph, and return how many places were rewritten."""

    @classmethod
    def summary(cls) -> str:
        """The first line of the docstring."""
        return (cls.__doc__ or "").strip().partition("\n")[0]


@dataclass(frozen=True, slots=True)
class FxPassRecord:
    """What became of one pass.

    Attributes:
        name: Name of the pass.
        seconds: Time that it took, with the renewal of types.
        rewrites: How many places it rewrote.
        skipped: Why it did not run: ``"disabled"``, ``"no fuel"`` or ``"switched off: remove_noop_ops=False"``; empty
            when it ran.
    """

    name: str
    seconds: float
    rewrites: int
    skipped: str = ""


@dataclass(slots=True)
class FxPassRunner:
    """Runs passes over one graph in order, and keeps a record of each.

    Attributes:
        passes: The passes.
        disabled_passes: Names of passes to leave out; names of other passes may be among them.
        pass_fuel: How many passes may change the graph; then the others are left out. None: no limit.
        switched_off: By name of a pass, the option that leaves it out: ``"remove_noop_ops=False"``.
        log: Where graphs are shown at DEBUG.
    """

    passes: Sequence[FxPass]
    disabled_passes: Collection[str] = ()
    pass_fuel: int | None = None
    switched_off: Mapping[str, str] = field(default_factory=dict)
    log: logging.Logger = logger
    _used: int = field(default=0, init=False)

    @property
    def fuel_left(self) -> int | None:
        """How many further passes, of whatever kind, may change what is compiled; None: no limit."""
        return None if self.pass_fuel is None else max(0, self.pass_fuel - self._used)

    def run(self, gm: fx.GraphModule) -> tuple[FxPassRecord, ...]:
        """Run the passes.

        Raises:
            PassError: A pass raised, or left an invalid graph behind; names the pass.
            ReplacementError: A registered replacement cannot be used.
        """
        return tuple(self._run_one(fx_pass, gm) for fx_pass in self.passes)

    def _run_one(self, fx_pass: FxPass, gm: fx.GraphModule) -> FxPassRecord:
        skipped = self._why_skipped(fx_pass)
        if skipped:
            return FxPassRecord(fx_pass.name, 0.0, 0, skipped)
        start = time.perf_counter()
        before = OldValues.of(gm.graph)
        try:
            rewrites = fx_pass.run(gm)
        except ReplacementError:
            raise  # the user's replacement, not the pass
        except Exception as e:
            raise _failed(fx_pass, e, "A pass over the FX graph failed") from e
        if rewrites:
            self._finish(fx_pass, gm, before)
            self._used += fx_pass.uses_fuel
            self.log.debug("%s made %d rewrites; the graph is %s", fx_pass.name, rewrites, gm.graph)
        return FxPassRecord(fx_pass.name, time.perf_counter() - start, rewrites)

    def _why_skipped(self, fx_pass: FxPass) -> str:
        if fx_pass.name in self.switched_off:
            return f"switched off: {self.switched_off[fx_pass.name]}"
        if fx_pass.name in self.disabled_passes:
            return "disabled"
        return "no fuel" if fx_pass.uses_fuel and self.fuel_left == 0 else ""

    @staticmethod
    def _finish(fx_pass: FxPass, gm: fx.GraphModule, before: OldValues) -> None:
        try:
            gm.graph.lint()
            before.renew(gm)
            gm.recompile()
        except Exception as e:
            raise _failed(fx_pass, e, "A pass over the FX graph left an invalid graph behind") from e


def _failed(fx_pass: FxPass, error: Exception, what: str) -> PassError:
    node: Any = getattr(error, "node", None)
    reason = str(error) if isinstance(error, NodeError) else f"{type(error).__name__}: {error}"
    user = not fx_pass.uses_fuel
    fix = (
        "This is your function: it must leave a graph that computes the same."
        if user
        else (
            f"This is a defect of the pass. Leave it out with disabled_passes = [{fx_pass.name!r}], an option of "
            "npugraph_ex and of config.debug."
        )
    )
    return PassError(
        what,
        why=f"{fx_pass.name}: {reason}",
        fix=getattr(error, "fix", "") or fix,
        where=source_line(node) if isinstance(node, fx.Node) else "",
    )
