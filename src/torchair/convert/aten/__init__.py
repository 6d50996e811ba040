"""Converters of PyTorch's own operators, one module a family."""
