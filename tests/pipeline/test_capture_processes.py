"""Captured graphs in several threads and processes, and the memory that they leave behind."""

from __future__ import annotations

import gc
import multiprocessing
import os
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import npugraph_ex
import torchair
from torchair.capture import pools
from torchair.pipeline.backends import Backend


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def with_pool_of_its_own(**options: Any) -> Backend:
    config = npugraph_ex.CompilerConfig()
    config.use_graph_pool = npugraph_ex.graph_pool_handle()
    for name, value in options.items():
        setattr(config, name, value)
    return npugraph_ex.get_npu_backend(compiler_config=config)


def mixed(x: torch.Tensor) -> torch.Tensor:
    for _ in range(4):
        x = torch.tanh(x @ x) + x
    return x.cumsum(0)


def in_threads(count: int, work: Callable[[int], None]) -> None:
    """Run in that many threads, and raise what one of them raised."""
    failed: list[BaseException] = []
    start = threading.Barrier(count)

    def guarded(i: int) -> None:
        try:
            start.wait()
            work(i)
        except BaseException as error:  # noqa: BLE001  (raised again below)
            failed.append(error)

    threads = [threading.Thread(target=guarded, args=(i,)) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]


# --- threads ---


@pytest.mark.parametrize("dynamic", [False, True])
def test_threads_call_one_function(dynamic: bool) -> None:
    made = with_pool_of_its_own()
    run = torch.compile(mixed, backend=made, dynamic=dynamic)
    run(torch.ones(30, 30))

    def work(i: int) -> None:
        for j in range(30):
            n = 30 if not dynamic else 30 + (i + j) % 3
            x = torch.full((n, n), 0.01 * (i + 1) + 0.001 * j)
            torch.testing.assert_close(run(x), mixed(x), rtol=1e-5, atol=1e-5)

    in_threads(3, work)
    (graph,) = made.graphs
    assert len(graph.captures) == (3 if dynamic else 1)
    (pool,) = graph.pools()
    assert 1 <= pool.arenas <= 3


def test_runs_at_the_same_time_have_memory_each() -> None:
    inside, leave = threading.Barrier(2), threading.Barrier(2)

    @torch.library.custom_op("captureprocesses::meet", mutates_args=())
    def meet(x: torch.Tensor) -> torch.Tensor:
        inside.wait(60)
        leave.wait(60)
        return x.clone()

    @meet.register_fake
    def _(x: torch.Tensor) -> torch.Tensor:
        return torch.empty_like(x)

    def program(x: torch.Tensor) -> torch.Tensor:
        y = torch.tanh(x)  # lies in the arena while the other run goes on
        return meet(x) + torch.exp(y)

    made = with_pool_of_its_own()
    run = torch.compile(program, backend=made, fullgraph=True)

    def work(i: int) -> None:
        x = torch.full((50,), float(i))
        torch.testing.assert_close(run(x), x + torch.exp(torch.tanh(x)))

    def first() -> None:  # compiles; the barriers want a second party
        inside.wait(60)
        leave.wait(60)

    helper = threading.Thread(target=first)
    helper.start()
    run(torch.zeros(50))
    helper.join()
    in_threads(2, work)
    (graph,) = made.graphs
    assert len(graph.captures) == 1
    assert graph.pools()[0].arenas == 2


def test_static_outputs_of_runs_at_the_same_time_differ() -> None:
    made = with_pool_of_its_own(clone_output=False)
    run = torch.compile(mixed, backend=made)
    with torch.no_grad():
        address = run(torch.ones(8, 8)).data_ptr()

    def work(i: int) -> None:
        with torch.no_grad():
            for _ in range(20):
                run(torch.ones(8, 8))

    in_threads(3, work)
    with torch.no_grad():
        assert run(torch.ones(8, 8)).data_ptr() == address


# --- processes ---


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_fork_after_compiling() -> None:
    run = torch.compile(mixed, backend="npugraph_ex")
    other = torch.compile(lambda x: mixed(x) + 1, backend="npugraph_ex")
    x = torch.eye(5) / 3
    want = mixed(x)
    run(x)
    child = os.fork()
    if child == 0:  # nothing of pytest may run here
        code = 1
        try:
            same = torch.allclose(run(x), want) and torch.allclose(other(x), want + 1)
            code = 0 if same else 2
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    torch.testing.assert_close(run(x), want)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_fork_while_another_thread_captures() -> None:
    from torchair.capture import life_cycle

    run = torch.compile(mixed, backend="npugraph_ex")
    run(torch.eye(3))
    torchair.reset()
    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        with life_cycle._capturing:
            held.set()
            done.wait(60)

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait(60)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            code = 0 if torch.allclose(run(torch.eye(3)), mixed(torch.eye(3))) else 2  # captures
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    done.set()
    thread.join()
    assert os.waitstatus_to_exitcode(status) == 0


def _spawned(x: torch.Tensor, results: Any) -> None:
    results.put(torch.compile(mixed, backend="npugraph_ex")(x).tolist())


def test_spawn_after_compiling() -> None:
    x = torch.eye(4) / 3
    torch.compile(mixed, backend="npugraph_ex")(x)
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    process = context.Process(target=_spawned, args=(x, results))
    process.start()
    got = torch.tensor(results.get(timeout=300))
    process.join()
    torch.testing.assert_close(got, mixed(x))


# --- memory ---


@pytest.mark.slow
def test_compiled_functions_are_freed() -> None:
    """In a process of its own: what other tests left behind would be counted."""
    code = f"""
import gc, sys, weakref
sys.path.insert(0, {str(Path(__file__).parents[2])!r})
import torch, npugraph_ex, torchair
from torchair.capture import pools

def rss():
    with open("/proc/self/statm") as f:
        return int(f.read().split()[1]) * 4096

def round():
    def program(x, y):
        for _ in range(3):
            x = torch.tanh(x @ y) + x
        return x.sum(0)
    backend = npugraph_ex.get_npu_backend()
    run = torch.compile(program, backend=backend)
    with torch.no_grad():
        run(torch.ones(200, 200), torch.ones(200, 200))
    graph, = backend.graphs
    capture, = graph.captures.values()
    return [weakref.ref(o) for o in (graph, graph.gm, backend, graph.pools()[0])]

held = []
for i in range(200):
    held += round()
    torch._dynamo.reset()
    if i % 10 == 9:
        gc.collect()
    if i == 39:
        before = rss()
gc.collect()
grown = rss() - before
assert not [r for r in held if r() is not None], "graphs are alive"
assert not pools.all_pools(), "pools are alive"
assert grown < 60 * 2**20, f"{{grown / 2**20:.0f}} MB more after 160 rounds"
print(f"{{grown / 2**20:.0f}} MB")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_model_is_freed_with_its_compiled_function() -> None:
    def inside() -> list[weakref.ref[Any]]:
        model = torch.nn.Linear(3, 3)
        run = torch.compile(model, backend=with_pool_of_its_own())
        run(torch.ones(2, 3)).sum().backward()
        return [weakref.ref(model), weakref.ref(model.weight)]

    references = inside()
    torch._dynamo.reset()
    gc.collect()
    assert [r() for r in references] == [None, None]


def test_memory_stays_where_the_arena_lies_between_calls() -> None:
    made = with_pool_of_its_own()
    run = torch.compile(mixed, backend=made)
    with torch.no_grad():
        run(torch.ones(64, 64))
        (graph,) = made.graphs
        (pool,) = graph.pools()
        held = pool.nbytes
        for _ in range(5):
            run(torch.ones(64, 64))
    assert pool.nbytes == held
    assert pool.arenas == 1
    assert pool in pools.all_pools()
    assert torchair.explain(run).bytes_held == held
