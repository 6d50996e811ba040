"""Which call of ``torch.compile`` a graph comes from."""

from __future__ import annotations

import re
import types
import weakref
from collections.abc import Container
from dataclasses import dataclass
from typing import Any

from torchair import _torch_compat

__all__ = ["Origin"]


@dataclass(frozen=True, slots=True, eq=False)
class Origin:
    """One compilation by Dynamo.

    Attributes:
        backend: What stands for the call of ``torch.compile``; None outside one.
        code: The function that was compiled. References are weak: Dynamo keeps what it compiles with the code.
        frame: What Dynamo compiled of it: the function, or the rest of it behind a graph break.
        function: Its name.
        reason: The guard that failed, in one line, when it was compiled before; empty the first time.
    """

    backend: weakref.ref[Any] | None
    code: weakref.ref[types.CodeType] | None
    frame: weakref.ref[types.CodeType] | None
    function: str
    reason: str

    @classmethod
    def now(cls) -> Origin:
        """That of the compilation in progress."""
        code, backend = _torch_compat.current_code(), _torch_compat.current_backend()
        frame = _torch_compat.current_frame_code()
        return cls(
            None if backend is None else weakref.ref(backend),
            None if code is None else weakref.ref(code),
            None if frame is None else weakref.ref(frame),
            "" if code is None else code.co_name,
            short_reason(_torch_compat.recompile_reason()),
        )

    def belongs_to(self, backend: Any, codes: Container[types.CodeType]) -> bool:
        """Whether the graph runs when a compiled function is called.

        Args:
            backend: What stands for the call of ``torch.compile`` that made that function.
            codes: The functions inside. Dynamo lets equal calls of ``torch.compile`` for one function share what was
                compiled.
        """
        mine = None if self.backend is None else self.backend()
        if mine is None:
            return False
        code = None if self.code is None else self.code()
        return mine is backend or (code is not None and code in codes and bool(mine == backend))


def short_reason(text: str) -> str:
    """The guard that failed, in one line, without what Dynamo says to its developers.

    Args:
        text: Dynamo's words: the guard, the user's line, and in some versions the stack of the user's code.
    """
    # Dynamo checks the guards again to name the one that failed. When all hold by then, another thread has compiled.
    if found := _UNEXPLAINED.search(text):
        return text[: found.start()] + "several threads compiled at once"
    line = _ASIDES.sub("", text.strip().partition("\n")[0])
    return re.sub(r"\s+#", "  #", line).rstrip()


_UNEXPLAINED = re.compile(r"Unexpected recompilation: runtime guards failed even though they passed")
_ASIDES = re.compile(r"\s*\((?:user code shown is first use of this value|[\w./]+\.py:\d+ in ).*$")
