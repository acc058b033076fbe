"""Input splitting: branch and bound over boxes of the input set, for networks of few inputs.

Its rounds are those of `search/rounds.py`. Several problems on one graph (the boxes of a disjunction) are searched at
once, all their boxes in one batch. Every bound is a proof as it is computed, so a box whose bound is positive is done
with. Splitting alone need not end: boxes that it cannot decide are returned, for splits of neurons to finish
(`remainder.hand_over`).
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from netproof.bounds.boxes.bounder import BoxBounder, BoxBounds
from netproof.bounds.boxes.clip import clip
from netproof.bounds.linear.memory import with_less
from netproof.branching.inputs import scores, split, too_thin
from netproof.core.batch import concatenate
from netproof.numerics import generator
from netproof.problem.problem import Problem
from netproof.search.boxes.ledger import BoxLedger
from netproof.search.boxes.parts import Boxes, SplitResult
from netproof.search.evidence import Outcome
from netproof.search.frontier import Frontier
from netproof.search.goals import Goal
from netproof.search.method import Work
from netproof.search.rounds import Rounds

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


class InputSplit(Rounds[Boxes]):
    """The search of problems that share a graph, over boxes."""

    _ledger: BoxLedger

    def __init__(self, problem: Problem, goal: Goal, work: Work, options: SplitOptions | None = None) -> None:
        super().__init__(work, BoxLedger(problem, goal, work.device))
        self._options = SplitOptions() if options is None else options
        self._batch = self._options.batch or BATCH[work.device.type]
        self._problem, own = problem, problem.boxes.to(work.device)
        self._home, (self._lower, self._upper) = own.home, own.sides.unbind(1)
        self._bounded = 0

    def run(self) -> SplitResult:
        began = time.monotonic()
        self._report("root", float("-inf"), 0)
        self._bound_whole_sets()
        self._stats.seconds["root"] += time.monotonic() - began
        began = time.monotonic()
        if self._options.samples and self._may_go_on():
            with_less(lambda: self._sample(self._opened.domains), self._device)
        self._stats.seconds["search"] += time.monotonic() - began
        self._run_rounds()
        self._ledger.tell_goal()
        return with_less(self._result, self._device)

    def _may_go_on(self) -> bool:
        spent = self._options.limit is not None and self._bounded >= self._options.limit
        return super()._may_go_on() and not spent

    def _bound_whole_sets(self) -> None:
        """Bound every target on its problem's whole set."""
        given = self._problem.graph, self._ledger.rows, self._problem.input_set, self._device
        self._bounder = with_less(lambda: BoxBounder(*given), self._device)
        self._chunk = self._bounder.boxes_that_fit()
        target = torch.arange(len(self._home), device=self._device)
        lower, upper = self._lower[self._home], self._upper[self._home]
        unbounded = torch.full_like(self._ledger.tau, -torch.inf)
        score, signs = torch.zeros_like(lower), self._bounder.unknown(len(target))
        whole = Boxes(target, lower, upper, unbounded, score, signs, torch.zeros_like(target))
        self._open(whole.select(target[:0]))
        self._bound_all(whole, self._bound_whole)

    def _bound_whole(self, boxes: Boxes) -> Boxes:
        """Bound whole sets, each once for all targets of its problem; return those that stay open."""
        home, box = self._home[boxes.target].unique(return_inverse=True)
        lower, upper, unknown = self._lower[home], self._upper[home], self._bounder.unknown(len(home))
        more = self._options.limit != 0
        found = self._bounder.bound(lower, upper, boxes.target, unknown, self._deadline, box=box, blame=more)
        return self._settle(boxes, found)

    # --- what a round is made of ---

    def _pick(self, frontier: Frontier[Boxes]) -> Boxes:
        """Pop the worst; where memory runs out the boxes nearest to a proof."""
        return frontier.pop(self._at_most(max(1, self._batch // 2)), best=self._full)

    def _split(self, picked: Boxes, others: int) -> Boxes:
        times = max(1, min(AT_ONCE, (self._batch // (len(picked) + others)).bit_length() - 1))
        lower, upper, parent = split(picked.lower, picked.upper, picked.score, times)
        return replace(picked.select(parent), lower=lower, upper=upper, level=picked.level[parent] + times)

    def _bound(self, parts: Boxes) -> Boxes:
        found = self._bounder.bound(parts.lower, parts.upper, parts.target, parts.signs, self._deadline)
        self._bounded += len(parts)
        self._stats.domains += len(parts)
        return self._settle(parts, found)

    def _settle(self, boxes: Boxes, found: BoxBounds) -> Boxes:
        """Settle boxes by what was found of them; return those that go on."""
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
        self._ledger.close(done)
        self._ledger.leave_undecided(stuck)
        return rest

    def _filter(self, boxes: Boxes, found: BoxBounds) -> tuple[Boxes, Boxes, Boxes]:
        """Try points of boxes that are not proved and cut off what cannot be violated.

        Returns those that go on, those of which nothing is left, and the hopeless.
        """
        suspect = self._try_points(boxes, found)
        home = self._home[boxes.target]
        whole = self._upper[home] - self._lower[home]
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
        lower, upper = self._lower[self._home[target]], self._upper[self._home[target]]
        share = torch.rand(lower.shape, generator=generator(self._options.seed), dtype=torch.float64)
        share = (2 * share - 0.5).clamp(0, 1).to(self._device)
        self._ledger.offer(lower + share * (upper - lower), target)

    def _halve(self) -> None:
        super()._halve()
        self._bounder.shrink()

    def _result(self) -> SplitResult:
        ledger, witness = self._ledger, self._ledger.goal.witness
        every = (*self._opened.everything(), *ledger.undecided_parts)
        rest = concatenate([part.map(lambda t: t.cpu()) for part in every])
        stopped = len(rest) > 0 and self._deadline.expired
        why = "left at the limit" if self._open_count else "left that input splitting cannot decide"
        outcome = Outcome(
            ledger.proved(),
            tuple(self.target_bounds().tolist()),
            witness,
            "" if len(rest) == 0 else f"{len(rest)} boxes {'still open' if stopped else why}",
            stopped,
            "search" if self._stats.rounds or witness is not None else "root",
        )
        worst_first = rest.select(rest.bound.argsort(stable=True))
        return SplitResult(outcome, worst_first, ledger.least(), self._bounder)
