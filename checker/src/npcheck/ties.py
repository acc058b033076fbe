"""Leaves that hold by a tie: in exact arithmetic, where a row of the specification is strict.

A violation has r_j(x) <= 0 for all rows, and r_j(x) < 0 for those that are strict. With weights λ >= 0, of which that
of a strict row is above 0, it has Σ λ_j r_j(x) < 0. So a part on which Σ λ_j r_j >= 0 has no violation: a bound that is
0 exactly is enough. No bound in float64 says so, since roundings are charged. So such a leaf is done again in exact
arithmetic (`exact`): the same p, the exact weights and rows, and no charge. The ranges of the neurons are as they are.

Only networks all of whose numbers are the file's have such ties: the value of a number that was folded is not known.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import numpy as np

from npcheck.bound import Form, Ranges
from npcheck.exact import Exact, Followed, Pass, pass_of_rows
from npcheck.network import Affine, Input, Network, Relu
from npcheck.statement import Array, Rows
from npcheck.tree import Batch, FormOf, Leaf, Packed, bounds_of


def bounds_with_ties(
    network: Network, packed: Packed, batch: Batch, known: Ranges, rows: Rows, form_of: FormOf
) -> Array:
    """Return lower bounds of rows on leaves (B,); inf where one is empty, or holds by a tie."""
    bounds = bounds_of(network, packed, batch, known, form_of)
    for place in (bounds <= 0.0).nonzero()[0].tolist():
        if not is_tie(network, packed, Batch(batch.again, [batch.leaves[place]]), known, rows, form_of):
            break  # one that does not hold is enough
        bounds[place] = np.inf
    return bounds


def _is_exact(network: Network) -> bool:
    """Say whether a network has nothing but ReLUs and affine operators with the file's own numbers."""
    return all(
        isinstance(node.op, Input | Relu) or (isinstance(node.op, Affine) and not node.op.folded)
        for node in network.nodes
    )


def is_tie(network: Network, packed: Packed, batch: Batch, known: Ranges, rows: Rows, form_of: FormOf) -> bool:
    """Say whether the one leaf of a batch holds by a tie."""
    (leaf,) = batch.leaves
    if not _is_strict(leaf, rows) or not _is_exact(network):
        return False
    seen = _Seen(rows, len(network.nodes) - 1)
    bounds_of(network, packed, batch, replace(known, watch=seen), form_of)
    return seen.kept is not None and _exact_of(network).bound(seen.kept) >= 0


def _is_strict(leaf: Leaf, rows: Rows) -> bool:
    return any(row.strict and weight > 0.0 for row, weight in zip(rows.exact, leaf.weights.tolist(), strict=True))


@lru_cache(maxsize=1)
def _exact_of(network: Network) -> Exact:
    return Exact(network)


class _Seen:
    """A `bound.Watch` that keeps the pass back of the rows."""

    def __init__(self, rows: Rows, output: int) -> None:
        self._rows, self._output = rows, output
        self.kept: Pass | None = None

    def disjunct(self, target: int) -> None:
        """Have one disjunct alone."""

    def begin(self, form: Form, ranges: Ranges) -> Followed | None:
        """Follow the one form that is of rows."""
        if form.weights is None:
            return None
        self.kept = pass_of_rows("", self._rows.exact, form.weights[0], self._output, ranges, 0)
        return Followed({0: self.kept})
