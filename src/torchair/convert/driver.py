"""FX to Ascend IR: walks an AOT graph once and lets one converter at a time add nodes.

Sizes are content, not nodes: arithmetic on symbols never reaches a converter. What has no converter becomes a
``torch_call`` node, or, when the user wants only Ascend IR, one line of an error that lists them all.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import sympy
import torch
from torch import fx

from torchair import _torch_compat
from torchair._torch_compat import OpOverload
from torchair.convert import automatic, functionalized, scopes, torch_calls
from torchair.convert.air.ordering import StreamOrder, convert_wait_tensor, is_event, is_wait_tensor
from torchair.convert.custom_op import Conversion
from torchair.convert.errors import conversion_failed, unconverted
from torchair.convert.one_to_one import adopt_kernel
from torchair.convert.registry import Converter
from torchair.convert.results import check_results, flatten, tensor_specs
from torchair.convert.shared_outputs import shared_bases, with_strides
from torchair.convert.symbols import KnownSymbols
from torchair.convert.unsupported import UNSUPPORTED
from torchair.errors import Rejection, TorchAirError
from torchair.ir import Graph, Origin, OutputSpec, Value
from torchair.logs import logger
from torchair.opset.builder import GraphBuilder, building
from torchair.opset.infer import TypeInference
from torchair.opset.operator import operators
from torchair.opset.prototype import Prototype
from torchair.opset.torch_types import dim_of, host_type, tensor_type
from torchair.report import ConversionReport, Refused
from torchair.source_lines import source_line

__all__ = ["Converted", "Driver", "convert_graph"]

#: Stands for the results of a node that has no Ascend IR form; nodes that read it are not looked at.
_REFUSED = object()

_SYMBOLIC = (torch.SymInt, torch.SymFloat, torch.SymBool)


@dataclass(frozen=True, slots=True)
class Converted:
    """The result of a conversion.

    Attributes:
        graph: The IR graph.
        inputs: For each graph input, its position in the FX graph's arguments (those that are None have none).
        report: What became of each node.
    """

    graph: Graph
    inputs: tuple[int, ...]
    report: ConversionReport


def convert_graph(
    gm: fx.GraphModule,
    converters: Mapping[OpOverload, Converter],
    *,
    name: str = "graph_1",
    unconverted_ops: str = "run",
    require_prototype: bool = False,
) -> Converted:
    """Convert an AOT-level FX graph (functional, ``meta["val"]`` on every node).

    Args:
        converters: Snapshot of the registry.
        unconverted_ops: ``"run"`` or ``"error"``: what to do with operators that have no Ascend IR form.
        require_prototype: Refuse custom operators whose IR prototype nobody declared.

    Raises:
        UnconvertedOperatorsError: With ``"error"``, listing all of them; also for nodes that cannot even run.
        AutoConversionError: A custom operator cannot be converted automatically.
        ConversionError: A converter raised.
        ConverterResultError: A converter returned other results than the operator promises.
    """
    driver = Driver(gm, converters, name=name, unconverted_ops=unconverted_ops, require_prototype=require_prototype)
    return driver.run()


@dataclass(slots=True)
class Driver:
    """State of one conversion; see :func:`convert_graph`."""

    gm: fx.GraphModule
    converters: Mapping[OpOverload, Converter]
    name: str
    unconverted_ops: str
    require_prototype: bool
    builder: GraphBuilder = field(init=False)
    report: ConversionReport = field(init=False, default_factory=ConversionReport)
    env: dict[fx.Node, Any] = field(init=False, default_factory=dict)
    scopes: scopes.ScopeStack = field(init=False, default_factory=scopes.ScopeStack)
    order: StreamOrder = field(init=False, default_factory=StreamOrder)
    positions: list[int] = field(init=False, default_factory=list)
    symbols: KnownSymbols = field(init=False)
    _inputs: dict[fx.Node, Value] = field(init=False, default_factory=dict)
    _hosts: dict[Any, Value] = field(init=False, default_factory=dict)
    _fatal: list[Refused] = field(init=False, default_factory=list)
    _input_sizes: set[Any] = field(init=False)
    _shared_bases: frozenset[fx.Node] = field(init=False)

    def __post_init__(self) -> None:
        given = [n.meta.get("val") for n in self.gm.graph.find_nodes(op="placeholder")]
        sizes = [dim_of(s) for v in given if isinstance(v, torch.Tensor) for s in v.shape]
        self._input_sizes = {s for s in sizes if isinstance(s, sympy.Symbol)}
        vals = [n.meta.get("val") for n in self.gm.graph.nodes]
        fake_mode = _torch_compat.detect_fake_mode([v for v in vals if isinstance(v, torch.Tensor)])
        self.builder = GraphBuilder(Graph(self.name), TypeInference(fake_mode), device=_device(self.gm))
        self.symbols = KnownSymbols(self.builder.graph)
        self._shared_bases = shared_bases(self.gm)

    @property
    def graph(self) -> Graph:
        return self.builder.graph

    def run(self) -> Converted:
        """Convert every node."""
        with building(self.builder):
            for position, node in enumerate(self.gm.graph.find_nodes(op="placeholder")):
                self._placeholder(node, position)
            for node in self.gm.graph.nodes:
                if node.op == "get_attr":
                    self.env[node] = self._constant(node)
                elif node.op == "call_function":
                    self._call(node)
                elif node.op == "output":
                    self._output(node)
                elif node.op != "placeholder":
                    self.refuse(node, Rejection(f"FX nodes of kind {node.op} are not converted"))
        refused = self.report.refused if self.unconverted_ops == "error" else self._fatal
        if refused:
            raise unconverted(refused)
        for target, count in self.report.torch_calls.items():
            logger.warning_once(
                f"{target} has no Ascend IR form; it runs as a torch operator ({count} nodes in {self.name})"
            )
        return Converted(self.graph, tuple(self.positions), self.report)

    # --- nodes ---

    def _placeholder(self, node: fx.Node, position: int) -> None:
        val = node.meta.get("val")
        if isinstance(val, torch.Tensor):
            self.env[node] = self._inputs[node] = self.graph.add_input(tensor_type(val), node.name)
            self.positions.append(position)
        elif isinstance(val, _SYMBOLIC):
            self.env[node] = val
            if not node.users and dim_of(val) in self._input_sizes:
                return  # whatever needs it reads it from that tensor
            host = self.graph.add_input(host_type(val), node.name)
            self._hosts.setdefault(dim_of(val), host)
            self.positions.append(position)
        else:
            self.env[node] = val

    def _constant(self, node: fx.Node) -> Any:
        value = operator.attrgetter(str(node.target))(self.gm)
        if isinstance(value, torch.Tensor):
            self.builder.origin = self.origin(node)
            return self.builder.const(value)
        return value

    def _call(self, node: fx.Node) -> None:
        start = len(self.builder.added)
        self.builder.origin = self.origin(node)
        self.builder.scope = self.scopes.attributes
        self.builder.owned_from = start
        if not self.order.handle(self, node, str(self.builder.scope.get("_user_stream_label", ""))):
            self._convert(node)
            if node in self._shared_bases and isinstance(self.env[node], Value):
                self.env[node] = with_strides(self.env[node], node.meta["val"])
            self.order.note(self, self.builder.added[start:])

    def _convert(self, node: fx.Node) -> None:
        val = node.meta.get("val")
        if any(self.env.get(source) is _REFUSED for source in node.all_input_nodes):
            self.env[node] = _REFUSED
        elif node.target is operator.getitem:
            self.env[node] = self.env[node.args[0]][node.args[1]]  # type: ignore[index]
        elif isinstance(val, (*_SYMBOLIC, int, float, bool)) and not _reads_tensor_data(node):
            self.env[node] = val
        elif self.scopes.handle(node):
            self.env[node] = None
        elif is_wait_tensor(node):
            self.env[node] = convert_wait_tensor(self, node)
        elif is_event(node):
            self.refuse(
                node,
                Rejection(
                    "events with tags, and PyTorch's own streams and events, are for capture mode",
                    fix=(
                        'Use torchair.scope.npu_stream_switch("name"), torchair.ops.record and torchair.ops.wait, '
                        'or compile with backend="npugraph_ex".'
                    ),
                ),
            )
            self.env[node] = _REFUSED
        elif functionalized.matches(node):
            self.env[node] = functionalized.convert(self, node)
        elif _torch_compat.is_with_effects(node.target) and isinstance(node.args[1], OpOverload):
            self.env[node] = self._effectful(node)
        elif isinstance(node.target, OpOverload):
            self.env[node] = self.convert_overload(node, node.target, node.args, node.kwargs, val)
        else:
            inner = f" around {node.args[1]}" if _torch_compat.is_with_effects(node.target) else ""
            self.refuse(
                node,
                Rejection(
                    f"it is a higher-order operator{inner}, which has no Ascend IR form",
                    fix='Keep it out of the compiled region with a graph break, or compile with backend="npugraph_ex".',
                ),
            )
            self.env[node] = _REFUSED

    def _effectful(self, node: fx.Node) -> Any:
        """An operator with side effects: PyTorch passes a token through, here the order of nodes does its work."""
        token, overload, *args = node.args
        start = len(self.builder.added)
        _, *promised = node.meta["val"]
        val = promised[0] if len(promised) == 1 else tuple(promised)
        assert isinstance(overload, OpOverload)
        result = self.convert_overload(node, overload, args, node.kwargs, val)
        for made in self.builder.added[start:]:
            # What a converter makes of built-in operators says itself which of them have effects.
            made.side_effects = made.side_effects or made.op not in (*operators, "HostInts")
        if result is _REFUSED:
            return _REFUSED
        results = tuple(result) if isinstance(result, tuple | list) and len(promised) > 1 else (result,)
        return (self.lower_args(token), *results)

    def convert_overload(
        self,
        node: fx.Node,
        overload: OpOverload,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        val: Any,
        *,
        call: Callable[[], fx.Node] | None = None,
    ) -> Any:
        """Convert one operator call.

        Args:
            args, kwargs: FX arguments: FX nodes, or IR values that stand for them.
            val: What the fake kernel promised.
            call: Makes the call as an FX node, where ``node`` wraps it.

        Returns:
            The results, structured as the operator's.
        """
        if (
            overload is torch.ops.aten.copy_.default
            and isinstance(node.args[0], fx.Node)
            and node.args[0].op == "placeholder"
        ):
            return self._update(node)
        converter = self.converters.get(overload)
        rejection: Rejection | None = Rejection(
            UNSUPPORTED.get(str(overload), "no converter is registered"), torch_calls.fix_of(overload)
        )
        if converter is not None:
            rejection = converter.supports(call() if call else node) if converter.supports else None
        if converter is not None and rejection is None:
            return self._run_converter(node, converter, args, kwargs, val)
        assert rejection is not None
        if torch_calls.runs_as_itself(overload):
            return self._torch_call(node, overload, args, kwargs, val, rejection)
        return automatic.convert(self, node, overload, args, kwargs, val)

    def _run_converter(
        self, node: fx.Node, converter: Converter, args: Sequence[Any], kwargs: Mapping[str, Any], val: Any
    ) -> Any:
        ir_args, ir_kwargs = self.lower_args(args), {k: self.lower_args(v) for k, v in kwargs.items()}
        extra = {"meta_outputs": tensor_specs(val)} if converter.takes_meta_outputs else {}
        start = len(self.builder.added)
        derived: dict[str, Prototype] = {}
        self.builder.conversion = Conversion(
            converter.overload, self.require_prototype, lambda prototype: derived.update({prototype.name: prototype})
        )
        try:
            result = converter(*ir_args, **ir_kwargs, **extra)
        except TorchAirError as e:
            if e.where or not self.builder.origin.source:
                raise
            raise type(e)(e.what, why=e.why, fix=e.fix, where=self.builder.origin.source) from e
        except Exception as e:
            raise conversion_failed(converter, node, ir_args, ir_kwargs, self.builder.origin.source, e) from e
        finally:
            self.builder.conversion = None
        self.report.derived += derived
        if not converter.builtin:
            added = self.builder.added[start:]
            logger.debug("The converter of %s is used for FX node %s", converter.overload, node.name)
            adopt_kernel(self, node, converter.overload, ir_args, ir_kwargs, added, result, val, derived)
        checked = check_results(self, converter.overload, node, result, val)
        self.report.converted[str(node.target) if not functionalized.matches(node) else str(converter.overload)] += 1
        return checked

    def _torch_call(
        self,
        node: fx.Node,
        overload: OpOverload,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        val: Any,
        why: Rejection,
    ) -> Any:
        self.refuse(node, why, target=str(overload), fatal=False)
        result = torch_calls.convert(self, node, overload, args, kwargs, val)
        if not isinstance(result, Rejection):
            self.report.torch_calls[str(overload)] += 1
            return result
        self.report.refused[-1] = Refused(str(overload), node.name, result, self.builder.origin.source)
        self._fatal.append(self.report.refused[-1])
        return _REFUSED

    def _update(self, node: fx.Node) -> Any:
        # The input itself: its later uses may stand behind a wait_tensor.
        target, source = self._inputs[node.args[0]], self.lower_args(node.args[1])  # type: ignore[index]
        self.graph.updates.append((target, source))
        self.graph.revision += 1
        return source

    def _output(self, node: fx.Node) -> None:
        values: list[Value | None] = []
        specs: list[OutputSpec] = []
        self.builder.origin = Origin(node.name)
        for arg in node.args[0]:  # type: ignore[union-attr]
            value = self.env[arg] if isinstance(arg, fx.Node) else arg
            if value is _REFUSED:
                return
            if isinstance(value, Value):
                meta = arg.meta.get("val")  # type: ignore[union-attr]
                if isinstance(meta, _SYMBOLIC):
                    values.append(value)
                    specs.append(OutputSpec(_host_kind(meta)))
                    continue
                strides = (
                    tuple(dim_of(s) for s in meta.stride())
                    if isinstance(meta, torch.Tensor) and _strided(meta)
                    else None
                )
                values.append(value)
                specs.append(OutputSpec("tensor", strides))
            elif value is None:
                values.append(None)
                specs.append(OutputSpec("none"))
            else:
                values.append(self.host(value))
                specs.append(OutputSpec(_host_kind(value)))
        self.graph.set_outputs(values, specs)

    # --- services for the other modules of conversion ---

    def lower_args(self, args: Any) -> Any:
        """FX arguments as a converter sees them."""
        if isinstance(args, fx.Node):
            return self.lower_args(self.env[args])
        if isinstance(args, _SYMBOLIC):
            number = dim_of(args)
            return self.host(args) if isinstance(number, sympy.Basic) else number
        if isinstance(args, list | tuple | torch.fx.immutable_collections.immutable_list):
            return (
                [self.lower_args(a) for a in args]
                if not isinstance(args, tuple)
                else tuple(self.lower_args(a) for a in args)
            )
        if isinstance(args, slice):
            return slice(*(self.lower_args(a) for a in (args.start, args.stop, args.step)))
        return args

    def host(self, value: Any) -> Value:
        """The 0-d host value of a (symbolic) number; equal expressions share one."""
        key = dim_of(value)
        if not isinstance(value, _SYMBOLIC) or key not in self._hosts:
            made = self.builder.host(key, host_type(value).dtype)
            if not isinstance(value, _SYMBOLIC):
                return made
            self._hosts[key] = made
        return self._hosts[key]

    def origin(self, node: fx.Node) -> Origin:
        """Where a node comes from, for messages and dumps: of a wrapped call, the operator in it."""
        target = node.target
        if functionalized.matches(node):
            target = node.args[0]  # type: ignore[assignment]
        elif _torch_compat.is_with_effects(target):
            target = node.args[1]  # type: ignore[assignment]
        return Origin(node.name, str(target), source_line(node))

    def refuse(self, node: fx.Node, rejection: Rejection, *, target: str = "", fatal: bool = True) -> None:
        """Note that a node has no Ascend IR form, and, if ``fatal``, that it cannot run as a torch operator either."""
        refused = Refused(target or str(node.target), node.name, rejection, source_line(node))
        self.report.refused.append(refused)
        if fatal:
            self._fatal.append(refused)


def _reads_tensor_data(node: fx.Node) -> bool:
    """True for operators whose number comes from a tensor's elements (``item``), not from its sizes."""
    return (
        isinstance(node.target, OpOverload)
        and any(isinstance(a.meta.get("val"), torch.Tensor) for a in node.all_input_nodes)
        and not str(node.target).startswith("aten.sym_")
    )


def _host_kind(value: Any) -> str:
    if isinstance(value, bool | torch.SymBool):
        return "bool"
    return "float" if isinstance(value, float | torch.SymFloat) else "int"


def _strided(tensor: torch.Tensor) -> bool:
    return tensor.layout is torch.strided


def _device(gm: fx.GraphModule) -> str:
    """The accelerator of the graph, or the CPU."""
    vals: Iterable[Any] = (leaf for n in gm.graph.nodes for leaf in flatten(n.meta.get("val")))
    return next(
        (str(v.device) for v in vals if isinstance(v, torch.Tensor) and v.device.type not in ("cpu", "meta")), "cpu"
    )
