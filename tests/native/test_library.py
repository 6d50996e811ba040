"""Functions are compiled once: in a process, for all layers of a model, and on a machine."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
import torch
from torch import Tensor

from tests.native.graphs import assert_close, lowered
from torchair.build import Compiler
from torchair.errors import BuildError
from torchair.native import PartitionRecord, library
from torchair.native.emit import Kernel
from torchair.native.library import addresses
from torchair.native.program import compile_programs

pytestmark = pytest.mark.usefixtures("support")


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[list[Path]]:
    """The sources of each call of the compiler."""
    found: list[list[Path]] = []
    original = Compiler.compile

    def compile_and_note(self, sources, *arguments):
        found.append(list(sources))
        return original(self, sources, *arguments)

    monkeypatch.setattr(Compiler, "compile", compile_and_note)
    return found


@pytest.fixture
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An empty cache folder, and a process that knows no function yet."""
    home = tmp_path / "cache"
    home.mkdir(mode=0o700)
    monkeypatch.setenv("TORCHAIR_CACHE_HOME", str(home))
    monkeypatch.setattr(library, "_known", {})
    return home


def _forget(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a new process."""
    monkeypatch.setattr(library, "_known", {})


def _layers(count: int) -> PartitionRecord:
    """A model of equal layers: attention, products, norms, residual sums."""

    def function(x: Tensor, *weights: Tensor) -> tuple[Tensor]:
        attention = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
        for qkv, out, up, down in zip(*[iter(weights)] * 4, strict=True):
            y = torch.nn.functional.layer_norm(x, (32,))
            q, k, v = ((y @ qkv)[:, 32 * i : 32 * i + 32].view(1, 4, 2, 16).transpose(1, 2) for i in range(3))
            x = x + attention(q, k, v)[0].transpose(1, 2).reshape(4, 32) @ out
            y = torch.nn.functional.layer_norm(x, (32,))
            x = x + torch.nn.functional.gelu(y @ up) @ down
        return (x,)

    shapes = [(32, 96), (32, 32), (32, 64), (64, 32)] * count
    return lowered(function, torch.randn(4, 32), *(torch.randn(s) for s in shapes))[1]


def _bodies(record: PartitionRecord) -> list[str]:
    return [k.body for p in record.programs for k in p.kernels]


def test_layers_share_functions() -> None:
    few, many = _bodies(_layers(2)), _bodies(_layers(16))
    assert len(many) > 6 * len(few)
    assert len(set(few)) == len(set(many)) <= 8


def test_layers_are_compiled_once(calls: list[list[Path]], cache: Path) -> None:
    few, many = _layers(2), _layers(16)
    compile_programs(few.programs)
    assert len(calls) == 1
    compile_programs(many.programs)
    used = {body: address for p in many.programs for body, address in zip(_all(p), p._addresses, strict=True)}
    assert len(set(used.values())) == len(used)
    new = set(_bodies(many)) - set(_bodies(few))
    assert len(calls) == 1 + bool(new)
    functions = "".join(path.read_text() for sources in calls for path in sources).count('extern "C"')
    assert functions == len(set(_bodies(few) + _bodies(many)))


def _all(program) -> list[str]:
    return [k.body for k in program.kernels]


def _softmax(x: Tensor) -> tuple[Tensor, ...]:
    return (torch.softmax(x * 3, -1) + x,)


def test_other_processes_find_what_was_compiled(
    calls: list[list[Path]], cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = torch.randn(4, 37)
    for _ in range(3):
        _forget(monkeypatch)
        module, _ = lowered(_softmax, x)
        assert_close(module(x), _softmax(x))
    assert len(calls) == 1
    assert [p.parent for p in calls[0]] == [cache / "native"]


def test_names_in_a_graph_are_no_reason_to_compile_again(
    calls: list[list[Path]], cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Comments show the names of one graph; what is compiled does not depend on them."""
    for comment in ("add: one graph", "sum: another graph"):
        _forget(monkeypatch)
        addresses([Kernel("  (void)p;", (), (), checks=(), comment=(comment,))])
    assert len(calls) == 1


@pytest.mark.parametrize("damage", ["half", "empty", "text"])
def test_a_damaged_library_is_built_again(
    damage: str, calls: list[list[Path]], cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Not loaded before: what is loaded stays as it is.
    monkeypatch.setattr(library, "_loaded", lambda path: (_ for _ in ()).throw(LookupError(str(path))))
    x = torch.randn(4, 38)
    module, record = lowered(_softmax, x)
    with pytest.raises(LookupError) as caught:
        compile_programs(record.programs)
    monkeypatch.undo()
    monkeypatch.setenv("TORCHAIR_CACHE_HOME", str(cache))
    _forget(monkeypatch)
    path = Path(str(caught.value))
    whole = path.read_bytes()
    path.write_bytes({"half": whole[: len(whole) // 2], "empty": b"", "text": b"no library\n" * 500}[damage])
    assert_close(module(x), _softmax(x))
    assert path.read_bytes() == whole


def test_half_a_source_is_written_again(calls: list[list[Path]], cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.randn(4, 39)
    module, _ = lowered(_softmax, x)
    assert_close(module(x), _softmax(x))
    (source,) = (cache / "native").glob("*.cpp")
    whole = source.read_bytes()
    source.write_bytes(whole[:100])
    shutil.rmtree(cache / "libraries")
    _forget(monkeypatch)
    module, _ = lowered(_softmax, x)
    assert_close(module(x), _softmax(x))
    assert source.read_bytes() == whole


def test_what_cannot_be_loaded_is_an_error_of_ours(
    cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    other = tmp_path / "other.so"
    other.write_text("no library")
    monkeypatch.setattr(library, "build_library", lambda *args, **options: other)
    with pytest.raises(BuildError, match="cannot be loaded") as caught:
        addresses([Kernel("  (void)s;", (), (), checks=(), comment=("a comment",))])
    assert str(other) in str(caught.value)


def test_a_function_that_does_not_compile_shows_what_the_compiler_says(cache: Path) -> None:
    broken = Kernel("  this is no C++;", (), (), checks=(), comment=("add: float32[4] = aten.add.Tensor(x, y)",))
    with pytest.raises(BuildError) as caught:
        addresses([broken])
    text = str(caught.value)
    assert "[TA410]" in text
    assert "does not compile" in text
    assert re.search(r"error: .*'?this'?", text)  # the compiler's own words
    (source,) = {word for word in text.split() if re.fullmatch(r"/\S*kernels_\w+\.cpp", word)}  # its command line
    kept = Path(source).read_text(encoding="utf-8")
    assert "this is no C++;" in kept
    assert "// add: float32[4] = aten.add.Tensor(x, y)\n" in kept
    # Nothing is left of it: the same again is the same error, and others compile.
    with pytest.raises(BuildError, match="does not compile"):
        addresses([broken])
    assert all(addresses([Kernel("  (void)worker;", (), (), checks=(), comment=("a comment",))]))
