"""The toolchain for custom operators: their files, what is missing, and whether it is right."""

from __future__ import annotations

from torchair.customop.cases import CaseResult, run_cases
from torchair.customop.check import OperatorReport, Row, check_operator
from torchair.customop.op_plugin_yaml import YamlEntry, YamlReport, load_op_plugin_yaml
from torchair.customop.prototype_file import load_prototypes, prototype_json

__all__ = [
    "CaseResult",
    "OperatorReport",
    "Row",
    "YamlEntry",
    "YamlReport",
    "check_operator",
    "load_op_plugin_yaml",
    "load_prototypes",
    "prototype_json",
    "run_cases",
]
