"""Where numbers come from: each is told to a recorder, which keeps nothing unless a better one is given."""

from __future__ import annotations

from enum import IntEnum
from typing import Any, NamedTuple, Protocol

from torch import Tensor

from netproof.bounds.domains import Domains


class Source(IntEnum):
    """What gave the bound of a neuron on the whole input set."""

    INTERVALS = 0  # of the nodes before, or of the set itself where they are affine in it
    SLOPES = 1  # the root's own of this neuron and side
    BRANCHES = 2  # branch and bound on the neuron
    FORWARD = 4  # affine forms of the nodes before, carried forward
    PLANES = 5  # slopes and planes above the first layer, of this neuron and side; they are not kept
    EARLIER = 3  # the root before this one, or those that it joins, which say what


class Sides(NamedTuple):
    """Neurons of one node, each from below or from above: what a search of bounds of neurons is about."""

    root: Any  # whose neurons before the node they rest on
    pre: int  # the node
    places: Tensor  # (n,) in the flattened node
    above: Tensor  # (n,) bool: whether it is −h that is bounded from below


class Recorder(Protocol):
    """Hears of every bound that a proof may rest on; scopes are told apart by identity."""

    def neurons(
        self, scope: Any, domains: Domains, layer: int, which: Tensor, slopes: Tensor, multipliers: Tensor | None
    ) -> None:
        """Hear of neurons (domain, K) of a layer that got new bounds on these sub-domains; U_k where there is none.

        They rest on the bounds of the layers before, as the sub-domains have them. slopes, multipliers: what gave
        their lower and upper bounds, (domain, 2, K or 1, U'); no multipliers: none anywhere.
        """

    def closed(self, scope: Any, domains: Domains, by: str) -> None:
        """Hear of sub-domains that are proved: by their "bound" (inf where they are empty), by "lp", "within" another.

        "above": proved too, as a whole, but what is told of as "within" it is what counts.
        """

    def sloped(self, sides: Sides, bounds: Tensor, slopes: Tensor) -> None:
        """Hear of bounds (n,) of sides on the whole set by their own slopes (n, U'), −inf where others are better."""

    def branched(self, sides: Sides, bounds: Tensor, leaves: Domains) -> None:
        """Hear of bounds (n,) of sides on the whole set, each the least on all leaves of that target.

        What one has by its parent's θ is told of as that parent. So some may be parts of others, or told of twice.
        """

    def restarted(self, targets: Tensor) -> None:
        """Hear of targets (n,) whose sets are searched from the start again: what was closed of them counts no more."""


class Nothing:
    """Keeps nothing."""

    def neurons(
        self, scope: Any, domains: Domains, layer: int, which: Tensor, slopes: Tensor, multipliers: Tensor | None
    ) -> None:
        pass

    def closed(self, scope: Any, domains: Domains, by: str) -> None:
        pass

    def sloped(self, sides: Sides, bounds: Tensor, slopes: Tensor) -> None:
        pass

    def branched(self, sides: Sides, bounds: Tensor, leaves: Domains) -> None:
        pass

    def restarted(self, targets: Tensor) -> None:
        pass


NOTHING = Nothing()
