"""Interval constraint propagation: what the splits, the links between neurons and the property's rows say of each other.

Every neuron is a variable with an interval, and so is every input. Each relation narrows the intervals of what it
relates, forwards and backwards, until nothing moves any more:

    y = W x + b           the trunk
    h = M·(1, y, z)       a neuron's input, of the condensed network
    z = g(h)              and back: a bound of z bounds h
    r = c·(1, y, z) <= t  every row of the target, at the threshold t
    r >= a·x + d          the same rows carried to the input by the lines of the neurons on their present intervals

The last keeps what intervals lose, that two neurons read the same input; the others see what lines lose, that a
neuron whose row has no slack left is forced. Where a few neurons are all a row hangs on, as in a formula written as a
network, this finds by itself what one split after another would.

What comes out holds for the points of a sub-domain at which every row is at most t, and only there: those are the
points a search looks for. With t = +inf the rows say nothing and it holds everywhere. Float64, rounding charged: the
intervals contain every such point, and a sub-domain is called empty only if it has none.
"""

from __future__ import annotations

from dataclasses import dataclass
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from netproof.bounds.backward import walk
from netproof.bounds.dual import packed_lines, pull, within
from netproof.bounds.memory import budget
from netproof.bounds.root import Root
from netproof.core.deadline import Deadline
from netproof.core.forms import Interval, LinearForm
from netproof.numerics import INFLATE, UNDERFLOW, UNIT, down, float32_down, float32_up, gamma, up
from netproof.problem.domains import Domains

SWEEPS = 50  # the most a batch gets; a chain of forced neurons takes one each
GAIN = 0.02  # of a variable's width at the root: a sweep that narrows nothing by so much is the last
OUT = 1.0 + 8.0 * UNIT[torch.float64]  # more than the few roundings of a quotient of gaps


@dataclass(frozen=True, eq=False)
class Contraction:
    """Of each sub-domain's points with every row at most the threshold."""

    lower: Tensor  # (domain, U) float32, rounded outward: bounds of h, never wider than those given
    upper: Tensor  # (domain, U)
    empty: Tensor  # (domain,) bool: there is no such point
    inputs: Interval  # (domain, input): the box they lie in, float64
    corner: Tensor  # (domain, input) float64: the corner of it where the rows, carried to the input, are least


_made: WeakKeyDictionary[Root, Contractor] = WeakKeyDictionary()


def contractor_of(root: Root) -> Contractor:
    """The one of this root, made when first asked for."""
    if root not in _made:
        _made[root] = Contractor(root)
    return _made[root]


class Contractor:
    """Variables are columns: x, y, z and h in this order; without a trunk y is x itself, and not there twice."""

    def __init__(self, root: Root) -> None:
        net, intervals = root.condensed, root.intervals.of
        self._net, self._valid, self._device = net, root.rows.valid, root.device
        trunk, layers = net.trunk, net.layers
        region = net.region
        inputs, first = region.lower.numel(), region.lower.numel() if trunk.node else 0
        self._x = slice(0, inputs)
        self._y = slice(first, first + trunk.count)
        self._z = slice(self._y.stop, self._y.stop + net.count)
        self._h = slice(self._z.stop, self._z.stop + net.count)
        self._v = slice(self._y.start, self._z.stop)
        known = [(region.lower.flatten(), region.upper.flatten())]
        if trunk.node:
            known.append(_at(intervals[trunk.node], trunk.index))
        known += [_at(intervals[layer.node], layer.index) for layer in layers]
        known += [_at(intervals[layer.pre], layer.index) for layer in layers]
        self._lower, self._upper = (torch.cat(side) for side in zip(*known, strict=True))
        self._width = torch.where(self._upper > self._lower, self._upper - self._lower, torch.inf)
        size = self._lower.abs().maximum(self._upper.abs())
        self._links = self._trunk_links(size), [self._layer_links(k, size) for k in range(len(layers))]
        below = torch.full((1,), -1.0, dtype=torch.float64, device=root.device)
        leaks = [layer.relaxation.stable_slope(below, below).expand(layer.count) for layer in layers]
        self._leak = torch.cat(leaks) if leaks else below[:0]
        self._rows_size = net.rows[..., 1:].abs() @ size[self._v] + net.rows[..., 0].abs()
        self._rows_slack = _slack(net.rows[..., 1:], net.rows[..., 0], net.error, size[self._v])
        self._size_x, self._charge_x = size[self._x], region.charge().flatten()

    @property
    def entries(self) -> int:
        """How much one sweep of one sub-domain has to look at."""
        trunk, layers = self._links
        rows = self._net.rows.shape[1] * (self._net.rows.shape[2] + 2 * len(self._size_x))
        return rows + sum(links.entries for links in (trunk, *layers) if links is not None)

    @torch.no_grad()
    def contract(
        self, domains: Domains, threshold: Tensor, deadline: Deadline, sweeps: int = SWEEPS
    ) -> Contraction:
        """threshold (domain,): t. Past the deadline a sub-domain keeps the bounds it has."""
        step = max(1, budget(self._device) // (32 * (self.entries + len(self._lower)) * 8))
        parts = [
            self._contract(domains.select(index), threshold[index], 0 if deadline.expired else sweeps)
            for index in torch.arange(len(domains), device=self._device).split(step)
        ]
        if len(parts) == 1:
            return parts[0]
        names = ("lower", "upper", "empty")
        sides = (torch.cat([getattr(p.inputs, side) for p in parts]) for side in ("lower", "upper"))
        lower, upper, empty = (torch.cat([getattr(p, name) for p in parts]) for name in names)
        return Contraction(lower, upper, empty, Interval(*sides), torch.cat([p.corner for p in parts]))

    @torch.no_grad()
    def pressure(self, domains: Domains, threshold: Tensor) -> Tensor:
        """(domain, U): how much the relations that are about to force something have to say of a neuron's input.

        A bound of w = Σ a v that the v can still break leaves each of them a gap; one whose own range takes up the whole
        gap is forced. A relation counts 4^−(gap / range) for a variable, which for a clause of k literals is 4^(1−k), and
        a neuron has its share of what counts for the variables it reads, the more the nearer to the middle its 0 is.
        """
        every = _Hull(self._lower.repeat(len(domains), 1), self._upper.repeat(len(domains), 1))
        every.meet(self._h, domains.lower.double(), domains.upper.double())
        trunk, layers = self._links
        self._sweep(every, domains, threshold)
        weight = torch.zeros_like(every.lower)
        for k, links in enumerate(layers):
            if links is not None:
                weight[:, self._read(k)] += links.pressure(every, self._read(k), self._of_layer(k)[1])
        if trunk is not None:
            weight[:, self._x] += trunk.pressure(every, self._x, self._y)
        total = weight[:, self._z].clone()
        if trunk is not None:
            total[:, : self._net.direct] += trunk.shared(every, self._x, weight)[:, : self._net.direct]
        for k, links in enumerate(layers):
            if links is not None:
                total[:, self._net.layers[k].packed] += links.shared(every, self._read(k), weight)
        low, high = every.lower[:, self._h], every.upper[:, self._h]
        self.lh = low, high
        balance = torch.minimum(-low, high).clamp(min=0) / (high - low).clamp(min=1e-30)
        return balance * (total + 1e-9)

    def _contract(self, domains: Domains, threshold: Tensor, sweeps: int) -> Contraction:
        count = len(domains)
        every = _Hull(self._lower.repeat(count, 1), self._upper.repeat(count, 1))
        every.meet(self._h, domains.lower.double(), domains.upper.double())
        corner = every.lower[:, self._x].clone()
        places = torch.arange(count, device=self._device)
        hull, some, limit = every, domains, threshold
        for _ in range(sweeps):
            before = hull.upper - hull.lower
            towards = self._sweep(hull, some, limit)
            least = torch.where(towards > 0, hull.lower[:, self._x], hull.upper[:, self._x])
            corner[places] = least
            if hull is not every:
                every.write(places, hull)
            gained = ((before - (hull.upper - hull.lower)) / self._width).amax(1) > GAIN
            live = (gained & ~hull.empty).nonzero()[:, 0]
            if len(live) == 0:
                break
            if len(live) < len(places):
                places, some, limit = places[live], some.select(live), limit[live]
                hull = _Hull(hull.lower[live], hull.upper[live])
        lower, upper = float32_down(every.lower[:, self._h]), float32_up(every.upper[:, self._h])
        inputs = Interval(every.lower[:, self._x], every.upper[:, self._x])
        return Contraction(lower, upper, every.empty, inputs, corner)

    # --- one sweep ---

    def _sweep(self, hull: _Hull, domains: Domains, limit: Tensor) -> Tensor:
        """Forwards to the rows and back to the input; (domain, input) the rows' slope there."""
        trunk, layers = self._links
        if trunk is not None:
            hull.meet(self._y, *trunk.forward(hull, self._x))
            self._tie(hull)
        for k, links in enumerate(layers):
            z, h = self._of_layer(k)
            if links is not None:
                hull.meet(h, *links.forward(hull, self._read(k)))
            hull.meet(z, *_hinge(hull, h, self._leak[self._net.layers[k].packed]))
        self._use_rows(hull, domains, limit)
        slope = self._use_carried_rows(hull, domains, limit)
        for k, links in reversed(list(enumerate(layers))):
            z, h = self._of_layer(k)
            hull.meet(h, *_unhinge(hull, z, self._leak[self._net.layers[k].packed]))
            if links is not None:
                links.backward(hull, self._read(k), h)
        if trunk is not None:
            self._tie(hull)
            trunk.backward(hull, self._x, self._y)
        return slope

    def _tie(self, hull: _Hull) -> None:
        """The first layer's neurons that read the trunk itself: h is y."""
        direct = self._net.direct
        y = slice(self._y.start, self._y.start + direct)
        h = slice(self._h.start, self._h.start + direct)
        hull.meet(h, hull.lower[:, y], hull.upper[:, y])
        hull.meet(y, hull.lower[:, h], hull.upper[:, h])

    def _use_rows(self, hull: _Hull, domains: Domains, limit: Tensor) -> None:
        """r <= t over y and z."""
        forms = self._net.rows[domains.target]
        room = torch.where(self._valid[domains.target], limit[:, None], torch.inf) - forms[..., 0]
        _narrow(hull, self._v, forms[..., 1:], room + self._rows_slack[domains.target] + limit.abs()[:, None] * gamma(8))

    def _use_carried_rows(self, hull: _Hull, domains: Domains, limit: Tensor) -> Tensor:
        """Each row with slopes for its present bounds, and their mix with the slopes and multipliers of the domain."""
        net, target, valid = self._net, domains.target, self._valid[domains.target]
        (count, rows), inputs = valid.shape, len(self._size_x)
        if bool((limit == torch.inf).all()):
            return hull.lower.new_zeros(count, inputs)
        lower, upper = hull.lower[:, self._h], hull.upper[:, self._h]
        lines = packed_lines(net, lower, upper, domains.splits, proof=True)
        weights = domains.weights.double()
        forms = net.rows[target]
        seeds = torch.cat([forms, torch.bmm(weights[:, None], forms)], 1)  # (domain, row + 1, columns)
        slopes = torch.stack([self._initial(lower, upper), domains.slopes.double()], 1)
        slopes = torch.cat([slopes[:, :1].expand(-1, rows, -1), slopes[:, 1:]], 1).flatten(0, 1)
        lines = lines.select(torch.arange(count, device=self._device).repeat_interleave(rows + 1))
        beta: Tensor | None = None
        if domains.multipliers.shape[1]:
            beta = torch.zeros_like(slopes).view(count, rows + 1, -1)
            beta[:, rows] = domains.multipliers.double().clamp(min=0)
            beta = beta.flatten(0, 1)
        pulled = pull(net, seeds.flatten(0, 1), lines, within(lines, slopes), beta)
        coef = pulled.at_input.flatten(1)
        # The value is a·x + d at its least over the input set: what is left without that least is d.
        zero = torch.zeros_like(pulled.value)
        least = net.region.least(LinearForm(pulled.at_input, zero))
        const = pulled.value - least - (pulled.value.abs() + least.abs()) * gamma(8) - coef.abs() @ self._charge_x
        coef, const = coef.view(count, rows + 1, inputs), const.view(count, rows + 1)
        off = torch.cat([net.error[target], torch.bmm(weights[:, None], net.error[target][..., None])[..., 0]], 1)
        off[:, rows] += (weights * self._rows_size[target]).sum(1) * gamma(rows + 8)
        total = weights.sum(1, keepdim=True)
        most = torch.cat([torch.where(valid, limit[:, None], torch.inf), limit[:, None] * total], 1)
        room = most - const + (off + (most.abs() + const.abs()) * gamma(8)).nan_to_num() * INFLATE
        _narrow(hull, self._x, coef, room + coef.abs() @ self._size_x * gamma(inputs + 16) + UNDERFLOW)
        return (coef[:, :rows] * valid[..., None]).sum(1)

    def _initial(self, lower: Tensor, upper: Tensor) -> Tensor:
        slopes = torch.empty_like(lower)
        for layers, packed in self._net.alike:
            slopes[:, packed] = layers[0].relaxation.initial(lower[:, packed], upper[:, packed])
        return slopes

    # --- where things are ---

    def _of_layer(self, k: int) -> tuple[slice, slice]:
        """The columns of z and h."""
        at = self._net.layers[k].packed
        z, h = self._z.start, self._h.start
        return slice(z + at.start, z + at.stop), slice(h + at.start, h + at.stop)

    def _read(self, k: int) -> slice:
        """The columns that h of a layer is a form of: y, and z of the layers before."""
        return slice(self._y.start, self._z.start + self._net.layers[k].start)

    def _trunk_links(self, size: Tensor) -> _Links | None:
        """None where y is the input itself."""
        net, trunk = self._net, self._net.trunk
        if not trunk.node:
            return None
        assert net.charges is not None
        unit = torch.eye(trunk.count, dtype=torch.float64, device=self._device)
        done = walk(net.charges.graph, trunk.node, trunk.spread(unit), {}, 0, charge=net.charges.trunk)
        assert done.error is not None
        return _Links(done.at.flatten(1), done.const, done.error, size[self._x], size[self._y])

    def _layer_links(self, k: int, size: Tensor) -> _Links | None:
        """None where h is an entry of y."""
        net, at = self._net, self._net.layers[k].packed
        if at.stop <= net.direct:
            return None
        assert net.charges is not None
        forms = net.matrix[at, : net.base + at.start]
        _, h = self._of_layer(k)
        return _Links(forms[:, 1:], forms[:, 0], net.charges.before[at], size[self._read(k)], size[h])


class _Hull:
    """The intervals (domain, column) of a batch, narrowed in place; one turned inside out says that there is no point."""

    def __init__(self, lower: Tensor, upper: Tensor) -> None:
        self.lower, self.upper = lower, upper

    def meet(self, at: slice, lower: Tensor, upper: Tensor) -> None:
        """A NaN never wins."""
        torch.fmax(self.lower[:, at], lower, out=self.lower[:, at])
        torch.fmin(self.upper[:, at], upper, out=self.upper[:, at])

    def refute(self, where: Tensor) -> None:
        """No point at (domain,)."""
        self.lower[where, 0], self.upper[where, 0] = torch.inf, -torch.inf

    def write(self, places: Tensor, part: _Hull) -> None:
        self.lower[places], self.upper[places] = part.lower, part.upper

    @property
    def empty(self) -> Tensor:
        return (self.lower > self.upper).any(1)


class _Links:
    """w = A v + b up to `slack`, which covers the rounding of sums over intervals inside the root's."""

    def __init__(self, matrix: Tensor, const: Tensor, error: Tensor, size_v: Tensor, size_w: Tensor) -> None:
        self._matrix, self._absolute, self._const = matrix.mT.contiguous(), matrix.abs().mT.contiguous(), const
        self._slack = _slack(matrix, const.abs() + size_w, error, size_v)
        rows, columns = matrix.shape
        import os
        few = int(os.environ.get("FEW", "1000000"))
        matrix = torch.where(((matrix != 0).sum(1) <= few)[:, None], matrix, 0.0)
        degree = int((matrix != 0).sum(0).max()) if matrix.numel() else 0
        # By column, the rows that it is in: first those with a coefficient, as many as the fullest column has.
        self._row = (matrix != 0).mT.to(torch.int8).argsort(dim=1, descending=True, stable=True)[:, : max(1, degree)]
        coef = matrix.mT.gather(1, self._row)
        # A gap at the top of w is room above v where the coefficient is positive, room below it where it is negative.
        self._above = torch.where(coef < 0, self._row + rows, self._row).flatten()
        self._below = torch.where(coef < 0, self._row, self._row + rows).flatten()
        self._none = degree == 0
        self._share = up(1.0 / coef.abs())  # +inf where there is no coefficient: then any room is

    @property
    def entries(self) -> int:
        return self._row.numel() + 2 * self._const.numel()

    def forward(self, hull: _Hull, v: slice) -> tuple[Tensor, Tensor]:
        """Bounds of w."""
        lower, upper = hull.lower[:, v], hull.upper[:, v]
        middle = lower / 2 + upper / 2
        radius = torch.maximum(upper - middle, middle - lower)
        value, spread = middle @ self._matrix + self._const, radius @ self._absolute + self._slack
        return value - spread, value + spread

    def backward(self, hull: _Hull, v: slice, w: slice) -> None:
        """Narrow v by the bounds of w."""
        if self._none:
            return
        least, most = self.forward(hull, v)
        gap = torch.cat([hull.upper[:, w] - least, most - hull.lower[:, w]], 1) + self._slack.repeat(2)
        hull.refute((gap < 0).any(1))
        above = gap.index_select(1, self._above).view(len(gap), *self._share.shape).mul_(self._share).amin(2)
        below = gap.index_select(1, self._below).view(len(gap), *self._share.shape).mul_(self._share).amin(2)
        hull.meet(v, down(hull.upper[:, v] - below * OUT), up(hull.lower[:, v] + above * OUT))


    def pressure(self, hull: _Hull, v: slice, w: slice) -> Tensor:
        """(domain, column of v)."""
        least, most = self.forward(hull, v)
        high, low = hull.upper[:, w], hull.lower[:, w]
        tol = 1e-6 * (most - least)
        gap = torch.cat([torch.where(high < most - tol, high - least, torch.inf), torch.where(low > least + tol, most - low, torch.inf)], 1).clamp(min=0)
        span = (hull.upper[:, v] - hull.lower[:, v]).clamp(min=1e-30)[..., None]
        total = 0.0
        for index in (self._above, self._below):
            room = gap.index_select(1, index).view(len(gap), *self._share.shape)
            total = total + torch.exp2(-2 * room * self._share / span).nan_to_num(nan=0.0).sum(2)
        return total * (span[..., 0] > 1e-6)

    def shared(self, hull: _Hull, v: slice, weight: Tensor) -> Tensor:
        span = hull.upper[:, v] - hull.lower[:, v]
        return (span * weight[:, v]) @ self._absolute / (span @ self._absolute).clamp(min=1e-30)


def _narrow(hull: _Hull, v: slice, coef: Tensor, room: Tensor) -> None:
    """coef·v <= room, for coef (domain, row, column) and room (domain, row) with the rounding of the sum in it."""
    lower, upper = hull.lower[:, v], hull.upper[:, v]
    middle = lower / 2 + upper / 2
    radius = torch.maximum(upper - middle, middle - lower)
    size = coef.abs()
    gap = room - torch.bmm(coef, middle[..., None])[..., 0] + torch.bmm(size, radius[..., None])[..., 0]
    hull.refute((gap < 0).any(1))
    share = gap[..., None] / size  # without a coefficient any room, or no number where there is no gap either
    above = torch.where(coef > 0, share, torch.inf).amin(1)
    below = torch.where(coef < 0, share, torch.inf).amin(1)
    hull.meet(v, down(upper - below * OUT), up(lower + above * OUT))


def _slack(coef: Tensor, const: Tensor, error: Tensor, size: Tensor) -> Tensor:
    """What coef·v + const is off by: its own error, and the rounding of sums of |v| <= size."""
    terms = coef.shape[-1] + 16
    return (error + gamma(terms) * (coef.abs() @ size + const.abs())) * INFLATE + UNDERFLOW


def _hinge(hull: _Hull, h: slice, leak: Tensor) -> tuple[Tensor, Tensor]:
    """Bounds of z = max(h, a·h), 0 <= a <= 1, which rises with h."""
    lower, upper = hull.lower[:, h], hull.upper[:, h]
    least = torch.where(lower < 0, leak * lower * OUT - UNDERFLOW * (leak > 0), lower)
    most = torch.where(upper < 0, leak * upper / OUT, upper)
    return least, most


def _unhinge(hull: _Hull, z: slice, leak: Tensor) -> tuple[Tensor, Tensor]:
    """Bounds of h by those of z: below 0 they say nothing of a ReLU's input but that z cannot be there."""
    lower, upper = hull.lower[:, z], hull.upper[:, z]
    least = torch.where(lower <= 0, lower / leak * OUT, lower)  # −inf, or no number, for a ReLU
    most = torch.where(upper < 0, upper / leak / OUT, upper)
    return least, most


def _at(interval: Interval, index: Tensor) -> tuple[Tensor, Tensor]:
    return interval.lower.flatten()[index], interval.upper.flatten()[index]
