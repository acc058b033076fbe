"""What a search tells of the sub-domains that it closes, kept in a file for the pass that makes a certificate of it.

A neuron has a name that the model's file gives it: its place among all entries of the nodes that ReLUs read, in the
file's order. Each root of the search packs other neurons; their names are kept once a root.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from netproof.bounds.domains import Domains
from netproof.bounds.neurons.root import Root
from netproof.bounds.record import NOTHING, Recorder
from netproof.certificate.request import Request
from netproof.certificate.spool import LEVELS, SpoolWriter
from netproof.certificate.state import Certificate
from netproof.certificate.write import Subject
from netproof.core.reasons import INTERRUPTED
from netproof.core.verdict import Verdict
from netproof.model.evaluate import values_of_part
from netproof.numerics import generator
from npcheck.network import Network

POINTS = 3  # of the input set, at which values of neurons are compared to find each in the file
ALIKE = 1e-6  # of its size, by which a neuron's values may differ


class Recording:
    """Makes the recorder of each problem of a question, all of which keep their hints in one file."""

    def __init__(self, request: Request, subject: Subject, writer: SpoolWriter) -> None:
        self._request, self._subject, self._writer = request, subject, writer

    @classmethod
    def of(cls, request: Request) -> Recording:
        """Begin; UsageError where no certificate can be about the question."""
        subject = request.subject()
        return cls(request, subject, SpoolWriter(request.spool))

    def recorder(self, disjuncts: tuple[int, ...]) -> Recorder:
        """Return the recorder of a problem with these disjuncts, by target."""
        return Record(self._subject.network, self._writer, disjuncts)

    def part(self, disjunct: int) -> Recording:
        """Return what keeps hints of one disjunct, of which a search is made alone; what was kept of it is void."""
        self._writer.forget(disjunct)
        return _Part(self._request, self._subject, self._writer, disjunct)

    def certified(self, verdict: Verdict) -> Verdict:
        """Return a verdict with what became of its certificate."""
        self._writer.close()
        if not self._request.at_once:
            return verdict
        nothing = Certificate.without_proof(str(self._request.path), str(verdict.status))
        try:
            state = self._request.finish(self._subject) if verdict.proved else nothing
        except KeyboardInterrupt:  # the verdict stands
            state = Certificate(str(self._request.path), reason=INTERRUPTED)
        return replace(verdict, certificate=state.to_dict())

    def close(self) -> None:
        """Let go of the hints, unless another process reads them."""
        self._writer.close()
        if self._request.at_once:
            self._request.clear()


class _Part(Recording):
    """The recording of a search that is about one disjunct of the question; who makes these searches ends it."""

    def __init__(self, request: Request, subject: Subject, writer: SpoolWriter, disjunct: int) -> None:
        super().__init__(request, subject, writer)
        self._disjunct = disjunct

    def recorder(self, disjuncts: tuple[int, ...]) -> Recorder:
        return super().recorder((self._disjunct,) * len(disjuncts))

    def certified(self, verdict: Verdict) -> Verdict:
        return verdict

    def close(self) -> None:
        """Leave the hints to who began them."""


class NoRecording(Recording):
    """Stands for the recording of a question that no certificate can be about, and that is searched all the same."""

    def __init__(self, why: Certificate) -> None:
        self._why = why

    def recorder(self, disjuncts: tuple[int, ...]) -> Recorder:
        return NOTHING

    def certified(self, verdict: Verdict) -> Verdict:
        return replace(verdict, certificate=self._why.to_dict())

    def close(self) -> None:
        """There is nothing to let go of."""


class Record:
    """Hears of closed sub-domains of one problem, and keeps each as a hint for its disjunct."""

    def __init__(self, network: Network, spool: SpoolWriter, disjuncts: tuple[int, ...]) -> None:
        self._network, self._spool = network, spool
        self._disjuncts = disjuncts  # by target
        self._roots: list[tuple[Root, int, NDArray[np.int64]]] = []  # with the number of each, and its known neurons

    def neurons(
        self, scope: Any, domains: Domains, layer: int, which: Tensor, slopes: Tensor, multipliers: Tensor | None
    ) -> None:
        """Hear of neurons that were bounded again: a certificate does without."""

    def restarted(self, targets: Tensor) -> None:
        """Hear of targets that are searched from the start again."""
        for target in targets.tolist():
            self._spool.forget(self._disjuncts[target])

    def closed(self, scope: Any, domains: Domains, by: str) -> None:
        """Hear of sub-domains that are proved; of those within another that is proved too, nothing is needed."""
        if by == "within":
            return
        number, known = self._number(scope)
        splits = domains.splits[:, known].cpu().numpy()
        levels = np.rint(domains.slopes[:, known].clamp(0.0, 1.0).cpu().numpy() * LEVELS).astype(np.uint8)
        multipliers, weights = domains.multipliers[:, known].cpu().numpy(), domains.weights.cpu().numpy()
        for row, target in enumerate(domains.target.tolist()):
            (split,) = splits[row].nonzero()
            order = split[np.abs(splits[row][split]).argsort(kind="stable")]
            signs = np.sign(splits[row][order]).astype(np.int8)
            self._spool.put(
                self._disjuncts[target], number, order, signs, multipliers[row][order], levels[row], weights[row]
            )

    def _number(self, root: Root) -> tuple[int, Tensor]:
        """Return a root's number in the file, and the places of the neurons that have names."""
        for one, number, known in self._roots:
            if one is root:
                return number, torch.from_numpy(known).to(root.device)
        names = names_of(root, self._network)
        (known,) = (names >= 0).nonzero()
        number = self._spool.root(names[known])
        self._roots.append((root, number, known))
        return number, torch.from_numpy(known).to(root.device)


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
