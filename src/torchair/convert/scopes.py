"""Scope markers in the FX graph: which attributes the nodes between enter and exit get (specification, F-71)."""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import fx

from torchair.frontend.scope_pairs import check_limit

__all__ = ["ScopeStack"]

_ENTER = ("air::scope_enter", "npugraph_ex::scope_enter")
_EXIT = ("air::scope_exit", "npugraph_ex::scope_exit")
_SUPER_KERNEL = ("_super_kernel_scope", "_super_kernel_options")


@dataclass(slots=True)
class ScopeStack:
    """The scopes that are open at this point of the walk; an inner scope overrides an equal key."""

    _stack: list[dict[str, str | bool]] = field(default_factory=list)

    @property
    def attributes(self) -> dict[str, str | bool]:
        """What a node made now gets. A super-kernel scope with an empty name takes its nodes out of the outer one."""
        merged: dict[str, str | bool] = {}
        for attributes in self._stack:
            merged.update(attributes)
        if merged.get("_super_kernel_scope") == "":
            for key in _SUPER_KERNEL:
                merged.pop(key, None)
        return merged

    def handle(self, node: fx.Node) -> bool:
        """Open or close a scope; False when the node is something else.

        Raises:
            ArgumentError: A scope limits cores to a number that this machine does not have.
        """
        name = getattr(node.target, "name", None)
        qualified = name() if callable(name) else ""
        if qualified in _ENTER:
            keys, values = node.args[:2]
            opened = {str(k): _attribute(str(k), str(v)) for k, v in zip(keys, values, strict=True)}  # type: ignore[arg-type]
            check_limit(node, opened)
            self._stack.append(opened)
            return True
        if qualified in _EXIT:
            self._stack.pop()
            return True
        return False


def _attribute(key: str, value: str) -> str | bool:
    return value == "True" if key in ("_enable_inner_parallel", "_op_exec_never_timeout") else value
