"""Parts of input sets in batches, whatever the parts are."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import fields
from functools import cache
from typing import Any, Self, TypeVar

import torch
from torch import Tensor


def in_slices(make: Callable[[slice], Tensor], count: int, size: int) -> Tensor:
    """Make a batch of `count`, `size` at a time, each part into its place: joining them would take twice the memory."""
    if count <= size:
        return make(slice(0, count))
    whole: Tensor | None = None
    for begin in range(0, count, size):
        part = slice(begin, begin + size)
        made = make(part)
        whole = made.new_empty(count, *made.shape[1:]) if whole is None else whole
        whole[part] = made
        del made  # before the next is made
    assert whole is not None
    return whole


def ranks(group: Tensor, counts: Tensor) -> Tensor:
    """Return which of its group each is, counted from 0 in their order: group (n,), of sizes counts (groups,)."""
    order = group.argsort(stable=True)
    found = torch.empty_like(group)
    found[order] = torch.arange(len(group), device=group.device) - (counts.cumsum(0) - counts)[group[order]]
    return found


class Batch:
    """Parts of input sets in a batch: a frozen dataclass of tensors, whose first axis is the part."""

    target: Tensor  # (part,) int64: what is asked on it
    bound: Tensor  # (part,) float64: what is proved of that
    level: Tensor  # (part,) int64: halvings that led here, so that it is the share 2^-level of the target's set

    def __len__(self) -> int:
        return self.target.shape[0]

    def tensors(self) -> list[Tensor]:
        """Return all that is known of the parts."""
        kind: Any = type(self)
        return [getattr(self, name) for name in _names(kind)]

    def map(self, fn: Callable[[Tensor], Tensor]) -> Self:
        """Return the same with every tensor changed."""
        return type(self)(*[fn(t) for t in self.tensors()])

    def select(self, index: Tensor | slice) -> Self:
        """Return the parts at `index` (positions, a mask or a range)."""
        return type(self)(*[t[index] for t in self.tensors()])

    def put(self, index: Tensor, some: Self) -> Self:
        """Return the same with those at `index` (n,) replaced."""
        pairs = zip(self.tensors(), some.tensors(), strict=True)
        return type(self)(*[old.index_copy(0, index, new) for old, new in pairs])

    @property
    def bytes_each(self) -> int:
        """Return what one part takes."""
        return sum(math.prod(t.shape[1:]) * t.element_size() for t in self.tensors())

    @property
    def bytes(self) -> int:
        """Return what all parts take."""
        return len(self) * self.bytes_each

    def coarser(self) -> Self:
        """Return the same in less memory: as it is, where there is no such form."""
        return self

    @property
    def urgency(self) -> Tensor:
        """Return (part,) which of parts with equal bounds goes first: that with the most; here they are all alike."""
        return torch.zeros_like(self.level)


@cache
def _names(kind: Any) -> tuple[str, ...]:
    """Return the names of a dataclass's fields; looked up once, as searches ask for them thousands of times."""
    return tuple(f.name for f in fields(kind))


P = TypeVar("P", bound=Batch)


def concatenate(parts: Sequence[P]) -> P:
    """Return all parts of several batches in one."""
    if len(parts) == 1:
        return parts[0]
    return type(parts[0])(*(torch.cat(each) for each in zip(*(p.tensors() for p in parts), strict=True)))
