"""What a search is made of: the parts that a method configures, and what else a search may be given."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import torch

from netproof.bounds.base import Bounder
from netproof.bounds.domains import Domains
from netproof.bounds.neurons.root import Root
from netproof.bounds.record import NOTHING, Recorder
from netproof.branching.brancher import Brancher
from netproof.core.deadline import Deadline
from netproof.core.extras import Extras
from netproof.core.verdict import Stats
from netproof.search.evidence import Outcome

Report = Callable[[str, float, int], None]  # phase, proved bound, open sub-domains

# A longer attack for when the search turns out not to be quick, on the targets that are open; True: the goal is reached
SecondLook = Callable[[list[int]], bool]

# What else is done while a root is bounded, which is given another deadline for that
Meanwhile = Callable[[Deadline], AbstractContextManager[Deadline]]


class Searching(Protocol):
    """One problem's search, whatever program it is."""

    def run(self) -> Outcome:
        """Search until all is settled or time is up."""

    def discard(self) -> None:
        """Let go of what is open, once nothing more is asked."""


@dataclass(frozen=True)
class Method:
    """A configured search: the parts that differ between methods, and Algorithm 1's n and η."""

    bounder: Bounder
    brancher: Brancher
    batch: int  # n
    lp_threshold: int | None  # η; None: the LP decides leaves, and has turns on small networks only
    most: int | None = None  # sub-domains picked per round at most, once they are few among those open; None: n
    fill: int | None = None  # children that the first rounds make at least, by splitting several neurons; None: n
    patience: int = 0  # rounds without a better global bound before the LP has a turn; 0: by the network's size
    strict: bool = False  # whether the least bound always goes first; else equal up to a grain, the deepest of these
    leaf_lp: bool = True  # without it the search is incomplete (Theorem 3.1)
    needs_lp_form: bool = False  # whether it cannot do without an LP, a MIP or a decomposition of the network
    extras: Extras = field(default_factory=Extras)  # what may be due besides leaves and plain rounds, and when
    search: Callable[..., Searching] | None = None  # another program, called as `Search` is; None: Algorithm 1


@dataclass(frozen=True, eq=False)
class Work:
    """What a search works with, and where it reports."""

    device: torch.device
    workers: int  # threads of LPs
    deadline: Deadline
    stats: Stats
    report: Report = lambda phase, bound, frontier: None
    recorder: Recorder = NOTHING
    meanwhile: Meanwhile = nullcontext
    look: Callable[[torch.Tensor], None] = lambda points: None  # is given the points (n, *input) of exact least values


class Start(NamedTuple):
    """Where a search begins instead of at the whole input set: sub-domains of a root that are open."""

    root: Root
    domains: Domains
    bounded: bool = True  # whether they were bounded under this root, and their neurons ranked
