"""Huge pages for the weights that plans read.

A weight of some megabytes lies in thousands of pages of 4 KiB, and each pass over it asks the page tables for them.
Linux can put the same bytes into pages of 2 MiB, at the same addresses; nothing else of the tensors changes. Measured
on two cores of a virtual machine, a decode step over 30 MB of weights takes 3 to 4 percent less time that way, and 15
to 18 percent less while the machine below moves its memory around.
"""

from __future__ import annotations

import bisect
import ctypes
import itertools
import mmap
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import torch

from torchair.config import Environment
from torchair.logs import get_logger

__all__ = ["HUGE_PAGE", "ask_for_huge_pages", "blocks_of", "can_ask"]

#: Bytes of a huge page, where pages have 4 KiB.
HUGE_PAGE = 2 << 20

#: ``MADV_COLLAPSE`` of Linux 6.1 and later, <linux/mman.h>; older ones answer that they do not know it.
_COLLAPSE = 25

#: A call goes on for about so many seconds, however many weights there are: some GB of a large model must not delay its
#: first answer.
_MOST_SECONDS = 1.0

#: Blocks that Linux is asked for at once: the time is looked at in between.
_AT_ONCE = 32

#: Pages of 4 KiB in a huge one.
_SMALL_PAGES = HUGE_PAGE // 4096

_PAGES = Path("/proc/self/pagemap")
_SETTING = Path("/sys/kernel/mm/transparent_hugepage/enabled")

_log = get_logger(__name__)


def ask_for_huge_pages(tensors: Iterable[torch.Tensor]) -> int:
    """Move the memory of tensors into huge pages, where Linux has some; values and addresses stay as they are.

    Takes 0.3 to 3 s a GB, the latter where a virtual machine has to get the memory first; ends after a second, and
    the rest stays where it is. So does what cannot be moved (mapped files, memory of other devices); and huge pages of
    which more than an eighth was never touched, since all of it would be there then; and what a forked process shares
    with its parent, of which it would get a copy of its own.

    Returns:
        Bytes that are in huge pages now, at least.
    """
    if not can_ask():
        return 0
    began = time.perf_counter()
    blocks = blocks_of(_memory(tensors))
    advise = ctypes.CDLL(None, use_errno=True).madvise
    advise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    moved, seconds = 0, 0.0
    for first, end in _consecutive(_whole(_placed(_anonymous_memory(), blocks))):
        if advise(first * HUGE_PAGE, (end - first) * HUGE_PAGE, _COLLAPSE) == 0:
            moved += (end - first) * HUGE_PAGE
        seconds = time.perf_counter() - began
        if seconds > _MOST_SECONDS:
            break
    if blocks:
        of = len(blocks) * HUGE_PAGE >> 20
        _log.debug("huge pages for %d of %d MB of weights, in %.0f ms", moved >> 20, of, 1000 * seconds)
    return moved


def can_ask() -> bool:
    """Whether this machine and its user want huge pages (``TORCHAIR_HUGE_PAGES=0``: no)."""
    if not sys.platform.startswith("linux") or not Environment.read().huge_pages or mmap.PAGESIZE != 4096:
        return False
    try:
        return "[never]" not in _SETTING.read_text(encoding="ascii")
    except OSError:  # a kernel without them
        return False


def blocks_of(memory: Iterable[tuple[int, int]]) -> list[int]:
    """The huge pages, as addresses divided by their size, that are at least half in use.

    Args:
        memory: First and last address (exclusive) of what is used; ranges do not overlap.

    Returns:
        In increasing order.
    """
    used: Counter[int] = Counter()
    for first, end in memory:
        for block in range(first // HUGE_PAGE, -(-end // HUGE_PAGE)):
            used[block] += min(end, (block + 1) * HUGE_PAGE) - max(first, block * HUGE_PAGE)
    return sorted(block for block, nbytes in used.items() if 2 * nbytes >= HUGE_PAGE)


def _memory(tensors: Iterable[torch.Tensor]) -> set[tuple[int, int]]:
    """Where the storages of tensors lie, each once."""
    found = set()
    for tensor in tensors:
        if type(tensor) in {torch.Tensor, torch.nn.Parameter} and tensor.device.type == "cpu":
            if tensor.layout != torch.strided:
                continue
            storage = tensor.untyped_storage()
            found.add((storage.data_ptr(), storage.data_ptr() + storage.nbytes()))
    return found


def _anonymous_memory() -> list[tuple[int, int]]:
    """First and last address (exclusive) of what this process has mapped without a file, in increasing order."""
    found: list[tuple[int, int]] = []
    for line in Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace").splitlines():
        addresses, permissions, _, _, inode, *_ = line.split()
        if inode == "0" and permissions.startswith("rw"):
            first, end = (int(address, 16) for address in addresses.split("-"))
            found.append((first, end))
    return found


def _placed(mappings: Sequence[tuple[int, int]], blocks: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Each block with the number of the mapping that it lies in; one that lies in two is left out."""
    for block in blocks:
        place = bisect.bisect_right(mappings, (block * HUGE_PAGE, sys.maxsize)) - 1
        if place >= 0 and (block + 1) * HUGE_PAGE <= mappings[place][1]:
            yield block, place


def _consecutive(placed: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Ranges (begin, end) of blocks that follow each other in one mapping, at most ``_AT_ONCE`` of them.

    Linux gives up at the first block that it refuses, and one call for many blocks is ten times faster than many calls.
    """
    for _, group in itertools.groupby(enumerate(placed), lambda item: (item[1][0] - item[0], item[1][1])):
        members = (block for _, (block, _) in group)
        while some := list(itertools.islice(members, _AT_ONCE)):
            yield some[0], some[-1] + 1


def _whole(placed: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Those blocks of which seven of eight pages are there, while no other process has any of them.

    Source: Documentation/admin-guide/mm/pagemap.rst of Linux, 8 bytes for each small page.
    """
    nbytes = 8 * _SMALL_PAGES
    try:
        with _PAGES.open("rb", buffering=0) as file:
            for block, place in placed:
                file.seek(block * nbytes)
                content = file.read(nbytes)
                if len(content) < nbytes:
                    return
                pages = torch.frombuffer(bytearray(content), dtype=torch.int64)
                there = pages < 0  # bit 63
                alone = (pages >> 56) & 1 == 1
                if int(there.sum()) * 8 >= 7 * _SMALL_PAGES and bool(alone[there].all()):
                    yield block, place
    except OSError:  # not every container has it
        return
