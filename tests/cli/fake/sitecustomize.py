"""Stands in for the engine in tests of the command line: answers at once, or misbehaves as told.

Python imports this module by itself where its folder is on PYTHONPATH. FAKE_ENGINE says what the engine does.
"""

from __future__ import annotations

import importlib.util
import os
import pickle
import signal
import subprocess
import sys
import time
import types
from dataclasses import dataclass, replace
from fractions import Fraction
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec


@dataclass
class Progress:
    phase: str = "search"
    lower_bound: float | None = -0.25
    upper_bound: float | None = 0.75
    domains: int = 40
    frontier: int = 6
    rounds: int = 3
    seconds: float = 0.1
    remaining: float | None = None
    problem: int = 1
    problems: int = 1


@dataclass
class OutputBounds:
    lower: object
    upper: object
    method: str
    exact: bool
    reason: str = ""
    about: object = None


def spin(deadline, seconds=120.0):
    """Work that looks at its deadline, as the engine does."""
    end = time.monotonic() + seconds
    while not deadline.expired and time.monotonic() < end:
        time.sleep(0.01)


def wait_deaf():
    """Work that listens to nothing: no signal gets through to Python."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    time.sleep(120)


def start_process():
    """A helper process, as a pool of LP workers would be."""
    helper = subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(120)"])
    with open(os.environ["FAKE_PIDS"], "w") as file:
        file.write(f"{os.getpid()} {helper.pid}")


def behaviour():
    """What the engine does; asked of each command anew, for one process may fork many."""
    return os.environ.get("FAKE_ENGINE", "unsat")


def misbehave(deadline, progress):
    how = behaviour()
    if progress is not None:
        progress(Progress())
    if os.environ.get("FAKE_PIDS"):
        start_process()
    if how == "slow":
        spin(deadline)
    elif how == "deaf":
        wait_deaf()
    elif how == "busy":
        sum(range(10**12))
    elif how == "raise":
        raise ZeroDivisionError("the engine fell over")
    elif how == "memory":
        raise MemoryError
    elif how == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    elif how == "exit":
        os._exit(3)
    elif how == "print":
        print("noise from a library", flush=True)
        os.write(1, b"noise from C\n")


def verify(model, spec, *, deadline=None, progress=None, options=None, **arguments):
    import numpy as np

    from netproof.core.verdict import Stats, Status, Verdict, Witness
    from netproof.errors import SpecError

    how = behaviour()
    if how == "refuse":
        raise SpecError("no such variable X_9", file=str(spec), line=3, column=7, remedy="declare it")
    misbehave(deadline, progress)
    if os.environ.get("FAKE_SPEC"):
        with open(os.environ["FAKE_SPEC"], "wb") as file:
            pickle.dump(spec, file)
    stats = Stats(domains=40, rounds=3)
    if deadline is not None and deadline.expired:
        return Verdict(Status.TIMEOUT, "time limit", lower_bound=-0.125, stats=stats)
    if how.startswith("upto:"):  # robust up to this radius
        region = spec.disjuncts[0].box
        width = max(high - low for low, high in zip(region.lower, region.upper, strict=True))
        if width / 2 <= Fraction(how.removeprefix("upto:")):
            return Verdict(Status.UNSAT, lower_bound=0.5, stats=stats, decided_by="root")
    if how == "target 2" and 2 not in spec.disjuncts[0].rows[0].coefs:
        return Verdict(Status.UNSAT, lower_bound=0.25, stats=stats, decided_by="root")
    if how in ("sat", "finite", "target 2") or how.startswith("upto:"):
        x = np.array([[0.5, 0.0 if how == "finite" else float("-inf")]], dtype=np.float32)
        return Verdict(
            Status.SAT, witness=Witness(x, np.array([[1.5]], dtype=np.float32)), upper_bound=-1.0, stats=stats
        )
    if how == "image":
        x, y = np.full((1, 1, 2, 2), 0.25, dtype=np.float32), np.array([[1.5, 0.5]], dtype=np.float32)
        return Verdict(Status.SAT, witness=Witness(x, y), upper_bound=-1.0, stats=stats)
    if how == "contradiction":
        found = {"what": "everything is proved, and a point violates it", "saved": "netproof-contradiction-1"}
        return Verdict(Status.UNKNOWN, "contradiction", stats=stats, details={"contradiction": found})
    if how == "empty":
        return Verdict(Status.UNSAT, "input set is empty", lower_bound=float("inf"), decided_by="input set")
    return Verdict(Status.UNSAT, lower_bound=0.5, stats=stats, decided_by="root")


def attack(model, spec, *, deadline=None, **arguments):
    """Finds what `verify` would of any disjunct, and proves nothing."""
    import numpy as np

    from netproof.core.verdict import Status, Verdict

    for disjunct in spec.disjuncts:
        found = verify(model, replace(spec, disjuncts=(disjunct,)), deadline=deadline)
        if found.status == Status.SAT:
            scores = np.zeros((1, 10), dtype=np.float32)
            scores[0, max(disjunct.rows[0].coefs, key=lambda output: -disjunct.rows[0].coefs[output])] = 1.5
            return replace(found, witness=replace(found.witness, output=scores))
    return Verdict(Status.UNKNOWN, "no counterexample was found")


def bounds(model, spec, *, method="alpha", deadline=None, progress=None, **arguments):
    import numpy as np

    misbehave(deadline, progress)
    return OutputBounds(np.array([[-1.0, 0.1]]), np.array([[2.0, 0.30000000000000004]]), method, method == "exact")


def draw_counterexample(**arguments):
    """Never comes to an end, or fails."""
    if os.environ["FAKE_PICTURE"] == "slow":
        time.sleep(120)
    raise ZeroDivisionError("no room for the picture")


CONTENTS = {
    "netproof.cli.show.picture": {"draw_counterexample": draw_counterexample},
    "netproof.api": {"verify": verify, "attack": attack, "bounds": bounds, "Progress": Progress},
}


class Fake(MetaPathFinder, Loader):
    def find_spec(self, name, path=None, target=None):
        if name == "netproof.cli.show.picture" and not os.environ.get("FAKE_PICTURE"):
            return None
        return importlib.util.spec_from_loader(name, self) if name in CONTENTS else None

    def create_module(self, spec: ModuleSpec):
        return types.ModuleType(spec.name)

    def exec_module(self, module):
        vars(module).update(CONTENTS[module.__name__])


sys.meta_path.insert(0, Fake())
