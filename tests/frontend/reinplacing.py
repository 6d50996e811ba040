"""Runs functions through AOTAutograd and ``reinplace``, and checks what the pass leaves behind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx
from torch.utils import _pytree as pytree

from tests.pipeline.agreement import assert_agrees
from torchair import _torch_compat
from torchair.frontend.reinplace import ReinplaceRecord, reinplace

__all__ = ["Reinplaced", "agreeing"]

COPIES = ("aten.clone.default", "aten.copy_.default", "aten.copy.default")


class _Watching(fx.Interpreter):
    """Runs a graph, and compares each value with the fake one: types, and who shares memory with whom."""

    def __init__(self, gm: fx.GraphModule, static: bool) -> None:
        super().__init__(gm, garbage_collect_values=False)
        self.static = static
        self.places: dict[fx.Node, tuple[int, int]] = {}
        self.kept_alive: list[Any] = []

    def run_node(self, n: fx.Node) -> Any:
        result = super().run_node(n)
        fake = n.meta.get("val")
        self.kept_alive.append(result)
        if n.op in ("output", "get_attr") or not isinstance(fake, torch.Tensor) or result is None:  # None: a token
            return result
        assert isinstance(result, torch.Tensor), n
        assert result.dtype == fake.dtype, n
        assert result.dim() == fake.dim(), n
        if not result.numel() or result.layout is not torch.strided:
            return result
        self.places[n] = (result.untyped_storage().data_ptr(), _torch_compat.storage_id(fake))
        if self.static and n.op != "placeholder":
            assert tuple(result.shape) == tuple(fake.shape), n
            triples = zip(result.stride(), fake.stride(), fake.shape, strict=True)
            assert all(a == b for a, b, size in triples if size != 1), (n, result.stride(), fake)
            # Inputs begin elsewhere in their storages in another call.
            given = {real for node, (real, _) in self.places.items() if node.op == "placeholder"}
            assert self.places[n][0] in given or result.storage_offset() == fake.storage_offset(), n
        return result

    def check_sharing(self) -> None:
        """Values share memory exactly where the fake values say so, but for inputs that are views of one base."""
        given = Counter(real for n, (real, _) in self.places.items() if n.op == "placeholder")
        fakes: dict[int, int] = {}
        reals: dict[int, int] = {}
        for node, (real, fake) in self.places.items():
            if given[real] > 1:
                continue
            assert fakes.setdefault(real, fake) == fake, f"{node} shares memory unexpectedly"
            assert reals.setdefault(fake, real) == real, f"{node} does not share memory"


@dataclass(slots=True)
class Reinplaced:
    """A compiled function with its graphs.

    Attributes:
        graphs: The graphs after the pass.
        records: What the pass did to each.
    """

    intermediates: bool = True
    inputs: bool = True
    decompositions: Mapping[Any, Callable[..., Any]] | None = None
    dynamic: bool | None = None
    fullgraph: bool = True
    graphs: list[fx.GraphModule] = field(default_factory=list)
    records: list[ReinplaceRecord] = field(default_factory=list)

    def compile(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function through this pass."""
        return torch.compile(function, backend=self._backend, fullgraph=self.fullgraph, dynamic=self.dynamic)

    def _backend(self, gm: fx.GraphModule, inputs: Any) -> Any:
        return _torch_compat.aot_module_simplified(
            gm,
            inputs,
            fw_compiler=lambda g, i: self._compiled(g, _torch_compat.outputs_made_from_inputs()),
            bw_compiler=lambda g, i: self._compiled(g, frozenset()),
            inference_compiler=lambda g, i: self._compiled(g, _torch_compat.outputs_made_from_inputs()),
            keep_inference_input_mutations=True,
            decompositions=self.decompositions,
        )

    def _compiled(self, gm: fx.GraphModule, regenerated: frozenset[int]) -> Callable[[list[Any]], Any]:
        lines = {n: n.meta.get("stack_trace") for n in gm.graph.nodes}
        record = reinplace(gm, intermediates=self.intermediates, inputs=self.inputs, regenerated=regenerated)
        self.graphs.append(gm)
        self.records.append(record)
        gm.graph.lint()
        left = set(gm.graph.nodes)
        for node in gm.graph.nodes:
            if node.op == "call_function":
                assert "val" in node.meta, node
                line = node.meta.get("stack_trace")
                gone = [before for n, before in lines.items() if n not in left]
                assert line == lines[node] if node in lines else line in gone, node
        symbolic = any(
            isinstance(leaf, torch.SymInt)
            for n in gm.graph.nodes
            for t in pytree.tree_leaves(n.meta.get("val"))
            for leaf in ([*t.shape] if isinstance(t, torch.Tensor) else [t])
        )

        def run(args: list[Any]) -> Any:
            watching = _Watching(gm, static=not symbolic)
            with torch.no_grad():
                results = watching.run(*args)
            args.clear()
            watching.check_sharing()
            return results

        return _torch_compat.make_boxed(run)

    def count(self, *targets: str) -> int:
        """Nodes of all graphs by the text of their target."""
        return sum(str(n.target) in targets for gm in self.graphs for n in gm.graph.nodes)

    @property
    def copies(self) -> int:
        """Nodes that copy a tensor."""
        return self.count(*COPIES)

    @property
    def kept(self) -> list[str]:
        """Reasons for copies."""
        return [kept.reason for record in self.records for kept in record.kept]


def agreeing(function: Callable[..., Any], calls: list[Any], *, strides: bool = True, **options: Any) -> Reinplaced:
    """Call a function through the pass, each time with other arguments, and compare with eager."""
    torch._dynamo.reset()
    reinplaced = Reinplaced(**options)
    compiled = reinplaced.compile(function)
    for args in calls:
        assert_agrees(function, compiled, args, rtol=1e-6, atol=1e-6, strides=strides)
    return reinplaced
