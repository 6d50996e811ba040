"""FX graph -> ``runtime.Plan``: decide where each value lives, and write down the launches. Runs no operator.

Sizes, strides and dtypes come from the fake tensors in ``meta["val"]``. A value whose memory nobody outside sees lies
in the arena: its operator writes there through its ``out=`` overload, and views of it are made once, ahead. Graph
outputs are allocated by their operators, so each run returns fresh tensors (or, with ``static_outputs``, the same).
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx

from torchair import _torch_compat
from torchair._torch_compat import OpOverload
from torchair.capture.lanes import Access, LaneOrder, labels_of, within_limit
from torchair.capture.operators import (
    COPIES,
    has_effect,
    is_symbolic_query,
    out_arguments,
)
from torchair.capture.roots import Root, find_roots
from torchair.capture.values import (
    Numbers,
    aliases_arguments,
    call_arguments,
    is_dense_cpu,
    reach,
    tensor_leaves,
    written_arguments,
)
from torchair.native import NativeProgram, bound_launch
from torchair.native.scopes import mark_of
from torchair.runtime.memory import Lifetime, plan_offsets, plan_offsets_of_lanes
from torchair.runtime.order import order_problems
from torchair.runtime.plan import Buffer, Call, Callback, Item, Launch, Native, Plan, Slot, Step, slots_in
from torchair.source_lines import source_line
from torchair.streams import is_record, is_wait

__all__ = ["Recorder", "record"]

aten = torch.ops.aten

#: What stands in ``meta["val"]`` of a node whose value is a number.
_NUMBERS: Any = torch.SymInt | torch.SymFloat | torch.SymBool | int | float | bool


@dataclass(frozen=True, slots=True)
class _Recorded:
    """A step without what is known at the end only."""

    node: fx.Node
    launch: Launch
    label: str
    where: str


@dataclass(slots=True)
class Recorder:
    """Records one FX graph under shape keys.

    Attributes:
        gm: The graph, after all passes.
        static_inputs: Positions of inputs that are parameters or buffers.
        static_outputs: Outputs lie in memory that the next run overwrites.
        explicit_order: The user says which streams wait for which; what he left out is told in ``Plan.unordered``.
        nodes: All but the output.
        roots_of: Nodes whose memory the value of a node may lie in.
        outputs: Arguments of the output.
    """

    gm: fx.GraphModule
    static_inputs: Collection[int] = ()
    static_outputs: bool = False
    explicit_order: bool = False
    nodes: list[fx.Node] = field(init=False, default_factory=list)
    roots_of: dict[fx.Node, frozenset[fx.Node]] = field(init=False, default_factory=dict)
    outputs: tuple[Any, ...] = field(init=False, default=())

    def __post_init__(self) -> None:
        self.nodes = [n for n in self.gm.graph.nodes if n.op != "output"]
        (returned,) = next(n for n in self.gm.graph.nodes if n.op == "output").args
        self.outputs = tuple(returned) if isinstance(returned, list | tuple) else (returned,)
        for node in self.nodes:
            self.roots_of[node] = self._memory_of(node)

    def record(self, symbols: Mapping[Any, int]) -> Plan:
        """The plan for one shape key.

        Args:
            symbols: Symbols of sizes and their values.
        """
        return _Recording(self, Numbers(symbols)).plan()

    def returned_inputs(self) -> frozenset[int]:
        """Positions of the inputs that outputs may lie in."""
        positions = {n: i for i, n in enumerate(n for n in self.nodes if n.op == "placeholder")}
        roots = [root for output in self.outputs if isinstance(output, fx.Node) for root in self.roots_of[output]]
        return frozenset(positions[root] for root in roots if root in positions)

    def _memory_of(self, node: fx.Node) -> frozenset[fx.Node]:
        """Nodes whose memory the value of a node may lie in."""
        if node.op != "call_function":
            return frozenset({node})
        if node.target is operator.getitem:
            return self.roots_of[node.args[0]]  # type: ignore[index]
        if isinstance(node.target, OpOverload):
            shared = _tensors([call_arguments(node.target, node)[i] for i in aliases_arguments(node.target)])
            if shared:
                return frozenset().union(*(self.roots_of[n] for n in shared))
            if not all(t.layout is torch.strided for t in tensor_leaves(node.meta.get("val"))):
                # A sparse tensor is made of others, which its schema does not tell.
                return frozenset({node}).union(*(self.roots_of[n] for n in node.all_input_nodes))
            return frozenset({node})
        if isinstance(node.target, NativeProgram):
            return frozenset({node})
        # Python: nothing is known of it.
        return frozenset({node}).union(*(self.roots_of[n] for n in node.all_input_nodes))


def record(
    gm: fx.GraphModule,
    symbols: Mapping[Any, int],
    *,
    static_inputs: Collection[int] = (),
    static_outputs: bool = False,
    explicit_order: bool = False,
) -> Plan:
    """The plan of an FX graph for one shape key; arguments as of :class:`Recorder`."""
    return Recorder(gm, static_inputs, static_outputs, explicit_order).record(symbols)


def _tensors(value: Any) -> list[fx.Node]:
    found: list[fx.Node] = []
    fx.map_arg(value, lambda n: found.append(n))
    return found


class _Recording:
    """One plan in the making."""

    def __init__(self, recorder: Recorder, numbers: Numbers) -> None:
        self._graph = recorder
        self._numbers = numbers
        self._slots: dict[fx.Node, int] = {}
        self._parts: dict[fx.Node, list[int]] = {}  # slots of the results of a node with several
        self._count = 0
        self._constants: dict[int, Any] = {}
        self._held: set[int] = set()
        self._kept: set[int] = set()
        self._buffers: dict[int, tuple[torch.Tensor, fx.Node]] = {}
        self._held_views: list[Call | Item] = []
        self._kept_views: list[Call] = []
        self._steps: list[_Recorded] = []
        self._roots = find_roots(recorder, numbers)
        self._order: LaneOrder | None = None  # of a plan with several lanes
        self._memory: dict[fx.Node, frozenset[Any]] = {}
        labels = labels_of(recorder.nodes)
        if len(labels) > 1:
            self._order = LaneOrder(labels)
            self._memory = {node: self._memory_of(roots) for node, roots in recorder.roots_of.items()}
        self._returned = set() if recorder.static_outputs else {o for o in recorder.outputs if isinstance(o, fx.Node)}

    def plan(self) -> Plan:
        nodes = self._graph.nodes
        inputs = [n for n in nodes if n.op == "placeholder"]
        for node in inputs:
            self._slots[node] = self._new_slot()
        self._kept = {i for i in self._graph.static_inputs if isinstance(inputs[i].meta.get("val"), torch.Tensor)}
        for node in nodes:
            if node.op == "get_attr":
                self._constant(node)
            elif node.op == "call_function":
                self._node(node)
        outputs = [self._output(o) for o in self._graph.outputs]
        buffers, arena_bytes, static_bytes = self._place()
        steps = self._with_releases(outputs)
        watched = sorted({s for view in self._kept_views for s in view.reads if s < len(inputs)})
        order = self._order
        plan = Plan(
            slots=self._count,
            inputs=len(inputs),
            constants=self._constants,
            buffers=buffers,
            arena_bytes=arena_bytes,
            static_bytes=static_bytes,
            held_views=self._held_views,
            kept_views=self._kept_views,
            watched=watched,
            steps=steps,
            outputs=outputs,
            specs=self._specs(),
            lanes=("",) if order is None else order.lanes,
            unordered=tuple(order.unordered) if order is not None and self._graph.explicit_order else (),
        )
        problems = order_problems(plan)
        assert not problems, "steps are not in order:\n" + "\n".join(problems)
        return plan

    def _specs(self) -> dict[int, tuple[torch.dtype, tuple[int, ...], tuple[int, ...]]]:
        """What is promised of the tensors that differ from run to run."""
        found = {}
        changed = {
            root
            for node in self._graph.nodes
            if isinstance(node.target, OpOverload) and _torch_compat.changes_metadata(node.target)
            for used in node.all_input_nodes
            for root in self._graph.roots_of[used]
        }
        for node, slot in self._slots.items():
            tensor: Any = node.meta.get("val")
            if slot in self._held or not is_dense_cpu(tensor) or not changed.isdisjoint(self._graph.roots_of[node]):
                continue
            sizes, strides = self._numbers.all(tensor.shape), self._numbers.all(tensor.stride())
            if sizes is not None and strides is not None:
                found[slot] = tensor.dtype, sizes, strides
        return found

    # --- where values live ---

    def _place(self) -> tuple[list[Buffer], int, int]:
        """Offsets of the buffers."""
        slots = list(self._buffers)
        shapes: dict[int, tuple[tuple[int, ...], tuple[int, ...], int]] = {}
        for slot, (tensor, _) in self._buffers.items():
            sizes, strides = self._numbers.all(tensor.shape), self._numbers.all(tensor.stride())
            assert sizes is not None
            assert strides is not None
            shapes[slot] = sizes, strides, reach(sizes, strides) * tensor.dtype.itemsize
        static = {s for s in slots if self._roots[self._buffers[s][1]].returned}
        offsets: dict[int, int] = {}
        totals = []
        for kind in (False, True):
            these = [s for s in slots if (s in static) == kind]
            end = len(self._graph.nodes)
            lives = []
            for s in these:
                root = self._roots[self._buffers[s][1]]
                first, last = (0, end) if kind else (root.first, root.last)
                lives.append(Lifetime(first, last, shapes[s][2]))
            if self._order is None or kind:
                found, total = plan_offsets(lives)
            else:
                found, total = self._place_over_lanes(these, [life.nbytes for life in lives])
            offsets.update(zip(these, found, strict=True))
            totals.append(total)
        buffers = [
            Buffer(s, self._buffers[s][0].dtype, offsets[s], shapes[s][0], shapes[s][1], static=s in static)
            for s in slots
        ]
        return buffers, totals[0], totals[1]

    def _place_over_lanes(self, slots: Sequence[int], sizes: Sequence[int]) -> tuple[list[int], int]:
        """Offsets of these buffers."""
        order = self._order
        assert order is not None
        uses = [order.uses(self._buffers[s][1], n) for s, n in zip(slots, sizes, strict=True)]
        planned, total = plan_offsets_of_lanes([u for u in uses if u is not None], order.horizons())
        found = iter(planned)
        # What nobody uses may lie anywhere.
        offsets = [0 if u is None else next(found) for u in uses]
        unused = max((n for u, n in zip(uses, sizes, strict=True) if u is None), default=0)
        return offsets, max(total, unused)

    def _memory_of(self, roots: Collection[fx.Node]) -> frozenset[Any]:
        """Memory as lanes know it: a constant of several names is one."""
        return frozenset(self._constant_memory(r) if r.op == "get_attr" else r for r in roots)

    def _constant_memory(self, node: fx.Node) -> Any:
        value = _attribute(self._graph.gm, str(node.target))
        is_memory = isinstance(value, torch.Tensor) and value.layout is torch.strided
        return ("constant", _torch_compat.storage_id(value)) if is_memory else node

    # --- nodes ---

    def _new_slot(self) -> int:
        self._count += 1
        return self._count - 1

    def _constant(self, node: fx.Node) -> None:
        value = _attribute(self._graph.gm, str(node.target))
        slot = self._slots[node] = self._new_slot()
        self._constants[slot] = value.detach() if isinstance(value, torch.Tensor) else value
        self._held.add(slot)

    def _node(self, node: fx.Node) -> None:
        if self._is_known_number(node):
            return
        if is_record(node) or is_wait(node):
            self._event(node)
        elif node.target is operator.getitem:
            self._item(node)
        elif isinstance(node.target, OpOverload) and not is_symbolic_query(node.target):
            self._call(node, node.target)
        elif isinstance(node.target, NativeProgram):
            self._native(node, node.target)
        else:
            self._python(node)

    def _event(self, node: fx.Node) -> None:
        if self._order is not None:
            (self._order.record if is_record(node) else self._order.wait)(node)
        if not all(is_wait(user) for user in node.users):  # the token is an empty tensor
            slot = self._slots[node] = self._new_slot()
            self._constants[slot] = torch.empty(0)
            self._held.add(slot)

    def _is_known_number(self, node: fx.Node) -> bool:
        value = node.meta.get("val")
        numbers: Any = torch.SymInt | torch.SymFloat | torch.SymBool
        if node.op != "placeholder":  # an input that is a plain number is what each call passes
            numbers = numbers | int | float | bool
        return isinstance(value, numbers) and self._numbers.value(value) is not None and not has_effect(node)

    def _argument(self, value: Any) -> Any:
        """An argument of a call as the plan says it."""
        if isinstance(value, fx.Node):
            if value in self._parts and value not in self._slots:
                return [Slot(slot) for slot in self._parts[value]]
            if value in self._slots:
                if value.op == "placeholder" and self._is_known_number(value):
                    return self._numbers.value(value.meta["val"])
                return Slot(self._slots[value], number=isinstance(value.meta.get("val"), _NUMBERS))
            return self._known(value.meta["val"])
        if isinstance(value, list | tuple):
            return [self._argument(v) for v in value]
        return self._known(value)

    def _known(self, value: Any) -> Any:
        """A value that no slot holds, a symbolic number as the number that it is under the shape key."""
        found = self._numbers.value(value)
        assert found is not None or value is None, f"{value} is neither in the graph nor decided by the shape key"
        return found

    def _call(self, node: fx.Node, op: OpOverload) -> None:
        given = call_arguments(op, node)
        args = [self._argument(a) for a in given]
        root = self._roots.get(node)
        if root is not None and root.planned:
            self._planned(node, op, root, args)
            return
        shared = aliases_arguments(op)
        written = written_arguments(op)
        if written:
            self._writing(node, op, args, written)
            return
        slots = slots_in(args)
        shared = [] if node in self._returned else shared  # each run returns tensors of its own
        if shared and slots and all(s in self._held for s in slots):
            view = self._results(node, op, args)
            self._held_views.append(view)
            self._held.update(s for s in view.results if s >= 0)
            return
        single = isinstance(node.meta.get("val"), torch.Tensor)
        if shared and slots and single and all(s in self._held or s in self._kept for s in slots):
            self._kept_views.append(self._results(node, op, args))
            self._kept.update(s for s in self._kept_views[-1].results if s >= 0)
            return
        self._step(self._results(node, op, args), node)

    def _planned(self, node: fx.Node, op: OpOverload, root: Root, args: list[Any]) -> None:
        value = node.meta["val"]
        results = list(value) if isinstance(value, list | tuple) else [value]
        slots = [self._new_slot() for _ in results]
        for slot, tensor in zip(slots, results, strict=True):
            self._buffers[slot] = tensor, node
            self._held.add(slot)
        if isinstance(value, list | tuple):
            self._parts[node] = slots
        else:
            self._slots[node] = slots[0]
        if root.out is not None:
            filled = (*args, *out_arguments(op), *(Slot(s) for s in slots))
            self._step(Call(root.out, filled, (), may_alias=True), node)
        elif op._schema.name in COPIES:
            self._step(Call(aten.copy_.default, (Slot(slots[0]), args[0], False), (), may_alias=True), node)

    def _native(self, node: fx.Node, program: NativeProgram) -> None:
        """A native program; its results lie in the arena unless one of them is returned or must lie alone."""
        args = tuple(self._slots[a] for a in node.args if isinstance(a, fx.Node))
        root = self._roots[node]
        results = [self._new_slot() for _ in node.meta["val"]]
        self._parts[node] = results
        fresh = root.alone or (root.returned and not self._graph.static_outputs)
        if not fresh:
            for slot, tensor in zip(results, node.meta["val"], strict=True):
                self._buffers[slot] = tensor, node
                self._held.add(slot)
        bound = program.bind(self._numbers.symbols)
        workspace = self._new_slot()
        step = self._graph.nodes.index(node)
        self._roots[scratch := fx.Node(node.graph, "scratch", "call_function", program, (), {})] = Root(step, step)
        self._buffers[workspace] = torch.empty(max(bound.workspace, 1), dtype=torch.uint8, device="meta"), scratch
        self._held.add(workspace)
        self._step(bound_launch(program, bound, args, results, workspace, fresh=fresh), node)

    def _writing(self, node: fx.Node, op: OpOverload, args: list[Any], written: Sequence[int]) -> None:
        """An operator that writes arguments: a result that is one of them is the value in its slot."""
        returns = op._schema.returns
        same: list[int | None] = [self._written_slot(op, r, args, written) for r in returns]
        if len(returns) == 1 and same[0] is not None:
            self._slots[node] = same[0]
            self._step(Call(op, tuple(args), (), may_alias=True), node)
        elif any(s is not None for s in same):
            slots = [self._new_slot() if s is None else s for s in same]
            self._parts[node] = slots
            results = tuple(slot if s is None else -1 for s, slot in zip(same, slots, strict=True))
            self._step(Call(op, tuple(args), results, may_alias=True), node)
        else:
            self._step(self._results(node, op, args), node)

    @staticmethod
    def _written_slot(op: OpOverload, returned: Any, args: Sequence[Any], written: Sequence[int]) -> int | None:
        if returned.alias_info is None:
            return None
        for i in written:
            info = op._schema.arguments[i].alias_info
            labels = returned.alias_info.before_set
            if info is not None and labels and info.before_set == labels and isinstance(args[i], Slot):
                return int(args[i].index)
        return None

    def _results(self, node: fx.Node, op: OpOverload, args: Sequence[Any]) -> Call:
        """The call with a slot for each result."""
        count = len(op._schema.returns)
        if count == 0:
            results: tuple[int, ...] = ()
        elif count == 1:
            slot = self._slots[node] = self._new_slot()
            results = (slot,)
        else:
            used = {u.args[1] for u in node.users if u.target is operator.getitem}
            self._parts[node] = [self._new_slot() if i in used else -1 for i in range(count)]
            results = tuple(self._parts[node])
        return Call(op, tuple(args), results, may_alias=bool(aliases_arguments(op)))

    def _item(self, node: fx.Node) -> None:
        container, index = node.args
        assert isinstance(container, fx.Node)
        assert isinstance(index, int)
        if container in self._parts:
            self._slots[node] = self._parts[container][index]
            return
        slot = self._slots[node] = self._new_slot()
        item = Item(self._slots[container], index, slot)
        if item.container in self._held:
            self._held_views.append(item)
            self._held.add(slot)
        else:
            self._step(item, node)

    def _python(self, node: fx.Node) -> None:
        """Python runs it: arithmetic on numbers known only at run time, and operators that take functions."""
        slots: list[int] = []

        def placed(argument: Any) -> Any:
            """The argument with places in the list of values instead of slots."""
            if isinstance(argument, Slot):
                slots.append(argument.index)
                return Slot(len(slots) - 1)
            return [placed(a) for a in argument] if isinstance(argument, list) else argument

        arguments = {used: placed(self._whole(used)) for used in node.all_input_nodes}
        value = node.meta.get("val")
        several = isinstance(value, list | tuple) and all(u.target is operator.getitem for u in node.users)
        if several:
            results = [self._new_slot() for _ in value or ()]
            self._parts[node] = results
        else:
            results = [self._new_slot()]
            self._slots[node] = results[0]
        self._step(Callback(_python_call(node, arguments, several), tuple(slots), tuple(results)), node)

    def _whole(self, node: fx.Node) -> Any:
        return self._constants[self._slots[node]] if node.op == "get_attr" else self._argument(node)

    def _step(self, launch: Launch, node: fx.Node) -> None:
        if self._order is not None:
            self._order.add(node, launch, self._access(node, launch))
        self._steps.append(_Recorded(node, launch, f"{_target(node)} (node {node.name})", source_line(node)))

    def _access(self, node: fx.Node, launch: Launch) -> Access:
        access = Access.of(node, launch, self._memory)
        if isinstance(launch, Native):
            access.makes.add(self._buffers[launch.workspace][1])
        return access

    def _output(self, value: Any) -> int:
        argument = self._argument(value)
        if isinstance(argument, Slot):
            return argument.index
        slot = self._new_slot()
        self._constants[slot] = argument
        self._held.add(slot)
        return slot

    def _with_releases(self, outputs: Sequence[int]) -> list[Step]:
        touching: dict[int, list[int]] = {}
        for i, step in enumerate(self._steps):
            for slot in {*step.launch.reads, *step.launch.writes}:
                if slot >= 0:
                    touching.setdefault(slot, []).append(i)
        stay = {*outputs, *self._held, *self._kept}
        gone: dict[int, list[int]] = {}
        order = self._order
        for slot, steps in touching.items():
            last = steps[-1] if order is None else order.ends_all(steps)
            if slot not in stay and last is not None:
                gone.setdefault(last, []).append(slot)
        workers = torch.get_num_threads()
        cores = [0] * len(self._steps) if order is None else order.cores(workers)
        found = []
        for i, step in enumerate(self._steps):
            mark = mark_of(step.node)
            limit = mark.limit if mark is not None else None
            limited, alone = (within_limit(step.node, limit, n) for n in (cores[i], 0))
            found.append(
                Step(
                    step.launch,
                    tuple(gone.get(i, ())),
                    step.label,
                    step.where,
                    lane=0 if order is None else order.clocks.lane[i],
                    after=() if order is None else order.after[i],
                    cores=0 if limited >= workers else limited,
                    limit=0 if alone >= workers else alone,
                )
            )
        return found


def _attribute(module: Any, name: str) -> Any:
    for part in name.split("."):
        module = getattr(module, part)
    return module


def _python_call(node: fx.Node, arguments: Mapping[fx.Node, Any], several: bool) -> Callable[[list[Any]], list[Any]]:
    target: Any = node.target

    def run(values: list[Any]) -> list[Any]:
        def fill(argument: Any) -> Any:
            if isinstance(argument, Slot):
                return values[argument.index]
            return [fill(a) for a in argument] if isinstance(argument, list) else argument

        args, kwargs = fx.map_arg((node.args, node.kwargs), lambda n: fill(arguments[n]))
        result = target(*args, **kwargs)
        return list(result) if several else [result]

    return run


def _target(node: fx.Node) -> str:
    name = None if isinstance(node.target, OpOverload) else getattr(node.target, "__name__", None)
    return str(node.target) if name is None else str(name)
