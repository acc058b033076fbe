"""What a search tells of the sub-domains that it closes, by names that the file has: hints for a certificate."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from npcheck.network import Network
from numpy.typing import NDArray
from torch import Tensor

from netproof.bounds.domains import Domains
from netproof.bounds.neurons.root import Root
from netproof.certificate.tree import LEVELS, Hint
from netproof.model.evaluate import values_of_part
from netproof.numerics import generator

POINTS = 3  # of the input set, at which values of neurons are compared to find each in the file
ALIKE = 1e-6  # of its size, by which a neuron's values may differ


class Record:
    """Hears of closed sub-domains, and keeps each as a hint for its disjunct.

    Neurons are named by their place among all entries of the nodes that ReLUs read, in the file's order.
    """

    def __init__(self, network: Network, disjuncts: tuple[int, ...] = ()) -> None:
        self._network = network
        self._disjuncts = disjuncts  # of the problem that is searched now, by target
        self._names: list[tuple[Root, NDArray[np.int64]]] = []
        self.hints: dict[int, list[Hint]] = {}  # by disjunct

    def of(self, disjuncts: tuple[int, ...]) -> Record:
        """Return a recorder of another problem that keeps its hints here."""
        other = Record(self._network, disjuncts)
        other.hints = self.hints
        return other

    def neurons(
        self, scope: Any, domains: Domains, layer: int, which: Tensor, slopes: Tensor, multipliers: Tensor | None
    ) -> None:
        """Hear of neurons that were bounded again: a certificate does without."""

    def restarted(self, targets: Tensor) -> None:
        """Hear of targets that are searched from the start again."""
        for target in targets.tolist():
            self.hints.pop(self._disjuncts[target], None)

    def closed(self, scope: Any, domains: Domains, by: str) -> None:
        """Hear of sub-domains that are proved; of those within another that is proved too, nothing is needed."""
        if by == "within":
            return
        names = self._named(scope)
        splits, slopes = domains.splits.cpu().numpy(), domains.slopes.cpu().numpy()
        multipliers, weights = domains.multipliers.cpu().numpy(), domains.weights.cpu().numpy()
        known = names >= 0
        for row, target in enumerate(domains.target.tolist()):
            (split,) = splits[row].nonzero()
            order = split[np.abs(splits[row][split]).argsort(kind="stable")]
            path = tuple((int(names[u]), int(np.sign(splits[row][u]))) for u in order if known[u])
            levels = np.full(self._count, LEVELS + 1, dtype=np.uint8)  # beyond all levels: by default
            levels[names[known]] = np.rint(slopes[row][known].clip(0.0, 1.0) * LEVELS)
            beta = {int(names[u]): float(multipliers[row][u]) for u in order if known[u]}
            self.hints.setdefault(self._disjuncts[target], []).append(Hint(path, levels, beta, weights[row]))

    @property
    def _count(self) -> int:
        return sum(self._network.nodes[node].size for node in self._network.hidden)

    def _named(self, root: Root) -> NDArray[np.int64]:
        """Return the name of each packed neuron of a root (U,), −1 where the file has none with its values."""
        for known, names in self._names:
            if known is root:
                return names
        names = names_of(root, self._network)
        self._names.append((root, names))
        return names


def names_of(root: Root, network: Network) -> NDArray[np.int64]:
    """Find the neurons of a root in the file by their values at a few points."""
    low, high = root.problem.input_set.lower, root.problem.input_set.upper
    share = torch.rand(POINTS, *low.shape, generator=generator(0), dtype=torch.float64)
    points = low + share * (high - low)
    graph = root.graph64.graph
    ours = values_of_part(graph.nodes, {0: points}, graph.output.index)
    theirs = network.values(points.flatten(1).numpy())
    whole = np.concatenate([np.zeros((POINTS, 0)), *(theirs[node] for node in network.hidden)], 1)  # (point, name)
    order = whole[0].argsort()
    names = []
    for layer in root.layers:
        wanted = ours[layer.pre].flatten(1)[:, layer.index].cpu().numpy()  # (point, U_k)
        names.append(_matched(wanted, whole, order))
    return np.concatenate([np.zeros(0, dtype=np.int64), *names])


def _matched(wanted: NDArray[np.float64], whole: NDArray[np.float64], order: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return for each column the first unused one that has its values at all points, −1 where there is none."""
    ordered = whole[0][order]
    names = np.full(wanted.shape[1], -1, dtype=np.int64)
    used: set[int] = set()
    for column, values in enumerate(wanted.T):
        away = ALIKE * (1.0 + abs(values[0]))
        begin, end = np.searchsorted(ordered, [values[0] - away, values[0] + away])
        for name in order[begin:end].tolist():
            if name not in used and (np.abs(whole[:, name] - values) <= ALIKE * (1.0 + np.abs(values))).all():
                names[column] = name
                used.add(name)
                break
    return names
