"""Images decided together: the input sets of all bounded in one pass, then one search for those that are left.

Only boxes are bounded together, and nothing rests on it: an image that this does not decide is searched alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from functools import partial

import torch
from torch import Tensor

from netproof.bounds.boxes.bounder import BoxBounder, BoxBounds
from netproof.bounds.domains import Domains
from netproof.bounds.linear.memory import attempted, with_less
from netproof.bounds.record import NOTHING, Recorder
from netproof.core.deadline import Deadline, DeadlineExpired
from netproof.core.verdict import Stats
from netproof.dataset.attack import Offers
from netproof.dataset.cases import Case
from netproof.errors import OutOfMemory, Unbounded
from netproof.problem.joined import join, joinable
from netproof.problem.problem import Problem
from netproof.search.boxes.parts import Boxes, alike
from netproof.search.evidence import Outcome
from netproof.search.goals import Decide, Judge
from netproof.search.loop import Search
from netproof.search.method import Method, Work

# Sub-domains of an image that a search of several bounds, at most. An image that needs more gains nothing from company:
# it is searched alone, where its own neurons are fewer, and does not keep the others waiting.
BUDGET = {"cpu": 1024, "cuda": 8192}
FREE = {"cpu": 1024, "cuda": 4096}  # neurons up to which a larger root costs little more than a small one
Record = Callable[[Sequence[tuple[Case, int]]], Recorder]
GONE = -1e30  # the threshold of an image that is broken: nothing of it need be proved


def can_join(cases: Sequence[Case]) -> bool:
    """Say whether these can be bounded together: boxes, on one graph."""
    return len(cases) > 0 and joinable([case.problem for case in cases])


def bound_all(cases: Sequence[Case], device: torch.device, deadline: Deadline) -> tuple[Problem, Boxes] | None:
    """Bound all targets on their images' whole sets; return the joined problem and what is open of it.

    What is proved goes into the evidence of the cases. None where nothing could be bounded, or not in time.
    """
    joined = join([case.problem for case in cases])
    with suppress(Unbounded, DeadlineExpired, OutOfMemory):  # one at a time they may fit
        bounds, signs = with_less(lambda: _bounded(joined, device, deadline), device)
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
        boxes = Boxes(every, lower, upper, bounds, torch.zeros_like(lower), signs, zero)
        return joined, boxes.select((bounds <= 0).nonzero()[:, 0])
    return None


def _bounded(joined: Problem, device: torch.device, deadline: Deadline) -> tuple[Tensor, Tensor]:
    """Bound every target on its own box, in parts that fit: bounds (target,) and signs (target, N), on the CPU."""
    bounder = BoxBounder(joined.graph, joined.rows, joined.input_set, device)
    own = joined.boxes.to(device)
    parts, chunk, done = list[BoxBounds](), bounder.boxes_that_fit(), 0
    while done < len(own.sides):
        some = own.sides[done : done + chunk]
        target = ((own.home >= done) & (own.home < done + chunk)).nonzero()[:, 0]
        lower, upper = some.unbind(1)
        known = bounder.unknown(len(some))
        box = own.home[target] - done
        bound = partial(bounder.bound, lower, upper, target, known, deadline, box=box, blame=False)
        found = attempted(bound, device) if chunk > 1 else bound()
        if found is None:
            bounder.shrink()
            chunk //= 2
            continue
        parts.append(found)
        done += len(some)
    return torch.cat([part.bound.cpu() for part in parts]), torch.cat([part.signs.cpu() for part in parts])


class DecideEach(Decide):
    """Is there a violation, for each of several images? The search goes on until all are proved or broken."""

    moves = True  # what is left of an image that is broken is dropped

    def __init__(self, problem: Problem, offers: Offers, image: Tensor, target: Tensor) -> None:
        """Take by target of the problem the place of its case, and which target of the case it is: (target,) both."""
        super().__init__(problem, lambda point, which: None)
        self._offers, self._image, self._target = offers, image, target
        self._gone = torch.zeros(len(offers.cases), dtype=torch.bool)  # by case, whether it is broken or given up
        self._spent = torch.zeros(len(offers.cases), dtype=torch.int64)  # by case, the sub-domains bounded

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
        self._gone[list(self._offers.found)] = True
        if self._offers.all_found:
            self.witness = self._offers.last
        return self.witness is not None

    def spend(self, target: Tensor, budget: int) -> None:
        """Count sub-domains (n,) that are about to be bounded; an image that is past its budget is given up."""
        places = self._image[target.cpu()]
        self._spent += torch.bincount(places, minlength=len(self._spent))
        self._gone |= self._spent > budget

    def conclude(self, outcome: Outcome) -> None:
        """Add what a search established to the evidence of the images that are neither broken nor given up.

        What it says of the others means nothing: their sub-domains were dropped.
        """
        for place, case in enumerate(self._offers.cases):
            if self._gone[place]:
                continue
            mine = (self._image == place).nonzero()[:, 0].tolist()
            shares, bounds = [outcome.proved[t] for t in mine], [outcome.bounds[t] for t in mine]
            # What decided the group need not have decided this image: an LP is not said to have.
            by = "root" if outcome.decided_by == "root" else "search"
            case.learn([int(self._target[t]) for t in mine], shares, bounds, by)


def search_together(
    cases: Sequence[Case], joined: Problem, boxes: Boxes, method: Method, work: Work, record: Record | None = None
) -> Iterator[list[Case]]:
    """Search the open targets of images that leave much the same neurons open, one group after the other.

    cases: of the joined problem; boxes: its open targets. What is decided goes into the evidence; yields the cases of
    each group. record: makes what hears of sub-domains, from the case and the disjunct of each target.
    """
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
        its_own = zip(image.tolist(), (targets - start).tolist(), strict=True)
        named = [(some[place], some[place].problem.disjuncts[target]) for place, target in its_own]
        recorder = NOTHING if record is None else record(named)
        _search(part, method, goal, replace(work, stats=Stats(), recorder=recorder))
        offers.tell()
        share = (time.monotonic() - began) / len(some)
        for case in some:
            case.seconds += share
        yield some


class SearchEach(Search):
    """The search of several images, each within a budget."""

    _goal: DecideEach

    def _bound(self, parts: Domains) -> Domains:
        self._goal.spend(parts.target, BUDGET[self._device.type])
        return super()._bound(parts)


def _search(problem: Problem, method: Method, goal: DecideEach, work: Work) -> None:
    """Search a group, and add what is proved to the evidence of its images: nothing where it cannot be held."""
    search = SearchEach(problem, method, goal, work)
    try:
        outcome = attempted(search.run, work.device)
        if outcome is not None:
            goal.conclude(outcome)
    except (Unbounded, OutOfMemory):  # one at a time they may fit
        return
    finally:
        search.discard()
