"""Whether a fake kernel (meta function) is right for all sizes: it is run once with symbolic ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from torchair import _torch_compat
from torchair._torch_compat import OpOverload
from torchair.customop.calls import Call
from torchair.customop.compare import leaves
from torchair.customop.observe import Observation

__all__ = ["SymbolicMeta", "reads_data", "symbolic_problems"]


def symbolic_problems(overload: OpOverload, seen: Sequence[Observation]) -> tuple[list[str], int]:
    """Run the fake kernel with symbolic sizes, and compare it with the kernel at other sizes.

    Args:
        seen: What the kernel did; calls that differ only in sizes are compared with each other.

    Returns:
        Problems, and the number of sizes that were compared.
    """
    problems: dict[str, None] = {}
    compared = 0
    for base, others in _families(seen):
        meta = SymbolicMeta.of(overload, base.call)
        if meta.problem:
            problems.setdefault(f"{meta.problem}\n  in the call {base.call} with symbolic sizes")
            continue
        for problem in (meta.unreal(), *meta.fixed(base, others)):
            if problem:
                problems.setdefault(problem)
        for other in (base, *others):
            compared += 1
            for problem in meta.differences(other):
                problems.setdefault(f"with symbolic sizes, {problem}\n  in the call {other.call}")
    return list(problems)[:6], compared


def _families(seen: Sequence[Observation]) -> list[tuple[Observation, list[Observation]]]:
    """Calls with variables, each with those that have only other sizes."""
    found: list[tuple[Observation, list[Observation]]] = []
    for base in seen:
        if base.call.note or not base.call.variables:
            continue
        others = [o for o in seen if o.call.note == "other sizes" and o.call.args is base.call.args]
        found.append((base, others))
    return found


@dataclass(frozen=True, slots=True)
class SymbolicMeta:
    """What a fake kernel said for symbolic sizes.

    Attributes:
        symbols: The symbol of each variable of the call.
        results: What it returned, flat.
        guards: What it assumed about the symbols.
        problem: What it raised; empty otherwise.
    """

    symbols: dict[str, Any]
    results: tuple[Any, ...] = ()
    guards: tuple[Any, ...] = ()
    problem: str = ""

    @classmethod
    def of(cls, overload: OpOverload, call: Call) -> SymbolicMeta:
        """Run it."""
        mode = _torch_compat.symbolic_fake_mode()
        sizes = {n: _torch_compat.create_size_symbol(mode, n, call.sizes[n]) for n in call.variables}
        symbols = {n: _torch_compat.size_symbol(s) for n, s in sizes.items()}
        try:
            with torch.no_grad(), mode:
                args, kwargs = call.fake(sizes)
                before = len(_torch_compat.new_guards(mode))
                result = overload(*args, **kwargs)
        except Exception as e:  # noqa: BLE001  # whatever a user's fake kernel raises is the finding
            return cls(symbols, problem=_raised(e))
        return cls(symbols, tuple(leaves(result)), tuple(_torch_compat.new_guards(mode)[before:]))

    def unreal(self) -> str:
        """A result that is a real tensor."""
        for i, result in enumerate(self.results):
            if isinstance(result, torch.Tensor) and not _torch_compat.is_fake(result):
                return (
                    f"result {i} of the fake kernel is a real tensor on {result.device}, not one that it made for this "
                    "call: make it with empty_like or new_empty of an argument"
                )
        return ""

    def fixed(self, base: Observation, others: Sequence[Observation]) -> list[str]:
        """Sizes that it took as numbers, so that a graph is compiled again for each."""
        problems = []
        for name, symbol in self.symbols.items():
            ruled = [g for g in self.guards if _fixes(g, symbol)]
            if not ruled or any(o.structure != base.structure for o in others):
                continue
            where = _dimensions(base.call, name)
            problems.append(
                f"it takes {where} as the number {base.call.sizes[name]} (by int(), range(), an == or a Python loop), "
                "so that each other size is compiled again: compute with sizes as they are"
            )
        return problems

    def differences(self, seen: Observation) -> list[str]:
        """What differs from the kernel's results at the sizes of a call."""
        values = {symbol: seen.call.sizes[name] for name, symbol in self.symbols.items()}
        if any(_torch_compat.guard_holds(g, values) is False for g in self.guards):
            return []  # another branch is taken there
        if len(self.results) != len(seen.results):
            return [f"the fake kernel promises {len(self.results)} results, the kernel returned {len(seen.results)}"]
        problems = []
        for i, (fake, real) in enumerate(zip(self.results, seen.results, strict=True)):
            if not isinstance(fake, torch.Tensor) or not isinstance(real, torch.Tensor):
                continue
            if fake.dtype != real.dtype:
                problems.append(f"result {i} has dtype {real.dtype}, its fake kernel promises {fake.dtype}")
            promised = [_torch_compat.size_at(s, values) for s in fake.shape]
            if len(promised) != real.ndim or any(
                p is not None and p != r for p, r in zip(promised, real.shape, strict=True)
            ):
                shown = [s if p is None else p for s, p in zip(fake.shape, promised, strict=True)]
                problems.append(
                    f"result {i} has shape {list(real.shape)}, its fake kernel promises {shown}: {list(fake.shape)}"
                )
        return problems


def _fixes(guard: Any, symbol: Any) -> bool:
    """Whether a condition leaves a single value for a symbol."""
    import sympy

    return isinstance(guard, sympy.Eq) and guard.free_symbols == {symbol}


def _dimensions(call: Call, name: str) -> str:
    """Which sizes a variable is, by tensor and dimension."""
    found = [
        f"dimension {dim} of tensor {number}"
        for number, spec in enumerate(call.specs)
        for dim, size in enumerate(spec.sizes)
        if size == name
    ]
    return "the size of " + (found[0] if found else name)


#: Begins of messages of PyTorch about elements that a fake tensor does not have.
_DATA = ("data pointer", "numpy()", "data_ptr", "aten._local_scalar_dense", "without data", "_local_scalar_dense")


def reads_data(error: BaseException) -> bool:
    """Whether a fake kernel failed because it reads the elements of a tensor."""
    text = str(error)
    return _torch_compat.traced_data_dependence(error) or any(words in text for words in _DATA)


def _raised(error: Exception) -> str:
    first = (str(error).strip().splitlines() or [""])[0]
    if reads_data(error):
        return (
            f"the fake kernel reads the elements of a tensor, which there are none of while a graph is compiled: "
            f"{type(error).__name__}: {first}"
        )
    if "meta" in first and "device" in first:
        return (
            f"the meta function returns a tensor of another device: {first}. Make it with empty_like or new_empty of "
            'an argument, or on device "meta"'
        )
    return f"the fake kernel raised {type(error).__name__}: {first}"
