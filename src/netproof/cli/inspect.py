"""`netproof inspect MODEL.onnx`."""

from __future__ import annotations


def inspect(model: str) -> int:
    """Show a network's operators."""
    return 0
