"""The same checks as the Makefile's, each in an environment of its own: ``nox -s tests|lint|docs|examples``."""

from __future__ import annotations

from pathlib import Path

import nox

nox.options.sessions = ["lint", "tests"]
nox.options.reuse_existing_virtualenvs = True

_TORCH = ("-r", "requirements/torch.txt")


@nox.session
def tests(session: nox.Session) -> None:
    """Run the tests; arguments after ``--`` go to pytest."""
    session.install(*_TORCH, "-e", ".[dev,cli,viz,demo]")
    session.run("python", "-m", "pytest", "-n", "2", "--dist", "worksteal", *session.posargs)


@nox.session
def lint(session: nox.Session) -> None:
    """Run ruff, mypy, the import contracts and codespell."""
    session.install(*_TORCH, "-e", ".[dev,cli,viz,demo]")
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    session.run("mypy")
    session.run("lint-imports")
    session.run("codespell")


@nox.session
def docs(session: nox.Session) -> None:
    """Build the documentation; a warning fails the build."""
    session.install(*_TORCH, "-e", ".[docs,viz,demo]")
    session.run("python", "-m", "sphinx", "-W", "--keep-going", "-b", "html", "docs", "docs/_build/html")


@nox.session
def examples(session: nox.Session) -> None:
    """Run every program of ``examples/``."""
    session.install(*_TORCH, "-e", ".[viz,demo]")
    for program in sorted(Path("examples").glob("*.py")):
        session.run("python", str(program))
