"""A search cut into parts: what each establishes adds up to what one search does."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from multiprocessing.pool import Pool
from typing import Any

import pytest
import torch
from torch import Tensor

from netproof.bounds.beta import Beta
from netproof.bounds.domains import Domains
from netproof.bounds.neurons.root import Root
from netproof.bounds.record import Nothing
from netproof.branching.babsr import Babsr
from netproof.core.batch import concatenate
from netproof.core.deadline import Deadline
from netproof.core.extras import Extras
from netproof.core.verdict import Stats, Witness
from netproof.problem.problem import Problem
from netproof.search.effort import Effort
from netproof.search.evidence import Outcome
from netproof.search.goals import Decide
from netproof.search.loop import Search
from netproof.search.method import Method, Start, Work
from support.asking import CPU, EVERY_EXTRA, nearly_broken

METHOD = Method(Beta(root_steps=2, neuron_steps=2, steps=1), Babsr(), batch=4, lp_threshold=None, extras=EVERY_EXTRA)
PLAIN = replace(METHOD, fill=1, extras=Extras())  # rounds that split one neuron each, and nothing else


@dataclass
class Paths(Nothing):
    """Keeps which way each closed leaf was split, and the least bound."""

    leaves: list[tuple[int, ...]] = field(default_factory=list)
    least: float = float("inf")

    def restarted(self, targets: Tensor) -> None:
        self.leaves.clear()  # one target: what was closed of it counts no more

    def closed(self, scope: Any, domains: Domains, by: str) -> None:
        self.leaves += [tuple(splits) for splits in domains.splits.sign().tolist()]
        self.least = min([self.least, *domains.bound.tolist()])


def no_witness(point: Tensor, target: int) -> Witness | None:
    """Refuse every point, so that a search goes to its end."""
    return None


def part(given: tuple[Problem, Method, Root, Domains]) -> tuple[Outcome, Paths]:
    """Search some sub-domains of a root to their end, in a process of its own."""
    problem, method, *start = given
    return finished(problem, method, Start(*start))


def finished(problem: Problem, method: Method, start: Start) -> tuple[Outcome, Paths]:
    paths = Paths()
    goal = Decide(problem, no_witness)
    outcome = Search(problem, method, goal, Work(CPU, 1, Deadline(60.0), Stats(), recorder=paths), start=start).run()
    return outcome, paths


def cut(problem: Problem, method: Method, rounds: int) -> tuple[Outcome, Paths, list[Domains], Root]:
    """Search for some rounds; what was closed, and what is open in four parts."""
    paths, goal = Paths(), Decide(problem, no_witness)
    search = Search(problem, method, goal, Work(CPU, 1, Deadline(60.0), Stats(), recorder=paths))
    outcome = search.run(rounds)
    left = search.still_open()
    assert left is not None
    root, domains, _ = left
    quarters = [domains.select(torch.arange(len(domains))[i::4]) for i in range(4)]
    return outcome, paths, quarters, root


@pytest.fixture(scope="module")
def pool() -> Iterator[Pool]:
    """Open processes of their own, which know nothing of this one."""
    with multiprocessing.get_context("spawn").Pool(2) as processes:
        yield processes


@pytest.mark.parametrize(
    ("seed", "method", "rounds"), [(1, METHOD, 4), (5, METHOD, 8), (1, PLAIN, 4), (5, PLAIN, 6), (8, PLAIN, 4)]
)
def test_four_processes_prove_together_what_one_does(pool: Pool, seed: int, method: Method, rounds: int) -> None:
    problem = nearly_broken(seed, room=0.2)
    alone, goal = Paths(), Decide(problem, no_witness)
    whole = Search(problem, method, goal, Work(CPU, 1, Deadline(60.0), Stats(), recorder=alone)).run()
    assert whole.status == "proved"
    first, paths, quarters, root = cut(problem, method, rounds)
    assert sum(map(len, quarters)) > 2
    parts = pool.map(part, [(problem, method, root, quarter) for quarter in quarters])
    shares = [sum(share) for share in zip(first.proved, *(outcome.proved for outcome, _ in parts), strict=True)]
    assert all(outcome.status == "proved" for outcome, _ in parts)
    assert shares == [1] * len(shares)  # every leaf once: twice would be more, one lost less
    if method is PLAIN:  # then all of them are parts of one root, and named by the way they were split
        together = [*paths.leaves, *(path for _, more in parts for path in more.leaves)]
        assert len(set(together)) == len(together)
        assert sorted(together) == sorted(alone.leaves)
        least = min(paths.least, *(more.least for _, more in parts))
        assert least == pytest.approx(alone.least, rel=1e-5, abs=1e-6)


def test_what_is_left_out_is_missing_from_the_cover() -> None:
    """Drop one quarter: the shares no longer add up."""
    problem = nearly_broken(1, room=0.2)
    first, _, quarters, root = cut(problem, METHOD, 4)
    parts = [part((problem, METHOD, root, quarter))[0] for quarter in quarters[1:]]
    shares = [sum(share) for share in zip(first.proved, *(outcome.proved for outcome in parts), strict=True)]
    assert min(shares) < 1


def test_a_part_answers_for_what_it_was_given() -> None:
    problem = nearly_broken(1, room=0.2)
    _, _, quarters, root = cut(problem, METHOD, 4)
    outcome, _ = part((problem, METHOD, root, quarters[0]))
    assert outcome.status == "proved"
    assert outcome.asked == outcome.proved
    assert sum(outcome.proved) < 1


def test_a_search_runs_once() -> None:
    problem = nearly_broken(1, room=0.2)
    search = Search(problem, METHOD, Decide(problem, no_witness), Work(CPU, 1, Deadline(), Stats()))
    search.run(1)
    with pytest.raises(RuntimeError, match="runs once"):
        search.run()


@pytest.mark.parametrize("chunk", [1, 3])
def test_what_a_tighter_root_has_not_bounded_yet_is_still_open(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stop between two chunks of a carry-over: nothing is lost, and another search goes on with it."""
    problem = nearly_broken(1, room=0.2)
    first, _, quarters, root = cut(problem, METHOD, 6)
    deadline = Deadline()
    search = Search(
        problem,
        METHOD,
        Decide(problem, no_witness),
        Work(CPU, 1, deadline, Stats()),
        start=Start(root, concatenate(quarters)),
    )
    real, calls = Search._bound, []

    def bound(self: Search, children: Domains) -> Domains:
        calls.append(len(children))
        found = real(self, children)
        deadline.cancel()
        return found

    monkeypatch.setattr(Search, "_bound", bound)
    monkeypatch.setattr(type(METHOD.bounder), "domains_at_once", lambda self, root: chunk)
    monkeypatch.setattr(Effort, "tightening_is_due", lambda self, cost: not calls)
    stopped = search.run()
    assert calls == [chunk]
    left = search.still_open()
    assert left is not None
    monkeypatch.undo()
    rest, _ = finished(problem, METHOD, left)
    shares = [sum(share) for share in zip(first.proved, stopped.proved, rest.proved, strict=True)]
    assert shares == [1] * len(shares)


def test_a_root_that_ends_with_the_time_leaves_its_neurons_to_be_ranked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ranking may take long, on a network that is not condensed yet; what is left is bounded and ranked anew."""
    problem, deadline = nearly_broken(1, room=0.2), Deadline()
    search = Search(problem, METHOD, Decide(problem, no_witness), Work(CPU, 1, deadline, Stats()))
    real = Beta.root

    def root(*given: Any) -> Any:
        found = real(*given)
        deadline.cancel()
        return found

    def late(*given: Any) -> Tensor:
        raise AssertionError("past the deadline nothing is ranked")

    monkeypatch.setattr(Beta, "root", root)
    monkeypatch.setattr(Babsr, "choose", late)
    stopped = search.run()
    assert (stopped.stopped, stopped.proved) == (True, (0,))
    left = search.still_open()
    assert left is not None
    assert not left.bounded
    monkeypatch.undo()
    rest, _ = finished(problem, METHOD, left)
    assert rest.proved == (1,)
