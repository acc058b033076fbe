"""The public functions as a user calls them: what they accept, and the edges of a question."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import torch

import netproof
from netproof.api import verify
from netproof.core.reasons import PINNED
from netproof.core.verdict import Status
from netproof.demo import Instance
from netproof.errors import SpecError, UsageError
from netproof.model.load import load_network
from netproof.problem.property import Box, Disjunct, Property, Row
from netproof.problem.specs import box, linf_ball, output_constraint
from support.api import ask, below, constant_property, least_of, module
from support.random_graphs import NetworkBuilder

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
    with pytest.raises(TypeError, match=r"verdict\.proved"):
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
    """0.5·relu(x) < 0 never holds, but by nothing more than rounding could hide."""
    build = NetworkBuilder(1)
    build.linear(build.relu(build.linear(0, np.array([[1.0]]), np.zeros(1))), np.array([[0.5]]), np.zeros(1))
    path = build.finish().save(tmp_path / "relu.onnx")
    verdict = ask(path, output_constraint(box([[-1.0]], [[1.0]]), [[1.0]], [0.0]))
    assert verdict.status == Status.UNKNOWN
    assert "within rounding" in verdict.reason
    assert verdict.lower_bound == pytest.approx(0.0, abs=1e-12)
    assert 0.0 <= verdict.upper_bound < 1e-15  # the value, 0, and its rounding
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


@pytest.mark.parametrize(("pinned", "said"), [("0.1", True), ("0.5", False)])
def test_a_pinned_input_that_float32_cannot_hold_is_named_in_the_reason(
    tmp_path: Path, pinned: str, said: bool
) -> None:
    build = NetworkBuilder(2)
    build.relu(build.linear(0, np.eye(2), np.ones(2)))
    path = build.finish().save(tmp_path / "net.onnx")
    sides = Box((Fraction(pinned), Fraction(0)), (Fraction(pinned), Fraction(1)))
    verdict = ask(path, Property((Disjunct(sides, (below(0, 5.0),)),), 2, 2))
    assert verdict.status == Status.SAT
    assert verdict.reason == (PINNED if said else "")
    assert verdict.witness is not None
    assert bool(verdict.witness.note) == said
