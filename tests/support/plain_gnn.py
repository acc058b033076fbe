"""The published graph network, written out neuron by neuron in numpy, without a line of netproof."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

Floats = np.ndarray

SHAPES = {  # by map: what it reads, in features or in embeddings
    "inp_f": (3, 0),
    "inp_f_1": (0, 1),
    "inp_b": (2, 0),
    "inp_b_1": (0, 1),
    "inp_b2": (0, 2),
    "inp_b2_2": (0, 1),
    "fc1": (7, 0),
    "fc1_1": (0, 1),
    "fc3": (0, 2),
    "fc3_2": (0, 1),
    "fc4": (0, 2),
    "fc4_2": (0, 1),
    "out1": (4, 0),
    "out2": (0, 2),
    "out3": (0, 1),
    "bc1": (7, 0),
    "bc1_1": (0, 1),
    "bc1_2": (0, 1),
    "bc2": (0, 3),
    "bc2_1": (0, 1),
    "bc3": (0, 2),
    "bc3_1": (0, 1),
    "bc4": (0, 2),
    "bc4_1": (0, 1),
    "fnode": (0, 1),
    "fscore": (0, 1),
}


def full(name: str) -> str:
    return f"{'ComputeFinalScore' if name in ('fnode', 'fscore') else 'EmbedUpdates.update'}.{name}"


def random_tensors(seed: int, width: int = 4) -> dict[str, Floats]:
    """Draw the tensors of a small network, by the names of the published file."""
    rng, found = np.random.default_rng(seed), {}
    for name, (features, embeddings) in SHAPES.items():
        reads, writes = features + embeddings * width, 1 if name == "fscore" else width
        found[f"{full(name)}.weight"] = rng.normal(scale=1.5 / reads**0.5, size=(writes, reads)).astype(np.float32)
        found[f"{full(name)}.bias"] = rng.normal(scale=0.3, size=writes).astype(np.float32)
    return found


def save_published(tensors: dict[str, Floats], path: Path) -> Path:
    np.savez(path, **tensors)  # type: ignore[arg-type]
    return path


@dataclass(frozen=True)
class Reads:
    """How a layer of neurons reads the one before it."""

    weight: Floats  # (n, before)
    bias: Floats  # (n,)
    windows: Floats  # (before,) by how many windows of a convolution each is read; 1 of a linear layer


@dataclass(frozen=True)
class Neuron:
    """What is known of one neuron."""

    lower: float
    upper: float
    before: float
    after: float
    identity: float  # price of z >= h,
    chord: float  # and of the chord, not negative

    @property
    def unstable(self) -> bool:
        return self.lower < 0 < self.upper

    @property
    def slope(self) -> float:
        return self.upper / (self.upper - self.lower) if self.unstable else float(self.upper > 0)

    @property
    def intercept(self) -> float:
        return -self.lower * self.slope if self.unstable else 0.0

    def sides(self, heard: Floats) -> Floats:
        other = 1 - self.slope if self.unstable else self.slope
        return np.concatenate([heard * self.slope, heard * other])


@dataclass(frozen=True)
class PlainGnn:
    """Scores of all neurons of a network: `layers`, and a property that reads the last of them."""

    tensors: dict[str, Floats]
    layers: Sequence[Reads]
    prop: tuple[Floats, float]  # weight (n_last,) and constant

    def scores(
        self, inputs: Sequence[tuple[float, float, float]], known: Sequence[Sequence[Neuron]], prop: tuple[float, float]
    ) -> list[float]:
        """inputs: lower bound, value, upper bound; prop: lower bound, which is its value too, and upper bound."""
        first = [self._run(np.array(one), "inp_f", "inp_f_1") for one in inputs]
        for _ in range(2):
            mu = self._there(first, known, prop)
            first = self._back(inputs, known, mu)
        return [float(self._run(own, "fnode", "fscore")[0]) for layer in mu[1:-1] for own in layer]

    def _there(
        self, first: list[Floats], known: Sequence[Sequence[Neuron]], prop: tuple[float, float]
    ) -> list[list[Floats]]:
        mu = [first]
        for layer, neurons in zip(self.layers, known, strict=True):
            here = []
            for j, n in enumerate(neurons):
                heard = sum((w * m for w, m in zip(layer.weight[j], mu[-1], strict=True)), 0 * mu[-1][0])
                told = [n.intercept, n.lower, n.upper, n.identity + n.chord, n.before, n.after, layer.bias[j]]
                own = self._run(np.array(told), "fc1", "fc1_1") * n.unstable
                both = np.concatenate([own, self._run(n.sides(heard), "fc3", "fc3_2")])
                here.append(self._run(both, "fc4", "fc4_2") * (n.slope > 0))
            mu.append(here)
        least, most = prop
        own = np.maximum(self._run(np.array([least, most, least, self.prop[1]]), "out1"), 0)
        heard = sum((w * m for w, m in zip(self.prop[0], mu[-1], strict=True)), 0 * own)
        return [*mu, [self._run(np.concatenate([own, heard]), "out2", "out3")]]

    def _back(
        self, inputs: Sequence[tuple[float, float, float]], known: Sequence[Sequence[Neuron]], mu: list[list[Floats]]
    ) -> list[Floats]:
        """Change the embeddings of neurons in `mu`; return those of the inputs."""
        for k in reversed(range(len(self.layers))):
            last = k == len(self.layers) - 1
            after = Reads(self.prop[0][None], np.zeros(1), np.ones(len(known[k]))) if last else self.layers[k + 1]
            here = []
            for j, n in enumerate(known[k]):
                heard = sum((w * m for w, m in zip(after.weight[:, j], mu[k + 2], strict=True)), 0 * mu[0][0])
                bias = self.layers[k].bias[j]
                told = [n.lower, n.upper, n.intercept, n.identity + n.chord, n.after, n.before, bias]
                own = self._run(np.array(told), "bc1", "bc1_1", "bc1_2")
                own = self._run(np.concatenate([own, own * n.chord, own * n.identity]), "bc2", "bc2_1") * n.unstable
                both = np.concatenate([own, self._run(n.sides(heard / after.windows[j]), "bc3", "bc3_1")])
                here.append(self._run(both, "bc4", "bc4_1") * (n.slope > 0))
            mu[k + 1] = here
        found = []
        for j, (low, _, high) in enumerate(inputs):
            heard = sum((w * m for w, m in zip(self.layers[0].weight[:, j], mu[1], strict=True)), 0 * mu[0][0])
            own = self._run(np.array([low, high]), "inp_b", "inp_b_1")
            found.append(self._run(np.concatenate([own, heard]), "inp_b2", "inp_b2_2"))
        return found

    def _run(self, x: Floats, *names: str) -> Floats:
        for k, name in enumerate(names):
            x = (
                self.tensors[f"{full(name)}.weight"] @ (np.maximum(x, 0) if k else x)
                + self.tensors[f"{full(name)}.bias"]
            )
        return x
