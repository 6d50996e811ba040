"""Operators that TorchAir adds to PyTorch's dispatcher, in the namespace ``air``. Importing a module registers its own."""
