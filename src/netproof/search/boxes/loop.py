"""Input splitting: branch and bound over boxes of the input set, for networks of few inputs.

Several problems on one graph (the boxes of a disjunction) are searched at once, all their boxes in one batch. Every
bound is a proof as it is computed, so a box whose bound is positive is done with. Splitting alone need not end: boxes
that it cannot decide are returned, for splits of neurons to finish (`remainder.hand_over`).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from netproof.bounds.boxes.bounder import BoxBounder, BoxBounds
from netproof.bounds.boxes.clip import clip
from netproof.bounds.linear.memory import domains_that_fit
from netproof.branching.inputs import scores, split, too_thin
from netproof.core.batch import concatenate
from netproof.core.deadline import DeadlineExpired
from netproof.errors import DeviceError, UsageError
from netproof.numerics import generator
from netproof.problem.problem import InputSet, Problem
from netproof.search.boxes.ledger import BoxLedger
from netproof.search.boxes.parts import Boxes, OpenBoxes, SplitResult
from netproof.search.evidence import Outcome
from netproof.search.frontier import Frontier
from netproof.search.goals import Goal
from netproof.search.method import Work

BATCH = {"cpu": 64, "cuda": 4096}
AT_ONCE = 12  # halvings of a box in one round, at most
DEEP = 400  # halvings of a box in all, at most
NOISE = 1e-11  # a bound this near to its threshold, relative to its terms, is not lifted over it by splitting


@dataclass(frozen=True)
class SplitOptions:
    batch: int | None = None  # boxes bounded per round; None: by device
    sweeps: int = 2  # of clipping
    samples: int = 8192  # points tried before the first split, over all targets
    limit: int | None = None  # boxes bounded besides the whole sets before the rest is returned; None: no limit
    seed: int = 0


def applies(problems: Sequence[Problem]) -> bool:
    """Say whether these can be searched together: boxes, no balls, and one network."""
    return all(p.input_set.centre is None and p.graph is problems[0].graph for p in problems)


class InputSplit:
    """The search of problems that share a graph. `run` is the loop; everything it does is a method of a few lines."""

    def __init__(
        self,
        problems: Sequence[Problem],
        goals: Sequence[Goal],
        work: Work,
        options: SplitOptions | None = None,
    ) -> None:
        if not applies(problems):
            raise UsageError("input splitting needs input sets that are boxes", remedy="use another --method")
        self._problems, self._device, self._deadline = problems, work.device, work.deadline
        self._stats, self._report, device = work.stats, work.report, work.device
        self._options = SplitOptions() if options is None else options
        self._batch = self._options.batch or BATCH[device.type]
        self._ledger = BoxLedger(problems, goals, device)
        sides = ([getattr(p.input_set, side).flatten() for p in problems] for side in ("lower", "upper"))
        self._lower, self._upper = (torch.stack(side).to(device) for side in sides)  # (problem, input)
        self._shape = problems[0].graph.input.shape
        self._bounded = 0

    def run(self) -> SplitResult:
        began = time.monotonic()
        self._report("root", float("-inf"), 0)
        frontier, left = self._bound_whole_sets()
        self._stats.seconds["root"] += time.monotonic() - began
        began = time.monotonic()
        if self._options.samples and self._may_go_on():
            self._sample(frontier.domains)
        while len(frontier) and self._may_go_on():
            self._round(frontier)
            self._report("search", float(self._ledger.target_bounds(frontier.domains).min()), len(frontier))
        self._stats.seconds["search"] += time.monotonic() - began
        frontier.push(left)
        self._ledger.tell_goals()
        return self._result(frontier)

    def _may_go_on(self) -> bool:
        spent = self._options.limit is not None and self._bounded >= self._options.limit
        return self._ledger.witness is None and not self._deadline.expired and not spent

    def _bound_whole_sets(self) -> tuple[Frontier[Boxes], Boxes]:
        """Bound every target on its problem's whole set; return the open ones, and those the deadline left out."""
        hull = InputSet(self._lower.amin(0).view(self._shape).cpu(), self._upper.amax(0).view(self._shape).cpu())
        self._bounder = BoxBounder(self._problems[0].graph, self._ledger.rows, hull, self._device)
        self._chunk = self._bounder.boxes_that_fit()
        target = torch.arange(len(self._ledger.owner), device=self._device)
        lower, upper = self._lower[self._ledger.owner], self._upper[self._ledger.owner]
        unbounded = torch.full_like(self._ledger.tau, -torch.inf)
        score, signs = torch.zeros_like(lower), self._bounder.unknown(len(target))
        whole = Boxes(target, lower, upper, unbounded, score, signs, torch.zeros_like(target))
        device, host = domains_that_fit(whole.bytes_each, self._device)
        self._room = host if device is None else device
        frontier = Frontier(whole.select(target[:0]))
        left = self._in_parts(whole, frontier, shared=True)
        return frontier, left

    def _round(self, frontier: Frontier[Boxes]) -> None:
        """Pick, split, bound, filter. Where memory runs out the boxes nearest to a proof are picked."""
        self._stats.rounds += 1
        picked = frontier.pop(max(1, self._batch // 2), best=len(frontier) > self._room)
        times = max(1, min(AT_ONCE, (self._batch // (len(picked) + len(frontier))).bit_length() - 1))
        lower, upper, parent = split(picked.lower, picked.upper, picked.score, times)
        children = replace(picked.select(parent), lower=lower, upper=upper, level=picked.level[parent] + times)
        before = self._bounded
        frontier.push(self._in_parts(children, frontier))  # what was not bounded is still open
        self._stats.domains += self._bounded - before

    def _in_parts(self, boxes: Boxes, frontier: Frontier[Boxes], *, shared: bool = False) -> Boxes:
        """Bound boxes, as many at once as fit, and push those that stay open; returns those not reached."""
        done = 0
        while done < len(boxes) and self._ledger.witness is None and not self._deadline.expired:
            part = boxes.select(slice(done, done + self._chunk))
            try:
                rest = self._bound(part, shared)
            except torch.OutOfMemoryError:
                self._halve()
                continue
            except DeadlineExpired:
                break
            frontier.push(rest)
            done += len(part)
        return boxes.select(slice(done, None))

    def _bound(self, boxes: Boxes, shared: bool) -> Boxes:
        """Bound boxes; return those that stay open. `shared`: they are whole sets, one for all targets of a problem."""
        lower, upper, signs, box = boxes.lower, boxes.upper, boxes.signs, None
        if shared:
            owner, box = self._ledger.owner[boxes.target].unique(return_inverse=True)
            lower, upper, signs = self._lower[owner], self._upper[owner], self._bounder.unknown(len(owner))
        more = self._options.limit != 0
        found = self._bounder.bound(lower, upper, boxes.target, signs, self._deadline, box=box, blame=more)
        self._bounded += 0 if shared else len(boxes)
        boxes = replace(boxes, bound=boxes.bound.fmax(found.bound), signs=found.signs)
        proved = self._ledger.decided(found.least, boxes.target)
        index = (~proved).nonzero()[:, 0]
        rest = boxes.select(index)
        done, stuck = boxes.select(proved.nonzero()[:, 0]), rest.select(slice(0, 0))
        bound = torch.where(proved, boxes.bound, torch.inf)
        if len(index):
            rest, empty, stuck = self._filter(rest, found.select(index))
            done = concatenate([done, empty])
        # Booked last: if memory runs out before, the same boxes are bounded again.
        self._ledger.book(boxes.target, bound)
        self._ledger.give_up(stuck)
        self._ledger.close(done)
        return rest

    def _filter(self, boxes: Boxes, found: BoxBounds) -> tuple[Boxes, Boxes, Boxes]:
        """Try points of boxes that are not proved and cut off what cannot be violated.

        Returns those that go on, those of which nothing is left, and the hopeless.
        """
        suspect = self._try_points(boxes, found)
        owner = self._ledger.owner[boxes.target]
        whole = self._upper[owner] - self._lower[owner]
        boxes = replace(boxes, score=scores(found, boxes.lower, boxes.upper, whole))
        if self._options.sweeps:
            tau = self._ledger.tau[boxes.target]
            lower, upper = clip(boxes.lower, boxes.upper, found.form, tau, self._options.sweeps)
            cut = (lower > boxes.lower).any(1) | (upper < boxes.upper).any(1)
            self._ledger.book(boxes.target, torch.where(cut, tau, torch.inf))
            boxes = replace(boxes, lower=lower, upper=upper)
        empty = (boxes.lower > boxes.upper).any(1)
        hopeless = self._hopeless(boxes, found, whole, suspect)
        masks = ~(empty | hopeless), empty, hopeless & ~empty
        rest, gone, stuck = (boxes.select(mask.nonzero()[:, 0]) for mask in masks)
        return rest, gone, stuck

    def _hopeless(self, boxes: Boxes, found: BoxBounds, whole: Tensor, suspect: Tensor) -> Tensor:
        """Say which boxes (box,) are too thin, too deep, linear with one row, or within rounding of the threshold.

        suspect (box,): whether the centre may be a violation; without that no box counts as within rounding.
        """
        thin = too_thin(boxes.lower, boxes.upper, whole).all(1)
        reach = boxes.lower.abs().maximum(boxes.upper.abs())[:, None]
        size = ((found.form.coef.abs() * reach).sum(2) + found.form.const.abs()).nan_to_num(posinf=0.0)
        tau = self._ledger.tau[boxes.target][:, None]
        near = (found.least > tau - NOISE * (size + tau.abs())).any(1) & suspect
        linear = (boxes.signs != 0).all(1) & (self._ledger.rows.valid[boxes.target].sum(1) == 1)
        return thin | near | linear | (boxes.level >= DEEP)

    def _try_points(self, boxes: Boxes, found: BoxBounds) -> Tensor:
        """Try the centre of each box and where its best row's bound is least; say whose centre may violate, (box,)."""
        row = found.least.argmax(1)[:, None, None].expand(-1, 1, boxes.lower.shape[1])
        corner = torch.where(found.form.coef.gather(1, row)[:, 0] > 0, boxes.lower, boxes.upper)
        points = torch.cat([boxes.lower / 2 + boxes.upper / 2, corner])
        return self._ledger.offer(points, boxes.target.repeat(2))[: len(boxes)]

    def _sample(self, boxes: Boxes) -> None:
        """Try random points of the open targets' sets, with many coordinates on the faces, where violations often lie.

        In few dimensions they find what gradients do not: a network can be flat nearly everywhere.
        """
        targets = boxes.target.unique()
        if len(targets) == 0 or self._options.samples < len(targets):
            return
        target = targets.repeat_interleave(self._options.samples // len(targets))
        lower, upper = self._lower[self._ledger.owner[target]], self._upper[self._ledger.owner[target]]
        share = torch.rand(lower.shape, generator=generator(self._options.seed), dtype=torch.float64)
        share = (2 * share - 0.5).clamp(0, 1).to(self._device)
        self._ledger.offer(lower + share * (upper - lower), target)

    def _halve(self) -> None:
        """Bound half as many boxes at a time once the device's memory is full; raises DeviceError at one box."""
        if self._chunk == 1:
            raise DeviceError("out of memory with one box at a time", remedy="use --device cpu or a larger GPU")
        torch.cuda.empty_cache()
        self._chunk //= 2
        self._bounder.shrink()

    def _result(self, frontier: Frontier[Boxes]) -> SplitResult:
        ledger = self._ledger
        rest = ledger.open(frontier.domains)
        stopped = len(rest) > 0 and self._deadline.expired
        why = "left at the limit" if len(frontier) else "left that input splitting cannot decide"
        outcome = Outcome(
            ledger.shares(),
            tuple(ledger.target_bounds(frontier.domains).tolist()),
            ledger.witness,
            "" if len(rest) == 0 else f"{len(rest)} boxes {'still open' if stopped else why}",
            stopped,
            "search" if self._stats.rounds or ledger.witness is not None else "root",
        )
        opened = OpenBoxes.of(rest, ledger.owner, ledger.first)
        return SplitResult(outcome, opened, ledger.proved(), self._bounder)
