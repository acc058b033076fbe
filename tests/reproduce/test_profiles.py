"""Algorithm 1 in its two profiles: what a home-made network takes, and the authors' own counts where they are there."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest
import torch

import netproof
from netproof.bounds.base import Clock
from netproof.core.deadline import Deadline
from netproof.core.verdict import Status, Verdict
from netproof.methods.build import build_method
from netproof.methods.registry import method_info
from netproof.model.load import load_network
from netproof.problem.reduce import reduce
from netproof.problem.vnnlib.reader import load_property
from netproof.search import loop
from support.asking import CPU, ask, at_most, gaussian, whole_box

BASE_EASY = "oval_base_easy_unclipped"

# Branches and LPs with n = 4. Sums in another order, as another torch has them, move counts by a few.
HOME_MADE = {"lirpa": (190, False), "lirpa-printed": (1080, False), "lirpa-forced": (356, True)}


@pytest.mark.parametrize("method", HOME_MADE)
def test_a_home_made_network_takes_so_many_branches(method: str, tmp_path: Path) -> None:
    """Without free slopes the released code gets stuck, starts again, and needs LPs."""
    network, box = gaussian(1, (3, 9, 7, 1)), whole_box([-1] * 3, [1] * 3)
    verdict = ask(network, at_most(box, network, "-0.622"), tmp_path, method=method, options={"batch": 4})
    branches, needs_lps = HOME_MADE[method]
    assert verdict.status == Status.UNSAT
    assert verdict.stats.domains == pytest.approx(branches, rel=0.1)
    assert bool(verdict.stats.lps) == needs_lps


def instance(folder: Path, image: str) -> tuple[Path, Path]:
    with (folder / "instances.csv").open(newline="", encoding="utf-8") as file:
        (found,) = [row for row in csv.reader(file) if image in row[1]]
    return folder / found[0], folder / found[1]


def proved(folder: Path, image: str, **more: Any) -> Verdict:
    model, spec = instance(folder, image)
    return netproof.verify(model, spec, method="lirpa", options={"batch": 32}, device="cpu", threads=1, **more)


@pytest.mark.benchmark
@pytest.mark.slow
def test_the_authors_count_on_img5169(benchmarks: Path) -> None:
    """They have 500, and keep another step of each climb; sums in another order move a count by a few."""
    verdict = proved(benchmarks / BASE_EASY, "img5169", timeout=600)
    assert verdict.status == Status.UNSAT
    assert 495 <= verdict.stats.domains <= 505
    assert verdict.stats.lps == 0


@pytest.mark.benchmark
@pytest.mark.slow
def test_the_authors_path_on_img8137(benchmarks: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, spec = instance(benchmarks / BASE_EASY, "img8137")
    network = load_network(model)
    (problem, *_) = reduce(network, load_property(spec))
    method = build_method("lirpa", method_info("lirpa").options({"batch": 32}), CPU)
    never = torch.full((1,), torch.inf, dtype=torch.float64)
    found = method.bounder.root(problem, never, CPU, Deadline(None), Clock())
    assert found is not None
    root, bounds = found
    assert float(bounds.domains.bound) == pytest.approx(-0.396, abs=0.005)
    assert root.count == 433

    chosen: list[str] = []
    split = loop.split_on

    def noted(scope: Any, picked: Any, neurons: torch.Tensor) -> Any:
        for neuron in neurons[:, 0].tolist():
            for depth, layer in enumerate(scope.layers):
                if layer.packed.start <= neuron < layer.packed.stop:
                    chosen.append(f"{depth}:{int(layer.index[neuron - layer.packed.start])}")
        return split(scope, picked, neurons)

    monkeypatch.setattr(loop, "split_on", noted)
    told: list[netproof.api.Progress] = []
    verdict = proved(benchmarks / BASE_EASY, "img8137", timeout=600, progress=told.append)
    assert verdict.status == Status.UNSAT
    assert list(dict.fromkeys(chosen))[:4] == ["2:52", "1:915", "2:27", "2:83"]
    at_640 = [p.lower_bound for p in told if p.phase == "search" and p.domains >= 640 and p.lower_bound is not None]
    assert at_640[0] > -0.06
    assert verdict.stats.lps == 0
    assert 5876 * 0.7 <= verdict.stats.domains <= 5876 * 1.3
