"""A node's values as affine forms: z = centre + Σ ξ_g·G_g + e, with every |ξ_g| <= 1 and |e| <= error, entry by entry.

The error is bounded by its length too, ‖e‖₂ <= `length`, which grows less on its way through many layers.
A generator G_g is an input that varies, or what the lines of an unstable neuron leave open. It is kept as coefficients
are, as a window where that saves something: what lies behind an entry of an image is a window of each later layer.
Generators may be kept in float32, in half the memory: what is computed of them is in float64 but for sums of branches,
and what that and keeping them rounds is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from netproof.bounds.ascent import keep_up
from netproof.bounds.linear.coefficients import Dense
from netproof.bounds.linear.lined_graph import one_hot
from netproof.bounds.linear.memory import entries_at_once
from netproof.bounds.windows.moves import image_sides
from netproof.bounds.windows.windowed import Windowed
from netproof.core.batch import in_slices
from netproof.core.deadline import Deadline
from netproof.core.forms import Interval
from netproof.numerics import enlarged, few_roundings, lowered, with_vanishing

Generators = Windowed | Dense

# Squares of errors, and products with them, may vanish: all that is lost so is far below this.
UNDERFLOW = 1e-100


@dataclass(frozen=True, eq=False)
class Zonotope:
    """Affine forms of one node over generators that began at some nodes; float64, or generators in float32."""

    centre: Tensor  # (*node)
    error: Tensor  # (*node), not negative: what generators do not say, rounding among it
    length: Tensor  # (): what the error's length is at most
    generators: Mapping[int, Generators]  # by the node that they began at
    total: Tensor  # (*node): Σ |G_g|, up to rounding

    @classmethod
    def of(cls, centre: Tensor, error: Tensor, length: Tensor | None, generators: Mapping[int, Generators]) -> Zonotope:
        """Make forms whose error is bounded entry by entry and, if it is known, by its length."""
        whole = enlarged(torch.linalg.vector_norm(error))
        length = (whole if length is None else torch.minimum(length, whole)) + UNDERFLOW
        total = torch.zeros_like(error)
        for some in generators.values():
            total = total + summed(some)
        return cls(centre, torch.minimum(error, length), length, generators, total)

    @cached_property
    def radius(self) -> Tensor:
        """Return Σ |G_g| and the error, no less than they are: (*node)."""
        return enlarged(self.total + self.error)

    @property
    def count(self) -> int:
        """Return how many generators there are."""
        return sum(len(some.values) for some in self.generators.values())

    @property
    def numbers(self) -> int:
        """Return how many numbers the generators have."""
        return sum(some.values.numel() for some in self.generators.values())

    @property
    def is_narrow(self) -> bool:
        """Say whether generators are kept in float32."""
        return any(some.values.dtype == torch.float32 for some in self.generators.values())

    def with_more(self, error: Tensor) -> Zonotope:
        """Return the same forms with a further error (*node)."""
        length = enlarged(self.length + torch.linalg.vector_norm(error))
        more = torch.minimum(enlarged(self.error + error), length)
        return replace(self, error=more, length=length)

    def bounds(self) -> Interval:
        """Return the bounds of every entry, rounded outward: (*node)."""
        radius = self.radius
        return Interval(lowered(self.centre, radius), -lowered(-self.centre, radius))


def generators_at(places: Tensor, sizes: Tensor, shape: tuple[int, ...]) -> Generators:
    """Return one generator (n,) for each of places (n,) of a flattened node, with these sizes."""
    if not begins_as_window(shape):
        return Dense(one_hot(places, sizes, shape), len(shape))
    return Windowed.at(places, sizes, shape)


def begins_as_window(shape: tuple[int, ...]) -> bool:
    """Say whether a generator that begins at one entry of a node is a window of one place, all channels of it."""
    return image_sides(shape) not in (None, (1, 1))


def keeping(total: Tensor, count: int, roundings: int = 1) -> Tensor:
    """Return what it costs each entry to keep so many generators in float32, rounded so often: (*node).

    total (*node): of their sizes, before or after. What is below the normal numbers may become 0 as it is kept, and be
    read as 0 later on; where branches are added up on the way, each of them has paid for that itself.
    """
    return with_vanishing(few_roundings(total, roundings + 1, torch.float32), 2 * count, torch.float32)


def slices(values: Tensor) -> list[slice]:
    """Return slices of a batch (n, ...), small enough for the deadline."""
    size = _size(values)
    return [slice(begin, begin + size) for begin in range(0, len(values), size)]


def _size(values: Tensor, made: int = 0) -> int:
    """Return how many of a batch (n, ...) are such a slice; made: entries that one becomes, if more."""
    return max(1, entries_at_once(values.device) // max(1, made, values[0].numel()))


def in_parts(make: Callable[[slice], Tensor], values: Tensor, entries: int, deadline: Deadline) -> Tensor:
    """Return what is made of a batch (n, ...), of so many entries each, slice by slice; or raise DeadlineExpired."""

    def in_time(part: slice) -> Tensor:
        deadline.check()
        made = make(part)
        keep_up(values.device, deadline)
        return made

    size = _size(values, entries)
    return in_slices(in_time if len(values) > size else make, len(values), size)


def summed(some: Generators) -> Tensor:
    """Return Σ |G_g| over generators: (*node)."""
    if isinstance(some, Dense):
        parts = [torch.linalg.vector_norm(some.values[part].double(), ord=1, dim=0) for part in slices(some.values)]
        return torch.stack(parts).sum(0)
    (height, width), (high, wide) = some.frame.sides, some.frame.size
    channels = some.values.shape[-1]
    rows, columns = some.places.entries(some.frame)
    at = rows.clamp(0, height - 1)[:, :, None] * width + columns.clamp(0, width - 1)[:, None, :]
    image = torch.zeros(height * width, channels, dtype=torch.float64, device=some.values.device)
    for part in slices(some.values):
        sizes = some.values[part].double().abs().reshape(len(at[part]) * high * wide, channels)
        image.index_add_(0, at[part].flatten(), sizes)
    return image.view(height, width, channels).permute(2, 0, 1)[None]
