"""Input sets that are linear maps of boxes: x = c + E ξ."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import netproof
from netproof.bounds.linear.interval import interval_bounds
from netproof.bounds.linear.region import Region
from netproof.errors import UsageError
from netproof.model.combined import Mapped
from netproof.model.load import read_network
from netproof.problem.problem import InputSet
from netproof.problem.specs import linear_image, output_constraint
from support.asking import dense, gaussian

SUM = dense(([[1, 1]], [0]))  # y = x₀ + x₁
DIAGONAL = linear_image([[0.5, 0.5]], [[[0.5, -0.5]]])  # the segment from (1, 0) to (0, 1)


def test_a_segment_is_less_than_its_box(tmp_path: Path) -> None:
    """On the segment x₀ + x₁ is 1; on its box it is from 0 to 2."""
    path = SUM.save(tmp_path / "f.onnx")
    for bound, allowed in (("1.01", {"unsat"}), ("1.0", {"unsat", "unknown"})):  # at 1 it is a tie
        property = output_constraint(DIAGONAL, [[-1]], [f"-{bound}"])  # −y >= −bound always
        verdict = netproof.verify(path, property, timeout=60, device="cpu")
        assert str(verdict.status) in allowed
    broken = netproof.verify(path, output_constraint(DIAGONAL, [[-1]], ["-0.99"]), timeout=60, device="cpu")
    assert broken.witness is not None
    named = {tensor.name: tensor.array for tensor in broken.witness.tensors}
    assert broken.witness.input.shape == (1,)
    assert named["X"].shape == (1, 2)
    assert named["X"].sum() == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize("seed", range(5))
def test_the_answer_is_that_of_the_composed_network(seed: int, tmp_path: Path) -> None:
    """The same question, asked with the map as a first layer of the network."""
    rng = np.random.default_rng(seed)
    centre, generators = rng.normal(size=(1, 3)).astype(np.float32), rng.normal(size=(2, 1, 3)).astype(np.float32)
    net = gaussian(seed, (3, 6, 6, 2))
    path = net.save(tmp_path / "f.onnx")
    found = netproof.bounds(path, linear_image(centre, generators), method="exact", device="cpu")
    low, high = found.lower.reshape(-1), found.upper.reshape(-1)
    grid = np.stack(np.meshgrid(*[np.linspace(-1, 1, 41)] * 2), -1).reshape(-1, 2)
    x = torch.from_numpy(centre.astype(float) + grid @ generators.astype(float)[:, 0])
    y = net.graph.forward(x.reshape(len(grid), *net.graph.input.shape)).flatten(1).numpy()
    assert (y >= low - 1e-9).all()
    assert (y <= high + 1e-9).all()
    assert (y.min(0) - low).max() < 0.2
    assert (high - y.max(0)).max() < 0.2
    margin = float(y[:, 0].max())
    for more, status in ((0.5, "unsat"), (-0.05, "sat")):
        property = output_constraint(linear_image(centre, generators), [[-1.0, 0.0]], [-(margin + more)])
        assert netproof.verify(path, property, timeout=60, device="cpu").status == status


def test_a_proof_covers_the_rounding_of_x(tmp_path: Path) -> None:
    """The graph's own bounds hold at x rounded to float32, which is not c + E ξ."""
    path = dense(([[1.0]], [0.0])).save(tmp_path / "f.onnx")
    region = linear_image(["1/3"], [["1e-9"]])
    assert region.map is not None
    mapped = Mapped(read_network(path), region.map)
    inputs = InputSet(torch.tensor([-1.0], dtype=torch.float64), torch.tensor([1.0], dtype=torch.float64))
    last = interval_bounds(mapped.graph, Region.of(inputs, torch.device("cpu"), torch.float64)).of[-1]
    for point in (-1.0, 0.0, 1.0):
        answer = float(mapped.replay(np.array([point])).reshape(-1)[0])
        assert float(last.lower.flatten()[0]) <= answer <= float(last.upper.flatten()[0])
    assert float(np.float32(1 / 3)) > 1 / 3 + 1e-9  # so an image without its rounding would not hold it


def test_classification_on_an_image(tmp_path: Path) -> None:
    path = dense(([[1, 0], [0, 1]], [0, 0])).save(tmp_path / "f.onnx")
    region = linear_image([[2.0, 0.0]], [[[1.0, 1.0]], [[0.0, 0.5]]])  # y₀ − y₁ = 2 − ξ₁/2
    assert netproof.verify(path, region, label=0, timeout=60, device="cpu").status == "unsat"
    wide = linear_image([[2.0, 0.0]], [[[1.0, 1.0]], [[0.0, 0.5]]], lower=[-1, 0], upper=[1, 5])
    assert netproof.verify(path, wide, label=0, timeout=60, device="cpu").status == "sat"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (([1.0, 2.0], [[1.0]]), r"centre has shape \[2\], generators \[1, 1\]"),
        (([1.0], [[1.0]], 1, -1), "lower is above upper"),
        (([1.0], [[1.0]], [0, 0], 1), r"lower and upper has shape \[2\], generators has \[1\]"),
        (([1.0], [["1e400"]]), "beyond float64"),
    ],
)
def test_images_that_are_none(arguments: tuple[object, ...], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        linear_image(*arguments)


def test_an_image_of_another_size_than_the_networks_input(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="inputs of 1 numbers, the network takes 2"):
        netproof.verify(SUM.save(tmp_path / "f.onnx"), output_constraint(linear_image([1.0], [[1.0]]), [[1]], [0]))
