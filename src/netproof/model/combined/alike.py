"""Ops that compute the same, number by number."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def are_equal(one: Any, other: Any) -> bool:
    """Say whether two ops compute the same of the same inputs; an op without declared parts is like no other."""
    if one is other:
        return True
    if type(one) is not type(other) or getattr(one, "radius", None) is not None:
        return False  # numbers with a radius stand for others near them, which may differ
    parts = [getattr(op, "__dataclass_fields__", None) for op in (one, other)]
    return parts[0] is not None and all(_equal(getattr(one, name), getattr(other, name)) for name in parts[0])


def _equal(a: Any, b: Any) -> bool:
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        return a.dtype == b.dtype and torch.equal(a, b)
    if isinstance(a, tuple) and isinstance(b, tuple) and len(a) == len(b):
        return all(_equal(x, y) for x, y in zip(a, b, strict=True))
    if hasattr(a, "__dataclass_fields__"):  # another op, or the kernel of a convolution
        return are_equal(a, b)
    return type(a) is type(b) and not isinstance(a, Tensor | tuple) and bool(a == b)
