"""Keeping ``meta["val"]`` true while passes edit an FX graph.

Later steps read from it not only dtypes and shapes, but also which values lie in one memory. So a view of something
that a pass replaced needs a new value, even if it looks the same.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from torchair import _torch_compat
from torchair._torch_compat import OpOverload
from torchair.frontend.aliasing import counts_from_storage, same_type, storages, tensors

__all__ = ["NodeError", "OldValues", "compute_value", "described", "differs"]

_VIEW = torch.ops.aten.view.default
_RESHAPE = torch.ops.aten.reshape.default


class NodeError(Exception):
    """What is wrong with a node that a pass made or edited; the runner adds the pass and the user's source line."""

    def __init__(self, node: fx.Node, reason: str, fix: str = "") -> None:
        self.node = node
        self.fix = fix
        super().__init__(f"node {node.name}, {node.target}: {reason}")


@dataclass(frozen=True, slots=True)
class _Old:
    """One call before a pass."""

    target: Any
    args: Any
    kwargs: Any
    value: Any
    sources: Sequence[fx.Node]


@dataclass(frozen=True, slots=True)
class OldValues:
    """The values of a graph before a pass, and how they were made."""

    calls: dict[fx.Node, _Old]

    @classmethod
    def of(cls, graph: fx.Graph) -> OldValues:
        """Look at a graph before a pass edits it."""
        return cls({n: _Old(n.target, n.args, n.kwargs, n.meta.get("val"), n.all_input_nodes) for n in graph.nodes})

    def renew(self, gm: fx.GraphModule) -> None:
        """Compute the values of new nodes, and anew those that lie in other memory or look different than before.

        Nodes whose sizes only running them tells keep what they have.

        Raises:
            NodeError: A node cannot be called with the values that it gets now, or the graph returns something of
                another type than before.
        """
        fake_mode = _torch_compat.detect_fake_mode([t for old in self.calls.values() for t in tensors(old.value)])
        if fake_mode is None:
            return
        renewed: set[fx.Node] = set()
        fakes = _torch_compat.FakeFactory(fake_mode)
        with _torch_compat.fake_calls(fake_mode):
            for node in gm.graph.nodes:
                if node.op != "call_function":
                    continue
                old = self.calls.get(node)
                if old is None:
                    if "val" not in node.meta:
                        compute_value(node, fake_mode)
                elif self._edited(node, old) or any(source in renewed for source in node.all_input_nodes):
                    if self._renew_one(node, old, fake_mode, fakes):
                        renewed.add(node)
        self._check_outputs(gm.graph)

    @staticmethod
    def _edited(node: fx.Node, old: _Old) -> bool:
        return node.target is not old.target or node.args is not old.args or node.kwargs is not old.kwargs

    def _renew_one(self, node: fx.Node, old: _Old, fake_mode: Any, fakes: _torch_compat.FakeFactory) -> bool:
        sources = node.all_input_nodes
        before = [self.calls[s].value for s in old.sources]
        shared = not storages(old.value).isdisjoint(storages(before))
        now = [s.meta.get("val") for s in sources]
        # Where a view is possible, reshape makes one.
        same_target = node.target is old.target or (old.target, node.target) == (_VIEW, _RESHAPE)
        is_same = same_target and old.value is not None and _same_calls(node, old, before, now)
        if is_same and (not shared or all(map(operator.is_, before, now))):
            return False
        if node.meta.get("unbacked_bindings"):
            return False
        if is_same and (view := _moved(node, old.value, before, now, fakes)) is not None:
            node.meta["val"] = view
            return True
        compute_value(node, fake_mode)
        new = node.meta.get("val")
        if not shared and storages(new).isdisjoint(storages(now)) and same_type(new, old.value):
            node.meta["val"] = old.value
            return False
        node.meta.pop("tensor_meta", None)
        return True

    def _check_outputs(self, graph: fx.Graph) -> None:
        (output,) = graph.find_nodes(op="output")
        old = self.calls.get(output)
        if old is None:
            return
        before, after = _leaves(old.args), _leaves(output.args)
        if len(before) != len(after):
            raise NodeError(output, f"the graph returned {len(before)} values, and now {len(after)}")
        for i, (a, b) in enumerate(zip(before, after, strict=True)):
            was = self.calls[a].value if isinstance(a, fx.Node) else a
            now = b.meta.get("val") if isinstance(b, fx.Node) else b
            if differs(was, now):
                raise NodeError(
                    b if isinstance(b, fx.Node) else output,
                    f"the graph's output {i} was {described(was)}, and is now {described(now)}",
                )


def _moved(
    node: fx.Node, view: Any, before: Sequence[Any], now: Sequence[Any], fakes: _torch_compat.FakeFactory
) -> torch.Tensor | None:
    """What a view is of memory that took the place of other memory; None where the call itself has to say."""
    if not isinstance(view, torch.Tensor) or counts_from_storage(node):
        return None
    bases = [b for a, b in zip(before, now, strict=True) if not storages(a).isdisjoint(storages(view))]
    type = _torch_compat.fake_type(view)
    if type is None or len(bases) != 1 or not isinstance(bases[0], torch.Tensor):
        return None
    with fakes.active():
        return fakes.view(bases[0].untyped_storage(), *type)


def compute_value(node: fx.Node, fake_mode: Any) -> None:
    """Give a call its ``meta["val"]``; to be used inside ``_torch_compat.fake_calls``.

    A ``view`` that its new operand's strides do not allow becomes a ``reshape`` (specification, F-23).

    Raises:
        NodeError: The function cannot be called with these values.
    """
    known = True

    def value_of(source: fx.Node) -> Any:
        nonlocal known
        if "val" not in source.meta and source.op == "get_attr":
            held = operator.attrgetter(str(source.target))(source.graph.owning_module)
            return fake_mode.from_tensor(held, static_shapes=True) if isinstance(held, torch.Tensor) else held
        known = known and "val" in source.meta
        return source.meta.get("val")

    args, kwargs = fx.map_arg((node.args, node.kwargs), value_of)
    if not known:
        return
    target: Any = node.target
    if (out := _out(target)) is not None and isinstance(kwargs.get(out), torch.Tensor):
        node.meta["val"] = kwargs[out]  # calling it would take ten times as long as calling others
        return
    try:
        try:
            node.meta["val"] = target(*args, **kwargs)
        except (RuntimeError, ValueError):
            if target is not _VIEW:
                raise
            node.meta["val"] = _RESHAPE(*args, **kwargs)
            node.target = _RESHAPE
    except Exception as e:
        raise NodeError(node, f"{type(e).__name__}: {e}") from e


def _out(target: Any) -> str | None:
    """Which keyword argument an operator writes its one result into and returns; None for other operators."""
    if not isinstance(target, OpOverload) or not target._schema.is_mutable or len(target._schema.returns) != 1:
        return None
    last = target._schema.arguments[-1]
    written = sum(a.alias_info is not None and a.alias_info.is_write for a in target._schema.arguments)
    returned = target._schema.returns[0].alias_info
    return last.name if last.kwarg_only and last.alias_info and written == 1 and returned is not None else None


def _same_calls(node: fx.Node, old: _Old, before: Sequence[Any], now: Sequence[Any]) -> bool:
    """Whether a call differs from the old one in nothing but which values of the same types it takes."""
    if len(before) != len(now) or not all(map(same_type, before, now)):
        return False
    a, b = (_leaves([call.args, *call.kwargs.items()]) for call in (node, old))
    return len(a) == len(b) and all(
        isinstance(m, fx.Node) == isinstance(n, fx.Node) and (isinstance(m, fx.Node) or m == n)
        for m, n in zip(a, b, strict=True)
    )


def _leaves(value: Any) -> list[Any]:
    return [leaf for item in value for leaf in _leaves(item)] if isinstance(value, list | tuple) else [value]


def differs(a: Any, b: Any) -> bool:
    """Whether one of two values is no tensor, or they are tensors of other dtypes or shapes."""
    if not isinstance(a, torch.Tensor) or not isinstance(b, torch.Tensor):
        return isinstance(a, torch.Tensor) != isinstance(b, torch.Tensor)
    if a.dtype != b.dtype or a.dim() != b.dim():
        return True
    return any(_torch_compat.known_true(m != n) for m, n in zip(a.shape, b.shape, strict=True))


def described(value: Any) -> str:
    """A value's dtype and shape, for messages."""
    if isinstance(value, torch.Tensor):
        return f"{value.dtype}{list(value.shape)}".removeprefix("torch.")
    return "nothing" if value is None else f"a {type(value).__name__}"
