"""Which reads of values each measure stops by itself: `python -m model.value_reads.measures`, from the folder tests.

One measure at a time is left in place, all others are taken away:

- no values: forward() fails on an input that has none, or torch.export does, and nothing catches it;
- kept exceptions: the same, and what was noted on the way counts where forward() catches it;
- the path: an ordinary run goes another way, or the run goes on where an operation fails;
- points: the graph is that of the linear map, as the most blind of recordings would have it, and the module itself is
  compared with it at the points that are looked at anyway (corners, centre, random) and at those that the attack and
  the search come nearest with. The pocket lies inside the set, or at the corner where the margin is least.

A module counts as stopped where it is refused, or not proved.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from torch import Tensor, nn

import netproof
from model.value_reads import NAMES, made
from model.value_reads.net import CORNER, HIGH, INSIDE, LOW, Net
from netproof.errors import ModelError, UsageError
from netproof.model import load
from netproof.model.origin import torch_module, watched
from netproof.model.origin.capture import Recorded, captured
from netproof.model.origin.watched import CATCHES, DIFFERS, Calls, Note, Run, fresh

Watching = Callable[[nn.Module, Tensor], tuple[Run, Note | None]]


class Raising(nn.Module):
    """A module, which notes the exceptions that leave its forward()."""

    def __init__(self, module: nn.Module, note: Callable[[Exception], None]) -> None:
        super().__init__()
        self.module, self.note = module, note

    def forward(self, x: Tensor) -> Any:
        try:
            return self.module(x)
        except Exception as error:
            self.note(error)
            raise


def ordinary_run(module: nn.Module, x: Tensor) -> Run:
    run, own = Run(), x.clone()
    with fresh(module), Calls(watched._Watch(run, module, None)):
        module(own)
    return run


def no_values(module: nn.Module, x: Tensor) -> tuple[Run, Note | None]:
    raised: list[Exception] = []
    watched._without_values(Raising(module, raised.append).eval(), x)
    return ordinary_run(module, x), Note("has no values", "forward()") if raised else None


def kept_exceptions(module: nn.Module, x: Tensor) -> tuple[Run, Note | None]:
    notes = watched._without_values(module, x).notes
    return ordinary_run(module, x), notes[0] if notes else None


def the_path(module: nn.Module, x: Tensor) -> tuple[Run, Note | None]:
    run, note = watched.watched(module, x)
    return run, note if note is not None and note.what in (CATCHES, DIFFERS) else None


def linear(module: nn.Module, x: Tensor) -> Recorded:
    alone = Net(INSIDE, lambda net, x: net.linear(x)).eval()
    return captured(alone, x, ordinary_run(alone, x))


@contextlib.contextmanager
def only_watching(watching: Watching) -> Iterator[None]:
    earlier = Calls._before

    def before(self: Calls, call: Any) -> Any:
        with contextlib.suppress(watched.OtherPath):
            return earlier(self, call)
        return None

    with contextlib.ExitStack() as stack:
        stack.enter_context(patch.object(torch_module, "watched", watching))
        stack.enter_context(patch.object(load, "compare", lambda *_: True))
        stack.enter_context(patch.object(Calls, "_before", before))
        stack.enter_context(patch.object(Run, "difference", lambda *_: None))
        yield


@contextlib.contextmanager
def only_points() -> Iterator[None]:
    with patch.object(torch_module, "_recorded", linear):
        yield


MEASURES: dict[str, tuple[Callable[[], Any], tuple[float, float]]] = {
    "no values": (lambda: only_watching(no_values), INSIDE),
    "kept exceptions": (lambda: only_watching(kept_exceptions), INSIDE),
    "the path": (lambda: only_watching(the_path), INSIDE),
    "points, inside": (only_points, INSIDE),
    "points, corner": (only_points, CORNER),
    "all": (contextlib.nullcontext, INSIDE),
}


def is_stopped(name: str, measure: str) -> bool:
    taken_away, centre = MEASURES[measure]
    torch.manual_seed(0)
    everywhere = netproof.box(np.full((1, 2), LOW), np.full((1, 2), HIGH))
    with taken_away():
        try:
            verdict = netproof.verify(made(name, centre), everywhere, label=0, timeout=20, device="cpu", threads=1)
        except (ModelError, UsageError):
            return True
        except Exception as error:  # a measure that was taken away may be what keeps another from failing
            print(f"{name}, {measure}: {type(error).__name__}: {error}", file=sys.stderr)
            return True
    return verdict.status != "unsat"


PROVED = 3  # the exit code of a process in which a module is proved


def is_stopped_apart(name: str, measure: str) -> bool:
    """Ask in a separate process: without the other measures a module may read memory that is not there."""
    process = os.fork()
    if process == 0:
        os._exit(0 if is_stopped(name, measure) else PROVED)
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) != PROVED


def main() -> None:
    stopped = {measure: {name for name in NAMES if is_stopped_apart(name, measure)} for measure in MEASURES}
    print("| measure | stops | and no other measure does |\n|---|---|---|")
    for measure, names in stopped.items():
        others = set().union(*(stopped[one] for one in stopped if one not in (measure, "all")))
        kinds = Counter(name.partition("-")[0] for name in names - others)
        alone = ", ".join(f"{count} {kind}" for kind, count in kinds.items()) or "none"
        print(f"| {measure} | {len(names)} of {len(NAMES)} | {'' if measure == 'all' else alone} |")
    print("stopped by none of them:", ", ".join(sorted(set(NAMES) - stopped["all"])) or "none")


if __name__ == "__main__":
    main()
