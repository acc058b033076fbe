"""From which size on a rung of a root is worth its while: numbers that passes hold, which is what they cost.

About 2^23 numbers in passes are a second on a CPU core. What is below that is not worth another pass.
"""

from __future__ import annotations

# Numbers in backward passes for a layer's neurons from which on affine forms of all nodes are worth their while. On
# less, they would be one more pass for little.
FORWARD_WORTH = 1 << 23

# The same for the whole network, if one neuron in so many is open after intervals: from there on forms are tried alone,
# as bounds that are there early matter only where all of them take many seconds.
FORWARD_FIRST, OPEN = 1 << 26, 8

# Numbers in the passes that condense a network from which on targets are bounded by the graph first, if theirs are
# fewer by this factor: where that proves all of them, nothing is condensed.
CONDENSING_WORTH, LITTLE = 1 << 25, 8

# Numbers in backward passes for both sides of neurons from which on one side goes first: two passes have their price.
ONE_SIDE_WORTH = 1 << 23
