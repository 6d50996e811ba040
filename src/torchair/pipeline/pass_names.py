"""The names that the option ``disabled_passes`` may have: those of all passes, whatever they work on."""

from __future__ import annotations

import difflib

from torchair.config import CompilerConfig, NpuGraphExConfig
from torchair.errors import ConfigValueError
from torchair.frontend import FX_PASS_NAMES
from torchair.passes import default_passes
from torchair.pipeline.capture_mode import REINPLACE

__all__ = ["check_disabled_passes", "known_pass_names"]

#: Names of the passes over the FX graph.
_FX_PASSES = (*FX_PASS_NAMES, REINPLACE)


def known_pass_names() -> tuple[str, ...]:
    """Names of passes over FX graphs and over Ascend IR graphs, each in the order in which they run, none twice.

    ``reinplace`` is one of both: the mode decides which it means.
    """
    return tuple(dict.fromkeys((*_FX_PASSES, *(p.name for p in default_passes()))))


def check_disabled_passes(config: CompilerConfig | NpuGraphExConfig) -> None:
    """Refuse names of passes that do not exist: to disable one has no effect, which would pass unnoticed.

    Assignment cannot check them, since the configuration knows no passes. Backends do so when they are made, and again
    when they compile.

    Raises:
        ConfigValueError: Names all that are unknown.
    """
    option = config.disabled_passes if isinstance(config, NpuGraphExConfig) else config.debug.disabled_passes
    known = known_pass_names()
    unknown = [name for name in option.raw if name not in known]
    if not unknown:
        return
    close = [difflib.get_close_matches(name, known, n=1) for name in unknown]
    raise ConfigValueError(
        "There is no pass of that name",
        why=[
            f"{option.path} = {option.raw!r}",
            *(f"{name!r} is none" for name in unknown),
            f"passes: {', '.join(known)}",
        ],
        fix="\n".join(f"did you mean {match[0]!r}?" for match in close if match),
    )
