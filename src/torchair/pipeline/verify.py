"""Option ``verify_every``: every k-th call of a graph also runs eagerly, and the first operator that differs is named.

What is compared is what a caller sees: outputs, and inputs after the call. The eager run is the graph as AOTAutograd
made it, before any pass of ours, node by node on copies of the inputs, with the random numbers of the call. Only when
something differs are single operators compared.
"""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import fx

from torchair import _torch_compat
from torchair._torch_compat import OpOverload
from torchair.capture.device_limits import written_inputs
from torchair.capture.life_cycle import CapturedGraph
from torchair.errors import VerificationError
from torchair.pipeline.argument_copies import ArgumentCopies, unseen_sharing
from torchair.pipeline.ge_mode import CompiledGraph
from torchair.runtime.instance import Instance, new_arena
from torchair.runtime.plan import Call, Callback, Item, Launch, Plan, Slot, Step
from torchair.source_lines import source_line

__all__ = ["VerifiedGraph", "captured_steps", "compiled_steps", "has_random"]

#: Largest difference in units of ``max(1, |eager|)`` that reordered sums explain. Exact types have none.
_TOLERANCES = {torch.float64: 1e-7, torch.float32: 1e-4, torch.float16: 2e-2, torch.bfloat16: 4e-2}
_EXACT = 0.0

#: Name of an FX node, its operator, and what it computed.
Seen = tuple[str, str, list[torch.Tensor]]


@dataclass(frozen=True, slots=True)
class _Difference:
    """How far a tensor is from what eager mode gives."""

    what: str
    largest: str

    def __str__(self) -> str:
        return f"{self.what} differs: {self.largest}"


class VerifiedGraph:
    """A compiled graph that checks itself.

    Args:
        inner: The compiled graph.
        gm: The graph as AOTAutograd made it.
        every: Which calls are checked: every so many.
        intermediate: Takes arguments and yields what the compiled graph computes, operator by operator.
    """

    _boxed_call = True

    def __init__(
        self,
        inner: CompiledGraph | CapturedGraph,
        gm: fx.GraphModule,
        every: int,
        intermediate: Callable[[list[Any]], Iterator[Seen]],
    ) -> None:
        self.inner = inner
        self.check = inner.check
        self._gm = gm
        self._every = every
        self._intermediate = intermediate
        self._calls = 0
        self._written = frozenset(written_inputs(gm.graph))

    def __call__(self, args: list[Any]) -> Sequence[Any]:
        """Run with the flat arguments of the FX graph; the list is emptied.

        Raises:
            VerificationError: This call was checked, and differs from eager mode.
        """
        self._calls += 1
        if self._calls % self._every:
            return self.inner(args)
        given = list(args)
        copies = ArgumentCopies(given)
        before = _random_state()
        outputs = self.inner(args)
        after = _random_state()
        try:
            self._compare(given, outputs, copies, before)
        finally:
            _set_random_state(after)
        return outputs

    def _compare(self, given: Sequence[Any], outputs: Sequence[Any], copies: ArgumentCopies, before: Any) -> None:
        if self._depends_on_order(given):
            return
        theirs = copies.fresh()
        _set_random_state(before)
        with _torch_compat.below_autograd(), torch.no_grad():
            expected = fx.Interpreter(self._gm).run(*theirs)
        differences = [
            *_differences("output", outputs, expected),
            *_differences("input", given, theirs),
        ]
        if differences:
            raise self._error(differences, copies, before)

    def _depends_on_order(self, given: Sequence[Any]) -> bool:
        """Whether inputs share memory unseen by PyTorch; then the graph does not say what eager mode computes."""
        names = [node.name for node in self._gm.graph.find_nodes(op="placeholder")]
        shared = list(unseen_sharing(given, self._written))
        for i, j in shared:
            warnings.warn(
                f"verify_every leaves out calls where the inputs {names[i]} and {names[j]} share memory: each has a "
                "storage of its own, so PyTorch takes them for independent, and what a graph reads of one after it "
                "writes the other is left to chance. Let one be a view of the other.",
                UserWarning,
                stacklevel=2,
            )
        return bool(shared)

    def _error(self, differences: Sequence[_Difference], copies: ArgumentCopies, before: Any) -> VerificationError:
        wanted = _Recording(self._gm)
        _set_random_state(before)
        with _torch_compat.below_autograd(), torch.no_grad():
            wanted.run(*copies.fresh())
        _set_random_state(before)
        made: list[str] = []  # what passes put where operators of the graph were
        for name, operator, values in self._intermediate(copies.fresh()):
            known = wanted.values.get(name)
            if known is None or len(known) != len(values):
                made.append(f"{operator} (node {name})")
                continue
            found = list(_differences("result", values, known))
            if found:
                node = wanted.nodes[name]
                after = [f"it follows {', '.join(made)}, which passes made"] if made else []
                return _differs([f"{operator} (node {name}): {found[0]}", *after], source_line(node))
            made = []
        reasons = [str(d) for d in differences]
        return _differs([*reasons, "no single operator does, when they run again one by one"], "")


def _differs(why: Sequence[str], where: str) -> VerificationError:
    return VerificationError(
        "A compiled graph differs from eager mode",
        why=why,
        fix=(
            "If this operator is yours, torchair.check_operator compares its kernels.\n"
            "Otherwise this is a defect of TorchAir: options that leave passes out show which one causes it."
        ),
        where=where,
    )


class _Recording(fx.Interpreter):
    """Runs a graph and keeps a copy of each result, as it was when it was computed."""

    def __init__(self, gm: fx.GraphModule) -> None:
        super().__init__(gm)
        self.values: dict[str, list[torch.Tensor]] = {}
        self.nodes: dict[str, fx.Node] = {}

    def run_node(self, n: fx.Node) -> Any:
        """Run a node."""
        result = super().run_node(n)
        if n.op == "call_function":
            self.nodes[n.name] = n
            self.values[n.name] = [t.clone() for t in _tensors(result)]
        return result


def _tensors(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    return [t for v in value for t in _tensors(v)] if isinstance(value, list | tuple) else []


# --- operators of a captured graph -------------------------------------------------------------------------------


def captured_steps(graph: CapturedGraph) -> Callable[[list[Any]], Iterator[Seen]]:
    """What the plan of a captured graph computes, launch by launch, through the runtime that runs it always."""

    def run(args: list[Any]) -> Iterator[Seen]:
        plan = graph.plan_for(args)
        seen: list[Seen] = []
        if plan is None:  # it runs eagerly, or as a device graph, which cannot be looked into
            with _torch_compat.below_autograd(), torch.no_grad():
                recording = _Recording(graph.gm)
                recording.run(*args)
            seen += [(name, _operator(recording.nodes[name]), found) for name, found in recording.values.items()]
        else:
            Instance(_observed(plan, seen), new_arena()).run(args)
        yield from seen

    return run


def _operator(node: fx.Node) -> str:
    return str(node.target) if isinstance(node.target, OpOverload) else getattr(node.target, "__name__", "?")


def _observed(plan: Plan, seen: list[Seen]) -> Plan:
    """The same plan, with a look at what each launch wrote."""
    steps: list[Step] = []
    for step in plan.steps:
        operator, _, name = step.label.removesuffix(")").rpartition(" (node ")

        def look(values: list[Any], name: str = name, operator: str = operator) -> list[Any]:
            seen.append((name, operator, [t.clone() for v in values for t in _tensors(v)]))
            return []

        steps.append(replace(step, release=()))
        written = tuple(_written(step.launch))
        steps.append(Step(Callback(look, written, ()), step.release, f"a look at {step.label}", step.where))
    return replace(plan, steps=steps)


def _written(launch: Launch) -> Iterator[int]:
    if isinstance(launch, Item):
        yield launch.result
        return
    if isinstance(launch, Call) and not any(r >= 0 for r in launch.results):
        for argument, value in zip(launch.op._schema.arguments, launch.args, strict=True):
            if argument.alias_info is not None and argument.alias_info.is_write and isinstance(value, Slot):
                yield value.index
    yield from (r for r in launch.results if r >= 0)


# --- operators of a GE mode graph ---------------------------------------------------------------------------------


def compiled_steps(
    gm: fx.GraphModule, compile_all: Callable[[fx.GraphModule, Sequence[Any]], Callable[[list[Any]], Sequence[Any]]]
) -> Callable[[list[Any]], Iterator[Seen]]:
    """What a graph of GE mode computes: the graph compiled again, with the results of all operators as outputs.

    Args:
        gm: The graph as AOTAutograd made it.
        compile_all: Compiles a graph as this one was.
    """

    def run(args: list[Any]) -> Iterator[Seen]:
        graph = copy.deepcopy(gm.graph)
        nodes = [n for n in graph.nodes if n.op == "call_function" and isinstance(n.meta.get("val"), torch.Tensor)]
        nodes = [n for n in nodes if n.target is not torch.ops.aten.copy_.default]
        graph.output_node().args = (nodes,)
        results = compile_all(fx.GraphModule(gm, graph), [n.meta["val"] for n in graph.find_nodes(op="placeholder")])(
            args
        )
        yield from ((n.name, _operator(n), [value]) for n, value in zip(nodes, results, strict=True))

    return run


# --- comparing ---------------------------------------------------------------------------------------------------


def _differences(what: str, mine: Sequence[Any], theirs: Sequence[Any]) -> Iterator[_Difference]:
    for i, (a, b) in enumerate(zip(mine, theirs, strict=True)):
        found = _difference(a, b)
        if found:
            yield _Difference(f"{what} {i}", found)


def _difference(mine: Any, theirs: Any) -> str:
    """How two values differ; empty when they agree."""
    if not isinstance(theirs, torch.Tensor) or not isinstance(mine, torch.Tensor):
        return "" if type(mine) is type(theirs) and mine == theirs else f"{mine!r} where eager mode gives {theirs!r}"
    if mine.dtype != theirs.dtype or mine.shape != theirs.shape:
        return f"{_type(mine)} where eager mode gives {_type(theirs)}"
    if theirs.layout is not torch.strided:
        mine, theirs = mine.to_dense(), theirs.to_dense()
    if theirs.is_quantized:
        mine, theirs = mine.int_repr(), theirs.int_repr()
    if mine.numel() == 0 or torch.equal(mine, theirs):
        return ""
    if mine.is_complex():
        mine, theirs = torch.view_as_real(mine.resolve_conj()), torch.view_as_real(theirs.resolve_conj())
    allowed = _TOLERANCES.get(theirs.dtype, _EXACT)
    a, b = mine.double(), theirs.double()
    same = (a == b) | (a.isnan() & b.isnan())
    away = torch.where(same, 0.0, (a - b).abs())
    away = torch.where(away.isnan(), math.inf, away)
    scaled = away / b.abs().clamp(min=1.0).nan_to_num(nan=1.0, posinf=1.0)
    if bool((scaled <= allowed).all()):
        return ""
    at = int(scaled.argmax())
    index = ", ".join(str(int(i)) for i in torch.unravel_index(torch.tensor(at), scaled.shape)) if scaled.dim() else ""
    return (
        f"by up to {float(away.flatten()[at]):.3g}, at [{index}]: "
        f"{float(a.flatten()[at]):.6g} where eager mode gives {float(b.flatten()[at]):.6g}"
    )


def _type(tensor: torch.Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')}{list(tensor.shape)}"


def has_random(graph: fx.Graph) -> bool:
    """Whether a graph draws random numbers."""
    return any(
        isinstance(node.target, OpOverload) and torch.Tag.nondeterministic_seeded in node.target.tags
        for node in graph.nodes
    )


def _random_state() -> tuple[torch.Tensor, Any]:
    return torch.get_rng_state(), torch.cuda.get_rng_state_all() if torch.cuda.is_available() else None


def _set_random_state(state: tuple[torch.Tensor, Any]) -> None:
    torch.set_rng_state(state[0])
    if state[1] is not None:
        torch.cuda.set_rng_state_all(state[1])
