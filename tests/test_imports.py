"""Import rules that import-linter cannot state: single names of torch, and packages that do not exist yet.

* torch's private names (a component that starts with ``_``) appear only in ``_torch_compat``;
* ``ir`` takes nothing of torch but the classes of ``torch.utils._sympy``;
* ``capture`` and ``runtime`` know neither ``ir`` nor ``opset``.

The rules read the syntax tree, so an import inside a function counts as well.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

import torchair

PACKAGE = Path(torchair.__file__).parent
COMPAT = "_torch_compat"
SYMPY = "torch.utils._sympy"


class Use(NamedTuple):
    """A dotted name that a module imports or reads, and where."""

    line: int
    name: str


def imported_names(tree: ast.AST) -> Iterator[Use]:
    """Full dotted names of what ``tree`` imports; ``from a import b`` is ``a.b``."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (Use(node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield from (Use(node.lineno, f"{node.module}.{alias.name}") for alias in node.names)
        elif isinstance(node, ast.Call) and node.args:
            function, argument = node.func, node.args[0]
            called = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
            if called in ("import_module", "__import__") and isinstance(argument, ast.Constant):
                yield Use(node.lineno, str(argument.value))


def read_names(tree: ast.AST) -> Iterator[Use]:
    """Dotted names that ``tree`` reads as attributes of a module imported as a whole, aliases resolved."""
    modules = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                root = alias.name.partition(".")[0]
                modules[alias.asname or root] = alias.name if alias.asname else root
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            modules.update({alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names})
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            parts: list[str] = []
            inner: ast.expr = node
            while isinstance(inner, ast.Attribute):
                parts.append(inner.attr)
                inner = inner.value
            if isinstance(inner, ast.Name) and inner.id in modules:
                yield Use(node.lineno, ".".join([modules[inner.id], *reversed(parts)]))


def within(name: str, package: str) -> bool:
    """Whether the dotted ``name`` is ``package`` or something in it."""
    return name == package or name.startswith(package + ".")


def is_private_torch(name: str) -> bool:
    """Whether ``name`` is torch's and private; operators are public, ``torch.ops.aten._softmax`` too."""
    parts = name.split(".")
    private = any(part.startswith("_") and not (part.startswith("__") and part.endswith("__")) for part in parts)
    return parts[0] == "torch" and private and not within(name, "torch.ops")


def private_torch_uses(source: str, *, allow: tuple[str, ...] = ()) -> list[Use]:
    """Private torch names in ``source``, without those in a package of ``allow``; one for each line."""
    tree = ast.parse(source)
    found = {
        use.line: use
        for use in [*read_names(tree), *imported_names(tree)]
        if is_private_torch(use.name) and not any(within(use.name, package) for package in allow)
    }
    return sorted(found.values())


def package_imports(source: str, packages: tuple[str, ...], *, allow: tuple[str, ...] = ()) -> list[Use]:
    """Imports in ``source`` of something in ``packages``, without those in a package of ``allow``."""
    return [
        use
        for use in imported_names(ast.parse(source))
        if any(within(use.name, package) for package in packages)
        and not any(within(use.name, package) for package in allow)
    ]


def modules(*folders: str) -> list[Path]:
    """All Python files of the package, or of some of its folders."""
    roots = [PACKAGE / folder for folder in folders] if folders else [PACKAGE]
    return sorted(path for root in roots for path in root.rglob("*.py"))


def read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def report(path: Path, uses: list[Use]) -> list[str]:
    return [f"{path.relative_to(PACKAGE)}:{use.line}: {use.name}" for use in uses]


def test_private_torch_names_only_in_compat() -> None:
    found = []
    for path in modules():
        allow = (SYMPY,) if path.is_relative_to(PACKAGE / "ir") else ()
        if path.relative_to(PACKAGE).parts[0] != COMPAT:
            found += report(path, private_torch_uses(read(path), allow=allow))
    assert not found, "\n".join(["move these behind torchair._torch_compat:", *found])


def test_ir_takes_only_sympy_functions_of_torch() -> None:
    paths = modules("ir")
    assert paths
    found = [line for p in paths for line in report(p, package_imports(read(p), ("torch",), allow=(SYMPY,)))]
    assert not found, "\n".join(found)


def test_capture_and_runtime_do_not_know_the_ir() -> None:
    forbidden = ("torchair.ir", "torchair.opset")
    found = [
        line for path in modules("capture", "runtime") for line in report(path, package_imports(read(path), forbidden))
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "source",
    [
        "import torch._dynamo",
        "from torch import _dynamo",
        "from torch._inductor import config",
        "import torch.utils._pytree as pytree",
        "import torch\ntorch._check(True)",
        "import torch as t\nt._C._get_tracing_state()",
        "from torch.utils import _pytree\n_pytree.tree_map(f, x)",
        "def f():\n    from torch._subclasses import FakeTensorMode",
        "import importlib\nimportlib.import_module('torch._functorch.aot_autograd')",
        "import torch.fx as fx\nfx._symbolic_trace",
        "from torch.utils._sympy.functions import FloorDiv",
    ],
)
def test_rule_finds_private_names(source: str) -> None:
    assert len(private_torch_uses(source)) >= 1


@pytest.mark.parametrize(
    "source",
    [
        "import torch\ntorch.ops.aten._softmax.default",
        "import torch\ntorch.__version__\ntorch.fx.GraphModule",
        "from torch.fx.experimental.symbolic_shapes import ShapeEnv",
        "from torchair._torch_compat import FakeTensorMode",
        "import torch\ndef f(x):\n    return x._version",
    ],
)
def test_rule_leaves_public_names(source: str) -> None:
    assert private_torch_uses(source) == []


def test_rule_allows_sympy_functions_where_said() -> None:
    source = "from torch.utils._sympy.functions import FloorDiv\nfrom torch.utils import _pytree"
    assert [use.line for use in private_torch_uses(source, allow=(SYMPY,))] == [2]
    assert [use.name for use in package_imports(source, ("torch",), allow=(SYMPY,))] == ["torch.utils._pytree"]
