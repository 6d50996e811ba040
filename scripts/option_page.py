"""Write ``docs/options.md`` from the classes of ``torchair.config``.

Usage: ``python -m scripts.option_page``. ``tests/config/test_option_page.py`` checks that the page is current.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

from torchair.config import CompilerConfig, NpuGraphExConfig
from torchair.config.npugraph_ex_config import OLD_SPELLING, OPPOSITES
from torchair.config.option import Option, OptionGroup, Scope
from torchair.config.rules import INT64_MAX, EngineName
from torchair.config.without_effect import NEEDS_DEVICE, WITHOUT_EFFECT

PAGE = Path(__file__).parents[1] / "docs" / "options.md"

_HEAD = """# Options

Every option with what it takes. A value is checked when it is assigned, and a misspelt name is refused: the error names
the option and what is allowed. Texts that are read later (`optimization_switch`, `aicore_num`, `dump_step`, names of
disabled passes) are checked when a backend is made or a graph is compiled.

The modes: *GE* compiles to an Ascend IR graph ({doc}`ge-mode`), *capture* records and replays. A backend warns about
options that were changed and that its mode ignores. An option marked *process* has one value for the whole process: a
graph that asks for another one than the first graph is refused (TA105). "Ours" marks additions to upstream's options.

An option marked † has **no effect in this version**: it is checked and kept, and nothing else; assigning one is logged
at INFO. One marked ‡ has none on a CPU: it acts on a device, and all but `capture_error_mode` with `device_semantics`.

## `torchair.CompilerConfig`

```python
config = torchair.CompilerConfig()
config.debug.run_eagerly = True
model = torch.compile(model, backend=torchair.get_npu_backend(compiler_config=config))
```

"""

_CAPTURE = """## `npugraph_ex.CompilerConfig`

These names are also the keys of `options=` where a function takes them as a dictionary. The last column is the same
option on `torchair.CompilerConfig`.

"""

_ENVIRONMENT = """## Environment variables

Read when they are needed, most of them at the first compile. One marked † has no effect in this version.

| variable | what it does |
| --- | --- |
| `TORCHAIR_CACHE_HOME` | The cache folder, itself: see below. |
| `CXX` | The C++ compiler (`ccache clang++`); unset: the first of `c++`, `g++`, `clang++` that runs. |
| `MAX_JOBS` | Compilers that `torchair op build` runs at a time. |
| `TORCHAIR_PLATFORM_CONFIG` | INI file that says how many cores there are, see {doc}`native-engine`. |
| `TORCHAIR_SINGLE_LANE` | `1`: plans of several streams run in one thread, in program order. |
| `TORCHAIR_HUGE_PAGES` | `0`: weights are not put into huge pages, see {doc}`native-engine`. |
| `TORCH_COMPILE_DEBUG` | `1`: the loggers `torchair` and `npugraph_ex` begin at DEBUG, not at ERROR. |
| `TNG_LOG_LEVEL` † | Level of the lines below Python: `0` (DEBUG) to `4` (EVENT). |
| `LOCAL_WORLD_SIZE` † | Processes on this node. |
| `ENABLE_DYNAMIC_SHAPE_MULTI_STREAM` † | `1`: dynamic graphs use several streams. |
| `HCCL_OP_EXPANSION_MODE` † | Where collectives run. |
| `DUMP_GE_GRAPH` † | Dump of the engine's graph: `1`, `2` or `3`. |
| `BREAK_GRAPH_OP_LIST` † | Python operations that break the graph. |

The cache folder is `~/.cache/torchair` on Linux (in `$XDG_CACHE_HOME`, where that is set), `~/Library/Caches/torchair`
on macOS, and `torchair-<user number>` in the folder for temporary files where that cannot be written into. No other
user may write into it. It may be deleted while nothing runs, and is filled again.

| folder | what is in it |
| --- | --- |
| `libraries/<name>-<key>` | Compiled libraries: the runtime, native functions (`kernels_*`), parts of projects. |
| `native` | The C++ sources of native functions, `kernels_*.cpp`. |
| `projects` | Locks of operator projects. |
"""

_MODES = {frozenset({"ge"}): "GE", frozenset({"capture"}): "capture", frozenset({"ge", "capture"}): "both"}


def page() -> str:
    """The page as it should be."""
    # The engines of other packages that happen to be installed are no part of it.
    with mock.patch.object(EngineName, "choices", lambda rule: [*rule.BUILT_IN]):
        groups = [section for group in _groups(CompilerConfig()) for section in _section(group)]
        capture = _table(("option", "allowed", "default", "what it does", "on `CompilerConfig`"), _capture_rows())
    return _HEAD + "".join(groups) + _CAPTURE + capture + "\n" + _ENVIRONMENT


def _groups(group: OptionGroup) -> Iterator[OptionGroup]:
    """A group, and the groups in it, in the order of declaration."""
    yield group
    for name in group.names():
        if isinstance(item := getattr(group, name), OptionGroup):
            yield from _groups(item)


def _section(group: OptionGroup) -> Iterator[str]:
    if not (options := [o for o in (getattr(group, name) for name in group.names()) if isinstance(o, Option)]):
        return
    if not isinstance(group, CompilerConfig):
        summary = (inspect.getdoc(group) or "").partition("\n")[0].replace("``", "`")
        yield f"### `{group.group_path}`\n\n{summary}\n\n"
    rows: list[Sequence[str]] = [
        (f"`{o.path}`{_mark(o)}", _allowed(o), _code(o.default), _modes(o), _doc(o)) for o in options
    ]
    yield _table(("option", "allowed", "default", "mode", "what it does"), rows) + "\n"


def _capture_rows() -> list[Sequence[str]]:
    rows: list[Sequence[str]] = []
    for option in NpuGraphExConfig().walk():
        name = option.path.partition(".")[2]
        there = f"`config.{OLD_SPELLING[name]}`" if name in OLD_SPELLING else ""
        opposite = ", the opposite" if name in OPPOSITES else ""
        rows.append(
            (f"`{name}`{_mark(option)}", _allowed(option), _code(option.default), _doc(option), there + opposite)
        )
    return rows


def _mark(option: Option[Any]) -> str:
    return " †" if option.path in WITHOUT_EFFECT else " ‡" if option.path in NEEDS_DEVICE else ""


def _allowed(option: Option[Any]) -> str:
    return option.spec.rule.accepted().replace(f", {INT64_MAX}]", ", 2^63 - 1]")


def _code(value: Any) -> str:
    return f"`{value!r}`"


def _modes(option: Option[Any]) -> str:
    return _MODES[option.spec.modes] + (", process" if option.spec.scope is Scope.PROCESS else "")


def _doc(option: Option[Any]) -> str:
    return option.spec.doc + "".join(f" `{value!r}` is deprecated: {why}." for value, why in option.spec.deprecated)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(PAGE)
