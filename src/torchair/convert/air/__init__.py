"""Converters of our own operators, ``torch.ops.air``."""
