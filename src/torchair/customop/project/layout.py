"""What lies where in an operator project, and the file that makes a folder a project."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import dataclass
from pathlib import Path

from torchair.customop.schema_text import identifier_problem, namespace_problem
from torchair.errors import ProjectError

__all__ = ["INSIDE_PACKAGE", "MARKER", "Project", "find_project", "package_name", "package_problem"]

#: The file that makes a folder a project.
MARKER = "torchair_project.json"

#: Folder of a package in which an installed wheel has the project's files.
INSIDE_PACKAGE = "_project"

#: Folders of a project, and packages that a project uses or is installed and tested with: also where they are missing.
_TAKEN = frozenset(
    {
        *("torch", "torchair", "npugraph_ex", "numpy", "pip", "setuptools", "wheel", "pytest", "conftest", "test"),
        *("tests", "op_host", "op_kernel", "op_proto", "build"),
    }
)
#: How files are named that a C++ source includes.
_HEADERS = frozenset({".h", ".hh", ".hpp", ".hxx", ".inc", ".inl", ".ipp", ".tpp"})


@dataclass(frozen=True, slots=True)
class Project:
    """A project.

    Attributes:
        root: Its folder.
        package: Name of its Python package.
        namespace: Where its operators are: ``torch.ops.<namespace>``.
    """

    root: Path
    package: str
    namespace: str

    @classmethod
    def open(cls, root: Path) -> Project:
        """The project in a folder.

        Raises:
            ProjectError: The folder is none, or its :data:`MARKER` is malformed.
        """
        marker = root / MARKER
        try:
            text = marker.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ProjectError(
                "A folder is no operator project",
                why=f"{marker} cannot be read: {error.strerror if isinstance(error, OSError) else error}",
                fix='Make one: torchair op new my_op --schema "(Tensor x) -> Tensor" --out DIR',
            ) from error
        try:
            content = json.loads(text)
            problem = _marker_problem(content)
        except (ValueError, RecursionError) as error:
            problem = f"it is no JSON: {error}"
        if problem:
            raise ProjectError(
                "An operator project is malformed",
                why=f"{marker}: {problem}",
                fix='It has to be like this: {"package": "my_project", "namespace": "npu"}',
            )
        return cls(root, content["package"], content["namespace"])

    @classmethod
    def of_package(cls, package: Path) -> Project:
        """The project that a Python package (its folder) belongs to.

        Raises:
            ProjectError: It belongs to none.
        """
        inside = package / INSIDE_PACKAGE
        return cls.open(inside if (inside / MARKER).is_file() else package.parent)

    @property
    def marker_text(self) -> str:
        """What :meth:`open` reads."""
        return json.dumps({"package": self.package, "namespace": self.namespace}, indent=2) + "\n"

    @property
    def kernel_namespace(self) -> str:
        """Where the built kernels are: ``torch.ops.<kernel_namespace>.MyOp``."""
        return f"{self.package}_kernels"

    @property
    def build_folder(self) -> Path:
        return self.root / "build"

    @property
    def library(self) -> Path:
        """What :func:`torchair.customop.build_project` makes."""
        return self.build_folder / f"lib{self.package}.so"

    @property
    def yaml(self) -> Path:
        return self.root / "op_plugin_functions.yaml"

    @property
    def prototypes(self) -> tuple[Path, ...]:
        return tuple(sorted((self.root / "op_proto").glob("*.json")))

    @property
    def cpp_sources(self) -> tuple[Path, ...]:
        """What is compiled, and what else the sources of ``op_host`` and ``op_kernel`` may include is not among it."""
        return tuple(sorted(p for folder in ("op_host", "op_kernel") for p in (self.root / folder).glob("*.cpp")))

    @property
    def headers(self) -> tuple[Path, ...]:
        """What the sources may include."""
        files = [p for folder in ("op_host", "op_kernel") for p in (self.root / folder).rglob("*")]
        return tuple(sorted(p for p in files if p.suffix in _HEADERS and p.is_file()))

    @property
    def python_kernels(self) -> tuple[Path, ...]:
        return tuple(sorted((self.root / "op_kernel").glob("*.py")))

    @property
    def converters(self) -> tuple[Path, ...]:
        return tuple(sorted((self.root / self.package / "converters").glob("*.py")))


def find_project(start: Path) -> Path | None:
    """The project folder that ``start`` is, or is in; None if it is in none."""
    start = start.resolve()
    return next((folder for folder in (start, *start.parents) if (folder / MARKER).is_file()), None)


def package_name(folder_name: str) -> str:
    """The package of a project folder: ``my-project`` is ``my_project``."""
    return re.sub(r"[-. ]", "_", folder_name)


def package_problem(name: str) -> str | None:
    """Why a package cannot have that name, or None."""
    if problem := identifier_problem(name):
        return problem
    if name in sys.stdlib_module_names:
        return "is a module of Python"
    if name in _TAKEN:
        return "is the name of another package, or of a folder of the project"
    return None


def _marker_problem(content: object) -> str | None:
    if not isinstance(content, dict):
        return f"it is a {type(content).__name__}, not an object"
    for field, problem_of in (("package", package_problem), ("namespace", namespace_problem)):
        value = content.get(field)
        if not isinstance(value, str):
            return f"its field {field!r} is missing, or no text"
        if problem := problem_of(value):
            return f"{field} {value!r} {problem}"
    return None
