"""Bounds on boxes of the input, many at a time in float64."""
