"""Sphinx configuration. ``make docs`` builds the pages; a warning fails the build."""

from __future__ import annotations

import os
from importlib.metadata import version as _installed_version

project = "TorchAir"
author = "The TorchAir contributors"
project_copyright = f"2026, {author}"
version = release = _installed_version("torchair")

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.intersphinx",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
]
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = f"TorchAir {release}"

myst_enable_extensions = ["colon_fence", "deflist", "fieldlist"]
myst_heading_anchors = 3
# CHANGELOG.md and CONTRIBUTING.md are included as pages; their links are relative to the repository.
suppress_warnings = ["myst.xref_missing"]

autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
napoleon_google_docstring = True
napoleon_numpy_docstring = False

# Links into PyTorch's and Python's pages need the network, and a build must not: TORCHAIR_DOCS_ONLINE=1 turns them on.
intersphinx_mapping = (
    {
        "python": ("https://docs.python.org/3", None),
        "torch": ("https://docs.pytorch.org/docs/stable", None),
    }
    if os.environ.get("TORCHAIR_DOCS_ONLINE") == "1"
    else {}
)
