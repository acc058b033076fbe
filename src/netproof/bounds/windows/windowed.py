"""Coefficients of neurons of an image as windows: what a neuron reads of another layer, and where that lies.

A window becomes dense where it has as many entries as the layer, and where an op is not one of images.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from netproof.bounds.linear.coefficients import Coefficients, Dense
from netproof.bounds.windows.frame import Frame, Places
from netproof.bounds.windows.moves import Move, around, image_sides, inside, moves, united
from netproof.model.ops import Affine
from netproof.relax import Lines


@dataclass(frozen=True, eq=False)
class Windowed(Coefficients):
    """One window for each of n forms, of a node (1, C, H, W); what lies outside the image is 0."""

    values: Tensor  # (n, kh, kw, C)
    frame: Frame
    places: Places

    @classmethod
    def at(cls, places: Tensor, signs: Tensor, shape: tuple[int, ...]) -> Windowed:
        """Return numbers (n,) at positions (n,) of a flattened node, which is an image."""
        sides = image_sides(shape)
        assert sides is not None
        channel, pixel = places // (sides[0] * sides[1]), places % (sides[0] * sides[1])
        values = signs.new_zeros(len(places), shape[1]).scatter_(1, channel[:, None], signs[:, None])
        where = torch.stack([pixel // sides[1], pixel % sides[1]], 1)
        return cls(values[:, None, None], Frame(sides), Places(where))

    def zero(self) -> Tensor:
        return self.values.new_zeros(len(self.values))

    def dense(self) -> Tensor:
        return self._dense().values

    def _dense(self) -> Dense:
        """Return a number for every entry of the node, (n, 1, C, H, W)."""
        top, left = self.places.origins(self.frame)
        height, width = self.frame.sides
        device = self.values.device
        rows = torch.arange(height, device=device) - top[:, None]
        columns = torch.arange(width, device=device) - left[:, None]
        tall, wide = (rows >= 0) & (rows < self.frame.size[0]), (columns >= 0) & (columns < self.frame.size[1])
        form = torch.arange(len(self.values), device=device)[:, None, None]
        rows, columns = rows.clamp(0, self.frame.size[0] - 1), columns.clamp(0, self.frame.size[1] - 1)
        found = self.values[form, rows[:, :, None], columns[:, None, :]]
        found.masked_fill_(~(tall[:, :, None] & wide[:, None, :])[..., None], 0.0)
        return Dense(found.permute(0, 3, 1, 2).contiguous()[:, None], 4)

    def take(self, index: Tensor) -> Tensor:
        height, width = self.frame.sides
        top, left = self.places.origins(self.frame)
        channel, pixel = index // (height * width), index % (height * width)
        rows, columns = pixel // width - top[:, None], pixel % width - left[:, None]
        high, wide = self.frame.size
        there = (rows >= 0) & (rows < high) & (columns >= 0) & (columns < wide)
        at = (rows.clamp(0, high - 1) * wide + columns.clamp(0, wide - 1)) * self.values.shape[-1] + channel
        return self.values.flatten(1).gather(1, at).masked_fill_(~there, 0.0)

    def entries(self) -> tuple[Tensor | None, Tensor]:
        rows, columns = self.places.entries(self.frame)
        height, width = self.frame.sides
        there = ((rows >= 0) & (rows < height))[:, :, None] & ((columns >= 0) & (columns < width))[:, None]
        pixel = rows.clamp(0, height - 1)[:, :, None] * width + columns.clamp(0, width - 1)[:, None]
        channel = torch.arange(self.values.shape[-1], device=pixel.device) * (height * width)
        places = (pixel[..., None] + channel).flatten(1)
        return places, self.values.masked_fill(~there[..., None], 0.0).flatten(1)

    def dot(self, weight: Tensor) -> Tensor:
        return self._total(self.values, weight)

    def size(self, weight: Tensor) -> Tensor:
        return self._total(self.values.abs(), weight)

    def _total(self, values: Tensor, weight: Tensor) -> Tensor:
        """Return Σ values·weight over each window: (n,).

        values (n, kh, kw, C); weight (1, C, H, W), or with one for each form (n, 1, C, H, W).
        """
        near = around(weight, self.frame, self.places)
        if near.shape[:3] == (1, 1, 1):  # the same everywhere
            return values.sum((1, 2)) @ near.reshape(-1)
        total: Tensor = torch.linalg.vecdot(values.flatten(1), near.expand_as(values).flatten(1))
        return total

    def adjoint(self, op: Affine) -> list[Coefficients]:
        found = moves(op, self.frame)
        if found is None:
            return list(self._dense().adjoint(op))
        return [self.moved(move) for move in found]

    def moved(self, move: Move) -> Windowed | Dense:
        """Return what a rule of an op makes of the windows; dense where they would save nothing."""
        values, frame = move.apply(self.values, self.places, self.frame), move.frame
        if move.cut:
            own = values if values is not self.values else values.clone()
            values = own.masked_fill_(~inside(frame, self.places)[..., None], 0.0)
        found = Windowed(values, frame, self.places)
        return found._dense() if frame.covers else found

    def relaxed(self, lines: Lines, taken: Tensor | None, arity: int) -> tuple[Coefficients, list[Tensor]]:
        if arity > 1:
            return self._dense().relaxed(lines, taken, arity)
        here = self.values
        terms = [self._total(here.clamp(max=0), lines.upper_intercept)]
        if lines.lower_intercept is not None:
            terms.append(self._total(here.clamp(min=0), lines.lower_intercept))
        upper, lower = (around(slope, self.frame, self.places) for slope in (lines.upper_slope, lines.lower_slope))
        back = Windowed(here * torch.where(here < 0, upper, lower), self.frame, self.places)
        if taken is None:
            return back, terms
        dense = back._dense()
        return Dense(dense.values - taken, dense.rank), terms

    def plus(self, more: Coefficients) -> Coefficients:
        if not isinstance(more, Windowed):
            return more.plus(self)
        frame = united([self.frame, more.frame])
        if frame is None or more.places is not self.places:
            return self._dense().plus(more)
        total = F.pad(self.values, self.frame.pads_to(frame))
        _, _, left, _, top, _ = more.frame.pads_to(frame)
        high, wide = more.frame.size
        total[:, top : top + high, left : left + wide] += more.values
        return Windowed(total, frame, self.places)
