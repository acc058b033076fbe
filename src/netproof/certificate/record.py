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
from netproof.bounds.record import NOTHING, Recorder, Sides
from netproof.certificate.request import Request
from netproof.certificate.spool import LEVELS, Closed, Levels, SpoolWriter
from netproof.certificate.state import Certificate
from netproof.certificate.write import Subject
from netproof.core.reasons import INTERRUPTED
from netproof.core.verdict import Verdict
from netproof.model.evaluate import values_of_part
from netproof.numerics import generator
from npcheck.network import Network

POINTS = 3  # of the input set, at which values of neurons are compared to find each in the file
ALIKE = 1e-6  # of its size, by which a neuron's values may differ
UNKNOWN = -2


class Recording:
    """Makes the recorder of each problem of a question, all of which keep their hints in one file."""

    hears = True  # whether a search is to tell of what it closes

    def __init__(self, request: Request, subject: Subject, writer: SpoolWriter) -> None:
        self._request, self._subject, self._writer = request, subject, writer

    @classmethod
    def of(cls, request: Request, subject: Subject | None = None) -> Recording:
        """Begin; UsageError where no certificate can be about the question. subject: its files, if they are read."""
        subject = subject or request.subject()
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

    hears = False

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
        self._names: Names | None = None  # of the graph that is searched
        self._packings: list[tuple[Root, int, int, NDArray[np.int64]]] = []  # layers, number, neurons with names

    def neurons(
        self, scope: Any, domains: Domains, layer: int, which: Tensor, slopes: Tensor, multipliers: Tensor | None
    ) -> None:
        """Hear of neurons that were bounded again: a certificate does without."""

    def sloped(self, sides: Sides, bounds: Tensor, slopes: Tensor) -> None:
        """Hear of neurons that were given slopes of their own."""
        number, known = self._number(sides.root)
        names = self._names_of(sides)
        told = (bounds > -torch.inf).cpu().numpy() & (names >= 0)
        levels = _levels(slopes[torch.from_numpy(told).to(slopes.device)][:, known])
        above, values = (part.cpu().numpy()[told] for part in (sides.above, bounds))
        tried = np.unique(names[names >= 0])
        self._spool.slopes((self._disjuncts[0], number), tried, (names[told], above), values, levels)

    def branched(self, sides: Sides, bounds: Tensor, leaves: Domains) -> None:
        """Hear of neurons that branch and bound was done on."""
        number, known = self._number(sides.root)
        names, closed = self._names_of(sides).tolist(), self._leaves(leaves, known)
        above, values = sides.above.tolist(), bounds.tolist()
        own: dict[int, list[Closed]] = {}
        for side, leaf in zip(leaves.target.tolist(), closed, strict=True):
            own.setdefault(side, []).append(leaf)
        for side, tree in own.items():
            if names[side] >= 0:
                self._spool.tree((self._disjuncts[0], number), (names[side], above[side]), values[side], tree)

    def restarted(self, targets: Tensor) -> None:
        """Hear of targets that are searched from the start again."""
        for target in targets.tolist():
            self._spool.forget(self._disjuncts[target])

    def closed(self, scope: Any, domains: Domains, by: str) -> None:
        """Hear of sub-domains that are proved; of those within another that is proved too, nothing is needed."""
        if by == "within":
            return
        number, known = self._number(scope)
        weights = domains.weights.cpu().numpy()
        for target, leaf, own in zip(domains.target.tolist(), self._leaves(domains, known), weights, strict=True):
            self._spool.leaf(self._disjuncts[target], number, leaf, own)

    @staticmethod
    def _leaves(domains: Domains, known: Tensor) -> list[Closed]:
        """Return what the sub-domains' bounds rest on, in terms of the neurons that have names."""
        splits, levels = domains.splits[:, known].cpu().numpy(), _levels(domains.slopes[:, known])
        multipliers, leaves = domains.multipliers[:, known].cpu().numpy(), []
        for own, beta, shares in zip(splits, multipliers, levels, strict=True):
            (split,) = own.nonzero()
            order = split[np.abs(own[split]).argsort(kind="stable")]
            leaves.append(Closed(order, np.sign(own[order]).astype(np.int8), beta[order], shares))
        return leaves

    def _names_of(self, sides: Sides) -> NDArray[np.int64]:
        return self._found(sides.root).of(sides.pre, sides.places)

    def _found(self, root: Root) -> Names:
        if self._names is None:
            self._names = Names(root, self._network)
        return self._names

    def _number(self, root: Root) -> tuple[int, Tensor]:
        """Return the number in the file of what a root packs so far, and the places of neurons that have names."""
        layers = len(root.layers)
        for one, count, number, known in self._packings:
            if one is root and count == layers:
                return number, torch.from_numpy(known).to(root.device)
        every = self._found(root)
        names = [every.of(layer.pre, layer.index) for layer in root.layers]
        whole = np.concatenate([np.zeros(0, dtype=np.int64), *names])
        (known,) = (whole >= 0).nonzero()
        number = self._spool.root(whole[known])
        self._packings.append((root, layers, number, known))
        return number, torch.from_numpy(known).to(root.device)


def _levels(slopes: Tensor) -> Levels:
    levels: Levels = np.rint(slopes.float().clamp(0.0, 1.0).cpu().numpy() * LEVELS).astype(np.uint8)
    return levels


class Names:
    """Finds the neurons of a graph in the file by their values at a few points."""

    def __init__(self, root: Root, network: Network) -> None:
        low, high = root.problem.input_set.lower, root.problem.input_set.upper
        share = torch.rand(POINTS, *low.shape, generator=generator(0), dtype=torch.float64)
        points = low + share * (high - low)
        graph = root.problem.graph.to(torch.device("cpu"), torch.float64)
        self._ours = values_of_part(graph.nodes, {0: points}, graph.output.index)
        theirs = network.values(points.flatten(1).numpy())
        self._whole = np.concatenate([np.zeros((POINTS, 0)), *(theirs[node] for node in network.hidden)], 1)
        self._order = self._whole[0].argsort(kind="stable")
        self._ordered = self._whole[0][self._order]
        self._of: dict[int, NDArray[np.int64]] = {}  # by node, UNKNOWN where nobody asked

    def of(self, pre: int, places: Tensor) -> NDArray[np.int64]:
        """Return the names of some of a node's entries, −1 for those that the file's network does not have."""
        at = places.cpu().numpy()
        if pre not in self._of:
            self._of[pre] = np.full(self._ours[pre][0].numel(), UNKNOWN, dtype=np.int64)
        names = self._of[pre]
        asked = np.unique(at[names[at] == UNKNOWN])
        names[asked] = self._matched(self._ours[pre].flatten(1)[:, asked].numpy(), set(names.tolist()))
        return np.asarray(names[at])

    def _matched(self, wanted: NDArray[np.float64], used: set[int]) -> NDArray[np.int64]:
        """Return for each column the first unused name that has its values at all points, −1 where there is none."""
        away = ALIKE * (1.0 + np.abs(wanted))
        begin, end = (np.searchsorted(self._ordered, wanted[0] + side * away[0]) for side in (-1.0, 1.0))
        names = np.full(wanted.shape[1], -1, dtype=np.int64)
        for column, (first, last) in enumerate(zip(begin.tolist(), end.tolist(), strict=True)):
            for name in self._order[first:last].tolist():
                if name not in used and (np.abs(self._whole[:, name] - wanted[:, column]) <= away[:, column]).all():
                    names[column] = name
                    used.add(name)
                    break
        return names
