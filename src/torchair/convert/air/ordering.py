"""``npu_wait_tensor`` as an ``Identity`` with a control edge (specification, F-73)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import fx

from torchair.ir import Value
from torchair.opset.memory import Identity

if TYPE_CHECKING:
    from torchair.convert.driver import Driver

__all__ = ["convert_wait", "is_wait"]

_WAIT = ("air.wait_tensor.default", "npugraph_ex.wait_tensor.default")


def is_wait(node: fx.Node) -> bool:
    """True for the call of ``npu_wait_tensor``."""
    return str(node.target) in _WAIT


def convert_wait(driver: Driver, node: fx.Node) -> Value:
    """Make every later use of the tensor wait for the producer of ``dependency``, whether through the result or not."""
    waiting, dependency = node.args[:2]
    value, awaited = driver.lower_args(waiting), driver.lower_args(dependency)
    result: Value = Identity(value, dependencies=[awaited])
    if isinstance(waiting, fx.Node):
        driver.env[waiting] = result
    return result
