"""Converters of steps."""
