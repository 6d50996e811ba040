"""The toolchain for custom operators: what is missing, and whether it is right."""

from __future__ import annotations

from torchair.customop.cases import CaseResult, run_cases
from torchair.customop.check import OperatorReport, Row, check_operator

__all__ = ["CaseResult", "OperatorReport", "Row", "check_operator", "run_cases"]
