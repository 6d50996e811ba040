"""Graphs of ATen operators to C++: fused loops in programs that run on threads without Python. Knows no IR."""
