"""FX nodes without an Ascend IR form, as ``torch_call`` nodes: a dispatcher call with its argument mapping."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import fx

from torchair import _torch_compat
from torchair._torch_compat import OpOverload
from torchair.convert.results import flatten
from torchair.convert.schemas import OperatorSchema
from torchair.errors import Rejection
from torchair.ir import Call, Dim, Literal, Slot, Value
from torchair.opset.kernels import overload_name
from torchair.opset.torch_types import dim_of, host_type, tensor_type

if TYPE_CHECKING:
    from torchair.convert.driver import Driver

__all__ = [
    "BUILTIN_NAMESPACES",
    "CallTemplate",
    "convert",
    "fix_of",
    "is_host",
    "is_random",
    "meta_of",
    "operand_strides",
    "runs_as_itself",
    "schema_arguments",
    "shared_memory",
]

#: Namespaces of PyTorch's own operators: they are never converted automatically, and always run as themselves.
BUILTIN_NAMESPACES = frozenset(
    {"aten", "prim", "prims", "_c10d_functional", "inductor", "quantized", "mkldnn", "rngprims"}
)


#: Operators of ours that do so, too, and what a user can do about them.
_OURS = {
    f"air.{name}.default": "Draw no random numbers (dropout) in what torch.utils.checkpoint computes again."
    for name in ("get_rng_state", "set_rng_state")
}


def runs_as_itself(overload: OpOverload) -> bool:
    """True for operators that become a ``torch_call`` when they have no converter."""
    return overload.namespace in BUILTIN_NAMESPACES or str(overload) in _OURS


def fix_of(overload: OpOverload) -> str:
    """What to do where Ascend IR is wanted and nobody can write a converter; empty where a converter would do."""
    return _OURS.get(str(overload), "")


class CallTemplate:
    """Makes a :class:`Call` from arguments, and collects the values that it reads."""

    def __init__(self) -> None:
        self.values: list[Value] = []

    def of(self, arg: Any) -> Any:
        """The template of one argument. Raises ``TypeError`` for objects that a call cannot hold."""
        if isinstance(arg, Value):
            self.values.append(arg)
            return Slot(len(self.values) - 1, host=is_host(arg))
        if isinstance(arg, torch.dtype):
            return Literal("dtype", str(arg).removeprefix("torch."))
        if isinstance(arg, torch.layout):
            return Literal("layout", str(arg).removeprefix("torch."))
        if isinstance(arg, torch.memory_format):
            return Literal("memory_format", str(arg).removeprefix("torch."))
        if isinstance(arg, torch.device):
            return Literal("device", str(arg))
        if isinstance(arg, list | tuple):
            return tuple(self.of(a) for a in arg)
        if arg is None or isinstance(arg, bool | int | float | complex | str):
            return arg
        raise TypeError(f"a {type(arg).__name__} argument ({arg!r})")


def is_host(value: Value) -> bool:
    """True for values that stand for a (symbolic) number of FX rather than for a tensor."""
    if value.type.content is None or value.rank:
        return False
    producer = value.producer
    if producer is None or producer.op == "HostInts":
        return True
    return any(output == value.index and dim is None for _, output, dim in producer.binds)


def schema_arguments(
    overload: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> list[tuple[torch.Argument, Any]]:
    """Every argument of the schema with its value, defaults filled in."""
    given = dict(kwargs)
    pairs = []
    for i, argument in enumerate(overload._schema.arguments):
        if i < len(args) and not argument.kwarg_only:
            value = args[i]
        else:
            value = given.get(argument.name, argument.default_value)
        pairs.append((argument, value))
    return pairs


def is_random(overload: OpOverload) -> bool:
    """True when the operator draws from a random generator."""
    return torch.Tag.nondeterministic_seeded in overload.tags


def convert(
    driver: Driver, node: fx.Node, overload: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any], val: Any
) -> Any:
    """Add a ``torch_call`` node; a :class:`Rejection` when it cannot be run either."""
    template = CallTemplate()
    writes: list[int] = []
    call_args: list[Any] = []
    call_kwargs: list[tuple[str, Any]] = []
    written: list[Value] = []
    written_by: dict[str, int] = {}
    try:
        for argument, value in _given(
            overload, driver.lower_args(args), {k: driver.lower_args(v) for k, v in kwargs.items()}
        ):
            start = len(template.values)
            part = template.of(value)
            if argument.kwarg_only:
                call_kwargs.append((argument.name, part))
            else:
                call_args.append(part)
            if argument.alias_info is not None and argument.alias_info.is_write:
                written_by[argument.name] = len(written)
                writes += range(start, len(template.values))
                written += template.values[start:]
    except TypeError as e:
        return Rejection(
            f"a torch call cannot hold {e}", fix="Keep the operator out of the compiled region with a graph break."
        )
    if any(v.producer is None for v in written):
        return Rejection(
            "it changes an argument of the graph itself, not only its elements",
            fix="Keep assignments to .data, set_() and resize_() out of the compiled region, or use x.copy_(y).",
        )
    call = Call(
        overload_name(overload),
        tuple(call_args),
        tuple(call_kwargs),
        tuple(writes),
    )
    # What it returns of the arguments that it writes are these arguments, not further results.
    returned = OperatorSchema.of(overload).returned_arguments if written else ()
    promised = list(val) if len(returned) > 1 else [val]
    own = [v for i, v in enumerate(promised) if not returned or returned[i] not in written_by]
    metas = [v for v in flatten(own) if v is not None]
    types = [v.type for v in written] + [tensor_type(m) if isinstance(m, torch.Tensor) else host_type(m) for m in metas]
    result = driver.builder.node(
        "torch_call",
        list(template.values),
        {},
        None,
        types=types,
        output_names=[f"y{i}" for i in range(len(types))],
        call=call,
        # An operator that returns nothing exists for its effect (an assertion, a print).
        side_effects=is_random(overload)
        or not overload._schema.returns
        or (overload._schema.is_mutable and not writes),
        writes=[(i, slot) for i, slot in enumerate(writes)],
        aliases=shared_memory(driver, node, template.values, metas, len(written)),
        binds=driver.symbols.bind(types[len(written) :], len(written)),
        value_name=node.name,
    )
    result.operand_strides = operand_strides(driver, node, template.values)
    values = iter(result.outputs[len(written) :])
    if not any(argument in written_by for argument in returned):
        return _structure(val, values)
    results = [
        result.outputs[written_by[argument]] if argument in written_by else _structure(v, values)
        for v, argument in zip(promised, returned, strict=True)
    ]
    return results[0] if len(results) == 1 else tuple(results)


def _given(overload: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[tuple[torch.Argument, Any]]:
    """Arguments that were given, positional ones without gaps."""
    pairs = schema_arguments(overload, args, kwargs)
    positional = [p for p in pairs if not p[0].kwarg_only]
    last = max([i for i, (a, _) in enumerate(positional) if i < len(args) or a.name in kwargs], default=-1)
    return positional[: last + 1] + [(a, v) for a, v in pairs if a.kwarg_only and a.name in kwargs]


def _structure(val: Any, values: Any) -> Any:
    if isinstance(val, list | tuple):
        return tuple(_structure(v, values) for v in val)
    return None if val is None else next(values)


def meta_of(driver: Driver, node: fx.Node) -> dict[Value, torch.Tensor]:
    """The fake tensors of a node's tensor arguments, by the IR value that stands for each."""
    return {
        value: meta
        for source in node.all_input_nodes
        for value, meta in zip(flatten(driver.env.get(source)), flatten(source.meta.get("val")), strict=False)
        if isinstance(value, Value) and isinstance(meta, torch.Tensor)
    }


def operand_strides(
    driver: Driver, node: fx.Node, values: Sequence[Value | None]
) -> tuple[tuple[Dim, ...] | None, ...]:
    """Eager's strides of each operand: an opaque operator may depend on them."""
    metas = meta_of(driver, node)
    return tuple(
        tuple(dim_of(s) for s in metas[v].stride())
        if v is not None and v in metas and metas[v].layout is torch.strided
        else None
        for v in values
    )


def shared_memory(
    driver: Driver, node: fx.Node, values: Sequence[Value | None], metas: Sequence[Any], first: int = 0
) -> list[tuple[int, int]]:
    """``Node.aliases``: which result lies in the memory of which operand, by the storages of the fake tensors.

    Args:
        metas: What FX promises of the outputs from number ``first`` on.
    """
    storages = {_torch_compat.storage_id(m): v for v, m in meta_of(driver, node).items() if m.layout is torch.strided}
    return [
        (first + i, values.index(source))
        for i, m in enumerate(metas)
        if isinstance(m, torch.Tensor)
        and m.layout is torch.strided
        and (source := storages.get(_torch_compat.storage_id(m))) is not None
        and source in values
    ]
