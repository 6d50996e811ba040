"""Generated projects are built, loaded, and run: eagerly and in both graph modes."""
# The texts are as long as they are.
# ruff: noqa: E501

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from expecttest import assert_expected_inline

from tests.errors.texts import raised
from torchair.build import find_ninja
from torchair.customop import build_project, new_operator
from torchair.customop.project import build
from torchair.customop.project.layout import Project
from torchair.customop.project.load import load_library
from torchair.errors import BuildError, Rejection

HOST = """\
#include <torchair/kernel.h>
using namespace torchair;
static Outputs infer(const Tensor& x) { return {Output{x.sizes(), x.dtype()}}; }
TORCHAIR_OPERATOR(MyOp, "(Tensor x) -> Tensor", infer);
"""
KERNEL = """\
#include <torchair/kernel.h>
using namespace torchair;
static void my_op(const Tensor& x, Tensor& out) {
  BODY
}
TORCHAIR_KERNEL(MyOp, my_op);
"""


def run_python(program: str, folder: Path, *, fails: bool = False) -> str:
    """Run a program beside a project; its output."""
    environ = {**os.environ, "OMP_NUM_THREADS": "2", "PYTHONPATH": str(folder)}
    ran = subprocess.run(
        [sys.executable, "-c", program],
        cwd=folder,
        env=environ,
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
    )
    assert (ran.returncode != 0) == fails, ran.stdout + ran.stderr
    return ran.stdout + ran.stderr


def test_its_own_tests_pass(built_project: Path) -> None:
    """Eager, ``torch.library.opcheck``, npugraph_ex and GE mode, dynamic sizes: as an author runs them."""
    started = time.perf_counter()
    call = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:randomly", "-p", "no:xdist"]
    selected = "(my_op or my_inplace) or ((eager or dynamic) and (triton or python))"
    ran = subprocess.run(
        [*call, "-k", selected], cwd=built_project, capture_output=True, text=True, check=False, timeout=280
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "failed" not in ran.stdout
    print(f"the tests of the generated project: {time.perf_counter() - started:.0f} s")


def test_what_import_makes_available(built_project: Path) -> None:
    output = run_python(
        """
import torch, guide_project, torchair, importlib
importlib.reload(guide_project)
x = torch.arange(6.0).reshape(2, 3)
assert torch.ops.guide.my_op(x, None, [x, x[:1]], 0.5, 3).equal(x + x + x[:1] + 3.5)
assert torch.ops.guide_project_kernels.MyOp(x.int(), x.int(), [], 1.0, 3).dtype is torch.int32
for dtype in (torch.bool, torch.uint8, torch.int8, torch.int16, torch.int64, torch.float16, torch.bfloat16, torch.float64):
    got = torch.ops.guide.my_op(x.to(dtype), x.to(dtype), [], 0.0, 1)
    expected = (x.to(dtype).double() * 2 + 1).to(dtype)
    assert got.dtype is dtype and got.equal(expected), (dtype, got, expected)
y = torch.zeros(3, 2).t()
version = y._version
assert torch.ops.guide.my_inplace(y, x).equal(x) and y.equal(x) and y._version > version
report = torchair.check_operator("guide::my_op", x, None, [x], 0.5, 3)
assert report.ok, report
print(next(row for row in report.rows if row.deliverable == "IR prototype").why)
big = torch.ones(1 << 20)
for threads in (1, 2):
    torch.set_num_threads(threads)
    assert torch.ops.guide.my_op(big, big, [], 0.0, 0).sum() == 2 << 20
try:
    torch.ops.guide.my_op(x, x.double(), [], 0.5, 3)
except RuntimeError as error:
    print(error)
try:
    torch.ops.guide.my_op(x, torch.ones(5), [], 0.5, 3)
except RuntimeError as error:
    print(error)
for dtype in (torch.complex64, torch.float8_e5m2, torch.uint16):
    try:
        torch.ops.guide.my_op(x.to(dtype), None, [], 0.5, 3)
    except RuntimeError as error:
        print(error)
""",
        built_project,
    )
    assert "MyOp(x, y?, z[]; attr1: Float, attr2: Int) -> (out0), declared" in output
    assert "MyOp: the kernel reads elements of dtype float32 from a tensor of dtype float64" in output
    assert "MyOp: a tensor of sizes [5] cannot be broadcast to [2, 3]" in output
    assert "MyOp: dtype complex64 is not supported; supported are real numbers and bool" in output
    numbers = "float32, float64, float16, bfloat16, uint8, int8, int16, int32, int64 and bool"
    assert f"MyOp: dtype float8_e5m2 is not supported; supported are {numbers}" in output
    assert f"MyOp: dtype uint16 is not supported; supported are {numbers}" in output


def test_nothing_is_written_into_elements_that_share_memory(built_project: Path) -> None:
    output = run_python(
        """
import torch, guide_project
x = torch.arange(3.0)
try:
    torch.ops.guide.my_inplace(x.expand(2, 3), torch.ones(2, 3))
except RuntimeError as error:
    print(str(error).splitlines()[0])
assert x.equal(torch.arange(3.0)), x
assert torch.ops.guide.my_op(x.expand(2, 3), x.expand(2, 3), [], 0.0, 0).equal(2 * x.expand(2, 3))
""",
        built_project,
    )
    assert output.strip() == (
        "unsupported operation: more than one element of the written-to tensor refers to a single memory location. "
        "Please clone() the tensor before performing the operation."
    )


def test_only_what_changed_is_compiled(project: Path) -> None:
    assert build_project(project).compiled == ()
    kernel = project / "op_kernel" / "my_inplace.cpp"
    kernel.write_text(kernel.read_text().replace("x[i] = static_cast<T>(sum);", "x[i] = static_cast<T>(sum + 1);"))
    made = build_project(project)
    assert made.compiled == ("op_kernel/my_inplace.cpp",)
    assert made.messages == ""
    assert made.library == project / "build" / "libguide_project.so"
    run_python(
        "import torch, guide_project\nx = torch.zeros(2)\ntorch.ops.guide.my_inplace(x, x)\nassert x.equal(torch.ones(2))",
        project,
    )
    (project / "op_kernel" / "mine.h").write_text("// nothing\n")
    kernel.write_text('#include "mine.h"\n' + kernel.read_text())
    assert build_project(project).compiled == ("op_kernel/my_inplace.cpp",)
    (project / "op_kernel" / "mine.h").write_text("// a header that a kernel includes\n")
    assert build_project(project).compiled == ("op_kernel/my_inplace.cpp",)
    assert build_project(project).compiled == ()


def test_all_errors_of_all_files(new_project: Callable[..., Path]) -> None:
    folder = new_project(
        "op_host/my_op.cpp",
        HOST.replace("x.dtype()", "x.dype()"),
        "op_kernel/my_op.cpp",
        KERNEL.replace(
            "BODY",
            "dispatch_all(x.dtype(), [&](auto zero) {\n    using T = decltype(zero);\n    x.span<T>().foo();\n  });",
        ),
        "op_kernel/other.cpp",
        KERNEL.replace("const Tensor& x", "float x").replace("MyOp", "Other").replace("  BODY\n", ""),
        "op_kernel/fine.cpp",
        "int fine = 1;\n",
    )
    text = raised(lambda: build_project(folder), BuildError).replace(str(folder), "FOLDER")
    text = re.sub(r"kernel\.h:\d+", "kernel.h:LINE", text)
    assert_expected_inline(
        text,
        """\
An operator project does not compile [TA410]
  why:
    op_host/my_op.cpp:3:69: 'const class torchair::Tensor' has no member named 'dype'; did you mean 'dtype'?
        3 | static Outputs infer(const Tensor& x) { return {Output{x.sizes(), x.dype()}}; }
          |                                                                     ^~~~
          |                                                                     dtype
    op_kernel/my_op.cpp:6:17: 'class torchair::Span<float>' has no member named 'foo'
        6 |     x.span<T>().foo();
          |     ~~~~~~~~~~~~^~~
    op_kernel/other.cpp:5:1: static assertion failed: a parameter has a type that stands for none of a schema; torchair/kernel.h lists those that do (in kernel.h:LINE)
  fix:
    Correct these lines. All that the compiler said is in FOLDER/build/build.log
  where:
    the project FOLDER""",
    )
    assert (folder / "build" / "op_kernel" / "fine.o").is_file()
    (folder / "op_kernel" / "other.cpp").unlink()
    (folder / "op_host" / "my_op.cpp").write_text(HOST)
    (folder / "op_kernel" / "my_op.cpp").write_text(KERNEL.replace("BODY", ""))
    assert set(build_project(folder).compiled) == {"op_host/my_op.cpp", "op_kernel/my_op.cpp"}


def test_sources_that_do_not_fit_together(new_project: Callable[..., Path]) -> None:
    folder = new_project(
        "op_host/my_op.cpp",
        HOST.replace("Tensor x)", "Tensor x, int n)"),
        "op_host/no_kernel.cpp",
        HOST.replace("MyOp", "NoKernel"),
        "op_host/bad_schema.cpp",
        HOST.replace("MyOp", "BadSchema").replace("(Tensor x)", "(Tnsor x)"),
        "op_kernel/bad_schema.cpp",
        KERNEL.replace("MyOp", "BadSchema").replace("BODY", ""),
        "op_kernel/my_op.cpp",
        KERNEL.replace("const Tensor& x", "const Tensor& x, double n").replace("BODY", ""),
        "op_kernel/no_host.cpp",
        KERNEL.replace("MyOp", "NoHost").replace("BODY", ""),
        "op_kernel/twice.cpp",
        KERNEL.replace("BODY", ""),
    )
    build_project(folder)
    program = f"""
from pathlib import Path
from torchair.customop.project.layout import Project
from torchair.customop.project.load import load_library
load_library(Project.open(Path({str(folder)!r})))
"""
    text = run_python(program, folder, fails=True)
    text = text[text.index("torchair.errors.BuildError: ") :].replace(str(folder), "FOLDER")
    text = re.sub(r"(BadSchema: )[^\n]*", r"\1WHAT PYTORCH'S PARSER SAYS", text)
    assert_expected_inline(
        text,
        """\
torchair.errors.BuildError: The C++ sources of an operator project do not fit together [TA410]
  why:
    op_kernel/twice.cpp: the kernel of MyOp is also in op_kernel/my_op.cpp
    op_host/bad_schema.cpp: BadSchema: WHAT PYTORCH'S PARSER SAYS
    small_project_kernels::BadSchema(Tnsor x) -> Tensor
                                     ~~~~~ <--- HERE
    op_host/my_op.cpp: shape inference of MyOp has 1 parameters, not 2: 2 for the arguments
    op_kernel/twice.cpp: the kernel of MyOp has 2 parameters, not 3: 2 for the arguments and 1 for the outputs
    op_kernel/no_host.cpp: NoHost has a kernel, and no TORCHAIR_OPERATOR
    op_host/no_kernel.cpp: NoKernel has no TORCHAIR_KERNEL
  fix:
    Correct them, then: torchair op build FOLDER
  where:
    the project FOLDER
""",
    )


def test_a_symbol_that_is_not_there(new_project: Callable[..., Path]) -> None:
    folder = new_project(
        "op_host/my_op.cpp", HOST, "op_kernel/my_op.cpp", "void absent();\n" + KERNEL.replace("BODY", "absent();")
    )
    build_project(folder)
    text = raised(lambda: load_library(Project.open(folder)), BuildError).replace(str(folder), "FOLDER")
    assert_expected_inline(
        text,
        """\
A built operator library cannot be loaded [TA410]
  why:
    Could not load this library: FOLDER/build/libsmall_project.so
    FOLDER/build/libsmall_project.so: undefined symbol: _Z6absentv
  fix:
    Define _Z6absentv in a source of op_host or op_kernel, then: torchair op build FOLDER""",
    )


def test_a_project_that_is_not_built(new_project: Callable[..., Path]) -> None:
    folder = new_project("op_host/my_op.cpp", HOST, "op_kernel/my_op.cpp", KERNEL.replace("BODY", ""))
    text = raised(lambda: load_library(Project.open(folder)), BuildError).replace(str(folder), "FOLDER")
    assert_expected_inline(
        text,
        """\
An operator project is not built [TA410]
  why:
    there is no FOLDER/build/libsmall_project.so
  fix:
    torchair op build FOLDER""",
    )


def test_a_project_that_was_built_for_another_torch(project: Path) -> None:
    facts = project / "build" / "facts.json"
    facts.write_text(facts.read_text().replace(f'"{torch.__version__}"', '"2.0.1"'))
    text = raised(lambda: load_library(Project.open(project)), BuildError).replace(str(project), "FOLDER")
    assert_expected_inline(
        text.replace(torch.__version__, "TORCH"),
        """\
An operator project was built for another torch [TA410]
  why:
    FOLDER/build/libguide_project.so was built for torch 2.0.1, this is torch TORCH
  fix:
    torchair op build FOLDER""",
    )


def test_a_library_that_is_older_than_its_sources(project: Path) -> None:
    os.utime(project / "op_kernel" / "my_op.cpp")
    output = run_python("import guide_project", project)
    assert "libguide_project.so is older than op_kernel/my_op.cpp; build it again: torchair op build" in output


def test_a_library_that_is_older_than_a_header(new_project: Callable[..., Path]) -> None:
    folder = new_project("op_host/my_op.cpp", HOST, "op_kernel/my_op.cpp", KERNEL.replace("BODY", ""))
    build_project(folder)
    header = folder / "op_kernel" / "parts" / "mine.h"
    header.parent.mkdir()
    header.write_text("// nothing\n")
    output = run_python("import small_project", folder)
    assert "libsmall_project.so is older than op_kernel/parts/mine.h; build it again: torchair op build" in output
    assert build_project(folder).compiled == ()  # nothing includes it
    assert "is older than" not in run_python("import small_project", folder)


def test_a_build_that_fails_leaves_no_library_of_another_torch(project: Path) -> None:
    facts = project / "build" / "facts.json"
    facts.write_text(facts.read_text().replace(f'"{torch.__version__}"', '"2.0.1"'))
    kernel = project / "op_kernel" / "my_op.cpp"
    good = kernel.read_text()
    kernel.write_text(good + "not C++\n")
    raised(lambda: build_project(project), BuildError)
    text = raised(lambda: load_library(Project.open(project)), BuildError)
    assert text.startswith("An operator project is not built [TA410]\n")
    kernel.write_text(good)
    assert "op_kernel/my_op.cpp" in build_project(project).compiled
    run_python("import guide_project", project)
    kernel.write_text(good + "not C++\n")
    raised(lambda: build_project(project), BuildError)
    assert "is older than op_kernel/my_op.cpp" in run_python("import guide_project", project)


def test_arguments_that_the_prototype_names_differently(project: Path) -> None:
    for name, section, old, new in (("my_op", "input_desc", "y", "bias"), ("my_inplace", "input_desc", "y", "other")):
        file = project / "op_proto" / f"{name}.json"
        content = json.loads(file.read_text())
        (spec,) = (spec for spec in content[0][section] if spec["name"] == old)
        spec["name"] = new
        if name == "my_op":
            content[0]["attr"].pop()
        file.write_text(json.dumps(content))
    expected = """\
The C++ sources of an operator project have other arguments than its prototypes [TA410]
  why:
    MyInplace: op_host has inputs (x, y) and attributes (); op_proto has inputs (x, other) and attributes ()
    MyOp: op_host has inputs (x, y, z) and attributes (attr1, attr2); op_proto has inputs (x, bias, z) and attributes (attr1)
  fix:
    Use the names of one in the other, and in op_plugin_functions.yaml, then: torchair op build FOLDER
  where:
    the project FOLDER
"""
    for program in ("import guide_project", "from torchair.cli.group import torchair\ntorchair(['op', 'build', '.'])"):
        output = run_python(program, project, fails=True).replace(str(project), "FOLDER")
        assert output.endswith(expected), output


def test_two_projects_with_an_operator_of_the_same_name(project: Path, tmp_path: Path) -> None:
    first, second = tmp_path / "first_project", tmp_path / "second_project"
    new_operator("in_python", "(Tensor x) -> Tensor", first, kernel="python", namespace="first")
    new_operator("other", "(Tensor x) -> Tensor", second, kernel="python", namespace="second")
    # A kernel can have the name of an operator without a prototype, too.
    kernel = second / "op_kernel" / "other.py"
    kernel.write_text(kernel.read_text().replace('register_kernel("Other")', 'register_kernel("InPython")'))
    output = run_python(
        f"""
import sys, torch, guide_project, torchair
from torchair.opset.kernels import kernels
before = kernels.get("InPython"), torchair.opset.prototype.prototypes.get("InPython")
sys.path += [{str(first)!r}, {str(second)!r}]
for package in ("first_project", "second_project", "second_project"):
    try:
        __import__(package)
    except torchair.errors.ProjectError as error:
        print(error)
assert before == (kernels.get("InPython"), torchair.opset.prototype.prototypes.get("InPython"))
assert torch.ops.guide.in_python(torch.ones(2), None).equal(torch.full((2,), 3.0))
""",
        project,
    )
    text = """\
Two operator projects have an Ascend IR operator of the same name [TA223]
  why:
    InPython is of FOLDER/guide_project, which is loaded, and of FOLDER/PACKAGE
  fix:
    Rename the operator in one of them; a namespace of its own is not enough.
"""
    packages = ("first_project", "second_project", "second_project")
    assert output.replace(str(tmp_path), "FOLDER") == "".join(text.replace("PACKAGE", p) for p in packages)


def test_without_a_compiler_or_ninja(built_project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(find_ninja(), str)
    monkeypatch.setattr(build, "find_ninja", lambda: Rejection("ninja is not installed", "pip install ninja"))
    text = raised(lambda: build_project(built_project), BuildError)
    assert_expected_inline(
        text,
        """\
An operator project cannot be built [TA410]
  why:
    ninja is not installed
  fix:
    pip install ninja""",
    )
    monkeypatch.setenv("CXX", "/no/such/compiler")
    text = raised(lambda: build_project(built_project), BuildError)
    assert_expected_inline(
        text,
        """\
An operator project cannot be built [TA410]
  why:
    no C++ compiler runs on this machine (tried: /no/such/compiler)
  fix:
    Install one (Debian: apt install g++; Fedora: dnf install gcc-c++; macOS: xcode-select --install),
    or name one: CXX=/path/to/c++""",
    )


def test_a_project_without_cpp(tmp_path: Path) -> None:
    folder = tmp_path / "python_project"
    new_operator("only_python", "(Tensor x) -> Tensor", folder, kernel="python", namespace="pure", converter=True)
    assert build_project(folder).library is None
    assert not (folder / "build").exists()
    run_python(
        "import torch, python_project\nassert torch.compile(torch.ops.pure.only_python, backend='torchair')(torch.ones(2)).equal(torch.ones(2))",
        folder,
    )
