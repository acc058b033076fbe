"""Nodes whose inputs are all constants, computed when the file is read."""
