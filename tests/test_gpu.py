"""On a GPU the same questions have the same answers, in the same arithmetic."""

from __future__ import annotations

import itertools
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import netproof
from netproof.api import verify
from netproof.bounds.ascent import Schedule
from netproof.bounds.base import Clock
from netproof.bounds.linear.interval import interval_bounds
from netproof.bounds.linear.region import Region
from netproof.bounds.neurons import worth
from netproof.bounds.neurons.root import build_root
from netproof.bounds.windows import plan
from netproof.bounds.zonotope.forward import Forward
from netproof.bounds.zonotope.symbols import symbol_norm
from netproof.core.deadline import Deadline
from netproof.core.verdict import Status, Verdict
from netproof.demo import Instance
from netproof.methods.build import build_method
from netproof.methods.registry import METHODS, method_info
from netproof.model.conv import Kernel
from netproof.model.load import load_network
from netproof.problem.reduce import reduce
from netproof.problem.vnnlib.reader import load_property
from netproof.run import beside
from netproof.search.attack import Pgd
from netproof.search.frontier import Frontier
from support.api import module
from support.problems import plain_domains

pytestmark = pytest.mark.gpu

CUDA = torch.device("cuda")
DEMO = [
    "fc-3-holds",
    "fc-4-needs-splits",
    "fc-5-breaks",
    "fc-0-never-both",
    "conv-3-holds",
    "conv-8-breaks",
    "conv-3-two-images",
    "res-4-holds",
    "res-6-breaks",
]


def test_every_instance_of_the_demo_is_asked(demo: dict[str, tuple[Path, Path, Instance]]) -> None:
    assert set(demo) == set(DEMO)


@pytest.mark.parametrize("attack", [True, False])
@pytest.mark.parametrize("name", DEMO)
def test_the_verdict_is_the_cpus(name: str, attack: bool, demo: dict[str, tuple[Path, Path, Instance]]) -> None:
    model, spec, instance = demo[name]
    there, here = (verify(model, spec, device=device, attack=attack, timeout=120) for device in ("cuda", "cpu"))
    assert there.status == here.status == instance.expected


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", ["fc-4-needs-splits", "fc-0-never-both", "conv-3-two-images"])
def test_every_method_says_the_same(name: str, method: str, demo: dict[str, tuple[Path, Path, Instance]]) -> None:
    """Whatever it cannot decide in time it may leave open, but it must not say otherwise."""
    model, spec, instance = demo[name]
    verdict = verify(model, spec, device="cuda", attack=False, method=method, timeout=20)
    assert verdict.status in (instance.expected, Status.TIMEOUT)
    if method in ("auto", "beta", "bdd"):
        assert verdict.status == instance.expected


def a_data_set() -> tuple[torch.nn.Module, np.ndarray, np.ndarray]:
    """A network with more inputs than are split, 40 inputs and what it reads in them, one label wrong."""
    net = module(14, 24, 16, 3, seed=3)
    X = np.random.default_rng(1).uniform(0, 1, (40, 14)).astype(np.float32)
    with torch.no_grad():
        y = net(torch.from_numpy(X)).argmax(1).numpy()
    y[0] = (y[0] + 1) % 3
    return net, X, y


@pytest.mark.parametrize("attack", [True, False])
@pytest.mark.parametrize(("norm", "eps"), [("inf", 0.1), ("2", 0.2), ("1", 0.4)])
def test_a_data_set_is_certified_as_on_the_cpu(norm: str, eps: float, attack: bool) -> None:
    """Attacked, bounded and searched together, then alone: every image has the answer of the CPU."""
    net, X, y = a_data_set()
    there, here = (
        netproof.certify(net, X, y, eps, norm, (0, 1), device=device, attack=attack) for device in ("cuda", "cpu")
    )
    assert [image.status for image in there] == [image.status for image in here]
    if norm == "inf":
        assert {"image", "root", "search", *["attack"] * attack} <= {image.decided_by for image in there}


def test_images_are_certified_as_on_the_cpu(demo: dict[str, tuple[Path, Path, Instance]]) -> None:
    """Of a convolutional network, from the images of the demo with some noise."""
    network = load_network(demo["conv-3-holds"][0])
    ends = [load_property(demo[name][1]).disjuncts[0].box for name in ("conv-3-holds", "conv-8-breaks")]
    centres = np.array([[float(a + b) / 2 for a, b in zip(box.lower, box.upper, strict=True)] for box in ends])
    noise = np.random.default_rng(0).uniform(-0.1, 0.1, (3, 2, 64))
    X = (centres + noise).clip(0, 1).reshape(6, 1, 8, 8).astype(np.float32)
    y = [int(network.replay(x[None]).argmax()) for x in X]
    there, here = (netproof.certify(network, X, y, 0.05, clip=(0, 1), device=device) for device in ("cuda", "cpu"))
    assert [image.status for image in there] == [image.status for image in here]


def test_the_largest_radius_is_bracketed_as_on_the_cpu() -> None:
    net, X, _ = a_data_set()
    there, here = (netproof.largest_eps(net, X[1], clip=(0, 1), device=device) for device in ("cuda", "cpu"))
    for one, other in ((there, here), (here, there)):
        assert one.certified is not None
        assert other.broken is not None
        assert one.certified < other.broken


@pytest.mark.parametrize("proximal", ["no", "yes"])
def test_a_decomposition_is_climbed_as_on_the_cpu(proximal: str, demo: dict[str, tuple[Path, Path, Instance]]) -> None:
    """By either rule; both bounds are confirmed, so they may differ only by the way that the climb took."""
    model, spec, _ = demo["fc-3-holds"]
    problem = reduce(load_network(model), load_property(spec))[0]
    found = []
    for device in (CUDA, torch.device("cpu")):
        method = build_method("bdd", method_info("bdd").options({"proximal": proximal}), device)
        never = torch.full((len(problem.disjuncts),), torch.inf, dtype=torch.float64, device=device)
        root = method.bounder.root(problem, never, device, Deadline(None), Clock())
        assert root is not None
        found.append(root[1].domains.bound.cpu())
    torch.testing.assert_close(*found, rtol=2e-2, atol=2e-2)


def test_what_does_not_fit_waits_on_the_host() -> None:
    """The frontier's spill, with the device's own tensors."""
    everything = replace(plain_domains(40, 6), bound=torch.randn(40, dtype=torch.float64)).map(lambda t: t.to(CUDA))
    frontier = Frontier(everything.select(slice(0, 4)), room=8)
    for start in range(4, 40, 4):
        frontier.push(everything.select(slice(start, start + 4)))
    assert frontier.waiting > 20
    assert all(part.bound.device.type == "cpu" for part in frontier.summaries()[1:])
    popped = []
    while len(frontier):
        popped.append(frontier.pop(5))
    assert all(part.bound.is_cuda for part in popped)
    back = torch.cat([part.bound for part in popped])
    assert torch.equal(back.sort().values, everything.bound.sort().values)


def numbers(verdict: Verdict) -> tuple[object, ...]:
    witness = None if verdict.witness is None else verdict.witness.input.tobytes()
    stats = verdict.stats
    return verdict.status, verdict.lower_bound, verdict.upper_bound, stats.domains, stats.rounds, witness


@pytest.mark.parametrize("name", ["fc-4-needs-splits", "conv-8-breaks", "res-4-holds"])
def test_a_seed_repeats_the_run(name: str, demo: dict[str, tuple[Path, Path, Instance]]) -> None:
    model, spec, _ = demo[name]
    runs = [numbers(verify(model, spec, device="cuda", seed=5, attack=False)) for _ in range(2)]
    assert runs[0] == runs[1]


def test_float32_means_float32(demo: dict[str, tuple[Path, Path, Instance]]) -> None:
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    model, spec, _ = demo["fc-3-holds"]
    a = torch.rand(512, 512, device=CUDA, generator=torch.Generator(CUDA).manual_seed(0))
    errors: list[float] = []

    def look(progress: object) -> None:
        errors.append(float((a @ a - (a.double() @ a.double()).float()).abs().max() / 512))

    try:
        verify(model, spec, device="cuda", progress=look)
        assert torch.backends.cuda.matmul.allow_tf32  # as the caller had it
        assert torch.backends.cudnn.allow_tf32
    finally:
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    assert errors
    assert max(errors) < 1e-6  # TF32 would be off by 1e-4


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("stride", [1, 2])
def test_convolutions_of_proofs_agree_with_the_cpus(groups: int, stride: int) -> None:
    g = torch.Generator().manual_seed(groups)
    weight = torch.randn(6, 4 // groups, 3, 3, generator=g, dtype=torch.float64)
    kernel = Kernel(weight, (stride, stride), (1, 1), (1, 1), groups, (4, 9, 8))
    there = kernel.to(CUDA, torch.float64)
    x = torch.randn(5, 4, 9, 8, generator=g, dtype=torch.float64)
    y = torch.randn(5, *kernel.result, generator=g, dtype=torch.float64)
    for mine, theirs in (
        (kernel.correlate(x), there.correlate(x.to(CUDA))),
        (kernel.transposed(y), there.transposed(y.to(CUDA))),
    ):
        assert float((mine - theirs.cpu()).abs().max() / mine.abs().max()) < 1e-12
        assert float((mine - theirs.cpu()).norm() / mine.norm()) < 1e-12


@pytest.mark.parametrize("name", ["fc-4-needs-splits", "conv-3-holds", "res-4-holds"])
def test_intervals_agree_with_the_cpus(name: str, demo: dict[str, tuple[Path, Path, Instance]]) -> None:
    model, spec, _ = demo[name]
    problem = reduce(load_network(model), load_property(spec))[0]
    both = [
        interval_bounds(problem.graph.to(device, torch.float64), Region.of(problem.input_set, device, torch.float64))
        for device in (torch.device("cpu"), CUDA)
    ]
    for mine, theirs in zip(both[0].of, both[1].of, strict=True):
        scale = float(mine.magnitude.max())
        assert torch.allclose(mine.lower, theirs.lower.cpu(), rtol=1e-12, atol=1e-12 * scale)
        assert torch.allclose(mine.upper, theirs.upper.cpu(), rtol=1e-12, atol=1e-12 * scale)


@pytest.mark.parametrize("few", [0, 1 << 60])
@pytest.mark.parametrize("enough", [0, 1 << 60])
@pytest.mark.parametrize("name", ["conv-3-holds", "res-4-holds"])
def test_a_root_is_the_cpus(
    name: str, enough: int, few: int, demo: dict[str, tuple[Path, Path, Instance]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By windows and dense, with affine forms and without, one side of neurons first and both at once."""
    monkeypatch.setitem(plan.FEW, "cuda", few)
    for numbers, device in itertools.product((worth.FORWARD_WORTH, worth.ONE_SIDE_WORTH), ("cpu", "cuda")):
        monkeypatch.setitem(numbers, device, enough)
    (problem,) = reduce(load_network(demo[name][0]), load_property(demo[name][1]))
    both = [build_root(problem, device, Schedule(0), Deadline()) for device in (torch.device("cpu"), CUDA)]
    assert both[0] is not None
    assert both[1] is not None
    assert both[0].count == both[1].count
    for mine, theirs in zip(both[0].intervals.of, both[1].intervals.of, strict=True):
        scale = float(mine.magnitude.max())
        assert torch.allclose(mine.lower, theirs.lower.cpu(), rtol=1e-9, atol=1e-9 * scale)
        assert torch.allclose(mine.upper, theirs.upper.cpu(), rtol=1e-9, atol=1e-9 * scale)


@pytest.mark.parametrize("name", ["conv-3-holds", "res-4-holds"])
def test_forms_kept_in_float32_say_what_the_cpus_say(name: str, demo: dict[str, tuple[Path, Path, Instance]]) -> None:
    (problem,) = reduce(load_network(demo[name][0]), load_property(demo[name][1]))
    both = []
    for device in (torch.device("cpu"), CUDA):
        graph = problem.graph.to(device, torch.float64)
        forms = Forward(interval_bounds(graph, Region.of(problem.input_set, device, torch.float64)))
        forms._narrow()
        both.append([forms.bounds(node.index, Deadline()) for node in graph.nodes])
    for mine, theirs in zip(*both, strict=True):
        assert mine is not None
        assert theirs is not None
        scale = 1e-6 * float(mine.magnitude.max())
        assert torch.allclose(mine.lower, theirs.lower.cpu(), rtol=1e-6, atol=scale)
        assert torch.allclose(mine.upper, theirs.upper.cpu(), rtol=1e-6, atol=scale)


@pytest.mark.parametrize(("channels", "stride"), [(4, 1), (40, 2), (150, 1)])
def test_a_norm_is_proved_as_on_the_cpu(channels: int, stride: int) -> None:
    made = torch.Generator().manual_seed(channels)
    weight = torch.randn(channels, channels, 3, 3, generator=made, dtype=torch.float64) / channels
    kernel = Kernel(weight, (stride, stride), (1, 1), (1, 1), 1, (channels, 4, 4))
    mine, theirs = (symbol_norm(kernel.to(torch.device(d), torch.float64), Deadline()) for d in ("cpu", "cuda"))
    assert mine == pytest.approx(theirs, rel=0.05)  # they may be proved with another slack
    every = torch.eye(channels * 16, dtype=torch.float64, device=CUDA).view(-1, channels, 4, 4)
    matrix = kernel.to(CUDA, torch.float64).correlate(every).flatten(1)
    assert float(torch.linalg.matrix_norm(matrix, ord=2)) <= theirs


@pytest.mark.parametrize("name", ["conv-3-holds", "res-4-holds", "fc-5-breaks"])
def test_an_attack_beside_the_root_changes_no_answer(
    name: str, demo: dict[str, tuple[Path, Path, Instance]], monkeypatch: pytest.MonkeyPatch
) -> None:
    find, threads = Pgd.find, list[threading.Thread]()

    def noted(self: Pgd, *args: Any) -> bool:
        threads.append(threading.current_thread())
        return find(self, *args)

    monkeypatch.setattr(Pgd, "find", noted)
    monkeypatch.setitem(beside.LARGE, "cuda", 1 << 60)
    before = verify(*demo[name][:2], device="cuda")
    assert threads[0] is threading.main_thread()
    monkeypatch.setitem(beside.LARGE, "cuda", 0)
    for _ in range(5):  # as threads meet in other ways each time
        threads.clear()
        found = verify(*demo[name][:2], device="cuda")
        assert threads[0] is not threading.main_thread()
        assert (found.status, found.lower_bound) == (before.status, before.lower_bound)


def test_memory_is_counted_on_the_device(demo: dict[str, tuple[Path, Path, Instance]]) -> None:
    model, spec, _ = demo["conv-3-holds"]
    verdict = verify(model, spec, device="cuda")
    assert 0 < verdict.stats.peak_memory < torch.cuda.get_device_properties(CUDA).total_memory


def test_a_run_stays_within_its_cap(demo: dict[str, tuple[Path, Path, Instance]]) -> None:
    onnx, vnnlib, _ = demo["fc-4-needs-splits"]
    verdict = verify(onnx, vnnlib, device="cuda", memory="gpu=1G")
    assert verdict.status == "unsat"
    assert 0 < verdict.stats.peak_memory < 1 << 30
    assert verdict.stats.peak_host_memory > verdict.stats.peak_memory / 1024
    more = (1 << 30) + (1 << 26)  # than the cap, which is there no more
    if torch.cuda.mem_get_info(CUDA)[0] > 2 * more:  # other processes may have the rest
        assert len(torch.empty(more, dtype=torch.uint8, device=CUDA)) == more
