"""Upstream's path ``torchair.tools``."""
