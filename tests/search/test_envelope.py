"""Networks whose smooth nonlinearities are enclosed once: what holds of them holds of the network itself."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from netproof.bounds.ascent import Schedule
from netproof.bounds.base import Clock
from netproof.bounds.beta import Beta
from netproof.bounds.condensed.condenser import Condenser
from netproof.bounds.linear import memory
from netproof.bounds.linear.graph_net import GraphNet
from netproof.bounds.neurons import envelope
from netproof.bounds.neurons.envelope import can_be_enveloped, enveloped, share_of_others
from netproof.bounds.neurons.root import Root, build_root
from netproof.core.deadline import Deadline
from netproof.core.forms import Interval
from netproof.core.verdict import Stats
from netproof.methods.build import build_method
from netproof.methods.registry import method_info
from netproof.model.load import read_network
from netproof.model.moves import SumAxes
from netproof.problem.problem import Problem, Rows
from netproof.search.envelope import first
from netproof.search.envelope.first import EnvelopeFirst
from netproof.search.evidence import Outcome
from netproof.search.goals import Decide
from netproof.search.method import Work
from support.asking import CPU, root_of
from support.problems import box_problem, random_points, targets_of
from support.rational import exact


class Encoder(nn.Module):
    """One head of attention over three tokens, as sharp as is asked, and two layers of ReLUs, with sums over both."""

    def __init__(self, seed: int, sharp: float) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.query, self.key, self.value = (nn.Linear(4, 4) for _ in range(3))
        self.hidden, self.back, self.last = nn.Linear(4, 8), nn.Linear(8, 4), nn.Linear(12, 2)
        self.query.weight.data.mul_(sharp)
        self.value.weight.data.mul_(sharp)

    def forward(self, x: Tensor) -> Tensor:
        score = self.query(x) @ self.key(x).transpose(-1, -2)
        x = x + torch.softmax(score / 2, -1) @ self.value(x)
        x = x + self.back(torch.relu(self.hidden(x)))
        return self.last(torch.relu(x).flatten(1))


def problem_of(seed: int, radius: float = 0.1, room: float | None = None, sharp: float = 1.0) -> Problem:
    """The first output against the second; with room, so that the least value seen is that share of the spread."""
    graph = read_network(Encoder(seed, sharp).eval(), (1, 3, 4)).graph
    centre = torch.rand(12, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).numpy()
    problem = box_problem(graph, centre - radius, centre + radius, targets_of([[[1.0, -1.0]]]))
    if room is None:
        return problem
    value = values_at(problem, random_points(problem, 4000, seed))
    spread = float(value.max() - value.min())
    return replace(problem, rows=replace(problem.rows, offset=problem.rows.offset + float(value.min()) - room * spread))


def values_at(problem: Problem, points: Tensor) -> Tensor:
    y = problem.graph.forward(points).flatten(1)
    return y @ problem.rows.coef[0, 0] - problem.rows.offset[0, 0]


def with_an_easier_one(problem: Problem, by: float, *, before: bool) -> Problem:
    """The same with another target, which holds by so much more."""
    both = [problem.rows, replace(problem.rows, offset=problem.rows.offset - by)]
    rows = zip(*(vars(one).values() for one in (reversed(both) if before else both)), strict=True)
    return replace(problem, rows=Rows(*map(torch.cat, rows)), disjuncts=(0, 1))


def plain_root(problem: Problem) -> Root:
    root = build_root(problem, CPU, Schedule(0), Deadline(None))
    assert root is not None
    return root


def searched(problem: Problem, given: dict[str, str] | None = None, **how: Any) -> tuple[Outcome, Stats]:
    stats = Stats()
    work = Work(CPU, 1, Deadline(how.pop("seconds", 60.0)), stats)
    method = build_method("auto", method_info("auto").options(given), CPU)
    assert method.search is EnvelopeFirst
    search = EnvelopeFirst(problem, method, Decide(problem, lambda point, target: None), work)
    return search.run(**how), stats


@pytest.fixture
def graphs_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """No room for a condensed network of anything but hinges."""
    monkeypatch.setattr(
        Condenser, "fits", property(lambda self: all(layer.arity == 1 for layer in self._proof.layers)), raising=True
    )


def chosen(root: Root) -> tuple[Tensor, Tensor]:
    """What a bound of the whole set rests on."""
    bounds = Beta().whole(root, torch.full((1,), torch.inf), Deadline(None), Clock())
    return bounds.domains.slopes[0], bounds.coef[0]


def noise_at(root: Root, points: Tensor) -> Tensor:
    """The e at which the enveloped network has the values of the network: (point, entries)."""
    graph, values = root.problem.graph, root.problem.graph.values(points)
    slopes, coef = chosen(root)
    planes = {n.index: envelope._planes(root, n, slopes, coef) for n in graph.nodes if envelope._is_enveloped(n)}
    parts = []
    for index, plane in planes.items():
        product = plane.slope * values[graph.nodes[index].inputs[0]]
        arity = graph.nodes[index].op.arity  # type: ignore[attr-defined]
        left = values[index] - (product.sum(1) if arity > 1 else product)
        readers = [n for n in graph.nodes if index in n.inputs]
        summed = len(readers) == 1 and isinstance(readers[0].op, SumAxes)
        parts.append((readers[0].op.forward(left) if summed else left).flatten(1))
    return torch.cat(parts, 1)


@pytest.mark.parametrize("seed", range(4))
def test_the_network_is_inside(seed: int) -> None:
    """At every x there is an e of the box at which the enveloped network has the same value."""
    problem = problem_of(seed)
    root = plain_root(problem)
    found, points = enveloped(root, *chosen(root)), random_points(problem, 200, seed)
    e = noise_at(root, points)
    inputs = found.problem.input_set
    count = problem.graph.input.size
    assert inputs.lower.shape == (count + e.shape[1],)
    assert bool((e >= inputs.lower[count:] - 1e-12).all())
    assert bool((e <= inputs.upper[count:] + 1e-12).all())
    # The box is no larger than what is needed by much: some e comes near an end of most of its entries.
    share = (e.amax(0) - e.amin(0)) / (inputs.upper - inputs.lower)[count:]
    assert float(share.median()) > 0.05
    both = torch.cat([points.flatten(1), e], 1)
    torch.testing.assert_close(found.problem.graph.forward(both), problem.graph.forward(points), rtol=0, atol=1e-12)
    assert torch.equal(found.points(both), points)


@pytest.mark.parametrize("seed", range(4))
def test_what_is_known_and_bounded_holds(seed: int) -> None:
    problem = problem_of(seed)
    root = plain_root(problem)
    found, points = enveloped(root, *chosen(root)), random_points(problem, 500, seed)
    both = torch.cat([points.flatten(1), noise_at(root, points)], 1)
    for value, known in zip(found.problem.graph.values(both), found.known.of, strict=True):
        assert bool(((value >= known.lower - 1e-12) & (value <= known.upper + 1e-12)).all())
    _, bounds = root_of(Beta(), found.problem)
    least = float(values_at(problem, points).min())
    assert float(bounds.domains.bound[0]) <= least
    assert float(bounds.domains.bound[0]) > least - 3.0  # and says something


def test_only_hinges_are_left_to_split_and_copies_of_their_bounds_are_taken_over() -> None:
    problem = problem_of(0)
    root = plain_root(problem)
    found = enveloped(root, *chosen(root))
    again = build_root(found.problem, CPU, Schedule(0), Deadline(None), [found.known])
    assert again is not None
    assert {layer.arity for layer in again.layers} == {1}
    hinges = [layer for layer in root.layers if layer.arity == 1]
    for old, new in zip(hinges, again.layers, strict=True):
        assert bool((again.intervals.of[new.pre].lower >= root.intervals.of[old.pre].lower).all())
        assert bool((again.intervals.of[new.pre].upper <= root.intervals.of[old.pre].upper).all())


@pytest.mark.parametrize("seed", range(20))
def test_sums_of_boxes_are_rounded_outward(seed: int) -> None:
    rng = torch.Generator().manual_seed(seed)
    sides = torch.randn(2, 3, 40, generator=rng, dtype=torch.float64) * 10.0 ** torch.randint(
        -9, 9, (40,), generator=rng
    )
    box = Interval(sides.amin(0), sides.amax(0))
    found = envelope._summed(SumAxes((3, 40), (1,)), box)
    for row in range(3):
        low, high = (sum(exact(side[row]), Fraction(0)) for side in box)
        assert Fraction(float(found.lower[row, 0])) <= low
        assert Fraction(float(found.upper[row, 0])) >= high


def test_what_has_no_hinges_or_nothing_else_is_not_enveloped() -> None:
    class Smooth(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.sigmoid(x) * x.sum()

    assert can_be_enveloped(problem_of(0).graph)
    assert not can_be_enveloped(read_network(Smooth(), (1, 3)).graph)
    assert not can_be_enveloped(read_network(nn.Sequential(nn.Linear(3, 2), nn.ReLU()), (1, 3)).graph)


def test_losses_are_counted_once_for_each_neuron() -> None:
    root = plain_root(problem_of(0))
    taken = torch.zeros(root.count)
    for layer in root.layers:  # every neuron loses 1, which stands in all of its slots
        taken[layer.packed] = 1.0
    hinges = sum(layer.count for layer in root.layers if layer.arity == 1)
    others = sum(layer.count // layer.arity for layer in root.layers if layer.arity > 1)
    assert share_of_others(root, taken) == pytest.approx(others / (hinges + others))


# --- the search ---


def no_more_than_named(search: EnvelopeFirst, root: Root) -> None:
    search._root = root
    search._ledger.under(root)


@pytest.mark.usefixtures("graphs_only")
@pytest.mark.parametrize("seed", [1, 2, 4])
def test_what_holds_is_proved_by_the_envelope(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a single sub-domain of the network itself; the first target needs no search at all."""
    problem = with_an_easier_one(problem_of(seed, 0.5, room=0.08, sharp=0.1), 5.0, before=True)
    monkeypatch.setattr(first, "ELSEWHERE", 1.1)
    monkeypatch.setattr(GraphNet, "climbs_that_fit", lambda self: pytest.fail("the network itself was searched"))
    monkeypatch.setattr(
        EnvelopeFirst, "_go_under", lambda self, root: self._ledger.under(root) or setattr(self, "_root", root)
    )
    outcome, stats = searched(problem)
    assert outcome.status == "proved"
    assert stats.domains > 0
    least = float(values_at(problem, random_points(problem, 4000, seed)).min())
    assert 0 < outcome.bounds[1] <= least - 5.0
    assert 1.0 < outcome.bounds[0] <= least


@pytest.mark.usefixtures("graphs_only")
@pytest.mark.parametrize("seed", range(6))
def test_what_is_broken_is_not_proved(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    problem = problem_of(seed, 0.1, room=-0.02)
    monkeypatch.setattr(first, "ELSEWHERE", 1.1)
    made: list[Root] = []
    monkeypatch.setattr(first, "enveloped", lambda root, *how: made.append(root) or enveloped(root, *how))
    monkeypatch.setattr(EnvelopeFirst, "_run_rounds", lambda self: None)  # what follows is the search as always
    outcome, _ = searched(problem, seconds=20.0)
    assert made
    assert outcome.status != "proved"
    assert outcome.bounds[0] <= float(values_at(problem, random_points(problem, 4000, seed)).min())


@pytest.mark.usefixtures("graphs_only")
def test_a_search_that_does_not_cover_the_set_proves_nothing_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """However good the bounds are of what is left: here all children are lost on the way."""
    asked: list[Outcome] = []
    run = first._Enveloped.run
    monkeypatch.setattr(first, "ELSEWHERE", 1.1)
    monkeypatch.setattr(first._Enveloped, "_bound", lambda self, parts: parts.select(slice(0, 0)))
    monkeypatch.setattr(first._Enveloped, "run", lambda self: asked.append(run(self)) or asked[-1])
    monkeypatch.setattr(EnvelopeFirst, "_run_rounds", lambda self: None)  # what follows is the search as always
    problem = problem_of(1, 0.5, room=0.08, sharp=0.1)
    outcome, stats = searched(problem)
    assert stats.rounds > 0
    assert [(lost.proved, lost.bounds) for lost in asked] == [((0,), (float("inf"),))]
    assert outcome.proved == (0,)
    assert outcome.bounds[0] <= float(values_at(problem, random_points(problem, 4000, 1)).min())


@pytest.mark.usefixtures("graphs_only")
def test_what_only_the_envelope_breaks_is_searched_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """A target that the enveloped network breaks is given up there, the other is searched on; the rest is as always."""
    problem = problem_of(2, 0.5, room=0.04, sharp=0.1)
    value = values_at(problem, random_points(problem, 4000, 2))
    problem = with_an_easier_one(problem, 0.04 * float(value.max() - value.min()), before=False)
    monkeypatch.setattr(first, "ELSEWHERE", 1.1)
    asked: list[tuple[int, ...]] = []
    hopeless: list[bool] = []
    run = first._Enveloped.run

    def watched(self: Any, *args: Any) -> Outcome:
        asked.append(self._problem.disjuncts)
        found = run(self, *args)
        hopeless.append(self._goal.hopeless)
        return found

    monkeypatch.setattr(first._Enveloped, "run", watched)
    plain: list[int] = []
    bound = Beta.bound

    def counted(self: Beta, root: Root, domains: Any, *args: Any) -> Any:
        plain.append(root.count) if isinstance(root.net32, GraphNet) else None
        return bound(self, root, domains, *args)

    monkeypatch.setattr(Beta, "bound", counted)
    outcome, _ = searched(problem, seconds=4.0)
    assert asked == [(1,), (0,)]
    assert hopeless == [False, True]
    assert outcome.proved[1] == 1
    assert outcome.bounds[0] < 0 < outcome.bounds[1] <= float(value.min()) + 0.04 * float(value.max() - value.min())
    assert plain  # the network itself was searched after it


@pytest.mark.parametrize(
    "why", ["due", "condensed", "not asked for", "most is lost elsewhere", "so many rounds", "a minimum"]
)
def test_when_it_is_due(why: str, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    if why != "condensed":
        request.getfixturevalue("graphs_only")
    if why == "a minimum":
        monkeypatch.setattr(Decide, "moves", True)
    asked: list[Root] = []
    monkeypatch.setattr(first, "enveloped", lambda root, *how: asked.append(root) or enveloped(root, *how))
    monkeypatch.setattr(first, "ELSEWHERE", 0.0 if why == "most is lost elsewhere" else 1.1)
    given = {"envelope": "false"} if why == "not asked for" else None
    how = {"rounds": 1} if why == "so many rounds" else {"seconds": 2.0}
    searched(problem_of(1, 0.5, room=0.08, sharp=0.1), given, **how)
    assert bool(asked) == (why == "due")


def test_hinges_that_are_too_many_to_be_condensed_are_not_searched_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """There a sub-domain costs as much as one of the network itself, and is bounded worse."""
    monkeypatch.setattr(Condenser, "fits", property(lambda self: False))
    monkeypatch.setattr(first, "ELSEWHERE", 1.1)
    monkeypatch.setattr(first._Enveloped, "_round", lambda *args: pytest.fail("the enveloped network was searched"))
    looked: list[bool] = []
    root = first._Enveloped._first_root

    def watched(self: Any, threshold: Tensor) -> Any:
        looked.append(True)
        return root(self, threshold)

    monkeypatch.setattr(first._Enveloped, "_first_root", watched)
    searched(problem_of(1, 0.5, room=0.08, sharp=0.1), seconds=3.0)
    assert looked


# --- rounds that are not long ---


def test_a_graph_climbs_no_more_at_once_than_is_of_use(monkeypatch: pytest.MonkeyPatch) -> None:
    root = plain_root(problem_of(0))
    net = GraphNet.whole(root.graph32, root.rows)
    entries = sum(node.size for node in root.graph32.graph.nodes)
    monkeypatch.setattr(memory, "A_CLIMB", 5 * entries)
    assert net.climbs_that_fit() == 5
    monkeypatch.setattr(memory, "A_CLIMB", 1)
    assert net.climbs_that_fit() == 1


def test_a_round_picks_no_more_than_are_bounded_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    bound = Beta.bound

    def counted(self: Beta, root: Root, domains: Any, *args: Any) -> Any:
        sizes.append(len(domains))
        return bound(self, root, domains, *args)

    monkeypatch.setattr(Beta, "bound", counted)
    monkeypatch.setattr(Beta, "domains_at_once", lambda self, root: 6)
    _, stats = searched(problem_of(1, 0.3, room=0.05), seconds=3.0)
    assert stats.rounds > 3
    assert stats.split <= 3 * stats.rounds
    assert max(sizes) <= 6
