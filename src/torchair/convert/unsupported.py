"""Why core ATen overloads stay torch calls: what the support table says about those that have no Ascend IR form."""

from __future__ import annotations

__all__ = ["UNSUPPORTED"]

#: Overload -> reason, one sentence each. An overload with a converter is not listed.
UNSUPPORTED: dict[str, str] = {}
