"""Trees over boxes: which rows say where a box is halved."""

from __future__ import annotations

import numpy as np

from netproof.certificate.boxes import BoxTreeMaker
from netproof.core.deadline import Deadline
from npcheck.bound import Ranges
from npcheck.network import Input, Linear, Network, Node, Relu
from npcheck.ranges import interval, start
from npcheck.statement import Region, Rows


def test_rows_that_rounding_alone_tells_apart_share_the_choice() -> None:
    """|x| + |y| <= 0 and |2x| + |z| / 8 <= 0: of y no row but the first knows, little as their bounds differ."""
    signs = np.kron(np.eye(3), [[1.0], [-1.0]])
    sums = np.kron([[1.0, 1.0, 0.0], [2.0, 0.0, 0.125]], [[1.0, 1.0]])
    nodes = (Node(Input(), (), 3, "x"), Node(Linear(signs), (0,), 6, "h"), Node(Relu(), (1,), 6, "z"))
    network = Network((*nodes, Node(Linear(sums, bias=np.array([0.0, 1e-12])), (2,), 2, "y")))
    region = Region(-np.ones(3), np.ones(3), None, (0,), (Rows(np.eye(2), None, np.zeros(2)),))
    known: Ranges = start(network, region.lower[None], region.upper[None])
    for node in range(1, 4):
        known.lower[node], known.upper[node] = interval(network, node, known)
    seen: list[np.ndarray] = []

    class Watched(BoxTreeMaker):
        def _divided(self, parts, ranges, forms, blamed, *rest):  # type: ignore[no-untyped-def]
            seen.append(blamed)
            return []

    Watched(network, region, region.rows[0], known, Deadline()).make()
    assert seen[0].tolist() == [[1.0, 1.0]]
