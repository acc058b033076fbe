"""Coefficients that are kept as the window of an image which a neuron reads, and its place."""
