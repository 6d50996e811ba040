"""Runs the cases that ``declare_supported`` declares, eagerly and compiled (specification, F-60)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torchair.config import CompilerConfig
from torchair.convert.registry import Converter
from torchair.convert.supported import Support
from torchair.customop.compare import Comparison, compare_modes
from torchair.errors import ArgumentTypeError

__all__ = ["CaseResult", "run_cases"]


@dataclass(frozen=True, slots=True)
class CaseResult:
    """What became of one declared case.

    Attributes:
        case: The case.
        comparison: Eager against GE mode.
    """

    case: Support
    comparison: Comparison

    @property
    def ok(self) -> bool:
        """Both modes ran and agree."""
        return self.comparison.error is None and not self.comparison.problems

    def __str__(self) -> str:
        if self.ok:
            return f"pass  {self.case}"
        error = self.comparison.error
        reasons = self.comparison.problems or (f"{self.comparison.mode} mode: {type(error).__name__}: {error}",)
        return "\n      ".join([f"wrong {self.case}", *(line for r in reasons for line in r.splitlines())])


def run_cases(
    converter: Any, *, config: CompilerConfig | None = None, rtol: float | None = None, atol: float | None = None
) -> tuple[CaseResult, ...]:
    """Run each declared case of a converter eagerly and in GE mode.

    Args:
        converter: A converter; one without a declaration has no cases.
        config: Configuration of GE mode; by default the reference engine.
        rtol, atol: Tolerances as of ``torch.testing.assert_close``.

    Raises:
        ArgumentTypeError: It is no converter.
    """
    if not isinstance(converter, Converter):
        raise ArgumentTypeError(
            "run_cases takes a converter",
            why=f"it was given {converter!r}, a {type(converter).__name__}",
            fix="Pass what @register_fx_node_ge_converter(...) made of the function.",
        )
    results = []
    for number, case in enumerate(converter.supported_declaration or ()):
        args, kwargs = case.call(seed=number)
        comparison = compare_modes(converter.overload, args, kwargs, config=config, rtol=rtol, atol=atol)
        results.append(CaseResult(case, comparison))
    return tuple(results)
