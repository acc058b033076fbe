"""The tree that the splits of closed sub-domains are, in little memory: numbers in arrays, and no sub-domain itself.

A sub-domain follows the splits of those before it, as far as it has them. Where it lacks one it lies on both sides.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator

Path = tuple[tuple[int, int], ...]  # packed neurons and signs, in the order of the splits

NONE = -1
SIDES = (1, -1)  # of the first and the second half


class Trie:
    """Parts by number; part 0 is the whole set, and the halves of a part follow one another."""

    def __init__(self) -> None:
        self._split = array("i", (NONE,))  # the packed neuron
        self._halves = array("q", (NONE,))  # the first of the two
        self._number = array("q", (NONE,))  # of the sub-domain that a part is

    def add(self, number: int, path: Path) -> None:
        """Add a sub-domain by its splits."""
        stack = [(0, path)]
        while stack:
            part, left = stack.pop()
            if not left:
                if self._number[part] == NONE:
                    self._number[part] = number
                continue
            if self._halves[part] == NONE:
                self._divide(part, left[0][0])
            first, neuron = self._halves[part], self._split[part]
            sign = dict(left).get(neuron)
            rest = left if sign is None else tuple(one for one in left if one[0] != neuron)
            stack += [(first + place, rest) for place, side in enumerate(SIDES) if sign in (None, side)]

    def _divide(self, part: int, neuron: int) -> None:
        self._split[part], self._halves[part] = neuron, len(self._split)
        for _ in SIDES:
            self._split.append(NONE)
            self._halves.append(NONE)
            self._number.append(NONE)

    def close(self, part: int) -> None:
        """Forget the halves of a part."""
        self._split[part] = self._halves[part] = NONE

    def parts(self) -> Iterator[tuple[int, int, int, Path]]:
        """Go through the parts, each before its halves: its number, split, sub-domain and path. It may be closed."""
        stack: list[tuple[int, Path]] = [(0, ())]
        while stack:
            part, path = stack.pop()
            yield part, self._split[part], self._number[part], path
            if self._halves[part] != NONE:
                first, neuron = self._halves[part], self._split[part]
                stack += [(first + place, (*path, (neuron, side))) for place, side in ((1, SIDES[1]), (0, SIDES[0]))]
