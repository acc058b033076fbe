"""Algorithm 1: parallel branch and bound with optimised LiRPA, and LP only where it must be.

Its plain rounds are those of `search/rounds.py`. Here is what they are made of when neurons are split, and what is due
besides: a tighter root, the LP's turns, a second attack, neurons bounded again.
"""

from __future__ import annotations

import time
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from netproof.bounds.base import Bounds, Clock
from netproof.bounds.domains import Domains
from netproof.bounds.linear.memory import with_less
from netproof.bounds.neurons.root import Root
from netproof.bounds.neurons.transfer import repack
from netproof.bounds.scope import split_on
from netproof.core.batch import concatenate
from netproof.core.extras import CANDIDATES
from netproof.core.machine.allowance import said_plainly
from netproof.core.reasons import ROOT_LATE
from netproof.errors import OutOfMemory
from netproof.problem.problem import Problem
from netproof.relax import without_lp_form
from netproof.search.effort import Effort, neurons_at_once
from netproof.search.evidence import Cover, Outcome
from netproof.search.frontier import Frontier
from netproof.search.goals import Goal
from netproof.search.leaf import LeafLP, Outcomes, with_bounds
from netproof.search.ledger import Ledger
from netproof.search.lp_turns import LpTurns, neurons_of
from netproof.search.method import Method, SecondLook, Start, Work
from netproof.search.root_tightening import tightening_cost, tighter_root
from netproof.search.rounds import Rounds
from netproof.search.waiting.held import Keeper

# Sizes: they shape a round, and make nothing due.
SHARE = 8  # past n sub-domains, a round takes at most one in so many of the open ones
GRAIN = 1e-2  # bounds in the same step of this size count as equal, and the deeper sub-domain goes first
POINTS = 64  # minimisers tried per batch, those of the worst bounds: far cheaper than bounding it


class _Moves(NamedTuple):
    """What is open, ready to go under a new root."""

    root: Root
    whole: Bounds  # of the whole set, one for each target
    carried: list[tuple[Domains, Domains]] | None  # what is open under it and what is dropped; None: from the start


class Search(Rounds[Domains]):
    """One problem's search. `run` is Algorithm 1; everything it does is a method of a few lines."""

    _ledger: Ledger

    def __init__(
        self,
        problem: Problem,
        method: Method,
        goal: Goal,
        work: Work,
        second_look: SecondLook | None = None,
        start: Start | None = None,
    ) -> None:
        self._clock = Clock(recorder=work.recorder)
        super().__init__(work, Ledger(goal, len(problem.disjuncts), work.device, self._clock.recorder))
        self._second_look, self._start = second_look, start
        self._no_lp = without_lp_form(problem.graph)
        self._problem, self._goal, self._work, self._workers = problem, goal, work, work.workers
        self._method = method if self._no_lp is None else replace(method, leaf_lp=False)
        self.grain = 0.0 if method.strict else GRAIN
        self._effort = Effort.on(work.device, method.extras)
        self._root: Root | None = None
        self._asked: tuple[Fraction, ...] | None = None  # by target, the share that was given; None: all
        self._a_round = 1  # sub-domains picked at most
        self._all_bounded = True  # whether all that is open was bounded under the present root
        self._whole_bound = float("-inf")  # of the whole input set under the present root
        self._whole_slopes: Tensor | None = None  # (target, U): what gave it

    def run(self, rounds: int | None = None) -> Outcome:
        """Search until all is settled, time is up or so many rounds were done; RuntimeError the second time."""
        if self._root is not None:
            raise RuntimeError("a search runs once; still_open() is what another can start from")
        self._last = None if rounds is None else self._stats.rounds + rounds
        begun = self._bound_root() if self._start is None else self._take_up(*self._start)
        if begun:
            self._run_rounds()
        self._stats.seconds["confirm"] += self._clock.confirm
        if begun:
            return self._outcome()
        self._ledger.nothing_is_known()
        return self._outcome(reason=ROOT_LATE)

    def _other_seconds(self) -> float:
        seconds = self._stats.seconds
        return self._clock.confirm + seconds["leaf"] + seconds["root"] + seconds["attack"]

    # --- what is due besides plain rounds ---

    def _do_what_is_due(self, frontier: Frontier[Domains]) -> bool:
        cost = tightening_cost(self._method.bounder, self._under)
        if cost is not None and self._effort.tightening_is_due(cost):
            self._tighten(self._under, frontier, cost)
            return False
        if self._attacked_again(frontier):
            return False
        self._effort.lp.watch(frontier)
        if self._effort.lp.is_due(len(frontier)):
            self._effort.lp.pay()
            self._tell("leaf")
            takes = self._effort.lp.takes(len(frontier))
            self._lp_turns.turn(frontier, takes, self._deadline, self._stats, self._clock)
            self._stats.cut_in_lp |= self._deadline.expired
        return not self._ledger.done

    def _tell_of_lps(self, waiting: Frontier[Domains]) -> None:
        """Report on a large turn of the LP; what waits for it is open too, and not in the frontier."""
        bound = min(float(self.target_bounds().min()), waiting.lower_bound)
        self._report("leaf", bound, self._open_count + len(waiting))

    def _attacked_again(self, frontier: Frontier[Domains]) -> bool:
        """Look for a counterexample again if that is due; say whether there is one."""
        look = self._second_look
        if look is None or not self._effort.attack_is_due():
            return False
        self._effort.pay_attack()
        began = time.monotonic()
        self._tell("attack")
        found = look(self._open_targets(frontier).tolist())
        self._stats.seconds["attack"] += time.monotonic() - began
        return found

    def _open_targets(self, frontier: Frontier[Domains]) -> Tensor:
        """Return the targets that sub-domains are open of, in order, (n,)."""

        def named() -> Tensor:
            every: Tensor = torch.cat([part.target.to(self._device) for part in frontier.summaries()]).unique()
            return every

        return with_less(named, self._device)

    def _tighten(self, root: Root, frontier: Frontier[Domains], cost: int) -> None:
        """Make a tighter root and bound what is open again under it: sub-domain by sub-domain, or from the start."""
        began, confirmed = time.monotonic(), self._clock.confirm
        self._tell("root")
        method, account, targets = self._method, self._effort.tightening, self._open_targets(frontier)
        account.pay(cost, self._effort.bounded)
        given = method.bounder, method.brancher, root, self._effort, self._deadline, self._clock, targets
        moves = None
        try:
            with said_plainly():
                new = with_less(lambda: tighter_root(*given), self._device)
                moves = None if new is None else self._prepared(root, new, frontier, targets)
        except OutOfMemory:  # nothing has changed yet: the search goes on under the root that it has
            pass
        if moves is not None:
            self._carry_over(moves, frontier, targets)
        account.over = account.over or moves is None
        self._stats.seconds["root"] += time.monotonic() - began - (self._clock.confirm - confirmed)

    def _prepared(self, root: Root, new: Root, frontier: Frontier[Domains], targets: Tensor) -> _Moves:
        """Return what a new root says of the whole set, and what is open under it, of targets (n,); alters nothing."""
        bounder, given = self._method.bounder, (self._deadline, self._clock)
        whole = with_less(lambda: bounder.whole(new, self._thresholds(), *given), self._device)
        # A search of some sub-domains must not go beyond them: it carries over all that it has. Where the root alone is
        # ahead of all that was split under the old one, those splits are of no use: other neurons matter now.
        few = len(frontier) <= self._method.batch and not frontier.waiting
        least = min(with_less(lambda: whole.domains.bound[targets].tolist(), self._device))
        ahead = least > frontier.lower_bound
        if self._start is None and (ahead or not few):
            return _Moves(new, whole, None)
        carried = with_less(lambda: [repack(part, root, new) for part in frontier.everything()], self._device)
        return _Moves(new, whole, carried)

    def _carry_over(self, moves: _Moves, frontier: Frontier[Domains], targets: Tensor) -> None:
        """Go under a new root with what is open, of targets (n,)."""
        new, bounds, carried = moves
        self._effort.under_new_root()
        before, searched, slopes = self._whole_bound, frontier.lower_bound, bounds.domains.slopes
        whole = with_less(lambda: bounds.select(targets), self._device)
        self._whole_bound, self._whole_slopes = min(whole.domains.bound.tolist()), slopes
        self._effort.tightening.judge(before, self._whole_bound, searched)
        for _, covered in carried or []:
            with_less(partial(self._ledger.drop, covered), self._device)
        if carried is None:
            with_less(lambda: self._ledger.restart(targets), self._device)
        self._go_under(new)
        none = with_less(lambda: whole.domains.select(slice(0, 0)), self._device)
        self._begin_with(with_less(lambda: self._filter(whole), self._device) if carried is None else none)
        for moved, _ in carried or []:
            self._bound_again(moved)
        frontier.discard()

    # --- where it begins ---

    def _bound_root(self) -> bool:
        """Bound the whole input set (lines 2 and 3); False when there was no time, or a witness came first."""
        began, others = time.monotonic(), self._other_seconds()
        self._report("root", float("-inf"), 0)
        first = with_less(lambda: self._first_root(self._thresholds()), self._device)
        self._stats.seconds["root"] += time.monotonic() - began - (self._other_seconds() - others)
        if first is None or self._ledger.done:
            return False
        root, bounds = first
        self._go_under(root)
        self._whole_slopes = bounds.domains.slopes
        self._whole_bound = min(bounds.domains.bound.tolist(), default=float("inf"))
        looked = bounds if self._deadline.expired else self._first_look(root, bounds)
        self._open(with_less(lambda: self._filter(looked), self._device))
        return True

    def _first_root(self, threshold: Tensor) -> tuple[Root, Bounds] | None:
        """Return the root to begin with, and what it proves of the whole set; threshold: (target,)."""
        with self._work.meanwhile(self._deadline) as deadline:
            return self._method.bounder.root(self._problem, threshold, self._device, deadline, self._clock)

    def _first_look(self, root: Root, bounds: Bounds) -> Bounds:
        """Return what a root proves of the whole set, or more where something else proves it."""
        return bounds

    def _thresholds(self) -> Tensor:
        """Return by target the bound above which it is settled, (target,)."""
        return self._goal.thresholds(torch.arange(len(self._problem.disjuncts), device=self._device))

    def _take_up(self, root: Root, domains: Domains, bounded: bool = True) -> bool:
        """Begin with sub-domains of a root, which another search left open or nobody has bounded yet."""
        self._go_under(root)
        self._asked = with_less(lambda: self._shares_of(domains), self._device)
        if bounded:
            self._open(domains)
            return True
        self._open(with_less(lambda: domains.select(slice(0, 0)), self._device))
        began, confirmed = time.monotonic(), self._clock.confirm
        self._bound_again(with_less(lambda: self._not_settled(domains), self._device))
        self._stats.seconds["search"] += time.monotonic() - began - (self._clock.confirm - confirmed)
        return True

    def _not_settled(self, domains: Domains) -> Domains:
        """Settle the sub-domains that a root proves with the whole set, which takes no time; return the rest."""
        rest = domains.select(self._ledger.is_open(domains).nonzero()[:, 0])
        self._ledger.settle(domains)  # last: if memory runs out before, it is done again
        return rest

    def _shares_of(self, domains: Domains) -> tuple[Fraction, ...]:
        """Return by target the share of its set that sub-domains are."""
        given = Cover(len(self._problem.disjuncts))
        given.close(domains.target, domains.level)
        return given.shares()

    def _bound_again(self, domains: Domains) -> None:
        """Bound sub-domains that were bounded under another root, or not at all; what has no turn is open as it was."""
        named = domains.candidates[:, : self._width]

        def wide() -> Domains:
            padded = pad(named, (0, self._width - named.shape[1]), value=-1)
            return self._unpacked(replace(domains, candidates=padded))

        domains = with_less(wide, self._device)
        self._all_bounded &= self._bound_all(domains, self._bound) == len(domains)

    def _packed(self, parts: Domains) -> Domains:
        """Leave out the boxes that targets have of their own: many inputs are more than all the rest."""
        return parts if self._under.own is None else replace(parts, inside=parts.inside[:, :0, :0])

    def _unpacked(self, parts: Domains) -> Domains:
        own = self._under.own
        return parts if own is None else replace(parts, inside=own.of(parts.target))

    def _storage(self) -> Keeper:
        return Keeper.of(self._under, self._whole_slopes)

    def _go_under(self, root: Root) -> None:
        """Take a root as that of all sub-domains from now on."""
        with_less(lambda: self._take(root), self._device)

    def _take(self, root: Root) -> None:
        self._root = root
        self._ledger.under(root)
        self._leaf = LeafLP(root, self._workers)
        tell = self._tell_of_lps
        self._lp_turns = LpTurns(root, self._leaf, self._method.bounder, self._ledger, self._workers, tell)
        if self._method.leaf_lp:
            self._effort.with_lp(neurons_of(root), self._method.lp_threshold, self._method.patience)
        most = self._method.batch if self._method.most is None else self._method.most
        self._chunk = max(1, min(2 * most, self._method.bounder.domains_at_once(root)))
        self._a_round = max(1, self._chunk // 2)  # so that the next look at the deadline is not far

    @property
    def _under(self) -> Root:
        assert self._root is not None
        return self._root

    def still_open(self) -> Start | None:
        """Return what another search can go on with: the root, and the sub-domains that are open under it."""
        if self._root is None or self._frontier is None:
            return None
        return Start(self._root, concatenate(list(self._frontier.everything())), self._all_bounded)

    # --- what a round is made of ---

    def _pick(self, frontier: Frontier[Domains]) -> Domains:
        """Pop the worst; where memory runs out those nearest to a proof, so that the frontier shrinks."""
        batch = self._method.batch
        if self._method.most is not None:
            batch = max(batch, min(self._method.most, len(frontier) // SHARE))
        batch = min(batch, self._a_round)
        behind = self._effort.lp.is_behind(len(frontier))
        return frontier.pop(self._at_most(min(batch, self._lp_turns.batch) if behind else batch), best=self._full)

    def _leaves_apart(self, picked: Domains) -> tuple[Domains, Domains]:
        def apart() -> tuple[Domains, Domains]:
            splittable = (picked.candidates >= 0).any(1)
            none = (~splittable).nonzero()[:, 0]
            return picked.select(none), picked.select(splittable) if len(none) else picked  # a copy is large

        return with_less(apart, self._device)

    def _split(self, picked: Domains, others: int) -> Domains:
        """Split on several neurons at once while few sub-domains are open, to fill the device (section 3.3)."""
        fill = self._method.batch if self._method.fill is None else self._method.fill
        at_once = neurons_at_once(fill, len(picked) + others)
        candidates = self._method.brancher.reorder(self._under, picked, self._effort.probes_due())
        return split_on(self._under, picked, candidates[:, :at_once])

    def _after_round(self, frontier: Frontier[Domains]) -> None:
        if self._goal.moves:  # a smaller minimum seen proves more
            frontier.keep(with_less(lambda: self._ledger.settle(frontier.domains), self._device))

    def _bound(self, parts: Domains) -> Domains:
        threshold = self._goal.thresholds(parts.target)
        self._effort.pay(len(parts))
        parts = self._rebounded(parts, threshold)
        bounds = self._method.bounder.bound(self._under, parts, threshold, self._deadline, self._clock)
        self._stats.domains += len(parts)
        return self._filter(bounds)

    def _rebounded(self, children: Domains, threshold: Tensor) -> Domains:
        """Return the children with the neurons of those bounded again whose turn it is, if that pays here."""
        root, bounder, account = self._under, self._method.bounder, self._effort.rebounding
        due = self._effort.rebounds_due(children, bounder.rebound_rows(root))
        if len(due) == 0:
            return children
        account.pay(len(due))
        stale = children.select(due)
        fresh = bounder.rebounded(root, stale, self._deadline, self._clock)
        if account.pays is None:
            account.judge(self._gain(stale, fresh, threshold[due]))
        return children.put(due, fresh)

    def _gain(self, stale: Domains, fresh: Domains, threshold: Tensor) -> float:
        """Return what bounding neurons again gains of the distance to a proof."""
        bound, given = self._method.bounder.bound, (threshold, self._deadline, self._clock)
        before, after = (bound(self._under, domains, *given).domains for domains in (stale, fresh))
        missing, left = ((threshold - domains.bound).clamp(min=0) for domains in (before, after))
        return float(1 - left.sum() / missing.sum().clamp(min=1e-12))

    def _filter(self, bounds: Bounds) -> Domains:
        """Try the bounds' minimisers as witnesses, drop what is proved, rank the neurons of the rest."""
        worst = bounds.domains.bound.topk(min(POINTS, len(bounds.domains)), largest=False).indices
        self._ledger.try_points(bounds.point[worst], bounds.domains.target[worst])
        rest = bounds.select(self._ledger.is_open(bounds.domains).nonzero()[:, 0])
        candidates = self._ranked(rest)
        self._ledger.settle(bounds.domains)  # last: if memory runs out before, the same ones are bounded again
        return replace(rest.domains, candidates=candidates)

    @property
    def _width(self) -> int:
        """Return how many neurons are named for each sub-domain under this root."""
        return max(1, min(CANDIDATES, self._under.count))

    def _ranked(self, rest: Bounds) -> Tensor:
        """Return the neurons to split (domain, k); none past the deadline, when ranking may still take long."""
        if not self._deadline.expired:
            return self._method.brancher.choose(self._under, rest, CANDIDATES)
        self._all_bounded = False  # whoever takes them up bounds and ranks them
        return rest.domains.candidates.new_full((len(rest.domains), self._width), -1)

    def _decide_leaves(self, leaves: Domains) -> None:
        """Decide sub-domains with nothing left to split by LP, which is exact there; keep the others as undecided."""
        if not self._method.leaf_lp or len(leaves) == 0:
            self._ledger.leave_undecided(leaves)
            return
        began = time.monotonic()
        self._report("leaf", float(self.target_bounds().min()), len(leaves))
        outcomes = self._leaf.decide(leaves, self._deadline)
        self._stats.leaf_lps += len(leaves)
        with_less(lambda: self._ledger.try_points(outcomes.point, leaves.target), self._device)
        self._ledger.leave_undecided(with_less(lambda: self._settled(leaves, outcomes), self._device))
        self._stats.seconds["leaf"] += time.monotonic() - began

    def _settled(self, leaves: Domains, outcomes: Outcomes) -> Domains:
        """Settle leaves by what LPs say of them; return those that stay open."""
        leaves = with_bounds(leaves, outcomes.bound)
        rest = leaves.select(self._ledger.is_open(leaves))
        self._ledger.settle(leaves, by="lp")  # last: if memory runs out before, it is done again
        return rest

    def _outcome(self, reason: str = "") -> Outcome:
        undecided, waiting = self._ledger.undecided, self._open_count
        stopped = bool(reason) or waiting > 0 or (undecided > 0 and self._deadline.expired)
        if not reason and stopped:
            reason = f"{waiting + undecided} sub-domains still open"
            if waiting and not self._deadline.expired and self._is_short:
                stopped, reason = False, f"{reason}, and no memory for more"
        elif undecided and not stopped:
            leaves = "1 leaf" if undecided == 1 else f"{undecided} leaves"
            reason = f"{leaves} {self._why_undecided()}"
        lps = self._stats.leaf_lps + self._stats.lps
        how = "leaf" if lps else "search" if self._stats.rounds else "root"
        return Outcome(
            with_less(self._ledger.proved, self._device),
            tuple(self.target_bounds().tolist()),
            self._goal.witness,
            reason,
            stopped,
            "search" if self._ledger.done else how,
            self._asked,
        )

    def _why_undecided(self) -> str:
        if self._no_lp is not None:
            return f"left, too thin to split or linear, and no LP form for {self._no_lp}"
        if not self._method.leaf_lp:
            return "left, which only an LP can decide, and leaf_lp is off"
        if self._problem.input_set.p == 2:
            return "within rounding of a violation, or beyond the solver of their quadratic programs"
        return "within rounding of a violation"
