"""The boxes that are not proved yet, as tensors on the device that grow in place."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Boxes:
    """A batch of boxes of the input set, each with the target that is open on it."""

    target: Tensor  # (box,) int64
    lower: Tensor  # (box, input) float64
    upper: Tensor  # (box, input) float64
    bound: Tensor  # (box,) float64: proved of the target's best row
    score: Tensor  # (box, input) float64: what splitting a coordinate is worth, per unit of its width
    signs: Tensor  # (box, N) int8: the neurons whose sign is known
    depth: Tensor  # (box,) int64

    def __len__(self) -> int:
        return self.target.shape[0]

    def map(self, fn: Callable[[Tensor], Tensor]) -> Boxes:
        return Boxes(**{f.name: fn(getattr(self, f.name)) for f in fields(self)})

    def select(self, index: Tensor) -> Boxes:
        """The boxes at `index` (positions or a mask)."""
        return self.map(lambda t: t[index])

    def part(self, start: int, count: int) -> Boxes:
        """At most `count` boxes from `start` on."""
        return self.map(lambda t: t[start : start + count])

    @property
    def bytes_each(self) -> int:
        tensors = [getattr(self, f.name) for f in fields(self)]
        return sum(t.element_size() * (t.numel() // max(1, len(t))) for t in tensors)


def concatenate(parts: Sequence[Boxes]) -> Boxes:
    if len(parts) == 1:
        return parts[0]
    return Boxes(**{f.name: torch.cat([getattr(p, f.name) for p in parts]) for f in fields(Boxes)})


class BoxFrontier:
    """Worst bound first. Room is doubled when it runs out; what is picked is replaced by boxes from the end."""

    def __init__(self, boxes: Boxes) -> None:
        self._room = boxes
        self._count = len(boxes)

    def __len__(self) -> int:
        return self._count

    @property
    def boxes(self) -> Boxes:
        return self._room.map(lambda t: t[: self._count])

    def push(self, boxes: Boxes) -> None:
        end = self._count + len(boxes)
        if end > len(self._room):
            capacity = max(end, 2 * len(self._room))
            self._room = self._room.map(lambda t: self._grown(t, capacity))
        for f in fields(Boxes):
            getattr(self._room, f.name)[self._count : end] = getattr(boxes, f.name)
        self._count = end

    def _grown(self, tensor: Tensor, capacity: int) -> Tensor:
        wider = tensor.new_empty(capacity, *tensor.shape[1:])
        wider[: self._count] = tensor[: self._count]
        return wider

    def pop(self, n: int, *, best: bool = False) -> Boxes:
        """The n boxes with the least bounds (or, with `best`, the largest), removed."""
        if n >= self._count:
            taken = self.boxes.map(Tensor.clone)
            self._count = 0
            return taken
        index = self._room.bound[: self._count].topk(n, largest=best).indices
        taken = self._room.select(index)
        left = self._count - n
        stays = torch.ones(self._count, dtype=torch.bool, device=index.device)
        stays[index] = False
        holes = (~stays[:left]).nonzero()[:, 0]
        movers = stays[left:].nonzero()[:, 0] + left
        for f in fields(Boxes):
            tensor = getattr(self._room, f.name)
            tensor[holes] = tensor[movers]
        self._count = left
        return taken
