"""The paper's Figure 2, on a network of our own: bounds, optimised bounds, and the tree of splits, all computed.

The paper's weights stand only in its drawing. This network has the same shape (two inputs, two layers of two ReLUs,
one output, f > 0 to be shown), small weights that can be checked by hand, and shows the same: with the first slopes
nothing is proved, optimised slopes tighten the second layer's bounds and f's, and a few splits finish the proof. The
second tree is Appendix A.1's counterexample, f = relu(x) − relu(x): there the linear bounds of two leaves stay at −1
for ever, and only the LP sees that the leaves are a single point.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from netproof.bounds.base import Clock
from netproof.bounds.domains import split
from netproof.bounds.linear.interval import interval_bounds
from netproof.bounds.linear.region import Region
from netproof.bounds.lirpa import Lirpa
from netproof.branching.babsr import Babsr
from netproof.core.deadline import Deadline
from netproof.model.affine import Linear
from netproof.model.graph import Graph, Node
from netproof.model.nonlinear import Relu
from netproof.model.ops import Input
from netproof.paper.figures.network_drawing import Layer, draw_network
from netproof.paper.figures.tree import TreeNode, grow
from netproof.paper.figures.tree_drawing import draw_tree, tree_height
from netproof.paper.tables.drawing import Panel
from netproof.paper.tables.output import Output, shown
from netproof.problem.problem import InputSet, Problem, Rows
from netproof.report.page import Section, Table
from netproof.search.leaf import LeafLP

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# f on [−1, 1]²; its least value is 0.25.
LAYERS: tuple[Layer, ...] = (
    (((1.0, -1.5), (1.0, -0.5)), (0.0, 0.0)),
    (((-0.5, 1.5), (2.0, -2.0)), (0.5, -1.0)),
    (((-1.5, -2.0),), (4.5,)),
)
# Appendix A.1: f = relu(x) − relu(x) on [−1, 1], asked to be above −OFFSET: f is 0, so that f > 0 would be wrong.
OFFSET = 0.001
CONFLICT: tuple[Layer, ...] = ((((1.0,), (1.0,)), (0.0, 0.0)), (((1.0, -1.0),), (OFFSET,)))
CPU = torch.device("cpu")
NEVER = Deadline()
FIXED, OPTIMISED = Lirpa(root_steps=0, neuron_steps=0), Lirpa(root_steps=100, neuron_steps=100)


@dataclass(frozen=True)
class Stage:
    """One way of bounding: (lower, upper) of every pre-activation by layer, and what is proved of f."""

    name: str
    neurons: tuple[tuple[tuple[float, float], ...], ...]
    bound: float


@dataclass(frozen=True)
class Example:
    stages: tuple[Stage, ...]
    tree: list[TreeNode]
    minimum: float  # the least LP value over the leaves with every neuron's sign fixed: exact
    conflict: list[TreeNode]


def network(layers: Sequence[Layer]) -> Graph:
    """Build a network of linear layers with a ReLU between each two."""
    inputs = len(layers[0][0][0])
    nodes = [Node(0, Input(), (), (1, inputs), "x")]
    for k, (weight, bias) in enumerate(layers):
        if k:
            nodes.append(Node(len(nodes), Relu(), (len(nodes) - 1,), nodes[-1].shape, f"g{k}"))
        op = Linear(torch.tensor(weight, dtype=torch.float64), torch.tensor(bias, dtype=torch.float64))
        nodes.append(Node(len(nodes), op, (len(nodes) - 1,), (1, len(bias)), f"h{k + 1}"))
    return Graph(tuple(nodes))


def problem_of(layers: Sequence[Layer]) -> Problem:
    """Make the problem f > 0 on [−1, 1]^n, f being the network of these layers."""
    graph = network(layers)
    box = torch.ones(graph.input.shape, dtype=torch.float64)
    one = torch.ones(1, 1, dtype=torch.float64)
    rows = Rows(one[None], torch.zeros_like(one), torch.zeros_like(one).bool(), one.bool())
    return Problem(graph, InputSet(-box, box), rows, (0,))


def compute() -> Example:
    problem = problem_of(LAYERS)
    never = torch.full((1,), torch.inf, dtype=torch.float64)
    found = [bounder.root(problem, never, CPU, NEVER, Clock()) for bounder in (FIXED, OPTIMISED)]
    (first, plain), (root, best) = (pair for pair in found if pair is not None)
    intervals = interval_bounds(problem.graph, Region.of(problem.input_set, CPU, torch.float64)).of
    stages = (
        Stage("intervals", _neurons(problem, intervals), float(intervals[-1].lower)),
        Stage("LiRPA, first slopes", _neurons(problem, first.intervals.of), float(plain.domains.bound)),
        Stage("LiRPA, optimised slopes", _neurons(problem, root.intervals.of), float(best.domains.bound)),
    )
    leaves = split(best.domains, torch.arange(root.count)[None])
    least = float(LeafLP(root, 1).decide(leaves, NEVER).bound.min())
    return Example(stages, grow(root, best, Lirpa(), Babsr()), least, conflict())


def conflict() -> list[TreeNode]:
    """Grow the tree of Appendix A.1: both neurons split, each leaf bounded by itself."""
    found = OPTIMISED.root(problem_of(CONFLICT), torch.zeros(1, dtype=torch.float64), CPU, NEVER, Clock())
    assert found is not None
    return grow(*found, Lirpa(), Babsr(), every=True)


def _neurons(
    problem: Problem, intervals: Sequence[tuple[torch.Tensor, torch.Tensor]]
) -> tuple[tuple[tuple[float, float], ...], ...]:
    graph = problem.graph
    layers = [intervals[graph.nodes[node].inputs[0]] for node in graph.nonlinear]
    return tuple(tuple(zip(low.flatten().tolist(), high.flatten().tolist(), strict=True)) for low, high in layers)


def example(out: str | Path) -> Path:
    """Write example.{csv,png,pdf,html} and example-tree.csv; return the path of the page."""
    found = compute()
    output = Output.at(out, "example")
    output.csv(("stage", "quantity", "lower", "upper"), _bound_rows(found))
    rows = [
        (name, n.number, n.parent, n.neuron, n.side, n.bound, n.lp, n.split_on, n.proved_by)
        for name, tree in (("Figure 2", found.tree), ("Appendix A.1", found.conflict))
        for n in tree
    ]
    output.csv(("tree", "node", "parent", "neuron", "side", "bound", "lp", "split_on", "proved_by"), rows, "tree")
    drawing, bars, tree, conflict = ([picture] for picture in output.panels(_panels(found)))
    sections = [
        Section("The network", items=_network_words(), pictures=drawing),
        Section("Bounds", _bounds_words(found), tables=[_bounds_table(found)], pictures=bars),
        Section("The tree of splits", _tree_words(found), tables=[_tree_table(found.tree)], pictures=tree),
        Section("Where the LP is needed", CONFLICT_WORDS, tables=[_tree_table(found.conflict)], pictures=conflict),
    ]
    return output.page("A two-layer example", sections, "In the manner of the paper's Figure 2, on our own weights.")


CONFLICT_WORDS = (
    f"Appendix A.1: f = relu(x) − relu(x) is 0 everywhere; asked is f > −{OFFSET:g} on [−1, 1], so every number is one"
    f" of f + {OFFSET:g}. With both ReLUs split, two of the four leaves have a linear bound of −1 + {OFFSET:g}, and no"
    " slope changes that: the splits themselves are not in the bound. With closed halves those leaves are the point"
    " x = 0, where the LP gives the true value. (The search itself is done sooner: here every sub-domain is split to"
    " the end and bounded by itself, as the paper argues.)"
)
CONFLICT_NOTE = f"All values are of f + {OFFSET:g}: asked is f > −{OFFSET:g},\nas f is 0 and f > 0 would not hold."


def _network_words() -> list[str]:
    names = ("h1 = W1·x + b1", "h2 = W2·relu(h1) + b2", "f = W3·relu(h2) + b3")
    said = [
        f"{name} with W = {[list(row) for row in weight]}, b = {list(bias)}"
        for name, (weight, bias) in zip(names, LAYERS, strict=True)
    ]
    return [
        "The weights of the paper's example are in its drawing only, so these are our own: the same shape, and picked "
        "from random ones such that no bound proves the whole set and two splits do.",
        *said,
        "x in [−1, 1]²; to show: f(x) > 0.",
    ]


def _bound_rows(found: Example) -> list[tuple[str, str, float, float | None]]:
    rows: list[tuple[str, str, float, float | None]] = []
    for stage in found.stages:
        for k, layer in enumerate(stage.neurons, 1):
            rows += [(stage.name, f"h{k}_{j}", low, high) for j, (low, high) in enumerate(layer, 1)]
        rows.append((stage.name, "f", stage.bound, None))
    return [*rows, ("exact", "f", found.minimum, None)]


def _bounds_table(found: Example) -> Table:
    names = [f"h{k}_{j}" for k, layer in enumerate(found.stages[0].neurons, 1) for j in range(1, len(layer) + 1)]
    rows = [
        (
            stage.name,
            *(f"[{low:.3f}, {high:.3f}]" for layer in stage.neurons for low, high in layer),
            f"≥ {stage.bound:.3f}",
        )
        for stage in found.stages
    ]
    return Table(("", *names, "f"), [*rows, ("exact", *("",) * len(names), f"{found.minimum:.3f}")])


def _bounds_words(found: Example) -> str:
    first, optimised = found.stages[1].bound, found.stages[2].bound
    return (
        f"With the slopes that CROWN starts from f ≥ {first:.3f}; optimised slopes, which also tighten the bounds of"
        f" h2, give f ≥ {optimised:.3f}. Neither proves f > 0; the least value of f is {found.minimum:.3f}."
    )


def _tree_words(found: Example) -> str:
    cuts = [str(n.split_on) for n in found.tree if n.split_on is not None]
    leaves = [n for n in found.tree if n.split_on is None]
    return (
        f"BaBSR's score splits {', then '.join(cuts)}. Every one of the {len(leaves)} leaves is proved"
        f" ({', '.join(sorted({n.proved_by for n in leaves}))}). Beside each bound stands the LP's value, which"
        " also has the splits as constraints; “empty” where no x satisfies them."
    )


def _tree_table(tree: Sequence[TreeNode]) -> Table:
    def value(number: float) -> str:
        return "empty" if number == float("inf") else shown(number, 3)

    rows = [
        (
            str(n.number),
            "whole set" if n.neuron is None else f"{n.neuron} {n.side} in {n.parent}",
            "split on " + str(n.split_on)
            if n.split_on is not None
            else f"proved by {n.proved_by}"
            if n.proved_by
            else "open",
            value(n.bound),
            value(n.lp),
        )
        for n in tree
    ]
    return Table(("node", "sub-domain", "then", "linear bound", "LP"), rows, names=3)


def _panels(found: Example) -> list[Panel]:
    bounds = "Bounds of the four pre-activations in three stages: intervals, first slopes, optimised slopes"
    drawn = "The network from its two inputs to f: each edge with its weight, each neuron with its bias"
    return [
        Panel("The network", drawn, partial(draw_network, layers=LAYERS), grid=False),
        Panel("Bounds of the neurons", bounds, partial(_draw_bounds, stages=found.stages)),
        Panel(
            "Tree of splits",
            _tree_words(found),
            partial(draw_tree, nodes=found.tree),
            height=tree_height(found.tree),
            grid=False,
        ),
        Panel(
            "Appendix A.1: f = relu(x) − relu(x)",
            CONFLICT_WORDS,
            partial(draw_tree, nodes=found.conflict, note=CONFLICT_NOTE),
            height=tree_height(found.conflict, CONFLICT_NOTE),
            grid=False,
        ),
    ]


def _draw_bounds(axes: Axes, stages: Sequence[Stage]) -> None:
    names = [f"h{k}_{j}" for k, layer in enumerate(stages[0].neurons, 1) for j in range(1, len(layer) + 1)]
    styles = (("#999999", 0.15), ("#d55e00", 0.1), ("#0072b2", 0.05))
    for row, (stage, (colour, height)) in enumerate(zip(stages, styles, strict=True)):
        lows, highs = zip(*(span for layer in stage.neurons for span in layer), strict=True)
        lengths = [high - low for low, high in zip(lows, highs, strict=True)]
        at = [place + 0.24 * (row - 1) for place in range(len(names))]
        # A bar, for a thick line has caps beyond its ends.
        axes.barh(at, lengths, height, left=lows, color=colour, label=stage.name)
    axes.use_sticky_edges = False  # else the longest ends on the frame, as if it went on
    axes.axvline(0, color="black", linewidth=0.8)
    axes.set_yticks(range(len(names)), names)
    axes.set(xlabel="pre-activation, from lower to upper bound", ylim=(len(names) + 0.75, -0.6))
    axes.legend(loc="lower center", ncols=1)
