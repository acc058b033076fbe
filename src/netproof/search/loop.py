"""Algorithm 1: parallel branch and bound with optimised LiRPA, and LP only where it must be."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from netproof.bounds.bounder import Bounder, Bounds, Clock, root_domains
from netproof.bounds.memory import rows_that_fit
from netproof.bounds.root import Root
from netproof.branching.brancher import Brancher
from netproof.core.deadline import Deadline
from netproof.core.verdict import Stats
from netproof.errors import DeviceError
from netproof.problem.domains import Domains, parents, split
from netproof.problem.problem import Problem
from netproof.search.frontier import Frontier
from netproof.search.goals import Goal, Judge
from netproof.search.leaf import LeafLP, with_bounds

CANDIDATES = 12  # neurons remembered a sub-domain, the most that are split at once

# An LP costs about as much as so many neurons' worth of rounds (measured: 0.2 ms a neuron against 40 ms a round), so on
# a small network the LP may come every round and take many sub-domains, on a large one rarely and few.
NEURONS_A_ROUND = 150
NEURONS_A_TURN = 3000
MOST_A_TURN = 8  # sub-domains a worker
CROWDED = (
    10  # past so many η, only what the LP has tried is split: the frontier then grows no further than the LP lets it
)


@dataclass(frozen=True)
class Method:
    """A configured search: the parts that differ between methods, and Algorithm 1's n and η."""

    bounder: Bounder
    brancher: Brancher
    batch: int  # n
    lp_threshold: int  # η
    patience: int = 0  # rounds without a better global bound before the LP has a turn; 0: by its size
    leaf_lp: bool = True  # without it the search is incomplete (Theorem 3.1)


@dataclass(frozen=True)
class Outcome:
    """How a search of one problem ended."""

    status: str  # "proved", "found", "undecided", "timeout"
    reason: str
    lower_bound: float
    decided_by: str


class Search:
    """One problem's search. `run` is Algorithm 1; everything it does is a method of a few lines."""

    def __init__(
        self,
        problem: Problem,
        method: Method,
        goal: Goal,
        device: torch.device,
        workers: int,
        deadline: Deadline,
        stats: Stats,
        report: Callable[[str, float, int], None] = lambda phase, bound, frontier: None,
    ) -> None:
        self._problem, self._method, self._goal = problem, method, goal
        self._device, self._workers = device, workers
        self._deadline, self._stats, self._report = deadline, stats, report
        self._clock = Clock()
        self._undecided: list[Domains] = []  # leaves that not even the LP could settle
        # By target, the least bound among the sub-domains that were proved.
        self._proved = torch.full((len(problem.disjuncts),), torch.inf, dtype=torch.float64, device=device)
        self._frontier: Frontier | None = None
        self._done = False

    def run(self) -> Outcome:
        began = time.monotonic()
        self._report("root", float("-inf"), 0)
        targets = torch.arange(len(self._problem.disjuncts), device=self._device)
        first = self._method.bounder.root(
            self._problem, self._goal.thresholds(targets), self._device, self._deadline, self._clock
        )
        if first is None:
            self._proved.fill_(-torch.inf)
            return Outcome("timeout", "the root was not bounded in time", float("-inf"), "")
        root, bounds = first
        self._stats.seconds["root"] += time.monotonic() - began - self._clock.confirm
        self._leaf = LeafLP(root, self._workers)
        neurons = _neurons(root)
        self._pause = neurons // NEURONS_A_ROUND  # rounds between two turns of the LP
        self._patience = self._method.patience or max(1, 4 * self._pause)
        self._lp_batch = self._workers * max(1, min(MOST_A_TURN, NEURONS_A_TURN // max(1, neurons)))
        self._chunk = self._children_that_fit(root)
        self._judge = Judge(root.search.graph, root.rows)
        self._frontier = frontier = Frontier(self._settle(root, bounds))
        self._stalled, self._since_lp, self._best = 0, self._pause, frontier.lower_bound
        while len(frontier) and not self._done and not self._deadline.expired:
            began, other = time.monotonic(), self._other_seconds()
            if self._lp_is_due(frontier):
                self._lp_turn(root, frontier)
            if not self._done:
                self._round(root, frontier)
                self._prune(frontier)
            spent = time.monotonic() - began - (self._other_seconds() - other)
            self._stats.seconds["search"] += max(0.0, spent)
            self._report("search", self._lower_bound(), len(frontier))
        self._stats.seconds["confirm"] += self._clock.confirm
        return self._outcome(frontier)

    # One round: pick, split, bound, filter (lines 5 to 10).

    def _round(self, root: Root, frontier: Frontier) -> None:
        crowded = len(frontier) > CROWDED * self._method.lp_threshold and self._method.leaf_lp
        picked = frontier.pop(min(self._method.batch, self._lp_batch) if crowded else self._method.batch)
        splittable = (picked.candidates >= 0).any(1)
        if not bool(splittable.all()):
            self._decide_leaves(picked.select(~splittable))
            picked = picked.select(splittable)
        if len(picked) == 0 or self._done:
            return
        self._stats.rounds += 1
        children = split(picked, picked.candidates[:, : self._neurons_at_once(len(picked) + len(frontier))])
        done = 0
        while done < len(children) and not self._done and not self._deadline.expired:
            part = torch.arange(done, min(done + self._chunk, len(children)), device=self._device)
            try:
                bounded = self._bound(root, children.select(part))
            except torch.OutOfMemoryError:
                self._halve()
                continue
            frontier.push(bounded)
            done += len(part)
        # What was not bounded is still open.
        frontier.push(children.select(torch.arange(done, len(children), device=self._device)))

    def _halve(self) -> None:
        """The one place that answers a full device: fewer sub-domains at a time."""
        if self._chunk == 1:
            raise DeviceError("out of memory with one sub-domain at a time", remedy="use --device cpu or a larger GPU")
        torch.cuda.empty_cache()
        self._chunk //= 2

    def _children_that_fit(self, root: Root) -> int:
        """How many children are bounded at once: twice the batch, or what memory allows."""
        last = root.search.graph.output.index
        rows = rows_that_fit(root.search.graph, last, self._device, torch.float32, grad=True)
        return max(1, min(2 * self._method.batch, rows // (1 + 2 * CANDIDATES)))

    def _neurons_at_once(self, available: int) -> int:
        """Several while the frontier is smaller than the batch, so that the device is full (section 3.3)."""
        return max(1, min(CANDIDATES, (self._method.batch // available).bit_length()))

    def _bound(self, root: Root, children: Domains) -> Domains:
        threshold = self._goal.thresholds(children.target)
        bounds = self._method.bounder.bound(root, children, threshold, self._deadline, self._clock)
        self._stats.domains += len(children)
        return self._settle(root, bounds)

    def _settle(self, root: Root, bounds: Bounds) -> Domains:
        """Try the bounds' minimisers as witnesses, drop what is proved, rank the neurons of the rest."""
        if self._goal.offer(self._judge, bounds.point, bounds.domains.target):
            self._done = True
        proved = self._goal.proved(bounds.domains)
        self._note_proved(bounds.domains.select(proved))
        rest = Bounds(
            bounds.domains.select(~proved), bounds.empty[~proved], bounds.coef[~proved], bounds.point[~proved]
        )
        chosen = self._method.brancher.choose(root, rest, CANDIDATES)
        return replace(rest.domains, candidates=chosen)

    def _prune(self, frontier: Frontier) -> None:
        """A better threshold (a smaller minimum seen) may prove what was open."""
        proved = self._goal.proved(frontier.domains)
        if bool(proved.any()):
            self._note_proved(frontier.domains.select(proved))
            frontier.keep(~proved)

    # LP: leaves, and a turn when bounds are stuck (lines 11 to 14).

    def _decide_leaves(self, leaves: Domains) -> None:
        if not self._method.leaf_lp:
            self._undecided.append(leaves)
            return
        began = time.monotonic()
        self._report("leaf", self._best, len(leaves))
        outcomes = self._leaf.decide(leaves, self._deadline)
        self._stats.leaf_lps += len(leaves)
        self._try_points(outcomes.point, leaves.target)
        leaves = with_bounds(leaves, outcomes)
        proved = self._goal.proved(leaves)
        self._note_proved(leaves.select(proved))
        if not bool(proved.all()):
            self._undecided.append(leaves.select(~proved))
        self._stats.seconds["leaf"] += time.monotonic() - began

    def _lp_is_due(self, frontier: Frontier) -> bool:
        """When the frontier has passed η, or the global bound has stopped improving."""
        bound = frontier.lower_bound
        self._stalled = 0 if bound > self._best + 1e-6 * abs(self._best) else self._stalled + 1
        self._best = max(self._best, bound)
        self._since_lp += 1
        stuck = len(frontier) > self._method.lp_threshold or self._stalled >= self._patience
        if not stuck or self._since_lp <= self._pause or not self._method.leaf_lp or not self._stats.rounds:
            return False
        self._since_lp = self._stalled = 0
        return True

    def _lp_turn(self, root: Root, frontier: Frontier) -> None:
        """The worst sub-domains by LP on their optimised intermediate bounds; a proved one's parent next, and so on."""
        began = time.monotonic()
        batch = frontier.pop(self._lp_batch)
        outcomes = self._leaf.decide(batch, self._deadline)
        self._stats.lps += len(batch)
        self._try_points(outcomes.point, batch.target)
        batch = with_bounds(batch, outcomes)
        proved = self._goal.proved(batch)
        self._note_proved(batch.select(proved))
        frontier.push(batch.select(~proved))
        self._backtrack(root, frontier, batch.select(proved))
        self._stats.seconds["leaf"] += time.monotonic() - began

    def _backtrack(self, root: Root, frontier: Frontier, proved: Domains) -> None:
        """Climb from proved sub-domains while their parents are proved too, pruning what lies below."""
        while len(proved) and not self._deadline.expired:
            above = self._parents(root, proved)
            if len(above) == 0:
                return
            bounds = self._method.bounder.bound(
                root, above, self._goal.thresholds(above.target), self._deadline, self._clock
            )
            above = bounds.domains
            open_still = ~self._goal.proved(above)
            if bool(open_still.any()):
                outcomes = self._leaf.decide(above.select(open_still), self._deadline)
                self._stats.lps += int(open_still.sum())
                self._try_points(outcomes.point, above.target[open_still])
                bound = above.bound.clone()
                bound[open_still] = bound[open_still].maximum(outcomes.bound)
                above = replace(above, bound=bound)
            proved = above.select(self._goal.proved(above))
            self._note_proved(proved)
            self._stats.lp_parents_proved += len(proved)
            for target, splits in zip(proved.target.tolist(), proved.splits, strict=True):
                self._stats.lp_pruned += frontier.prune(target, splits)

    @staticmethod
    def _parents(root: Root, domains: Domains) -> Domains:
        """The distinct parents, with the root's bounds: a child's do not hold there."""
        inner = domains.select(domains.depth > 0)
        if len(inner) == 0:
            return inner
        keys = torch.cat([inner.target[:, None], parents(inner).sign()], 1)
        _, first = _unique_rows(keys)
        inner = inner.select(first)
        whole = root_domains(root).select(inner.target)
        splits = parents(inner)
        return replace(
            whole,
            splits=splits,
            lower=torch.where(splits > 0, whole.lower.clamp(min=0), whole.lower),
            upper=torch.where(splits < 0, whole.upper.clamp(max=0), whole.upper),
            slopes=inner.slopes,
            weights=inner.weights,
            candidates=inner.candidates,
        )

    def _try_points(self, points: Tensor, target: Tensor) -> None:
        real = ~points.flatten(1).isnan().any(1)
        if self._goal.offer(self._judge, points[real], target[real]):
            self._done = True

    # Bookkeeping.

    def _note_proved(self, domains: Domains) -> None:
        self._proved = self._proved.scatter_reduce(0, domains.target, domains.bound, "amin")

    def _lower_bound(self) -> float:
        return float(self.target_bounds().min())

    def target_bounds(self) -> Tensor:
        """(target,): the least bound of all its sub-domains, proved, open or undecided. It holds on the whole set."""
        bounds = self._proved
        for domains in (*self._undecided, *([self._frontier.domains] if self._frontier is not None else [])):
            bounds = bounds.scatter_reduce(0, domains.target, domains.bound, "amin")
        return bounds.cpu()

    def _why_undecided(self) -> str:
        if not self._method.leaf_lp:
            return "left, which only an LP can decide, and leaf_lp is off"
        if self._problem.input_set.p == 2:
            return "left: their LPs see the box around the ℓ2 ball, not the ball"
        return "within rounding of a violation"

    def _other_seconds(self) -> float:
        return self._clock.confirm + self._stats.seconds["leaf"]

    def _outcome(self, frontier: Frontier) -> Outcome:
        bound = self._lower_bound()
        rounds, leaves = self._stats.rounds, self._stats.leaf_lps + self._stats.lps
        if self._done:
            return Outcome("found", "", bound, "search")
        undecided = sum(len(d) for d in self._undecided)
        if len(frontier) or (undecided and self._deadline.expired):
            return Outcome("timeout", f"{len(frontier) + undecided} sub-domains still open", bound, "")
        if undecided:
            return Outcome("undecided", f"{undecided} leaves {self._why_undecided()}", bound, "")
        return Outcome("proved", "", bound, "leaf" if leaves else "search" if rounds else "root")


def _neurons(root: Root) -> int:
    """How many nonlinear neurons the network has, stable or not: a measure of the LP's cost."""
    return sum(root.search.graph.nodes[i].size for i in root.search.graph.nonlinear)


def _unique_rows(keys: Tensor) -> tuple[Tensor, Tensor]:
    """Distinct rows and the first place of each, in order of first appearance."""
    rows, inverse = keys.unique(dim=0, return_inverse=True)
    places = torch.arange(len(keys), device=keys.device)
    first = torch.full((len(rows),), len(keys), dtype=torch.int64, device=keys.device)
    first = first.scatter_reduce(0, inverse, places, "amin")
    return rows, first.sort().values
