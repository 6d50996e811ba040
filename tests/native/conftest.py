"""What tests of native code share: a compiler for small sources that use the support library."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import pytest

from torchair.build import build_library


@pytest.fixture(scope="session")
def compiled(support, tmp_path_factory) -> Callable[[str, str], ctypes.CDLL]:
    """Compile a source that includes the headers, under a name; the loaded library."""
    folder = tmp_path_factory.mktemp("sources")

    def compile_source(name: str, text: str) -> ctypes.CDLL:
        source = folder / f"{name}.cpp"
        source.write_text(text)
        library = build_library(
            name, [source], support.compiler, support.flags, headers=support.headers, facts=support.facts
        )
        return ctypes.CDLL(str(library))

    return compile_source
