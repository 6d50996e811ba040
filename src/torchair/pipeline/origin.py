"""Which call of ``torch.compile`` a graph comes from."""

from __future__ import annotations

import types
import weakref
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
        function: Its name.
        reason: The guards that failed when it was compiled before; empty the first time.
    """

    backend: weakref.ref[Any] | None
    code: weakref.ref[types.CodeType] | None
    function: str
    reason: str

    @classmethod
    def now(cls) -> Origin:
        """That of the compilation in progress."""
        code, backend = _torch_compat.current_code(), _torch_compat.current_backend()
        return cls(
            None if backend is None else weakref.ref(backend),
            None if code is None else weakref.ref(code),
            "" if code is None else code.co_name,
            _torch_compat.recompile_reason(),
        )

    def belongs_to(self, backend: Any, code: types.CodeType | None) -> bool:
        """Whether the graph runs when a compiled function is called.

        Args:
            backend: What stands for the call of ``torch.compile`` that made that function.
            code: The function inside. Dynamo lets equal calls of ``torch.compile`` for one function share what was
                compiled.
        """
        mine = None if self.backend is None else self.backend()
        if mine is None:
            return False
        same_code = code is not None and self.code is not None and self.code() is code
        return mine is backend or (same_code and bool(mine == backend))
