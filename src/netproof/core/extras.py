"""What a search may do beside plain rounds, as a method asks for it.

There is no torch here: methods are declared with this before anything heavy is imported.
"""

from __future__ import annotations

from dataclasses import dataclass

CANDIDATES = 12  # a size: neurons remembered per sub-domain, the most that can be tried or split at once


@dataclass(frozen=True)
class Extras:
    """Options of a method, by the same names; what it does not declare is left out, as 0 or False says here."""

    probes: int = 0  # neurons tried per sub-domain before it is split
    tighter_roots: int | None = 0  # at most; None: as long as they pay
    rebound_after: int = 0  # decisions since a sub-domain's neurons were last bounded, at least; 0: never again
    rebound_gain: float = 0.0  # share of the distance to a proof that bounding them again must gain in a trial
    envelope: bool = False  # whether hinges alone may be searched first, all other nonlinearities enclosed once
    lp_turns: bool = False  # whether the LP has turns where bounds are stuck; past η it has them anyway
    lp_batch: int | None = 0  # sub-domains that a turn past η takes; None: η, before every round; 0: few, with pauses
    attack_after: int | None = 0  # sub-domains in all before the second attack; None: by device
