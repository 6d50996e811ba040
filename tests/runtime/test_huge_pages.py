"""Weights in huge pages: which blocks, that Linux really moves them, and that nobody else notices."""

from __future__ import annotations

import platform
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from hypothesis import given, strategies as st

from torchair.runtime import huge_pages
from torchair.runtime.huge_pages import HUGE_PAGE, ask_for_huge_pages, blocks_of, can_ask

_KERNEL = tuple(int(part) for part in re.findall(r"\d+", platform.release())[:2])

needs_collapse = pytest.mark.skipif(
    not sys.platform.startswith("linux") or _KERNEL < (6, 1) or not can_ask(),
    reason="MADV_COLLAPSE needs Linux 6.1 with huge pages",
)


def huge_bytes(tensor: torch.Tensor) -> int:
    """How much of the mapping that holds a tensor is in huge pages."""
    here = False
    for line in Path("/proc/self/smaps").read_text(encoding="utf-8").splitlines():
        if (found := re.match(r"([0-9a-f]+)-([0-9a-f]+) ", line)) is not None:
            here = int(found[1], 16) <= tensor.data_ptr() < int(found[2], 16)
        elif here and line.startswith("AnonHugePages:"):
            return int(line.split()[1]) << 10
    return 0


@st.composite
def disjoint(draw):
    edges = sorted(draw(st.sets(st.integers(0, 6 * HUGE_PAGE), min_size=2, max_size=12)))
    return list(zip(edges[::2], edges[1::2], strict=False))


@given(disjoint())
def test_blocks_are_those_that_are_half_in_use(memory):
    quarter = HUGE_PAGE // 4
    expected = []
    for block in range(7):
        first, end = block * HUGE_PAGE, (block + 1) * HUGE_PAGE
        used = sum(max(0, min(b, end) - max(a, first)) for a, b in memory)
        if used >= 2 * quarter:
            expected.append(block)
    assert blocks_of(memory) == expected


def test_ranges_end_with_their_mapping():
    mappings = [(0, 6 * HUGE_PAGE), (6 * HUGE_PAGE, 10 * HUGE_PAGE + 5), (11 * HUGE_PAGE, 13 * HUGE_PAGE)]

    def ranges(mappings, blocks):
        return list(huge_pages._consecutive(huge_pages._placed(mappings, blocks)))

    assert ranges(mappings, [3, 4, 5, 6, 9, 10, 11, 12, 13]) == [(3, 6), (6, 7), (9, 10), (11, 13)]
    assert ranges(mappings, []) == ranges([], [1, 2]) == []
    # The time is looked at in between.
    assert ranges([(0, 100 * HUGE_PAGE)], range(1, 80)) == [(1, 33), (33, 65), (65, 80)]


@needs_collapse
def test_many_weights_take_no_longer_than_allowed(monkeypatch):
    monkeypatch.setattr(huge_pages, "_MOST_SECONDS", 0.0)
    weight = torch.ones(80 * HUGE_PAGE, dtype=torch.uint8)
    assert 0 < ask_for_huge_pages([weight]) <= huge_pages._AT_ONCE * HUGE_PAGE


@needs_collapse
def test_linux_moves_them():
    weight = torch.arange(6 * HUGE_PAGE, dtype=torch.float32)  # so large that the C library asks Linux for new memory
    expected, address, before = weight.clone(), weight.data_ptr(), huge_bytes(weight)
    assert ask_for_huge_pages([weight, weight[5:], weight.view(2, -1)]) >= 22 * HUGE_PAGE
    assert huge_bytes(weight) - before >= 22 * HUGE_PAGE
    assert weight.data_ptr() == address
    assert torch.equal(weight, expected)


@needs_collapse
@pytest.mark.parametrize("backend", ["torchair", "npugraph_ex"])
def test_weights_of_compiled_models(backend):
    model = torch.nn.Linear(1024, 12288, bias=False)
    x = torch.randn(1, 1024)
    expected, before = model(x), huge_bytes(model.weight)
    compiled = torch.compile(model, backend=backend)
    with torch.no_grad():
        torch.testing.assert_close(compiled(x), expected)
        assert huge_bytes(model.weight) - before >= 22 * HUGE_PAGE
        model.weight.mul_(2)
        torch.testing.assert_close(compiled(x), 2 * expected)


@needs_collapse
def test_not_where_the_user_says_no(monkeypatch):
    monkeypatch.setenv("TORCHAIR_HUGE_PAGES", "0")
    weight = torch.ones(4 * HUGE_PAGE)
    before = huge_bytes(weight)
    assert ask_for_huge_pages([weight]) == 0
    assert huge_bytes(weight) == before


@pytest.mark.parametrize("setting, wants", [("always madvise [never]", False), ("always [madvise] never", True)])
def test_not_where_the_machine_says_never(tmp_path, monkeypatch, setting, wants):
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(huge_pages, "_SETTING", tmp_path / "enabled")
    assert not can_ask()  # a kernel that has no such file
    (tmp_path / "enabled").write_text(setting + "\n", encoding="ascii")
    assert can_ask() is wants


@needs_collapse
def test_memory_that_nobody_touched_stays_unmapped():
    """A cache that is larger than what is used of it."""
    cache = torch.empty(64 * HUGE_PAGE, dtype=torch.uint8)
    cache[:: HUGE_PAGE // 4] = 1
    cache[: 8 * HUGE_PAGE] = 2
    before = huge_bytes(cache)
    ask_for_huge_pages([cache])
    assert huge_bytes(cache) - before <= 8 * HUGE_PAGE
    assert int(cache[::HUGE_PAGE].sum()) == 64 + 8


_FORKS = """
import os, torch, torchair
from pathlib import Path
from torchair.runtime.huge_pages import HUGE_PAGE, ask_for_huge_pages
weight = torch.ones(16 * HUGE_PAGE, dtype=torch.uint8)
if (child := os.fork()) == 0:
    os._exit(ask_for_huge_pages([weight]) // HUGE_PAGE)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), ask_for_huge_pages([weight]) // HUGE_PAGE >= 14)
"""


@needs_collapse
def test_what_a_parent_shares_stays_shared():
    ended = subprocess.run([sys.executable, "-c", _FORKS], capture_output=True, text=True, check=True)
    assert ended.stdout.split() == ["0", "True"]


@needs_collapse
def test_memory_that_cannot_be_moved_stays(tmp_path):
    (tmp_path / "weights").write_bytes(bytes(4 * HUGE_PAGE))
    mapped = torch.from_file(str(tmp_path / "weights"), shared=False, size=HUGE_PAGE, dtype=torch.float32)
    sparse, empty, fake = torch.eye(3).to_sparse(), torch.empty(0), torch.empty(8 * HUGE_PAGE, device="meta")
    assert ask_for_huge_pages([mapped, sparse, empty, fake]) == 0
    assert not mapped.any()


def test_once_a_graph(monkeypatch):
    asked = []
    monkeypatch.setattr("torchair.capture.life_cycle.ask_for_huge_pages", lambda tensors: asked.append(list(tensors)))
    model = torch.nn.Linear(8, 4)
    compiled = torch.compile(model, backend="torchair", dynamic=True)
    with torch.no_grad():
        for batch in (2, 3, 5):
            compiled(torch.randn(batch, 8))
    assert len(asked) == 1
    assert {t.data_ptr() for t in asked[0]} == {model.weight.data_ptr(), model.bias.data_ptr()}
