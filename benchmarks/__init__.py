"""Benchmarks: variants of a workload timed interleaved in one process. Run: ``python -m benchmarks --help``."""
