"""Load a project: prototypes, the built library, kernels, the adaptation in YAML, converters."""

from __future__ import annotations

import ctypes
import importlib
import importlib.util
import re
import sys
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch

from torchair.customop.op_plugin_yaml import load_op_plugin_yaml
from torchair.customop.project.build import built_for
from torchair.customop.project.layout import Project
from torchair.customop.prototype_file import load_prototypes, read_prototypes
from torchair.errors import BuildError, ProjectError
from torchair.ir import DType
from torchair.opset.declarations import register_kernel
from torchair.opset.kernels import kernels
from torchair.opset.loading import load_operators
from torchair.opset.prototype import Prototype, prototypes
from torchair.opset.torch_types import torch_dtype

__all__ = ["check_arguments", "load_library", "load_project"]

_lock = threading.RLock()
_loaded: dict[Path, Project] = {}
#: Whose an Ascend IR operator is.
_owners: dict[str, Project] = {}


def load_project(package: str | Path) -> None:
    """Make the operators of a project available: eagerly as ``torch.ops.<namespace>.my_op``, and in both graph modes.

    The package of a generated project does this when it is imported::

        torchair.customop.load_project(__file__)

    A second call for the same project changes nothing.

    Args:
        package: The ``__init__.py`` of the project's package, or the folder of the package.

    Raises:
        ProjectError: The package belongs to no project, or an Ascend IR operator of another project has the name of one
            of its own.
        BuildError: It is not built, was built for another torch, or its sources and prototypes have other arguments.
        OperatorFileError: A prototype or the YAML file is malformed, or an operator in it cannot be registered.
    """
    folder = Path(package).resolve()
    project = Project.of_package(folder.parent if folder.suffix == ".py" else folder)
    with _lock:
        if project.root in _loaded:
            return
        found = [prototype for file in project.prototypes for prototype in read_prototypes(file)]
        load_operators()
        _claim(project, [p.name for p in found if not prototypes.is_builtin(p.name)])
        for file in project.prototypes:
            load_prototypes(file)
        if project.cpp_sources or project.library.is_file():
            load_library(project)
            check_arguments(project, found)
            _register_built(project, found)
        for source in project.python_kernels:
            _import_kernels(project, source)
        if project.yaml.is_file():
            load_op_plugin_yaml(project.yaml, namespace=project.namespace).require()
        for source in project.converters:
            importlib.import_module(f"{project.package}.converters.{source.stem}")
        _loaded[project.root] = project


def load_library(project: Project) -> None:
    """Load what was built, so that each IR kernel is ``torch.ops.<package>_kernels.MyOp``.

    Raises:
        BuildError: There is nothing built, it was built for another torch, or sources contradict each other.
    """
    fix = f"torchair op build {project.root}"
    built = built_for(project)
    if not project.library.is_file():
        raise BuildError("An operator project is not built", why=f"there is no {project.library}", fix=fix)
    if built and built != torch.__version__:
        why = f"{project.library} was built for torch {built}, this is torch {torch.__version__}"
        raise BuildError("An operator project was built for another torch", why=why, fix=fix)
    made = project.library.stat().st_mtime
    if newer := [str(p.relative_to(project.root)) for p in _sources(project) if p.stat().st_mtime > made]:
        warnings.warn(f"{project.library} is older than {', '.join(newer)}; build it again: {fix}", stacklevel=3)
    try:
        torch.ops.load_library(str(project.library))  # type: ignore[no-untyped-call]
        register = ctypes.CDLL(str(project.library)).torchair_register
    except (OSError, AttributeError) as error:
        said = [str(error), str(error.__cause__ or "")]
        raise BuildError("A built operator library cannot be loaded", why=said, fix=_fix_of(said, fix)) from error
    register.restype = ctypes.c_char_p
    if problems := register(project.kernel_namespace.encode()).decode():
        raise BuildError(
            "The C++ sources of an operator project do not fit together",
            why=problems.splitlines(),
            fix=f"Correct them, then: {fix}",
            where=f"the project {project.root}",
        )


def _fix_of(said: list[str], build: str) -> str:
    """What to do about a library that cannot be loaded: a name that no source defines is not noticed before."""
    missing = re.search(r"undefined symbol: (\S+)", "\n".join(said))
    if missing is None:
        return build
    return f"Define {missing[1]} in a source of op_host or op_kernel, then: {build}"


def _sources(project: Project) -> tuple[Path, ...]:
    return (*project.cpp_sources, *project.headers)


def _claim(project: Project, names: Iterable[str]) -> None:
    """Make Ascend IR operators those of a project: prototypes and kernels are known by these names alone.

    Raises:
        ProjectError: One of them is another project's.
    """
    names = list(names)
    if taken := [(name, owner) for name in names if (owner := _owners.get(name, project)).root != project.root]:
        raise ProjectError(
            "Two operator projects have an Ascend IR operator of the same name",
            why=[f"{name} is of {owner.root}, which is loaded, and of {project.root}" for name, owner in taken],
            fix="Rename the operator in one of them; a namespace of its own is not enough.",
        )
    _owners.update(dict.fromkeys(names, project))


def check_arguments(project: Project, found: Sequence[Prototype]) -> None:
    """Compare the arguments of what was built with those of the prototypes: they are passed by name.

    Args:
        project: The project; its library is loaded.
        found: Its prototypes.

    Raises:
        BuildError: An operator has others; says both lists.
    """
    problems = []
    for prototype, operator in _built(project, found):
        arguments = operator._schema.arguments
        tensors = [a.name for a in arguments if "Tensor" in str(a.real_type)]
        others = [a.name for a in arguments if a.name not in tensors]
        inputs, attrs = [spec.name for spec in prototype.inputs], [spec.name for spec in prototype.attrs]
        if (sorted(tensors), sorted(others)) != (sorted(inputs), sorted(attrs)):
            problems.append(
                f"{prototype.name}: op_host has {_listed(tensors, others)}; op_proto has {_listed(inputs, attrs)}"
            )
    if problems:
        names = f"Use the names of one in the other, and in {project.yaml.name}"
        raise BuildError(
            "The C++ sources of an operator project have other arguments than its prototypes",
            why=problems,
            fix=f"{names}, then: torchair op build {project.root}",
            where=f"the project {project.root}",
        )


def _listed(tensors: Sequence[str], others: Sequence[str]) -> str:
    return f"inputs ({', '.join(tensors)}) and attributes ({', '.join(others)})"


def _built(project: Project, found: Sequence[Prototype]) -> Iterator[tuple[Prototype, Any]]:
    built = getattr(torch.ops, project.kernel_namespace)
    for prototype in found:
        if (packet := getattr(built, prototype.name, None)) is not None:
            yield prototype, packet.default


def _register_built(project: Project, found: Sequence[Prototype]) -> None:
    operators = list(_built(project, found))
    _claim(project, [prototype.name for prototype, _ in operators])
    for prototype, operator in operators:
        register_kernel(prototype.name)(_kernel(operator, prototype))


def _import_kernels(project: Project, source: Path) -> None:
    """Run a file that registers kernels. Those of another project stay as they were."""
    before = {kernel.op: kernel for kernel in kernels}
    try:
        _import_file(source, f"{project.package}.op_kernel.{source.stem}")
    finally:
        changed = [kernel.op for kernel in kernels if kernel is not before.get(kernel.op)]
        for name in changed:
            if name in before and _owners.get(name, project).root != project.root:
                kernels.register(before[name])
    _claim(project, changed)


def _kernel(operator: Any, prototype: Prototype) -> Callable[..., Any]:
    """A built kernel, called as the contract for kernels says: inputs in order, attributes as keywords."""
    inputs = [spec.name for spec in prototype.inputs]
    arguments = operator._schema.arguments
    positional = [a.name for a in arguments if not a.kwarg_only]
    keywords = [a.name for a in arguments if a.kwarg_only]
    dtypes = [a.name for a in arguments if str(a.real_type) == "ScalarType"]

    def kernel(*tensors: Any, **attrs: Any) -> Any:
        given = dict(zip(inputs, tensors, strict=True)) | attrs
        for name in dtypes:  # JSON prototypes have no dtypes; a dtype goes through the graph as its Ascend number
            if isinstance(number := given.get(name), int):
                given[name] = torch_dtype(DType(number))
        return operator(*map(given.get, positional), **{name: given.get(name) for name in keywords})

    kernel.__name__ = kernel.__qualname__ = prototype.name
    return kernel


def _import_file(source: Path, name: str) -> None:
    spec = importlib.util.spec_from_file_location(name, source)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
