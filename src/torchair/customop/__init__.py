"""The toolchain for custom operators: their files, what is missing, and whether it is right."""

from __future__ import annotations

from torchair.customop.cases import CaseResult, run_cases
from torchair.customop.check import OperatorReport, Row, check_operator, check_operator_with
from torchair.customop.op_plugin_yaml import YamlEntry, YamlReport, load_op_plugin_yaml
from torchair.customop.project.build import BuildResult, build_project
from torchair.customop.project.generate import Generated, new_operator
from torchair.customop.project.install import install_project
from torchair.customop.project.load import load_project
from torchair.customop.prototype_file import load_prototypes, prototype_json

__all__ = [
    "BuildResult",
    "CaseResult",
    "Generated",
    "OperatorReport",
    "Row",
    "YamlEntry",
    "YamlReport",
    "build_project",
    "check_operator",
    "check_operator_with",
    "install_project",
    "load_op_plugin_yaml",
    "load_project",
    "load_prototypes",
    "new_operator",
    "prototype_json",
    "run_cases",
]
