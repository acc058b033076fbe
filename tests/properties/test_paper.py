"""What the paper says of its bounds: how linear bounds, optimised slopes and LPs stand to each other.

Theorem 3.2 with a correction (a leaf's value, not its feasibility), section 3.1 on slopes that
meet the LP and on optimised bounds that pass the LP of the first intermediate bounds.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
import torch

from netproof.bounds.ascent import Climb, Schedule
from netproof.bounds.base import Bounds, Clock, root_domains
from netproof.bounds.domains import Domains, split
from netproof.bounds.dual import DualPoint
from netproof.bounds.joint import Joint
from netproof.bounds.lirpa import Lirpa, optimise_and_confirm
from netproof.bounds.neurons.root import Root, build_root
from netproof.branching.babsr import Babsr
from netproof.core.deadline import Deadline
from netproof.core.verdict import Stats
from netproof.problem.problem import Problem
from netproof.search.goals import Decide
from netproof.search.leaf import LeafLP
from netproof.search.loop import Search
from netproof.search.method import Method, Work
from support.asking import CPU, bound_of, dense, first_problem, gaussian, knotted, problem_of, root_of, sharpened
from support.exact import enumerate_minimum, milp_minimum, rows_of
from support.random_graphs import Question, random_question, rows_tensor, seeded

CROWN = Lirpa(root_steps=0, neuron_steps=0)  # slopes as they start, at the root
THOROUGH = Schedule(steps=600, rate=0.1, decay=0.99, gain=None)


def climb(root: Root, domains: Domains) -> Bounds:
    """Optimise the output's slopes for long, with the intermediate bounds as they are."""
    never = torch.full((len(domains),), torch.inf, dtype=torch.float64)
    theta = DualPoint(domains.slopes.float(), None, domains.weights)
    return optimise_and_confirm(root, domains, {}, theta, Climb(THOROUGH, never, Deadline(None)), Clock()).bounds


def lp_values(root: Root, domains: Domains) -> torch.Tensor:
    return LeafLP(root, 1).decide(domains, Deadline(None)).bound


def forgetful(domains: Domains) -> Domains:
    """Without the bound that was inherited from the root."""
    return replace(domains, bound=torch.full_like(domains.bound, -torch.inf))


def crown_root(problem: Problem) -> Root:
    root = build_root(problem, CPU, Schedule(0), Deadline(None))
    assert root is not None
    return root


def gaussian_problem(seed: int, widths: tuple[int, ...], radius: float) -> Problem:
    graph = gaussian(seed, widths).graph
    centre = np.random.default_rng(seed + 1).normal(size=widths[0])
    return problem_of(graph, (centre - radius, centre + radius), rows_tensor(np.ones((1, 1)), np.zeros(1)))


# --- every ReLU split ---


def small_questions() -> list[Question]:
    made = (random_question(seeded(9000 + seed), neurons=6, inputs=3) for seed in range(40))
    return [q for q in made if 0 < root_of(CROWN, first_problem(q))[0].count <= 6]


def test_with_every_relu_split_the_least_leaf_lp_is_the_minimum_and_slopes_may_fall_short() -> None:
    short = 0
    asked = small_questions()
    assert len(asked) >= 20
    for question in asked:
        problem = first_problem(question)
        root, bounds = root_of(Lirpa(root_steps=20, neuron_steps=5), problem)
        leaves = split(bounds.domains, torch.arange(root.count)[None])
        assert len(leaves) == 2**root.count
        values = lp_values(root, leaves)
        coef, offset = rows_of(question.property.disjuncts[0], question.graph.output.size)
        exact = enumerate_minimum(question.graph, *question.box, coef, offset).value
        assert float(values.min()) == pytest.approx(exact, abs=1e-6)
        linear = bound_of(Lirpa(), root, forgetful(leaves)).domains.bound
        assert bool((linear <= values + 1e-6).all())
        short += float(linear.min()) < exact - 1e-3
    assert short >= 5


def test_leaves_that_the_lp_calls_empty_are_empty() -> None:
    empty = 0
    for question in small_questions():
        problem = first_problem(question)
        root, bounds = root_of(CROWN, problem)
        leaves = split(bounds.domains, torch.arange(root.count)[None])
        coef, offset = rows_of(question.property.disjuncts[0], question.graph.output.size)
        for i in (lp_values(root, leaves) == torch.inf).nonzero()[:, 0].tolist():
            empty += 1
            signs = {
                (layer.pre, int(element)): int(sign)
                for layer in root.graph32.layers
                for element, sign in zip(layer.index, leaves.splits[i, layer.packed].sign(), strict=True)
            }
            assert milp_minimum(question.graph, *question.box, coef, offset, signs).value == np.inf
    assert empty >= 20


# --- slopes and the LP on equal intermediate bounds ---


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("widths", [(3, 8, 1), (4, 6, 6, 1), (3, 5, 5, 4, 1)], ids=str)
def test_optimised_slopes_meet_the_lp_on_the_same_intermediate_bounds(seed: int, widths: tuple[int, ...]) -> None:
    root = crown_root(gaussian_problem(seed, widths, 0.5))
    start = root_domains(root)
    first = float(bound_of(Lirpa(steps=0, rebound=0), root, start).domains.bound)
    best = float(climb(root, start).domains.bound)
    (lp,) = lp_values(root, start).tolist()
    assert first <= best <= lp + 1e-6
    assert best >= lp - 1e-3 * (1 + abs(lp))


def test_the_first_slopes_alone_do_not_meet_the_lp() -> None:
    """Otherwise the test above would say nothing of the optimisation."""
    gaps = []
    for seed in range(8):
        root = crown_root(gaussian_problem(seed, (4, 6, 6, 1), 0.5))
        start = root_domains(root)
        gaps.append(float(lp_values(root, start) - bound_of(Lirpa(steps=0, rebound=0), root, start).domains.bound))
    assert sum(gap > 1e-2 for gap in gaps) >= 4


def test_after_a_split_slopes_and_lp_part() -> None:
    """f = relu(x) on [−1, 1] with x >= 0: the slopes' bound is over the whole box, the LP keeps the constraint."""
    network = dense(([[1.0]], [0.0]), ([[1.0]], [0.0]))
    box = (np.array([-1.0]), np.array([1.0]))
    root = crown_root(problem_of(network.graph, box, rows_tensor(np.ones((1, 1)), np.zeros(1))))
    whole = root_domains(root)
    assert float(climb(root, whole).domains.bound) == pytest.approx(0.0, abs=1e-3)
    active = split(whole, torch.zeros(1, 1, dtype=torch.int64)).select(torch.tensor([0]))
    assert float(climb(root, active).domains.bound) == pytest.approx(-1.0, abs=1e-6)
    assert lp_values(root, active).tolist() == pytest.approx([0.0], abs=1e-9)


def test_after_splits_slopes_never_pass_the_lp_and_often_fall_short() -> None:
    gaps = []
    for seed in range(6):
        root = crown_root(gaussian_problem(seed, (3, 6, 5, 1), 0.5))
        some = torch.randperm(root.count, generator=torch.Generator().manual_seed(seed))[:3]
        domains = split(root_domains(root), some[None])
        gap = lp_values(root, domains) - climb(root, domains).domains.bound
        assert bool((gap >= -1e-6).all())
        gaps += gap[gap.isfinite()].tolist()
    assert sum(gap > 1e-2 for gap in gaps) >= len(gaps) // 4


# --- optimised intermediate bounds ---


def test_optimised_bounds_pass_the_first_lp_and_stay_under_the_last() -> None:
    passed = 0
    for seed in range(6):
        problem = gaussian_problem(seed, (5, 10, 10, 10, 1), 0.4)
        before = crown_root(problem)
        (first_lp,) = lp_values(before, root_domains(before)).tolist()
        root, bounds = root_of(Lirpa(root_steps=200, neuron_steps=50), problem)
        best = float(bounds.domains.bound)
        (last_lp,) = lp_values(root, root_domains(root)).tolist()
        assert best <= last_lp + 1e-6
        assert last_lp >= first_lp - 1e-6
        passed += best > first_lp + 1e-3
    assert passed >= 3


# --- section 3.1 inside the search: intermediate bounds are optimised jointly with the output ---


def bound_after(rounds: int, method: Method) -> float:
    """The global lower bound of five networks together."""
    total = 0.0
    for seed in (0, 1, 2, 3, 5):
        problem = first_problem(sharpened(knotted(seed, (3, 8, 8, 6, 2)), (Fraction(0),)))
        goal = Decide(problem, lambda point, target: None)
        total += Search(problem, method, goal, Work(CPU, 1, Deadline(), Stats())).run(rounds).lower_bound
    return total


# Below the root more is left to gain where nothing was optimised at it, and where a climb is not stopped early.
AT_THE_ROOT, BELOW = (0, Lirpa()), (1, Lirpa(root_steps=0, steps=100, gain=None))


@pytest.mark.parametrize(("rounds", "bounder"), [AT_THE_ROOT, BELOW], ids=["root", "below"])
def test_the_joint_gradient_is_at_work_in_the_search(
    rounds: int, bounder: Lirpa, monkeypatch: pytest.MonkeyPatch
) -> None:
    method = Method(bounder, Babsr(), batch=2, lp_threshold=12_000)
    joint = bound_after(rounds, method)
    whole = Joint.neurons
    monkeypatch.setattr(Joint, "neurons", lambda self, theta: tuple(t.detach() for t in whole(self, theta)))
    assert joint > bound_after(rounds, method) + 0.1
