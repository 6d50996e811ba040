"""Build the C++ operators of a project: each source on its own, only what changed, all errors of all files."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import torch

from torchair.build import (
    Compiler,
    FailedStep,
    Step,
    build_library,
    find_compiler,
    find_ninja,
    read_diagnostics,
    run_ninja,
)
from torchair.config import Environment
from torchair.customop.project.layout import Project
from torchair.errors import BuildError, Rejection
from torchair.logs import get_logger

__all__ = ["BuildResult", "build_project", "built_for"]

_log = get_logger(__name__)
_HERE = Path(__file__).parent
_INCLUDE = _HERE / "include"
_SHOWN_ERRORS = 20
_FACTS = "facts.json"


@dataclass(frozen=True, slots=True)
class BuildResult:
    """What a build made.

    Attributes:
        library: The library with the project's kernels; None where no source is C++.
        compiled: Sources that were compiled, as paths below the project's folder; others were up to date.
        messages: What the compiler said about them, warnings as a rule.
        seconds: How long it took.
    """

    library: Path | None
    compiled: tuple[str, ...] = ()
    messages: str = ""
    seconds: float = 0.0


def build_project(root: str | Path) -> BuildResult:
    """Compile what changed, and link ``build/lib<package>.so``.

    Processes that build the same project at once wait for each other. A library that a process has loaded stays as it
    is there: restart Python to run what was built.

    Args:
        root: The project's folder.

    Raises:
        ProjectError: The folder is no project.
        BuildError: There is no compiler or no ninja, or a source does not compile; it has the errors of all sources,
            each with file and line.
    """
    project = Project.open(Path(root))
    started = time.perf_counter()
    if not project.cpp_sources:
        return BuildResult(None)
    compiler, ninja = _tool(find_compiler(Environment.read().cxx)), _tool(find_ninja())
    import filelock

    try:
        project.build_folder.mkdir(exist_ok=True)
        with filelock.FileLock(project.build_folder / "lock"):
            return _build(project, compiler, ninja, started)
    except OSError as error:
        raise BuildError(
            "An operator project cannot be built",
            why=f"{project.build_folder} cannot be written: {error}",
        ) from error


def built_for(project: Project) -> str:
    """The version of torch that the library was built for; empty if there is none, or nobody knows."""
    try:
        facts = json.loads((project.build_folder / _FACTS).read_text(encoding="utf-8"))
        return str(facts["torch"]) if project.library.is_file() else ""
    except (OSError, ValueError, KeyError, TypeError):
        return ""


_Tool = TypeVar("_Tool", Compiler, str)


def _tool(found: _Tool | Rejection) -> _Tool:
    if isinstance(found, Rejection):
        raise BuildError("An operator project cannot be built", why=found.reason, fix=found.fix)
    return found


def _build(project: Project, compiler: Compiler, ninja: str, started: float) -> BuildResult:
    facts = {"torch": torch.__version__, "compiler": compiler.identity, "command": list(compiler.command)}
    facts_file = project.build_folder / _FACTS
    facts_text = json.dumps(facts, indent=2) + "\n"
    began = time.time()
    if not facts_file.is_file() or facts_file.read_text(encoding="utf-8") != facts_text:
        # The library that is there has other facts. If this build fails, it must not be taken for one with these.
        project.library.unlink(missing_ok=True)
        facts_file.write_text(facts_text, encoding="utf-8")
    flags = _compile_flags()
    registration = build_library(
        "torchair_registration",
        [_HERE / "registration.cpp"],
        compiler,
        [*flags, "-fopenmp", "-c"],
        headers=sorted(_INCLUDE.rglob("*.h")),
        facts=[torch.__version__, str(torch.version.git_version)],
        cache_home=Environment.read().cache_home,
        suffix=".o",
    )
    objects = {_object(project, source): source.relative_to(project.root).as_posix() for source in project.cpp_sources}
    for folder in {Path(project.root, made).parent for made in objects}:
        folder.mkdir(parents=True, exist_ok=True)
    steps = [_compile_step(compiler, source, made, flags) for made, source in objects.items()]
    library = project.library.relative_to(project.root).as_posix()
    inputs = (*objects, str(registration))
    steps.append(Step(library, inputs, (*compiler.command, "-shared", "-o", library, *inputs, *_link_flags(compiler))))
    ran = run_ninja(ninja, project.root, "build", steps, jobs=Environment.read().max_jobs)
    log = project.build_folder / "build.log"
    log.write_text(ran.text, encoding="utf-8")
    if ran.failed:
        raise BuildError(
            "An operator project does not compile",
            why=[*_errors(ran.failed, objects)],
            fix=f"Correct these lines. All that the compiler said is in {log}",
            where=f"the project {project.root}",
        )
    if project.library.stat().st_mtime < began:  # up to date, though a header that nothing includes may be newer
        os.utime(project.library, (began, began))
    compiled = tuple(objects[made] for made in ran.made if made in objects)
    return BuildResult(project.library, compiled, ran.text, time.perf_counter() - started)


def _object(project: Project, source: Path) -> str:
    """``op_kernel/my_op.cpp`` -> ``build/op_kernel/my_op.o``."""
    return Path("build", source.relative_to(project.root)).with_suffix(".o").as_posix()


def _compile_step(compiler: Compiler, source: str, made: str, flags: Sequence[str]) -> Step:
    reads = f"{made}.d"
    call = (*compiler.command, "-MMD", "-MF", reads, *flags, "-c", source, "-o", made)
    return Step(made, (source,), call, reads, (f"build/{_FACTS}",))


def _compile_flags() -> list[str]:
    from torch.utils import cpp_extension

    return [
        "-std=c++17",
        "-O3",
        "-fPIC",
        "-fvisibility=hidden",
        "-fvisibility-inlines-hidden",
        "-ffp-contract=off",  # the results are to be those of eager mode
        "-Wall",
        f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}",
        f"-I{_INCLUDE}",
        *(part for path in cpp_extension.include_paths() for part in ("-isystem", path)),
    ]


def _link_flags(compiler: Compiler) -> list[str]:
    """Flags of the linker. With gcc, OpenMP is the one that torch has loaded already, so that threads are shared."""
    from torch.utils import cpp_extension

    paths = cpp_extension.library_paths()
    return [
        *(flag for path in paths for flag in (f"-L{path}", f"-Wl,-rpath,{path}")),
        *("-lc10", "-ltorch_cpu"),
        *(["-fopenmp"] if "clang" in compiler.identity else []),
    ]


def _errors(failed: Sequence[FailedStep], sources: dict[str, str]) -> Iterator[str]:
    """One text for each error, the author's line first."""
    found = []
    for step in failed:
        errors = [str(error) for error in read_diagnostics(step.text)]
        title = f"{sources[step.output]}:" if step.output in sources else "linking the library:"
        found += errors or ["\n".join([title, *step.text.splitlines()[:_SHOWN_ERRORS]])]
    yield from found[:_SHOWN_ERRORS]
    if len(found) > _SHOWN_ERRORS:
        yield f"and {len(found) - _SHOWN_ERRORS} more"
