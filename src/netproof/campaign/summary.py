"""Summaries of results: which of them count, how many were solved, and where answers contradict."""

from __future__ import annotations

import json
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from netproof.campaign.store import Result
from netproof.core.machine.versions import build
from netproof.core.reasons import CONTRADICTION

Instance = tuple[str, str, str]
Truths = Mapping[Instance, str]

VERDICTS = ("unsat", "sat", "timeout", "unknown", "error")


@dataclass(frozen=True)
class Run:
    """A result that counts, under the name of the configuration that it belongs to."""

    label: str
    result: Result
    rival: bool = False  # of another verifier, read from a file


def latest(results: Iterable[Result]) -> list[Run]:
    """Return the last result of each instance in each configuration, in the order in which both first came."""
    keyed = [(_configuration(result), result) for result in results]
    labels = _labels(keyed)
    kept: dict[tuple[str, Instance], Result] = {}
    for key, result in keyed:
        kept[labels[key], result.instance] = result
    return [Run(label, result) for (label, _), result in kept.items()]


def truths(runs: Iterable[Run]) -> dict[Instance, str]:
    """Return what each instance is taken to be: what is known, else sat where netproof has a counterexample."""
    found: dict[Instance, str] = {}
    for run in runs:
        result = run.result
        if result.truth is not None:
            found[result.instance] = result.truth
        elif result.verdict == "sat" and not run.rival:  # a rival's has not been replayed here
            found.setdefault(result.instance, "sat")
    return found


def is_wrong(result: Result, truth: Truths | None = None) -> bool:
    """Say whether an answer contradicts what its instance is taken to be; without `truth`, what it is known to be."""
    taken = result.truth if truth is None else truth.get(result.instance)
    return result.solved and taken is not None and taken != result.verdict


def is_right(result: Result, truth: Truths | None = None) -> bool:
    """Say whether it is an answer that nothing contradicts: only such a one counts as solved in times and plots."""
    return result.solved and not is_wrong(result, truth)


def of_other_versions(results: Iterable[Result]) -> list[Result]:
    """Return those of another netproof, be it of the same version: shown, but no job takes them for its answer."""
    return [result for result in results if result.version not in (None, build())]


def versions_said(results: Iterable[Result], what: str) -> list[str]:
    """Return a line for every other version that there are results of, and what becomes of them in `what`."""
    counts = Counter(run.result.version for run in latest(of_other_versions(results)))
    return [
        f"{count} result{'s' * (count > 1)} of netproof {version} {'are' if count > 1 else 'is'} {what}"
        for version, count in sorted(counts.items(), key=str)
    ]


def _settings(result: Result) -> dict[str, Any]:
    """Return all that two runs of one method may differ in and still answer the same question."""
    return {
        **result.options,
        "device": result.device,
        "seed": result.seed,
        "attack": result.attack,
        "netproof": result.version,
    }


def _configuration(result: Result) -> str:
    # A worker that failed to start knows no versions; nothing else may be unknown.
    return json.dumps([result.method, _settings(result)], sort_keys=True)


def _labels(results: Sequence[tuple[str, Result]]) -> dict[str, str]:
    """Name each configuration: by its method, and the settings in which those of that method differ.

    With results of several versions every name has the version, so that none is taken for another's. Settings are
    compared within a version: what fields a method has may change from one to the next.
    """
    found: dict[tuple[str, str | None], dict[str, Mapping[str, Any]]] = defaultdict(dict)
    for key, result in results:
        if key not in found[result.method, result.version]:
            found[result.method, result.version][key] = _settings(result)
    mixed = len({version for _, version in found}) > 1
    labels = {}
    for (method, _), configurations in found.items():
        names = dict.fromkeys(name for settings in configurations.values() for name in settings)
        differ = [n for n in names if len({json.dumps(s.get(n)) for s in configurations.values()}) > 1]
        for key, settings in configurations.items():
            said = ", ".join(f"{name}={settings.get(name)}" for name in (*differ, *["netproof"] * mixed))
            labels[key] = f"{method} ({said})" if said else method
    return labels


@dataclass(frozen=True)
class Summary:
    """One benchmark, one configuration."""

    benchmark: str
    method: str
    instances: int
    solved: int
    counts: Mapping[str, int]  # by verdict
    wrong: int  # against what is known, or a counterexample of another run
    checked: int  # solved ones whose truth is known
    mean: float | None  # seconds, over the runs without error; a timeout counts as the seconds it took
    median: float | None
    longest: float | None
    domains: float | None  # mean, over the same runs


def summaries(runs: Sequence[Run], truth: Truths | None = None) -> list[Summary]:
    """Summarise each benchmark and configuration, in the order in which they first came; truth: that of all runs."""
    truth = truths(runs) if truth is None else truth
    groups: dict[tuple[str, str], list[Result]] = defaultdict(list)
    for run in runs:
        groups[run.result.benchmark, run.label].append(run.result)
    order = {benchmark: place for place, benchmark in enumerate(dict.fromkeys(b for b, _ in groups))}
    return [summarise(*key, groups[key], truth) for key in sorted(groups, key=lambda key: order[key[0]])]


def summarise(benchmark: str, label: str, group: Sequence[Result], truth: Truths) -> Summary:
    """Summarise some runs of one configuration, under a name for where they are from."""
    counts = Counter(result.verdict for result in group)
    seconds = [result.total for result in group if result.verdict != "error"]
    domains = [result.domains for result in group if result.verdict != "error"]
    return Summary(
        benchmark=benchmark,
        method=label,
        instances=len(group),
        solved=sum(result.solved for result in group),
        counts={verdict: counts[verdict] for verdict in VERDICTS},
        wrong=sum(is_wrong(result, truth) for result in group),
        checked=sum(result.solved and result.truth is not None for result in group),
        mean=statistics.fmean(seconds) if seconds else None,
        median=statistics.median(seconds) if seconds else None,
        longest=max(seconds, default=None),
        domains=statistics.fmean(domains) if domains else None,
    )


def contradictions(runs: Iterable[Run]) -> list[str]:
    """List verdicts against what is known, questions that are answered sat and unsat, and runs that contradict

    themselves. One question: the same files with the same contents, so that a corrected property is another one.
    """
    groups: dict[tuple[str, ...], list[Run]] = defaultdict(list)
    with_itself = []
    for run in runs:
        result = run.result
        if result.solved:
            groups[*result.instance, result.onnx_sha256, result.vnnlib_sha256].append(run)
        elif result.reason == CONTRADICTION:
            with_itself.append(f"{result.benchmark}: {result.onnx} {result.vnnlib}: within {run.label}: {result.error}")
    return with_itself + [
        line
        for (benchmark, onnx, vnnlib, *_), group in groups.items()
        for line in _quarrels(group, f"{benchmark}: {onnx} {vnnlib}")
    ]


def _quarrels(group: Sequence[Run], name: str) -> list[str]:
    by = {word: ", ".join(run.label for run in group if run.result.verdict == word) for word in ("sat", "unsat")}
    wrong = [run for run in group if is_wrong(run.result)]
    found = []
    if all(by.values()):
        found.append(f"{name}: sat by {by['sat']}, but unsat by {by['unsat']}")
    if wrong:
        labels = ", ".join(run.label for run in wrong)
        found.append(f"{name}: known to be {wrong[0].result.truth}, but {wrong[0].result.verdict} by {labels}")
    return found
