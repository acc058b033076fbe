"""Sub-domains labelled by strong branching, for training the graph network, from boxes that no measurement uses.

A box is an image, a target and a radius. Images are the centres of the boxes of the given sets of instances, their
mirror images where they are pictures, and mixtures of two; an image number that occurs in an excluded set is left out.
The radius is where a cheap bound fails by a chosen share of the margin: then the root decides nothing, and a search of
some hundred sub-domains does. Such a search is begun, and of some of its sub-domains likely and unlikely neurons are
split, one at a time: what the bounds of both children gain is the label.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from instances import Instance, load
from torch import Tensor

from netproof.bounds.base import Bounder, Bounds, Clock
from netproof.bounds.domains import Domains, split
from netproof.bounds.linear.layers import splittable
from netproof.bounds.lirpa import TIGHT
from netproof.bounds.neurons.root import Root
from netproof.branching.babsr import Babsr
from netproof.branching.brancher import Brancher
from netproof.branching.minimiser import at_minimiser
from netproof.core.batch import concatenate
from netproof.core.deadline import Deadline
from netproof.errors import UsageError
from netproof.model.graph import Graph
from netproof.paper.rivals.gnn.features import features, leaks
from netproof.paper.rivals.gnn.net import Links
from netproof.paper.rivals.gnn.worth import gains
from netproof.problem.problem import InputSet, Problem, Rows
from netproof.search.frontier import Frontier

NEVER = Deadline(None)
CANDIDATES = 12  # as in the search: only these are bounded again after a split
QUICK = replace(TIGHT, root_steps=10, neuron_steps=0)
HALVINGS = 8  # of the radius
MOST_RADIUS = 0.08  # of the spread of an image's values


@dataclass(frozen=True)
class Image:
    graph: Graph
    x: Tensor  # (*input) float64
    held_out: bool


@dataclass(frozen=True, eq=False)
class Labelled:
    """Sub-domains of one root, on the CPU."""

    links: Links
    features: Tensor  # (n, U, COUNT) float16
    tried: Tensor  # (n, K) int64: the neurons that were split, −1 past the last
    gains: Tensor  # (n, K, 2) float32: what each child gains over more steps without a split; active, inactive
    babsr: Tensor  # (n,) int64: that rule's choice, one of those tried
    held_out: bool

    def __len__(self) -> int:
        return len(self.features)


def numbers(sets: Iterable[Instance]) -> set[str]:
    """The image numbers in the names of properties."""
    return {found[1] for instance in sets if (found := re.search(r"img(\d+)", instance.vnnlib.name))}


def images(sets: Sequence[Instance], excluded: set[str], every: int) -> list[Image]:
    """The centres of the sets' boxes, and their mirror images. One in `every` is held out, with its mirror image."""
    graphs: dict[str, Graph] = {}
    found: list[Image] = []
    for i, instance in enumerate(one for one in sets if not numbers([one]) & excluded):
        network, property = load(instance)
        graph = graphs.setdefault(network.sha256, network.graph)
        box = property.disjuncts[0].box
        centre = [(float(low) + float(high)) / 2 for low, high in zip(box.lower, box.upper, strict=True)]
        x = torch.tensor(centre, dtype=torch.float64).view(graph.input.shape)
        held_out = i % every == every - 1
        found.append(Image(graph, x, held_out))
        if x.dim() >= 3:
            found.append(Image(graph, x.flip(-1), held_out))
    if not found:
        raise UsageError("no instances to learn from are left", remedy="exclude fewer sets")
    return found


def mixtures(every: Sequence[Image], random: torch.Generator) -> Iterator[Image]:
    """Without end: an image, or a mixture of it with another of the same network and use. Large ones come seldom."""
    sizes = torch.tensor([sum(node.size for node in image.graph.nodes) for image in every], dtype=torch.float64)
    while True:
        one, other = (every[i] for i in torch.multinomial(sizes**-2, 2, replacement=True, generator=random).tolist())
        share = float(torch.rand((), generator=random, dtype=torch.float64))
        alike = one.graph is other.graph and one.held_out == other.held_out
        yield replace(one, x=(1 - share / 3) * one.x + share / 3 * other.x) if alike and share > 0.3 else one


def box(image: Image, radius: float, label: int, target: int) -> Problem:
    coef = torch.zeros(1, 1, image.graph.output.size, dtype=torch.float64)
    coef[..., label], coef[..., target] = 1.0, -1.0
    one = torch.zeros(1, 1, dtype=torch.bool)
    rows = Rows(coef, torch.zeros(1, 1, dtype=torch.float64), one, ~one)
    return Problem(image.graph, InputSet(image.x - radius, image.x + radius), rows, (0,))


def hard_box(image: Image, device: torch.device, random: torch.Generator) -> Problem | None:
    """A target at random, and the radius at which the cheap bound falls below 0 by a share of the margin."""
    y = image.graph.forward(image.x[None]).flatten()
    label = int(y.argmax())
    target = int(torch.randint(len(y) - 1, (), generator=random))
    target += target >= label
    share = 0.1 + 0.9 * float(torch.rand((), generator=random, dtype=torch.float64))
    margin = float(y[label] - y[target])
    low, high = 0.0, MOST_RADIUS * float(image.x.max() - image.x.min())
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        value = cheap(box(image, middle, label, target), device)
        low, high = (middle, high) if value > -share * margin else (low, middle)
    return box(image, low, label, target) if low > 0 else None


def cheap(problem: Problem, device: torch.device) -> float:
    found = QUICK.root(problem, torch.full((1,), torch.inf, dtype=torch.float64, device=device), device, NEVER, Clock())
    assert found is not None
    return float(found[1].domains.bound[0])


@dataclass
class Generator:
    """Searches boxes and labels some of what they meet."""

    device: torch.device
    random: torch.Generator  # on the CPU
    bounder: Bounder
    guide: Brancher  # says where the search goes, beside chance
    rounds: int = 12
    batch: int = 16  # sub-domains split a round
    each: int = 2  # sub-domains labelled a round
    top: int = 12  # neurons tried, of BaBSR's ranking and of the largest possible gains each,
    spread: int = 8  # and at random

    def label(self, problem: Problem, held_out: bool) -> Labelled | None:
        """None where the root decides."""
        zero = torch.zeros(1, dtype=torch.float64, device=self.device)
        first = self.bounder.root(problem, zero, self.device, NEVER, Clock())
        assert first is not None
        root, bounds = first
        found: list[tuple[Tensor, ...]] = []
        frontier: Frontier | None = None
        for _ in range(self.rounds):
            left = bounds.select(
                (bounds.domains.bound <= 0) & splittable(root.layers, bounds.domains.lower, bounds.domains.upper).any(1)
            )
            domains = replace(left.domains, candidates=self._ranked(root, left))
            left = replace(left, domains=domains)
            if len(domains):
                some = torch.randperm(len(domains), generator=self.random)[: self.each].to(self.device)
                found.append(self._labels(root, left.select(some)))
            if frontier is None:
                frontier = Frontier(domains)
            else:
                frontier.push(domains)
            if len(frontier) == 0:
                break
            picked = frontier.pop(self.batch)
            bounds = self._bound(root, split(picked, picked.candidates[:, :1]))
        if not found:
            return None
        wide = max(part[1].shape[1] for part in found)
        padded = [(f, pad(t, wide, -1), pad(g, wide, 0.0), b) for f, t, g, b in found]
        parts = [torch.cat(list(column)).cpu() for column in zip(*padded, strict=True)]
        return Labelled(on_cpu(Links.of(root)), parts[0], parts[1], parts[2], parts[3], held_out)

    def _ranked(self, root: Root, bounds: Bounds) -> Tensor:
        """The guide's ranking, in a third of the sub-domains begun with a likely neuron at random: other ways too."""
        ranked = self.guide.choose(root, bounds, CANDIDATES)
        if len(ranked) == 0:
            return ranked
        real = (ranked >= 0).sum(1).cpu()
        swap = (torch.rand(len(ranked), generator=self.random) * real).long().to(self.device)
        swap = torch.where((torch.rand(len(ranked), generator=self.random) < 1 / 3).to(self.device), swap, 0)
        first = ranked.gather(1, swap[:, None])
        return torch.cat([first, ranked.scatter(1, swap[:, None], ranked[:, :1])[:, 1:]], 1)

    def _bound(self, root: Root, domains: Domains) -> Bounds:
        fit = max(1, min(len(domains), self.bounder.domains_at_once(root)))
        parts = []
        for index in torch.arange(len(domains), device=self.device).split(fit):
            zero = torch.zeros(len(index), dtype=torch.float64, device=self.device)
            parts.append(self.bounder.bound(root, domains.select(index), zero, NEVER, Clock()))
        columns = zip(*((part.empty, part.coef, part.point) for part in parts), strict=True)
        return Bounds(concatenate([part.domains for part in parts]), *map(torch.cat, columns))

    def _labels(self, root: Root, bounds: Bounds) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Features (n, U, COUNT), tried (n, K), gains (n, K, 2) and BaBSR's choice (n,)."""
        babsr = Babsr().scores(root, bounds)
        tried = self._tried(root, bounds, babsr)
        n, k = tried.shape
        origin = torch.arange(n, device=self.device).repeat_interleave(k)
        real = tried.flatten() >= 0
        children = split(bounds.domains.select(origin[real]), tried.flatten()[real][:, None])
        # A child starts from its parent's slopes and improves on them, and so would the parent: that is no gain.
        every = self._bound(root, concatenate([bounds.domains, children])).domains.bound
        after, value = every[:n], every[n:].view(-1, 1, 2)
        found = torch.zeros(n * k, 2, device=self.device)
        found[real] = gains(value, after[origin[real]])[:, 0]
        best = torch.where(
            splittable(root.layers, bounds.domains.lower, bounds.domains.upper), babsr, -torch.inf
        ).argmax(1)
        return features(root, bounds, babsr).half(), tried, found.view(n, k, 2), best

    def _tried(self, root: Root, bounds: Bounds, babsr: Tensor) -> Tensor:
        """(n, K): the likely neurons and some others, each once."""
        at = at_minimiser(root, bounds.domains)
        unstable = _unstable(root, bounds)
        gain = torch.maximum(at.coef * (at.h - at.z), at.coef * (leaks(root) * at.h - at.z))
        chance = torch.rand(unstable.shape, generator=self.random).to(self.device)
        wanted = torch.zeros_like(unstable)
        for score, count in ((babsr, self.top), (gain, self.top), (chance, self.spread)):
            score = torch.where(unstable, score.nan_to_num(0.0), -torch.inf)
            wanted.scatter_(1, score.topk(min(count, score.shape[1])).indices, True)
        wanted.scatter_(1, bounds.domains.candidates[:, : self.top].clamp(min=0), True)  # what the guide prefers
        wanted &= unstable
        most = int(wanted.sum(1).max())
        value, index = wanted.float().topk(most, dim=1)
        return torch.where(value > 0, index, -1)


def pad(value: Tensor, wide: int, filler: float) -> Tensor:
    """(n, k, ...) -> (n, wide, ...)."""
    rest = value.new_full((len(value), wide - value.shape[1], *value.shape[2:]), filler)
    return torch.cat([value, rest], 1)


def on_cpu(links: Links) -> Links:
    return Links(links.sizes, [t.cpu() for t in links.signed], [t.cpu() for t in links.size])


def generate(
    every: Sequence[Image], generator: Generator, enough: Callable[[int], bool], told: Callable[[str], None]
) -> list[Labelled]:
    """Until `enough`, given how many sub-domains there are, says so."""
    found: list[Labelled] = []
    for image in mixtures(every, generator.random):
        if enough(sum(map(len, found))):
            return found
        problem = hard_box(image, generator.device, generator.random)
        some = None if problem is None else generator.label(problem, image.held_out)
        if some is not None:
            found.append(some)
            told(f"{len(found)} boxes, {sum(map(len, found))} sub-domains")
    raise AssertionError("mixtures have no end")


def _unstable(root: Root, bounds: Bounds) -> Tensor:
    """(domain, U): the neurons that a split may help."""
    return splittable(root.layers, bounds.domains.lower, bounds.domains.upper)
