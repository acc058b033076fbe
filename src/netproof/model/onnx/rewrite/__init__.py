"""Rewriting of a graph that was read, which changes no number: what can be left out, joined or merged."""
