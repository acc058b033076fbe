"""The root: confirmed bounds of every neuron on the whole input set, each unstable neuron with slopes of its own.

Layer by layer: intervals first, then a backward pass for the neurons these leave unstable, then optimised slopes for
those that are unstable still. A neuron's bound rests only on those of earlier layers, so making each as tight as it
gets, one layer after the other, loses nothing against doing all at once.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from netproof.bounds.interval import Intervals
from netproof.bounds.memory import rows_that_fit
from netproof.bounds.optimise import Params, Schedule, ascend
from netproof.bounds.region import Region
from netproof.bounds.relaxed import Relaxed, one_hot
from netproof.core.deadline import Deadline
from netproof.core.forms import Interval
from netproof.model.ops import Affine, Nonlinear
from netproof.numerics import float32_down, float32_up
from netproof.problem.problem import Problem, Rows


@dataclass(eq=False)
class Root:
    """The relaxed network in both precisions, with everything that holds on the whole input set."""

    problem: Problem
    device: torch.device
    rows: Rows
    search: Relaxed
    proof: Relaxed
    intervals: Intervals
    lower: list[Tensor]  # per layer (U_k,) float32, rounded outward
    upper: list[Tensor]
    slopes: list[Tensor]  # per layer (2, U_k or 1, U') float16: what its neurons' lower and upper bounds were got with
    bias: Tensor  # (U,) what h is when every nonlinear node before it and the input are 0

    @property
    def count(self) -> int:
        return self.search.count


def build_root(
    problem: Problem,
    device: torch.device,
    schedule: Schedule,
    deadline: Deadline,
    known: Root | None = None,
) -> Root | None:
    """Bound all neurons; `known` gives bounds that hold already, from a cheaper schedule.

    None when the deadline came first: from half a root nothing may be concluded.
    """
    region = Region.of(problem.input_set, device, torch.float64)
    graph = problem.graph.to(device, torch.float64)
    intervals = Intervals(graph, region)
    proof = Relaxed(graph, region, intervals.charge)
    narrow = Region.of(problem.input_set, device, torch.float32)
    search = Relaxed(problem.graph.to(device, torch.float32), narrow, None)
    root = Root(problem, device, problem.rows.to(device), search, proof, intervals, [], [], [], region.centre)
    found: dict[int, tuple[Tensor, Tensor] | None] = {}  # by the node refined; two nonlinear nodes may read one
    for node in graph.nodes:
        if isinstance(node.op, Nonlinear):
            (pre,) = node.inputs
            if pre not in found:
                found[pre] = _refine(root, pre, schedule, deadline, known)
            layers = len(search.layers)
            for relaxed in (search, proof):
                relaxed.add(node.index, pre, intervals.of[pre])
            if len(search.layers) > layers:
                _record(root, pre, found[pre])
        intervals.extend()
        if deadline.expired:
            return None
    root.bias = _bias(root)
    return root


def _record(root: Root, pre: int, found: tuple[Tensor, Tensor] | None) -> None:
    """Pack the bounds of the layer just added, and the slopes that gave them."""
    layer = root.search.layers[-1]
    bounds = root.intervals.of[pre]
    if found is None:
        root.slopes.append(_initial(root, layer.start).half().expand(2, 1, -1))
    else:
        places, slopes = found
        root.slopes.append(slopes[:, torch.searchsorted(places, layer.index)])
    root.lower.append(float32_down(bounds.lower.flatten()[layer.index]))
    root.upper.append(float32_up(bounds.upper.flatten()[layer.index]))


def _refine(
    root: Root, pre: int, schedule: Schedule, deadline: Deadline, known: Root | None
) -> tuple[Tensor, Tensor] | None:
    """Tighten the interval of node `pre` by backward bounds of its unstable neurons.

    Returns their places (n,) in the flattened node and the slopes (2, n, U') of their lower and upper bounds.
    """
    intervals = root.intervals
    found = intervals.of[pre]
    if known is not None and len(known.intervals.of) > pre:
        better = known.intervals.of[pre]
        found = Interval(found.lower.maximum(better.lower), found.upper.minimum(better.upper))
        intervals.tighten(pre, found)
    unstable = ((found.lower < 0) & (found.upper > 0)).flatten().nonzero()[:, 0]
    if len(unstable) == 0 or _intervals_are_tight(root, pre):
        return None
    graph = root.proof.graph
    rows = rows_that_fit(graph, pre, root.device, torch.float32, grad=schedule.steps > 0)
    lower, upper = found.lower.flatten().clone(), found.upper.flatten().clone()
    kept: list[Tensor] = []
    for places in unstable.split(max(1, rows // 2)):
        if deadline.expired:
            break
        slopes = _slopes_of(root, pre, places, schedule, deadline)
        value = _confirm(root, pre, places, slopes, deadline)
        lower[places] = lower[places].fmax(value.lower)
        upper[places] = upper[places].fmin(value.upper)
        kept.append(slopes.view(2, len(places), -1).half())
    intervals.tighten(pre, Interval(lower.view_as(found.lower), upper.view_as(found.upper)))
    return (unstable, torch.cat(kept, 1)) if not deadline.expired else None


def _intervals_are_tight(root: Root, pre: int) -> bool:
    """Whether `pre` is at most one mixing affine op away from the input, so that intervals lose nothing."""
    graph = root.proof.graph
    ops = [graph.nodes[i].op for i in graph.ancestors[pre]]
    mixing = sum(isinstance(op, Affine) and op.fan > 1 for op in ops)
    return mixing <= 1 and not any(isinstance(op, Nonlinear) for op in ops)


def _initial(root: Root, count: int) -> Tensor:
    """(U',) starting slopes of the first `count` packed neurons."""
    parts = [
        layer.relaxation.initial(low, high)
        for layer, low, high in zip(root.search.layers, root.lower, root.upper, strict=False)
    ]
    flat = torch.cat(parts) if parts else torch.zeros(0, device=root.device)
    return flat[:count]


def _slopes_of(root: Root, pre: int, places: Tensor, schedule: Schedule, deadline: Deadline) -> Tensor:
    """(2n, U') slopes: for the lower bounds of the n neurons, then for the upper ones."""
    start = _initial(root, root.search.count)[None].repeat(2 * len(places), 1)
    if schedule.steps == 0 or start.shape[1] == 0:
        return start
    lower, upper = [t[None] for t in root.lower], [t[None] for t in root.upper]
    both, signs = _both_sides(places, torch.float32)
    shape = root.search.graph.nodes[pre].shape

    def evaluate(params: Params, subset: Tensor | None) -> Tensor:
        at, sign = (both, signs) if subset is None else (both[subset], signs[subset])
        coef = one_hot(at, sign, shape)[None]
        return root.search.bound(pre, coef, lower, upper, params[0][None])[0]

    def project(params: Params) -> Params:
        return [project_slopes(root.search, params[0])]

    settled = torch.zeros(2 * len(places), device=root.device)  # a sign that is known settles a neuron
    return ascend(evaluate, project, [start], schedule, settled, deadline)[1][0]


def _confirm(root: Root, pre: int, places: Tensor, slopes: Tensor, deadline: Deadline) -> Interval:
    """The bounds that these slopes give, in float64 with rounding charged; infinite past the deadline."""
    lower, upper = [t.double()[None] for t in root.lower], [t.double()[None] for t in root.upper]
    both, signs = _both_sides(places, torch.float64)
    shape = root.proof.graph.nodes[pre].shape
    rows = rows_that_fit(root.proof.graph, pre, root.device, torch.float64, grad=False)
    with torch.no_grad():
        values = [
            torch.full_like(sign, -torch.inf)
            if deadline.expired
            else root.proof.bound(pre, one_hot(at, sign, shape)[None], lower, upper, slope[None].double())[0]
            for at, sign, slope in zip(both.split(rows), signs.split(rows), slopes.split(rows), strict=True)
        ]
    value = torch.cat(values)
    return Interval(value[: len(places)], -value[len(places) :])


def _both_sides(places: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    signs = torch.ones(len(places), device=places.device, dtype=dtype)
    return torch.cat([places, places]), torch.cat([signs, -signs])


def project_slopes(relaxed: Relaxed, slopes: Tensor) -> Tensor:
    """Each layer's slopes into the range that is sound; (..., U') with U' a prefix of the packed neurons."""
    if len({layer.relaxation for layer in relaxed.layers}) == 1:
        return relaxed.layers[0].relaxation.project(slopes)
    parts = [layer.relaxation.project(slopes[..., layer.packed]) for layer in relaxed.layers]
    return torch.cat(parts, -1)


def _bias(root: Root) -> Tensor:
    graph = root.search.graph
    values: list[Tensor] = []
    for node in graph.nodes:
        if isinstance(node.op, Affine):
            values.append(node.op.forward(*(values[i] for i in node.inputs)))
        else:
            values.append(torch.zeros(1, *node.shape, device=root.device))
    parts = [values[layer.pre].flatten()[layer.index] for layer in root.search.layers]
    return torch.cat(parts) if parts else torch.zeros(0, device=root.device)
