"""A call of an operator with variable sizes: its arguments can be made again, at other sizes, layouts and symbolic."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import torch

from torchair import _torch_compat

__all__ = ["Call", "Layout", "TensorSpec", "call_of", "copies", "described"]

Layout: TypeAlias = Literal["contiguous", "transposed", "strided"]


@dataclass(frozen=True, slots=True, eq=False)
class TensorSpec:
    """A tensor argument.

    Attributes:
        sizes: A number, or the name of a variable, for each dimension.
        dtype: Element type.
        layout: How it lies in memory: ``"transposed"`` (last dimension outermost) or ``"strided"`` (every second
            element of a larger tensor, from its second one).
        seed: What its values are drawn from.
        values: Given values; at other sizes they are repeated or cut off, so that their range stays.
    """

    sizes: tuple[int | str, ...]
    dtype: torch.dtype = torch.float32
    layout: Layout = "contiguous"
    seed: int = 0
    values: torch.Tensor | None = None

    def shape(self, sizes: Mapping[str, Any]) -> list[Any]:
        """Its sizes."""
        return [sizes[s] if isinstance(s, str) else s for s in self.sizes]

    def real(self, sizes: Mapping[str, int]) -> torch.Tensor:
        """The tensor, the same for the same sizes."""
        shape = self.shape(sizes)
        values = _drawn(shape, self.dtype, self.seed) if self.values is None else _repeated(self.values, shape)
        return _laid_out(values, self.layout)

    def fake(self, sizes: Mapping[str, Any]) -> torch.Tensor:
        """The same without values; inside a fake mode."""
        device = None if self.values is None else self.values.device
        return _laid_out(torch.empty(self.shape(sizes), dtype=self.dtype, device=device), self.layout)


@dataclass(frozen=True, slots=True, eq=False)
class Call:
    """One call, with a :class:`TensorSpec` for each tensor.

    Attributes:
        args, kwargs: The arguments.
        sizes: What the variables stand for.
        note: What is special about it: ``"float64"``, ``"empty"``, ``"y absent"``; empty for a plain one.
        plain: For a call that differs from another one only in how tensors lie in memory, that one.
        unusual: It has tensors of another class of dtypes (whole numbers where others have fractions), or of sizes that
            are broadcast, which its author may not have thought of: what is wrong with it is a remark.
        given: The user's own arguments; what ``sizes`` stands for was found from them.
        given_sizes: The sizes that ``given`` has.
    """

    args: tuple[Any, ...]
    kwargs: dict[str, Any] = field(default_factory=dict)
    sizes: Mapping[str, int] = field(default_factory=dict)
    note: str = ""
    plain: Call | None = None
    unusual: bool = False
    given: tuple[tuple[Any, ...], dict[str, Any]] | None = None
    given_sizes: Mapping[str, int] = field(default_factory=dict)

    @property
    def is_given(self) -> bool:
        """Whether it is the user's own call, not one at other sizes that was made of it."""
        return self.given is not None and self.sizes == self.given_sizes

    def real(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Fresh arguments, equal each time."""
        if self.given is not None and self.is_given:
            flat, rebuild = _torch_compat.flatten_call(*self.given)
            return rebuild(copies(flat))
        return self._mapped(lambda spec: spec.real(self.sizes))

    def fake(self, sizes: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Arguments without values, for these (symbolic) sizes; inside a fake mode."""
        return self._mapped(lambda spec: spec.fake({**self.sizes, **sizes}))

    def apart(self) -> Call:
        """The same call with a variable for each size of each tensor: no two of them are the same by its definition."""
        number = itertools.count()
        sizes: dict[str, int] = {}

        def own(spec: TensorSpec) -> TensorSpec:
            tensor = next(number)
            names = []
            for dim, size in enumerate(spec.shape(self.sizes)):
                names.append(f"t{tensor}d{dim}")
                sizes[names[-1]] = size
            return dataclasses.replace(spec, sizes=tuple(names))

        return self.replacing(own, sizes=sizes)

    def at(self, sizes: Mapping[str, int], note: str = "") -> Call:
        """The same call at other sizes."""
        return dataclasses.replace(self, sizes={**self.sizes, **sizes}, note=note or self.note)

    @property
    def specs(self) -> list[TensorSpec]:
        """Its tensors, in order."""
        return [leaf for leaf in self.leaves() if isinstance(leaf, TensorSpec)]

    def leaves(self) -> list[Any]:
        """The leaves of its arguments."""
        return _torch_compat.flatten_call(self.args, self.kwargs)[0]

    @property
    def variables(self) -> list[str]:
        """Variables of at least 2, which a graph may keep symbolic (PyTorch fixes 0 and 1)."""
        used = {s for spec in self.specs for s in spec.sizes if isinstance(s, str)}
        return [name for name, size in self.sizes.items() if name in used and size >= 2]

    def replacing(self, function: Callable[[TensorSpec], TensorSpec], **changes: Any) -> Call:
        """The same call with other tensors; no longer the user's own."""
        args, kwargs = self._mapped(function)
        return dataclasses.replace(self, args=args, kwargs=kwargs, given=None, **changes)

    def _mapped(self, function: Callable[[TensorSpec], Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        flat, rebuild = _torch_compat.flatten_call(self.args, self.kwargs)
        return rebuild([function(leaf) if isinstance(leaf, TensorSpec) else leaf for leaf in flat])

    def __str__(self) -> str:
        args, kwargs = self._mapped(lambda spec: _Shown(_spec_text(spec, self.sizes)))
        return described(args, kwargs)


class _Shown(str):
    """A text that stands for a tensor."""

    __slots__ = ()


def described(args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    """Arguments in one line: ``(float32[2, 3], None, [], 0.5, dim=1)``."""
    return f"({', '.join([*map(_text, args), *(f'{k}={_text(v)}' for k, v in kwargs.items())])})"


def _text(value: Any) -> str:
    if isinstance(value, _Shown):
        return str(value)
    if isinstance(value, torch.Tensor):
        spec = TensorSpec(tuple(value.shape), value.dtype)
        return _spec_text(spec, {}) + ("" if value.layout is torch.strided and value.is_contiguous() else " strided")
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_text, value))}]"
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _spec_text(spec: TensorSpec, sizes: Mapping[str, int]) -> str:
    layout = "" if spec.layout == "contiguous" else f" {spec.layout}"
    return f"{str(spec.dtype).removeprefix('torch.')}{spec.shape(sizes)}{layout}"


def call_of(args: Sequence[Any], kwargs: Mapping[str, Any], note: str = "") -> Call:
    """A call with the user's arguments. Equal sizes of at least 2 are one variable, as where Dynamo traces."""
    flat, rebuild = _torch_compat.flatten_call(args, kwargs)
    sizes: dict[str, int] = {}
    leaves: list[Any] = []
    for value in flat:
        if isinstance(value, torch.Tensor) and value.layout is torch.strided:
            names: list[int | str] = []
            for size in value.shape:
                names.append(f"n{size}" if size >= 2 else size)
                if size >= 2:
                    sizes[f"n{size}"] = size
            leaves.append(TensorSpec(tuple(names), value.dtype, values=value.detach()))
        else:
            leaves.append(value)
    made_args, made_kwargs = rebuild(leaves)
    given = (tuple(args), dict(kwargs))
    return Call(made_args, made_kwargs, sizes, note, given=given, given_sizes=dict(sizes))


def copies(flat: Sequence[Any]) -> list[Any]:
    """Arguments with memory of their own; views of one storage stay views of one."""
    storages: dict[int, torch.UntypedStorage] = {}
    made: list[Any] = []
    for value in flat:
        if not isinstance(value, torch.Tensor):
            made.append(value)
        elif value.layout is not torch.strided or value.is_conj() or value.is_neg():
            made.append(value.detach().clone())
        else:
            key = _torch_compat.storage_id(value)
            if key not in storages:
                storages[key] = _torch_compat.storage_copy(value)
            copy = torch.empty(0, dtype=value.dtype, device=value.device)
            made.append(copy.set_(storages[key], value.storage_offset(), value.size(), value.stride()))
    return made


def _drawn(shape: Sequence[int], dtype: torch.dtype, seed: int) -> torch.Tensor:
    """Values that most operators take: small, floats not zero since they may be a divisor, integers 0 or 1."""
    generator = torch.Generator().manual_seed(seed)
    if dtype is torch.bool:
        return torch.rand(shape, generator=generator) > 0.5
    if dtype.is_floating_point or dtype.is_complex:
        values = torch.rand(shape, generator=generator, dtype=torch.float64) * 2 + 0.25
        if dtype.is_complex:
            return torch.complex(values, values.flip(0) if values.ndim else values + 1).to(dtype)
        return values.to(dtype)
    return torch.randint(0, 2, tuple(shape), generator=generator).to(dtype)


def _repeated(values: torch.Tensor, shape: Sequence[int]) -> torch.Tensor:
    if list(values.shape) == list(shape):
        return values.clone(memory_format=torch.contiguous_format)
    if math.prod(shape) == 0 or values.numel() == 0:
        return values.new_zeros(tuple(shape))
    for dim, size in enumerate(shape):
        values = values.index_select(dim, torch.arange(size, device=values.device) % values.shape[dim])
    return values.contiguous()


def _laid_out(values: torch.Tensor, layout: Layout) -> torch.Tensor:
    if layout == "contiguous" or values.ndim == 0:
        return values
    if layout == "transposed":
        return values.movedim(-1, 0).contiguous().movedim(0, -1)
    wide = torch.stack([values, values], -1)
    return wide.flatten(-2)[..., 1::2]
