"""Whether a kernel does what its fake kernel and its schema promise: dtypes, shapes, strides, memory, what it writes.

Three users: ``torchair.check_operator`` looks at one call, ``config.debug.verify_custom_ops`` at every call of a custom
operator in the first run of a compiled graph, on any engine, and the inductor engine at the types of what custom
operators return in the first run of each graph: its code takes memory for what the fake kernel says.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from typing_extensions import Self

from torchair import _torch_compat
from torchair._torch_compat import OpOverload
from torchair.errors import OperatorContractError

__all__ = ["Checked", "Problem", "broken_contract", "check_call", "is_trusted", "verifying", "verifying_results"]

#: Namespaces whose operators are not checked: PyTorch's own, and ours.
_TRUSTED = frozenset({"aten", "prim", "prims", "_c10d_functional", "inductor", "profiler", "torchair_ir", "air"})


class Problem(str):
    """What differs from a promise, a sentence without a full stop.

    Attributes:
        kind: ``"write"`` (an argument, unannounced), ``"memory"`` (shared or not, unlike promised), ``"fake"`` (no
            fake kernel, or one that raised), ``"result"`` (number or type of results).
    """

    __slots__ = ("kind",)

    kind: str

    def __new__(cls, text: str, kind: str = "result") -> Self:
        """Make one."""
        self = super().__new__(cls, text)
        self.kind = kind
        return self


class Checked:
    """One call of an operator with its contract.

    Attributes:
        result: What the kernel returned.
        problems: What differs from the promise, one sentence each; empty when all is right.
        has_fake: Whether there is a fake kernel to compare with.
    """

    __slots__ = ("has_fake", "problems", "result")

    def __init__(self, result: Any, problems: Sequence[Problem], *, has_fake: bool) -> None:
        self.result = result
        self.problems = tuple(problems)
        self.has_fake = has_fake


def check_call(overload: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Checked:
    """Call an operator and compare what it did with what it promised.

    Args:
        args, kwargs: Real tensors and other values; what the operator writes is written.

    Raises:
        Exception: Whatever the kernel raises.
    """
    flat_args, rebuild = _torch_compat.flatten_call(args, kwargs)
    promised, fake_problem = _promised(overload, flat_args, rebuild)
    before = {i: a.detach().clone() for i, a in enumerate(flat_args) if _is_strided(a)}
    result = overload(*args, **kwargs)
    problems = [Problem(p, "write") for p in _written_unannounced(overload, flat_args, before, args, kwargs)]
    if fake_problem is not None:
        has_fake = not fake_problem.startswith("it has no")
        return Checked(result, [*problems, Problem(fake_problem, "fake")], has_fake=has_fake)
    fake_args, fake_result = promised
    found = _result_problems(overload, result, fake_result, flat_args, fake_args)
    return Checked(result, [*found, *problems], has_fake=True)


def _promised(
    overload: OpOverload, flat_args: Sequence[Any], rebuild: Callable[[Sequence[Any]], Any]
) -> tuple[Any, str | None]:
    """What the fake kernel says for these arguments."""
    mode = _torch_compat.new_fake_mode()
    fake_args = [mode.from_tensor(a, static_shapes=True) if isinstance(a, torch.Tensor) else a for a in flat_args]
    args, kwargs = rebuild(fake_args)
    try:
        with mode:
            return (fake_args, overload(*args, **kwargs)), None
    except Exception as e:  # noqa: BLE001  # whatever a user's fake kernel raises is the finding
        if _torch_compat.lacks_fake_kernel(e):
            return None, "it has no fake kernel (meta function)"
        count = len(overload._schema.returns)
        if isinstance(e, TypeError) and "is not an instance of 'sequence'" in str(e) and count > 1:
            return None, f"it returned {_count(count)}, its fake kernel promises 1 result"
        return None, f"its fake kernel raised {type(e).__name__}: {_first_line(e)}"


def _result_problems(
    overload: OpOverload, result: Any, promised: Any, args: Sequence[Any], fake_args: Sequence[Any]
) -> Iterator[Problem]:
    got, wanted = _leaves(result), _leaves(promised)
    if len(got) != len(wanted):
        yield Problem(f"it returned {_count(len(got))}, its fake kernel promises {_count(len(wanted))}")
        return
    for i, (real, fake) in enumerate(zip(got, wanted, strict=True)):
        if isinstance(real, torch.Tensor) != isinstance(fake, torch.Tensor):
            yield Problem(f"result {i} is a {type(real).__name__}, its fake kernel promises a {type(fake).__name__}")
        elif isinstance(real, torch.Tensor):
            yield from map(Problem, _tensor_problems(i, real, fake))
    yield from (Problem(p, "memory") for p in _memory_problems(got, wanted, args, fake_args))


def _tensor_problems(i: int, real: torch.Tensor, fake: torch.Tensor) -> Iterator[str]:
    if real.dtype != fake.dtype:
        yield f"result {i} has dtype {real.dtype}, its fake kernel promises {fake.dtype}"
    if real.device != fake.device:
        yield f"result {i} is on {real.device}, its fake kernel promises {fake.device}"
    if not _same_sizes(real.shape, fake.shape):
        yield f"result {i} has shape {list(real.shape)}, its fake kernel promises {list(fake.shape)}"
    elif _is_strided(real) and _is_strided(fake) and real.numel() > 1:
        promised: Any = fake.stride()  # may be symbolic
        strides = [(a, b) for size, a, b in zip(real.shape, real.stride(), promised, strict=True) if size != 1]
        if any(isinstance(b, int) and a != b for a, b in strides):
            yield f"result {i} has strides {list(real.stride())}, its fake kernel promises {list(fake.stride())}"


def _memory_problems(
    got: Sequence[Any], wanted: Sequence[Any], args: Sequence[Any], fake_args: Sequence[Any]
) -> Iterator[str]:
    for i, (real, fake) in enumerate(zip(got, wanted, strict=True)):
        if not (_is_strided(real) and _is_strided(fake)) or not real.numel():
            continue
        for other, (a, b) in enumerate(zip([*args, *got[:i]], [*fake_args, *wanted[:i]], strict=True)):
            if not (_is_strided(a) and _is_strided(b)):
                continue
            shares = _torch_compat.storage_id(real) == _torch_compat.storage_id(a)
            promised = _torch_compat.storage_id(fake) == _torch_compat.storage_id(b)
            name = f"tensor argument {_number(args, other)}" if other < len(args) else f"result {other - len(args)}"
            if shares and not promised:
                yield f"result {i} lies in the memory of {name}, and its fake kernel makes a tensor of its own"
            elif promised and not shares:
                yield f"result {i} is a tensor of its own, and its fake kernel returns the memory of {name}"


def _written_unannounced(
    overload: OpOverload, flat: Sequence[Any], before: Mapping[int, torch.Tensor], args: Sequence[Any], kwargs: Any
) -> Iterator[str]:
    """Arguments that changed although the schema does not say that they are written."""
    schema = overload._schema
    announced: set[int] = set()
    names: dict[int, str] = {}
    given = {**dict(zip((a.name for a in schema.arguments), args, strict=False)), **kwargs}
    for argument in schema.arguments:
        for tensor in _leaves(given.get(argument.name)):
            if _is_strided(tensor):
                names.setdefault(id(tensor), argument.name)
                if argument.alias_info is not None and argument.alias_info.is_write:
                    announced.add(_torch_compat.storage_id(tensor))
    for i, old in before.items():
        if _torch_compat.storage_id(flat[i]) not in announced and not _same_bits(old, flat[i].detach()):
            yield f"it writes the argument {names.get(id(flat[i]), i)!r}, and its schema does not say so: Tensor(a!)"


@contextlib.contextmanager
def verifying() -> Iterator[None]:
    """Check every call of a custom operator that happens meanwhile in this thread, by whatever engine.

    Raises:
        OperatorContractError: At the end of the first call that does not do what was promised.
    """
    with _torch_compat.without_alias_check(), _torch_compat.intercepting_calls(_verified_call):
        yield


def _verified_call(overload: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    if is_trusted(overload):
        return overload(*args, **kwargs)
    checked = check_call(overload, args, kwargs)
    if checked.problems:
        raise broken_contract(str(overload), checked.problems)
    return checked.result


@contextlib.contextmanager
def verifying_results(where: Mapping[str, Sequence[str]]) -> Iterator[None]:
    """Compare dtypes, shapes and strides of what custom operators return meanwhile with what their fake kernels say.

    Reads no elements, so it costs little; an operator without a fake kernel is not looked at.

    Args:
        where: The user's lines, by operator (``"ns.name.overload"``).

    Raises:
        OperatorContractError: At the end of the first call that returns something else.
    """

    def call(overload: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        if is_trusted(overload) or not overload._schema.returns:
            return overload(*args, **kwargs)
        promised, problem = _promised(overload, *_torch_compat.flatten_call(args, kwargs))
        result = overload(*args, **kwargs)
        if problem is None:
            got, wanted = _leaves(result), _leaves(promised[1])
            pairs = enumerate(zip(got, wanted, strict=False))
            tensors = [(i, a, b) for i, (a, b) in pairs if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor)]
            problems = [p for i, a, b in tensors for p in _tensor_problems(i, a, b)]
            if problems:
                raise broken_contract(str(overload), problems, where.get(str(overload), ()))
        return result

    with _torch_compat.intercepting_calls(call):
        yield


def is_trusted(overload: OpOverload) -> bool:
    """True for operators whose promises are not checked: PyTorch's own, and ours."""
    return overload.namespace in _TRUSTED


def broken_contract(operator: str, problems: Sequence[str], where: Sequence[str] = ()) -> OperatorContractError:
    """The error for an operator that does something else than it promises."""
    return OperatorContractError(
        "A kernel does not do what its fake kernel and its schema promise",
        why=[f"{operator}: {problem}" for problem in problems],
        fix="Correct the kernel, its fake kernel (torch.library.register_fake), or the schema.",
        where=where,
    )


def _leaves(value: Any) -> list[Any]:
    if value is None:
        return []
    return [leaf for v in value for leaf in _leaves(v)] if isinstance(value, list | tuple) else [value]


def _is_strided(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.layout is torch.strided


def _same_sizes(real: Sequence[int], fake: Sequence[Any]) -> bool:
    return len(real) == len(fake) and all(a == b for a, b in zip(real, fake, strict=True) if isinstance(b, int))


def _same_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Equal, NaNs included; a number that changed its sign of zero has changed."""
    if a.numel() == 0:
        return True
    if a.is_conj() or a.is_neg():
        a, b = a.resolve_conj().resolve_neg(), b.resolve_conj().resolve_neg()
    return torch.equal(a.contiguous().reshape(-1).view(torch.uint8), b.contiguous().reshape(-1).view(torch.uint8))


def _number(args: Sequence[Any], index: int) -> int:
    """Which of the tensors among the arguments one is."""
    return sum(isinstance(a, torch.Tensor) for a in args[:index])


def _count(number: int) -> str:
    return {0: "no result", 1: "1 result"}.get(number, f"{number} results")


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else ""
