"""A network relaxed over the root's input set: everything a backward pass needs, in one precision.

Two copies exist: float32 to search with, float64 with rounding charged to prove with. They share the packing of the
unstable neurons, so the slopes found by one are evaluated by the other.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from netproof.bounds.linear.backward import Charge, backward
from netproof.bounds.linear.region import Region
from netproof.core.forms import Interval, LinearForm
from netproof.model.graph import Graph
from netproof.numerics import gamma
from netproof.relax import Lines, Relaxation, relaxation_of


@dataclass(frozen=True, eq=False)
class Layer:
    """The neurons of one nonlinear node that are unstable at the root."""

    node: int  # the nonlinear node
    pre: int  # the node it reads: h
    index: Tensor  # (U_k,) their places in the flattened node
    start: int  # their place among all packed neurons
    relaxation: Relaxation

    @property
    def count(self) -> int:
        return self.index.shape[0]

    @property
    def packed(self) -> slice:
        return slice(self.start, self.start + self.count)


def initial_slopes(layers: Sequence[Layer], lower: Tensor, upper: Tensor) -> Tensor:
    """CROWN's lower slopes (domain, U) for bounds (domain, U) of h."""
    parts = [layer.relaxation.initial(lower[:, layer.packed], upper[:, layer.packed]) for layer in layers]
    return torch.cat([lower[:, :0], *parts], 1)


@dataclass(eq=False)
class LinedGraph:
    graph: Graph
    region: Region
    charge: Charge | None  # None: a search copy; not None: proofs
    layers: list[Layer] = field(default_factory=list)
    _stable: dict[int, Tensor] = field(default_factory=dict)  # g's slope at the stable neurons, (*node)
    _layer_of: dict[int, int] = field(default_factory=dict)

    @property
    def dtype(self) -> torch.dtype:
        return self.region.centre.dtype

    def add(self, node: int, pre: int, bounds: Interval) -> None:
        """Register a nonlinear node with confirmed root bounds (*node) of its input."""
        relaxation = relaxation_of(self.graph.nodes[node].op)
        unstable = relaxation.unstable(bounds.lower, bounds.upper).flatten()
        self._stable[node] = relaxation.stable_slope(bounds.lower, bounds.upper).to(self.dtype)
        if bool(unstable.any()):
            start = self.layers[-1].packed.stop if self.layers else 0
            self._layer_of[node] = len(self.layers)
            self.layers.append(Layer(node, pre, unstable.nonzero()[:, 0], start, relaxation))

    @property
    def count(self) -> int:
        """U: how many neurons are unstable at the root."""
        return self.layers[-1].packed.stop if self.layers else 0

    def stable_slope(self, node: int) -> Tensor:
        """g's slope at the stable neurons of a nonlinear node, 0 at the others: (*node)."""
        slope = self._stable[node]
        if node not in self._layer_of:
            return slope
        index = self.layers[self._layer_of[node]].index
        return slope.flatten().index_fill(0, index, 0.0).view_as(slope)

    def lines(self, start: int, lower: Sequence[Tensor], upper: Sequence[Tensor], slopes: Tensor) -> dict[int, Lines]:
        """Lines of every nonlinear ancestor of node `start`.

        lower, upper: per layer (domain, U_k). slopes: (*lead, U') with U' packed neurons, all those of the ancestors;
        *lead starts with the domain axis and broadcasts to the leading axes of the coefficients.
        """
        ones = (1,) * (slopes.dim() - 2)
        lines: dict[int, Lines] = {}
        for node in self.graph.nonlinear:
            if node not in self.graph.ancestors[start]:
                continue
            shape = self.graph.nodes[node].shape
            stable = self._stable[node]
            if node not in self._layer_of:
                lines[node] = Lines(stable, stable, torch.zeros_like(stable))
                continue
            k = self._layer_of[node]
            layer = self.layers[k]
            low, high = lower[k], upper[k]
            slope, intercept = layer.relaxation.upper_line(low, high, proof=self.charge is not None)
            unstable = layer.relaxation.unstable(low, high).view(low.shape[0], *ones, layer.count)
            free = slopes[..., layer.packed]
            if self.charge is not None:  # rounded slopes may lie just outside the range that is sound
                free = layer.relaxation.project(free)
            chosen = torch.where(unstable, free, slope.view(unstable.shape))
            flat = stable.flatten()
            lines[node] = Lines(
                _unpack(chosen, flat, layer.index, shape),
                _unpack(slope.view(unstable.shape), flat, layer.index, shape),
                _unpack(intercept.view(unstable.shape), torch.zeros_like(flat), layer.index, shape),
            )
        return lines

    def bound(
        self, start: int, coef: Tensor, lower: Sequence[Tensor], upper: Sequence[Tensor], slopes: Tensor
    ) -> Tensor:
        """Lower bounds (*lead) of <coef, z_start> on each sub-domain; coef (*lead, *node), slopes as in `lines`."""
        form = backward(self.graph, start, coef, self.lines(start, lower, upper, slopes), charge=self.charge)
        return self.least(form)

    def neurons(
        self, layer: Layer, places: Tensor, lower: Sequence[Tensor], upper: Sequence[Tensor], slopes: Tensor
    ) -> Interval:
        """Bounds of h at `places` (domain, K), positions in the flattened node: (domain, K) both ways.

        slopes: (domain, 2, K or 1, U'), for the lower and the upper bounds.
        """
        node = self.graph.nodes[layer.pre]
        signs = torch.tensor([1.0, -1.0], device=places.device, dtype=self.dtype).view(1, 2, 1)
        coef = one_hot(places[:, None].expand(-1, 2, -1), signs, node.shape)
        value = self.bound(layer.pre, coef, lower, upper, slopes)
        return Interval(value[:, 0], -value[:, 1])

    def least(self, form: LinearForm) -> Tensor:
        """The form's least value over the input set; in a proof, less the rounding of its last addition."""
        value = self.region.least(form)
        return value if self.charge is None else value - value.abs() * gamma(4)

    def output(
        self,
        coef: Tensor,
        lower: Sequence[Tensor],
        upper: Sequence[Tensor],
        slopes: Tensor,
        keep: dict[int, Tensor] | None = None,
    ) -> LinearForm:
        """A lower bound of <coef, f(x)> for coef (domain, 1, *output); slopes (domain, 1, U)."""
        last = self.graph.output.index
        lines = self.lines(last, lower, upper, slopes)
        return backward(self.graph, last, coef, lines, charge=self.charge, keep=keep)


def _unpack(packed: Tensor, stable: Tensor, index: Tensor, shape: tuple[int, ...]) -> Tensor:
    """(*lead, U_k) at `index` among the stable neurons' values (N,) -> (*lead, *node)."""
    dense = stable.expand(*packed.shape[:-1], -1).index_copy(packed.dim() - 1, index, packed)
    return dense.view(*packed.shape[:-1], *shape)


def one_hot(places: Tensor, signs: Tensor, shape: tuple[int, ...]) -> Tensor:
    """(*lead) positions in a flattened node, (*lead) values -> (*lead, *node) with that value there."""
    coef = torch.zeros(*places.shape, math.prod(shape), device=signs.device, dtype=signs.dtype)
    coef.scatter_(-1, places[..., None], signs.expand(places.shape)[..., None])
    return coef.view(*places.shape, *shape)
