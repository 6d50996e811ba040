"""Sample calls from a schema: a plain one that the kernel takes is looked for, then it is varied."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from torchair import _torch_compat
from torchair._torch_compat import OpOverload
from torchair.convert.schemas import Argument, OperatorSchema
from torchair.customop.calls import Call, Layout, TensorSpec
from torchair.opset.prototype import REQUIRED

__all__ = ["first_calls", "separated", "size_variants", "unknown_arguments", "variants"]

#: What the variables of generated shapes stand for: all different, so that a mistaken one shows.
_SIZES = {"a": 2, "b": 3, "c": 4, "d": 5}

#: Shapes of the first tensor, of the second, and of each further one.
_SHAPES: tuple[tuple[tuple[str, ...], ...], ...] = (
    (("a", "b"), ("a", "b"), ("a", "b")),
    (("a", "b"), ("b",), ("b",)),
    (("a", "b"), ("b", "c"), ("c",)),
    (("a",), ("a",), ("a",)),
    (("a", "b", "c"), ("a", "b", "c"), ("a", "b", "c")),
    (("a", "b"), ("a",), ("a",)),
    (("a", "b"), ("c", "b"), ("c",)),
    (("a", "b"), (), ()),
    (("a", "b"), ("c",), ("c",)),
    (("a", "b", "c"), ("a", "c", "d"), ("a", "d")),
    (("a", "b", "c", "d"), ("a", "b", "c", "d"), ("a", "b", "c", "d")),
    (("a", "b", "c", "d"), ("b",), ("b",)),
    ((), (), ()),
)

_F32, _I64 = torch.float32, torch.int64
#: Dtypes of the first tensor, of the second, and of each further one.
_DTYPES = (
    (_F32, _F32, _F32),
    (_F32, _I64, _I64),
    (_I64, _F32, _F32),
    (_I64, _I64, _I64),
    (_F32, _F32, _I64),
    (_F32, torch.bool, torch.bool),
    (torch.bool, torch.bool, torch.bool),
    (torch.complex64, torch.complex64, torch.complex64),
)

_OTHER_DTYPES = (torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.bool, torch.complex64)

#: How many plain calls are looked for: they differ in how the shapes of the tensors depend on each other.
_PLAIN = 3

#: Profiles of the arguments that are no tensors: the first candidate of each, the second, ...
_PROFILES = 4


def unknown_arguments(overload: OpOverload) -> list[str]:
    """Arguments for which no value is known, as text: ``"'q' (of type Stream)"``."""
    return [
        f"{a.name!r} (of type {a.torch_type})"
        for a in OperatorSchema.of(overload).arguments
        if a.input_kind is None and not _candidates(overload, a)
    ]


def first_calls(overload: OpOverload, accepts: Callable[[Call], bool], budget: int) -> list[Call]:
    """Plain calls that an operator takes.

    Args:
        accepts: Runs the kernel.
        budget: The greatest number of calls that are tried.
    """
    found: list[Call] = []
    shapes_left = list(range(len(_SHAPES)))
    tried = 0
    for call_tensors, profile, dtypes in _orders(overload):
        for number in tuple(shapes_left):
            if tried >= budget or len(found) >= _PLAIN:
                return found
            call = _call(overload, _SHAPES[number], dtypes, profile, call_tensors)
            if call is None:
                continue
            tried += 1
            if accepts(call):
                found.append(call)
                shapes_left.remove(number)
        if found:
            break
    return found


def _orders(overload: OpOverload) -> Iterator[tuple[bool, int, Sequence[torch.dtype]]]:
    """What to try, likely things first: are optional tensors there, which attributes, which dtypes."""
    schema = OperatorSchema.of(overload)
    optional = any(a.input_kind == "optional" or a.torch_type.endswith("?") for a in schema.tensors)
    lengths = [min(_PROFILES, len(_candidates(overload, a))) for a in schema.arguments if not a.input_kind]
    profiles = range(max([1, *lengths]))
    dtypes = range(len(_DTYPES) if schema.tensors else 1)
    combined = itertools.product((True, False) if optional else (True,), profiles, dtypes)
    for tensors, profile, number in sorted(combined, key=lambda c: (not c[0]) + c[1] + c[2]):
        yield tensors, profile, _DTYPES[number]


def _call(
    overload: OpOverload,
    shapes: Sequence[tuple[str, ...]],
    dtypes: Sequence[torch.dtype],
    profile: int,
    with_optional: bool,
) -> Call | None:
    schema = OperatorSchema.of(overload)
    position = 0

    def tensor() -> TensorSpec:
        nonlocal position
        index = min(position, 2)
        position += 1
        return TensorSpec(shapes[index], dtypes[index], seed=position)

    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    for argument in schema.arguments:
        value: Any
        if argument.input_kind is not None:
            absent = not with_optional and argument.torch_type.endswith("?")
            if absent:
                value = None
            elif argument.is_list:
                first = tensor()
                value = [first, dataclasses.replace(first, seed=first.seed + 100)]
            else:
                value = tensor()
        else:
            candidates = _candidates(overload, argument)
            if not candidates:
                return None
            value = candidates[min(profile, len(candidates) - 1)]
        if argument.kwarg_only:
            kwargs[argument.name] = value
        else:
            args.append(value)
    call = Call(tuple(args), kwargs)
    used = {s for spec in call.specs for s in spec.sizes}
    if position <= 1 and shapes[0] in (s[0] for s in _SHAPES[: _SHAPES.index(tuple(shapes))]):
        return None  # differs from an earlier one in tensors that it does not have
    return dataclasses.replace(call, sizes={k: v for k, v in _SIZES.items() if k in used})


def _candidates(overload: OpOverload, argument: Argument) -> list[Any]:
    """Values to try for an argument that is no tensor; the first one is the likeliest."""
    kind = argument.torch_type
    optional = kind.endswith("?")
    kind = kind.removesuffix("?")
    values: list[Any] = []
    if argument.default is not REQUIRED:
        default = argument.default
        values.append(list(default) if isinstance(default, tuple) else default)
    is_list = kind.endswith("[]")
    own: Any = next((a for a in overload._schema.arguments if a.name == argument.name), None)
    fixed = getattr(own, "N", None) if is_list else None
    more: Any = _LISTS.get(kind) if is_list else _VALUES.get(kind)
    if kind in ("int", "SymInt") and any(word in argument.name for word in ("dim", "axis")):
        more = (0, -1, 1)
    if is_list and fixed:
        singles = _VALUES.get(kind.removesuffix("[]"), ())
        more = [[v] * fixed for v in singles]
    for value in [*(more or ()), *([None] if optional else [])]:
        fresh = list(value) if isinstance(value, list) else value
        if not any(type(v) is type(fresh) and v == fresh for v in values):
            values.append(fresh)
    return values


_VALUES: dict[str, tuple[Any, ...]] = {
    "int": (1, 2, 0, 3),
    "SymInt": (1, 2, 0, 3),
    "float": (0.5, 2.0, 1.0),
    "Scalar": (2, 0.5),
    "number": (2, 0.5),
    "bool": (False, True),
    "SymBool": (False, True),
    "str": ("none", "sum", "mean", ""),
    "ScalarType": (torch.float32, torch.float64, torch.int64),
    "Device": (torch.device("cpu"),),
    "Layout": (torch.strided,),
    "MemoryFormat": (torch.contiguous_format,),
    "complex": (1 + 2j,),
}

_LISTS: dict[str, tuple[Any, ...]] = {
    "int[]": ([2, 3], [0], [1], [1, 1], []),
    "SymInt[]": ([2, 3], [1], [1, 1], []),
    "float[]": ([0.5, 2.0], [1.0], []),
    "Scalar[]": ([2, 0.5], [1], []),
    "bool[]": ([True, False], [True], []),
    "str[]": (["none"], []),
    "ScalarType[]": ([torch.float32],),
}


# --- variants of a call that the kernel takes ---


@dataclass(frozen=True, slots=True)
class _Place:
    """Where an argument is in a call."""

    argument: Argument
    index: int | None

    def get(self, call: Call) -> Any:
        return call.kwargs.get(self.argument.name) if self.index is None else call.args[self.index]

    def put(self, call: Call, value: Any, note: str) -> Call:
        """The call with another value."""
        if self.index is None:
            return dataclasses.replace(call, kwargs={**call.kwargs, self.argument.name: value}, note=note, given=None)
        args = (*call.args[: self.index], value, *call.args[self.index + 1 :])
        return dataclasses.replace(call, args=args, note=note, given=None)


def _places(overload: OpOverload, call: Call) -> list[_Place]:
    """The arguments that a call passes."""
    arguments = OperatorSchema.of(overload).arguments
    found = [_Place(a, i) for i, a in enumerate(arguments) if not a.kwarg_only and i < len(call.args)]
    return found + [_Place(a, None) for a in arguments if a.name in call.kwargs]


def variants(overload: OpOverload, call: Call) -> Iterator[Call]:
    """Calls that differ from one in a single thing, which their notes name. The more telling ones first."""
    yield from _in_turn(
        _layouts(call),
        _presence(overload, call),
        _lengths(overload, call),
        _emptied(call),
        _attributes(overload, call),
        _broadcast(call),
        _dtypes(call),
        _ranks(call),
    )


def _in_turn(*kinds: Iterator[Call]) -> Iterator[Call]:
    """One of each kind in turn, so that no kind uses the budget up."""
    left = list(kinds)
    while left:
        for kind in tuple(left):
            item = next(kind, None)
            if item is None:
                left.remove(kind)
            else:
                yield item


def size_variants(call: Call) -> Iterator[Call]:
    """The same call at other sizes: all of them, then each by itself, since some may depend on each other."""
    names = call.variables
    changes: list[dict[str, int]] = [{n: call.sizes[n] + 3 + i for i, n in enumerate(names)}] if names else []
    changes += [{n: 2 * call.sizes[n] for n in names}] if names else []
    if len(names) > 1:
        changes += [{n: call.sizes[n] + 5} for n in names[:4]]
    for sizes in changes:
        yield call.at(sizes, "other sizes")


def separated(call: Call, results: Sequence[Any]) -> Iterator[Call]:
    """The same call with one size of one tensor greater, which tells sizes apart that are equal by chance.

    Then two equal sizes of different tensors where there are more, which the kernel may want to be equal; and each
    number among the arguments that is a size of a result.
    """
    call = call.apart()
    names = [name for name, size in call.sizes.items() if size]
    numbers = {v for v in call.leaves() if type(v) is int}
    fresh = next(n for n in itertools.count(max([*call.sizes.values(), 1]) + 1) if n not in numbers)
    for name in names:
        yield call.at({name: fresh}, "one other size")
    for one, other in itertools.combinations(names, 2):
        equal = [name for name in names if call.sizes[name] == call.sizes[one]]
        if other in equal and len(equal) > 2 and one.partition("d")[0] != other.partition("d")[0]:
            yield call.at({one: fresh, other: fresh}, "two other sizes")
    made = {size for r in results if isinstance(r, torch.Tensor) for size in r.shape}
    flat, rebuild = _torch_compat.flatten_call(call.args, call.kwargs)
    for i, value in enumerate(flat):
        if type(value) is int and value in made and value > 0:
            args, kwargs = rebuild([*flat[:i], fresh, *flat[i + 1 :]])
            yield dataclasses.replace(call, args=args, kwargs=kwargs, note="another number")


def _layouts(call: Call) -> Iterator[Call]:
    number = sum(len(spec.sizes) > 0 for spec in call.specs)
    if number == 0:
        return
    layouts: tuple[Layout, ...] = ("transposed", "strided")
    for layout in layouts:
        for which in [*range(min(number, 4)), None] if number > 1 else [0]:
            changed = _with_layout(call, layout, which)
            if changed is not None:
                yield changed


def _with_layout(call: Call, layout: Layout, which: int | None) -> Call | None:
    """A call whose tensor number ``which`` (all for None) is not contiguous."""
    number = itertools.count()
    changed = []

    def lay_out(spec: TensorSpec) -> TensorSpec:
        if not spec.sizes:
            return spec
        index = next(number)
        if which not in (None, index) or (layout == "transposed" and len(spec.sizes) < 2):
            return spec
        changed.append(index)
        return dataclasses.replace(spec, layout=layout)

    made = call.replacing(lay_out)
    if not changed:
        return None
    plain = call.replacing(lambda spec: dataclasses.replace(spec, layout="contiguous"))
    return dataclasses.replace(made, note=f"{layout} tensors", plain=plain)


def _presence(overload: OpOverload, call: Call) -> Iterator[Call]:
    for place in _places(overload, call):
        argument, value = place.argument, place.get(call)
        if argument.input_kind is None:
            continue
        if argument.torch_type.endswith("?"):
            if value is not None:
                yield place.put(call, None, f"{argument.name} absent")
            elif specs := call.specs:
                fresh = dataclasses.replace(specs[0], seed=50)
                yield place.put(call, [fresh] if argument.is_list else fresh, f"{argument.name} present")
        if "?[]" in argument.torch_type and isinstance(value, list) and value:
            yield place.put(call, [None, *value[1:]], f"None in {argument.name}")


def _lengths(overload: OpOverload, call: Call) -> Iterator[Call]:
    for place in _places(overload, call):
        value = place.get(call)
        if not place.argument.is_list or not isinstance(value, list | tuple):
            continue
        for length in (1, 3, 0):
            if length == len(value) or (not value and not call.specs):
                continue
            model = next((v for v in value if isinstance(v, TensorSpec)), call.specs[0])
            items = [dataclasses.replace(model, seed=model.seed + 10 * i) for i in range(length)]
            yield place.put(call, items, f"{place.argument.name} of length {length}")


def _emptied(call: Call) -> Iterator[Call]:
    for name in call.variables:
        yield call.at({name: 0}, "empty tensors")
    for name in call.variables[:2]:
        yield call.at({name: 1}, "sizes of 1")


def _attributes(overload: OpOverload, call: Call) -> Iterator[Call]:
    for place in _places(overload, call):
        if place.argument.input_kind is not None:
            continue
        now = place.get(call)
        others = [v for v in _candidates(overload, place.argument) if type(v) is not type(now) or v != now]
        for value in others[:2]:
            yield place.put(call, value, f"{place.argument.name}={value!r}")


def _dtypes(call: Call) -> Iterator[Call]:
    specs = call.specs
    if not specs:
        return
    floats = any(s.dtype.is_floating_point for s in specs)
    for dtype in _OTHER_DTYPES:
        if all(s.dtype is dtype for s in specs):
            continue

        def change(spec: TensorSpec, dtype: torch.dtype = dtype) -> TensorSpec:
            return dataclasses.replace(spec, dtype=dtype) if spec.dtype.is_floating_point == floats else spec

        unusual = floats and not dtype.is_floating_point
        yield call.replacing(change, note=str(dtype).removeprefix("torch."), unusual=unusual)


def _broadcast(call: Call) -> Iterator[Call]:
    """The first tensor has fewer dimensions than the others."""
    specs = call.specs
    if len(specs) < 2 or not specs[0].sizes or any(s.sizes != specs[0].sizes or s.values is not None for s in specs):
        return

    def change(spec: TensorSpec) -> TensorSpec:
        return dataclasses.replace(spec, sizes=spec.sizes[1:]) if spec is specs[0] else spec

    yield call.replacing(change, note="a smaller first tensor", unusual=True)


def _ranks(call: Call) -> Iterator[Call]:
    specs = call.specs
    if not specs or any(spec.sizes != specs[0].sizes or spec.values is not None for spec in specs):
        return
    for rank in (1, 3, 0, 4):
        names = tuple(_SIZES)[:rank]
        if names == specs[0].sizes:
            continue

        def change(spec: TensorSpec, names: tuple[str, ...] = names) -> TensorSpec:
            return dataclasses.replace(spec, sizes=names)

        yield call.replacing(change, sizes={n: _SIZES[n] for n in names}, note=f"{rank} dimensions")
