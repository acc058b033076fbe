"""Scores of a campaign: VNN-COMP's points, PAR-2, the virtual best of all, and how much faster one is than another."""

from __future__ import annotations

import dataclasses
import itertools
import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from netproof.campaign.store import Result
from netproof.campaign.summary import Instance, Run, Summary, Truths, is_right, summaries, summarise, truths

RIGHT, WRONG = 10, -150  # VNN-COMP's points for an answer
LATE = 2.0  # PAR-2: what was not solved counts this many times its limit
LEAST = 0.001  # seconds: a quotient of shorter times says nothing
VIRTUAL, ALL = "virtual best", "all"
MOST_PAIRS = 10  # pairs of configurations; with more, only those of the first with the others


@dataclass(frozen=True)
class Score:
    """One benchmark (or all), one configuration (or the virtual best)."""

    summary: Summary
    points: int
    share: float | None  # points in percent of the best configuration's, as VNN-COMP ranks; of all: their sum
    par2: float | None  # mean seconds, LATE times the limit where it was not solved; None without a limit


@dataclass(frozen=True)
class Duel:
    """Two configurations on the same instances; times only where both solved it with the same answer."""

    first: str
    second: str
    both: int  # a wrong answer solves nothing
    only_first: int
    only_second: int
    mean: float | None  # geometric mean of the second's seconds over the first's: how many times faster the first is
    median: float | None
    total: float | None  # quotient of the sums
    faster: int  # instances on which the first is the faster one


def scores(runs: Sequence[Run]) -> list[Score]:
    """Score every configuration on each benchmark, the virtual best after them; of several benchmarks, also on all."""
    truth = truths(runs)
    shown = [*runs, *_virtual(runs, truth)]
    by: dict[tuple[str, str], list[Result]] = defaultdict(list)
    for run in shown:
        by[run.result.benchmark, run.label].append(run.result)
    limits = _limits(runs)
    found = [_score(one, by[one.benchmark, one.method], truth, limits) for one in summaries(shown, truth)]
    best: dict[str, int] = defaultdict(int)
    for score in found:
        best[score.summary.benchmark] = max(best[score.summary.benchmark], score.points)
    found = [dataclasses.replace(score, share=_share(score, best)) for score in found]
    if len(best) > 1:
        found += _totals(shown, found, truth, limits)
    uncounted = {VIRTUAL, *(run.label for run in runs if run.rival)}
    return [_without_domains(score) if score.summary.method in uncounted else score for score in found]


def _without_domains(score: Score) -> Score:
    """Leave out sub-domains, which nobody counted."""
    return dataclasses.replace(score, summary=dataclasses.replace(score.summary, domains=None))


def _share(score: Score, best: Mapping[str, int]) -> float | None:
    most = best[score.summary.benchmark]
    return 100.0 * score.points / most if most > 0 else None


def _totals(
    shown: Sequence[Run], found: Sequence[Score], truth: Truths, limits: Mapping[Instance, float | None]
) -> list[Score]:
    """Score each configuration on all benchmarks together."""
    by: dict[str, list[Result]] = defaultdict(list)
    for run in shown:
        by[run.label].append(run.result)
    labels = [label for label in by if label != VIRTUAL] + [VIRTUAL] * (VIRTUAL in by)
    totals = []
    for label in labels:
        score = _score(summarise(ALL, label, by[label], truth), by[label], truth, limits)
        shares = [s.share for s in found if s.summary.method == label and s.share is not None]
        totals.append(dataclasses.replace(score, share=sum(shares) if shares else None))
    return totals


def _score(
    summary: Summary,
    results: Sequence[Result],
    truth: Truths,
    limits: Mapping[Instance, float | None],
) -> Score:
    right = sum(is_right(result, truth) for result in results)
    times = [_penalised(result, truth, limits) for result in results]
    known = [seconds for seconds in times if seconds is not None]
    par2 = statistics.fmean(known) if len(known) == len(times) and known else None
    return Score(summary, RIGHT * right + WRONG * summary.wrong, None, par2)


def _penalised(result: Result, truth: Truths, limits: Mapping[Instance, float | None]) -> float | None:
    if is_right(result, truth):
        return result.total
    limit = result.timeout if result.timeout is not None else limits.get(result.instance)
    return None if limit is None else LATE * limit


def _limits(runs: Iterable[Run]) -> dict[Instance, float | None]:
    """Return the longest limit of each instance; None where a run had none."""
    found: dict[Instance, float | None] = {}
    for run in runs:
        old, new = found.get(run.result.instance, 0.0), run.result.timeout
        found[run.result.instance] = None if old is None or new is None else max(old, new)
    return found


def _virtual(runs: Sequence[Run], truth: Truths) -> list[Run]:
    """Return the best run of each instance: the fastest right answer, else any run; none with one configuration."""
    if len({run.label for run in runs}) < 2:
        return []
    best: dict[Instance, Result] = {}
    for run in runs:
        result, old = run.result, best.get(run.result.instance)
        if old is None or _rank(result, truth) < _rank(old, truth):
            best[result.instance] = result
    return [Run(VIRTUAL, result) for result in best.values()]


def _rank(result: Result, truth: Truths) -> tuple[int, float]:
    right = is_right(result, truth)
    return (0 if right else 2 if result.solved else 1 if result.verdict != "error" else 3), result.total


def pairs_of(labels: Sequence[str]) -> list[tuple[str, str]]:
    """Return the pairs that are compared."""
    pairs = list(itertools.combinations(labels, 2))
    return pairs if len(pairs) <= MOST_PAIRS else [(labels[0], other) for other in labels[1:]]


def duels(runs: Sequence[Run]) -> list[Duel]:
    """Compare configurations, pair by pair, on the instances that both were run on."""
    truth = truths(runs)
    by: dict[str, dict[Instance, Result]] = defaultdict(dict)
    for run in runs:
        by[run.label][run.result.instance] = run.result
    found = (_duel(first, second, by[first], by[second], truth) for first, second in pairs_of(list(by)))
    return [duel for duel in found if duel is not None]


def _duel(
    first: str, second: str, ours: Mapping[Instance, Result], theirs: Mapping[Instance, Result], truth: Truths
) -> Duel | None:
    shared = [(ours[instance], theirs[instance]) for instance in ours if instance in theirs]
    if not shared:
        return None
    solved = [(is_right(a, truth), is_right(b, truth)) for a, b in shared]
    agreed = [(a, b) for a, b in shared if a.verdict == b.verdict and is_right(a, truth)]
    both = [(max(a.total, LEAST), max(b.total, LEAST)) for a, b in agreed]
    ratios = [b / a for a, b in both]
    return Duel(
        first,
        second,
        len(both),
        sum(a and not b for a, b in solved),
        sum(b and not a for a, b in solved),
        math.exp(statistics.fmean(map(math.log, ratios))) if ratios else None,
        statistics.median(ratios) if ratios else None,
        sum(b for _, b in both) / sum(a for a, _ in both) if both else None,
        sum(ratio > 1 for ratio in ratios),
    )
