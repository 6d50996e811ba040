"""The IR graph: nodes over typed values, every edit through a method that keeps use lists right.

A value is compared by identity; its name is a hint for printing. The order of nodes in a graph is an execution order:
an operator that overwrites an input or has side effects is ordered by it, and passes keep it so.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from torchair.errors import ArgumentError, IRError
from torchair.ir.types import Dim, DType, TensorType

__all__ = [
    "Attr",
    "Blob",
    "Call",
    "Graph",
    "Literal",
    "Node",
    "Operand",
    "Origin",
    "OutputSpec",
    "Slot",
    "Use",
    "Value",
]


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a node comes from.

    Attributes:
        fx_node: Name of the FX node, ``""`` for nodes made by passes.
        fx_target: Its target, ``"aten.add.Tensor"``.
        source: The user's line, ``"model.py:5, in forward: return torch.sin(x)"``.
    """

    fx_node: str = ""
    fx_target: str = ""
    source: str = ""


@dataclass(frozen=True, slots=True)
class Slot:
    """In a :class:`Call`: the node's operand number ``index``, counted over flattened inputs.

    ``host`` passes its content as a Python number.
    """

    index: int
    host: bool = False


@dataclass(frozen=True, slots=True)
class Attr:
    """In a :class:`Call`: the node's attribute of that name."""

    name: str


@dataclass(frozen=True, slots=True)
class Blob:
    """In an attribute: a constant tensor, kept in ``Graph.blobs`` under this name."""

    name: str


@dataclass(frozen=True, slots=True)
class Call:
    """A dispatcher call that computes a node: the torch overload, and how its arguments come from the node.

    Attributes:
        target: ``"aten::sin.default"``.
        args, kwargs: Trees of tuples (lists), literals, :class:`Slot` and :class:`Attr`; a tagged literal is a
            ``(tag, text)`` pair wrapped in :class:`Literal`.
        writes: Flattened operand numbers that the call writes in place; they stand before what it returns.
        order: For each output of the node, which of these (written operands, then returned values) it is; empty when
            they stand in the node's order.
    """

    target: str
    args: tuple[Any, ...] = ()
    kwargs: tuple[tuple[str, Any], ...] = ()
    writes: tuple[int, ...] = ()
    order: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Literal:
    """A value of torch in a :class:`Call`, such as ``Literal("dtype", "float32")``.

    Kinds: dtype, device, layout, memory_format.
    """

    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class OutputSpec:
    """How the caller wants a graph output.

    Attributes:
        kind: ``"tensor"``, ``"none"``, or the Python type of a host number: ``"int"``, ``"float"``, ``"bool"``.
        strides: Eager's strides of a tensor; None where they do not matter.
    """

    kind: str = "tensor"
    strides: tuple[Dim, ...] | None = None


@dataclass(frozen=True, slots=True)
class Use:
    """One place that reads a value: input ``index`` of ``node``, element ``element`` when that input is a list."""

    node: Node
    index: int
    element: int | None = None


class Value:
    """A tensor in the graph: its type, who makes it, who reads it.

    Converters see values as ``torchair.ge.Tensor``.
    """

    __slots__ = ("_uses", "graph", "index", "name", "producer", "type")

    def __init__(self, graph: Graph, type: TensorType, producer: Node | None, index: int, name: str) -> None:
        self.graph = graph
        self.type = type
        self.producer = producer
        self.index = index
        self.name = name
        self._uses: dict[Use, None] = {}

    @property
    def uses(self) -> tuple[Use, ...]:
        """Every place in a node that reads the value (graph outputs and updates are not uses)."""
        return tuple(self._uses)

    @property
    def users(self) -> tuple[Node, ...]:
        """The nodes that read the value, each once, in order of first use."""
        return tuple(dict.fromkeys(use.node for use in self._uses))

    @property
    def dtype(self) -> DType:
        return self.type.dtype

    @property
    def rank(self) -> int:
        """Number of dimensions.

        Raises:
            ArgumentError: The type is not known yet: an operator in the middle of a converter made it.
        """
        if self.type.dtype is DType.DT_UNDEFINED:
            raise ArgumentError(
                "The rank of a tensor is not known",
                why=f"%{self.name} comes from {self.producer and self.producer.op}, and nothing has told its type",
                fix="Decide from the converter's arguments and from meta_outputs.",
            )
        return self.type.rank

    @property
    def shape(self) -> tuple[Any, ...]:
        """Sizes: ints and sympy expressions."""
        return self.type.shape

    def __repr__(self) -> str:
        return f"Tensor(%{self.name}: {self.type})"


#: A prototype input as a node holds it: a value, None (absent optional input), or a tuple (dynamic input).
Operand: TypeAlias = "Value | None | tuple[Value, ...]"


class Node:
    """One operator of the graph.

    Attributes:
        op: Ascend IR operator name (``"MatMulV2"``), or ``"torch_call"``.
        inputs: One operand for each prototype input, in order. Change with :meth:`set_input`.
        operands: The inputs, with lists flattened; what ``writes``, ``aliases`` and :class:`Slot` count.
        attrs: Attribute values: bool, int, float, complex, str, DType, Blob, None and tuples of them, and :class:`Slot`
            where an operand tells the value when the graph runs. Change with :meth:`set_attr`.
        outputs: The values that the node makes, dynamic outputs flattened.
        output_names: One name for each output.
        writes: Pairs ``(output, operand)``: that output overwrites the memory of that flattened operand, which nothing
            reads afterwards.
        aliases: Pairs ``(output, operand)``: that output may share memory with that flattened operand.
        side_effects: The node must run, once, and in order with other such nodes, even if nothing reads it.
        call: The dispatcher call that computes it, where it is more than a lowering of ``op``.
        binds: Symbols that become known when it has run: ``(symbol name, output, dimension or None for the value)``.
        operand_strides: For an opaque call: eager's strides of each flattened operand (None: do not matter).
        control: Nodes that must run before, beyond those that make its inputs.
        scope: Attributes of the scopes it was made in (``_user_stream_label`` ...).
        origin: Where it comes from.
    """

    __slots__ = (
        "aliases",
        "attrs",
        "binds",
        "call",
        "control",
        "graph",
        "inputs",
        "name",
        "op",
        "operand_strides",
        "operands",
        "origin",
        "output_names",
        "outputs",
        "scope",
        "side_effects",
        "writes",
    )

    def __init__(self, graph: Graph, op: str, name: str) -> None:
        self.graph = graph
        self.op = op
        self.name = name
        self.inputs: tuple[Operand, ...] = ()
        self.operands: tuple[Value | None, ...] = ()
        self.attrs: dict[str, Any] = {}
        self.outputs: tuple[Value, ...] = ()
        self.output_names: tuple[str, ...] = ()
        self.writes: tuple[tuple[int, int], ...] = ()
        self.aliases: tuple[tuple[int, int], ...] = ()
        self.side_effects = False
        self.call: Call | None = None
        self.binds: tuple[tuple[str, int, int | None], ...] = ()
        self.operand_strides: tuple[tuple[Dim, ...] | None, ...] = ()
        self.control: tuple[Node, ...] = ()
        self.scope: dict[str, str | bool] = {}
        self.origin = Origin()

    @property
    def output(self) -> Value:
        """The only output."""
        (value,) = self.outputs
        return value

    @property
    def stream(self) -> str:
        """The label of the stream that it runs on; empty for the default one."""
        return str(self.scope.get("_user_stream_label", ""))

    @property
    def values(self) -> tuple[Value, ...]:
        """The values that the node reads, in order, absent ones left out."""
        return tuple(v for v in self.operands if v is not None)

    def set_input(self, index: int, operand: Operand, *, element: int | None = None) -> None:
        """Read another value at input ``index`` (at ``element`` of it, for a list)."""
        if element is not None:
            old = self.inputs[index]
            assert isinstance(old, tuple) and isinstance(operand, Value)
            operand = (*old[:element], operand, *old[element + 1 :])
        self._unlink(index)
        self._take((*self.inputs[:index], operand, *self.inputs[index + 1 :]))
        self._link(index)
        self.graph.revision += 1

    def set_attr(self, name: str, value: Any) -> None:
        """Change an attribute."""
        self.attrs[name] = value
        self.graph.revision += 1

    def _take(self, inputs: tuple[Operand, ...]) -> None:
        flat: list[Value | None] = []
        for operand in inputs:
            flat.extend(operand) if isinstance(operand, tuple) else flat.append(operand)
        self.inputs, self.operands = inputs, tuple(flat)

    def _each(self, index: int) -> Iterator[tuple[Value, Use]]:
        operand = self.inputs[index]
        if isinstance(operand, tuple):
            for element, value in enumerate(operand):
                yield value, Use(self, index, element)
        elif operand is not None:
            yield operand, Use(self, index)

    def _link(self, index: int) -> None:
        for value, use in self._each(index):
            if value.graph is not self.graph:
                raise IRError("A node reads a value of another graph", why=f"%{value.name} is read by {self.name}")
            value._uses[use] = None

    def _unlink(self, index: int) -> None:
        for value, use in self._each(index):
            del value._uses[use]

    def __repr__(self) -> str:
        return f"Node({self.name}: {self.op})"


@dataclass(slots=True)
class _Names:
    """Unique names: ``Add``, ``Add_1``, ``Add_2``, ... (feature specification, F-50)."""

    taken: set[str] = field(default_factory=set)
    counts: dict[str, int] = field(default_factory=dict)

    def fresh(self, hint: str) -> str:
        name, n = hint, self.counts.get(hint, 0)
        while name in self.taken:
            n += 1
            name = f"{hint}_{n}"
        self.counts[hint] = n
        self.taken.add(name)
        return name


class Graph:
    """A graph of Ascend IR operators.

    Attributes:
        name: ``graph_1``.
        inputs: Values that the caller gives; host numbers are inputs with ``content`` of one symbol.
        outputs: What the graph returns; None for an output that is None.
        output_specs: One :class:`OutputSpec` for each output.
        updates: Pairs ``(input, value)``: after the last node, the input's memory receives the value.
        steady: Numbers of the inputs that are the same tensors in most calls: parameters, and what is made of them. It
            says what pays off, never what is true of a call.
        blobs: Constant tensors, by name (objects of torch, opaque to the IR).
        revision: Raised by every edit.
        order_revision: Raised by every edit after which nodes stand in another order; taking one out leaves it.
    """

    def __init__(self, name: str = "graph_1") -> None:
        self.name = name
        self.inputs: list[Value] = []
        self.outputs: list[Value | None] = []
        self.output_specs: list[OutputSpec] = []
        self.updates: list[tuple[Value, Value]] = []
        self.steady: frozenset[int] = frozenset()
        self.blobs: dict[str, Any] = {}
        self.revision = 0
        self.order_revision = 0
        self._has_control = False  # a node waits for another one, or did
        self._nodes: dict[Node, None] = {}
        self._value_names = _Names()
        self._node_names = _Names()

    # --- reading ---

    def __iter__(self) -> Iterator[Node]:
        """Nodes in execution order, as they are now: nodes may be added and removed meanwhile."""
        return iter(tuple(self._nodes))

    def __len__(self) -> int:
        return len(self._nodes)

    def __contains__(self, node: Node) -> bool:
        return node in self._nodes

    @property
    def nodes(self) -> tuple[Node, ...]:
        return tuple(self._nodes)

    def count(self, op: str) -> int:
        """Number of nodes of that operator."""
        return sum(node.op == op for node in self._nodes)

    def is_read_outside(self, value: Value) -> bool:
        """True when the value is a graph output, or goes into an input at the end."""
        return any(value is out for out in self.outputs) or any(value in pair for pair in self.updates)

    # --- editing ---

    def set_outputs(self, outputs: Sequence[Value | None], specs: Sequence[OutputSpec] | None = None) -> None:
        """Choose what the graph returns; by default each output is a tensor of any strides."""
        self.outputs = list(outputs)
        self.output_specs = list(specs or [OutputSpec("none" if v is None else "tensor") for v in outputs])
        self.revision += 1

    def add_input(self, type: TensorType, name: str) -> Value:
        """Append a graph input."""
        value = Value(self, type, None, len(self.inputs), self._value_names.fresh(name))
        self.inputs.append(value)
        self.revision += 1
        return value

    def add_node(
        self,
        op: str,
        inputs: Sequence[Operand],
        types: Sequence[TensorType],
        *,
        attrs: Mapping[str, Any] | None = None,
        output_names: Sequence[str] | None = None,
        name: str | None = None,
        value_name: str | None = None,
        value_names: Sequence[str] | None = None,
        writes: Sequence[tuple[int, int]] = (),
        aliases: Sequence[tuple[int, int]] = (),
        side_effects: bool = False,
        call: Call | None = None,
        binds: Sequence[tuple[str, int, int | None]] = (),
        control: Sequence[Node] = (),
        scope: Mapping[str, str | bool] | None = None,
        origin: Origin | None = None,
        before: Node | None = None,
    ) -> Node:
        """Add a node at the end, or before another.

        Args:
            types: Type of each output.
            name: Exact name; refused when taken. Automatic (``Add_1``) by default.
            output_names: Names of the outputs in the prototype: ``y``, or ``y0``, ``y1``, ... by default.
            value_name: Hint for the names of the output values.
            value_names: Hints for each of them instead; free names are taken as they are.

        Raises:
            IRError: The name is empty or taken.
        """
        if name is not None and (not name or name in self._node_names.taken):
            why = "the name is empty" if not name else f"{name!r} is the name of another node"
            raise IRError("A node needs a name of its own", why=why, fix="Leave node_name out, or give another.")
        node = Node(self, op, self._node_names.fresh(name or op))
        node._take(tuple(inputs))
        node.attrs = dict(attrs or {})
        if value_names is None:
            hint = value_name or node.name
            value_names = [hint] if len(types) == 1 else [f"{hint}_{i}" for i in range(len(types))]
        node.outputs = tuple(
            Value(self, t, node, i, self._value_names.fresh(h))
            for i, (t, h) in enumerate(zip(types, value_names, strict=True))
        )
        if output_names is None:
            output_names = ["y"] if len(types) == 1 else [f"y{i}" for i in range(len(types))]
        node.output_names = tuple(output_names)
        node.writes, node.aliases, node.side_effects = tuple(writes), tuple(aliases), side_effects
        node.call, node.binds, node.control = call, tuple(binds), tuple(dict.fromkeys(control))
        self._has_control = self._has_control or bool(node.control)
        node.scope, node.origin = dict(scope or {}), origin or Origin()
        for index in range(len(node.inputs)):
            node._link(index)
        if before is None:
            self._nodes[node] = None
        else:
            self._insert(node, before)
        self.revision += 1
        self.order_revision += 1
        return node

    def _insert(self, node: Node, before: Node) -> None:
        order: dict[Node, None] = {}
        for other in self._nodes:
            if other is before:
                order[node] = None
            order[other] = None
        if node not in order:
            raise IRError("The node to insert before is not in the graph", why=f"{before.name} was removed")
        self._nodes = order

    def move_before(self, node: Node, before: Node) -> None:
        """Change the execution order. The caller keeps it valid (the verifier checks)."""
        del self._nodes[node]
        self._insert(node, before)
        self.revision += 1
        self.order_revision += 1

    def reorder(self, nodes: Sequence[Node]) -> None:
        """Change the execution order of all nodes. The caller keeps it valid (the verifier checks)."""
        assert len(nodes) == len(self._nodes) and all(node in self._nodes for node in nodes)
        self._nodes = dict.fromkeys(nodes)
        self.revision += 1
        self.order_revision += 1

    def wait_for(self, node: Node, others: Sequence[Node]) -> None:
        """Let a node run only after others."""
        node.control = tuple(dict.fromkeys((*node.control, *others)))
        self._has_control = self._has_control or bool(node.control)
        self.revision += 1

    def waiters(self, node: Node) -> list[Node]:
        """The nodes that wait for one by a control edge, in order."""
        return [n for n in self._nodes if node in n.control] if self._has_control else []

    def replace_all_uses_with(self, old: Value, new: Value) -> None:
        """Read ``new`` wherever ``old`` is read: in nodes, outputs and updates."""
        if old is new:
            return
        for use in old.uses:
            use.node.set_input(use.index, new, element=use.element)
        self.outputs = [new if v is old else v for v in self.outputs]
        self.updates = [(i, new if v is old else v) for i, v in self.updates]
        self.revision += 1

    def remove(self, node: Node) -> None:
        """Take a node out.

        Raises:
            IRError: Something still reads one of its outputs, or waits for it.
        """
        readers = [u.node.name for v in node.outputs for u in v.uses]
        readers += [f"graph output {i}" for i, v in enumerate(self.outputs) if v is not None and v.producer is node]
        readers += [f"the update of %{i.name}" for i, v in self.updates if v.producer is node]
        readers += [n.name for n in self.waiters(node)]
        if readers:
            raise IRError(
                "A node that is still read cannot be removed", why=f"{node.name} is read by {', '.join(readers)}"
            )
        for index in range(len(node.inputs)):
            node._unlink(index)
        del self._nodes[node]
        self.revision += 1

    def set_type(self, value: Value, type: TensorType) -> None:
        """Give a value another type (a pass that changes layouts, say)."""
        value.type = type
        self.revision += 1

    def take_value_name(self, value: Value, name: str) -> None:
        """Rename a value (a hint for printing)."""
        value.name = self._value_names.fresh(name)
