"""What the neurons of the first layer read: each a window of the input, or all of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor
from torch.nn.functional import pad

from netproof.core.batch import ranks
from netproof.numerics import enlarged, rounding, with_vanishing


@dataclass(frozen=True, eq=False)
class Reads:
    """h_j <= weight_j · x + bias_j for J neurons of the first layer, with x at the places of each one's window.

    In float64 no rounding makes it wrong. x is counted from 0, or from the centre of the input set, which is then 0.
    """

    weight: Tensor  # (J, K); 0 where a window is smaller
    bias: Tensor  # (J,)
    centre: Tensor  # (J or 1, K) of the input set at the places
    radius: Tensor  # (J or 1, K)
    places: Tensor | None  # (J, K) int64 in the flattened input; None: K is all of the input, in its order
    inputs: int
    leak: float  # of g(h) = max(h, leak·h)
    neurons: Tensor | None = None  # (J,): which of the packed neurons they are; None: the first J, all of the layer

    @property
    def count(self) -> int:
        """Return J."""
        return self.weight.shape[0]

    @property
    def width(self) -> int:
        """Return K."""
        return self.weight.shape[1]

    @cached_property
    def swing(self) -> Tensor:
        """Return how far each input of the windows moves h from its middle at most: (J, K). To search with."""
        return self.weight.abs() * self.radius

    @cached_property
    def reach(self) -> Tensor:
        """Return how far all of them do: (J,)."""
        return self.swing.sum(1)

    @cached_property
    def about_centre(self) -> Reads:
        """Return the same with x counted from the centre, still from above."""
        moved = self.weight * self.centre
        size = moved.abs().sum(1) + self.bias.abs()
        bias = self.bias + moved.sum(1) + with_vanishing(enlarged(rounding(size, self.width + 8)))
        return replace(self, bias=bias, centre=torch.zeros_like(self.centre))

    @cached_property
    def to_search(self) -> Reads:
        """Return that in float32."""
        at = self.about_centre
        weight, bias, centre, radius = (t.float() for t in (at.weight, at.bias, at.centre, at.radius))
        return replace(at, weight=weight, bias=bias, centre=centre, radius=radius)

    def some(self, neurons: Tensor) -> Reads:
        """Return what some of all neurons of the layer (k,) read."""
        assert self.neurons is None
        each = {name: getattr(self, name) for name in ("weight", "bias", "centre", "radius", "places")}
        own = {name: t[neurons] for name, t in each.items() if t is not None and len(t) == self.count}
        return replace(self, **own, neurons=neurons)

    def of(self, packed: Tensor) -> Tensor:
        """Return what all packed neurons have (n, U), of these: (n, J)."""
        return packed[:, : self.count] if self.neurons is None else packed[:, self.neurons]

    def add_(self, packed: Tensor, more: Tensor) -> None:
        """Add (n, J) to what all packed neurons have (n, U), in place."""
        if self.neurons is None:
            packed[:, : self.count].add_(more)
        else:
            packed.index_add_(1, self.neurons, more)

    def taken(self, x: Tensor) -> Tensor:
        """Return the windows of points x (n, input): (n, J or 1, K)."""
        if self.places is None:
            return x[:, None]
        return x.index_select(1, self.places.flatten()).view(len(x), *self.places.shape)

    def given(self, each: Tensor) -> Tensor:
        """Add up what windows have (n, J, K) by input: (n, input)."""
        if self.places is None:
            return each.sum(1)
        if each.device.type != "cpu":
            return self.given_by_input(each)
        none = each.new_zeros(len(each), self.inputs)
        return none.scatter_add_(1, self.places.flatten().expand(len(each), -1), each.flatten(1))

    def given_by_input(self, each: Tensor) -> Tensor:
        """Add up what windows have as `given` does, one sum for each input.

        That is the same each time. Adding to places that several share is not, on a GPU.
        """
        inputs, readers = self._readers
        flat = pad(each.flatten(1), (0, 1))  # the last is for inputs with fewer readers
        return each.new_zeros(len(each), self.inputs).index_copy_(1, inputs, flat[:, readers].sum(2))

    @cached_property
    def _readers(self) -> tuple[Tensor, Tensor]:
        """Return the inputs (m,) that are read, and (m, R) the entries of flattened windows that are of each.

        J·K stands for none.
        """
        assert self.places is not None
        inputs, which, counts = self.places.flatten().unique(return_inverse=True, return_counts=True)
        readers = torch.full((len(inputs), int(counts.max())), len(which), device=which.device)
        readers[which, ranks(which, counts)] = torch.arange(len(which), device=which.device)
        return inputs, readers

    def height(self, slope: Tensor) -> Tensor:
        """Return the least H with slope·x + H >= g(h_j) on the box, for slopes (n, J, K): (n, J). In float64 a proof.

        g(h) is the larger of two lines, and on a box the most that a line is above a plane has a closed form.
        """
        return torch.maximum(self.height_on(slope, 1.0), self.height_on(slope, self.leak))

    def height_on(self, slope: Tensor, side: float) -> Tensor:
        """Return the least H with slope·x + H >= side·h_j on the box, (n, J)."""
        over = side * self.weight - slope
        value = side * self.bias + (over * self.centre).sum(2) + (over.abs() * self.radius).sum(2)
        if self.weight.dtype != torch.float64:
            return value
        reach = self.centre.abs() + self.radius
        size = ((side * self.weight).abs() + slope.abs()) * reach
        cost = rounding(size.sum(2) + (side * self.bias).abs(), 2 * self.width + 16)
        return value + with_vanishing(enlarged(cost))
