"""What ``torch.compile`` passes on for another backend: ``mode=``, and ``options=`` with Inductor's names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torchair import _torch_compat
from torchair.config import NpuGraphExConfig
from torchair.config.rules import show
from torchair.errors import ConfigValueError, UnknownOptionError

__all__ = ["refuse_inductor_mode", "refuse_inductor_options"]

_CONFIGURE = """\
Options of GE mode are on a configuration:
    config = torchair.CompilerConfig()
    torch.compile(model, backend=torchair.get_npu_backend(compiler_config=config))
The backend "npugraph_ex" takes names of its own in options=, those of npugraph_ex.CompilerConfig."""


def refuse_inductor_options(options: Mapping[str, Any] | None) -> None:
    """Refuse ``options=`` that has options of PyTorch's own compiler, which has hundreds; our checks know them not.

    Names that nobody has are left to these.

    Raises:
        UnknownOptionError: Names all of Inductor's, and who takes them.
    """
    if not isinstance(options, Mapping):
        return
    unknown = [str(name) for name in options if name not in NpuGraphExConfig.names()]
    # torch.compile takes hyphens too.
    theirs = [name for name in unknown if name.replace("-", "_") in _torch_compat.inductor_option_names()]
    if not theirs:
        return
    others = [f"no backend has an option {name!r}" for name in unknown if name not in theirs]
    given = ", ".join(f"{name!r}: {show(options[name])}" for name in theirs)
    raise UnknownOptionError(
        'options= is for the backend "inductor"',
        why=[*(f"{name!r} is an option of Inductor" for name in theirs), *others],
        fix=(
            "Leave options= out, or compile with PyTorch's own compiler:\n"
            f'    torch.compile(model, backend="inductor", options={{{given}}})\n' + _CONFIGURE
        ),
    )


def refuse_inductor_mode(mode: str | None) -> None:
    """Refuse ``mode=`` of ``torch.compile``, which chooses among Inductor's settings.

    Raises:
        ConfigValueError: It is given.
    """
    if mode is None:
        return
    raise ConfigValueError(
        'mode= is for the backend "inductor"',
        why=f"mode = {mode!r} of torch.compile names settings of Inductor",
        fix=f"Leave mode= out. {_CONFIGURE}",
    )
