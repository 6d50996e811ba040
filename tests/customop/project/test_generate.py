"""What ``torchair op new`` writes."""
# The texts are as long as they are.
# ruff: noqa: E501

from __future__ import annotations

import functools
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from expecttest import assert_expected_inline

from tests.errors.texts import raised
from torchair.customop import new_operator
from torchair.customop.output_rules import parse_size
from torchair.customop.project.layout import MARKER, Project, find_project
from torchair.customop.schema_text import parse_schema
from torchair.errors import ProjectError

GUIDE = "(Tensor x, Tensor? y, Tensor[] z, float attr1, int attr2) -> Tensor"
INPLACE = "(Tensor(a!) x, Tensor y) -> Tensor"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "my work" / "my_project"


def tree(folder: Path) -> dict[str, str]:
    return {p.relative_to(folder).as_posix(): p.read_text() for p in sorted(folder.rglob("*")) if p.is_file()}


def test_a_new_project(folder: Path) -> None:
    made = new_operator("my_op", GUIDE, folder)
    assert made.is_new
    assert made.changed == ()
    assert list(tree(folder)) == list(made.created)
    assert made.created == (
        ".gitignore",
        "README.md",
        "my_project/__init__.py",
        "op_host/my_op.cpp",
        "op_kernel/my_op.cpp",
        "op_plugin_functions.yaml",
        "op_proto/my_op.json",
        "pyproject.toml",
        "tests/test_my_op.py",
        MARKER,
    )
    assert Project.open(folder) == Project(folder, "my_project", "npu")
    assert find_project(folder / "op_host") == folder
    assert find_project(folder.parent) is None


def test_what_an_author_reads_of_a_cpp_operator(folder: Path) -> None:
    new_operator("my_op", GUIDE, folder)
    files = tree(folder)
    assert_expected_inline(
        files["op_host/my_op.cpp"],
        """\
// MyOp: its schema, and the sizes and dtype of each result.
//
// op_plugin_functions.yaml has the same rules for graph modes; a kernel that makes something else is refused.

#include <torchair/kernel.h>
#include <torchair/rules.h>

namespace {

using namespace torchair;

Outputs infer_my_op(const Tensor& x, const std::optional<Tensor>& y, const TensorList& z, double attr1, int64_t attr2) {
  return {Output{sizes(x), dtype(x)}};
}

}  // namespace

TORCHAIR_OPERATOR(MyOp, "(Tensor x, Tensor? y, Tensor[] z, float attr1, int attr2) -> Tensor", infer_my_op);
""",
    )
    assert_expected_inline(
        files["op_kernel/my_op.cpp"],
        """\
// The kernel of MyOp.
//
//   my_op(Tensor x, Tensor? y, Tensor[] z, float attr1, int attr2) -> Tensor
//
// It runs on the CPU, on all cores, for each dtype that dispatch_all lists. What a kernel can use is said in
// <torchair/kernel.h> and <torchair/tensor.h>.

#include <torchair/kernel.h>

namespace {

using namespace torchair;

// ---- Write the computation here, and the same in tests/test_my_op.py. ----
//
// This is a placeholder: it adds up all arguments.
template <typename T>
void compute(
    const Span<const T>& x, const std::optional<Span<const T>>& y, const std::vector<Span<const T>>& z, double attr1,
    int64_t attr2, const Span<T>& out) {
  parallel_for(out.numel(), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      compute_t<T> sum = attr1 + attr2;
      sum += x[i];
      if (y) sum += (*y)[i];
      for (const auto& each : z) sum += each[i];
      out[i] = static_cast<T>(sum);
    }
  });
}

void my_op_kernel(
    const Tensor& x, const std::optional<Tensor>& y, const TensorList& z, double attr1, int64_t attr2, Tensor& out) {
  dispatch_all(x.dtype(), [&](auto zero) {
    using T = decltype(zero);  // float, Half, int64_t, bool ...
    compute<T>(
        elements<const T>(x), elements<const T>(y, x.sizes()), elements<const T>(z, x.sizes()), attr1, attr2,
        elements<T>(out));
  });
}

}  // namespace

TORCHAIR_KERNEL(MyOp, my_op_kernel);
""",
    )
    assert_expected_inline(
        files["op_plugin_functions.yaml"],
        """\
# The operators of torch.ops.npu. size and dtype: an argument that the result is like, or a rule, such as
# '{4, x.size(0)}' and at::kFloat. exec: the kernel, with all arguments in order.
custom:
  - func: my_op(Tensor x, Tensor? y, Tensor[] z, float attr1, int attr2) -> Tensor
    op_api: all_version
    gen_opapi:
      out:
        size: x
        dtype: x
      exec: aclnnMyOp
    # The meta function follows from that:
    #   def my_op(x, y, z, attr1, attr2):
    #       return x.new_empty(x.shape, dtype=x.dtype)
""",
    )
    assert_expected_inline(
        files["my_project/__init__.py"],
        '''\
"""Custom operators: importing this package defines those of ``torch.ops.npu`` that stand beside it."""

from torchair.customop import load_project

load_project(__file__)
''',
    )


def test_a_further_operator_leaves_everything_else_as_it_is(folder: Path) -> None:
    new_operator("my_op", GUIDE, folder)
    (folder / "README.md").write_text("mine")
    functions = (folder / "op_plugin_functions.yaml").read_text() + "    # a remark of the author's"
    (folder / "op_plugin_functions.yaml").write_text(functions)
    before = tree(folder)
    made = new_operator("my_inplace", INPLACE, folder)
    after = tree(folder)
    assert not made.is_new
    assert made.changed == ("op_plugin_functions.yaml",)
    assert set(after) - set(before) == set(made.created)
    assert {name for name in before if before[name] != after[name]} == set(made.changed)
    assert after["op_plugin_functions.yaml"].startswith(functions + "\n  - func: my_inplace(Tensor(a!) x, Tensor y)")
    assert [e["func"].partition("(")[0] for e in yaml.safe_load(after["op_plugin_functions.yaml"])["custom"]] == [
        "my_op",
        "my_inplace",
    ]


def test_an_operator_in_place(folder: Path) -> None:
    made = new_operator("my_inplace", "(Tensor x, Tensor y) -> Tensor", folder, inplace=True)
    assert made.plan.text == "my_inplace(Tensor(a!) x, Tensor y) -> Tensor"
    assert made.plan.parameters == INPLACE
    files = tree(folder)
    assert (
        "void compute(const Span<T>& x, const Span<const T>& y, const Span<T>& out)"
        in files["op_kernel/my_inplace.cpp"]
    )
    assert "x[i] = static_cast<T>(sum);" in files["op_kernel/my_inplace.cpp"]
    assert [o["name"] for o in json.loads(files["op_proto/my_inplace.json"])[0]["output_desc"]] == ["x", "out0"]
    assert "torch.testing.assert_close(args[0], expected_args[0])" in files["tests/test_my_inplace.py"]


def test_rules_of_results(folder: Path) -> None:
    schema = "(Tensor x, Tensor y, int n) -> (Tensor, Tensor)"
    new_operator(
        "two", schema, folder, sizes=["broadcast(x, y)", "{n, x.size(0)}"], dtypes=["promote(x, y)", "at::kLong"]
    )
    files = tree(folder)
    entry = yaml.safe_load(files["op_plugin_functions.yaml"])["custom"][0]["gen_opapi"]
    assert entry == {
        "out0": {"size": "broadcast(x, y)", "dtype": "promote(x, y)"},
        "out1": {"size": "{n, x.size(0)}", "dtype": "at::kLong"},
        "exec": "aclnnTwo",
    }
    assert "Output{broadcast(sizes(x), sizes(y)), promote(dtype(x), dtype(y))}," in files["op_host/two.cpp"]
    assert "Output{Sizes{n, size(x, 0)}, kLong}" in files["op_host/two.cpp"]


def test_names_of_arguments_that_are_names_of_the_api(folder: Path) -> None:
    schema = "(Tensor size, Tensor dtype, int begin, float sum, Tensor each) -> Tensor"
    new_operator("names", schema, folder, sizes=["{size.size(0)}"])
    files = tree(folder)
    assert "torchair::Sizes{torchair::size(size, 0)}, torchair::dtype(size)" in files["op_host/names.cpp"]
    assert "int64_t begin_, int64_t end" in files["op_kernel/names.cpp"]
    assert "compute_t<T> sum_ = begin + sum;" in files["op_kernel/names.cpp"]


# Schemas of many kinds: what is generated passes ruff, and its C++ is compiled by test_built_project.
SCHEMAS: dict[str, tuple[str, dict[str, Any]]] = {
    "keyword_only": ("(Tensor x, *, float scale=2.0, int[] dims=[1, 2]) -> Tensor", {}),
    "no_tensors": (
        '(int n, str mode="a\\"b: c", bool flag=True) -> Tensor',
        {"sizes": ["{4, n}"], "dtypes": ["at::kFloat"]},
    ),
    "lists": ("(Tensor[] z, float[] w, bool[] b) -> Tensor", {"sizes": ["cat(z, 0)"], "dtypes": ["z[0]"]}),
    "named": (
        "(Tensor x, Tensor y) -> (Tensor first, Tensor second)",
        {"sizes": ["broadcast(x, y)", "matmul(x, y)"], "dtypes": ["promote(x, y)", "at::kBool"]},
    ),
    "two_written": ("(Tensor(a!) x, Tensor(b!) y, Tensor z, float s) -> Tensor", {"sizes": ["reduce(x, 0, false)"]}),
    "nothing_returned": ("(Tensor(a!) x, Tensor? y, float s) -> ()", {}),
    "long_names": (
        "(Tensor the_first_tensor_with_a_long_name, Tensor? the_second_tensor_with_a_long_name, Tensor[] a_list_of_tensors, float attribute_number_one, int attribute_number_two, int[] attribute_number_three) -> Tensor",
        {"converter": True},
    ),
    "symbolic": (
        "(Tensor x, SymInt n, SymInt[] sizes) -> Tensor",
        {"sizes": ["sizes"], "dtypes": ["n > 1 ? at::kFloat : x.scalar_type()"]},
    ),
    "marked": ("(Tensor x, Tensor y) -> Tensor", {"inplace": True, "converter": True}),
    "optional_first": ("(Tensor? x, Tensor y) -> Tensor", {"sizes": ["x.has_value() ? x.value().sizes() : y.sizes()"]}),
    "taken_names": ("(Tensor out, Tensor out0, float total, Tensor tensor) -> Tensor", {}),
}


@pytest.mark.parametrize("kernel", ["cpp", "python", "triton"])
def test_what_is_generated_passes_ruff(kernel: str, folder: Path) -> None:
    for name, (schema, options) in SCHEMAS.items():
        made = new_operator(name, schema, folder, kernel=kernel, **options)
        assert made.plan.samples.fit, name
    for call in (["check"], ["format", "--check"]):
        ran = subprocess.run(
            [sys.executable, "-m", "ruff", *call, "--no-cache", str(folder)],
            capture_output=True,
            text=True,
            check=False,
        )
        assert ran.returncode == 0, ran.stdout + ran.stderr
    for file in folder.rglob("*.cpp"):
        lines = [line for line in file.read_text().splitlines() if "(Tensor the_first" not in line]
        assert max(map(len, lines)) <= 120, file


# --- nothing is overwritten, nothing is half-written ---


def test_files_in_the_way(folder: Path) -> None:
    new_operator("my_op", GUIDE, folder)
    (folder / "tests" / "test_other.py").write_text("mine")
    (folder / "op_kernel" / "other.cpp").write_text("mine")
    before = tree(folder)
    text = raised(lambda: new_operator("other", GUIDE, folder), ProjectError).replace(str(folder), "FOLDER")
    assert_expected_inline(
        text,
        """\
A file is in the way of an operator [TA223]
  why:
    FOLDER/op_kernel/other.cpp exists
    FOLDER/tests/test_other.py exists
  fix:
    Nothing was written. Choose another name, or move these files.""",
    )
    assert tree(folder) == before
    raised(lambda: new_operator("my_op", GUIDE, folder), ProjectError)
    assert tree(folder) == before


def test_a_folder_that_has_a_readme_already(folder: Path) -> None:
    folder.mkdir(parents=True)
    (folder / "README.md").write_text("mine")
    text = raised(lambda: new_operator("my_op", GUIDE, folder), ProjectError)
    assert f"{folder / 'README.md'} exists" in text
    assert tree(folder) == {"README.md": "mine"}


def test_a_write_that_fails_leaves_nothing(folder: Path) -> None:
    folder.mkdir(parents=True)
    (folder / "tests").write_text("a file where a folder should be")
    text = raised(lambda: new_operator("my_op", GUIDE, folder), ProjectError).replace(str(folder), "FOLDER")
    assert_expected_inline(
        text,
        """\
An operator project cannot be written [TA223]
  why:
    [Errno 20] Not a directory: 'FOLDER/tests/test_my_op.py'
  fix:
    Nothing was written.""",
    )
    assert [p.name for p in folder.rglob("*")] == ["tests"]


def test_a_yaml_file_whose_end_is_another_group(folder: Path) -> None:
    new_operator("my_op", GUIDE, folder)
    functions = folder / "op_plugin_functions.yaml"
    functions.write_text(functions.read_text() + "official:\n  - func: abs(Tensor self) -> Tensor\n")
    before = tree(folder)
    text = raised(lambda: new_operator("my_inplace", INPLACE, folder), ProjectError).replace(str(folder), "FOLDER")
    assert_expected_inline(
        text,
        """\
An operator cannot be added to a file [TA223]
  why:
    FOLDER/op_plugin_functions.yaml: its end is not the end of custom:
  fix:
    Bring the list custom: to its end, indented by two spaces. The entry is:

      - func: my_inplace(Tensor(a!) x, Tensor y) -> Tensor
        op_api: all_version
        gen_opapi:
          out:
            size: x
            dtype: x
          exec: aclnnMyInplace
        # The meta function follows from that:
        #   def my_inplace(x, y):
        #       return x.new_empty(x.shape, dtype=x.dtype)""",
    )
    assert tree(folder) == before


@pytest.mark.parametrize(
    "functions",
    ["custom: [}\n", "custom: !!python/object:os.system x\n", "custom:\n- func: a(Tensor x) -> Tensor\n", "\0"],
)
def test_a_yaml_file_that_nothing_can_be_added_to(functions: str, folder: Path) -> None:
    new_operator("my_op", GUIDE, folder)
    (folder / "op_plugin_functions.yaml").write_text(functions)
    before = tree(folder)
    raised(lambda: new_operator("my_inplace", INPLACE, folder), ProjectError)
    assert tree(folder) == before


# --- names, defaults, paths ---


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("../x", "is not an identifier (letters A-Z and a-z, digits, underscores)"),
        ("x;rm", "is not an identifier (letters A-Z and a-z, digits, underscores)"),
        ("x\n", "is not an identifier (letters A-Z and a-z, digits, underscores)"),
        ("größe", "is not an identifier (letters A-Z and a-z, digits, underscores)"),
        ("", "is not an identifier (letters A-Z and a-z, digits, underscores)"),
        ("class", "is a keyword of Python and C++"),
        ("template", "is a keyword of C++"),
        ("MyOp", "has capitals; the Ascend IR operator gets its capitals from the underscores: my_op is MyOp"),
        ("my_op_functional", "ends in _ or _functional, which the Ascend IR operator's name leaves out"),
    ],
)
def test_names_that_an_operator_cannot_have(name: str, problem: str, folder: Path) -> None:
    text = raised(lambda: new_operator(name, "(Tensor x) -> Tensor", folder), ProjectError)
    assert text == (
        f"An operator cannot have that name [TA223]\n  why:\n    {name!r} {problem}\n"
        "  fix:\n    Choose a name like my_op."
    )
    assert not folder.exists()


@pytest.mark.parametrize(
    ("folder_name", "namespace", "problem"),
    [
        ("my_project", "aten", "the namespace 'aten' is one of PyTorch's own namespaces"),
        ("my_project", "a::b", "the namespace 'a::b' is not an identifier (letters A-Z and a-z, digits, underscores)"),
        ("my_project", "x;y", "the namespace 'x;y' is not an identifier (letters A-Z and a-z, digits, underscores)"),
        ("my_project", "int", "the namespace 'int' is a keyword of C++"),
        (
            "a$(id)",
            "npu",
            "its package would be 'a$(id)', which is not an identifier (letters A-Z and a-z, digits, underscores)",
        ),
        ("json", "npu", "its package would be 'json', which is a module of Python"),
        (
            "torch",
            "npu",
            "its package would be 'torch', which is the name of another package, or of a folder of the project",
        ),
        ("class", "npu", "its package would be 'class', which is a keyword of Python and C++"),
        (
            "1st",
            "npu",
            "its package would be '1st', which is not an identifier (letters A-Z and a-z, digits, underscores)",
        ),
    ],
)
def test_names_that_a_project_cannot_have(folder_name: str, namespace: str, problem: str, tmp_path: Path) -> None:
    folder = tmp_path / folder_name
    text = raised(lambda: new_operator("my_op", GUIDE, folder, namespace=namespace), ProjectError)
    assert text == (
        f"An operator project cannot have these names [TA223]\n  why:\n    folder: {folder}\n    {problem}\n"
        "  fix:\n    Choose another folder or namespace: --out my_project --namespace npu"
    )
    assert not folder.exists()


@pytest.mark.parametrize("folder_name", ["numpy", "pip", "test", "conftest", "pytest"])
def test_names_that_other_packages_have_everywhere(folder_name: str, tmp_path: Path) -> None:
    text = raised(lambda: new_operator("my_op", GUIDE, tmp_path / folder_name), ProjectError)
    assert f"its package would be {folder_name!r}, which is the name of another package, or of a folder" in text
    assert not (tmp_path / folder_name).exists()


def test_a_name_that_something_here_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    module = tmp_path / "taken_by_a_module.py"
    module.touch()
    distribution = tmp_path / "taken_by.a_distribution-2.5.dist-info" / "METADATA"
    distribution.parent.mkdir()
    distribution.write_text("Metadata-Version: 2.1\nName: taken-by.a-distribution\nVersion: 2.5\n")
    for name, problem in (
        ("taken_by_a_module", f"is a module that can be imported: {module}"),
        ("taken_by_a_distribution", "is an installed distribution: taken-by.a-distribution 2.5"),
    ):
        folder = tmp_path / "new" / name
        text = raised(functools.partial(new_operator, "my_op", GUIDE, folder), ProjectError)
        assert text == (
            f"An operator project cannot have these names [TA223]\n  why:\n    folder: {folder}\n"
            f"    its package would be {name!r}, which {problem}\n"
            "  fix:\n    Choose another folder or namespace: --out my_project --namespace npu"
        )
        assert not folder.exists()
    # A folder without __init__.py is hidden by a package of its name.
    (tmp_path / "plain_folder").mkdir()
    assert new_operator("my_op", GUIDE, tmp_path / "plain_folder").is_new


_ADD_ONE = """
import sys, time
from torchair.customop import new_operator
from torchair.customop.project import generate
write = generate._write
def slow(*args):
    time.sleep(0.2)
    write(*args)
generate._write = slow
print("ready", flush=True)
sys.stdin.readline()
new_operator(sys.argv[1], "(Tensor x) -> Tensor", sys.argv[2], kernel="python")
"""


def test_operators_that_are_added_at_once(folder: Path) -> None:
    """No entry is lost, whether the project is there or not."""
    names = ["a_op", "b_op", "c_op"]
    started = [
        subprocess.Popen(
            [sys.executable, "-c", _ADD_ONE, name, str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for name in names
    ]
    for process in started:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in started:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    for process in started:
        process.communicate()
        assert process.returncode == 0
    entries = yaml.safe_load((folder / "op_plugin_functions.yaml").read_text())["custom"]
    assert sorted(entry["func"].partition("(")[0] for entry in entries) == names


def test_a_lock_that_cannot_be_had(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cache").mkdir(mode=0o700)
    (tmp_path / "cache" / "projects").touch()
    monkeypatch.setenv("TORCHAIR_CACHE_HOME", str(tmp_path / "cache"))
    text = raised(lambda: new_operator("my_op", GUIDE, folder), ProjectError).replace(str(tmp_path), "FOLDER")
    assert_expected_inline(
        text,
        """\
An operator project cannot be written [TA223]
  why:
    it cannot be locked: [Errno 17] File exists: 'FOLDER/cache/projects'
  fix:
    Nothing was written. Name another folder for locks: TORCHAIR_CACHE_HOME=/path/to/folder""",
    )
    assert not folder.exists()


def test_a_folder_with_dashes_and_spaces(tmp_path: Path) -> None:
    assert new_operator("my_op", GUIDE, tmp_path / "my-first project").project.package == "my_first_project"


def test_schemas_that_cannot_be_generated(folder: Path) -> None:
    schema = "my_op(Tensor std, Tensor?[] many, Device where, Scalar s, int[] linux, *, Tensor(a!) out) -> (Tensor[], Tensor?)"
    text = raised(lambda: new_operator("my_op", schema, folder), ProjectError)
    assert_expected_inline(
        text,
        """\
An operator cannot be generated [TA223]
  why:
    schema: npu::my_op(Tensor std, Tensor?[] many, Device where, Scalar s, int[] linux, *, Tensor(a!) out) -> (Tensor[], Tensor?)
    argument 'where' is of type Device; inputs say where a result lies
    argument 'many' is of type Tensor?[]; write Tensor[]
    argument 'out' is written and passed by keyword; write it before the *
    'std' is a name that generated code uses
    'linux' is a name that generated code uses
    result 0 is no Tensor, whose size and dtype a rule could give
    result 1 is no Tensor, whose size and dtype a rule could give
    argument 's' is of type Scalar, which no attribute type stands for; write float or int
  fix:
    Change the schema or the name.""",
    )
    assert not folder.exists()


@pytest.mark.parametrize(
    ("name", "schema", "problem"),
    [
        ("add", "(Tensor x, Tensor y) -> Tensor", "add would be the Ascend IR operator Add, which exists: "),
        ("my_op", "other(Tensor x) -> Tensor", "the schema is one of npu::other, not of npu::my_op"),
        ("my_op", "my_op.out(Tensor x) -> Tensor", "the schema is one of npu::my_op.out, not of npu::my_op"),
        ("my_op", '(Tensor x, str s="a\\nb") -> Tensor', "the default 'a\\nb' has characters that are not printable"),
        ("my_op", "(Tensor(a) x) -> Tensor(a)", "result 0 is a view of an argument"),
        ("my_op", "(Tensor(a!)[] x) -> ()", "it has neither a result nor an argument of type Tensor"),
        ("my_op", "(Tensor x, Tensor(a!)[] y) -> Tensor", "argument 'y' is of type Tensor[] and is written"),
    ],
)
def test_problems_of_a_schema(name: str, schema: str, problem: str, folder: Path) -> None:
    assert problem in raised(lambda: new_operator(name, schema, folder), ProjectError)
    assert not folder.exists()


def test_rules_that_are_missing_or_too_many(folder: Path) -> None:
    text = raised(lambda: new_operator("my_op", "(int n) -> Tensor", folder), ProjectError)
    assert_expected_inline(
        text,
        """\
Nothing says the size and dtype of an operator's results [TA223]
  why:
    npu::my_op(int n) -> Tensor has no argument of type Tensor to take them from
  fix:
    Say them: --size '{4, n}' --dtype at::kFloat""",
    )
    text = raised(lambda: new_operator("my_op", "(Tensor x) -> Tensor", folder, sizes=["x", "x"]), ProjectError)
    assert_expected_inline(
        text,
        """\
An operator has another number of results than of rules [TA223]
  why:
    --size is given 2 times, and npu::my_op(Tensor x) -> Tensor has 1 results
  fix:
    Give --size once for each result, in order.""",
    )
    text = raised(lambda: new_operator("my_op", "(Tensor x) -> Tensor", folder, sizes=["{1,\n2}"]), ProjectError)
    assert_expected_inline(
        text,
        """\
An operator cannot be generated [TA223]
  why:
    the rule '{1,\\n2}' has characters that are not printable
  fix:
    Write it in one line.""",
    )
    text = raised(lambda: new_operator("my_op", "(int n) -> Tensor", folder, inplace=True), ProjectError)
    assert_expected_inline(
        text,
        """\
An operator cannot be generated [TA223]
  why:
    schema: npu::my_op(int n) -> Tensor
    it has no argument of type Tensor that could be written in place
  fix:
    Give it one: (Tensor(a!) x, Tensor y) -> Tensor""",
    )


def test_kernel_languages(folder: Path) -> None:
    text = raised(lambda: new_operator("my_op", GUIDE, folder, kernel="../cuda"), ProjectError)
    assert_expected_inline(
        text,
        """\
A kernel language is not known [TA223]
  why:
    '../cuda' is none of cpp, python, triton
  fix:
    Choose one of them.""",
    )
    schema = "(Tensor x, ScalarType dtype) -> Tensor"
    text = raised(lambda: new_operator("my_op", schema, folder, kernel="python"), ProjectError)
    assert_expected_inline(
        text,
        """\
An operator cannot be generated [TA223]
  why:
    argument 'dtype' is a dtype, which only C++ kernels of a project take
  fix:
    Use --kernel cpp.""",
    )
    text = raised(
        lambda: new_operator("my_op", "(Tensor x) -> Tensor", folder, dtypes=["at::kComplexFloat"]), ProjectError
    )
    assert_expected_inline(
        text,
        """\
An operator cannot be generated [TA223]
  why:
    out is at::kComplexFloat; C++ kernels make torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.bool
  fix:
    Choose one of these, or --kernel python.""",
    )
    assert not folder.exists()


def test_a_project_has_one_namespace(folder: Path) -> None:
    new_operator("my_op", GUIDE, folder, namespace="mine")
    assert new_operator("other_op", GUIDE, folder).plan.namespace == "mine"
    text = raised(lambda: new_operator("third_op", GUIDE, folder, namespace="npu"), ProjectError)
    assert_expected_inline(
        text.replace(str(folder), "FOLDER"),
        """\
A project has operators of one namespace [TA223]
  why:
    FOLDER is for 'mine', not for 'npu'
  fix:
    Leave --namespace out, or make another project.""",
    )


def test_two_operators_of_one_ir_name(folder: Path) -> None:
    new_operator("my_op", GUIDE, folder)
    (folder / "op_proto" / "my_op.json").rename(folder / "op_proto" / "my_Op.json")
    text = raised(lambda: new_operator("my_op", GUIDE, folder), ProjectError)
    assert_expected_inline(
        text,
        """\
Two operators of a project would be the same Ascend IR operator [TA223]
  why:
    my_Op and my_op are both MyOp
  fix:
    Choose another name.""",
    )


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("{", "it is no JSON: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"),
        ("[]", "it is a list, not an object"),
        ("{}", "its field 'package' is missing, or no text"),
        ('{"package": "p", "namespace": 3}', "its field 'namespace' is missing, or no text"),
        (
            '{"package": "../p", "namespace": "npu"}',
            "package '../p' is not an identifier (letters A-Z and a-z, digits, underscores)",
        ),
        ('{"package": "p", "namespace": "aten"}', "namespace 'aten' is one of PyTorch's own namespaces"),
    ],
)
def test_a_malformed_project(content: str, problem: str, folder: Path) -> None:
    folder.mkdir(parents=True)
    (folder / MARKER).write_text(content)
    text = raised(lambda: new_operator("my_op", GUIDE, folder), ProjectError)
    assert text == (
        f"An operator project is malformed [TA223]\n  why:\n    {folder / MARKER}: {problem}\n"
        '  fix:\n    It has to be like this: {"package": "my_project", "namespace": "npu"}'
    )


def test_a_folder_that_is_no_project(tmp_path: Path) -> None:
    text = raised(lambda: Project.open(tmp_path), ProjectError).replace(str(tmp_path), "FOLDER")
    assert_expected_inline(
        text,
        """\
A folder is no operator project [TA223]
  why:
    FOLDER/torchair_project.json cannot be read: No such file or directory
  fix:
    Make one: torchair op new my_op --schema "(Tensor x) -> Tensor" --out DIR""",
    )


def test_samples_that_fit_no_rule_are_said(folder: Path) -> None:
    made = new_operator("my_op", "(Tensor x) -> Tensor", folder, sizes=["{x.size(7)}"])
    assert not made.plan.samples.fit
    assert "CHANGE THEM: nothing that was tried fits the rules for sizes." in tree(folder)["tests/test_my_op.py"]


def test_rules_keep_their_meaning_in_the_file(folder: Path) -> None:
    """What is written is read as the rule that was given."""
    schema = "(Tensor x, str mode) -> Tensor"
    rule = "mode == \"a: 'b' # c\" ? x.sizes() : {1}"
    new_operator("my_op", schema, folder, sizes=[rule])
    entry = yaml.safe_load(tree(folder)["op_plugin_functions.yaml"])["custom"][0]
    parsed = parse_schema(entry["func"])
    assert parse_size(entry["gen_opapi"]["out"]["size"], parsed) == parse_size(rule, parsed)
