"""``op_plugin_functions.yaml``: operators from their schemas and the rules of their outputs (specification, F-111).

Source of the format: the documentation of Ascend's OpPlugin (adaptation guide, structured adaptation).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from torchair import _torch_compat
from torchair.customop.adaptation import Adaptation
from torchair.customop.adaptation_converter import register_converter
from torchair.customop.op_plugin_derive import Deriver
from torchair.customop.op_plugin_entries import EntryReader, YamlEntry
from torchair.customop.prototype_file import read_text
from torchair.customop.schema_text import namespace_problem, schema_problems
from torchair.customop.yaml_text import YamlTextError, parse_yaml
from torchair.errors import ArgumentError, OperatorClashError, OperatorFileError
from torchair.logs import get_logger

__all__ = ["YamlEntry", "YamlReport", "adaptation_of", "load_op_plugin_yaml"]

logger = get_logger(__name__)

_FIX = "Correct the file; docs/custom-operators.md shows one."
_SHOWN = 50


@dataclass(frozen=True, slots=True)
class YamlReport:
    """What became of the entries of a file.

    Attributes:
        path: The file.
        entries: One for each entry, in the order of the file.
    """

    path: str
    entries: tuple[YamlEntry, ...]

    @property
    def registered(self) -> tuple[str, ...]:
        """Names of the operators that exist now."""
        return tuple(e.operator for e in self.entries if e.status == "registered")

    @property
    def refused(self) -> tuple[YamlEntry, ...]:
        """Entries that nothing could be derived from."""
        return tuple(e for e in self.entries if e.status == "refused")

    def require(self) -> None:
        """Insist that every entry under ``custom`` was registered.

        Raises:
            OperatorFileError: One was refused; lists all with their reasons.
        """
        if self.refused:
            raise OperatorFileError(
                "Entries of an operator file cannot be used",
                why=[f"line {e.line}, {e.operator}: {e.reason}" for e in self.refused[:_SHOWN]],
                fix="Correct these entries, or register the operators from Python (torch.library).",
                where=self.path,
            )

    def __str__(self) -> str:
        width = max((len(e.operator) for e in self.entries), default=0)
        lines = [self.path]
        for e in self.entries:
            first, *rest = e.reason.splitlines() or [""]
            lines.append(f"  {e.operator:{width}}  {e.status:11}  {first}".rstrip())
            lines += [f"  {'':{width}}  {'':11}  {line}".rstrip() for line in rest]
        return "\n".join(lines)


def load_op_plugin_yaml(path: str | os.PathLike[str], namespace: str = "npu") -> YamlReport:
    """Register the operators under ``custom:`` of an ``op_plugin_functions.yaml``.

    Each gets its schema, an eager kernel that runs the kernel of the IR operator named by ``exec`` (found when it is
    called), and the meta function that follows from ``size`` and ``dtype``. An entry that nothing can be derived from
    is in the report with its reason; the groups ``official`` and ``symint`` are not handled. Nothing is registered
    when the file is malformed. Loading a file again is harmless, and takes its rules as they are now.

    ::

        report = torchair.customop.load_op_plugin_yaml("op_plugin_functions.yaml")
        print(report)  # what was registered, what was refused, and why
        report.require()

    Args:
        path: The file.
        namespace: ``torch.ops.<namespace>`` gets the operators.

    Raises:
        OperatorFileError: The file is malformed; lists all problems with their lines.
        OperatorClashError: An operator is defined with another schema.
        ArgumentError: Operators cannot be defined in this namespace.
    """
    if problem := namespace_problem(namespace):
        raise ArgumentError(
            "Operators cannot be defined in this namespace",
            why=f"the namespace {namespace!r} {problem}",
            fix='load_op_plugin_yaml(path, namespace="my_namespace")',
        )
    text = read_text(path)
    try:
        document = parse_yaml(text)
    except YamlTextError as e:
        raise _malformed(path, [str(e)]) from None
    reader = EntryReader()
    reader.read(document)
    if reader.problems:
        raise _malformed(path, reader.problems)
    deriver = Deriver(path, namespace, reader)
    derived = [deriver.derive(entry) for entry in reader.entries]
    _refuse_clashes(path, [one for one in derived if isinstance(one, Adaptation)])
    report = [_registered(one, namespace) if isinstance(one, Adaptation) else one for one in derived]
    by_line = sorted([*report, *reader.unhandled], key=lambda e: e.line)
    for made in by_line:
        if made.status == "refused":
            logger.warning("%s:%s: %s is not registered: %s", path, made.line, made.operator, made.reason)
    return YamlReport(str(path), tuple(by_line))


def _malformed(path: Any, problems: Sequence[str]) -> OperatorFileError:
    shown = [*problems[:_SHOWN], *([f"and {len(problems) - _SHOWN} more"] if len(problems) > _SHOWN else [])]
    return OperatorFileError("A file that describes operators is malformed", why=shown, fix=_FIX, where=str(path))


# --- registering ---

#: What the operators do now, by qualified name: loading a file again replaces it.
_adaptations: dict[str, Adaptation] = {}
_libraries: dict[str, Any] = {}
#: Of its methods PyTorch leaves the types out.
_Library: Any = torch.library.Library


def _refuse_clashes(path: Any, adaptations: Sequence[Adaptation]) -> None:
    problems = []
    for adaptation in adaptations:
        found = _torch_compat.find_exact(adaptation.operator)
        if found is not None and str(found._schema) != str(adaptation.schema.torch_schema):
            problems += [f"{adaptation.source}: {adaptation.schema.torch_schema}", f"defined: {found._schema}"]
    if problems:
        raise OperatorClashError(
            "An operator is defined with another schema",
            why=problems,
            fix="Use another name or namespace; a schema that changed takes effect in a new process.",
            where=str(path),
        )


def _registered(adaptation: Adaptation, namespace: str) -> YamlEntry:
    schema = adaptation.schema
    name = adaptation.operator
    line = int(adaptation.source.rpartition(":")[2])
    remark = "\n".join(f"graph mode refuses it: {p}" for p in schema_problems(schema) if "must not return" in p)
    if name in _adaptations:
        _adaptations[name] = adaptation
        register_converter(adaptation, lambda: _adaptations[name])
        return YamlEntry(name, "custom", line, "registered", remark)
    found = _torch_compat.find_exact(name)
    has_meta = found is not None and _torch_compat.has_fake_kernel(found)
    library = _libraries.get(namespace)
    if library is None:
        library = _libraries[namespace] = _Library(namespace, "FRAGMENT")
    short = name.partition("::")[2]
    if found is None:
        library.define(str(schema.torch_schema).partition("::")[2], tags=(torch.Tag.pt2_compliant_tag,))
    elif _torch_compat.has_kernel(found, "CPU"):
        return YamlEntry(name, "custom", line, "registered", "it was defined before, and keeps its own kernel")
    _adaptations[name] = adaptation
    library.impl(short, lambda *args, **kwargs: _adaptations[name].eager(*args, **kwargs), "CompositeExplicitAutograd")
    if not has_meta:
        torch.library.register_fake(name, lambda *args, **kwargs: _adaptations[name].meta(*args, **kwargs), lib=library)
    register_converter(adaptation, lambda: _adaptations[name])
    return YamlEntry(name, "custom", line, "registered", remark)


def adaptation_of(name: str) -> Adaptation | None:
    """How an operator (``"npu::my_op"``) that a file registered calls its kernel; None for others."""
    return _adaptations.get(name)
