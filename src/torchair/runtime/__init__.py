"""What runs compiled graphs, below engines and capture."""
