"""Entries of the operator database that do not agree with eager, each with its reason. Checked: a row that agrees
fails."""

from __future__ import annotations

#: Entry name -> reason.
KNOWN_DIFFERENCES: dict[str, str] = {}
