"""How many sub-domains a search would need, estimated from random descents of its tree (Knuth 1975).

A descent splits as the search would, bounds both children and goes on with one that is still open, chosen at random;
its weight is the number of open ones. The weights of all nodes met, averaged over the descents, are an estimate without
bias of the size of the tree, however large that is. So it says whether a property that stays open is a matter of speed
or of the bounds. Give instances as SET:ROW (rows of instances.csv from 1; a set is a folder or a name in
$NETPROOF_BENCHMARKS).
"""

from __future__ import annotations

import argparse
import statistics
from dataclasses import dataclass, replace

import options
import torch
from floor import describe
from instances import load, read_row
from tables import say, table
from torch import Tensor

from netproof.bounds.base import Bounder, Bounds, Clock
from netproof.bounds.domains import Domains, split
from netproof.bounds.neurons.root import Root
from netproof.branching.brancher import Brancher
from netproof.core.deadline import Deadline
from netproof.core.extras import CANDIDATES
from netproof.methods.build import build_method
from netproof.methods.device import resolve_device
from netproof.methods.registry import method_info
from netproof.numerics import generator, use_strict_float32
from netproof.problem.problem import Problem
from netproof.problem.reduce import reduce
from netproof.search.method import Method

COLUMNS = ["instance", "unstable", "open targets", "root bound", "depth", "sub-domains", "of one batch: least", "most"]


@dataclass(frozen=True)
class Tree:
    """The parts that shape it."""

    bounder: Bounder
    brancher: Brancher
    probes: int
    root: Root
    whole: Bounds  # one domain a target

    @classmethod
    def of(cls, problem: Problem, method: Method, device: torch.device) -> Tree:
        """Under the root with optimised slopes for every neuron, where the method has one."""
        bounder, zero = method.bounder, torch.zeros(len(problem.disjuncts), dtype=torch.float64, device=device)
        first = bounder.root(problem, zero, device, Deadline(), Clock())
        assert first is not None  # there is no deadline
        root = bounder.tighter(first[0], None, Deadline()) or first[0]
        whole = bounder.whole(root, zero, Deadline(), Clock())
        return cls(bounder, method.brancher, method.extras.probes, root, whole)

    @property
    def open_targets(self) -> Tensor:
        return (self.whole.domains.bound <= 0).nonzero()[:, 0]

    def ranked(self, bounds: Bounds) -> Domains:
        return replace(bounds.domains, candidates=self.brancher.choose(self.root, bounds, CANDIDATES))

    def children(self, domains: Domains) -> tuple[Bounds, Tensor]:
        """Both of each, bounded, and which are open (domain, 2). What cannot be split is left out by the caller."""
        halves = split(domains, self.brancher.reorder(self.root, domains, self.probes)[:, :1])
        zero = torch.zeros(len(halves), dtype=torch.float64, device=halves.bound.device)
        bounds = self.bounder.bound(self.root, halves, zero, Deadline(), Clock())
        return bounds, (bounds.domains.bound <= 0).view(-1, 2)


@torch.no_grad()
def estimate(tree: Tree, descents: int, seed: int) -> tuple[float, int]:
    """Sub-domains below the root over all open targets, and the deepest level met; `descents` for each target."""
    source = generator(seed)
    domains = tree.ranked(tree.whole.select(tree.open_targets.repeat(descents)))
    weight = torch.ones(len(domains), dtype=torch.float64)
    nodes, depth = 0.0, 0
    while True:
        able = (domains.candidates >= 0).any(1)  # a leaf is the LP's
        domains, weight = domains.select(able), weight[able.cpu()]
        if len(domains) == 0:
            return nodes, depth
        depth += 1
        nodes += 2 * float(weight.sum()) / descents
        bounds, open_ = tree.children(domains)
        open_ = open_.cpu()
        ways = open_.sum(1)
        either = (torch.rand(len(ways), generator=source) < 0.5).long()
        side = torch.where(ways == 2, either, open_[:, 1].long())
        alive = (ways > 0).nonzero()[:, 0]
        weight = (weight * ways)[alive]
        domains = tree.ranked(bounds.select((2 * alive + side[alive]).to(bounds.empty.device)))


def measure(given: argparse.Namespace, name: str, device: torch.device) -> list[str]:
    (problem, *_) = reduce(*load(read_row(name)))
    method = build_method(given.method, method_info(given.method).options(dict(given.set)), device)
    tree = Tree.of(problem, method, device)
    found = [estimate(tree, given.descents, given.seed + k) for k in range(given.repeats)]
    sizes = [size for size, _ in found]
    bound, targets = float(tree.whole.domains.bound.min()), len(tree.open_targets)
    cells = [name, str(tree.root.count), str(targets), f"{bound:.4g}", str(max(depth for _, depth in found))]
    row = [*cells, *(f"{size:.2g}" for size in (statistics.mean(sizes), min(sizes), max(sizes)))]
    say(" | ".join(row))
    return row


def arguments() -> argparse.Namespace:
    parser = options.Parser(description=__doc__)
    parser.add_argument("instances", nargs="+", metavar="SET:ROW")
    parser.add_argument("--method", default="beta", help="(default: beta)")
    parser.add_argument("--descents", type=options.positive, default=256, metavar="N", help="at once (default: 256)")
    parser.add_argument("--repeats", type=options.positive, default=4, metavar="R", help="batches of them (default: 4)")
    options.engine_options(parser)
    return parser.parse_args()


def main() -> int:
    given = arguments()
    device = resolve_device(given.device)
    use_strict_float32()
    if given.threads:
        torch.set_num_threads(given.threads)
    rows = [measure(given, name, device) for name in given.instances]
    print(table([COLUMNS, *rows]), f"{describe(device)}; {given.repeats} × {given.descents} descents", sep="\n\n")
    return 0


if __name__ == "__main__":
    options.run(main)
