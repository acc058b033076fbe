"""The quick attack beside the root: where both are mostly launches, one is done while the other waits for the device.

Both have the device's one queue. So whatever one of them has put there before the other reads it is there, as if one
thread had done all of it: no copy of the network that both use can be read half made.
"""

from __future__ import annotations

import math
import time
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial

import torch

from netproof.bounds.linear.memory import release
from netproof.core.deadline import Deadline, Sooner
from netproof.core.machine.allowance import Allowance, allowance, allowing, is_out_of_memory
from netproof.core.torch_state import engine_state
from netproof.core.verdict import Stats
from netproof.errors import OutOfMemory
from netproof.model.graph import Graph

# Entries of all nodes from which on the attack goes beside the root; on a CPU it would take the root's own cores.
LARGE = {"cpu": math.inf, "cuda": 1 << 17}


def is_large(graph: Graph, device: torch.device) -> bool:
    """Say whether the attack on a network takes long enough to be made in a thread of its own."""
    return graph.entries >= LARGE[device.type]


class Beside:
    """An attack that is made in a thread while a root is bounded, or after it where there is no room for both."""

    def __init__(
        self, attack: Callable[[Deadline], bool], after: Callable[[], None], stats: Stats, device: torch.device
    ) -> None:
        """Keep what is to be done. attack: says whether there is a witness; after: what follows when it has ended."""
        self._attack, self._after, self._stats, self._device = attack, after, stats, device
        self._both: Sooner | None = None  # the end of both, once they have begun
        self._had_no_room = False  # whether the attack found no room, or no thread, beside the root

    @contextmanager
    def __call__(self, deadline: Deadline) -> Iterator[Deadline]:
        """Attack while the caller bounds a root until the deadline that it is given: a witness ends that as well.

        A root that memory ran out for waits for the attack too, which has nothing beside it then, and neither has the
        root when it is tried again. An attack that there was no room for is made once more after a root, whatever
        became of that.
        """
        first, both = self._both is None, self._both or Sooner(deadline)
        self._both = both
        try:
            with self._beside(both) if first else nullcontext(both) as until:
                yield until
        except Exception as error:
            if self._gave_back(error):
                self._make_up(both)
            raise
        self._make_up(both)

    def _make_up(self, both: Sooner) -> None:
        """Make the attack that there was no room for beside a root, which has ended."""
        if self._had_no_room:
            self._had_no_room = False
            self._wait(partial(self._until_found, both, nullcontext(), allowance()), both)

    def _gave_back(self, error: Exception) -> bool:
        """Say whether memory ran out for a root; then what it held is given back, which frames of the error hold."""
        if not is_out_of_memory(error):
            return False
        traceback.clear_frames(error.__traceback__)
        release(self._device)
        return True

    @contextmanager
    def _beside(self, both: Sooner) -> Iterator[Deadline]:
        """Attack in a thread until the caller has done, and then to its end."""
        given = self._queue(), allowance()
        with ThreadPoolExecutor(1, "netproof-attack") as other:
            attacking = None
            try:
                attacking = other.submit(self._until_found, both, *given)
            except RuntimeError:  # the system gives no thread
                self._had_no_room = True
            if attacking is None:
                yield both
                return
            try:
                yield both
            except Exception as error:
                self._gave_back(error)
                self._wait(attacking.result, both)
                raise
            except BaseException:  # Ctrl-C: nobody wants it any more
                both.cancel()
                raise
            self._wait(attacking.result, both)

    def _queue(self) -> AbstractContextManager[object]:
        """Return what lets a thread have the device and the queue that the caller has now: others are its own."""
        if self._device.type != "cuda":
            return nullcontext()
        return torch.cuda.stream(torch.cuda.current_stream(self._device))

    def _until_found(self, both: Sooner, queue: AbstractContextManager[object], given: Allowance) -> None:
        """Attack with an allowance of its own: what is too much for it beside the root is not so for the root."""
        try:
            with engine_state(), queue, allowing(given.caps) as own:
                own.share = given.share
                if self._attack(both):
                    both.cancel()
        except BaseException as error:
            if isinstance(error, OutOfMemory) or is_out_of_memory(error):  # the root's proof does not rest on it
                self._had_no_room = True
                return
            both.cancel()  # whoever waits for the root hears of the error now
            raise

    def _wait(self, attack: Callable[[], None], both: Sooner) -> None:
        began = time.monotonic()
        try:
            attack()
        except BaseException:  # Ctrl-C while it is waited for, or its own error
            both.cancel()
            raise
        self._stats.seconds["attack"] += time.monotonic() - began  # all that it adds to the root's
        self._after()
