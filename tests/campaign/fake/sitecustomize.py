"""Stands in for the engine in a campaign's workers: the first line of a property says what it does (`; fake WORD`).

Python imports this module by itself where its folder is on PYTHONPATH. Every call is written to $FAKE_CALLS.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import signal
import sys
import time
import types
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path


def log(*words):
    with open(os.environ["FAKE_CALLS"], "a") as file:
        file.write(" ".join(map(str, words)) + "\n")


def load_network(path):
    from netproof.errors import ModelError

    if not Path(path).is_file():
        raise ModelError("no such file", file=str(path), remedy="check the path")
    log("load", Path(path).name, os.getpid())
    return types.SimpleNamespace(identity=hashlib.sha256(Path(path).read_bytes()).hexdigest())


def misbehave(word, deadline):
    if word == "slow":  # but it looks at its deadline
        while not deadline.expired:
            time.sleep(0.01)
    elif word == "late":  # decides all the same
        while not deadline.expired:
            time.sleep(0.01)
        time.sleep(0.05)
    elif word == "meet":  # until another worker is at work as well
        while len({line.split()[-1] for line in Path(os.environ["FAKE_CALLS"]).read_text().splitlines()}) < 2:
            deadline.check()
            time.sleep(0.01)
    elif word == "deaf":
        time.sleep(120)
    elif word == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif word == "exit":
        os._exit(3)
    elif word == "raise":
        raise ZeroDivisionError("the engine fell over")
    elif word == "print":
        print("noise from a library", flush=True)
        os.write(1, b"noise from C\n")
    elif word in ("once", "hang"):  # the first time only
        mark = Path(os.environ["FAKE_CALLS"]).with_suffix(f".{word}")
        if not mark.exists():
            mark.touch()
            if word == "hang":
                time.sleep(120)
            os._exit(4)


def verify(model, spec, *, method="auto", deadline=None, progress=None, options=None, **arguments):
    import numpy as np

    from netproof.core.verdict import Stats, Status, Verdict, Witness
    from netproof.errors import SpecError

    if os.environ.get("FAKE_START") == "raise":
        raise RuntimeError("no engine here")
    if os.environ.get("FAKE_START") == "refuse":
        from netproof.errors import DeviceError

        raise DeviceError("no CUDA device is available", remedy="use --device cpu")
    says, _, word = Path(spec).read_text().splitlines()[0].rpartition(" ")
    if says != "; fake":
        return Verdict(Status.UNSAT)  # a bundled question, to warm up
    log("verify", Path(spec).name, method, os.getpid())
    progress(types.SimpleNamespace(phase="search", domains=7, lower_bound=-0.75 if word == "deaf" else float("nan")))
    if word == "refuse":
        raise SpecError("no such variable X_9", file=str(spec), line=3, column=7, remedy="declare it")
    if word == "operator":
        from netproof.errors import UnsupportedOp

        raise UnsupportedOp("Celu", node="n", why="no bounds", file=str(spec))
    misbehave(word, deadline)
    stats = Stats(domains=40, rounds=3, split=18, cut_in_lp=word == "slow")
    stats.seconds["search"] = 0.25
    if word == "slow":
        return Verdict(Status.TIMEOUT, "time limit", lower_bound=-0.125, stats=stats)
    if word == "unknown":
        return Verdict(Status.UNKNOWN, "a leaf is open", stats=stats)
    if word == "sat" or (word == "quarrel" and method == "lirpa"):
        x = np.array([[0.5, 0.25]], dtype=np.float32)
        witness = Witness(x, np.array([[1.5]], dtype=np.float32))
        return Verdict(Status.SAT, witness=witness, upper_bound=-1.0, stats=stats, decided_by="attack")
    return Verdict(Status.UNSAT, lower_bound=0.5, upper_bound=float("inf"), stats=stats, decided_by="root")


def format_witness(witness):
    return "".join(f"((X_{i} {x}))\n" for i, x in enumerate(witness.input.ravel().tolist()))


CONTENTS = {
    "netproof.api": {"verify": verify},
    "netproof.model.load": {"load_network": load_network},
    "netproof.problem.witness": {"format_witness": format_witness},
}


class Fake(MetaPathFinder, Loader):
    def find_spec(self, name, path=None, target=None):
        return importlib.util.spec_from_loader(name, self) if name in CONTENTS else None

    def create_module(self, spec: ModuleSpec):
        return types.ModuleType(spec.name)

    def exec_module(self, module):
        vars(module).update(CONTENTS[module.__name__])


sys.meta_path.insert(0, Fake())
