"""Branching by a graph network: what it sees, what it is, and how it is followed."""
