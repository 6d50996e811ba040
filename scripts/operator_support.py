"""Which core ATen overloads become exportable Ascend IR: writes docs/operators.md.

Usage: ``python -m scripts.operator_support [--check]``. Every overload is compiled once with
``unconverted_ops="error"`` and compared with eager, so the page says what was seen. With ``--check`` nothing is
written, and the exit status is 1 when the page says something else.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from scripts.core_samples import SAMPLES, Sample, core_overloads
from torch.utils import _pytree as pytree

import torchair
from torchair.config import CompilerConfig
from torchair.convert.driver import convert_graph
from torchair.convert.registry import converters
from torchair.convert.unsupported import UNSUPPORTED
from torchair.errors import UnconvertedOperatorsError
from torchair.pipeline import ge_mode

PAGE = Path(__file__).parents[1] / "docs" / "operators.md"

#: Nodes that hold constants and sizes.
_PLUMBING = ("Const", "HostInts")


@dataclass(frozen=True, slots=True)
class Support:
    """What became of one overload.

    Attributes:
        name: ``"aten.add.Tensor"``.
        operators: Ascend IR operators of the graph, each once, in order.
        how: ``"converter"``, ``"decomposition"`` (PyTorch takes it apart first) or ``"number"`` (of the host).
        reason: Why it has no Ascend IR form; empty when it has one.
    """

    name: str
    operators: tuple[str, ...] = ()
    how: str = ""
    reason: str = ""


def survey() -> Iterator[Support]:
    """Compile each core overload."""
    for op in core_overloads():
        name = str(op)
        if (sample := SAMPLES.get(name)) is None:
            yield Support(name, reason="scripts/core_samples.py has no sample of it")
        else:
            yield _compile(name, op, sample)


def _compile(name: str, op: Any, sample: Sample) -> Support:
    config = CompilerConfig()
    config.engine = "reference"
    config.experimental_config.unconverted_ops = "error"
    seen: list[str] = []

    def recording(*args: Any, **kwargs: Any) -> Any:
        converted = convert_graph(*args, **kwargs)
        seen.extend(node.op for node in converted.graph if node.op not in _PLUMBING)
        return converted

    torch.compiler.reset()
    backend = torchair.get_npu_backend(compiler_config=config)
    compiled: Any = torch.compile(sample.function, fullgraph=True, dynamic=sample.dynamic, backend=backend)
    try:
        with mock.patch.object(ge_mode, "convert_graph", recording):
            results = compiled(*_copies(sample.tensors))
    except Exception as e:  # noqa: BLE001 - whatever it is goes into the table
        return Support(name, reason=UNSUPPORTED.get(name) or _reason(e))
    expected = sample.function(*_copies(sample.tensors))
    if sample.compare == "sizes":
        results, expected = (torch.zeros_like(r) for r in (results, expected))
    torch.testing.assert_close(results, expected, equal_nan=True, check_stride=True)
    if sample.dynamic:
        return Support(name, how="number")
    operators = tuple(n for n in dict.fromkeys(seen) if n not in sample.around)
    return Support(name, operators, "decomposition" if converters.get(op) is None else "converter")


def _copies(tensors: tuple[Any, ...]) -> Any:
    return pytree.tree_map(lambda t: t.clone(), tensors)


def _reason(error: BaseException) -> str:
    """What refused an overload."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, UnconvertedOperatorsError):
        cause = getattr(cause, "inner_exception", None) or cause.__cause__
    if cause is None:
        return f"{type(error).__name__}: {str(error).splitlines()[0]}"
    # "aten.rand.default: why (1 node, first rand)"
    return "; ".join(re.sub(r"^\S+: (.*) \(\d+ nodes?, first \S+\)$", r"\1", why) for why in cause.why)


def page(rows: list[Support]) -> str:
    """The page, in Markdown."""
    done, missing = [r for r in rows if not r.reason], [r for r in rows if r.reason]
    lines = [
        "# Operators",
        "",
        "<!-- Written by `python -m scripts.operator_support`; run it after changing converters. -->",
        "",
        f"Of the {len(rows)} overloads that PyTorch {minor_version()} tags as core ATen, **{len(done)}** become Ascend",
        'IR that can be exported. Each was compiled with `config.experimental_config.unconverted_ops = "error"` and',
        "compared with eager. Other ATen operators are decomposed into these, have converters of their own, or run as",
        "torch calls, with a warning that names them.",
        "",
        "| overload | Ascend IR | how |",
        "|---|---|---|",
        *(f"| `{r.name}` | {_operators(r)} | {r.how} |" for r in done),
        "",
        "## Without an Ascend IR form",
        "",
        "These run as torch calls: right on every engine here, but not exportable.",
        "",
        "| overload | why |",
        "|---|---|",
        *(f"| `{r.name}` | {r.reason[0].upper()}{r.reason[1:]}. |" for r in missing),
        "",
    ]
    return "\n".join(lines)


def minor_version() -> str:
    """The version of torch that the table is of."""
    return ".".join(torch.__version__.split(".")[:2])


def _operators(row: Support) -> str:
    return ", ".join(f"`{name}`" for name in row.operators) or "no operator"


def main(arguments: list[str]) -> int:
    """Write or check the page; the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="only compare with the page")
    options = parser.parse_args(arguments)
    rows = list(survey())
    text = page(rows)
    print(f"{sum(not r.reason for r in rows)} of {len(rows)} core overloads become exportable Ascend IR")
    if options.check:
        return int(PAGE.read_text() != text)
    PAGE.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
