"""Values of a functional trace that is under way: their nodes, and nodes that are added beside the tracing modes."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import fx

from torchair._torch_compat.tensors import storage_id
from torchair._torch_compat.types import OpOverload

__all__ = ["FakeFactory", "FakeType", "add_node", "as_traced", "behind", "fake_type", "memories", "was_written"]


class FakeType(NamedTuple):
    """All that is known of a tensor of fixed sizes beside its memory."""

    dtype: torch.dtype
    device: torch.device
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int


def fake_type(fake: torch.Tensor) -> FakeType | None:
    """The type of a fake tensor; None where something is special about it, or a size is symbolic."""
    if fake.layout is not torch.strided or fake.is_conj() or fake.is_neg() or fake.is_quantized or fake.requires_grad:
        return None
    sizes, strides, offset = tuple(fake.shape), tuple(fake.stride()), fake.storage_offset()
    if not isinstance(offset, int) or not all(isinstance(number, int) for number in (*sizes, *strides)):
        return None
    return FakeType(fake.dtype, fake.device, sizes, strides, offset)


def behind(tensor: torch.Tensor) -> tuple[torch.Tensor, fx.Node] | None:
    """The fake tensor that a tensor of the trace stands for at this point, and the node that made it.

    None for a tensor whose elements the trace knows: operators on it may be computed at once.
    """
    from torch._subclasses.functional_tensor import FunctionalTensor
    from torch.fx.experimental.proxy_tensor import get_proxy_mode, get_proxy_slot

    mode = get_proxy_mode()
    if mode is None or not isinstance(tensor, FunctionalTensor):
        return None
    torch._sync(tensor)  # type: ignore[attr-defined, no-untyped-call]
    fake = torch._from_functional_tensor(tensor.elem)
    slot: Any = get_proxy_slot(fake, mode.tracer, None)
    return None if slot is None or slot.constant is not None else (fake, slot.proxy.node)


def was_written(tensor: torch.Tensor) -> bool:
    """Whether anything has been written into the memory of a tensor of the trace, so that it may change when read."""
    written: bool = torch._functionalize_has_data_mutation(tensor.elem)  # type: ignore[attr-defined]
    return written


def memories(tensor: torch.Tensor) -> frozenset[int]:
    """Storages of a tensor of the trace: its own, and that of what it stands for; views have one in common."""
    from torch._subclasses.functional_tensor import FunctionalTensor

    if not isinstance(tensor, FunctionalTensor):
        return frozenset({storage_id(tensor)})
    return frozenset({storage_id(tensor), storage_id(torch._from_functional_tensor(tensor.elem))})


def as_traced(fake: torch.Tensor, node: fx.Node) -> torch.Tensor:
    """A tensor of the trace that stands for what a node makes."""
    from torch._subclasses.functional_tensor import FunctionalTensor
    from torch.fx.experimental.proxy_tensor import get_proxy_mode, track_tensor

    mode = get_proxy_mode()
    assert mode is not None, "nothing is traced"
    track_tensor(fake, fx.Proxy(node, mode.tracer), constant=None, tracer=mode.tracer)
    made: torch.Tensor = FunctionalTensor.to_functional(fake)
    return made


def add_node(target: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> fx.Node:
    """A call at the end of the graph that is traced, under the name that the trace would give it."""
    from torch.fx.experimental.proxy_tensor import get_proxy_mode

    mode = get_proxy_mode()
    assert mode is not None, "nothing is traced"
    graph: fx.Graph = mode.tracer.graph
    name = target.overloadpacket.__name__ if isinstance(target, OpOverload) else target.__name__
    return graph.create_node("call_function", target, args, dict(kwargs), name=graph._target_to_str(name))


class FakeFactory:
    """Makes fake tensors by their types, without running an operator under a fake mode."""

    def __init__(self, fake_mode: Any) -> None:
        from torch._subclasses.fake_tensor import FakeTensor

        self._mode = fake_mode
        self._class = FakeTensor

    @staticmethod
    @contextlib.contextmanager
    def active() -> Iterator[None]:
        """The context to make them in: without the modes of the trace."""
        from torch._dispatch.python import no_python_dispatcher

        with torch._C._DisableTorchDispatch(), torch._C.DisableTorchFunction(), no_python_dispatcher():
            yield

    def fresh(
        self, dtype: torch.dtype, device: torch.device, sizes: Sequence[int], strides: Sequence[int]
    ) -> torch.Tensor:
        """A tensor with memory of its own."""
        return self._class(self._mode, torch.empty_strided(sizes, strides, dtype=dtype, device="meta"), device)

    def view(
        self,
        storage: torch.UntypedStorage,
        dtype: torch.dtype,
        device: torch.device,
        sizes: Sequence[int],
        strides: Sequence[int],
        offset: int,
    ) -> torch.Tensor:
        """A tensor in the memory of another fake tensor."""
        meta = torch.empty(0, dtype=dtype, device="meta").set_(storage, offset, sizes, strides)
        return self._class(self._mode, meta, device)
