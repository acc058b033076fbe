"""Images decided together: the input sets of all bounded in one pass, then one search for those that are left.

Only boxes are bounded together, and nothing rests on it: an image that this does not decide is searched alone.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction

import torch
from torch import Tensor

from netproof.bounds.boxes.bounder import BoxBounder, BoxBounds
from netproof.bounds.domains import Domains
from netproof.core.deadline import Deadline, DeadlineExpired
from netproof.core.verdict import Stats
from netproof.dataset.attack import Offers
from netproof.dataset.cases import Case
from netproof.errors import Unbounded
from netproof.problem.joined import join, joinable
from netproof.problem.problem import Problem
from netproof.search.attack import Pgd
from netproof.search.boxes.parts import Boxes, alike
from netproof.search.evidence import Outcome
from netproof.search.goals import Decide, Judge
from netproof.search.loop import Search
from netproof.search.method import Method, Work

ROUNDS = 100  # of a search of several images; what is open then is searched alone, where its own neurons are fewer
FREE = {"cpu": 1024, "cuda": 4096}  # neurons up to which a larger root costs little more than a small one
GONE = -1e30  # the threshold of an image that is broken: nothing of it need be proved


def can_join(cases: Sequence[Case]) -> bool:
    """Say whether these can be bounded together: boxes, on one graph."""
    return len(cases) > 0 and joinable([case.problem for case in cases])


def bound_all(cases: Sequence[Case], device: torch.device, deadline: Deadline) -> tuple[Problem, Boxes] | None:
    """Bound all targets on their images' whole sets; return the joined problem and what is open of it.

    What is proved goes into the evidence of the cases. None where nothing could be bounded, or not in time.
    """
    joined = join([case.problem for case in cases])
    with suppress(Unbounded, DeadlineExpired):
        found = _bounded(joined, device, deadline)
        bounds = found.bound.cpu()
        home = joined.boxes.home
        first = 0
        for case in cases:
            mine = bounds[first : first + len(case.problem.disjuncts)]
            # A row that is strict holds at 0 too; the search sees to that.
            shares = [Fraction(int(bound > 0)) for bound in mine.tolist()]
            case.learn(range(len(mine)), shares, mine.tolist(), "root")
            first += len(mine)
        lower, upper = joined.boxes.of(torch.arange(len(home))).unbind(1)
        zero = torch.zeros(len(home), dtype=torch.int64)
        every = torch.arange(len(home))
        boxes = Boxes(every, lower, upper, bounds, torch.zeros_like(lower), found.signs.cpu(), zero)
        return joined, boxes.select((bounds <= 0).nonzero()[:, 0])
    return None


def _bounded(joined: Problem, device: torch.device, deadline: Deadline) -> BoxBounds:
    """Bound every target on its own box, in parts that fit."""
    bounder = BoxBounder(joined.graph, joined.rows, joined.input_set, device)
    own = joined.boxes.to(device)
    parts, chunk, done = list[BoxBounds](), bounder.boxes_that_fit(), 0
    while done < len(own.sides):
        some = own.sides[done : done + chunk]
        target = ((own.home >= done) & (own.home < done + chunk)).nonzero()[:, 0]
        lower, upper = some.unbind(1)
        known = bounder.unknown(len(some))
        try:
            box = own.home[target] - done
            parts.append(bounder.bound(lower, upper, target, known, deadline, box=box, blame=False))
        except torch.OutOfMemoryError:
            if chunk == 1:
                raise
            torch.cuda.empty_cache()
            bounder.shrink()
            chunk //= 2
            continue
        done += len(some)
    names = ("least", "signs", "blame")
    least, signs, blame = (torch.cat([getattr(part, name) for part in parts]) for name in names)
    return BoxBounds(parts[0].form, least, signs, blame)


class DecideEach(Decide):
    """Is there a violation, for each of several images? The search goes on until all are proved or broken."""

    moves = True  # what is left of an image that is broken is dropped

    def __init__(self, problem: Problem, offers: Offers, image: Tensor, target: Tensor) -> None:
        """Take by target of the problem the place of its case, and which target of the case it is: (target,) both."""
        super().__init__(problem, lambda point, which: None)
        self._offers, self._image, self._target = offers, image, target
        self._gone = torch.zeros(len(offers.cases), dtype=torch.bool)

    def thresholds(self, target: Tensor) -> Tensor:
        gone = self._gone[self._image].to(target.device)[target]
        return super().thresholds(target).masked_fill(gone, GONE)

    def proved(self, domains: Domains) -> Tensor:
        return super().proved(domains) | (self.thresholds(domains.target) < 0)

    def consider(self, judge: Judge, points: Tensor, y: Tensor, target: Tensor) -> bool:
        """Replay what may be a violation of images that are not broken; True once all are."""
        value, noise = judge.judge(y, target)
        self.upper = self.upper.to(value.device).scatter_reduce(0, target, value.double(), "amin")
        here = target.cpu()
        self._offers.take(points, value, noise, self._image[here], self._target[here])
        for place in self._offers.found:
            self._gone[place] = True
        if self._offers.all_found:
            self.witness = self._offers.last
        return self.witness is not None

    def conclude(self, outcome: Outcome) -> None:
        """Add what a search established to the evidence of the images that are not broken.

        What it says of the others means nothing: their sub-domains were dropped.
        """
        for place, case in enumerate(self._offers.cases):
            if place in self._offers.found:
                continue
            mine = (self._image == place).nonzero()[:, 0].tolist()
            shares, bounds = [outcome.proved[t] for t in mine], [outcome.bounds[t] for t in mine]
            case.learn([int(self._target[t]) for t in mine], shares, bounds, outcome.decided_by)


def search_together(
    cases: Sequence[Case], joined: Problem, boxes: Boxes, method: Method, how: tuple[Work, int]
) -> Iterator[list[Case]]:
    """Search the open targets of images that leave much the same neurons open, one group after the other.

    cases: of the joined problem; boxes: its open targets; how: with the seed. What is decided goes into the evidence;
    yields the cases of each group.
    """
    work, seed = how
    home = joined.boxes.home
    first = torch.tensor([len(case.problem.disjuncts) for case in cases]).cumsum(0)
    for targets in alike(boxes, home, FREE[work.device.type]):
        if work.deadline.expired:
            return
        began = time.monotonic()
        used, image = home[targets].unique(return_inverse=True)
        some = [cases[place] for place in used.tolist()]
        start = torch.cat([first.new_zeros(1), first])[home[targets]]
        offers, part = Offers(some), joined.select(targets)
        goal = DecideEach(part, offers, image, targets - start)
        _search(part, method, goal, replace(work, stats=Stats()), seed)
        offers.tell()
        share = (time.monotonic() - began) / len(some)
        for case in some:
            case.seconds += share
        yield some


def _search(problem: Problem, method: Method, goal: DecideEach, work: Work, seed: int) -> None:
    """Search a group, and add what is proved of images that are not broken to their evidence."""

    def second_look(targets: list[int]) -> bool:
        return Pgd().find(problem, goal, work.device, seed + 1, work.deadline, targets)

    search = Search(problem, method, goal, work, second_look)
    try:
        outcome = search.run(ROUNDS)
    except Unbounded:
        return
    finally:
        search.discard()
    goal.conclude(outcome)
