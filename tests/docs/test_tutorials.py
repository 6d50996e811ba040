"""The tutorials run as they stand: their commands are typed, their files written, what they show is compared.

What the code blocks are for stands in comments, which a reader of the rendered page does not see:

* ``console``: each line after ``$`` is a command, what follows is all that it prints, with ``...`` for what varies.
* ``<!-- file: use.py -->``: the block is that file.
* ``<!-- in: op_kernel/my_op.cpp -->``: the block replaces the definition there that begins with the same line.
* ``<!-- exit: 1 -->``: the last command of the block ends with that status.
* ``<!-- not run: it needs the network -->``: the block is not run, for that reason.
"""

from __future__ import annotations

import importlib.util
import os
import re
import resource
import subprocess
import sys
import sysconfig
import time
import venv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from torchair.build import find_compiler, find_ninja
from torchair.errors import Rejection

pytest.importorskip("click", reason="the extra 'cli' is not installed")

DOCS = Path(__file__).parents[2] / "docs"
ENGLISH, CHINESE = DOCS / "tutorials", DOCS / "zh" / "tutorials"
TUTORIALS = ("new-operator", "in-place-operator", "existing-operator", "renamed-operator")
WITH_CPP = ("new-operator", "in-place-operator")

_BLOCK = re.compile(
    r"(?:^<!-- (?P<key>file|in|exit|not run): (?P<value>[^\n]*) -->\n)?^```(?P<language>\w*)\n(?P<text>.*?)^```$",
    re.DOTALL | re.MULTILINE,
)


@dataclass(frozen=True, slots=True)
class Block:
    """A code block, with what the comment before it says."""

    key: str
    value: str
    language: str
    text: str

    def commands(self) -> Iterator[tuple[str, str]]:
        """Each command, with what it prints."""
        first, *parts = re.split(r"^\$ ", self.text, flags=re.MULTILINE)
        assert first == "", f"output without a command: {first}"
        for part in parts:
            command, _, shown = part.partition("\n")
            while command.endswith("\\"):
                line, _, shown = shown.partition("\n")
                command += "\n" + line
            yield command, shown


def blocks_of(page: Path) -> list[Block]:
    """The code blocks of a page, in order."""
    text = page.read_text(encoding="utf-8")
    found = [Block(m["key"] or "", m["value"] or "", m["language"], m["text"]) for m in _BLOCK.finditer(text)]
    assert 2 * len(found) == len(re.findall(r"^```", text, re.MULTILINE)), f"{page}: a code block is not understood"
    return found


def prose(page: Path) -> str:
    """A page without its code blocks."""
    return _BLOCK.sub("", page.read_text(encoding="utf-8"))


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of an environment of its own, in which the packages of this one can be imported."""
    environment = tmp_path_factory.mktemp("environment")
    venv.create(environment, symlinks=True, with_pip=importlib.util.find_spec("pip") is None)
    (site,) = environment.glob("lib/python*/site-packages")
    packages = [sysconfig.get_path("purelib"), *(p for p in sys.path if p.endswith("src"))]
    (site / "outer.pth").write_text("".join(f"import site; site.addsitedir({path!r})\n" for path in packages))
    torchair = environment / "bin" / "torchair"
    torchair.write_text(f"#!{environment / 'bin' / 'python'}\nfrom torchair.cli.main import main\n\nmain()\n")
    torchair.chmod(0o755)
    return environment / "bin"


class Reader:
    """Somebody who does what a tutorial says."""

    def __init__(self, folder: Path, programs: Path) -> None:
        self.folder = folder
        self._where = folder / ".folder"
        path = f"{programs}{os.pathsep}{os.environ['PATH']}"
        # A new environment has no plugins of pytest.
        self._environ = {**os.environ, "PATH": path, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONNOUSERSITE": "1"}
        for name in ("PYTHONPATH", "PYTEST_ADDOPTS", "COLUMNS"):
            self._environ.pop(name, None)

    def does(self, block: Block) -> None:
        """Type the commands of a block, or write its file."""
        if block.key == "not run":
            assert block.value, "a block that is not run has a reason"
        elif block.key == "file":
            (self.folder / block.value).write_text(block.text, encoding="utf-8")
        elif block.key == "in":
            self._replace(self.folder / block.value, block.text)
        else:
            assert block.language == "console", f"nobody says what this block is for:\n{block.text}"
            status = 0
            for command, shown in block.commands():
                assert status == 0, f"a command before this one failed: {command}"
                status = self._types(command, shown)
            assert status == int(block.value or 0)

    def _replace(self, path: Path, new: str) -> None:
        """Put a definition in the place of the one that begins alike: up to a line that is not of it."""
        text, first = path.read_text(encoding="utf-8"), new.partition("\n")[0]
        pattern = re.compile(rf"^{re.escape(first)}\n.*?\n(?=\n+\S)", re.DOTALL | re.MULTILINE)
        assert len(pattern.findall(text)) == 1, f"{path} has not one definition that begins with: {first}"
        path.write_text(pattern.sub(lambda _: new, text), encoding="utf-8")

    def _types(self, command: str, shown: str) -> int:
        shell = f'{command}\nstatus=$?; pwd > "$0"; exit $status'
        started, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
        ran = subprocess.run(
            ["bash", "-c", shell, str(self._where)],
            cwd=self.folder,
            env=self._environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        print(f"{time.perf_counter() - started:6.1f} s, {cpu:5.1f} s of CPU: {command}")
        assert matches(ran.stdout, shown), f"$ {command}\n--- shown:\n{shown}\n--- printed:\n{ran.stdout}"
        self.folder = Path(self._where.read_text().strip())
        return ran.returncode


def matches(printed: str, shown: str) -> bool:
    """Whether a text is what a page shows, where ``...`` stands for anything; spaces at ends of lines do not count."""
    printed, shown = ("\n".join(map(str.rstrip, text.strip().splitlines())) for text in (printed, shown))
    return re.fullmatch(".*".join(map(re.escape, shown.split("..."))), printed, re.DOTALL) is not None


@pytest.mark.timeout(1200)  # on a machine that does a lot else; alone it takes less than half a minute
@pytest.mark.parametrize("name", TUTORIALS)
def test_a_tutorial_runs(name: str, tmp_path: Path, programs: Path) -> None:
    if name in WITH_CPP:
        for found in (find_compiler(), find_ninja()):
            if isinstance(found, Rejection):
                pytest.skip(found.reason)
    reader = Reader(tmp_path, programs)
    for block in blocks_of(ENGLISH / f"{name}.md"):
        reader.does(block)


@pytest.mark.parametrize("name", TUTORIALS)
def test_both_languages_have_the_same_code(name: str) -> None:
    english, chinese = (blocks_of(folder / f"{name}.md") for folder in (ENGLISH, CHINESE))
    assert len(english) >= 5
    assert chinese == english
    headings = [re.findall("^#+ ", prose(folder / f"{name}.md"), re.MULTILINE) for folder in (ENGLISH, CHINESE)]
    assert headings[0] == headings[1]


@pytest.mark.parametrize("folder", [ENGLISH, CHINESE])
def test_links_lead_somewhere(folder: Path) -> None:
    pages = sorted(folder.glob("*.md"))
    assert {page.stem for page in pages} >= set(TUTORIALS)
    for page in pages:
        links = re.findall(r"\]\(([^)#]+)#?([^)]*)\)", prose(page))
        assert links
        for target, anchor in links:
            assert (page.parent / target).is_file(), f"{page}: {target}"
            headings = re.findall("^#+ (.*)$", prose(page.parent / target), re.MULTILINE)
            anchors = [re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in headings]
            assert anchor in ("", *anchors), f"{page}: {target}#{anchor}"


@pytest.mark.parametrize(
    ("printed", "shown", "same"),
    [
        ("a\nb  \n", "a\nb", True),
        ("a\nb\nc", "a\n...\nc", True),
        ("took 3.2 s", "took ... s", True),
        ("a\nb", "a", False),
        ("a", "a\n...\nb", False),
        ("a.c", "a?c", False),
    ],
)
def test_what_is_shown_is_compared(printed: str, shown: str, same: bool) -> None:
    assert matches(printed, shown) is same


def test_a_definition_is_replaced(tmp_path: Path, programs: Path) -> None:
    (tmp_path / "a.py").write_text("def f():\n    a\n\n    b\n\n\ndef g():\n    pass\n")
    Reader(tmp_path, programs).does(Block("in", "a.py", "python", "def f():\n    c\n"))
    assert (tmp_path / "a.py").read_text() == "def f():\n    c\n\n\ndef g():\n    pass\n"
