"""Run PyTorch's operator database through GE mode and write ``docs/conformance.md``.

Usage: ``python -m scripts.conformance_report [--samples 20] [--jobs 2]``.
"""

from __future__ import annotations

import argparse
import logging
import multiprocessing
import warnings
from collections import Counter
from pathlib import Path

import torch
from tests.conformance.op_db import ENTRIES, Outcome, dtypes_of, run_entry

PAGE = Path(__file__).parents[1] / "docs" / "conformance.md"


def _run(job: tuple[str, int, int]) -> tuple[str, str, Outcome]:
    name, which, samples = job
    op = ENTRIES[name]
    dtype = dtypes_of(op)[which]
    return name, str(dtype).removeprefix("torch."), run_entry(op, dtype, max_samples=samples)


def _prepare() -> None:
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    logging.disable(logging.ERROR)


def main() -> None:
    """Run and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=20, help="sample inputs for each entry and dtype")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    args = parser.parse_args()
    jobs = [(name, i, args.samples) for name, op in sorted(ENTRIES.items()) for i in range(len(dtypes_of(op)))]
    with multiprocessing.get_context("spawn").Pool(args.jobs, _prepare) as pool:
        results = list(pool.imap(_run, jobs, chunksize=8))
    PAGE.write_text(_page(results, args.samples))
    print(PAGE)


def _page(results: list[tuple[str, str, Outcome]], samples: int) -> str:
    status = Counter(outcome.status for _, _, outcome in results)
    compared = sum(outcome.samples for _, _, outcome in results)
    ours = status["pass"] + status["fail"]
    share = 100 * status["pass"] / max(ours, 1)
    lines = [
        "# Conformance",
        "",
        "PyTorch's operator database (`op_db`) through GE mode with the reference engine, against eager: values,",
        "dtypes, strides, and the contents of the inputs afterwards. From `python -m scripts.conformance_report`.",
        "",
        f"* torch {torch.__version__}; {len(ENTRIES)} entries; up to {samples} samples of up to two dtypes each:",
        f"  {compared} comparisons.",
        f"* **{status['pass']} of {ours}** pairs of entry and dtype agree with eager ({share:.1f} %).",
        f"* Not counted: {status['eager fails']} that fail in eager mode here, {status['aot_eager fails']} that differ",
        f"  from eager with PyTorch's own `aot_eager` too, {status['no samples']} without samples.",
        "",
    ]
    rows = [(n, d, o) for n, d, o in results if o.status not in ("pass", "no samples", "eager fails")]
    if rows:
        lines += ["| entry | dtype | status | what differs |", "|---|---|---|---|"]
        lines += [f"| `{n}` | {d} | {o.status} | {_cell(o.reason)} |" for n, d, o in rows]
        lines.append("")
    return "\n".join(lines)


def _cell(reason: str) -> str:
    return reason.replace("|", "/").replace("\n", " ")[:160]


if __name__ == "__main__":
    main()
