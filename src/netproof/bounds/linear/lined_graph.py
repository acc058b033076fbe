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
from netproof.model.graph import Graph, Node
from netproof.numerics import UNDERFLOW, gamma
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

    def settled_at(self, sign: Tensor) -> Tensor:
        """Return the bound of sign·h past which g is known to be linear, inf where there is none; sign (n,): ±1."""
        kink = self.relaxation.kink
        return torch.full_like(sign, torch.inf) if kink is None else sign * kink


def alike(layers: Sequence[Layer]) -> list[tuple[Relaxation, slice]]:
    """Return runs of neurons with the same nonlinearity, and where they are packed."""
    runs: list[tuple[Relaxation, slice]] = []
    for layer in layers:
        if runs and runs[-1][0] == layer.relaxation:
            runs[-1] = (layer.relaxation, slice(runs[-1][1].start, layer.packed.stop))
        else:
            runs.append((layer.relaxation, layer.packed))
    return runs


def splittable(layers: Sequence[Layer], lower: Tensor, upper: Tensor) -> Tensor:
    """Say which neurons a split may help, for bounds (domain, U) of h: (domain, U) bool."""
    parts = [r.splittable(Interval(lower[:, packed], upper[:, packed])) for r, packed in alike(layers)]
    return parts[0] if len(parts) == 1 else torch.cat([lower[:, :0] > 0, *parts], 1)


def split_points(layers: Sequence[Layer], lower: Tensor, upper: Tensor) -> Tensor | None:
    """Return where each neuron is split, for bounds (domain, U) of h: (domain, U); None where that is 0 for all."""
    if split_at_zero(layers):
        return None
    return torch.cat([r.split_point(Interval(lower[:, packed], upper[:, packed])) for r, packed in alike(layers)], 1)


def split_at_zero(layers: Sequence[Layer]) -> bool:
    """Say whether 0 is where every neuron is split."""
    return all(layer.relaxation.kink == 0.0 for layer in layers)


def initial_slopes(layers: Sequence[Layer], lower: Tensor, upper: Tensor) -> Tensor:
    """Return the parameters (domain, U) to start from, for bounds (domain, U) of h."""
    parts = [layer.relaxation.initial(Interval(lower[:, layer.packed], upper[:, layer.packed])) for layer in layers]
    return torch.cat([lower[:, :0], *parts], 1)


@dataclass(eq=False)
class LinedGraph:
    graph: Graph
    region: Region
    charge: Charge | None  # None: a search copy; not None: proofs
    layers: list[Layer] = field(default_factory=list)
    _stable: dict[int, Lines] = field(default_factory=dict)  # where g is linear, (*node); anything elsewhere
    _layer_of: dict[int, int] = field(default_factory=dict)

    @property
    def dtype(self) -> torch.dtype:
        return self.region.centre.dtype

    def add(self, node: int, pre: int, bounds: Interval) -> None:
        """Register a nonlinear node with confirmed root bounds (*node) of its input."""
        relaxation = relaxation_of(self.graph.nodes[node].op)
        # As in a proof in either copy, since both must fold the same neurons: those that are one line, bit for bit.
        lines = relaxation.family(bounds, proof=True).at(relaxation.initial(bounds))
        if self.charge is not None:
            _refuse_crossing(self.graph.nodes[node], bounds, lines)
        unstable = (relaxation.unstable(bounds) | _are_two(bounds, lines)).flatten()
        self._stable[node] = Lines(*(None if t is None else t.to(self.dtype) for t in lines))  # type: ignore[arg-type]
        if bool(unstable.any()):
            start = self.layers[-1].packed.stop if self.layers else 0
            self._layer_of[node] = len(self.layers)
            self.layers.append(Layer(node, pre, unstable.nonzero()[:, 0], start, relaxation))

    @property
    def count(self) -> int:
        """U: how many neurons are unstable at the root."""
        return self.layers[-1].packed.stop if self.layers else 0

    def linear_part(self, node: int) -> Lines:
        """Return g where it is linear on the whole input set, as both lines, and 0 at the other neurons: (*node)."""
        stable = self._stable[node]
        slope, intercept = stable.upper_slope, stable.upper_intercept
        if node in self._layer_of:
            index = self.layers[self._layer_of[node]].index
            slope, intercept = (t.flatten().index_fill(0, index, 0.0).view_as(t) for t in (slope, intercept))
        return Lines(slope, slope, intercept, None if stable.lower_intercept is None else intercept)

    def lines(self, start: int, lower: Sequence[Tensor], upper: Sequence[Tensor], slopes: Tensor) -> dict[int, Lines]:
        """Return the lines of every nonlinear ancestor of node `start`.

        lower, upper: per layer (domain, U_k). slopes: (*lead, U'), the parameters of the packed neurons of the
        ancestors; *lead starts with the domain axis and broadcasts to the leading axes of the coefficients.
        """
        ones = (1,) * (slopes.dim() - 2)
        lines: dict[int, Lines] = {}
        for node in self.graph.nonlinear:
            if node not in self.graph.ancestors[start]:
                continue
            if node not in self._layer_of:
                lines[node] = self.linear_part(node)
                continue
            k = self._layer_of[node]
            layer, shape = self.layers[k], self.graph.nodes[node].shape
            sides = (side[k].view(len(side[k]), *ones, layer.count) for side in (lower, upper))
            chosen = slopes[..., layer.packed]
            if self.charge is not None:  # rounding may have taken them just outside their range
                chosen = chosen.clamp(0.0, 1.0)
            found = layer.relaxation.family(Interval(*sides), proof=self.charge is not None).at(chosen)
            lines[node] = Lines(
                *(
                    None if own is None else _unpack(own, stable.flatten(), layer.index, shape)  # type: ignore[arg-type,union-attr]
                    for own, stable in zip(found, self._stable[node], strict=True)
                )
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


def _are_two(bounds: Interval, lines: Lines) -> Tensor:
    """Say where the two lines are not the same: whatever a relaxation calls linear, there it is not folded."""
    below = 0.0 if lines.lower_intercept is None else lines.lower_intercept
    same = (lines.lower_slope == lines.upper_slope) & (lines.upper_intercept == below)
    return ~same & (bounds.lower <= bounds.upper)


def _refuse_crossing(node: Node, bounds: Interval, lines: Lines) -> None:
    """Raise where the lower line is above the upper one: a relaxation that is wrong must not prove anything."""
    offset = lines.upper_intercept - (0.0 if lines.lower_intercept is None else lines.lower_intercept)
    slopes = lines.lower_slope.abs() + lines.upper_slope.abs()
    size = slopes * bounds.magnitude + lines.upper_intercept.abs() + offset.abs()
    crossed = [(lines.upper_slope - lines.lower_slope) * end + offset < -size * gamma(16) - UNDERFLOW for end in bounds]
    if bool(((crossed[0] | crossed[1]) & (bounds.lower <= bounds.upper)).any()):
        raise RuntimeError(f"node {node.name!r}: the lower line of {type(node.op).__name__} is above its upper one")


def _unpack(packed: Tensor, stable: Tensor, index: Tensor, shape: tuple[int, ...]) -> Tensor:
    """(*lead, U_k) at `index` among the stable neurons' values (N,) -> (*lead, *node)."""
    dense = stable.expand(*packed.shape[:-1], -1).index_copy(packed.dim() - 1, index, packed)
    return dense.view(*packed.shape[:-1], *shape)


def one_hot(places: Tensor, signs: Tensor, shape: tuple[int, ...]) -> Tensor:
    """(*lead) positions in a flattened node, (*lead) values -> (*lead, *node) with that value there."""
    coef = torch.zeros(*places.shape, math.prod(shape), device=signs.device, dtype=signs.dtype)
    coef.scatter_(-1, places[..., None], signs.expand(places.shape)[..., None])
    return coef.view(*places.shape, *shape)
