"""Write the results in ``docs/benchmarks.md``, and the plot beside it, from what ``python -m benchmarks --json`` wrote.

Usage: ``python -m scripts.benchmark_page [FILE [STARTS]]``. FILE becomes ``docs/benchmarks.json``, with the starts and
tables of STARTS, a run with ``--start`` of fewer cases; without FILE the page is written anew from what is there. The
plot needs matplotlib, which ``pip install torchair[docs]`` brings.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

__all__ = ["between", "plot", "section", "with_starts_of"]

DOCS = Path(__file__).parents[1] / "docs"
BEGIN = "<!-- results: written by python -m scripts.benchmark_page -->"
END = "<!-- end of results -->"

#: Those of ours in the overview and the plot, in this order.
OURS = ("ge-native", "npugraph_ex", "npugraph_ex-static")


def section(content: Mapping[str, Any]) -> str:
    """The part of the page that shows a run, as Markdown."""
    facts = {**content["machine"], **content["settings"]}
    parts = [
        "## Results",
        ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in facts.items()) + ".",
        "![Times faster than the best peer, by case](benchmarks.svg)",
        _table(("case", "best peer", "", "ours", "a call", "over best peer", "of the floor"), list(_overview(content))),
    ]
    if content["goals"]:
        rows = [_goal(goal) for goal in content["goals"]]
        head = ("case", "variant", "times faster than", "goal", "measured", "verdict")
        parts += ["### Goals", _table(head, rows)]
    for table in content["tables"]:
        columns = list(table["rows"][0]) if table["rows"] else []
        rows = [[_cell(row[name]) for name in columns] for row in table["rows"]]
        parts += [f"### {table['table']}", table["what"], _table(columns, rows)]
    for case in content["cases"]:
        parts += [f"### {case['case']}", _what(case), _table(_COLUMNS, [_row(row) for row in case["rows"]])]
    return "\n\n".join(parts) + "\n"


_COLUMNS = (
    "variant",
    "a call",
    "over eager",
    "over best peer",
    "of the floor",
    "first call s",
    "cold start s",
    "warm start s",
    "peak MB",
    "remark",
)


def _row(row: Mapping[str, Any]) -> list[str]:
    start = row.get("start")
    started = start if isinstance(start, dict) else {}
    remarks = [f"{row['status']}: {row['reason']}"] if row["status"] != "ok" else []
    remarks += [f"start: {start}"] if isinstance(start, str) else []
    return [
        row["variant"],
        _time(row["microseconds"]["median"]) if "microseconds" in row else "",
        _spread(row.get("over_eager")),
        _spread(row.get("over_best_peer")),
        _share(row),
        _number(row.get("compile_seconds"), 2),
        _number(started.get("cold_seconds"), 2),
        _number(started.get("warm_seconds"), 2),
        _number(started.get("peak_mb"), 0),
        "; ".join(remarks),
    ]


def _overview(content: Mapping[str, Any]) -> Iterator[list[str]]:
    for case in content["cases"]:
        rows = {row["variant"]: row for row in case["rows"] if "microseconds" in row}
        peer = case["best_peer"]
        for name in OURS:
            if name not in rows or peer is None:
                continue
            yield [
                f"`{case['case']}`",
                peer,
                _time(rows[peer]["microseconds"]["median"]),
                name,
                _time(rows[name]["microseconds"]["median"]),
                _spread(rows[name].get("over_best_peer")),
                _share(rows[name]),
            ]


def _what(case: Mapping[str, Any]) -> str:
    text = f"{case['what']}."
    if case.get("floor_microseconds"):
        text += f" {case['bytes'] / 1e6:.4g} MB and {case['operations'] / 1e6:.4g} million operations"
        text += f" take at least {_time(case['floor_microseconds'])}."
    return text[0].upper() + text[1:]


def _goal(goal: Mapping[str, Any]) -> list[str]:
    verdict = {None: "not measured", True: "met", False: "**missed**"}[goal["met"]]
    measured = _spread(goal["measured"])
    return [f"`{goal['case']}`", goal["variant"], goal["over"], f"{goal['at_least']:.2f}", measured, verdict]


def _time(microseconds: float) -> str:
    return f"{microseconds:.2f} us" if microseconds < 1e3 else f"{microseconds / 1e3:.3f} ms"


def _share(row: Mapping[str, Any]) -> str:
    return f"{row['share_of_floor']['median']:.0%}" if "share_of_floor" in row else ""


def _spread(spread: Mapping[str, float] | None) -> str:
    return "" if spread is None else f"{spread['median']:.2f} ({spread['q1']:.2f}-{spread['q3']:.2f})"


def _number(value: float | None, digits: int) -> str:
    return "" if value is None else f"{value:.{digits}f}"


def _cell(value: str | float | None) -> str:
    return "" if value is None else value if isinstance(value, str) else f"{value:.4g}"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def between(page: str, text: str) -> str:
    """The page with ``text`` between the two markers.

    Raises:
        ValueError: It does not have both, in that order.
    """
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"the page has no {BEGIN!r} with {END!r} after it")
    return f"{before}{BEGIN}\n\n{text}\n{END}{after}"


def plot(content: Mapping[str, Any], file: Path) -> None:
    """Draw how many times faster than the best peer ours are, with quartiles, as SVG."""
    import matplotlib as mpl

    mpl.use("svg")
    from matplotlib import pyplot as plt

    cases = [case for case in content["cases"] if case["best_peer"] is not None]
    drawn = ("eager", *OURS)
    # The same file for the same numbers.
    with mpl.rc_context({"svg.hashsalt": "benchmarks", "svg.fonttype": "none", "font.size": 9}):
        figure, axes = plt.subplots(figsize=(8, 1.2 + 0.5 * max(len(cases), 1)))
        height = 0.8 / len(drawn)
        for i, name in enumerate(drawn):
            found = [
                (place, row["over_best_peer"])
                for place, case in enumerate(cases)
                for row in case["rows"]
                if row["variant"] == name and "over_best_peer" in row
            ]
            if not found:
                continue
            medians = [spread["median"] for _, spread in found]
            errors = [
                [spread["median"] - spread["q1"] for _, spread in found],
                [spread["q3"] - spread["median"] for _, spread in found],
            ]
            color = "0.75" if name == "eager" else f"C{i - 1}"
            places = [place + (i - (len(drawn) - 1) / 2) * height for place, _ in found]
            axes.barh(places, medians, height, xerr=errors, color=color, label=name, error_kw={"linewidth": 0.7})
        axes.axvline(1, color="black", linewidth=0.8)
        axes.set_xscale("log")
        ticks = [0.25, 0.5, 1, 2, 4, 8]
        axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks], minor=False)
        axes.set_xticks([], minor=True)
        axes.set_yticks(range(len(cases)), [f"{case['case']} ({case['best_peer']})" for case in cases])
        axes.invert_yaxis()
        axes.set_xlabel("times faster than the best peer (its name in parentheses), with quartiles")
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.08), ncols=len(drawn), frameon=False)
        figure.savefig(file, format="svg", bbox_inches="tight", metadata={"Date": None})
        plt.close(figure)
    # matplotlib leaves blanks at the ends of lines.
    file.write_text("\n".join(line.rstrip() for line in file.read_text().splitlines()) + "\n")


def with_starts_of(content: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """A run, with the starts and the tables of another one."""
    rows = [(case["case"], row) for case in other["cases"] for row in case["rows"] if "start" in row]
    starts = {(case, row["variant"]): {"start": row["start"]} for case, row in rows}
    cases = [
        {**case, "rows": [{**row, **starts.get((case["case"], row["variant"]), {})} for row in case["rows"]]}
        for case in content["cases"]
    ]
    tables = {table["table"]: table for table in (*content["tables"], *other["tables"])}
    return {**content, "cases": cases, "tables": list(tables.values())}


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the three files."""
    parser = argparse.ArgumentParser(prog="python -m scripts.benchmark_page")
    parser.add_argument("file", nargs="?", type=Path)
    parser.add_argument("starts", nargs="?", type=Path)
    given = parser.parse_args(arguments)
    kept = DOCS / "benchmarks.json"
    content = json.loads((given.file or kept).read_text())
    if given.starts:
        content = with_starts_of(content, json.loads(given.starts.read_text()))
    page = DOCS / "benchmarks.md"
    page.write_text(between(page.read_text(), section(content)))
    plot(content, DOCS / "benchmarks.svg")
    if given.file:
        kept.write_text(json.dumps(content, indent=1, allow_nan=False) + "\n")
    print(page)


if __name__ == "__main__":
    main()
