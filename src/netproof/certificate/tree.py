"""The tree of a disjunct: from sub-domains that the search closed to leaves that the checker's own routine values.

Nothing of a sub-domain is believed. The tree follows the splits; its leaves are made in the order in which they are
written, some at a time, so that only the splits of all of them are in memory.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from netproof.certificate.body import Body
from netproof.certificate.leaves import TOO_MANY, Part, Prover, TooWeak, Unprovable, write_part
from netproof.certificate.spool import Hints
from netproof.certificate.trie import NONE, Trie
from npcheck.tree import NEURON

WINDOW = 1024  # leaves that are made before they are written
SAMPLE = 256  # sub-domains of a disjunct that are tried as they are


class TreeMaker:
    """Makes and writes the tree of one disjunct."""

    def __init__(self, prover: Prover, spool: Hints, disjunct: int) -> None:
        self._prover, self._spool, self._disjunct = prover, spool, disjunct
        self._count = spool.count(disjunct)
        self.leaves = 0

    def missing(self) -> float:
        """Return about how many sub-domains do not hold as they are, by a sample."""
        if not self._count:
            return 0.0
        which = np.unique(np.linspace(0, self._count - 1, SAMPLE).astype(int)).tolist()
        left = 0
        for begin in range(0, len(which), self._prover.at_once):
            left += len(self._prover.as_they_are(self._parts(which[begin : begin + self._prover.at_once])))
        return self._count * left / len(which)

    def write(self, body: Body, spare: float) -> float:
        """Write a tree whose leaves hold; return the splits left over. TooWeak where it takes more than `spare`."""
        order: list[int | Part] = []  # splits, and parts that are to be shown
        numbers: list[int] = []  # of the sub-domains that these are
        for _, split, number, path in self._trie().parts():
            if split != NONE:
                order.append(split)
                continue
            order.append(self._prover.part(path))
            numbers.append(number)
            if len(numbers) == WINDOW:
                spare = self._written(body, order, numbers, spare)
                order, numbers = [], []
        return self._written(body, order, numbers, spare)

    def _written(self, body: Body, order: list[int | Part], numbers: list[int], spare: float) -> float:
        """Write a piece of the tree once all of its parts hold."""
        parts = [part for part in order if isinstance(part, Part)]
        known = [(part, number) for part, number in zip(parts, numbers, strict=True) if number != NONE]
        for (part, _), hint in zip(
            known, self._spool.hints(self._disjunct, [number for _, number in known]), strict=True
        ):
            part.numbers = self._prover.of_hint(hint)
        left = {0: spare}
        for reason in self._prover.close(parts, left).values():
            raise TooWeak if reason is TOO_MANY else Unprovable(reason)
        for one in order:
            if isinstance(one, Part):
                self.leaves += write_part(body, one)
            else:
                body.varint(NEURON + one)
        return left[0]

    def _parts(self, numbers: Sequence[int]) -> list[Part]:
        """Return closed sub-domains as parts."""
        hints = self._spool.hints(self._disjunct, numbers)
        return [self._prover.part(self._prover.path_of(hint), self._prover.of_hint(hint)) for hint in hints]

    def _trie(self) -> Trie:
        """Return the tree of all splits, without what is below sub-domains that hold as they are."""
        trie = Trie()
        for number, hint in enumerate(self._spool.hints(self._disjunct, range(self._count))):
            trie.add(number, self._prover.path_of(hint))
        inner = [(place, number) for place, split, number, _ in trie.parts() if NONE not in (split, number)]
        for begin in range(0, len(inner), self._prover.at_once):
            some = inner[begin : begin + self._prover.at_once]
            parts = self._parts([number for _, number in some])
            self._prover.as_they_are(parts)
            for (place, _), part in zip(some, parts, strict=True):
                if part.leaf is not None:
                    trie.close(place)
        return trie
