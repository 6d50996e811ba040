"""Operator projects: generated from a schema, built with the C++ compiler of this machine, installed, loaded."""
