"""Upstream's path ``torchair.core``; see :mod:`torchair.core.utils`."""
