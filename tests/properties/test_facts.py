"""Five facts about branch and bound, each as a test that fails when the fact is ignored, and what a tie means.

1. Linear bounds ignore that splits may conflict. 2. A leaf's linear bound is over the box, its LP over the leaf.
3. An upper bound comes only from a point. 4. An undecided leaf degrades the verdict. 5. Empty means confirmed empty.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import netproof
from netproof.bounds.base import Bounds
from netproof.bounds.domains import Domains, split
from netproof.bounds.lirpa import Lirpa
from netproof.bounds.neurons.root import Root
from netproof.core.deadline import Deadline
from netproof.core.verdict import Status
from netproof.methods.registry import METHODS
from netproof.programs.triangle import LPOutcome, LPTask, TriangleLP
from netproof.search.leaf import LeafLP
from support.asking import ask, at_most, bound_of, dense, problem_of, root_of, whole_box
from support.random_graphs import TinyNetwork, rows_tensor

every_method = pytest.mark.parametrize("method", METHODS)
# Without multipliers, hidden or not; the others see conflicts between splits.
SLOPES_ALONE = [
    *("lirpa-printed", "lirpa-printed-single", "lirpa-printed-fixed"),
    *("lirpa-forced", "lirpa-tight", "lirpa-gnn", "lirpa-gnn-online"),
]
RELEASED = ["lirpa", "lirpa-grown", "lirpa-single"]  # with free slopes of split neurons
LPS_ALONE = [
    "babsr-lp",
    "gnn",
    "gnn-online",
]  # whose every bound is an LP's, so that no leaf needs one; bounds of bdd tend to it
# The others split the input of such networks first.
SIGNS = [m for m in METHODS if m not in ("auto", "input-split", "bdd", *LPS_ALONE)]
splits_neurons = pytest.mark.parametrize("method", SIGNS)
needs_leaves = pytest.mark.parametrize("method", [m for m in SIGNS if m not in RELEASED])
slopes_alone = pytest.mark.parametrize("method", SLOPES_ALONE)
either_attack = pytest.mark.parametrize("attack", [True, False], ids=["attack", "no attack"])

ONE = (np.array([-1.0]), np.array([1.0]))
SEGMENT = whole_box([-1], [1])
# One split at a time may do without an LP: −relu split, the other's best slope cancels it. Both at once may not.
AT_ONCE = {"grow": "yes", "batch": "32"}
CONFLICTS = {m: AT_ONCE if m in SLOPES_ALONE else {} for m in METHODS}  # options with which splits conflict


def relu_minus_relu() -> TinyNetwork:
    """f = relu(x) − relu(x) with two neurons of their own: 0 everywhere."""
    return dense(([[1.0], [1.0]], [0.0, 0.0]), ([[1.0, -1.0]], [0.0]))


def one_relu() -> TinyNetwork:
    """f = relu(x)."""
    return dense(([[1.0]], [0.0]), ([[1.0]], [0.0]))


def equal_pairs() -> TinyNetwork:
    """f = 0.1 − (g_a − g_b) − (g_c − g_d), equal pairs relu(x + 0.5) and relu(−x + 0.5): 0.1 everywhere."""
    return dense(([[1.0], [1.0], [-1.0], [-1.0]], [0.5] * 4), ([[-1.0, 1.0, -1.0, 1.0]], [0.1]))


def as_file(limit: str, path: Path, relation: str = "<=") -> Path:
    """A violation `Y_0 relation limit` on [−1, 1], as VNN-LIB."""
    path.write_text(
        "(declare-const X_0 Real)\n(declare-const Y_0 Real)\n(assert (>= X_0 -1))\n(assert (<= X_0 1))\n"
        f"(assert ({relation} Y_0 {limit}))\n"
    )
    return path


def all_leaves(found: tuple[Root, Bounds]) -> tuple[Root, Domains]:
    """The root's one domain split on every unstable neuron."""
    root, bounds = found
    return root, split(bounds.domains, torch.arange(root.count)[None])


def forgetful(domains: Domains) -> Domains:
    """Without the bound that was inherited from the root."""
    return replace(domains, bound=torch.full_like(domains.bound, -torch.inf))


# --- fact 1: linear bounds ignore that splits may conflict ---


@slopes_alone
def test_fact_1_conflicting_splits_stay_undecided_without_the_leaf_lp(method: str, tmp_path: Path) -> None:
    model = relu_minus_relu().save(tmp_path / "f.onnx")
    spec = as_file("-0.001", tmp_path / "f.vnnlib")
    verdict = netproof.verify(model, spec, method=method, device="cpu", options={"leaf_lp": "false", **AT_ONCE})
    assert verdict.status == Status.UNKNOWN
    assert "leaves" in verdict.reason
    assert verdict.stats.leaf_lps == verdict.stats.lps == 0
    assert verdict.lower_bound is not None
    assert verdict.lower_bound <= -0.5 + 0.002  # the root's, or −1 where slopes are not optimised


@pytest.mark.parametrize("method", RELEASED)
@pytest.mark.parametrize("options", [{}, AT_ONCE])
def test_fact_1_the_released_code_proves_it_without_an_lp(method: str, options: dict[str, str], tmp_path: Path) -> None:
    """A split neuron keeps a lower line of any slope, which is a multiplier of the split: both leaves rise to 0."""
    model = relu_minus_relu().save(tmp_path / "f.onnx")
    spec = as_file("-0.001", tmp_path / "f.vnnlib")
    verdict = netproof.verify(model, spec, method=method, device="cpu", options={"leaf_lp": "false", **options})
    assert verdict.status == Status.UNSAT
    assert verdict.stats.leaf_lps == verdict.stats.lps == 0


@slopes_alone
def test_fact_1_one_split_at_a_time_proves_it(method: str, tmp_path: Path) -> None:
    model = relu_minus_relu().save(tmp_path / "f.onnx")
    verdict = netproof.verify(model, as_file("-0.001", tmp_path / "f.vnnlib"), method=method, device="cpu")
    assert verdict.status == Status.UNSAT
    assert verdict.lower_bound == pytest.approx(0.001, abs=1e-6)


@every_method
def test_fact_1_the_leaf_lp_proves_it(method: str, tmp_path: Path) -> None:
    model = relu_minus_relu().save(tmp_path / "f.onnx")
    spec, options = as_file("-0.001", tmp_path / "f.vnnlib"), CONFLICTS[method]
    verdict = netproof.verify(model, spec, method=method, device="cpu", options=options)
    assert verdict.status == Status.UNSAT
    assert verdict.lower_bound is not None
    assert 0 <= verdict.lower_bound <= 0.001 + 1e-6
    if method in SIGNS:
        assert verdict.lower_bound == pytest.approx(0.001, abs=1e-6)
    if method in SLOPES_ALONE:
        assert verdict.decided_by == "leaf"
        assert verdict.stats.leaf_lps + verdict.stats.lps > 0


@pytest.mark.parametrize("method", ["beta", "auto"])
def test_fact_1_multipliers_see_the_conflict_without_an_lp(method: str, tmp_path: Path) -> None:
    model = relu_minus_relu().save(tmp_path / "f.onnx")
    spec = as_file("-0.01", tmp_path / "f.vnnlib")
    verdict = netproof.verify(model, spec, method=method, device="cpu", options={"leaf_lp": "false", "steps": "300"})
    assert verdict.status == Status.UNSAT
    assert verdict.stats.leaf_lps == verdict.stats.lps == 0


def test_fact_1_two_of_the_four_leaves_keep_the_boxs_bound() -> None:
    network = relu_minus_relu()
    problem = problem_of(network.graph, ONE, rows_tensor(np.ones((1, 1)), np.zeros(1)))
    root, leaves = all_leaves(root_of(Lirpa(), problem))
    bounds = bound_of(Lirpa(steps=200), root, forgetful(leaves))
    assert sorted(bounds.domains.bound.tolist()) == pytest.approx([-1.0, -1.0, 0.0, 0.0], abs=1e-6)
    assert not bool(bounds.empty.any())  # x = 0 is in all of them
    values = LeafLP(root, 1).decide(leaves, Deadline(None)).bound
    assert values.tolist() == pytest.approx([0.0] * 4, abs=1e-7)


# --- fact 2: a leaf's linear bound is over the box, its LP value over the leaf ---


def test_fact_2_the_leafs_linear_bound_is_below_its_lp_value() -> None:
    problem = problem_of(one_relu().graph, ONE, rows_tensor(np.ones((1, 1)), np.zeros(1)))
    root, leaves = all_leaves(root_of(Lirpa(), problem))
    active = leaves.select(leaves.splits[:, 0] > 0)
    linear = bound_of(Lirpa(steps=200), root, forgetful(active))
    assert float(linear.domains.bound) == pytest.approx(-1.0, abs=1e-6)
    outcome = LeafLP(root, 1).decide(active, Deadline(None))
    assert float(outcome.bound) == pytest.approx(0.0, abs=1e-9)
    assert float(outcome.point) == pytest.approx(0.0, abs=1e-9)


@needs_leaves
def test_fact_2_feasibility_alone_would_not_do(method: str, tmp_path: Path) -> None:
    """Every leaf of |x + y| + |x − y| >= |2x| is feasible, so it is their values that prove."""
    weight = [[1.0, 1.0], [-1.0, -1.0], [1.0, -1.0], [-1.0, 1.0], [2.0, 0.0], [-2.0, 0.0]]
    network = dense((weight, [0.0] * 6), ([[1.0, 1.0, 1.0, 1.0, -1.0, -1.0]], [0.0]))
    box = whole_box([-1, -1], [1, 1])
    options = CONFLICTS[method]
    verdict = ask(network, at_most(box, network, "-1/100"), tmp_path, method=method, options=options)
    assert verdict.status == Status.UNSAT
    assert verdict.stats.leaf_lps + verdict.stats.lps > 0
    options = {"leaf_lp": "false", **options}
    stuck = ask(network, at_most(box, network, "-1/100"), tmp_path, method=method, options=options)
    assert stuck.status == Status.UNKNOWN


# --- fact 3: an upper bound comes only from an evaluated point ---


@every_method
@either_attack
def test_fact_3_a_network_that_is_a_tenth_everywhere_is_never_broken(method: str, attack: bool, tmp_path: Path) -> None:
    network = equal_pairs()
    told: list[netproof.api.Progress] = []
    how = {"method": method, "attack": attack, "progress": told.append}
    verdict = ask(network, at_most(SEGMENT, network, 0), tmp_path, **how)
    assert verdict.status == Status.UNSAT
    uppers = [verdict.upper_bound, *(p.upper_bound for p in told)]
    lowers = [verdict.lower_bound, *(p.lower_bound for p in told)]
    assert min(u for u in uppers if u is not None) >= 0.1 - 1e-6
    assert max(v for v in lowers if v is not None) <= 0.1 + 1e-6


@needs_leaves
def test_fact_3_nor_when_conflicting_leaves_cannot_be_told(method: str, tmp_path: Path) -> None:
    network, options = equal_pairs(), {"leaf_lp": "false", **CONFLICTS[method]}
    verdict = ask(network, at_most(SEGMENT, network, 0), tmp_path, method=method, options=options)
    assert verdict.status == Status.UNKNOWN
    assert verdict.lower_bound is not None
    assert verdict.lower_bound < 0  # a conflicting split looks broken, but only from below
    assert verdict.upper_bound == pytest.approx(0.1, abs=1e-6)


def test_fact_3_its_exact_range_is_one_number(tmp_path: Path) -> None:
    network = equal_pairs()
    spec = at_most(SEGMENT, network, 0)
    found = netproof.bounds(network.save(tmp_path / "f.onnx"), spec, method="exact", device="cpu")
    assert found.exact
    assert (found.lower.item(), found.upper.item()) == pytest.approx((0.1, 0.1), abs=1e-5)


# --- fact 4: an undecided leaf degrades the verdict ---


def fail_where(monkeypatch: pytest.MonkeyPatch, hopeless: Callable[[LPTask], bool]) -> list[LPTask]:
    """Make the LP give up on some domains; returns the list of those it gave up on."""
    real = TriangleLP.solve
    failed: list[LPTask] = []

    def solve(self: TriangleLP, task: LPTask, *rest: float) -> LPOutcome:
        if not hopeless(task):
            return real(self, task, *rest)
        failed.append(task)
        return LPOutcome("failed")

    monkeypatch.setattr(TriangleLP, "solve", solve)
    return failed


@slopes_alone
def test_fact_4_leaves_without_an_answer_are_not_forgotten(
    method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def conflicting(task: LPTask) -> bool:
        ((lower, upper),) = task.bounds.values()
        active, inactive = (lower >= 0).reshape(2, 2), (upper <= 0).reshape(2, 2)
        return bool(((active & inactive[:, ::-1]).any(1)).any())

    network, how = equal_pairs(), {"method": method, "options": CONFLICTS[method]}
    question = at_most(SEGMENT, network, 0)
    assert ask(network, question, tmp_path, **how).status == Status.UNSAT
    failed = fail_where(monkeypatch, conflicting)
    verdict = ask(network, question, tmp_path, **how)
    assert failed
    assert verdict.status == Status.UNKNOWN
    assert "leaves" in verdict.reason
    assert verdict.lower_bound is not None
    assert verdict.lower_bound < 0


@slopes_alone
def test_fact_4_one_leaf_of_many_is_enough(method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever of the LPs on leaves is the one that fails."""
    network = equal_pairs()
    question = at_most(SEGMENT, network, 0)
    options = {"patience": "1000", **CONFLICTS[method]}  # LPs on leaves only, and each leaf has one
    count = ask(network, question, tmp_path, method=method, options=options).stats.leaf_lps
    assert count > 1
    for unlucky in range(count):
        with monkeypatch.context() as patch:
            turn = itertools.count()
            fail_where(patch, lambda task, turn=turn, unlucky=unlucky: next(turn) == unlucky)
            verdict = ask(network, question, tmp_path, method=method, options=options)
        assert verdict.status == Status.UNKNOWN


@slopes_alone
def test_fact_4_no_lp_at_all(method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    failed = fail_where(monkeypatch, lambda task: True)
    network, options = equal_pairs(), CONFLICTS[method]
    assert ask(network, at_most(SEGMENT, network, 0), tmp_path, method=method, options=options).status == Status.UNKNOWN
    assert failed


class RunsOut(Deadline):
    """Expires after it was asked so many times, so that every place that asks is tried."""

    def __init__(self, left: int) -> None:
        super().__init__(None)
        self.left = left

    @property
    def expired(self) -> bool:
        self.left -= 1
        return self.left < 0

    def remaining(self) -> float:
        return 0.0 if self.left < 0 else 1e6


def needle() -> TinyNetwork:
    """f = 1 − 2·relu(1 − 256·|x − 5/16|), negative beside one point only, where no attack looks."""
    return dense(([[256.0], [-256.0]], [-80.0, 80.0]), ([[-1.0, -1.0]], [1.0]), ([[-2.0]], [1.0]))


PROVED = (relu_minus_relu(), "-1/1000", Status.UNSAT)
BROKEN = [(relu_minus_relu(), "1/1000", Status.SAT), (needle(), "0", Status.SAT)]


@pytest.mark.parametrize(
    ("method", "question"),
    [(m, q) for place, m in enumerate(METHODS) for q in (PROVED, BROKEN[place % 2])],
    ids=[f"{m}-{kind}" for m in METHODS for kind in ("proved", "broken")],
)
def test_fact_4_wherever_time_runs_out_the_verdict_is_right_or_open(
    method: str, question: tuple[TinyNetwork, str, Status], tmp_path: Path
) -> None:
    """Every method on what is proved and on what is broken, by a needle or not for one method after the other."""
    network, limit, truth = question
    how = {"method": method, "options": {} if method in LPS_ALONE else {"root_steps": "3"}}
    asked = at_most(SEGMENT, network, limit)
    open_still = 0
    for left in (*range(24), *range(24, 300, 5)):
        verdict = ask(network, asked, tmp_path, attack=False, deadline=RunsOut(left), **how)
        assert verdict.status in (truth, Status.TIMEOUT, Status.UNKNOWN), left
        if verdict.status == truth:
            break
        open_still += 1
    assert verdict.status == truth
    assert open_still >= 3
    for left in range(0, 60, 8):
        verdict = ask(network, asked, tmp_path, attack=True, deadline=RunsOut(left), **how)
        assert verdict.status in (truth, Status.TIMEOUT, Status.UNKNOWN), left


# --- fact 5: infeasible domains ---


def two_layers() -> TinyNetwork:
    """z = relu(x) − 1/2 behind h = x, and f = relu(z) − relu(x): h <= 0 leaves z = −1/2."""
    return dense(
        ([[1.0], [1.0]], [0.0, 0.0]),
        ([[1.0, 0.0], [0.0, 1.0]], [-0.5, 0.25]),
        ([[1.0, -1.0]], [0.0]),
    )


BOUNDERS = {
    "fixed": Lirpa(0, 0, 0),
    "optimised": Lirpa(),
    "slopes of their own": Lirpa(own_slopes=True),
    "nothing rebounded": Lirpa(rebound=0),
}


def clean(domains: Domains) -> bool:
    return not any(bool(t.isnan().any()) for t in (domains.bound, domains.lower, domains.upper, domains.weights))


@pytest.mark.parametrize("bounder", BOUNDERS.values(), ids=BOUNDERS)
def test_fact_5_contradictory_bounds_are_empty_and_poison_nothing(bounder: Lirpa) -> None:
    """Beside each crossed domain lies a sound one in the same batch, which must not notice."""
    problem = problem_of(two_layers().graph, ONE, rows_tensor(np.ones((1, 1)), np.zeros(1)))
    root, bounds = root_of(bounder, problem)
    whole = replace(bounds.domains, candidates=torch.arange(root.count)[None])
    alone = bound_of(bounder, root, whole)
    for neuron in range(root.count):
        for low, high in ((0.5, -0.5), (0.25, 0.125), (-0.125, -0.25), (float(np.finfo(np.float32).tiny), 0.0)):
            lower, upper = whole.lower.repeat(2, 1), whole.upper.repeat(2, 1)
            lower[1, neuron], upper[1, neuron] = low, high
            both = replace(whole.select(torch.tensor([0, 0])), lower=lower, upper=upper)
            found = bound_of(bounder, root, both)
            assert found.empty.tolist() == [False, True]
            assert clean(found.domains)
            assert not bool(found.coef.isnan().any() | found.point.isnan().any())
            assert found.domains.bound.tolist() == [pytest.approx(float(alone.domains.bound), abs=1e-6), np.inf]


@pytest.mark.parametrize("bounder", BOUNDERS.values(), ids=BOUNDERS)
def test_fact_5_a_domain_is_called_empty_only_when_that_is_confirmed(bounder: Lirpa) -> None:
    """With h <= 0 the next layer's z is −1/2: a domain that says z >= −1/8 is empty, one that says z >= −1/2 is not."""
    problem = problem_of(two_layers().graph, ONE, rows_tensor(np.ones((1, 1)), np.zeros(1)))
    root, bounds = root_of(bounder, problem)
    where = {(layer.pre, int(e)): layer.start + i for layer in root.graph32.layers for i, e in enumerate(layer.index)}
    h, z = where[1, 0], where[3, 0]
    parent = replace(bounds.domains, candidates=torch.arange(root.count)[None])
    inactive = split(parent, torch.tensor([[h]])).select(torch.tensor([1, 1]))
    lower = inactive.lower.clone()
    lower[:, z] = torch.tensor([-0.125, -0.5])
    found = bound_of(bounder, root, replace(inactive, lower=lower))
    assert clean(found.domains)
    assert found.empty.tolist() == [bounder.rebound != 0, False]
    assert (found.domains.bound == np.inf).tolist() == found.empty.tolist()


@pytest.mark.parametrize("bounder", BOUNDERS.values(), ids=BOUNDERS)
def test_fact_5_a_domain_of_one_point_is_not_empty(bounder: Lirpa) -> None:
    """Both halves of a split are closed, so h may be known to be 0: that leaves x = 0, where f = −1/4."""
    problem = problem_of(two_layers().graph, ONE, rows_tensor(np.ones((1, 1)), np.zeros(1)))
    root, bounds = root_of(bounder, problem)
    pinned = [t.clone() for t in (bounds.domains.lower, bounds.domains.upper)]
    first = root.graph32.layers[0].packed
    pinned[0][:, first] = pinned[1][:, first] = 0.0
    domains = replace(bounds.domains, lower=pinned[0], upper=pinned[1], candidates=torch.arange(root.count)[None])
    found = bound_of(bounder, root, domains)
    assert not bool(found.empty.any())
    assert float(found.domains.bound) <= -0.25 + 1e-9


# --- what a tie means ---


@every_method
@either_attack
def test_a_tie_breaks_at_most_and_does_not_break_less(method: str, attack: bool, tmp_path: Path) -> None:
    model = one_relu().save(tmp_path / "f.onnx")
    how = {"method": method, "attack": attack, "device": "cpu"}
    closed = netproof.verify(model, as_file("0", tmp_path / "closed.vnnlib"), **how)
    assert closed.status == Status.SAT
    assert closed.witness is not None
    assert closed.witness.output.item() == 0.0
    assert -1.0 <= closed.witness.input.item() <= 0.0
    opened = netproof.verify(model, as_file("0", tmp_path / "open.vnnlib", "<"), **how)
    assert opened.status in (Status.UNSAT, Status.UNKNOWN)
    assert opened.witness is None


@every_method
def test_a_tie_at_one_inner_point_is_found_without_attack(method: str, tmp_path: Path) -> None:
    """f = |x − 1/4| touches 0 at one point only, which is no corner of the box but one of the LP's."""
    network = dense(([[1.0], [-1.0]], [-0.25, 0.25]), ([[1.0, 1.0]], [0.0]))
    verdict = ask(network, at_most(SEGMENT, network, 0), tmp_path, method=method, attack=False)
    assert verdict.status == Status.SAT
    assert verdict.witness is not None
    assert verdict.witness.input.item() == 0.25
    assert ask(network, at_most(SEGMENT, network, 0, strict=True), tmp_path, method=method).status != Status.SAT
