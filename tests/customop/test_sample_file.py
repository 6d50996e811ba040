"""Files of sample calls."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from expecttest import assert_expected_inline

from torchair.customop.sample_file import load_samples
from torchair.errors import SampleFileError


def written(folder: Path, text: str) -> Path:
    path = folder / "calls.py"
    path.write_text(text)
    return path


def refused(folder: Path, text: str) -> str:
    with pytest.raises(ValueError, match="sample calls") as caught:
        load_samples(written(folder, text))
    assert isinstance(caught.value, SampleFileError)
    return str(caught.value).replace(str(folder), "DIR")


def test_a_file(tmp_path: Path) -> None:
    text = """\
import torch

def samples():
    for n in (2, 3):
        yield (torch.ones(n), 0.5), {}
    yield [torch.ones(4)], {"dim": 0}
"""
    first, second, third = load_samples(written(tmp_path, text))
    assert torch.equal(first[0][0], torch.ones(2))
    assert (second[0][1], second[1]) == (0.5, {})
    assert (type(third[0]), third[1]) == (tuple, {"dim": 0})


def test_what_samples_may_return(tmp_path: Path) -> None:
    assert load_samples(written(tmp_path, "def samples():\n    return [((1,), {})]\n")) == [((1,), {})]
    text = "import itertools\ndef samples():\n    return (((i,), {}) for i in itertools.count())\n"
    assert len(load_samples(written(tmp_path, text))) == 64


def test_the_text(tmp_path: Path) -> None:
    assert_expected_inline(
        refused(tmp_path, "def samples():\n    yield (1,), {}\n    yield 3\n"),
        """\
A file of sample calls cannot be used [TA224]
  why:
    sample 1 is a int, not a pair (args, kwargs)
  fix:
    A file of sample calls is Python:

    import torch

    def samples():
        yield (torch.randn(2, 3), 0.5), {}
        yield (torch.randn(4, 1), 2.0), {"dim": 0}
  where:
    DIR/calls.py:3: yield 3""",
    )


@pytest.mark.parametrize(
    ("text", "why", "where"),
    [
        ("def samples(:\n", "it is not Python: invalid syntax", "calls.py:1"),
        ("x = 1\nimport no_such_module\n", "it raised ModuleNotFoundError: No module", "calls.py:2: import no_such"),
        ("x = 1\n", "it defines no function samples()", "calls.py"),
        ("samples = 3\n", "samples is a int", "calls.py"),
        ("def samples():\n    return 3\n", "samples() gives no calls: 'int' object is not iterable", "calls.py:1"),
        ("def samples(n):\n    yield n\n", "samples() gives no calls: samples() missing 1 required", "calls.py:1"),
        ("def samples():\n    yield from ()\n", "samples() yields no call", "calls.py:1"),
        ("def samples():\n    x = {}\n    yield x['a'], {}\n", "it raised KeyError: 'a'", "calls.py:3: yield x['a']"),
        ("def samples():\n    return int('a')\n", "it raised ValueError: invalid literal", "calls.py:2"),
        (
            "def f():\n    return 1 + None\ndef samples():\n    return f()\n",
            "it raised TypeError: unsupp",
            "calls.py:2",
        ),
        (
            "def samples():\n    yield 1, {}\n",
            "sample 0 has arguments that are a int, not a tuple",
            "calls.py:2: yield",
        ),
        ("def samples():\n    yield (1,), 2\n", "sample 0 has keyword arguments that are a int", "calls.py:2"),
        ("def samples():\n    yield (1,), {2: 3}\n", "sample 0 has the keyword 2, which is a int", "calls.py:2"),
        ("def samples():\n    yield 1, 2, 3\n", "sample 0 is a tuple of 3, not a pair", "calls.py:2"),
        ("x = '\\0'\n\0", "it is not Python", "calls.py"),
    ],
)
def test_what_is_wrong(tmp_path: Path, text: str, why: str, where: str) -> None:
    shown = refused(tmp_path, text)
    assert why in shown
    assert f"DIR/{where}" in shown


def test_what_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(SampleFileError, match="it cannot be read: No such file or directory"):
        load_samples(tmp_path / "nothing.py")
    (tmp_path / "binary.py").write_bytes(b"\xff\xfe")
    with pytest.raises(SampleFileError, match="it is no text in UTF-8"):
        load_samples(tmp_path / "binary.py")
