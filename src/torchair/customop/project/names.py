"""Whether something else in this Python environment has the name of a project's package."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

from torchair.customop.project.layout import MARKER, Project

__all__ = ["name_in_use"]


def name_in_use(project: Project, *, installing: bool = False) -> str | None:
    """What has the name of a project's package, besides the project itself; None if nothing has.

    pip would take the project for a new version of an installed distribution of its name, and uninstall that; of two
    modules of one name, the one that comes first on the search path hides the other.

    Args:
        project: The project.
        installing: Whether a wheel of an operator project of that name may be there, or one whose folder is gone: it
            is taken for this project, which replaces it.
    """
    root = project.root.resolve()
    try:
        there = importlib.metadata.distribution(project.package)
    except importlib.metadata.PackageNotFoundError:
        there = None
    if there is not None:
        folder = _folder_of(there)
        ours = "Generator: torchair\n" in (there.read_text("WHEEL") or "")
        replaced = installing and (folder is None or not (folder / MARKER).is_file())
        if not ours or not (folder == root or replaced):
            where = f", from {folder}" if folder is not None else ""
            return f"is an installed distribution: {there.metadata['Name']} {there.version}{where}"
        if folder != root:
            return None  # the module of that name is the one that is replaced
    return _module(project.package, root)


def _folder_of(distribution: importlib.metadata.Distribution) -> Path | None:
    """The folder that an editable distribution is read from (PEP 610); None for others."""
    try:
        facts = json.loads(distribution.read_text("direct_url.json") or "{}")
        if not facts.get("dir_info", {}).get("editable"):
            return None
        return Path(url2pathname(urlsplit(facts["url"]).path)).resolve()
    except (ValueError, KeyError, AttributeError):
        return None


def _module(name: str, root: Path) -> str | None:
    """What ``import name`` would find outside a folder."""
    try:
        spec = importlib.util.find_spec(name)
    except ValueError:  # a module without a specification, such as __main__
        return "is a module that is imported"
    if spec is None:
        return None
    if spec.origin is None:  # a folder without __init__.py, which any package hides; some packages are spread over such
        return "is an installed package" if name in importlib.metadata.packages_distributions() else None
    if Path(spec.origin).resolve().is_relative_to(root):
        return None
    return f"is a module that can be imported: {spec.origin}"
