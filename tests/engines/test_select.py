"""Which engine runs a graph."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import warnings as python_warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

import torchair
from tests.engines.graphs import OPTIONS, read
from torchair import logs
from torchair.config import CompilerConfig, Options
from torchair.engines import BoxedExecutable, Engine, Executable, compile_on, engine_names, select, select_engine
from torchair.engines.inductor import InductorEngine
from torchair.engines.reference import ReferenceEngine
from torchair.errors import EngineError, Rejection, UnsupportedGraphError
from torchair.ir import Graph

_ADD = "graph g(%x: float32[2]):\n  %a: float32[2] = Add(%x, %x)\n  return %a\n"
_NONZERO = """graph g(%x: float32[5]):
  %n: int64[u0, 1] = torch_call(%x) binds u0=%n[0] call aten::nonzero.default($0)
  return %n
"""


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing was chosen and nothing was said before."""
    monkeypatch.setattr(logs, "_said", set())
    monkeypatch.setattr(logs, "_warned", set())


@pytest.fixture
def no_compiler(monkeypatch: pytest.MonkeyPatch) -> Rejection:
    """There is no C++ compiler."""
    found = Rejection("no C++ compiler runs on this machine (tried: /no/such/c++)", "Name one: CXX=/path/to/c++")
    monkeypatch.setattr(select, "load_support", lambda: found)
    monkeypatch.setattr(select, "find_compiler", lambda chosen: found)
    return found


@pytest.fixture
def warnings(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is logged at WARNING."""
    found: list[str] = []
    handler = logging.Handler(logging.WARNING)
    handler.emit = lambda record: found.append(record.getMessage())  # type: ignore[method-assign]
    monkeypatch.setattr(torchair.logger, "handlers", [handler])
    monkeypatch.setattr(torchair.logger, "level", logging.WARNING)
    torchair.logger.manager._clear_cache()  # type: ignore[attr-defined]
    return found


def test_names() -> None:
    assert engine_names()[:3] == ("reference", "inductor", "native")
    assert isinstance(select_engine("reference"), ReferenceEngine)
    assert isinstance(select_engine("inductor"), InductorEngine)


def test_an_unknown_name() -> None:
    with pytest.raises(EngineError) as caught:
        select_engine("fast")
    assert str(caught.value) == (
        "There is no engine of that name [TA401]\n"
        "  why:\n"
        "    config.engine is 'fast'; known: auto, reference, inductor, native\n"
        "  fix:\n"
        '    config.engine = "auto"'
    )


@pytest.mark.usefixtures("support")
def test_auto_where_a_compiler_exists() -> None:
    assert select_engine("auto").name == "native"
    assert select_engine("auto", "cuda").name == "inductor"


def test_auto_looks_at_the_devices_of_all_tensors() -> None:
    graph = read(_ADD)
    inputs = [torch.ones(2), torch.ones(2, device="meta")]
    # Nothing runs on "meta"; what matters is which engine is asked.
    assert compile_on("auto", graph, OPTIONS, inputs)[1] == "inductor"
    assert compile_on("auto", graph, OPTIONS, inputs[:1])[1] == "native"


def test_auto_is_reference_elsewhere_and_warns_once(no_compiler: Rejection) -> None:
    with python_warnings.catch_warnings(record=True) as warned:
        python_warnings.simplefilter("always")
        assert select_engine("auto").name == "reference"
        assert select_engine("auto").name == "reference"
        assert select_engine("auto", "cuda").name == "reference"
    assert [(w.category, str(w.message).splitlines()) for w in warned] == [
        (
            UserWarning,
            [
                f"Graphs run on the reference engine, which is slow: {no_compiler.reason}.",
                "Name one: CXX=/path/to/c++",
                'config.engine = "reference" says that this is wanted.',
            ],
        )
    ]
    with python_warnings.catch_warnings():
        python_warnings.simplefilter("error")
        assert select_engine("inductor").name == "inductor", "an engine that is asked for by name is not replaced"


def test_auto_tells_why_it_is_reference(no_compiler: Rejection) -> None:
    told: list[str] = []
    with pytest.warns(UserWarning, match="Graphs run on the reference engine"):
        executable, name = compile_on("auto", read(_ADD), OPTIONS, on_fallback=told.append)
    assert (name, told) == ("reference", [f"it runs on the reference engine: {no_compiler.reason}"])
    assert executable(torch.ones(2))[0].tolist() == [2, 2]


#: Compiles for two modes and prints what is said: in a process of its own, since a process looks for a compiler once.
_WITHOUT_COMPILER = """
import warnings
import torch, torchair

warnings.simplefilter("always")
config = torchair.CompilerConfig()
config.engine = "native"
backends = {
    "auto": dict(backend="torchair"),
    "native": dict(backend=torchair.get_npu_backend(compiler_config=config)),
    "capture": dict(backend="npugraph_ex", options={"static_kernel_compile": True}),
}
for name, how in backends.items():
    def double(x):
        return x + x
    with warnings.catch_warnings(record=True) as warned:
        for dynamic in (False, True):
            torch._dynamo.reset()
            run = torch.compile(double, dynamic=dynamic, **how)
            assert run(torch.ones(3)).tolist() == [2, 2, 2]
    said = [str(w.message).splitlines()[0] for w in warned if "C++" in str(w.message)]
    print(name, len(torchair.explain(run).native), said, [f.reason for f in torchair.explain(run).fallbacks], sep="|")
"""


def test_no_compiler_in_each_mode(tmp_path: Path) -> None:
    environment = {**os.environ, "CXX": "/no/such/c++", "TORCHAIR_CACHE_HOME": str(tmp_path)}
    script = tmp_path / "script.py"
    script.write_text(_WITHOUT_COMPILER)
    ran = subprocess.run([sys.executable, str(script)], env=environment, capture_output=True, text=True, check=True)
    reason = "no C++ compiler runs on this machine (tried: /no/such/c++)"
    left = "none of its operators became native code"
    rows = [line.split("|") for line in ran.stdout.splitlines()]
    assert [row[0] for row in rows] == ["auto", "native", "capture"]
    auto, native, capture = rows
    assert auto[1:] == [
        "0",
        str([f"Graphs run on the reference engine, which is slow: {reason}."]),
        str([f"it runs on the reference engine: {reason}"]),
    ]
    assert native[2:] == [
        str(
            [
                f'config.engine = "native" runs graphs as calls of PyTorch\'s operators: {reason}.',
                f"Captured graphs are replayed from Python, which is slower: {reason}",
            ]
        ),
        str([f"{left}: {reason}"]),
    ]
    assert capture[2:] == [
        str([f"static_kernel_compile has no effect: {reason}."]),
        str([f"{left} (static_kernel_compile): {reason}"]),
    ]


def test_auto_leaves_a_graph_that_cannot_be_compiled_to_reference(warnings: list[str]) -> None:
    graph = read(_NONZERO)
    x = torch.tensor([0.0, 1.0, 0.0, 2.0, 3.0])
    for _ in range(2):
        executable, name = compile_on("auto", graph, OPTIONS)
        assert name == "reference"
        assert executable(x)[0].tolist() == [[1], [3], [4]]
    (text,) = warnings
    assert text == (
        "A graph runs on the reference engine, which is slow: native cannot take it, since the size of a result of "
        "aten::nonzero.default (node torch_call, FX node -) is known only when it has run. Choose config.engine = "
        '"reference" to say that this is wanted.'
    )
    with pytest.raises(UnsupportedGraphError):
        compile_on("inductor", graph, OPTIONS)


def test_auto_through_torch_compile(warnings: list[str]) -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        return x.nonzero() + 1

    x = torch.tensor([0.0, 1.0, 0.0, 2.0])
    config = CompilerConfig()
    assert config.engine == "auto"
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        run = torch.compile(program, backend=torchair.get_npu_backend(compiler_config=config), fullgraph=True)
        assert torch.equal(run(x), program(x))
    assert any("aten::nonzero.default" in text and "reference engine" in text for text in warnings)


def test_an_engine_by_name_compiles_or_fails() -> None:
    graph = read(_ADD)
    for name in ("reference", "inductor", "auto"):
        executable, engine = compile_on(name, graph, OPTIONS)
        assert engine == ("native" if name == "auto" else name)
        assert executable(torch.ones(2))[0].tolist() == [2, 2]
        assert isinstance(executable, BoxedExecutable) == (engine != "reference")
        executable.close()


class _ThirdParty:
    """An engine that another package brings."""

    name = "third"

    def supports(self, node: Any) -> None:
        return None

    def compile(self, graph: Graph, options: Options, inputs: Sequence[Any] = ()) -> Executable:
        return ReferenceEngine().compile(graph, options, inputs)


class _EntryPoint:
    name = "third"

    def load(self) -> type[_ThirdParty]:
        return _ThirdParty


def test_engines_of_other_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(select, "entry_points", lambda group: [_EntryPoint()] if group == "torchair.engines" else [])
    engine: Engine = select_engine("third")
    assert isinstance(engine, _ThirdParty)
    assert engine_names() == ("reference", "inductor", "native", "third")
    executable, name = compile_on("third", read(_ADD), OPTIONS)
    assert name == "third"
    assert executable(torch.ones(2))[0].tolist() == [2, 2]
