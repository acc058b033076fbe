"""Algorithm 1: parallel branch and bound with optimised LiRPA, and LP only where it must be."""

from __future__ import annotations

import time
from dataclasses import replace
from fractions import Fraction

import torch
from torch import Tensor

from netproof.bounds.base import Bounds, Clock
from netproof.bounds.domains import Domains
from netproof.bounds.linear.memory import domains_that_fit
from netproof.bounds.neurons.root import Root
from netproof.bounds.neurons.transfer import repack
from netproof.bounds.scope import split_on
from netproof.core.batch import concatenate
from netproof.errors import DeviceError
from netproof.problem.problem import Problem
from netproof.relax import without_lp_form
from netproof.search.effort import Effort
from netproof.search.evidence import Cover, Outcome
from netproof.search.frontier import Frontier
from netproof.search.goals import Goal
from netproof.search.leaf import LeafLP, with_bounds
from netproof.search.ledger import Ledger
from netproof.search.lp_turns import LpTurns, lp_account
from netproof.search.method import Method, SecondLook, Start, Work
from netproof.search.root_tightening import tightening_cost, tighter_root

CANDIDATES = 12  # neurons remembered per sub-domain, and the most that are split at once
CROWDED = 10  # past so many η, a round splits no more sub-domains than an LP turn takes, so that the LP can keep up
SHARE = 8  # past n sub-domains, a round takes at most one in so many of the open ones
REPORT_EVERY = 0.05  # seconds between two reports of the search
GRAIN = 1e-2  # bounds in the same step of this size count as equal, and the deeper sub-domain goes first
POINTS = 64  # minimisers tried per batch, those of the worst bounds


class Search:
    """One problem's search. `run` is Algorithm 1; everything it does is a method of a few lines."""

    def __init__(
        self,
        problem: Problem,
        method: Method,
        goal: Goal,
        work: Work,
        second_look: SecondLook | None = None,
        start: Start | None = None,
    ) -> None:
        device = work.device
        self._second_look, self._start = second_look, start
        self._no_lp = without_lp_form(problem.graph)
        self._problem, self._goal = problem, goal
        self._method = method if self._no_lp is None else replace(method, leaf_lp=False)
        self._device, self._workers = device, work.workers
        self._deadline, self._stats, self._report = work.deadline, work.stats, work.report
        self._clock = Clock(recorder=work.recorder)
        self._effort = Effort.on(device, off=not method.effort)
        self._effort.attack_after = None if second_look is None else second_look.after
        self._ledger = Ledger(goal, len(problem.disjuncts), device, self._clock.recorder)
        self._root: Root | None = None
        self._asked: tuple[Fraction, ...] | None = None  # by target, the share that was given; None: all
        self._all_bounded = True  # whether all that is open was bounded under the present root
        self._frontier: Frontier[Domains] | None = None
        self._chunk = 1  # children bounded at once
        self._room: tuple[int | None, int] = (None, 1)  # sub-domains that the device and the host may hold
        self._found_by = "search"
        self._whole_bound = float("-inf")  # of the whole input set under the present root

    def run(self, rounds: int | None = None) -> Outcome:
        """Search until all is settled, time is up or so many rounds were done; RuntimeError the second time."""
        if self._root is not None:
            raise RuntimeError("a search runs once; still_open() is what another can start from")
        last = None if rounds is None else self._stats.rounds + rounds
        first = self._bound_root() if self._start is None else self._take_up(*self._start)
        if first is None:
            self._ledger.nothing_is_known()
            return self._outcome(reason="the root was not bounded in time")
        root, frontier = first
        self._root = root
        leaf, fallback = self._lps(root)
        reported = float("-inf")
        while len(frontier) and not self._ledger.done and not self._deadline.expired and self._stats.rounds != last:
            if self._tightening_is_due(root):
                root, frontier = self._tighten(root, frontier)
                self._root = root
                leaf, fallback = self._lps(root)
                continue
            if self._effort.attack_is_due() and self._attack_again(frontier):
                break
            began, other = time.monotonic(), self._other_seconds()
            if self._effort.lp_is_due(frontier):
                self._report("leaf", float(self.target_bounds().min()), len(frontier))
                fallback.turn(frontier, self._deadline, self._stats, self._clock)
            if not self._ledger.done:
                self._round(root, frontier, leaf, fallback.batch)
                if self._goal.moves:  # a smaller minimum seen proves more
                    frontier.keep(self._ledger.settle(frontier.domains))
            spent = time.monotonic() - began - (self._other_seconds() - other)
            self._stats.seconds["search"] += max(0.0, spent)
            if time.monotonic() - reported > REPORT_EVERY:  # telling the bound waits for the device
                reported = time.monotonic()
                self._report("search", float(self.target_bounds().min()), len(frontier))
        if self._stats.rounds:
            self._report("search", float(self.target_bounds().min()), len(frontier))
        self._stats.seconds["confirm"] += self._clock.confirm
        return self._outcome()

    def discard(self) -> None:
        """Let go of what is open, once nothing more is asked."""
        if self._frontier is not None:
            self._frontier.discard()

    def _attack_again(self, frontier: Frontier[Domains]) -> bool:
        """Look for a counterexample again; say whether there is one."""
        look = self._second_look
        assert look is not None
        began = time.monotonic()
        self._report("attack", float(self.target_bounds().min()), len(frontier))
        found = look.find(torch.cat([part.target.cpu() for part in frontier.parts()]).unique().tolist())
        self._stats.seconds["attack"] += time.monotonic() - began
        self._found_by = "attack" if found else "search"
        return found

    def _lps(self, root: Root) -> tuple[LeafLP, LpTurns]:
        leaf = LeafLP(root, self._workers)
        if self._method.leaf_lp:
            self._effort.lp = lp_account(root, self._method.lp_threshold, self._method.patience)
        return leaf, LpTurns(root, leaf, self._method.bounder, self._ledger, self._workers)

    def _tightening_is_due(self, root: Root) -> bool:
        cost = tightening_cost(self._method.bounder, root)
        return cost is not None and self._effort.tightening_is_due(cost)

    def _tighten(self, root: Root, frontier: Frontier[Domains]) -> tuple[Root, Frontier[Domains]]:
        """Make a tighter root and bound what is open again under it: sub-domain by sub-domain, or from the start."""
        began, confirmed = time.monotonic(), self._clock.confirm
        self._report("root", float(self.target_bounds().min()), len(frontier))
        bounder, account = self._method.bounder, self._effort.tightening
        account.pay(tightening_cost(bounder, root) or 0, self._effort.bounded)
        new = tighter_root(bounder, self._method.brancher, root, account, self._deadline, self._clock)
        if new is not None:
            self._effort.under_new_root()
            frontier = self._carry_over(root, new, frontier)
        account.over = account.over or new is None
        self._stats.seconds["root"] += time.monotonic() - began - (self._clock.confirm - confirmed)
        return new or root, frontier

    def _carry_over(self, root: Root, new: Root, frontier: Frontier[Domains]) -> Frontier[Domains]:
        open_targets = torch.cat([part.target.to(self._device) for part in frontier.parts()]).unique()
        before = self._whole_bound
        every = torch.arange(len(self._problem.disjuncts), device=self._device)
        whole = self._method.bounder.whole(new, self._goal.thresholds(every), self._deadline, self._clock)
        whole = whole.select(open_targets)
        self._whole_bound = float(whole.domains.bound.min())
        self._effort.tightening.judge(before, self._whole_bound)
        # A search of some sub-domains must not go beyond them: it carries over all that it has.
        few = self._start is not None or (len(frontier) <= self._method.batch and not frontier.waiting)
        carried = []
        if few:
            carried = [repack(part.map(lambda t: t.to(self._device)), root, new) for part in frontier.parts()]
            for _, covered in carried:
                self._ledger.drop(covered)
        else:
            self._ledger.restart(open_targets)
        self._ledger.under(new)
        domains = self._filter(new, whole) if not few else whole.domains.select(slice(0, 0))
        self._chunk = self._children_that_fit(new)
        self._frontier = Frontier(domains, self._room[0], GRAIN)
        for moved, _ in carried:
            self._bound_all(new, self._frontier, moved)
        frontier.discard()
        return self._frontier

    def _bound_root(self) -> tuple[Root, Frontier[Domains]] | None:
        """Bound the whole input set (lines 2 and 3); None when there was no time."""
        began = time.monotonic()
        self._report("root", float("-inf"), 0)
        targets = torch.arange(len(self._problem.disjuncts), device=self._device)
        threshold = self._goal.thresholds(targets)
        first = self._method.bounder.root(self._problem, threshold, self._device, self._deadline, self._clock)
        self._stats.seconds["root"] += time.monotonic() - began - self._clock.confirm
        if first is None:
            return None
        root, bounds = first
        self._ledger.under(root)
        self._whole_bound = float(bounds.domains.bound.min()) if len(bounds.domains) else float("inf")
        return root, self._opened(root, self._filter(root, bounds))

    def _opened(self, root: Root, domains: Domains) -> Frontier[Domains]:
        """Open a frontier of sub-domains, for the memory that there is."""
        self._chunk = self._children_that_fit(root)
        self._room = domains_that_fit(domains.bytes_each, self._device)
        self._frontier = Frontier(domains, self._room[0], GRAIN)
        return self._frontier

    def _take_up(self, root: Root, domains: Domains, bounded: bool = True) -> tuple[Root, Frontier[Domains]]:
        """Begin with sub-domains of a root, which another search left open or nobody has bounded yet."""
        self._ledger.under(root)
        given = Cover(len(self._problem.disjuncts))
        given.close(domains.target, domains.level)
        self._asked = given.shares()
        if bounded:
            return root, self._opened(root, domains)
        width = max(1, min(CANDIDATES, root.count))
        domains = replace(domains, candidates=domains.target.new_full((len(domains), width), -1))
        frontier = self._opened(root, domains.select(slice(0, 0)))
        began, confirmed = time.monotonic(), self._clock.confirm
        self._all_bounded = self._bound_all(root, frontier, domains) == len(domains)
        self._stats.seconds["search"] += time.monotonic() - began - (self._clock.confirm - confirmed)
        return root, frontier

    def still_open(self) -> Start | None:
        """Return what another search can go on with: the root, and the sub-domains that are open under it."""
        if self._root is None or self._frontier is None:
            return None
        parts = [part.map(lambda t: t.to(self._device)) for part in self._frontier.parts()]
        return Start(self._root, concatenate(parts), self._all_bounded)

    def _full(self, frontier: Frontier[Domains]) -> bool:
        """Say whether the device and the host together hold more sub-domains than they may."""
        device, host = self._room
        return len(frontier) > (device or 0) + host

    def _round(self, root: Root, frontier: Frontier[Domains], leaf: LeafLP, few: int) -> None:
        """Pick, split, bound, filter: lines 5 to 10."""
        picked = self._pick(frontier, few)
        splittable = (picked.candidates >= 0).any(1)
        self._decide_leaves(picked.select(~splittable), leaf)
        picked = picked.select(splittable)
        if self._ledger.done:
            frontier.push(picked)  # still open, as it was
        if len(picked) == 0 or self._ledger.done:
            return
        self._stats.rounds += 1
        candidates = self._method.brancher.reorder(root, picked)
        children = split_on(root, picked, candidates[:, : self._neurons_at_once(len(picked) + len(frontier))])
        self._bound_all(root, frontier, children)

    def _bound_all(self, root: Root, frontier: Frontier[Domains], children: Domains) -> int:
        """Bound sub-domains, as many at a time as fit, and push what is not proved; return how many were bounded."""
        done = 0
        while done < len(children) and not self._ledger.done and not self._deadline.expired:
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
        return done

    def _pick(self, frontier: Frontier[Domains], few: int) -> Domains:
        """Pop the worst; where memory runs out those nearest to a proof, so that the frontier shrinks."""
        eta = self._method.lp_threshold
        crowded = eta is not None and self._method.leaf_lp and len(frontier) > CROWDED * eta
        batch = self._method.batch
        if self._method.most is not None:
            batch = max(batch, min(self._method.most, len(frontier) // SHARE))
        return frontier.pop(min(batch, few) if crowded else batch, best=self._full(frontier))

    def _neurons_at_once(self, available: int) -> int:
        """Return how many neurons to split: several while the frontier is small, to fill the device (section 3.3)."""
        if self._effort.off:
            return 1
        fill = self._method.batch if self._method.fill is None else self._method.fill
        return max(1, min(CANDIDATES, (fill // available).bit_length()))

    def _bound(self, root: Root, children: Domains) -> Domains:
        threshold = self._goal.thresholds(children.target)
        self._effort.pay(len(children))
        children = self._rebounded(root, children, threshold)
        bounds = self._method.bounder.bound(root, children, threshold, self._deadline, self._clock)
        self._stats.domains += len(children)
        return self._filter(root, bounds)

    def _rebounded(self, root: Root, children: Domains, threshold: Tensor) -> Domains:
        """Return the children with the neurons of those bounded again whose turn it is, if that pays here."""
        bounder, account = self._method.bounder, self._effort.rebounding
        due = self._effort.rebounds_due(children, bounder.rebound_rows(root))
        if len(due) == 0:
            return children
        stale = children.select(due)
        fresh = bounder.rebounded(root, stale, self._deadline, self._clock)
        if account.pays is None:
            account.judge(self._gain(root, stale, fresh, threshold[due]))
        return children.put(due, fresh)

    def _gain(self, root: Root, stale: Domains, fresh: Domains, threshold: Tensor) -> float:
        """Return what bounding neurons again gains of the distance to a proof."""
        given = threshold, self._deadline, self._clock
        before, after = (self._method.bounder.bound(root, domains, *given).domains for domains in (stale, fresh))
        missing, left = ((threshold - domains.bound).clamp(min=0) for domains in (before, after))
        return float(1 - left.sum() / missing.sum().clamp(min=1e-12))

    def _filter(self, root: Root, bounds: Bounds) -> Domains:
        """Try the bounds' minimisers as witnesses, drop what is proved, rank the neurons of the rest."""
        worst = bounds.domains.bound.topk(min(POINTS, len(bounds.domains)), largest=False).indices
        self._ledger.try_points(bounds.point[worst], bounds.domains.target[worst])
        rest = bounds.select(self._ledger.is_open(bounds.domains).nonzero()[:, 0])
        candidates = self._method.brancher.choose(root, rest, CANDIDATES)
        self._ledger.settle(bounds.domains)  # last: if memory runs out before, the same ones are bounded again
        return replace(rest.domains, candidates=candidates)

    def _decide_leaves(self, leaves: Domains, leaf: LeafLP) -> None:
        """Decide sub-domains with nothing left to split by LP, which is exact there; keep the others as undecided."""
        if not self._method.leaf_lp or len(leaves) == 0:
            self._ledger.leave_undecided(leaves)
            return
        began = time.monotonic()
        self._report("leaf", float(self.target_bounds().min()), len(leaves))
        outcomes = leaf.decide(leaves, self._deadline)
        self._stats.leaf_lps += len(leaves)
        self._ledger.try_points(outcomes.point, leaves.target)
        leaves = with_bounds(leaves, outcomes.bound)
        self._ledger.leave_undecided(leaves.select(self._ledger.settle(leaves, by="lp")))
        self._stats.seconds["leaf"] += time.monotonic() - began

    def _children_that_fit(self, root: Root) -> int:
        """Return how many children are bounded at once: twice the batch, or what memory allows."""
        most = self._method.batch if self._method.most is None else self._method.most
        return max(1, min(2 * most, self._method.bounder.domains_at_once(root)))

    def _halve(self) -> None:
        """Bound half as many sub-domains at a time once the device's memory is full; raises DeviceError at one."""
        if self._chunk == 1:
            raise DeviceError("out of memory with one sub-domain at a time", remedy="use --device cpu or a larger GPU")
        torch.cuda.empty_cache()
        self._chunk //= 2

    def target_bounds(self) -> Tensor:
        """Return what is proved of each target on the whole input set, (target,)."""
        return self._ledger.target_bounds([] if self._frontier is None else self._frontier.parts())

    def _other_seconds(self) -> float:
        return self._clock.confirm + self._stats.seconds["leaf"]

    def _outcome(self, reason: str = "") -> Outcome:
        undecided, waiting = self._ledger.undecided, 0 if self._frontier is None else len(self._frontier)
        stopped = bool(reason) or waiting > 0 or (undecided > 0 and self._deadline.expired)
        if not reason and stopped:
            reason = f"{waiting + undecided} sub-domains still open"
        elif undecided and not stopped:
            leaves = "1 leaf" if undecided == 1 else f"{undecided} leaves"
            reason = f"{leaves} {self._why_undecided()}"
        lps = self._stats.leaf_lps + self._stats.lps
        how = "leaf" if lps else "search" if self._stats.rounds else "root"
        return Outcome(
            self._ledger.proved(),
            tuple(self.target_bounds().tolist()),
            self._goal.witness,
            reason,
            stopped,
            self._found_by if self._ledger.done else how,
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
