"""The root: confirmed bounds of every neuron on the whole input set, as tight as a schedule asks for.

Layer by layer: intervals first, affine forms where they are cheap, a backward pass for the neurons these leave
unstable, then optimised slopes of its own for each that is unstable still. A neuron's bound rests only on those of
earlier layers, so making each as tight as it gets, one layer after the other, loses nothing against doing all at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache, partial

import torch
from torch import Tensor

from netproof.bounds.ascent import Schedule
from netproof.bounds.condensed.condenser import Condenser, search_copy
from netproof.bounds.condensed.network import Condensed
from netproof.bounds.condensed.single import Single, single_first
from netproof.bounds.linear.graph_net import GraphNet
from netproof.bounds.linear.interval import Intervals
from netproof.bounds.linear.layers import Layer, split_at_zero
from netproof.bounds.linear.lined_graph import LinedGraph
from netproof.bounds.linear.memory import rows_that_fit
from netproof.bounds.linear.region import Region
from netproof.bounds.net import Net
from netproof.bounds.neurons import worth
from netproof.bounds.neurons.each import ALONE, Beside, slopes_to_start
from netproof.bounds.neurons.refine import Refined, refine, tighten_by
from netproof.bounds.planes.first import reads_of
from netproof.bounds.planes.reads import Reads
from netproof.bounds.planes.rows import RowPlanes
from netproof.bounds.record import Source
from netproof.bounds.scope import LayerScope
from netproof.bounds.windows.plan import walked
from netproof.bounds.zonotope.forward import Forward
from netproof.core.deadline import Deadline, DeadlineExpired
from netproof.core.forms import Interval
from netproof.model.graph import Graph
from netproof.model.ops import Affine, Nonlinear
from netproof.numerics import float32_outward
from netproof.problem.problem import Problem, Rows, TargetBoxes


@dataclass(frozen=True)
class SlopeRule:
    """How lower lines begin, and whether splits leave them free."""

    parallel: bool = False  # whether slopes start parallel to the upper lines, or as CROWN has them
    free_splits: bool = False  # whether they keep their slopes where a split holds h on one side


CROWNS = SlopeRule()


@dataclass(frozen=True, eq=False)
class Root:
    """The relaxed network in both precisions, with everything that holds on the whole input set."""

    problem: Problem
    device: torch.device
    rows: Rows
    graph32: LinedGraph  # to search with
    graph64: LinedGraph  # to prove with
    intervals: Intervals
    lower: list[Tensor]  # per layer (U_k,) float32, rounded outward
    upper: list[Tensor]
    slopes: list[Tensor]  # per layer (2, U_k or 1, U') float16: what its neurons' lower and upper bounds were got with
    sources: list[Tensor]  # per layer (2, U_k) int8: the `Source` of each neuron's lower and upper bound
    condenser: Condenser
    parallel: bool = False  # whether slopes start parallel to the upper lines
    members: tuple[Intervals, ...] = ()  # of joined problems, what holds on each one's own box
    planes: RowPlanes | None = None  # of the targets, above the first layer; None: there are none
    planed: Tensor | None = None  # (target, U): slopes to start from with planes
    _bias: list[Tensor] = field(default_factory=list)  # per layer (U_k,)

    def take_in(self, layer: Layer) -> None:
        """Note what branching needs to know of a layer's neurons."""
        self._bias.append(_biases(self.graph32.graph, self.device)[layer.pre][layer.index])

    @property
    def layers(self) -> list[Layer]:
        return self.graph32.layers

    @property
    def count(self) -> int:
        return self.graph32.count

    @property
    def packed_bounds(self) -> Interval:
        """Return the bounds of the packed neurons, (U,) each."""
        none = torch.zeros(0, device=self.device)
        return Interval(torch.cat([none, *self.lower]), torch.cat([none, *self.upper]))

    @property
    def confirmed(self) -> tuple[Intervals, ...]:
        """Return the bounds of all nodes, on the input set or on the box of each member."""
        return self.members or (self.intervals,)

    def bounds_of(self, target: Tensor) -> Interval:
        """Return the bounds of the packed neurons on the targets' own sets: (n, U), or (1, U) where all share one."""
        if self.own is None:
            lower, upper = self.packed_bounds
            return Interval(lower[None], upper[None])
        home = self.own.home[target]
        return Interval(*(side[home] for side in self._own_bounds))

    @cached_property
    def own(self) -> TargetBoxes | None:
        """Return the boxes that targets have for themselves, on the device."""
        return None if self.problem.own is None else self.problem.own.to(self.device)

    @cached_property
    def _own_bounds(self) -> Interval:
        """Return by member the bounds of the packed neurons, (member, U)."""
        none = torch.zeros(0, device=self.device)
        each = [[_packed(member.of[layer.pre], layer) for layer in self.layers] for member in self.members]
        lower = torch.stack([torch.cat([none, *(own.lower for own in member)]) for member in each])
        return Interval(lower, torch.stack([torch.cat([none, *(own.upper for own in member)]) for member in each]))

    @property
    def later(self) -> int:
        """Return how many neurons a tighter root bounds again: those after the first layer, for every member."""
        return max(1, len(self.members)) * sum(layer.count for layer in self.layers[1:])

    @property
    def bias(self) -> Tensor:
        """Return (U,): what h is when every nonlinear node before it and the input are 0."""
        return torch.cat([self.graph32.region.centre.flatten()[:0], *self._bias])

    @property
    def valid(self) -> Tensor:
        """Return (target, row) bool: which rows are no padding."""
        return self.rows.valid

    @property
    def points(self) -> Tensor:
        """Return (1, U): where neurons were split, nowhere yet; (1, 0) where all are split at 0 only."""
        return torch.zeros(1, 0 if split_at_zero(self.layers) else self.count, device=self.device)

    @cached_property
    def net64(self) -> Net:
        """Return the network to prove with: condensed, or the graph itself where that would not fit."""
        return self._planed(self.condensed64) if self.condenses else GraphNet.whole(self.graph64, self.rows)

    @cached_property
    def net32(self) -> Net:
        """Return the same to search with."""
        return self._planed(self.condensed32) if self.condenses else GraphNet.whole(self.graph32, self.rows)

    def _planed(self, net: Net) -> Net:
        return net if self.planes is None else self.planes.on(net)

    def about(self, problem: Problem) -> Root:
        """Return the same with the targets of another problem on the same input set, and no planes."""
        return replace(self, problem=problem, rows=problem.rows.to(self.device), planes=None, planed=None)

    def with_planes(self, planes: RowPlanes, slopes: Tensor) -> Root:
        """Return the same with planes of targets, and slopes (target, U) to start from with them."""
        new = replace(self, planes=planes, planed=slopes)
        kept = ("reads", "condenses", "condensed64", "condensed32")  # what has nothing to do with planes
        new.__dict__.update({name: self.__dict__[name] for name in kept if name in self.__dict__})
        return new

    @cached_property
    def reads(self) -> Reads | None:
        """Return what the first layer reads of the input, for planes above it; None where there can be none."""
        return reads_of(self.graph64) if self.condenses and self.own is None else None

    @cached_property
    def single(self) -> Single | None:
        """Return the network to prove with in float32 first; None where nothing is gained by that."""
        single = single_first(self.net64, self.net32)
        return single if self.planes is None else self.planes.on_single(single)

    def climbs_that_fit(self) -> int:
        """Return how many bounds may be climbed at once; the condensed network need not be there for it."""
        return self.condenser.climbs_that_fit() if self.condenses else self.net32.climbs_that_fit()

    def by_graph(self) -> LayerScope:
        """Return the whole problem with the graph itself as its network: nothing is to be made for that."""
        search, proof = (GraphNet.whole(lined, self.rows) for lined in (self.graph32, self.graph64))
        settled = torch.zeros(len(self.valid), dtype=torch.float64, device=self.device)
        return LayerScope(self.device, self.bias, self.valid, search, proof, settled)

    @property
    def graph_pays(self) -> bool:
        """Say whether one pass of the graph for all targets fits and is little beside condensing it."""
        if self.own is not None or not self.count:
            return False
        little = worth.LITTLE * len(self.valid) * self.graph64.graph.entries
        return self.fits and self.condenser.work >= max(worth.CONDENSING_WORTH, little)

    @property
    def fits(self) -> bool:
        """Say whether all targets fit into one pass of the graph."""
        graph = self.graph64.graph
        return len(self.valid) <= rows_that_fit(graph, graph.output.index, self.device, torch.float64, grad=False)

    @cached_property
    def condenses(self) -> bool:
        """Say whether the condensed network fits; asked once, so that both precisions agree."""
        return self.condenser.fits

    def is_ready(self, deadline: Deadline) -> bool:
        """Make what the network to prove with takes long for; False where the deadline came before the end of it."""
        try:
            if self.condenses:
                self.condenser.catch_up(deadline)
        except DeadlineExpired:
            return False
        return True

    @cached_property
    def condensed64(self) -> Condensed:
        """Return the network of the unstable neurons alone, to prove with."""
        return self.condenser.condensed(self.intervals.of, self.rows)

    @cached_property
    def condensed32(self) -> Condensed:
        """Return the same to search with."""
        return search_copy(self.condensed64, self.graph32)

    def nets_before(self, pre: int, *, by_graph: bool) -> NetsBefore:
        """Return what bounds of node `pre` rest on, as far as the layers before it are known."""
        if by_graph or not self.condenser.fits:
            proof = GraphNet.before(self.graph64, pre)
            return NetsBefore(GraphNet.before(self.graph32, pre), proof, partial(proof.at_places, pre))
        condensed = self.condenser.condensed(self.intervals.of)
        return NetsBefore(search_copy(condensed, self.graph32), condensed, partial(self.condenser.neurons, pre))


@dataclass(frozen=True, eq=False)
class NetsBefore:
    """The network before a node, to search and to prove with, and the node's neurons as forms over it."""

    search: Net
    proof: Net
    forms: Callable[[Tensor], tuple[Tensor, Tensor]]  # at places (n,): (n, columns), float64, and errors (n,)


def build_root(
    problem: Problem,
    device: torch.device,
    schedule: Schedule,
    deadline: Deadline,
    earlier: Sequence[Intervals] = (),
    beside: Beside = ALONE,
    *,
    slopes: SlopeRule = CROWNS,
) -> Root | None:
    """Bound all neurons; `earlier` gives bounds that hold already.

    Of joined problems, on the box of each; what is linear on all of them stays unpacked. None when the deadline came
    first: from half a root nothing may be concluded.
    """
    if deadline.expired:
        return None
    members = []
    for i, part in enumerate([] if problem.own is None else problem.apart()):
        own = Beside(beside.deepen)  # nothing is split yet
        member = build_root(part, device, schedule, deadline, earlier[i : i + 1], own, slopes=slopes)
        if member is None:
            return None
        members.append(member.intervals)
    root = _begun(problem, device, tuple(members), slopes)
    forward = None if earlier else Forward(root.intervals)

    def refined(pre: int) -> Refined:
        if members:
            return _joined(root, pre)
        return refine(root, pre, forward, schedule, deadline, earlier, beside)

    return _filled(root, refined, deadline)


def forward_root(problem: Problem, device: torch.device, deadline: Deadline) -> Root | None:
    """Bound all neurons by affine forms of the nodes alone; None where that is not worth it, too much, or too late.

    One pass for each input that varies, whatever the number of neurons: the cheapest bounds that are better than
    intervals, so that there are some early.
    """
    graph = problem.graph
    pres = sorted({graph.nodes[i].inputs[0] for i in graph.nonlinear})
    neurons = sum(graph.nodes[pre].size for pre in pres)
    if problem.own is not None or neurons * graph.entries // worth.OPEN < worth.FORWARD_FIRST or not pres:
        return None
    backward = sum(graph.nodes[pre].size * walked(graph, pre) for pre in pres) // worth.OPEN
    if backward < worth.FORWARD_FIRST:
        return None
    root = _begun(problem, device)
    forward = Forward(root.intervals)
    if forward.cost(pres[-1]) > backward or not all(forward.fits(i) for i in range(pres[-1] + 1)):
        return None

    def refined(pre: int) -> Refined | None:
        sources = torch.zeros(2, graph.nodes[pre].size, dtype=torch.int8, device=device)
        better = forward.bounds(pre, deadline)
        if better is None:
            return None
        tighten_by(root.intervals, pre, better, Source.FORWARD, sources)
        return Refined(sources)

    return _filled(root, refined, deadline)


def _begun(
    problem: Problem,
    device: torch.device,
    members: tuple[Intervals, ...] = (),
    slopes: SlopeRule = CROWNS,
) -> Root:
    """Return a root that knows of no neuron yet."""
    region = Region.of(problem.input_set, device, torch.float64)
    graph = problem.graph.to(device, torch.float64)
    intervals = Intervals(graph, region)
    proof = LinedGraph(graph, region, intervals.charge, slopes.free_splits)
    narrow = Region.of(problem.input_set, device, torch.float32)
    search = LinedGraph(problem.graph.to(device, torch.float32), narrow, None)
    rows, condenser = problem.rows.to(device), Condenser(proof)
    return Root(problem, device, rows, search, proof, intervals, [], [], [], [], condenser, slopes.parallel, members)


def _filled(root: Root, refined: Callable[[int], Refined | None], deadline: Deadline) -> Root | None:
    """Bound node after node, refined where a nonlinear one reads it; None past the deadline, or where that has none."""
    found: dict[int, Refined] = {}  # by the node refined; two nonlinear nodes may read one
    for node in root.graph64.graph.nodes:
        if isinstance(node.op, Nonlinear):
            (pre,) = node.inputs
            if pre not in found:
                better = refined(pre)
                if better is None:
                    return None
                found[pre] = better
            layers = len(root.layers)
            root.graph64.add(node.index, pre, root.intervals.of[pre])
            root.graph32.add_as(root.graph64, node.index)
            if len(root.layers) > layers:
                _record(root, pre, found[pre])
        root.intervals.extend(deadline)
        if deadline.expired:
            return None
    return root


def _record(root: Root, pre: int, found: Refined) -> None:
    """Pack the bounds of the layer just added, and the slopes that gave them."""
    layer = root.graph32.layers[-1]
    bounds = root.intervals.of[pre]
    root.sources.append(found.sources[:, layer.index])
    if found.places is None or found.slopes is None:
        root.slopes.append(slopes_to_start(root, layer.start).half().expand(2, 1, -1))
    else:
        places = layer.index if found.first is None else found.first[layer.index]
        own = found.slopes[:, torch.searchsorted(found.places, places)]
        # Of two nonlinear nodes that read one, the second comes after neurons that its own do not depend on.
        rest = slopes_to_start(root, layer.start)[own.shape[2] :].half().expand(2, layer.count, -1)
        root.slopes.append(torch.cat([own, rest], 2))
    packed = _packed(bounds, layer)
    root.lower.append(packed.lower)
    root.upper.append(packed.upper)
    root.take_in(layer)


def _joined(root: Root, pre: int) -> Refined:
    """Replace the interval of node `pre` by the smallest one that holds on the box of every member."""
    lower = torch.stack([member.of[pre].lower for member in root.members]).amin(0)
    upper = torch.stack([member.of[pre].upper for member in root.members]).amax(0)
    root.intervals.tighten(pre, Interval(lower, upper))
    return Refined(torch.full((2, lower.numel()), Source.EARLIER, dtype=torch.int8, device=root.device))


def _packed(bounds: Interval, layer: Layer) -> Interval:
    """Return the bounds of a layer's neurons (U_k,) out of those of its node, rounded outward to what is kept."""
    lower, upper = (side[layer.index] for side in bounds.flat)
    return Interval(*float32_outward(lower, upper))


@lru_cache(maxsize=4)
def _biases(graph: Graph, device: torch.device) -> list[Tensor]:
    """Return by node, flattened: its value with the input and every nonlinear node at 0."""
    values: list[Tensor] = []
    for node in graph.nodes:
        if isinstance(node.op, Affine):
            values.append(node.op.forward(*(values[i] for i in node.inputs)))
        else:
            values.append(torch.zeros(1, *node.shape, device=device))
    return [value.flatten() for value in values]
