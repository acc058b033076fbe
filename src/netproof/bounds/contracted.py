"""A bounder with constraint propagation before it: what that empties is not bounded at all."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import torch
from torch import Tensor

from netproof.bounds.bounder import Bounder, Bounds, Clock
from netproof.bounds.contract import Contraction, contractor_of
from netproof.bounds.root import Root
from netproof.core.deadline import Deadline
from netproof.problem.domains import Domains
from netproof.problem.problem import Problem


@dataclass(frozen=True)
class Contracted(Bounder):
    """`inner` on what propagation leaves."""

    inner: Bounder
    most: int = 50_000  # entries of the propagation: above, it costs more than it brings

    def root(
        self, problem: Problem, threshold: Tensor, device: torch.device, deadline: Deadline, clock: Clock
    ) -> tuple[Root, Bounds] | None:
        first = self.inner.root(problem, threshold, device, deadline, clock)
        if first is None or not self._serves(first[0]):
            return first
        root, bounds = first
        found = contractor_of(root).contract(bounds.domains, threshold, deadline)
        return root, _merge(bounds, found)

    def bound(self, root: Root, domains: Domains, threshold: Tensor, deadline: Deadline, clock: Clock) -> Bounds:
        if not self._serves(root):
            return self.inner.bound(root, domains, threshold, deadline, clock)
        found = contractor_of(root).contract(domains, threshold, deadline)
        given = replace(domains, lower=found.lower, upper=found.upper)
        rest = (~found.empty).nonzero()[:, 0]
        bounds = Bounds(given, found.empty, domains.lower.new_zeros(len(domains), root.count), _corner(root, found))
        import os
        if len(rest):
            if os.environ.get("IMPL"):
                sign = (given.lower >= 0).to(torch.int16) - ((given.upper <= 0) & (given.lower < 0)).to(torch.int16)
                given2 = replace(given, splits=torch.where(given.splits == 0, sign, given.splits))
            else:
                given2 = given
            inner = self.inner.bound(root, given2.select(rest), threshold[rest], deadline, clock)
            inner = replace(inner, domains=replace(inner.domains, splits=given.splits[rest], settled=given.depth[rest]))
            if os.environ.get("POST"):
                live = (inner.domains.bound <= threshold[rest]).nonzero()[:, 0]
                if len(live):
                    d = inner.domains.select(live)
                    f2 = contractor_of(root).contract(replace(d, splits=given2.splits[rest][live]), threshold[rest][live], deadline, int(os.environ.get("POST")))
                    d = replace(d, lower=f2.lower, upper=f2.upper, bound=torch.where(f2.empty, torch.inf, d.bound))
                    inner = _write(inner, live, Bounds(d, f2.empty, inner.coef[live], inner.point[live]))
            bounds = _write(bounds, rest, inner)
        return _final(bounds, found)

    def domains_at_once(self, root: Root) -> int:
        return self.inner.domains_at_once(root)

    def _serves(self, root: Root) -> bool:
        return 0 < root.count and contractor_of(root).entries <= self.most


def _corner(root, found):
    region = root.search.region
    return found.corner.view(-1, *region.centre.shape).float().maximum(region.lower).minimum(region.upper)


def _write(all_: Bounds, at: Tensor, part: Bounds) -> Bounds:
    d = Domains(**{f.name: getattr(all_.domains, f.name).index_copy(0, at, getattr(part.domains, f.name)) for f in fields(Domains)})
    return Bounds(d, all_.empty.index_copy(0, at, part.empty), all_.coef.index_copy(0, at, part.coef), all_.point)


def _merge(bounds: Bounds, found: Contraction) -> Bounds:
    empty = bounds.empty | found.empty
    d = replace(bounds.domains, lower=found.lower, upper=found.upper, bound=torch.where(empty, torch.inf, bounds.domains.bound), settled=bounds.domains.depth)
    return Bounds(d, empty, bounds.coef, bounds.point)


def _final(bounds: Bounds, found: Contraction) -> Bounds:
    empty = bounds.empty | found.empty
    return Bounds(replace(bounds.domains, bound=torch.where(empty, torch.inf, bounds.domains.bound), settled=bounds.domains.depth), empty, bounds.coef, bounds.point)
