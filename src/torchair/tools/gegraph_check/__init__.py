"""Tools for traces of task lists (specification, F-119)."""
