"""Memory that runs out at any operation of a search: the answer is the same as with memory enough."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode


class FullAt(TorchDispatchMode):
    """Raises at the n-th operation of torch, and at every `again`-th after it."""

    def __init__(self, at: int, again: int | None = None) -> None:
        super().__init__()
        self.at, self.again, self.count = at, again, 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if any(returned.alias_info is not None for returned in func._schema.returns):  # a view, or in place
            return func(*args, **(kwargs or {}))
        self.count += 1
        past = self.count - self.at
        if past == 0 or (self.again is not None and past > 0 and past % self.again == 0):
            raise torch.OutOfMemoryError("a full device")
        return func(*args, **(kwargs or {}))
