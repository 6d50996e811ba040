"""Operators that TorchAir adds to PyTorch's dispatcher, in the namespace ``air``; a module registers its own."""
