"""The graph network as a branching rule: what it sees, what it is, when it is not followed, and what it learns."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import netproof
from netproof.bounds.base import Bounds
from netproof.bounds.domains import split
from netproof.bounds.dual import Dual, DualPoint
from netproof.bounds.lirpa import Lirpa
from netproof.bounds.neurons.root import Root
from netproof.branching.babsr import Babsr
from netproof.branching.filtered import children
from netproof.branching.minimiser import at_minimiser
from netproof.demo import Instance
from netproof.errors import UsageError
from netproof.paper.rivals.gnn.features import BABSR, COUNT, features
from netproof.paper.rivals.gnn.net import WEIGHTS, BranchingNet, Links, load_weights, save_weights
from netproof.paper.rivals.gnn.rule import FEWEST, Gnn
from netproof.problem.problem import Problem, Rows
from support.asking import bound_of, first_problem, knotted, root_of
from support.problems import unstable_of

BOUNDER = Lirpa(root_steps=5, neuron_steps=2, steps=2)
FIXED = Lirpa(root_steps=0, neuron_steps=0, steps=0)
WIDTHS = (3, 8, 7, 6, 2)
SLOW = {"weak": "1", "batch": "2", "root_steps": "0", "neuron_steps": "0", "steps": "0"}  # so that it takes many rounds
Demo = dict[str, tuple[Path, Path, Instance]]


def situation(seed: int = 3, bounder: Lirpa = BOUNDER) -> tuple[Root, Bounds]:
    """Children of a root with three layers of unstable neurons."""
    root, bounds = root_of(bounder, first_problem(knotted(seed, WIDTHS)))
    assert len(root.layers) == 3
    order = torch.randperm(root.count, generator=torch.Generator().manual_seed(seed))
    return root, bound_of(bounder, root, split(bounds.domains, order[None, :3]))


def told(root: Root, bounds: Bounds) -> Tensor:
    return features(root, bounds, Babsr().scores(root, bounds))


class Contrary(nn.Module):
    """The neuron that BaBSR likes least."""

    def __init__(self) -> None:
        super().__init__()
        self.factor = nn.Parameter(torch.ones(()))

    def domains_at_once(self, neurons: int, device: torch.device) -> int:
        return 1000

    def forward(self, links: Links, features: Tensor) -> Tensor:
        return -self.factor * features[..., BABSR]


def contrary(**how: float) -> Gnn:
    rule = Gnn(**how)
    rule.memory.net = Contrary()  # type: ignore[assignment]
    return rule


# --- what it sees ---


def test_features_are_finite_and_of_moderate_size() -> None:
    for seed in range(4):
        found = told(*situation(seed))
        assert found.shape[2] == COUNT
        assert bool(found.isfinite().all())
        assert float(found.abs().max()) <= 3.0


def scaled(problem: Problem, factor: float) -> Problem:
    rows = problem.rows
    return replace(problem, rows=Rows(rows.coef * factor, rows.offset * factor, rows.strict, rows.valid))


def test_features_do_not_depend_on_the_scale_of_the_property() -> None:
    problem = first_problem(knotted(5, WIDTHS))
    small, large = (told(*root_of(FIXED, scaled(problem, factor))) for factor in (4.0, 400.0))
    assert torch.allclose(small, large, atol=1e-3)
    assert float(small.std(1).max()) > 0.1


def test_no_child_gains_more_than_the_minimiser_says() -> None:
    """a (h* − z*) and a (0 − z*) bound what one backward pass with the same slopes can gain."""
    some = 0
    for seed in range(4):
        root, bounds = situation(seed)
        domains = bounds.domains
        theta = DualPoint(domains.slopes, None, domains.weights)
        value = Dual.of(root, domains, proof=False).at(theta).value
        at = at_minimiser(root, bounds.domains)
        most = torch.stack([at.coef * (at.h - at.z), at.coef * (0.0 * at.h - at.z)], 2)
        every = torch.arange(root.count).expand(len(domains), -1)
        gain = children(root, domains, every) - value[:, None, None]
        free = unstable_of(domains) & ~bounds.empty[:, None]
        assert bool((gain <= most + 1e-4 * (1 + most.abs()))[free].all())
        some += int((gain > 1e-3)[free].sum())
    assert some > 20


# --- what it is ---


def test_untrained_it_is_babsr() -> None:
    root, bounds = situation()
    torch.manual_seed(0)
    scores = BranchingNet().scores(Links.of(root), told(root, bounds))
    theirs = torch.where(unstable_of(bounds.domains), Babsr().scores(root, bounds), -torch.inf)
    mine = torch.where(unstable_of(bounds.domains), scores, -torch.inf)
    real = unstable_of(bounds.domains).any(1)
    assert torch.equal(mine.argmax(1)[real], theirs.argmax(1)[real])


def test_the_order_of_neurons_within_a_layer_plays_no_part() -> None:
    root, bounds = situation()
    net, links, seen = load_weights(), Links.of(root), told(root, bounds)
    starts = torch.tensor([0, *links.sizes]).cumsum(0).tolist()
    g = torch.Generator().manual_seed(1)
    orders = [torch.randperm(size, generator=g) for size in links.sizes]
    whole = torch.cat([order + start for order, start in zip(orders, starts, strict=False)])
    assert not torch.equal(whole, torch.arange(root.count))

    def shuffled(parts: list[Tensor]) -> list[Tensor]:
        return [part[order][:, whole[:start]] for part, order, start in zip(parts, orders, starts, strict=False)]

    other = Links(links.sizes, shuffled(links.signed), shuffled(links.size))
    plain, moved = net.scores(links, seen), net.scores(other, seen[:, whole])
    assert torch.allclose(plain[:, whole], moved, atol=1e-4)
    assert not torch.allclose(plain, moved, atol=1e-4)


def test_messages_travel_both_ways() -> None:
    """A score depends on what is said of neurons of other layers, before and after."""
    root, bounds = situation()
    torch.manual_seed(0)
    net, links, seen = load_weights(), Links.of(root), told(root, bounds)
    first, last = slice(0, links.sizes[0]), slice(root.count - links.sizes[-1], root.count)
    for there, here in ((first, last), (last, first)):
        other = seen.clone()
        other[:, there] += torch.rand(other[:, there].shape)
        change = net.scores(links, other) - net.scores(links, seen)
        assert float(change[:, here].abs().max()) > 1e-4


def test_many_sub_domains_are_scored_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    root, bounds = situation()
    net, links, seen = load_weights(), Links.of(root), told(root, bounds)
    whole = net.scores(links, seen)
    monkeypatch.setattr("netproof.paper.rivals.gnn.net.BUDGET", {"cpu": 1})
    assert net.domains_at_once(root.count, root.device) == 1
    assert torch.allclose(net.scores(links, seen), whole, atol=1e-5)


def test_weights_survive_a_file(tmp_path: Path) -> None:
    root, bounds = situation()
    torch.manual_seed(4)
    net = BranchingNet(10)
    for parameter in net.parameters():
        nn.init.normal_(parameter)
    save_weights(net, tmp_path / "net.npz")
    back = load_weights(tmp_path / "net.npz")
    assert torch.equal(net(Links.of(root), told(root, bounds)), back(Links.of(root), told(root, bounds)))
    assert WEIGHTS.stat().st_size < 200_000


@pytest.mark.parametrize("content", [b"", b"not an archive", None])
def test_a_file_that_is_no_network_is_named(content: bytes | None, tmp_path: Path) -> None:
    path = tmp_path / "net.npz"
    if content is None:
        torch.save({}, path)
    else:
        path.write_bytes(content)
    with pytest.raises(UsageError, match="not the weights of a branching network") as error:
        load_weights(path)
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)


# --- when it is not followed ---


def test_a_weak_choice_gives_way_to_babsrs_where_that_is_better() -> None:
    fell = 0
    for seed in range(6):
        root, bounds = situation(seed)
        stubborn, wise = contrary(weak=0.0), contrary(weak=1.0)
        own, taken = (rule.choose(root, bounds, 1)[:, 0] for rule in (stubborn, wise))
        theirs = Babsr().choose(root, bounds, 1)[:, 0]
        assert stubborn.memory.failed == 0
        changed = own != taken
        assert torch.equal(taken[changed], theirs[changed])
        assert wise.memory.failed == int(changed.sum())
        assert wise.memory.asked == len(bounds.domains)
        fell += int(changed.sum())
    assert fell > 5


def test_behind_the_choice_the_order_is_babsrs() -> None:
    root, bounds = situation()
    mine, theirs = (rule.choose(root, bounds, 4) for rule in (contrary(weak=0.0), Babsr()))
    for row, other in zip(mine.tolist(), theirs.tolist(), strict=True):
        assert row[1:] == [neuron for neuron in other if neuron != row[0]][: len(row) - 1]
    assert bool((mine[:, 0] != theirs[:, 0]).any())


# --- what it learns ---


def weights_of(rule: Gnn) -> list[Tensor]:
    assert rule.memory.net is not None
    return [parameter.detach().clone() for parameter in rule.memory.net.parameters()]


def taught(online: bool) -> Gnn:
    """A rule that starts from the worst ranking there is, given enough failures for a lesson."""
    rule = Gnn(weak=1.0, online=online, rate=1e-2)
    net = load_weights()
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.zero_()
        net.score[0].weight[0, BABSR] = 1.0
        net.score[2].weight[0, 0] = -100.0
    rule.memory.net = net
    root, bounds = situation()
    for _ in range(FEWEST):
        domains = replace(bounds.domains, candidates=rule.choose(root, bounds, 3))
    rule.reorder(root, domains, 0)
    return rule


def test_only_the_online_rule_learns_and_it_learns_babsrs_choice() -> None:
    before = weights_of(taught(online=False))
    assert taught(online=False).memory.lessons == 0
    pupil = taught(online=True)
    assert pupil.memory.lessons == 1
    assert pupil.memory.failed >= FEWEST
    after = weights_of(pupil)
    assert any(not torch.equal(a, b) for a, b in zip(before, after, strict=True))
    assert float(after[-2][0, 0]) > -100.0  # it trusts its contrary hunch less


def test_a_lesson_is_the_same_every_time() -> None:
    first, second = (weights_of(taught(online=True)) for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


def test_what_is_learnt_is_forgotten_with_the_run() -> None:
    shipped = WEIGHTS.read_bytes()
    taught(online=True)
    assert WEIGHTS.read_bytes() == shipped
    root, bounds = situation()
    fresh, plain = Gnn(online=True), Gnn()
    assert torch.equal(fresh.choose(root, bounds, 3), plain.choose(root, bounds, 3))
    assert all(torch.equal(a, b) for a, b in zip(weights_of(fresh), load_weights().parameters(), strict=True))


@pytest.mark.parametrize("method", ["lirpa-gnn", "lirpa-gnn-online"])
def test_a_run_repeats_itself(method: str, demo: Demo) -> None:
    model, spec, _ = demo["fc-4-needs-splits"]
    how = {"method": method, "device": "cpu", "threads": 1, "attack": False, "options": SLOW}
    first, second = (netproof.verify(model, spec, **how) for _ in range(2))
    assert first.status == "unsat"
    assert first.stats.rounds > 5
    assert (first.stats.domains, first.lower_bound) == (second.stats.domains, second.lower_bound)


@pytest.mark.gpu
def test_a_gpu_scores_and_learns_alike() -> None:
    device = torch.device("cuda")
    root, bounds = situation()
    links, seen = Links.of(root), told(root, bounds)
    there = Links(links.sizes, [t.to(device) for t in links.signed], [t.to(device) for t in links.size])
    here, away = load_weights().scores(links, seen), load_weights().to(device).scores(there, seen.to(device))
    assert torch.allclose(here, away.cpu(), atol=1e-3)


@pytest.mark.gpu
def test_on_a_gpu_a_run_repeats_itself(demo: Demo) -> None:
    model, spec, _ = demo["fc-4-needs-splits"]
    how = {"method": "lirpa-gnn-online", "device": "cuda", "attack": False, "options": SLOW}
    first, second = (netproof.verify(model, spec, **how) for _ in range(2))
    assert (first.stats.domains, first.lower_bound) == (second.stats.domains, second.lower_bound)
