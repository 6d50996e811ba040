"""Upstream's path to the logger: ``from torchair.core.utils import logger, EVENT_LEVEL``."""

from __future__ import annotations

from torchair.logs import EVENT_LEVEL, logger

__all__ = ["EVENT_LEVEL", "logger"]
