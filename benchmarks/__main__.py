"""Command line of the benchmarks: ``python -m benchmarks [case ...]``; ``docs/benchmarks.md`` explains the output."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import torch

from benchmarks.cases import CASES, GOALS
from benchmarks.floor import MachineFloor
from benchmarks.harness import measure, warm_up
from benchmarks.lanes import lanes
from benchmarks.machine import describe
from benchmarks.results import Report, to_json, to_markdown
from benchmarks.start import LAYERS, Caches, compile_scaling, start_once, with_starts
from benchmarks.tables import SIZES, TABLES, capture_scaling, launch_cost
from benchmarks.timing import Timing
from benchmarks.variants import DEFAULTS, VARIANTS

__all__ = ["main"]

#: Variants of the table of compile times.
SCALED = ("inductor", "ge-native", "ge-inductor")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what was asked for.

    Returns:
        1 if a variant computed something wrong or raised, else 0. What is not available here is no failure.
    """
    given = _parser().parse_args(arguments)
    if given.list:
        print(_listing())
        return 0
    if given.threads:
        torch.set_num_threads(given.threads)
    device = torch.device(given.device)
    if device.type == "cuda" and not torch.cuda.is_available():
        print("there is no CUDA device", file=sys.stderr)
        return 2
    report = _run(given, device)
    text = to_markdown(report)
    print(text, end="")
    if given.markdown:
        given.markdown.write_text(text)
    if given.json:
        given.json.write_text(to_json(report))
    return 1 if report.failed else 0


def _run(given: argparse.Namespace, device: torch.device) -> Report:
    names = given.what or [*CASES, *TABLES]
    variants = [VARIANTS[name] for name in given.variants or DEFAULTS[device.type]]
    rounds = given.rounds or (7 if given.quick else 60)
    timing = Timing(rounds, 0.001 if given.quick else 0.005, limit_seconds=5 if given.quick else 30)
    if device.type == "cuda":
        timing = replace(timing, synchronize=torch.cuda.synchronize)
    machine = describe(device)
    floor = MachineFloor() if device.type == "cpu" else None
    if floor is not None:
        machine.update(floor.describe())
    warm_up(variants, device)
    cases = tuple(
        result for name in names if name in CASES for result in measure(CASES[name], variants, device, timing, floor)
    )
    tables = []
    if "launch_cost" in names:
        tables.append(launch_cost(variants, device, timing))
    if "capture_scaling" in names:
        sizes, repeats = (SIZES[:2], 1) if given.quick else (SIZES, 3)
        tables.append(capture_scaling(sizes, device, timing, repeats=repeats))
    if "lanes" in names and device.type == "cpu":
        tables.append(lanes(timing))
    with Caches.temporary(given.threads) as caches:
        if given.start:
            cases = tuple(with_starts(cases, variants, caches))
        if "compile_scaling" in names and device.type == "cpu":
            scaled = [variant for variant in variants if variant.name in SCALED]
            tables.append(compile_scaling(scaled, caches, LAYERS[:2] if given.quick else LAYERS))
        if given.start:
            tables.append(start_once(caches))
    measured = {(case.case, row.variant) for case in cases for row in case.rows}
    goals = tuple(goal for goal in GOALS if device.type == "cpu" and (goal.case, goal.variant) in measured)
    settings = {"device": device.type, "rounds": rounds, "block_ms": 1e3 * timing.block_seconds}
    return Report(machine, settings, cases, tuple(tables), goals)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Time variants of a workload interleaved in one process, after comparing each with eager.",
    )
    parser.add_argument(
        "what", nargs="*", metavar="case", type=_one_of([*CASES, *TABLES]), help="cases and tables; all without any"
    )
    parser.add_argument(
        "--variants", type=_several_of(VARIANTS), metavar="A,B", help="instead of the device's usual ones"
    )
    parser.add_argument("--rounds", type=_positive, metavar="N", help="blocks a variant (60, 7 with --quick)")
    parser.add_argument("--quick", action="store_true", help="short and imprecise: shows that everything runs")
    parser.add_argument(
        "--start", action="store_true", help="start each variant in fresh processes, too, cold and warm: slow"
    )
    parser.add_argument("--device", choices=sorted(DEFAULTS), default="cpu")
    parser.add_argument(
        "--threads", type=_positive, metavar="N", help="torch.set_num_threads; torch's own choice without"
    )
    parser.add_argument("--json", type=_file, metavar="FILE", help="write the results, with every round, as JSON")
    parser.add_argument("--markdown", type=_file, metavar="FILE", help="write what is printed to a file too")
    parser.add_argument("--list", action="store_true", help="show cases, tables and variants")
    return parser


def _one_of(allowed: Iterable[str]) -> Callable[[str], str]:
    names = list(allowed)

    def convert(text: str) -> str:
        if text not in names:
            raise argparse.ArgumentTypeError(f"{text!r} is none of {', '.join(names)}")
        return text

    return convert


def _several_of(allowed: Iterable[str]) -> Callable[[str], list[str]]:
    names = list(allowed)

    def convert(text: str) -> list[str]:
        if unknown := [name for name in text.split(",") if name not in names]:
            raise argparse.ArgumentTypeError(f"{', '.join(map(repr, unknown))}: none of {', '.join(names)}")
        return list(dict.fromkeys(text.split(",")))

    return convert


def _file(text: str) -> Path:
    """Refused before anything is timed: results that cannot be written are lost minutes later."""
    path = Path(text)
    if path.is_dir() or not path.parent.is_dir():
        raise argparse.ArgumentTypeError(f"{text!r} is no file in a folder that exists")
    return path


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no positive number")
    return int(text)


def _listing() -> str:
    lines = ["cases:", *(f"  {case.name:18}{case.what}" for case in CASES.values())]
    lines += ["tables:", *(f"  {name:18}{what}" for name, what in TABLES.items())]
    lines += ["variants, and the devices where they run without being asked for:"]
    width = max(map(len, VARIANTS)) + 2
    for variant in VARIANTS.values():
        usual = ", ".join(device for device, names in DEFAULTS.items() if variant.name in names)
        lines.append(f"  {variant.name:{width}}{variant.what}" + (f" ({usual})" if usual else ""))
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
