"""C++ sources to libraries in the cache folder, with the compiler of this machine."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import stat
from pathlib import Path

import pytest

from torchair.build import Compiler, build_library, cache_root, find_compiler
from torchair.errors import BuildError, Rejection

FLAGS = ["-shared", "-fPIC"]
SOURCE = 'extern "C" int answer() { return 42; }\n'


@pytest.fixture
def compiler() -> Compiler:
    found = find_compiler()
    if isinstance(found, Rejection):
        pytest.skip(found.reason)
    return found


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "answer.cpp"
    path.write_text(SOURCE)
    return path


def private(path: Path) -> str:
    path.mkdir(mode=0o700)
    return str(path)


def test_a_library_is_built_once_and_then_loaded(compiler: Compiler, source: Path, tmp_path: Path) -> None:
    home = private(tmp_path / "home")
    first = build_library("answer", [source], compiler, FLAGS, cache_home=home)
    assert ctypes.CDLL(str(first)).answer() == 42
    changed = first.stat().st_mtime_ns
    assert build_library("answer", [source], compiler, FLAGS, cache_home=home) == first
    assert first.stat().st_mtime_ns == changed


@pytest.mark.parametrize("damage", ["half", "empty", "other", "no checksum"])
def test_a_damaged_library_is_built_again(damage: str, compiler: Compiler, source: Path, tmp_path: Path) -> None:
    """Before it is loaded: half of one that is loaded ends the process."""
    home = private(tmp_path / "home")
    library = build_library("answer", [source], compiler, FLAGS, cache_home=home)
    whole = library.read_bytes()
    if damage == "no checksum":
        (library.parent / "checksum").unlink()
    else:
        library.write_bytes({"half": whole[: len(whole) // 2], "empty": b"", "other": whole[:-1] + b"?"}[damage])
    assert build_library("answer", [source], compiler, FLAGS, cache_home=home) == library
    assert ctypes.CDLL(str(library)).answer() == 42


def test_what_the_result_depends_on_is_in_the_key(compiler: Compiler, source: Path, tmp_path: Path) -> None:
    home = private(tmp_path / "home")
    libraries = {
        build_library("answer", [source], compiler, FLAGS, cache_home=home),
        build_library("answer", [source], compiler, [*FLAGS, "-O2"], cache_home=home),
        build_library("answer", [source], compiler, FLAGS, facts=["another torch"], cache_home=home),
    }
    header = source.with_suffix(".h")
    header.write_text("// one\n")
    libraries.add(build_library("answer", [source], compiler, FLAGS, headers=[header], cache_home=home))
    header.write_text("// another\n")
    libraries.add(build_library("answer", [source], compiler, FLAGS, headers=[header], cache_home=home))
    source.write_text(SOURCE.replace("42", "43"))
    libraries.add(build_library("answer", [source], compiler, FLAGS, cache_home=home))
    assert len(libraries) == 6


def _build(arguments: tuple[str, str, Path]) -> str:
    """Build with a compiler that counts its calls."""
    home, counter, source = arguments
    compiler = Compiler(("sh", counter), "counting")
    return str(build_library("answer", [source], compiler, FLAGS, cache_home=home))


def test_processes_that_build_at_once_build_once(compiler: Compiler, source: Path, tmp_path: Path) -> None:
    counter = tmp_path / "counting.sh"
    counter.write_text(f'echo call >> "{tmp_path}/calls"\nsleep 0.3\nexec {" ".join(compiler.command)} "$@"\n')
    home = private(tmp_path / "home")
    with multiprocessing.get_context("spawn").Pool(4) as pool:
        made = pool.map(_build, [(home, str(counter), source)] * 4, chunksize=1)
    assert len(set(made)) == 1
    assert (tmp_path / "calls").read_text() == "call\n"
    assert ctypes.CDLL(made[0]).answer() == 42


def test_a_source_that_does_not_compile(compiler: Compiler, tmp_path: Path) -> None:
    source = tmp_path / "broken.cpp"
    source.write_text("#error the source says so\n")
    home = private(tmp_path / "home")
    failing = Compiler(("sh", "-c", "echo broken.cpp:1: error: no >&2; exit 3"), "failing")
    with pytest.raises(BuildError) as caught:
        build_library("broken", [source], failing, [], cache_home=home)
    made = str(caught.value).rpartition("-o ")[2]
    assert (
        str(caught.value)
        == f"""\
A C++ source does not compile [TA410]
  why:
    sh ended with 3
    broken.cpp:1: error: no
  fix:
    The call was:
    sh -c 'echo broken.cpp:1: error: no >&2; exit 3' {source} -o {made}"""
    )
    with pytest.raises(BuildError, match="the source says so"):
        build_library("broken", [source], compiler, FLAGS, cache_home=home)
    source.write_text(SOURCE)
    assert build_library("broken", [source], compiler, FLAGS, cache_home=home).is_file()


def test_a_folder_that_others_may_write_to_is_not_used(tmp_path: Path) -> None:
    folder = tmp_path / "open"
    folder.mkdir()
    folder.chmod(0o777)
    with pytest.raises(BuildError) as caught:
        cache_root(str(folder))
    assert (
        str(caught.value)
        == f"""\
The cache folder cannot be used [TA410]
  why:
    other users may write into {folder}
  fix:
    chmod go-w {folder}, or name another folder: TORCHAIR_CACHE_HOME=/path/to/folder"""
    )


def test_a_new_folder_is_ours_alone(tmp_path: Path) -> None:
    root = cache_root(str(tmp_path / "new" / "folder"))
    assert stat.S_IMODE(root.stat().st_mode) == 0o700


def test_a_file_in_place_of_the_folder(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("")
    with pytest.raises(BuildError, match="The cache folder cannot be used"):
        cache_root(str(path))


def test_without_a_home_directory_it_is_a_temporary_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    blocked = tmp_path / "home"
    blocked.write_text("not a folder")
    monkeypatch.setenv("HOME", str(blocked))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    root = cache_root()
    assert root.parent == tmp_path
    assert root.name.startswith("torchair-")


@pytest.mark.parametrize("name", ["../answer", "a b", "", "a;b"])
def test_names_that_could_lead_elsewhere(name: str, compiler: Compiler, source: Path, tmp_path: Path) -> None:
    with pytest.raises(BuildError, match="A library has no usable name"):
        build_library(name, [source], compiler, FLAGS, cache_home=str(tmp_path))


def test_no_compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    find_compiler.cache_clear()
    try:
        found = find_compiler()
        named = find_compiler("/nowhere/c++ -v")
    finally:
        find_compiler.cache_clear()
    assert isinstance(found, Rejection)
    assert found.reason == "no C++ compiler runs on this machine (tried: c++, g++, clang++)"
    assert isinstance(named, Rejection)
    assert named.reason == "no C++ compiler runs on this machine (tried: /nowhere/c++ -v)"


def test_a_command_with_arguments(compiler: Compiler) -> None:
    found = find_compiler(f"env {compiler.command[0]}")
    assert isinstance(found, Compiler)
    assert found.command == ("env", compiler.command[0])
    assert os.path.basename(compiler.command[0]) in ("c++", "g++", "clang++")  # noqa: PTH119  a command, not a path
