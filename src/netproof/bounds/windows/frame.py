"""Where the windows of a batch of forms lie in an image: arithmetic of whole numbers alone, the same for all forms.

A form begins at a place of some node. At another node its window begins at `scale`·place + `shift` and has `size`
entries along each axis; how many, and how the windows of two branches lie to each other, is so known without a look
at any form. Where an op steps over several entries of its own input (a transposed convolution, carried back) places are
divided, and what is left over is each form's own: `path` lists the divisors.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from netproof.model.conv import Kernel

Pair = tuple[int, int]  # along the height and along the width


@dataclass(frozen=True)
class Frame:
    """Windows of an image of `sides`, from scale·⌊place / divisors⌋ + shift on; entries may lie outside the image."""

    sides: Pair
    scale: Pair = (1, 1)
    shift: Pair = (0, 0)
    size: Pair = (1, 1)
    path: tuple[Pair, ...] = ()

    @property
    def area(self) -> int:
        return self.size[0] * self.size[1]

    @property
    def covers(self) -> bool:
        """Say whether a window has as many entries as the image, so that it saves nothing."""
        return self.area >= self.sides[0] * self.sides[1]

    def moved(self, by: Pair, sides: Pair) -> Frame:
        """Return the same windows in an image of other sides, whose first entry is at −`by` of this one's."""
        return replace(self, shift=(self.shift[0] + by[0], self.shift[1] + by[1]), sides=sides)

    def stretched(self, step: Pair, first: Pair, taps: Pair, sides: Pair) -> Frame:
        """Return where entry i puts what it has to step·i + first + t, for 0 <= t < taps."""
        return Frame(
            sides,
            (step[0] * self.scale[0], step[1] * self.scale[1]),
            (step[0] * self.shift[0] + first[0], step[1] * self.shift[1] + first[1]),
            (step[0] * (self.size[0] - 1) + taps[0], step[1] * (self.size[1] - 1) + taps[1]),
            self.path,
        )

    def union(self, other: Frame) -> Frame | None:
        """Return windows that hold those of both; None where they do not lie to each other the same for all forms."""
        if (self.scale, self.path, self.sides) != (other.scale, other.path, other.sides):
            return None
        first = (min(self.shift[0], other.shift[0]), min(self.shift[1], other.shift[1]))
        ends = [max(f.shift[a] + f.size[a] for f in (self, other)) for a in (0, 1)]
        return replace(self, shift=first, size=(ends[0] - first[0], ends[1] - first[1]))

    def pads_to(self, larger: Frame) -> list[int]:
        """Return how a window is padded to become one of `larger`, in torch's order for (n, height, width, C)."""
        before = [self.shift[a] - larger.shift[a] for a in (0, 1)]
        after = [larger.size[a] - self.size[a] - before[a] for a in (0, 1)]
        return [0, 0, before[1], after[1], before[0], after[0]]


def reach(kernel: Kernel) -> Pair:
    """Return how many entries a kernel's taps span along each axis."""
    (dy, dx), (ky, kx) = kernel.dilation, kernel.window
    return dy * (ky - 1) + 1, dx * (kx - 1) + 1


def transposed(frame: Frame, kernel: Kernel) -> Frame:
    """Return where windows of a kernel's result have their coefficients in its image."""
    (py, px), (height, width) = kernel.padding, kernel.image[1:]
    sy, sx = kernel.stride
    return frame.stretched((sy, sx), (-py, -px), reach(kernel), (height, width))


@dataclass(frozen=True)
class Correlated:
    """Where windows of an image have what a kernel reads from them, in its result, and how they are laid for it."""

    frame: Frame  # in the result
    lead: Pair  # the window's first entry, counted from where the kernel is first put; a form's remainder comes to it
    laid: Pair  # how many entries are read
    divisor: Pair  # places are divided by these


def correlated(frame: Frame, kernel: Kernel) -> Correlated | None:
    """Return where a kernel's results that read a window lie; None where that is not the same for all forms."""
    spans, sides = reach(kernel), (kernel.result[1], kernel.result[2])
    found = [_along(frame, kernel, axis, spans[axis]) for axis in (0, 1)]
    if found[0] is None or found[1] is None:
        return None
    (sc_y, sh_y, size_y, lead_y, div_y), (sc_x, sh_x, size_x, lead_x, div_x) = found[0], found[1]
    divisor = (div_y, div_x)
    path = frame.path if divisor == (1, 1) else (*frame.path, divisor)
    laid = [kernel.stride[a] * (size - 1) + spans[a] for a, size in enumerate((size_y, size_x))]
    result = Frame(sides, (sc_y, sc_x), (sh_y, sh_x), (size_y, size_x), path)
    return Correlated(result, (lead_y, lead_x), (laid[0], laid[1]), divisor)


def _along(frame: Frame, kernel: Kernel, axis: int, span: int) -> tuple[int, int, int, int, int] | None:
    """Return scale, shift, size, lead and divisor along one axis.

    Result j reads s·j − p and the span − 1 entries after it, so a window from y on is read from
    j = ⌈(y + p − span + 1) / s⌉ on. Where y is scale·place + shift and s divides the scale, that is the same for all;
    where the scale is 1, place = s·place' + r, and windows are made large enough for every remainder r. A stride may
    step over a window altogether; then what is read of it is 0.
    """
    step, scale, shift, size = kernel.stride[axis], frame.scale[axis], frame.shift[axis], frame.size[axis]
    begin = shift + kernel.padding[axis] - span + 1
    first = -(-begin // step)
    lead = shift - (step * first - kernel.padding[axis])
    if scale % step == 0:
        last = (begin + size - 1 + span - 1) // step
        return scale // step, first, max(1, last - first + 1), lead, 1
    if scale != 1:
        return None
    last = (step - 1 + begin + size - 1 + span - 1) // step
    return 1, first, max(1, last - first + 1), lead, step


@dataclass(frozen=True, eq=False)
class Places:
    """The places (n, 2) at which forms begin, and these divided."""

    first: Tensor  # (n, 2) int64
    _divided: dict[tuple[Pair, ...], Tensor] = field(default_factory=dict)
    _groups: dict[tuple[Pair, ...], list[tuple[Pair, Tensor]]] = field(default_factory=dict)
    _origins: dict[Frame, tuple[Tensor, Tensor]] = field(default_factory=dict)
    _corners: dict[Frame, tuple[Tensor, Tensor]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.first)

    def at(self, path: tuple[Pair, ...]) -> Tensor:
        """Return the places divided by every pair of `path` in turn: (n, 2)."""
        if not path:
            return self.first
        if path not in self._divided:
            by = torch.tensor(path[-1], device=self.first.device)
            self._divided[path] = torch.div(self.at(path[:-1]), by, rounding_mode="floor")
        return self._divided[path]

    def remainders(self, path: tuple[Pair, ...]) -> list[tuple[Pair, Tensor]]:
        """Return what the last division of `path` leaves over, each with the forms (k,) that it is of."""
        if path not in self._groups:
            by = path[-1]
            rest = self.at(path[:-1]) - self.at(path) * torch.tensor(by, device=self.first.device)
            each = [(i, j) for i in range(by[0]) for j in range(by[1])]
            same = [((rest[:, 0] == i) & (rest[:, 1] == j)).nonzero()[:, 0] for i, j in each]
            self._groups[path] = [(pair, index) for pair, index in zip(each, same, strict=True) if len(index)]
        return self._groups[path]

    def origins(self, frame: Frame) -> tuple[Tensor, Tensor]:
        """Return where the windows of `frame` begin: (n,) along the height, (n,) along the width."""
        if frame not in self._origins:
            at = self.at(frame.path)
            top, left = (at[:, a] * frame.scale[a] + frame.shift[a] for a in (0, 1))
            self._origins[frame] = top, left
        return self._origins[frame]

    def corners(self, frame: Frame) -> tuple[Tensor, Tensor]:
        """Return where windows begin in an image that is padded by their size; none lies beyond that."""
        if frame not in self._corners:
            pairs = zip(self.origins(frame), frame.size, frame.sides, strict=True)
            top, left = (first.clamp(-size, side) + size for first, size, side in pairs)
            self._corners[frame] = top, left
        return self._corners[frame]

    def entries(self, frame: Frame) -> tuple[Tensor, Tensor]:
        """Return which rows (n, kh) and columns (n, kw) of the image windows hold; outside it too."""
        top, left = self.origins(frame)
        device = self.first.device
        return (
            top[:, None] + torch.arange(frame.size[0], device=device),
            left[:, None] + torch.arange(frame.size[1], device=device),
        )
