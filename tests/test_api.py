"""The public functions as a user calls them: what they accept, what they say, and when they stop."""

from __future__ import annotations

import itertools
import threading
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import netproof
from netproof.api import Progress, verify
from netproof.core.deadline import Deadline
from netproof.core.verdict import Status, Verdict
from netproof.demo import Instance, copy_data
from netproof.errors import SpecError, UsageError
from netproof.model.load import load_network
from netproof.problem.property import Box, Disjunct, Property, Row
from netproof.problem.specs import InputRegion, box, l1_ball, l2_ball, linf_ball, output_constraint
from support.random_graphs import NetworkBuilder

PHASES = ("load", "attack", "root", "search", "leaf")


def ask(model: Any, spec: Any, **more: Any) -> Verdict:
    return verify(model, spec, device="cpu", threads=1, **more)


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, Path, Instance]]:
    folder = tmp_path_factory.mktemp("demo")
    return {i.name: (folder / i.onnx, folder / i.vnnlib, i) for i in copy_data(folder)}


def module(*widths: int, seed: int = 0) -> torch.nn.Sequential:
    torch.manual_seed(seed)
    layers: list[torch.nn.Module] = []
    for fan, width in itertools.pairwise(widths):
        layers += [torch.nn.Linear(fan, width), torch.nn.ReLU()]
    return torch.nn.Sequential(*layers[:-1])


def constant_property(rows: tuple[Row, ...], low: float = -1.0, high: float = 1.0, n: int = 2, m: int = 2) -> Property:
    sides = [tuple(Fraction(v) for _ in range(n)) for v in (low, high)]
    return Property((Disjunct(Box(*sides), rows),), n, m)


def below(output: int, value: float) -> Row:
    """The violation y_output <= value."""
    return Row({output: Fraction(1)}, Fraction(value))


def least_of(net: torch.nn.Module, low: float, high: float, n: int, count: int = 4000) -> float:
    """The least first output seen on a box of the network's inputs."""
    x = low + torch.rand(count, n, generator=torch.Generator().manual_seed(0)) * (high - low)
    x[::2] = x[::2].sub(low).div(high - low).round().mul(high - low).add(low)
    with torch.no_grad():
        return float(net(x)[:, 0].min())


# --- what may be asked, and of what ---


def test_paths_give_the_verdicts_of_the_demo(demo: dict[str, tuple[Path, Path, Instance]]) -> None:
    for name in ("fc-3-holds", "fc-5-breaks", "fc-0-never-both"):
        model, spec, instance = demo[name]
        verdict = ask(model, spec)
        assert verdict.status == instance.expected, name
        assert verdict.arithmetic == "real"
        assert (verdict.witness is None) == (verdict.status == Status.UNSAT)
    verdict = ask(str(model), str(spec))
    assert verdict.status == instance.expected


def test_every_form_of_the_question_has_one_answer() -> None:
    net = module(2, 4, 2)
    x = np.array([[0.25, -0.5]])
    with torch.no_grad():
        label = int(net(torch.tensor(x, dtype=torch.float32)).argmax())
    loaded = load_network(net, example_shape=(1, 2))
    region = linf_ball(x, "1/100")
    margin = Row({label: Fraction(1), 1 - label: Fraction(-1)}, Fraction(0))
    asked = [
        ask(net, region, label=label),
        ask(loaded, region, label=label),
        ask(loaded, region, label=label, targets=[1 - label]),
        ask(loaded, Property((Disjunct(region.box, (margin,)),), 2, 2)),
    ]
    assert {v.status for v in asked} == {Status.UNSAT}
    assert len({v.lower_bound for v in asked}) == 1
    assert asked[0].lower_bound is not None
    assert asked[0].lower_bound > 0
    assert ask(net, region, label=1 - label).status == Status.SAT


def test_a_witness_is_in_the_set_and_replays(demo: dict[str, tuple[Path, Path, Instance]]) -> None:
    model, spec, _ = demo["conv-8-breaks"]
    verdict = ask(model, spec)
    assert verdict.status == Status.SAT
    assert verdict.witness is not None
    network, property = load_network(model), netproof.load_property(spec)
    again = network.replay(verdict.witness.input)
    assert np.array_equal(again, verdict.witness.output)
    x, y = ([Fraction(float(v)) for v in a.flatten()] for a in (verdict.witness.input, verdict.witness.output))
    assert property.violated(x, y)
    assert verdict.upper_bound is not None
    assert verdict.upper_bound <= 0.001


def test_several_input_sets_are_all_asked() -> None:
    """The violation is in the second box alone."""
    net = load_network(module(2, 4, 2), example_shape=(1, 2))
    low = least_of(module(2, 4, 2), -1, 1, 2)
    boxes = [Box((Fraction(a),) * 2, (Fraction(b),) * 2) for a, b in ((0, 0), (-1, 1))]
    with torch.no_grad():
        at_zero = float(module(2, 4, 2)(torch.zeros(1, 2))[0, 0])
    assert low < at_zero - 0.01
    row = below(0, (low + at_zero) / 2)
    both = Property(tuple(Disjunct(b, (row,)) for b in boxes), 2, 2)
    assert ask(net, both).status == Status.SAT
    assert ask(net, Property(both.disjuncts[:1], 2, 2)).status == Status.UNSAT
    easy = tuple(Disjunct(b, (below(0, low - 1.0),)) for b in boxes)
    verdicts = [ask(net, Property(order, 2, 2)) for order in (easy, easy[::-1])]
    assert [v.status for v in verdicts] == [Status.UNSAT] * 2
    for verdict in verdicts:  # the least over both sets, whichever comes last
        assert verdict.lower_bound is not None
        assert verdict.lower_bound <= 1.0 + 1e-6


def test_label_and_targets_need_a_region_and_a_region_needs_a_label() -> None:
    net = module(2, 3, 2)
    region = linf_ball(np.zeros((1, 2)), 0.1)
    with pytest.raises(UsageError, match="needs the label"):
        ask(net, region)
    loaded = load_network(net, example_shape=(1, 2))
    for more in ({"label": 0}, {"targets": [1]}):
        with pytest.raises(UsageError, match="go with an input region"):
            ask(loaded, constant_property((below(0, 0.0),)), **more)
    for more in ({"label": 2}, {"label": 0, "targets": [0]}, {"label": 0, "targets": [5]}, {"label": 0, "targets": []}):
        with pytest.raises(UsageError):
            ask(net, region, **more)
    with pytest.raises(UsageError, match="input looks like"):
        ask(net, constant_property((below(0, 0.0),)))


def test_a_property_of_another_size_is_refused() -> None:
    with pytest.raises(SpecError, match="has 3 inputs"):
        ask(load_network(module(2, 3, 2), example_shape=(1, 2)), constant_property((below(0, 0.0),), n=3))


@pytest.mark.parametrize("threads", [-1, -8])
def test_threads_must_be_some(threads: int) -> None:
    with pytest.raises(UsageError, match="threads"):
        verify(module(2, 3, 2), linf_ball(np.zeros((1, 2)), 0.1), label=0, threads=threads)


def test_a_verdict_is_no_yes_or_no() -> None:
    verdict = ask(module(2, 3, 2), linf_ball(np.zeros((1, 2)), 0.0), label=0)
    with pytest.raises(TypeError, match=r"compare verdict\.status"):
        bool(verdict)


# --- the edges of a question ---


def test_an_empty_input_set_satisfies_everything() -> None:
    net = load_network(module(2, 3, 2), example_shape=(1, 2))
    verdict = ask(net, constant_property((below(0, 100.0),), low=1.0, high=-1.0))
    assert (verdict.status, verdict.reason, verdict.decided_by) == (Status.UNSAT, "input set is empty", "input set")


def test_a_property_without_disjuncts_holds() -> None:
    net = load_network(module(2, 3, 2), example_shape=(1, 2))
    verdict = ask(net, Property((), 2, 2))
    assert (verdict.status, verdict.reason) == (Status.UNSAT, "no output can violate the property")


def test_a_disjunct_without_rows_is_violated_by_any_input() -> None:
    net = load_network(module(2, 3, 2), example_shape=(1, 2))
    assert ask(net, constant_property(())).status == Status.SAT
    assert ask(net, constant_property(()), attack=False).status == Status.SAT


def test_a_single_point_is_decided() -> None:
    net = load_network(module(2, 6, 2), example_shape=(1, 2))
    value = float(net.replay(np.full((1, 2), 0.5))[0, 0])
    for gap, status in ((1e-3, Status.SAT), (-1e-3, Status.UNSAT)):
        assert ask(net, constant_property((below(0, value + gap),), 0.5, 0.5)).status == status


def test_networks_without_nonlinear_nodes_are_decided_at_the_root() -> None:
    linear = module(2, 2)[0]
    least = float((linear.bias[0] - linear.weight[0].abs().sum()).detach())
    net = load_network(linear, example_shape=(1, 2))
    for gap, status in ((1e-3, Status.SAT), (-1e-3, Status.UNSAT)):
        verdict = ask(net, constant_property((below(0, least + gap),)), attack=False)
        assert verdict.status == status
        assert verdict.stats.domains == 0
    assert verdict.decided_by == "root"
    assert verdict.lower_bound == pytest.approx(1e-3, rel=1e-2)


def test_the_output_may_be_a_relu(tmp_path: Path) -> None:
    """relu(x) <= −0.001 never holds; relu(x) <= 0 does."""
    build = NetworkBuilder(1)
    build.relu(build.linear(0, np.array([[1.0]]), np.zeros(1)))
    path = build.finish().save(tmp_path / "relu.onnx")
    assert ask(path, constant_property((below(0, -0.001),), n=1, m=1)).status == Status.UNSAT
    assert ask(path, constant_property((below(0, 0.0),), n=1, m=1)).status == Status.SAT


def test_a_tie_is_an_honest_unknown(tmp_path: Path) -> None:
    """relu(x) < 0 never holds, but by nothing more than rounding could hide."""
    build = NetworkBuilder(1)
    build.relu(build.linear(0, np.array([[1.0]]), np.zeros(1)))
    path = build.finish().save(tmp_path / "relu.onnx")
    verdict = ask(path, output_constraint(box([[-1.0]], [[1.0]]), [[1.0]], [0.0]))
    assert verdict.status == Status.UNKNOWN
    assert "within rounding" in verdict.reason
    assert verdict.lower_bound == pytest.approx(0.0, abs=1e-12)
    assert verdict.upper_bound == 0.0
    assert ask(path, output_constraint(box([[-1.0]], [[1.0]]), [[1.0]], [-1e-9])).status == Status.UNSAT


def test_within_rounding_is_said(tmp_path: Path) -> None:
    """onnxruntime computes relu(x + 2^30) − 2^30 as 0 for x in [0.3, 0.5]; the real value is x."""
    build = NetworkBuilder(1)
    big = np.array([2.0**30])
    build.linear(build.relu(build.linear(0, np.array([[1.0]]), big)), np.array([[1.0]]), -big)
    path = build.finish().save(tmp_path / "loses.onnx")
    verdict = ask(path, constant_property((below(0, 0.1),), 0.3, 0.5, n=1, m=1))
    assert (verdict.status, verdict.reason) == (Status.SAT, "within rounding")
    assert verdict.details["real_rows"]["lower"][0] > 0  # the real network does not violate it
    sure = ask(path, constant_property((below(0, 1.0),), 0.3, 0.5, n=1, m=1))
    assert (sure.status, sure.reason, dict(sure.details)) == (Status.SAT, "", {})


# --- balls ---


def ball_points(region: InputRegion, count: int = 4000) -> torch.Tensor:
    """Points of the ball, many of them on its boundary."""
    rng = np.random.default_rng(0)
    assert region.ball is not None
    n, p, radius = len(region.ball.centre), region.ball.p, float(region.ball.radius)
    if p == 2:
        way = rng.standard_normal((count, n))
        way /= np.linalg.norm(way, axis=1, keepdims=True)
    else:
        way = rng.dirichlet(np.full(n, 0.3), count) * rng.choice([-1.0, 1.0], (count, n))
    way[::3] *= rng.random((len(way[::3]), 1))
    low, high = (np.array([float(v) for v in side]) for side in (region.box.lower, region.box.upper))
    return torch.from_numpy(np.clip(np.array([float(v) for v in region.ball.centre]) + radius * way, low, high))


@pytest.mark.parametrize("make", [l1_ball, l2_ball])
@pytest.mark.parametrize("seed", range(6))
def test_on_balls_the_verdict_agrees_with_sampling(make: Any, seed: int) -> None:
    net = module(3, 6, 6, 2, seed=seed)
    loaded = load_network(net, example_shape=(1, 3))
    region = make(np.array([[0.1, -0.2, 0.3]]), 0.5)
    with torch.no_grad():
        y = net.double()(ball_points(region))[:, 0]
    least, spread = float(y.min()), float(y.max() - y.min())
    for share, expected in ((0.1, Status.SAT), (-0.3, Status.UNSAT)):
        row = below(0, least + share * spread)
        verdict = ask(loaded, Property((Disjunct(region.box, (row,), region.ball),), 3, 2), timeout=30)
        if share > 0:
            assert verdict.status == expected
            assert verdict.witness is not None
            assert region.ball.contains([Fraction(float(v)) for v in verdict.witness.input.flatten()])
        else:
            assert verdict.status != Status.SAT
            assert verdict.lower_bound is None or verdict.lower_bound <= -share * spread + 1e-6
            assert make is l2_ball or verdict.status == expected


@pytest.mark.parametrize("seed", range(4))
def test_l1_balls_are_decided_to_the_last_digits(seed: int) -> None:
    """Leaves of an ℓ1 ball are LPs, so the minimum itself is the border between the verdicts."""
    loaded = load_network(module(2, 5, 2, seed=seed), example_shape=(1, 2))
    region = l1_ball(np.array([[0.1, -0.2]]), 0.75)
    found = netproof.bounds(loaded, region, method="exact", device="cpu", threads=1)
    assert found.exact
    with torch.no_grad():
        seen = float(module(2, 5, 2, seed=seed).double()(ball_points(region, 40_000))[:, 0].min())
    least = float(found.lower.flatten()[0])
    assert least <= seen + 1e-9
    assert least == pytest.approx(seen, abs=5e-3)
    for gap, status in ((1e-4, Status.SAT), (-1e-4, Status.UNSAT)):
        row = below(0, least + gap)
        assert ask(loaded, Property((Disjunct(region.box, (row,), region.ball),), 2, 2)).status == status


@pytest.mark.parametrize("make", [l1_ball, l2_ball])
def test_a_clipped_ball_is_sound(make: Any) -> None:
    net = module(3, 6, 2, seed=1)
    region = make(np.array([[0.1, 0.2, 0.9]]), 0.5, clip=(0, 1))
    with torch.no_grad():
        y = net.double()(ball_points(region))
    label = int(y.mean(0).argmax())
    margin = float((y[:, label] - y[:, 1 - label]).min())
    verdict = ask(load_network(module(3, 6, 2, seed=1), example_shape=(1, 3)), region, label=label, timeout=30)
    assert verdict.status == Status.SAT if margin < 0 else verdict.status != Status.SAT or margin < 1e-3
    assert verdict.lower_bound is None or verdict.lower_bound <= margin + 1e-6


# --- ranges ---


@pytest.mark.parametrize("method", ["ibp", "crown", "alpha", "lp", "exact"])
def test_ranges_hold_every_value_and_get_tighter(method: str) -> None:
    net = module(3, 8, 8, 2)
    loaded = load_network(net, example_shape=(1, 3))
    region = linf_ball(np.zeros((1, 3)), 1)
    found = {m: netproof.bounds(loaded, region, method=m, device="cpu", threads=1) for m in {method, "ibp", "exact"}}
    with torch.no_grad():
        y = net.double()(torch.rand(5000, 3, dtype=torch.float64) * 2 - 1).numpy()
    mine, widest, best = found[method], found["ibp"], found["exact"]
    assert (mine.lower <= y.min(0)).all()
    assert (y.max(0) <= mine.upper).all()
    assert (mine.upper - mine.lower <= widest.upper - widest.lower + 1e-9).all()
    assert (mine.upper - mine.lower >= best.upper - best.lower - 1e-5).all()
    assert mine.exact == (method == "exact")
    assert mine.method == method


def test_exact_ranges_of_a_network_with_one_output() -> None:
    """min and max of |x| − y on [−1, 1]^2."""
    net = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.ReLU(), torch.nn.Linear(3, 1))
    with torch.no_grad():
        net[0].weight.copy_(torch.tensor([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0]]))
        net[0].bias.copy_(torch.tensor([0.0, 0.0, 2.0]))
        net[2].weight.copy_(torch.tensor([[1.0, 1.0, -1.0]]))
        net[2].bias.fill_(2.0)
    found = netproof.bounds(net, linf_ball(np.zeros((1, 2)), 1), method="exact", device="cpu", threads=1)
    assert found.exact
    assert found.lower.item() == pytest.approx(-1.0, abs=1e-5)
    assert found.upper.item() == pytest.approx(2.0, abs=1e-5)


def test_ranges_of_nothing_and_by_nothing_are_refused() -> None:
    net = module(2, 3, 2)
    with pytest.raises(UsageError, match="input set is empty"):
        netproof.bounds(net, box([[1.0, 1.0]], [[0.0, 0.0]]), device="cpu", threads=1)
    with pytest.raises(UsageError, match="no bounding method 'guess'"):
        netproof.bounds(net, linf_ball(np.zeros((1, 2)), 1), method="guess", device="cpu", threads=1)


def test_ranges_cut_short_say_so() -> None:
    net = module(2, 6, 6, 2)
    for method in ("alpha", "exact"):
        found = netproof.bounds(
            net, linf_ball(np.zeros((1, 2)), 1), method=method, device="cpu", threads=1, deadline=Deadline(0.0)
        )
        assert not found.exact
        assert found.reason
        assert (found.lower == -np.inf).all()


# --- progress and the clock ---


class Fuse(Deadline):
    """Runs out, without being cancelled, when told to."""

    burnt = False

    @property
    def expired(self) -> bool:
        return self.burnt or super().expired


def hard_question() -> tuple[Any, Property]:
    """A search of many rounds: the bound asked for is barely below the minimum."""
    net = module(6, 24, 24, 24, 2)
    row = below(0, least_of(net, -1, 1, 6) - 0.02)
    return load_network(net, example_shape=(1, 6)), constant_property((row,), n=6)


def test_progress_names_the_phases_in_order() -> None:
    net, property = hard_question()
    deadline = Fuse()
    told: list[Progress] = []

    def progress(step: Progress) -> None:
        told.append(step)
        deadline.burnt = sum(t.phase == "search" for t in told) >= 2

    ask(net, property, progress=progress, deadline=deadline, options={"batch": "4"})
    first = [phase for phase, _ in itertools.groupby(t.phase for t in told)]
    assert first[:3] == ["load", "attack", "root"]
    assert "search" in first[3:]
    assert set(first) <= set(PHASES)
    assert [t.seconds for t in told] == sorted(t.seconds for t in told)
    assert [t.domains for t in told] == sorted(t.domains for t in told)
    searching = [t for t in told if t.phase == "search"]
    assert searching[-1].rounds >= 1
    assert searching[-1].frontier > 0
    assert all(t.lower_bound is not None and t.upper_bound is not None for t in searching)
    assert searching[-1].lower_bound <= searching[-1].upper_bound
    assert all((t.problem, t.problems) == (0, 1) for t in told[1:])


def test_without_the_attack_there_is_no_such_phase() -> None:
    told: list[Progress] = []
    verdict = ask(module(2, 3, 2), linf_ball(np.zeros((1, 2)), 0.01), label=0, attack=False, progress=told.append)
    assert "attack" not in {t.phase for t in told}
    assert verdict.stats.seconds["attack"] == 0.0


@pytest.mark.parametrize("phase", ["load", "attack", "root", "search"])
def test_cancelled_from_another_thread_it_ends_as_interrupted(phase: str) -> None:
    net, property = hard_question()
    deadline = Deadline()

    def progress(step: Progress) -> None:
        if step.phase == phase:
            thread = threading.Thread(target=deadline.cancel)
            thread.start()
            thread.join()

    verdict = ask(net, property, progress=progress, deadline=deadline, options={"batch": "4"})
    assert (verdict.status, verdict.reason) == (Status.UNKNOWN, "interrupted")
    assert verdict.witness is None
    assert (verdict.lower_bound is not None) == (phase == "search")


def test_out_of_time_it_says_what_was_proved() -> None:
    net, property = hard_question()
    deadline = Fuse()

    def progress(step: Progress) -> None:
        deadline.burnt = step.phase == "search"

    verdict = ask(net, property, progress=progress, deadline=deadline, options={"batch": "4"})
    assert verdict.status == Status.TIMEOUT
    assert "still open" in verdict.reason
    assert verdict.lower_bound is not None
    assert verdict.upper_bound is not None
    assert verdict.lower_bound <= 0 < verdict.upper_bound
    assert verdict.decided_by == ""


@pytest.mark.parametrize("attack", [True, False])
def test_out_of_time_from_the_start(attack: bool) -> None:
    net, property = hard_question()
    verdict = ask(net, property, timeout=0.0, attack=attack)
    assert verdict.status == Status.TIMEOUT
    assert verdict.lower_bound is None
    assert verdict.witness is None


def test_of_several_sets_an_unfinished_search_claims_no_bound() -> None:
    net, property = hard_question()
    again = Disjunct(Box((Fraction(-1, 2),) * 6, (Fraction(1, 2),) * 6), property.disjuncts[0].rows)
    deadline = Fuse()

    def progress(step: Progress) -> None:
        deadline.burnt = step.phase == "search"

    verdict = ask(net, Property((*property.disjuncts, again), 6, 2), progress=progress, deadline=deadline)
    assert verdict.status == Status.TIMEOUT
    assert verdict.stats.rounds > 0
    assert verdict.lower_bound is None


# --- the same again ---


def same_run(a: Verdict, b: Verdict) -> bool:
    counters = [(v.status, v.reason, v.lower_bound, v.upper_bound, v.stats.domains, v.stats.rounds) for v in (a, b)]
    if counters[0] != counters[1] or (a.witness is None) != (b.witness is None):
        return False
    return a.witness is None or bool((a.witness.input == b.witness.input).all())


@pytest.mark.parametrize("name", ["fc-4-needs-splits", "fc-5-breaks", "res-6-breaks"])
@pytest.mark.parametrize("attack", [True, False])
def test_a_seed_repeats_the_run(name: str, attack: bool, demo: dict[str, tuple[Path, Path, Instance]]) -> None:
    model, spec, instance = demo[name]
    runs = [ask(model, spec, seed=3, attack=attack) for _ in range(2)]
    assert runs[0].status == instance.expected
    assert same_run(*runs)


def test_the_clock_is_accounted_for(demo: dict[str, tuple[Path, Path, Instance]]) -> None:
    model, spec, _ = demo["fc-4-needs-splits"]
    stats = ask(model, spec).stats
    parts = {name: spent for name, spent in stats.seconds.items() if name != "total"}
    assert all(spent >= 0 for spent in parts.values())
    assert 0 < sum(parts.values()) <= stats.seconds["total"]
    assert stats.domains > 0
    assert stats.peak_memory > 0
