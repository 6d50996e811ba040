"""Upstream's path ``torchair.configs``; see :mod:`torchair.configs.compiler_config`."""
