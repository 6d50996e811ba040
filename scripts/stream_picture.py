"""Draw traces of streams, one below the other, as ``docs/streams.svg``.

Usage: ``python -m scripts.stream_picture TITLE=TRACE.json ...``; without arguments, ``examples/04_two_streams.py`` is
run in both modes first. Needs matplotlib, which ``pip install torchair[docs]`` brings.
"""

from __future__ import annotations

import argparse
import importlib.util
from collections.abc import Mapping, Sequence
from pathlib import Path

from torchair.trace import Task, Trace, read_trace

__all__ = ["draw", "rows"]

ROOT = Path(__file__).parents[1]
PICTURE = ROOT / "docs" / "streams.svg"

_COLORS = {"AI_CORE": "C0", "MIX_AIC": "C4", "COMMUNICATION": "C3", "AI_CPU": "0.6"}


def rows(trace: Trace) -> list[tuple[str, list[Task]]]:
    """The streams of a trace with what runs there, waits and records left out."""
    names = {}
    for event in trace.others:
        if event.get("name") == "thread_name":
            names[str(event.get("pid", 0)), str(event.get("tid"))] = str(event.get("args", {}).get("name", ""))
    found = sorted(trace.streams.items())
    return [(names.get(lane, lane[1]), [task for task in tasks if not task.event]) for lane, tasks in found]


def draw(traces: Mapping[str, Trace], file: Path) -> None:
    """Draw traces, by title, as SVG."""
    import matplotlib as mpl

    mpl.use("svg")
    from matplotlib import pyplot as plt
    from matplotlib.patches import Patch

    kinds: dict[str, str] = {}
    # The same file for the same numbers.
    with mpl.rc_context({"svg.hashsalt": "streams", "svg.fonttype": "none", "font.size": 9}):
        heights = [0.7 + 0.4 * len(trace.streams) for trace in traces.values()]
        figure, grid = plt.subplots(
            len(traces), squeeze=False, figsize=(8, 0.6 + sum(heights)), gridspec_kw={"height_ratios": heights}
        )
        for axes, (title, trace) in zip(grid[:, 0], traces.items(), strict=True):
            shown = rows(trace)
            places = {lane: place for place, (lane, _) in enumerate(sorted(trace.streams.items()))}
            for place, (_, tasks) in enumerate(shown):
                for task in tasks:
                    kinds[task.type] = _COLORS.get(task.type, "C2")
                    bar = [(task.start, max(task.duration, 0.1))]
                    axes.broken_barh(
                        bar, (place - 0.35, 0.7), facecolor=kinds[task.type], edgecolor="white", linewidth=0.4
                    )
            for start, end in _arrows(trace):
                axes.annotate(
                    "",
                    xy=(end[0], places[end[1]]),
                    xytext=(start[0], places[start[1]]),
                    arrowprops={"arrowstyle": "->", "linewidth": 0.8, "color": "black"},
                )
            axes.set_yticks(range(len(shown)), [name for name, _ in shown])
            axes.invert_yaxis()
            axes.set_xlim(left=0)
            axes.set_title(title, loc="left", fontsize=9)
        grid[-1, 0].set_xlabel("microseconds")
        names = {"AI_CORE": "products of matrices", "AI_VECTOR_CORE": "other operators and native programs"}
        handles = [Patch(facecolor=color, label=names.get(kind, kind)) for kind, color in sorted(kinds.items())]
        figure.legend(handles=handles, loc="lower center", ncols=4, frameon=False)
        figure.tight_layout(rect=(0, 0.06, 1, 1))
        figure.savefig(file, format="svg", bbox_inches="tight", metadata={"Date": None})
        plt.close(figure)
    # matplotlib leaves blanks at the ends of lines.
    file.write_text("\n".join(line.rstrip() for line in file.read_text().splitlines()) + "\n")


def _arrows(trace: Trace) -> list[tuple[tuple[float, tuple[str, str]], tuple[float, tuple[str, str]]]]:
    """From where to where the arrows of a trace lead: time and stream."""
    ends: dict[str, list[tuple[float, tuple[str, str]]]] = {}
    for arrow in trace.arrows:
        ends.setdefault(str(arrow["id"]), []).append((float(arrow["ts"]), (str(arrow["pid"]), str(arrow["tid"]))))
    return [(pair[0], pair[1]) for pair in ends.values() if len(pair) == 2]


def _example() -> dict[str, Trace]:
    path = ROOT / "examples" / "04_two_streams.py"
    spec = importlib.util.spec_from_file_location("two_streams", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return {mode: module.recorded(mode) for mode in module.MODES}


def main(arguments: Sequence[str] | None = None) -> None:
    """Draw the picture."""
    parser = argparse.ArgumentParser(prog="python -m scripts.stream_picture")
    parser.add_argument("traces", nargs="*", metavar="TITLE=TRACE.json")
    parser.add_argument("-o", "--output", type=Path, default=PICTURE)
    given = parser.parse_args(arguments)
    named = dict(text.split("=", 1) for text in given.traces)
    draw({title: read_trace(path) for title, path in named.items()} or _example(), given.output)
    print(given.output)


if __name__ == "__main__":
    main()
