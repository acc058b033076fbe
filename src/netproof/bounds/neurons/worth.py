"""From which size on a rung of a root is worth its while: numbers that passes hold, which is what they cost.

What takes less than a second on a CPU core is not worth another pass.
"""

from __future__ import annotations

import torch

from netproof.model.graph import Graph

A_SECOND = {"cpu": 1 << 23, "cuda": 1 << 30}  # numbers in passes, on one core or on a GPU

# Numbers in backward passes for a layer's neurons from which on affine forms of all nodes are worth their while. On
# less, they would be one more pass for little: on a GPU some thousand launches, in whose time it does so many numbers.
FORWARD_WORTH = {"cpu": 1 << 23, "cuda": 1 << 27}

# The same for the whole network, if one neuron in so many is open after intervals: from there on forms are tried alone,
# as the bounds that they give may be all that it takes, and are there early.
FORWARD_FIRST, OPEN = 1 << 26, 8

# Numbers in the passes that condense a network from which on targets are bounded by the graph first, if theirs are
# fewer by this factor: where that proves all of them, nothing is condensed.
CONDENSING_WORTH, LITTLE = 1 << 25, 8

# Numbers in backward passes for both sides of neurons from which on one side goes first: two passes have their price.
ONE_SIDE_WORTH = {"cpu": 1 << 23, "cuda": 1 << 26}

# Of the time that is left, how much the passes of a root may take before intervals alone go first; these take a
# hundredth of it. Where nothing is known in the end, a pass of intervals over so many entries of all nodes takes some
# 0.2 s on one core, which is less than deadlines are kept by; no more than AT_THE_END seconds, whatever its products.
SHORT, AFTERWARDS, AT_THE_END = 1 / 8, 1 << 22, 0.5


def may_be_late(graph: Graph, device: torch.device, seconds: float) -> bool:
    """Say whether a root may take much of so many seconds; by dense passes, so that it is said too often at worst."""
    neurons = sum(graph.nodes[i].size for i in graph.nonlinear)
    return neurons * graph.entries // OPEN > SHORT * seconds * A_SECOND[device.type]
