"""Write a new operator project, or a further operator into one."""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2

from torchair.build import cache_root
from torchair.config import Environment
from torchair.customop.project import cpp, python_code
from torchair.customop.project.layout import MARKER, Project, package_name, package_problem
from torchair.customop.project.names import name_in_use
from torchair.customop.project.plan import OperatorPlan, plan_operator
from torchair.customop.prototype_file import prototype_json
from torchair.customop.schema_text import namespace_problem
from torchair.customop.yaml_text import YamlTextError, YamlValue, parse_yaml
from torchair.errors import ProjectError
from torchair.opset.prototype import ir_name

__all__ = ["KERNELS", "Generated", "new_operator"]

_DTYPES = ("float", "float16", "bf16")

_environment = jinja2.Environment(
    loader=jinja2.PackageLoader("torchair.customop.project"),
    autoescape=False,  # noqa: S701  code, not HTML; what goes in was checked, see plan.py
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
)
_environment.filters["cpp_string"] = cpp.cpp_string


@dataclass(frozen=True, slots=True)
class Generated:
    """What was written.

    Attributes:
        project: The project.
        plan: The operator.
        created: New files, as paths below the project's folder.
        changed: Files that were there and got an addition.
        is_new: Whether the project is new.
    """

    project: Project
    plan: OperatorPlan
    created: tuple[str, ...]
    changed: tuple[str, ...]
    is_new: bool


def _render(template: str, **values: Any) -> str:
    return _environment.get_template(f"{template}.jinja").render(**values)


# --- kernel languages: files by path ---


def _cpp_files(plan: OperatorPlan) -> dict[str, str]:
    return {
        f"op_host/{plan.name}.cpp": _render("cpp/op_host.cpp", **cpp.host_context(plan)),
        f"op_kernel/{plan.name}.cpp": _render("cpp/op_kernel.cpp", **cpp.kernel_context(plan)),
    }


def _python_files(plan: OperatorPlan) -> dict[str, str]:
    _refuse_dtypes(plan)
    return {f"op_kernel/{plan.name}.py": _render("python/op_kernel.py", **python_code.kernel_context(plan))}


def _triton_files(plan: OperatorPlan) -> dict[str, str]:
    _refuse_dtypes(plan)
    context = python_code.kernel_context(plan, triton=True)
    return {f"op_kernel/{plan.name}.py": _render("triton/op_kernel.py", **context)}


def _refuse_dtypes(plan: OperatorPlan) -> None:
    """JSON prototypes have no dtypes: one arrives as a number, which the loader reads for built kernels only."""
    if names := [a.name for a in plan.schema.others if a.torch_type.startswith("ScalarType")]:
        raise ProjectError(
            "An operator cannot be generated",
            why=[f"argument {name!r} is a dtype, which only C++ kernels of a project take" for name in names],
            fix="Use --kernel cpp.",
        )


#: Kernel languages: what each writes. A further one is a folder of templates, and here a function.
KERNELS: Mapping[str, Callable[[OperatorPlan], dict[str, str]]] = {
    "cpp": _cpp_files,
    "python": _python_files,
    "triton": _triton_files,
}


# --- the generator ---


def new_operator(
    name: str,
    schema: str,
    folder: str | Path,
    *,
    namespace: str | None = None,
    kernel: str = "cpp",
    inplace: bool = False,
    sizes: Sequence[str] = (),
    dtypes: Sequence[str] = (),
    converter: bool = False,
) -> Generated:
    """Write an operator: into the project in a folder, or as a new project there.

    ::

        new_operator("my_op", "(Tensor x, Tensor? y, float scale) -> Tensor", "my_project")

    Files that exist are left as they are: where one is in the way, nothing is written. Processes of one user that add
    operators to a project at once wait for each other.

    Args:
        name: ``my_op``; the Ascend IR operator is ``MyOp``.
        schema: A torch schema, with or without the name.
        folder: The project's folder; its package gets the folder's name.
        namespace: ``torch.ops.<namespace>``; ``npu`` by default, and in an existing project the one that it has.
        kernel: A language of :data:`KERNELS`.
        inplace: Mark the first tensor as written, if the schema marks none.
        sizes, dtypes: A rule for each result (``x``, ``{4, x.size(0)}``, ``at::kFloat``); by default the first tensor.
        converter: Write a converter, too.

    Raises:
        SchemaError: The schema cannot be read.
        OutputRuleError: A rule cannot be read.
        ProjectError: A name cannot be used, or a file is in the way.
        BuildError: There is no folder for the lock.
    """
    root = Path(folder).absolute()
    with _lock(root):
        return _new_operator(name, schema, root, namespace, kernel, inplace, sizes, dtypes, converter)


@contextlib.contextmanager
def _lock(root: Path) -> Iterator[None]:
    """Keep others from changing a project; the lock is not in its folder, which may not be there yet."""
    import filelock

    folder = cache_root(Environment.read().cache_home) / "projects"
    name = hashlib.sha256(os.fsencode(root.resolve())).hexdigest()[:24]
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        lock = filelock.FileLock(folder / name)
        lock.acquire()
    except OSError as error:
        raise ProjectError(
            "An operator project cannot be written",
            why=f"it cannot be locked: {error}",
            fix="Nothing was written. Name another folder for locks: TORCHAIR_CACHE_HOME=/path/to/folder",
        ) from error
    try:
        yield
    finally:
        lock.release()


def _new_operator(
    name: str,
    schema: str,
    root: Path,
    namespace: str | None,
    kernel: str,
    inplace: bool,
    sizes: Sequence[str],
    dtypes: Sequence[str],
    converter: bool,
) -> Generated:
    is_new = not (root / MARKER).is_file()
    if is_new:
        project = _new_project(root, "npu" if namespace is None else namespace)
    else:
        project = _same_namespace(Project.open(root), namespace)
    if kernel not in KERNELS:
        raise ProjectError(
            "A kernel language is not known",
            why=f"{kernel!r} is none of {', '.join(KERNELS)}",
            fix="Choose one of them.",
        )
    if long := [text for text in (*sizes, *dtypes) if not text.isprintable()]:
        raise ProjectError(
            "An operator cannot be generated",
            why=f"the rule {long[0]!r} has characters that are not printable",
            fix="Write it in one line.",
        )
    plan = plan_operator(name, schema, project.namespace, inplace=inplace, sizes=sizes, dtypes=dtypes)
    _refuse_same_ir_name(project, plan)
    files = {
        f"op_proto/{name}.json": prototype_json(plan.schema, types=_DTYPES),
        **KERNELS[kernel](plan),
        f"tests/test_{name}.py": _render(
            "operator/test_operator.py", **python_code.test_context(plan, project.package)
        ),
    }
    if converter:
        files[f"{project.package}/converters/{name}.py"] = _render("operator/converter.py", **_converter_context(plan))
    if is_new:
        files |= _project_files(project)
    functions = _with_entry(project, plan)
    if not project.yaml.is_file():
        files[project.yaml.name] = functions
        functions = ""
    _write(root, files, project.yaml, functions)
    changed = (project.yaml.name,) if functions else ()
    return Generated(project, plan, tuple(sorted(files)), changed, is_new)


def _new_project(root: Path, namespace: str) -> Project:
    package = package_name(root.name)
    problems = []
    if problem := package_problem(package) or name_in_use(Project(root, package, namespace)):
        problems.append(f"its package would be {package!r}, which {problem}")
    if problem := namespace_problem(namespace):
        problems.append(f"the namespace {namespace!r} {problem}")
    if problems:
        raise ProjectError(
            "An operator project cannot have these names",
            why=[f"folder: {root}", *problems],
            fix="Choose another folder or namespace: --out my_project --namespace npu",
        )
    return Project(root, package, namespace)


def _same_namespace(project: Project, namespace: str | None) -> Project:
    if namespace is not None and namespace != project.namespace:
        raise ProjectError(
            "A project has operators of one namespace",
            why=f"{project.root} is for {project.namespace!r}, not for {namespace!r}",
            fix="Leave --namespace out, or make another project.",
        )
    return project


def _refuse_same_ir_name(project: Project, plan: OperatorPlan) -> None:
    for file in project.prototypes:
        if file.stem != plan.name and ir_name(file.stem) == plan.ir_name:
            raise ProjectError(
                "Two operators of a project would be the same Ascend IR operator",
                why=f"{file.stem} and {plan.name} are both {plan.ir_name}",
                fix="Choose another name.",
            )


def _project_files(project: Project) -> dict[str, str]:
    names = {"package": project.package, "namespace": project.namespace}
    return {
        MARKER: project.marker_text,
        "pyproject.toml": _render("project/pyproject.toml", **names),
        "README.md": _render("project/README.md", **names),
        ".gitignore": _render("project/gitignore"),
        f"{project.package}/__init__.py": _render("project/package.py", **names),
    }


def _converter_context(plan: OperatorPlan) -> dict[str, Any]:
    outputs = [o.name for o in plan.outputs]
    made = ["_"] * len(plan.schema.written) + outputs
    if len(made) == 1:
        assigned, returned = ("return " if outputs else ""), ""
    else:
        assigned, returned = f"{', '.join(made)} = ", ", ".join(outputs)
    return {
        "ir_name": plan.ir_name,
        "name": plan.name,
        "namespace": plan.namespace,
        "schema": plan.text,
        "signature": python_code.call_text(
            f"def convert_{plan.name}", [*(a.name for a in plan.schema.arguments), "meta_outputs=None"], ":"
        ),
        "call": python_code.call_text(
            f"{assigned}torchair.ge.custom_op",
            [f'"{plan.ir_name}"', *(a.name for a in (*plan.schema.tensors, *plan.schema.others))],
            indent=4,
        ),
        "returned": returned,
    }


# --- op_plugin_functions.yaml ---


def _with_entry(project: Project, plan: OperatorPlan) -> str:
    """The file with the operator added at its end, under ``custom:``."""
    entry = _render(
        "operator/entry.yaml",
        func=_yaml_text(plan.text),
        ir_name=plan.ir_name,
        outputs=[(o.key, _yaml_text(o.size.text), _yaml_text(o.dtype.text)) for o in plan.outputs],
        meta=python_code.meta_lines(plan) if plan.outputs else [],
    )
    if not project.yaml.is_file():
        return _render("project/functions.yaml", namespace=project.namespace) + entry
    try:
        old = project.yaml.read_text(encoding="utf-8")
        before = _entries(old)
        new = old + ("" if old.endswith("\n") or not old else "\n") + entry
        problem = None if _entries(new) == [*before, plan.text] else "its end is not the end of custom:"
    except (OSError, UnicodeDecodeError, YamlTextError) as error:
        problem = str(error)
    if problem:
        raise ProjectError(
            "An operator cannot be added to a file",
            why=f"{project.yaml}: {problem}",
            fix=f"Bring the list custom: to its end, indented by two spaces. The entry is:\n\n{entry}",
        )
    return new


def _entries(text: str) -> list[str | None]:
    """``func`` of each entry under ``custom:``."""

    def field(value: YamlValue | None, name: str) -> Any:
        found = value.data.get(name) if value is not None and isinstance(value.data, dict) else None
        return found.data if found is not None else None

    document = parse_yaml(text) if text.strip() else None
    entries = field(document, "custom")
    return [field(entry, "func") for entry in entries] if isinstance(entries, list) else []


def _yaml_text(text: str) -> str:
    """A text as a value in YAML, in quotes only where it needs them."""
    try:
        document = parse_yaml(f"key: {text}\n").data
        plain = isinstance(document, dict) and document["key"].data == text
    except YamlTextError:
        plain = False
    return text if plain else "'" + text.replace("'", "''") + "'"


# --- writing ---


def _write(root: Path, files: Mapping[str, str], functions: Path, functions_text: str) -> None:
    """Write all files, or none."""
    if there := [name for name in sorted(files) if (root / name).exists()]:
        raise ProjectError(
            "A file is in the way of an operator",
            why=[f"{root / name} exists" for name in there],
            fix="Nothing was written. Choose another name, or move these files.",
        )
    created: list[Path] = []
    folders: list[Path] = []
    try:
        for name, text in files.items():
            path = root / name
            for folder in [*reversed(path.parents)]:
                if not folder.exists():
                    folder.mkdir()
                    folders.append(folder)
            with path.open("x", encoding="utf-8") as file:
                created.append(path)
                file.write(text)
        if functions_text:
            _replace(functions, functions_text)
    except BaseException as error:
        for path in created:
            path.unlink(missing_ok=True)
        for folder in reversed(folders):
            with contextlib.suppress(OSError):
                folder.rmdir()
        if isinstance(error, OSError):
            raise ProjectError(
                "An operator project cannot be written", why=str(error), fix="Nothing was written."
            ) from error
        raise


def _replace(path: Path, text: str) -> None:
    """Give a file another content at once: whoever reads it sees the old one or the new one."""
    handle, scratch = tempfile.mkstemp(dir=path.parent, prefix=path.name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        Path(scratch).chmod(path.stat().st_mode)
        Path(scratch).replace(path)
    except BaseException:
        Path(scratch).unlink(missing_ok=True)
        raise
