"""Capture and replay of FX graphs: recorded once into a plan (CPU) or a device graph, then run without Python.

Knows no Ascend IR.
"""

from torchair.capture.record import Recorder

__all__ = ["Recorder"]
