"""The largest radius of an image, closed in from both sides: broken from above by attacks alone, certified by proofs.

An attack is cheap, so the broken side is bisected first, and proofs are only asked below it. A radius that no proof
decides in its time says nothing of the truth: the certified side goes on below it, and it gets more time at the end.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Protocol

from netproof.core.deadline import Deadline
from netproof.errors import UsageError

DOUBLINGS = 20  # doublings of the first radius at most
PRECISION = Fraction(1, 100)  # relative precision of either side, unless a finer one is asked for
COARSE = Fraction(
    1, 16
)  # and of the certified one below a radius that was left undecided: more time is worth more there
SECONDS_A_RADIUS = 30.0  # per proof where no time limit is given
SMALLEST = Fraction(1, 2**20)  # share of the first radius below which nothing is worth certifying
AGAIN = 4  # times as long for a radius that was left undecided, once all else is done
RETRIES = 3  # such radii that get more time, at most


class Asking(Protocol):
    """Answers questions about one image, and remembers or shows what it answered."""

    def attack(self, eps: Fraction, seconds: float | None) -> bool:
        """Look for a counterexample within eps; say whether there is one."""

    def prove(self, eps: Fraction, seconds: float | None) -> str:
        """Decide eps; return "unsat", "sat", "timeout" or "unknown"."""


@dataclass
class Bracket:
    """What is known of the largest radius: it is at least `certified` and below `broken`."""

    certified: Fraction | None = None
    broken: Fraction | None = None
    undecided: list[Fraction] = field(default_factory=list)
    within: Fraction = PRECISION

    @property
    def low(self) -> Fraction:
        return self.certified or Fraction(0)

    @property
    def is_close(self) -> bool:
        """Say whether both sides are near enough to each other."""
        return self.broken is not None and self.broken - self.low <= self.within * self.broken

    @property
    def high(self) -> Fraction | None:
        """Return the least radius above `certified` that is broken or was left undecided."""
        above = [eps for eps in self.undecided if eps > self.low] + ([self.broken] if self.broken is not None else [])
        return min(above, default=None)

    def take(self, eps: Fraction, verdict: str) -> None:
        """Take in the answer about one radius."""
        if verdict == "unsat":
            self.certified = max(self.low, eps)
        elif verdict == "sat":
            self.broken = eps if self.broken is None else min(self.broken, eps)
        else:
            self.undecided.append(eps)


def share(within: Fraction, name: str) -> Fraction:
    """Return a share by which both sides may differ; UsageError where it is none."""
    if not 0 < within < 1:
        raise UsageError(f"{name} is no share", remedy="give a number between 0 and 1, such as 0.1")
    return within


def why_none_certified(left_open: Mapping[Fraction, str]) -> str:
    """Say why no radius is certified; left_open: why nothing is known of those that a proof was tried for."""
    if not left_open:
        return "no radius is certified: no time was left for a proof"
    least = min(left_open)
    return f"no radius is certified: {float(least):.6g} was left open ({left_open[least]})"


def close_in(
    asking: Asking, first: Fraction, deadline: Deadline, *, limited: bool, within: Fraction = PRECISION
) -> Bracket:
    """Find the largest radius, beginning at `first`; limited: whether the deadline is a time limit, not only a stop.

    within: the share of what is broken by which what is certified may stay below it.
    """
    found = Bracket(within=within)
    seconds = deadline.remaining() / 4 if limited else None
    _break_down(found, asking, first, Deadline(seconds), deadline)
    _certify_up(found, asking, first, deadline, limited)
    for _ in range(RETRIES):
        eps = found.high
        if deadline.expired or eps is None or eps == found.broken or found.is_close:
            break
        found.undecided.remove(eps)
        found.take(eps, asking.prove(eps, deadline.remaining() / 2 if limited else AGAIN * SECONDS_A_RADIUS))
        if eps in found.undecided:
            break
        _certify_up(found, asking, first, deadline, limited)
    return found


def _break_down(found: Bracket, asking: Asking, first: Fraction, own: Deadline, deadline: Deadline) -> None:
    """Bisect the broken side by attacks alone."""
    unbroken, eps = Fraction(0), first
    while not (own.expired or deadline.expired) and _worth(eps, first):
        if asking.attack(eps, own.remaining()):
            found.take(eps, "sat")
        else:
            unbroken = eps
        broken = found.broken
        if broken is not None and broken - unbroken <= min(PRECISION, found.within) * broken:
            return
        eps = 2 * unbroken if broken is None else _between(unbroken, broken)


def _certify_up(found: Bracket, asking: Asking, first: Fraction, deadline: Deadline, limited: bool) -> None:
    """Bisect between what is certified and what is not, by proofs."""
    while not deadline.expired:
        low, high = found.low, found.high
        if found.is_close or (high is not None and high != found.broken and high - low <= COARSE * high):
            return
        eps = _between(low, high) if high is not None and (low > 0 or high <= first) else 2 * low or first
        if not _worth(eps, first):
            return
        # One radius that is hard must not take the time of all later ones.
        found.take(eps, asking.prove(eps, deadline.remaining() / 4 if limited else SECONDS_A_RADIUS))


def _worth(eps: Fraction, first: Fraction) -> bool:
    return bool(first * SMALLEST <= eps <= first * 2**DOUBLINGS)


def _between(low: Fraction, high: Fraction) -> Fraction:
    """Return a short decimal near the middle, so that the answer can be typed in again."""
    return Fraction(f"{float((low + high) / 2):.6g}")
