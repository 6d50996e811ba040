"""Options that the first compile fixes for the process."""

from __future__ import annotations

import threading
from textwrap import dedent

import pytest

from torchair.config import PROCESS_OPTIONS, CompilerConfig, Options, ProcessOptions
from torchair.errors import ProcessOptionsError


def strings(**changes: str) -> tuple[tuple[str, str], ...]:
    return tuple({"ge.oo.level": "O3", "ge.aicoreNum": "24|48", **changes}.items())


def test_the_first_compile_fixes_them():
    assert ProcessOptions().fixed is None
    options = ProcessOptions()
    assert options.fix(strings()) is True
    assert options.fixed == dict(strings())
    assert options.fix(strings()) is False


def test_a_subset_with_equal_values_passes():
    options = ProcessOptions()
    options.fix(strings())
    assert options.fix([("ge.oo.level", "O3")]) is False
    assert options.fix([]) is False
    assert options.fixed == dict(strings())


def test_other_values_are_refused_and_all_of_them_named():
    options = ProcessOptions()
    options.fix(strings())
    with pytest.raises(ProcessOptionsError) as caught:
        options.fix([("ge.oo.level", "O1"), ("ge.aicoreNum", "24|48"), ("ge.optimizationSwitch", "A:on")])
    assert str(caught.value) == dedent(
        """\
        Unsupport twice initialtion with different options [TA105] ERR03005
          why:
            ge.oo.level: fixed to 'O3', asked for 'O1'
            ge.optimizationSwitch: fixed as not set, asked for 'A:on'
            fixed by the first compile: ge.oo.level=O3, ge.aicoreNum=24|48
          fix:
            Use the same process-wide options for every graph, or another process for the other values."""
    )
    assert isinstance(caught.value, ValueError)
    assert options.fixed == dict(strings()), "a refused compile changes nothing"


def test_reset_forgets():
    options = ProcessOptions()
    options.fix(strings())
    options.reset()
    assert options.fixed is None
    assert options.fix([("ge.oo.level", "O1")]) is True


def test_what_is_fixed_cannot_be_edited():
    options = ProcessOptions()
    options.fix(strings())
    with pytest.raises(TypeError):
        options.fixed["ge.oo.level"] = "O1"  # type: ignore[index]


def test_only_one_thread_fixes_them():
    options = ProcessOptions()
    barrier = threading.Barrier(8)
    results: list[bool] = []

    def compile_graph() -> None:
        barrier.wait()
        results.append(options.fix(strings()))

    threads = [threading.Thread(target=compile_graph) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results) == [False] * 7 + [True]


def test_configurations_of_one_process():
    first, graph_only, process_wide = CompilerConfig(), CompilerConfig(), CompilerConfig()
    graph_only.experimental_config.frozen_parameter = True
    graph_only.experimental_config.topology_sorting_strategy = "BFS"
    process_wide.ge_config.enable_single_stream = True
    options = ProcessOptions()
    options.fix(Options.from_config(first).process_strings)
    assert options.fix(Options.from_config(graph_only).process_strings) is False
    with pytest.raises(ProcessOptionsError, match=r"ge\.enableSingleStream: fixed to 'false', asked for 'true'"):
        options.fix(Options.from_config(process_wide).process_strings)


def test_there_is_one_for_the_process():
    assert isinstance(PROCESS_OPTIONS, ProcessOptions)
