"""A meta function guessed from what the kernel returned: how sizes and dtypes of results depend on the arguments.

Rules are found in some calls and kept only if they hold in all others, which have other sizes, dtypes and attributes.
"""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from torchair._torch_compat import OpOverload
from torchair.convert.pasting import parameters_of
from torchair.convert.schemas import Argument, OperatorSchema
from torchair.customop.calls import Call
from torchair.customop.compare import leaves
from torchair.customop.observe import Observation, Observations
from torchair.customop.samples import separated

__all__ = ["guessed_meta"]

#: Calls with sizes varied one by one: for how many calls, how many of each, and the time for all in seconds.
_BASES, _APART, _SECONDS = 4, 40, 10.0


@dataclass(frozen=True, slots=True)
class _Rule:
    """Something that can be computed from the arguments.

    Attributes:
        code: The expression, in terms of the parameters.
        value: The same as a function of the arguments by name. It may raise.
        parts: The rule of each size, where each has its own.
    """

    code: str
    value: Callable[[dict[str, Any]], Any]
    parts: tuple[_Rule, ...] = ()

    def holds(self, sample: _Sample, wanted: Any) -> bool:
        try:
            found = self.value(sample.arguments)
        except Exception:  # noqa: BLE001  # the rule does not apply to this call
            return False
        return bool(type(found) is type(wanted) and found == wanted)


@dataclass(frozen=True, slots=True)
class _Sample:
    """One call: its arguments by name, what the kernel returned, and whether tensors of it are not contiguous."""

    arguments: dict[str, Any]
    results: tuple[Any, ...]
    moved: bool = False


@dataclass(frozen=True, slots=True)
class _Guess:
    """How one result is made."""

    code: str
    sizes: _Rule
    dtype: _Rule

    def holds(self, sample: _Sample, result: Any) -> bool:
        """Whether a result is as guessed."""
        if not isinstance(result, torch.Tensor):
            return False
        return self.sizes.holds(sample, tuple(result.shape)) and self.dtype.holds(sample, result.dtype)


def guessed_meta(overload: OpOverload, seen: Observations) -> str:
    """Code to paste that registers a meta function; empty if none was found that holds in all calls."""
    schema = OperatorSchema.of(overload)
    further = _further(overload, schema, seen)
    apart = _apart(overload, schema, seen)
    floats = " with tensors of floating-point numbers"
    ranked = [o for o in seen.usual if all(spec.sizes for spec in o.call.specs)]
    for taken, limit in ((seen.taken, ""), (seen.usual, floats), (ranked, f"{floats} and at least 1 dimension")):
        samples = [_sample(schema, o.call, o.results) for o in taken]
        if len({tuple(getattr(r, "shape", ()) for r in s.results) for s in samples}) < 2:
            return ""  # calls of one size show nothing
        samples += [sample for base, sample in apart if any(base is o for o in taken)]
        remarks: list[str] = []
        body = _body(schema, samples, further, remarks)
        if body is not None:
            name, overload_name = overload._schema.name, overload._schema.overload_name
            qualified = f"{name}.{overload_name}" if overload_name else name
            return (
                f"# A guess: it agrees with the kernel in {len(samples) + len(further)} calls that were tried{limit}.\n"
                f"{''.join(f'# {remark}{chr(10)}' for remark in remarks)}"
                "# Check it, then keep it.\n"
                f'@torch.library.register_fake("{qualified}")\n'
                f"def _({', '.join(parameters_of(schema.arguments))}):\n"
                f"    return {body}"
            )
    return ""


def _sample(schema: OperatorSchema, call: Call, results: Sequence[Any]) -> _Sample:
    args, kwargs = call.real()
    arguments = {a.name: v for a, v in schema.pairs(args, kwargs)}
    return _Sample(arguments, tuple(results), moved=bool(call.plain))


def _further(overload: OpOverload, schema: OperatorSchema, seen: Observations) -> list[_Sample]:
    """Calls at sizes that no rule was found from: the guess must hold for them, too."""
    found = []
    for base in (o.call for o in seen.taken if not o.call.note and o.call.variables):
        for start in (8, 11):
            call = base.at({name: start + 3 * i for i, name in enumerate(base.variables)})
            args, kwargs = call.real()
            with contextlib.suppress(Exception):  # sizes that do not fit together
                results = leaves(overload(*args, **kwargs))
                found.append(_sample(schema, call, results))
    return found


def _apart(overload: OpOverload, schema: OperatorSchema, seen: Observations) -> list[tuple[Observation, _Sample]]:
    """Calls that tell apart what is equal in the calls seen by chance, each with that which it is made of."""
    found: list[tuple[Observation, _Sample]] = []
    end = time.monotonic() + _SECONDS
    for base in [o for o in seen.taken if not o.call.note][:_BASES]:
        for call in itertools.islice(separated(base.call, base.results), _APART):
            if time.monotonic() > end:
                return found
            args, kwargs = call.real()
            with contextlib.suppress(Exception):  # sizes that the kernel wants to be equal, or as they are
                results = leaves(overload(*args, **kwargs))
                found.append((base, _sample(schema, call, results)))
    return found


def _body(
    schema: OperatorSchema, samples: Sequence[_Sample], further: Sequence[_Sample], remarks: list[str]
) -> str | None:
    """The returned expression; what is to be chosen in it goes into ``remarks``."""
    if "list" in schema.returns:
        return _list_body(schema, samples, further)
    if any(len(s.results) != len(schema.returns) for s in (*samples, *further)):
        return None
    bodies = []
    for i in range(len(schema.returns)):
        guess = _result(schema, samples, [s.results[i] for s in samples])
        if guess is None or not all(guess.holds(s, s.results[i]) for s in further):
            return None
        bodies.append(guess.code)
        everything = [*samples, *further]
        remarks += _ties(schema, guess, everything, [s.results[i] for s in everything], i)
    return ", ".join(bodies)


def _result(schema: OperatorSchema, samples: Sequence[_Sample], results: Sequence[Any]) -> _Guess | None:
    """How one result is made."""
    if not all(isinstance(r, torch.Tensor) for r in results):
        return None
    shapes, dtypes = [tuple(r.shape) for r in results], [r.dtype for r in results]
    sizes = _first(_size_rules(schema), samples, shapes) or _by_dimension(schema, samples, shapes)
    dtype = _first(_dtype_rules(schema, results), samples, dtypes)
    if sizes is None or dtype is None:
        return None
    return _Guess(_expression(_anchor(schema), sizes.code, dtype.code, samples, results), sizes, dtype)


def _expression(
    anchor: str | None, sizes: str, dtype: str, samples: Sequence[_Sample], results: Sequence[torch.Tensor]
) -> str:
    if anchor is None:
        return f"torch.empty({sizes}, dtype={dtype})"
    like = sizes.removesuffix(".shape")
    contiguous = all(r.is_contiguous() for r in results)
    if sizes.endswith(".shape") and like.isidentifier():
        strides = [torch.empty_like(s.arguments[like]).stride() for s in samples]
        if not contiguous and all(r.stride() == st for r, st in zip(results, strides, strict=True)):
            return f"torch.empty_like({like}{_dtype_argument(dtype, like)})"
    return f"{anchor}.new_empty({sizes}{_dtype_argument(dtype, anchor)})"


def _dtype_argument(dtype: str, like: str) -> str:
    return "" if dtype == f"{like}.dtype" else f", dtype={dtype}"


def _list_body(schema: OperatorSchema, samples: Sequence[_Sample], further: Sequence[_Sample]) -> str | None:
    """A list whose items are like those of an argument that is a list, or as many as an argument says."""
    if schema.returns != ("list",):
        return None
    everything = (*samples, *further)
    for argument in schema.arguments:
        name = argument.name
        if argument.is_list and all(_like_items(s.arguments[name] or [], s.results) for s in everything):
            return f"[torch.empty_like(t) for t in {name}]"
        if argument.attr_type == "Int" and all(s.arguments[name] == len(s.results) for s in everything):
            flat = [(s, r) for s in samples for r in s.results]
            guess = _result(schema, [s for s, _ in flat], [r for _, r in flat])
            if guess is not None and all(guess.holds(s, r) for s in further for r in s.results):
                return f"[{guess.code} for _ in range({name})]"
    return None


def _like_items(items: Sequence[Any], results: Sequence[Any]) -> bool:
    return len(items) == len(results) and all(
        isinstance(r, torch.Tensor) and isinstance(t, torch.Tensor) and r.shape == t.shape and r.dtype == t.dtype
        for t, r in zip(items, results, strict=True)
    )


def _anchor(schema: OperatorSchema) -> str | None:
    """A tensor that is always there, for the device."""
    for argument in schema.tensors:
        if argument.input_kind == "required":
            return argument.name
    for argument in schema.tensors:
        if argument.is_list:
            return f"{argument.name}[0]"
    return None


def _first(rules: Iterator[_Rule], samples: Sequence[_Sample], wanted: Sequence[Any]) -> _Rule | None:
    """The first rule that holds in all calls."""
    for rule in rules:
        if all(rule.holds(s, w) for s, w in zip(samples, wanted, strict=True)):
            return rule
    return None


def _required(schema: OperatorSchema) -> list[str]:
    return [a.name for a in schema.tensors if a.input_kind == "required"]


def _size_rules(schema: OperatorSchema) -> Iterator[_Rule]:
    """Rules for all sizes at once, for tensors of any number of dimensions."""
    names = _required(schema)
    for name in names:
        yield _Rule(f"{name}.shape", lambda a, n=name: tuple(a[n].shape))  # type: ignore[misc]
    for number in range(2, len(names) + 1):
        for chosen in itertools.combinations(names, number):
            yield _Rule(
                f"torch.broadcast_shapes({', '.join(f'{n}.shape' for n in chosen)})",
                lambda a, c=chosen: _broadcast([a[n].shape for n in c]),  # type: ignore[misc]
            )
    for argument in schema.arguments:
        if argument.is_list:
            yield _Rule(f"{argument.name}[0].shape", lambda a, n=argument.name: tuple(a[n][0].shape))  # type: ignore[misc]
        if argument.attr_type == "ListInt":
            yield _Rule(argument.name, lambda a, n=argument.name: tuple(a[n]))  # type: ignore[misc]
    yield _Rule("()", lambda a: ())
    for name in names:
        for code, cut in _CUTS.items():
            yield _Rule(f"{name}.shape{code}", lambda a, n=name, c=cut: tuple(a[n].shape[c]))  # type: ignore[misc]
        for argument in schema.others:
            if argument.attr_type == "Int":
                yield _Rule(
                    f"[n for i, n in enumerate({name}.shape) if i != {argument.name} % {name}.ndim]",
                    lambda a, n=name, d=argument.name: tuple(
                        s for i, s in enumerate(a[n].shape) if i != a[d] % a[n].ndim
                    ),  # type: ignore[misc]
                )
        yield _Rule(f"(*{name}.shape[:-1], 1)", lambda a, n=name: (*a[n].shape[:-1], 1))  # type: ignore[misc]
        yield _Rule(
            f"(*{name}.shape[:-1], {name}.shape[-1] // 2)",
            lambda a, n=name: (*a[n].shape[:-1], a[n].shape[-1] // 2),  # type: ignore[misc]
        )
        yield _Rule(
            f"(*{name}.shape[:-1], 2 * {name}.shape[-1])",
            lambda a, n=name: (*a[n].shape[:-1], 2 * a[n].shape[-1]),  # type: ignore[misc]
        )
    for argument in schema.arguments:
        if argument.is_list:
            yield from _joined(argument.name)
    for first, second in itertools.permutations(names, 2):
        yield _Rule(
            f"(*{first}.shape[:-1], *{second}.shape[1:])",
            lambda a, f=first, s=second: (*a[f].shape[:-1], *a[s].shape[1:]),  # type: ignore[misc]
        )
        yield _Rule(
            f"(*{first}.shape[:-1], {second}.shape[0])",
            lambda a, f=first, s=second: (*a[f].shape[:-1], a[s].shape[0]),  # type: ignore[misc]
        )
        yield _Rule(
            f"(*{first}.shape[:-1], {second}.shape[-1])",
            lambda a, f=first, s=second: (*a[f].shape[:-1], a[s].shape[-1]),  # type: ignore[misc]
        )
        yield _Rule(
            f"(*{second}.shape, *{first}.shape[1:])",
            lambda a, f=first, s=second: (*a[s].shape, *a[f].shape[1:]),  # type: ignore[misc]
        )


def _broadcast(shapes: Sequence[Any]) -> tuple[int, ...]:
    return tuple(torch.broadcast_tensors(*(torch.empty(s, device="meta") for s in shapes))[0].shape)  # type: ignore[no-untyped-call]


def _joined(name: str) -> Iterator[_Rule]:
    """The sizes of what a list of tensors gives when it is joined."""
    yield _Rule(
        f"(sum(t.shape[0] for t in {name}), *{name}[0].shape[1:])",
        lambda a: (sum(int(t.shape[0]) for t in a[name]), *a[name][0].shape[1:]),
    )
    yield _Rule(
        f"(*{name}[0].shape[:-1], sum(t.shape[-1] for t in {name}))",
        lambda a: (*a[name][0].shape[:-1], sum(int(t.shape[-1]) for t in a[name])),
    )
    yield _Rule(f"(len({name}), *{name}[0].shape)", lambda a: (len(a[name]), *a[name][0].shape))


_CUTS = {
    "[:-1]": slice(None, -1),
    "[1:]": slice(1, None),
    "[:1]": slice(None, 1),
    "[-1:]": slice(-1, None),
    "[:-2]": slice(None, -2),
    "[::-1]": slice(None, None, -1),
}


def _by_dimension(
    schema: OperatorSchema, samples: Sequence[_Sample], shapes: Sequence[tuple[int, ...]]
) -> _Rule | None:
    """A rule for each size by itself, where all results have as many dimensions."""
    ranks = {len(s) for s in shapes}
    if len(ranks) != 1:
        return None
    found: list[_Rule] = []
    for dim in range(ranks.pop()):
        rule = _first(_number_rules(schema, samples), samples, [s[dim] for s in shapes])
        if rule is None:
            return None
        found.append(rule)
    code = ", ".join(rule.code for rule in found)
    return _Rule(
        f"({code}{',' if len(found) == 1 else ''})", lambda a: tuple(rule.value(a) for rule in found), tuple(found)
    )


def _ties(
    schema: OperatorSchema, guess: _Guess, samples: Sequence[_Sample], results: Sequence[torch.Tensor], result: int
) -> Iterator[str]:
    """Sizes of a result that are equal to several sizes or numbers in all calls."""
    for dim, chosen in enumerate(guess.sizes.parts):
        wanted = [r.shape[dim] for r in results]
        sizes, numbers = _atoms(schema, samples)
        fit = [r.code for r in (*sizes, *numbers) if all(r.holds(s, w) for s, w in zip(samples, wanted, strict=True))]
        if chosen.code in fit and len(fit) > 1:
            both = "both" if len(fit) == 2 else "all"
            yield f"Result {result}, dimension {dim}: {' and '.join(fit)} {both} fit. Choose the one that is meant."


def _atoms(schema: OperatorSchema, samples: Sequence[_Sample]) -> tuple[list[_Rule], list[_Rule]]:
    """The sizes of the tensors, and the numbers among the arguments."""
    sizes = [
        _Rule(f"{name}.shape[{dim}]", lambda a, n=name, d=dim: int(a[n].shape[d]))  # type: ignore[misc]
        for name in _required(schema)
        for dim in range(min(s.arguments[name].ndim for s in samples))
    ]
    numbers = [
        _Rule(a.name, lambda given, n=a.name: given[n])  # type: ignore[misc]
        for a in schema.others
        if a.attr_type == "Int"
    ]
    return sizes, numbers


def _number_rules(schema: OperatorSchema, samples: Sequence[_Sample]) -> Iterator[_Rule]:
    """Rules for one size."""
    sizes, numbers = _atoms(schema, samples)
    lists = [
        rule
        for a in schema.arguments
        if a.is_list
        for rule in (
            _Rule(f"len({a.name})", lambda given, n=a.name: len(given[n])),  # type: ignore[misc]
            *_sums(a),
        )
    ]
    yield from sizes
    yield from numbers
    yield from lists
    for constant in range(9):
        yield _Rule(str(constant), lambda a, c=constant: c)  # type: ignore[misc]
    totals = [_Rule(f"{name}.numel()", lambda a, n=name: int(a[n].numel())) for name in _required(schema)]  # type: ignore[misc]
    yield from totals
    atoms = [*sizes, *totals, *numbers]
    for x, y in itertools.combinations_with_replacement(atoms, 2):
        yield _Rule(f"{x.code} + {y.code}", lambda a, x=x, y=y: x.value(a) + y.value(a))  # type: ignore[misc]
        yield _Rule(f"{x.code} * {y.code}", lambda a, x=x, y=y: x.value(a) * y.value(a))  # type: ignore[misc]
    for x in atoms:
        for constant in (2, 3, 4):
            yield _Rule(f"{constant} * {x.code}", lambda a, x=x, c=constant: c * x.value(a))  # type: ignore[misc]
            yield _Rule(f"{x.code} // {constant}", lambda a, x=x, c=constant: x.value(a) // c)  # type: ignore[misc]
        for constant in (1, 2):
            yield _Rule(f"{x.code} + {constant}", lambda a, x=x, c=constant: x.value(a) + c)  # type: ignore[misc]
            yield _Rule(f"{x.code} - {constant}", lambda a, x=x, c=constant: x.value(a) - c)  # type: ignore[misc]
    for x, y in itertools.permutations(atoms, 2):
        yield _Rule(f"{x.code} // {y.code}", lambda a, x=x, y=y: x.value(a) // y.value(a))  # type: ignore[misc]
        yield _Rule(f"{x.code} - {y.code}", lambda a, x=x, y=y: x.value(a) - y.value(a))  # type: ignore[misc]
    for three in itertools.combinations(sizes, 3):
        code = " * ".join(r.code for r in three)
        yield _Rule(code, lambda a, t=three: t[0].value(a) * t[1].value(a) * t[2].value(a))  # type: ignore[misc]


def _sums(argument: Argument) -> list[_Rule]:
    """The sizes of what a list of tensors gives when it is joined."""
    return [
        _Rule(
            f"sum(t.shape[{dim}] for t in {argument.name})",
            lambda a, n=argument.name, d=dim: sum(int(t.shape[d]) for t in a[n]),  # type: ignore[misc]
        )
        for dim in (0, 1)
    ] + [
        _Rule(
            f"{argument.name}[0].shape[{dim}]",
            lambda a, n=argument.name, d=dim: int(a[n][0].shape[d]),  # type: ignore[misc]
        )
        for dim in (0, 1)
    ]


def _dtype_rules(schema: OperatorSchema, results: Sequence[torch.Tensor]) -> Iterator[_Rule]:
    names = _required(schema)
    for name in names:
        yield _Rule(f"{name}.dtype", lambda a, n=name: a[n].dtype)  # type: ignore[misc]
    for argument in schema.arguments:
        if argument.is_list:
            yield _Rule(f"{argument.name}[0].dtype", lambda a, n=argument.name: a[n][0].dtype)  # type: ignore[misc]
        if argument.attr_type == "DataType":
            yield _Rule(argument.name, lambda a, n=argument.name: a[n])  # type: ignore[misc]
    dtypes = {r.dtype for r in results}
    if len(dtypes) == 1:
        (only,) = dtypes
        yield _Rule(str(only), lambda a: only)
    for first, second in itertools.combinations(names, 2):
        yield _Rule(
            f"torch.promote_types({first}.dtype, {second}.dtype)",
            lambda a, f=first, s=second: torch.promote_types(a[f].dtype, a[s].dtype),  # type: ignore[misc]
        )
    for name in names:
        yield _Rule(
            f"torch.promote_types({name}.dtype, torch.float32)",
            lambda a, n=name: torch.promote_types(a[n].dtype, torch.float32),  # type: ignore[misc]
        )
        yield _Rule(
            f"{name}.dtype if {name}.dtype.is_floating_point or {name}.dtype.is_complex else torch.get_default_dtype()",
            lambda a, n=name: (
                a[n].dtype if a[n].dtype.is_floating_point or a[n].dtype.is_complex else torch.get_default_dtype()
            ),  # type: ignore[misc]
        )
        yield _Rule(
            f"{name}.dtype.to_real()", lambda a, n=name: a[n].dtype.to_real()  # type: ignore[misc]
        )  # fmt: skip
        yield _Rule(
            f"torch.int64 if {name}.dtype in (torch.bool, torch.int32) else {name}.dtype",
            lambda a, n=name: torch.int64 if a[n].dtype in (torch.bool, torch.int32) else a[n].dtype,  # type: ignore[misc]
        )
