"""A device whose memory runs out where a test says."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode


class Device(TorchDispatchMode):
    """A device that is full at its n-th operation and so many after it, and for tensors of more than `most` bytes."""

    def __init__(self, at: int = 0, most: float = math.inf, length: int = 1) -> None:
        super().__init__()
        self.at, self.length, self.most, self.count, self.largest = at, length, most, 0, 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        if any(returned.alias_info is not None for returned in func._schema.returns):  # a view, or in place
            return made
        several = made if isinstance(made, list | tuple) else [made]
        tensors = [t for t in several if isinstance(t, torch.Tensor)]
        if not tensors:  # a number that is read
            return made
        self.count += 1
        size = max(t.numel() * t.element_size() for t in tensors)
        self.largest = max(self.largest, size)
        if self.at <= self.count < self.at + self.length or size > self.most:
            raise torch.OutOfMemoryError("a full device")
        return made
