"""Branches of `babsr-lp` and `gnn`: as an independent program counts them, and as they were published."""

from __future__ import annotations

import csv
import itertools
from pathlib import Path

import numpy as np
import pytest

import netproof
from netproof.core.verdict import Status
from support.asking import at_most, gaussian, whole_box
from support.plain_babsr import PlainBabsr


def layers_of(seed: int, widths: tuple[int, ...]) -> list[tuple[np.ndarray, np.ndarray]]:
    """The weights that `gaussian` draws, by drawing them again."""
    rng = np.random.default_rng(seed)

    def normal(scale: float, *shape: int) -> np.ndarray:
        return rng.normal(scale=scale, size=shape).astype(np.float32).astype(np.float64)

    return [(normal(1.5 / m**0.5, n, m), normal(0.25, n)) for m, n in itertools.pairwise(widths)]


@pytest.mark.parametrize("seed", range(8))
def test_an_independent_program_makes_as_many_branches(seed: int, tmp_path: Path) -> None:
    """y > limit on a box, where the limit leaves little room."""
    widths = (3, 9, 7, 1)
    network, layers = gaussian(seed, widths), layers_of(seed, widths)
    low, high = np.full(3, -0.6), np.full(3, 0.6)
    path = network.save(tmp_path / "net.onnx")
    box = whole_box(low.tolist(), high.tolist())
    least = netproof.bounds(path, at_most(box, network, 0.0), method="exact", device="cpu", threads=1)
    limit = round(float(least.lower.min()) - 0.02, 3)
    shifted = [*layers[:-1], (layers[-1][0], layers[-1][1] - limit)]
    expected = PlainBabsr(shifted, low, high).branches()
    asked = at_most(box, network, limit)
    verdict = netproof.verify(path, asked, method="babsr-lp", device="cpu", threads=1, attack=False)
    assert (verdict.status, verdict.stats.domains) == (Status.UNSAT, expected)


PUBLISHED = {
    ("oval_base_easy_unclipped", "img4014"): 476,
    ("oval_base_easy_unclipped", "img4070"): 456,
    ("oval_base_easy_unclipped", "img3049"): 506,
    ("oval_deep_unclipped", "img4030"): 92,
}


@pytest.mark.benchmark
@pytest.mark.slow
@pytest.mark.parametrize(("folder", "image"), PUBLISHED)
def test_the_published_counts(folder: str, image: str, benchmarks: Path) -> None:
    assert branches("babsr-lp", benchmarks / folder, image) == PUBLISHED[folder, image]


# With the weights that were published for it.
GNN_PUBLISHED = {
    ("gnn", "oval_base_easy_unclipped", "img1041"): 88,
    ("gnn", "oval_base_easy_unclipped", "img3049"): 118,
    ("gnn", "oval_base_easy_unclipped", "img9081"): 278,
    ("gnn", "oval_base_easy_unclipped", "img5169"): 302,
}


@pytest.mark.benchmark
@pytest.mark.slow
@pytest.mark.parametrize(("method", "folder", "image"), GNN_PUBLISHED)
def test_the_published_weights_give_the_published_counts(
    method: str, folder: str, image: str, benchmarks: Path
) -> None:
    """The file lies beside the folder of benchmarks, see docs/paper.md."""
    weights = benchmarks.parent / "paper" / "gnn_branching.npz"
    if not weights.is_file():
        pytest.skip(f"needs {weights}")
    found = branches(method, benchmarks / folder, image, {"weights": str(weights)})
    assert found == GNN_PUBLISHED[method, folder, image]


# What was published of the original network; without its weights ours is another, with the same rules around it.
GNN = {("oval_base_easy_unclipped", "img3204"): 78, ("oval_deep_unclipped", "img1001"): 44}


@pytest.mark.benchmark
@pytest.mark.slow
@pytest.mark.parametrize(("folder", "image"), GNN)
def test_the_graph_network_comes_near_its_published_counts(folder: str, image: str, benchmarks: Path) -> None:
    """BaBSR takes 470 and 318."""
    assert branches("gnn", benchmarks / folder, image) < 1.5 * GNN[folder, image]


def branches(method: str, folder: Path, image: str, options: dict[str, str] | None = None) -> int:
    with (folder / "instances.csv").open(newline="", encoding="utf-8") as file:
        ((model, spec, _),) = [row for row in csv.reader(file) if image in row[1]]
    files = folder / model, folder / spec
    verdict = netproof.verify(
        *files, method=method, device="cpu", threads=1, timeout=900, attack=False, options=options
    )
    assert verdict.status == Status.UNSAT
    return verdict.stats.domains
