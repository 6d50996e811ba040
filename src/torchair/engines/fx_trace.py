"""From an IR graph to one FX graph: the lowerings of all nodes, traced on fake tensors."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from torchair import _torch_compat
from torchair.engines.graph_support import FIX
from torchair.engines.index_bounds import strict_indices
from torchair.engines.opaque_ops import OpaqueOp, opaque_op
from torchair.engines.repeats import Known, Repeats
from torchair.engines.rounding import rounded_once
from torchair.engines.runtime_values import (
    SymbolBinder,
    constant,
    describe,
    host_flags,
    host_numbers,
    nest,
    nesting,
    restride,
    wanted_output,
)
from torchair.errors import EngineCompileError, TorchAirError, UnsupportedGraphError
from torchair.ir import Graph, Node, OutputSpec, TensorType, Value
from torchair.ir.symbols import evaluate
from torchair.native.scopes import SCOPE_KEYS, mark
from torchair.opset.kernels import Evaluator, kernels, node_evaluator
from torchair.opset.torch_types import torch_dtype
from torchair.source_lines import SOURCE
from torchair.streams import set_stream
from torchair.torchops.streams import record, wait

__all__ = ["Output", "TracedGraph", "trace_graph"]

#: Constants of more elements are arguments of the compiled function, not part of its code.
_LARGE = 64


@dataclass(frozen=True, slots=True)
class Output:
    """Where a graph output comes from.

    Attributes:
        source: ``"result"`` of the module, ``"input"`` of the graph, or ``"fixed"``: the same in each call.
        index: Number of the result or input.
        value: What a fixed output is.
    """

    source: str
    index: int = 0
    value: Any = None


@dataclass(frozen=True, slots=True)
class TracedGraph:
    """An FX graph that computes an IR graph.

    Attributes:
        module: Its placeholders are the inputs ``used``, then ``constants``, then the token where ``has_effects``.
        used: Numbers of the graph inputs that it takes.
        constants: Large constant tensors.
        has_effects: An operator has side effects; the last argument orders them.
        outputs: Where each graph output comes from.
        written: Numbers of the graph inputs that it writes.
        late: Pairs ``(input, result)``: the result goes into the input after the run.
    """

    module: fx.GraphModule
    used: tuple[int, ...]
    constants: tuple[torch.Tensor, ...]
    has_effects: bool
    outputs: tuple[Output, ...]
    written: tuple[int, ...]
    late: tuple[tuple[int, int], ...]

    @property
    def returns_results(self) -> bool:
        """Whether the module's results are the graph's outputs, no more and no less."""
        results = self.module.graph.output_node().args[0]
        assert isinstance(results, list | tuple)
        return self.outputs == tuple(Output("result", i) for i in range(len(results)))


def trace_graph(
    graph: Graph,
    inputs: Sequence[Any],
    fake_mode: Any,
    engine: str,
    whole: Collection[Any] = (),
    *,
    repeat: bool = True,
) -> TracedGraph:
    """Trace a graph.

    Args:
        engine: Whose errors it raises.
        whole: Operators that are not decomposed as Inductor decomposes them.
        inputs: A fake tensor or symbolic number for each graph input; their symbols need not be those of the graph.
        repeat: Copy what was traced for a node to nodes that are like it (:mod:`torchair.engines.repeats`); without,
            the graph is the same, and takes longer.

    Raises:
        MissingKernelError: Nothing computes a node.
        UnsupportedGraphError: A size or a layout comes up that the engine cannot take.
        EngineCompileError: A node could not be traced.
    """
    tracer = _Tracer(graph, engine, Repeats(graph, fake_mode, copies=repeat))
    table = _torch_compat.inductor_decompositions()
    kept = {op: function for op, function in table.items() if op not in whole}
    decompositions = strict_indices(rounded_once(kept))
    arguments = tracer.arguments(inputs, fake_mode)
    module, after = _torch_compat.trace_functional(tracer.run, arguments, fake_mode, decompositions)
    late = tuple((i, result) for i, result in after.items() if i < len(inputs))
    written = (*_written_inputs(module, len(inputs)), *(i for i, _ in late))
    large = tracer.embed_small_constants(module, len(inputs))
    used = _drop_unused(module, len(inputs))
    return TracedGraph(module, used, large, tracer.has_effects, tuple(tracer.outputs), written, late)


class _Tracer:
    """Runs the nodes of a graph once, under the tracing modes."""

    def __init__(self, graph: Graph, engine: str, repeats: Repeats) -> None:
        self.graph = graph
        self.engine = engine
        self.repeats = repeats
        self.bind = SymbolBinder(graph)
        self.nodes = [n for n in graph if not _is_host_arithmetic(n)]
        self.evaluators: dict[Node, Evaluator | OpaqueOp] = {n: _evaluator(n) for n in self.nodes}
        self.has_effects = any(n.side_effects for n in self.nodes)
        read = [n for n in graph if n.op == "Const" and self._is_read(n.output)]
        self.constants = [(n.output, constant(graph, n)) for n in read]
        # A single number is made in the graph, where compilers see it.
        self.numbers = [(value, tensor.item()) for value, tensor in self.constants if tensor.numel() == 1]
        self.tensors = [(value, tensor) for value, tensor in self.constants if tensor.numel() != 1]
        self.env: dict[Value, Any] = {}
        self.bindings: dict[str, Any] = {}
        self.token: Any = None
        # Only the native engine knows streams; the others run nodes in the graph's order.
        lanes = engine == "native" and any(n.stream for n in self.nodes)
        self.awaited = {other for n in self.nodes for other in n.control} if lanes else set()
        self.tokens: dict[Node, Any] = {}
        self.outputs: list[Output] = []

    def _is_read(self, value: Value) -> bool:
        """True when something reads the tensor, not only its numbers."""
        if self.graph.is_read_outside(value):
            return True
        return any(
            operand is value and not (host and value.type.content is not None)
            for node in value.users
            if node in self.evaluators
            for operand, host in zip(node.operands, host_flags(node), strict=True)
        )

    def arguments(self, inputs: Sequence[Any], fake_mode: Any) -> list[Any]:
        """What the traced function takes. Fake tensors begin at offset 0.

        An argument's own offset is not part of a compile.
        """
        with fake_mode:
            made = [_at_offset_zero(i) for i in inputs]
            made += [torch.empty_strided(t.shape, t.stride(), dtype=t.dtype, device=t.device) for _, t in self.tensors]
            if self.has_effects:
                made.append(torch.empty(1))
        return made

    def embed_small_constants(self, module: fx.GraphModule, first: int) -> tuple[torch.Tensor, ...]:
        """Make small constants attributes of the module; returns the large ones, which stay arguments."""
        placeholders = list(module.graph.find_nodes(op="placeholder"))
        body = next(node for node in module.graph.nodes if node.op != "placeholder")
        large = []
        for placeholder, (_, tensor) in zip(placeholders[first:], self.tensors, strict=False):
            if tensor.numel() > _LARGE:
                large.append(tensor)
                continue
            name = f"_constant_{placeholder.name}"
            module.register_buffer(name, tensor.clone(memory_format=torch.contiguous_format))
            with module.graph.inserting_before(body):
                # As AOTAutograd leaves constants: Inductor runs graphs on fake tensors, and this is where a real one
                # enters.
                attribute = module.graph.get_attr(name)
                attribute.meta = dict(placeholder.meta)
                lifted = module.graph.call_function(torch.ops.aten.lift_fresh_copy.default, (attribute,))
            lifted.meta = dict(placeholder.meta)
            placeholder.replace_all_uses_with(lifted)
            module.graph.erase_node(placeholder)
        module.recompile()
        return tuple(large)

    # --- while tracing ---

    def run(self, *arguments: Any) -> tuple[list[Any], dict[int, Any]]:
        """Compute the graph's outputs and the new values of its inputs."""
        inputs = arguments[: len(self.graph.inputs)]
        self.bindings = self.bind(inputs)
        self.env = dict(zip(self.graph.inputs, inputs, strict=True))
        self.env.update(zip((v for v, _ in self.tensors), arguments[len(inputs) :], strict=False))
        for value, number in self.numbers:
            shape, dtype = [1] * value.rank, torch_dtype(value.dtype)
            self.env[value] = torch.full(shape, number, dtype=dtype, device=value.type.device)
        self.token = arguments[-1] if self.has_effects else None
        self.tokens = {}
        for node in self.nodes:
            before = _torch_compat.trace_length()
            self._order(node)
            self._trace_or_copy(node)
            if node in self.awaited:
                self.tokens[node] = record()
            made = _torch_compat.traced_nodes(before)
            for fx_node in made:
                fx_node.meta[SOURCE] = node.origin.source
                set_stream(fx_node, node.stream)
            if not node.scope.keys().isdisjoint(SCOPE_KEYS):
                mark(made, node.name, node.scope)
        outputs = self._outputs()
        positions = {value: i for i, value in enumerate(self.graph.inputs)}
        updates = {positions[target]: self.read(source) for target, source in self.graph.updates}
        return outputs, updates

    def read(self, value: Value) -> Any:
        """A value as a tensor."""
        found = self.env.get(value)
        if isinstance(found, torch.Tensor):
            return found
        if isinstance(found, Known):
            self.env[value] = _torch_compat.as_traced(found.fake, found.node)
            return self.env[value]
        assert value.type.content is not None, f"%{value.name} has no value"
        self.env[value] = _content_tensor(value.type, self.bindings)
        return self.env[value]

    def _order(self, node: Node) -> None:
        """Let what is traced next wait for the nodes that a node waits for."""
        if self.awaited and (tokens := [self.tokens[other] for other in node.control if other in self.tokens]):
            wait(tokens)

    def _trace_or_copy(self, node: Node) -> None:
        """Compute a node's outputs: as those of an equal node, if there was one."""
        operands = self._known_operands(node)
        if operands is None:
            self._step(node)
            return
        key = self.repeats.key(node, operands)
        given = [None if v is None else self.env.get(v) for v in node.operands]
        if (template := self.repeats.find(key)) is not None:
            for value, made in zip(node.outputs, self.repeats.copy(template, operands), strict=True):
                self.env[value] = given[made] if isinstance(made, int) else made
            return
        before = _torch_compat.trace_length()
        self._step(node)
        given = [
            None if known is None or v is None else self.env[v]
            for v, known in zip(node.operands, operands, strict=True)
        ]
        numbers = {id(tensor): i for i, tensor in reversed([*enumerate(given)]) if tensor is not None}
        results = [numbers.get(id(self.env[value]), self.env[value]) for value in node.outputs]
        self.repeats.learn(key, node, operands, _torch_compat.traced_nodes(before), results)

    def _known_operands(self, node: Node) -> list[Known | None] | None:
        """The tensors that a node takes; None where it has to be traced."""
        if not self.repeats.may_repeat(node):
            return None
        known: list[Known | None] = []
        for value, host in zip(node.operands, host_flags(node), strict=True):
            if value is None or host:
                known.append(None)
                continue
            found = self.env.get(value)
            if not isinstance(found, Known):
                found = self.repeats.known(value, self.read(value))
            if found is None:
                return None
            known.append(found)
        return known

    def _step(self, node: Node) -> None:
        try:
            flat: list[Any] = [
                None if v is None else host_numbers(v, self.bindings, self.read) if host else self.read(v)
                for v, host in zip(node.operands, host_flags(node), strict=True)
            ]
            written = {operand for _, operand in node.writes}
            for i, strides in enumerate(node.operand_strides):
                if strides is not None and isinstance(flat[i], torch.Tensor) and i not in written:
                    flat[i] = restride(flat[i], strides, self.bindings)
            evaluate = self.evaluators[node]
            if self._counts_from_storage(node, flat):
                evaluate = opaque_op(node)
            if isinstance(evaluate, OpaqueOp):
                results = evaluate(flat, self.bindings, self.token if node.side_effects else None)
            else:
                results = evaluate(nest(nesting(node), flat), node.attrs)
        except TorchAirError:
            raise
        except Exception as e:
            raise _not_traced(self.engine, node, e) from e
        if len(results) != len(node.outputs):
            raise EngineCompileError(
                "An operator returned another number of results than its prototype has",
                why=f"{describe(node)} returned {len(results)}, {len(node.outputs)} are declared",
                fix="Correct the kernel, or the prototype.",
                where=node.origin.source,
            )
        for value, result in zip(node.outputs, results, strict=True):
            if isinstance(result, torch.Tensor) and result.layout is not torch.strided:
                raise _unsupported(self.engine, node, f"a result of it is {str(result.layout).removeprefix('torch.')}")
            self.env[value] = result

    def _counts_from_storage(self, node: Node, flat: Sequence[Any]) -> bool:
        """True for ``as_strided`` on an argument of the graph.

        Where the argument begins in its storage is known only at run time, and Inductor takes its first element for the
        start.
        """
        call = node.call
        if call is None or not call.target.startswith("aten::as_strided") or not isinstance(flat[0], torch.Tensor):
            return False
        inputs = [_torch_compat.memories(self.env[v]) for v in self.graph.inputs if v.type.content is None]
        return not _torch_compat.memories(flat[0]).isdisjoint(itertools.chain(*inputs))

    def _outputs(self) -> list[Any]:
        self.outputs = []
        results: list[Any] = []
        inputs = {id(self.env[v]): i for i, v in enumerate(self.graph.inputs)}
        constants = {memory for v, _ in self.constants for memory in _torch_compat.memories(self.env[v])}
        for value, spec in zip(self.graph.outputs, self.graph.output_specs, strict=True):
            result = self._output(value, spec)
            if isinstance(result, torch.Tensor) and not _torch_compat.memories(result).isdisjoint(constants):
                result = result.clone()  # the caller may write what it gets
            if not isinstance(result, torch.Tensor | torch.SymInt | torch.SymFloat | torch.SymBool):
                self.outputs.append(Output("fixed", value=bool(result) if spec.kind == "bool" else result))
            elif id(result) in inputs:
                self.outputs.append(Output("input", inputs[id(result)]))
            else:
                self.outputs.append(Output("result", len(results)))
                results.append(result)
        return results

    def _output(self, value: Value | None, spec: OutputSpec) -> Any:
        if value is None:
            return None
        if spec.kind != "tensor":
            assert value.type.content is not None, f"%{value.name} is a host output without content"
            return evaluate(value.type.content[0], self.bindings)
        return wanted_output(self.read(value), spec, self.bindings)


def _written_inputs(module: fx.GraphModule, count: int) -> tuple[int, ...]:
    placeholders = list(module.graph.find_nodes(op="placeholder"))[:count]
    copies = module.graph.find_nodes(op="call_function", target=torch.ops.aten.copy_.default)
    targets = {node.args[0] for node in copies}
    return tuple(i for i, placeholder in enumerate(placeholders) if placeholder in targets)


def _drop_unused(module: fx.GraphModule, count: int) -> tuple[int, ...]:
    """Take out placeholders that nothing reads; returns the numbers of the graph inputs that stay.

    A symbolic number stays, and a tensor of symbolic sizes: they may be what tells a symbol. Other numbers were traced
    in.
    """
    used = []
    for i, placeholder in enumerate(list(module.graph.find_nodes(op="placeholder"))[:count]):
        val = placeholder.meta.get("val")
        numbers = (*val.shape, *val.stride()) if isinstance(val, torch.Tensor) else (val,)
        if not placeholder.users and not any(isinstance(n, torch.SymInt | torch.SymFloat) for n in numbers):
            module.graph.erase_node(placeholder)
        else:
            used.append(i)
    module.recompile()
    return tuple(used)


def _is_host_arithmetic(node: Node) -> bool:
    """True for nodes whose results are known as expressions: running them would turn symbols into tensors."""
    if node.op in ("Const", "HostInts"):
        return True
    known = bool(node.outputs) and all(v.type.content is not None for v in node.outputs)
    symbolic = any(v.type.symbols for v in node.outputs)
    return known and symbolic and not node.side_effects and not node.writes


def _evaluator(node: Node) -> Evaluator | OpaqueOp:
    """A registered kernel is opaque, and so is whatever must neither be dropped nor moved."""
    if node.side_effects or kernels.get(node.op) is not None or _needs_strides(node):
        return opaque_op(node)
    return node_evaluator(node)


def _needs_strides(node: Node) -> bool:
    """True for a custom operator that Inductor would call with other strides than eager."""
    if node.call is None or _torch_compat.inductor_keeps_strides() or not any(node.operand_strides):
        return False
    return not node.call.target.startswith(("aten::", "prims::"))


def _at_offset_zero(value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return _torch_compat.settled_number(value)
    sizes, strides = (list(map(_torch_compat.settled_number, numbers)) for numbers in (value.shape, value.stride()))
    return torch.empty_strided(sizes, strides, dtype=value.dtype, device=value.device)


def _content_tensor(type: TensorType, bindings: Mapping[str, Any]) -> torch.Tensor:
    """Host numbers as a tensor, from symbolic numbers too."""
    numbers = [
        torch.full((), evaluate(d, bindings), dtype=torch_dtype(type.dtype), device=type.device)
        for d in type.content or ()
    ]
    if not type.rank:
        return numbers[0]
    return torch.stack(numbers) if numbers else torch.empty(0, dtype=torch_dtype(type.dtype), device=type.device)


def _unsupported(engine: str, node: Node, reason: str) -> UnsupportedGraphError:
    return UnsupportedGraphError(
        f"The {engine} engine cannot run a graph", why=[describe(node), reason], fix=FIX, where=node.origin.source
    )


def _not_traced(engine: str, node: Node, error: Exception) -> TorchAirError:
    why = [describe(node), f"{type(error).__name__}: {error}"]
    if _torch_compat.traced_data_dependence(error):
        return _unsupported(engine, node, why[1])
    return EngineCompileError(
        f"The {engine} engine failed to trace an operator", why=why, fix=FIX, where=node.origin.source
    )
