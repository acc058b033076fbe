"""The quick attack beside the root: where both are mostly launches, one is done while the other waits for the device.

Both have the device's one queue. So whatever one of them has put there before the other reads it is there, as if one
thread had done all of it: no copy of the network that both use can be read half made.
"""

from __future__ import annotations

import contextvars
import math
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import torch

from netproof.core.deadline import Deadline, Sooner
from netproof.core.torch_state import engine_state
from netproof.core.verdict import Stats
from netproof.model.graph import Graph

# Entries of all nodes from which on the attack goes beside the root; on a CPU it would take the root's own cores.
LARGE = {"cpu": math.inf, "cuda": 1 << 17}


def is_large(graph: Graph, device: torch.device) -> bool:
    """Say whether the attack on a network takes long enough to be made in a thread of its own."""
    return graph.entries >= LARGE[device.type]


class Beside:
    """An attack that is made once, in a thread, while a root is bounded."""

    def __init__(self, attack: Callable[[Deadline], bool], after: Callable[[], None], stats: Stats) -> None:
        """Keep what is to be done. attack: says whether there is a witness; after: what follows when it has ended."""
        self._attack, self._after, self._stats = attack, after, stats
        self._both: Sooner | None = None  # the end of both, once they have begun

    @contextmanager
    def __call__(self, deadline: Deadline) -> Iterator[Deadline]:
        """Attack while the caller bounds a root until the deadline that it is given: a witness ends that as well.

        A root that memory ran out for waits for the attack too: when it is tried again, there is a witness or more
        memory.
        """
        if self._both is not None:
            yield self._both
            return
        self._both = both = Sooner(deadline)
        with ThreadPoolExecutor(1, "netproof-attack") as other:
            attacking = other.submit(contextvars.copy_context().run, self._until_found, both)
            try:
                yield both
            except BaseException as error:
                if not isinstance(error, Exception):  # Ctrl-C: nobody wants it any more
                    both.cancel()
                raise
            finally:
                began = time.monotonic()
                attacking.result()
                self._stats.seconds["attack"] += time.monotonic() - began  # all that it adds to the root's
                self._after()

    def _until_found(self, both: Sooner) -> None:
        with engine_state():
            if self._attack(both):
                both.cancel()
