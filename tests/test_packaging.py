"""What a user gets by installing the package: contents of the wheel, entry points, and a cheap import."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from importlib.metadata import entry_points
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[1]
SOURCE = REPOSITORY / "src"

#: Modules that cost time at import. `import torchair` alone needs none of them.
EXPENSIVE = ("torch._dynamo", "torch._functorch.aot_autograd", "torch._inductor", "sympy", "google.protobuf", "lark")

#: Hosts of package registries, each as its labels, so that this file does not contain what it looks for.
REGISTRY_HOSTS = tuple(
    ".".join(labels)
    for labels in (
        ("pypi", "org"),
        ("pythonhosted", "org"),
        ("download", "pytorch", "org"),
        ("registry", "npmjs", "org"),
        ("deb", "debian", "org"),
        ("conda", "anaconda", "org"),
        ("mirrors", "aliyun", "com"),
        ("tuna", "tsinghua", "edu", "cn"),
    )
)


def run_python(code: str) -> str:
    """Standard output of ``code`` run in a new interpreter, away from the checkout."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd="/")
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_import_loads_nothing_expensive() -> None:
    """A list of modules instead of a clock: what torch itself loads is not counted."""
    loaded = run_python(
        "import sys, torch\nbefore = set(sys.modules)\nimport torchair\nprint(*sorted(set(sys.modules) - before))"
    ).split()
    assert "torchair" in loaded
    assert [name for name in loaded if name.startswith(EXPENSIVE)] == []


def test_import_registers_no_backend() -> None:
    """Dynamo registers an entry point when it loads it, and a second registration of the name raises."""
    found = run_python(
        "import torchair\n"
        "from torch._dynamo.backends import registry\n"
        "print([name for name in registry._COMPILER_FNS if name in ('torchair', 'npu')])"
    )
    assert found.strip() == "[]"


def test_backend_entry_points() -> None:
    found = {entry.name: entry.value for entry in entry_points(group="torch_dynamo_backends")}
    assert found["torchair"] == "torchair.pipeline.backends:torchair"
    assert found["npu"] == "torchair.pipeline.backends:npu"


@pytest.mark.parametrize("name", ["torchair", "npu"])
def test_backends_load_without_importing_torchair(name: str) -> None:
    found = run_python(
        "import sys, torch\n"
        f"assert {name!r} in torch.compiler.list_backends()\n"
        "assert 'torchair' not in sys.modules\n"
        f"compiled = torch.compile(lambda x: x + 1, backend={name!r})\n"
        "print(compiled(torch.ones(2)).tolist())"
    )
    assert found.strip() == "[2.0, 2.0]"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=REPOSITORY)
    assert done.returncode == 0, done.stderr
    (path,) = folder.glob("*.whl")
    return zipfile.ZipFile(path)


def test_wheel_holds_every_source_and_data_file(wheel: zipfile.ZipFile) -> None:
    wanted = {
        path.relative_to(SOURCE).as_posix()
        for path in SOURCE.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and path.suffix not in (".pyc", ".so")
    }
    names = set(wheel.namelist())
    assert "torchair/py.typed" in names
    assert sorted(wanted - names) == []


def test_wheel_holds_only_the_package(wheel: zipfile.ZipFile) -> None:
    assert {name.partition("/")[0].partition("-")[0] for name in wheel.namelist()} <= {"torchair", "npugraph_ex"}


def test_wheel_metadata(wheel: zipfile.ZipFile) -> None:
    (folder,) = {name.partition("/")[0] for name in wheel.namelist() if ".dist-info/" in name}
    metadata = wheel.read(f"{folder}/METADATA").decode()
    required = {
        line.partition(": ")[2].partition(">")[0]
        for line in metadata.splitlines()
        if line.startswith("Requires-Dist") and "extra" not in line
    }
    assert required == {"torch", "numpy", "protobuf", "attrs", "lark", "platformdirs", "pyyaml", "safetensors"}
    assert "License-Expression: BSD-3-Clause" in metadata
    assert "torchair.pipeline.backends:npu" in wheel.read(f"{folder}/entry_points.txt").decode()
    assert f"{folder}/licenses/LICENSE" in wheel.namelist()


def tracked_files() -> list[Path]:
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        done = subprocess.run(command, capture_output=True, check=True, cwd=REPOSITORY)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("the list of the repository's files comes from git, and this is not a git checkout")
    return [REPOSITORY / name for name in done.stdout.decode().split("\0") if name]


def test_no_registry_host_is_named() -> None:
    """Where packages come from is the user's configuration of pip, never ours."""
    found = [
        f"{path.relative_to(REPOSITORY)}: {host}"
        for path in tracked_files()
        if path.is_file()
        for host in REGISTRY_HOSTS
        if host.encode() in path.read_bytes()
    ]
    assert found == []


def test_torch_is_pinned_in_one_place() -> None:
    pins = [
        str(path.relative_to(REPOSITORY))
        for path in tracked_files()
        if path.is_file()
        and path.suffix in (".txt", ".toml", ".cfg", ".yaml", ".yml", ".py", "")
        and b"\ntorch==" in b"\n" + path.read_bytes()
    ]
    assert pins == ["requirements/torch.txt"]
