"""The hunt on several cores: each worker a process with seeds of its own, and one tally of them all."""

from __future__ import annotations

import itertools
import multiprocessing
import queue
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from hunt.certificates import hunting as hunting_certificates
from hunt.generate import Case
from hunt.judge import Finding, Run, answer_words
from hunt.loop import Tally, hunt
from hunt.modules import hunting
from hunt.plants import PLANTS, plant
from hunt.save import save
from hunt.shrink import shrink
from hunt.trials import try_seed

GRACE = 120.0  # seconds that a worker may take to end after its time
MIXED = 3  # of this many questions one is followed by one about a torch module
CERTIFIED, FEW = 10, 20  # of so many questions one is followed by a certificate, with so many mutants
STOPPED = "stopped at the first fault"


@dataclass(frozen=True)
class Plan:
    """What all workers are told."""

    seconds: float
    workers: int
    first: int  # seed
    timeout: float  # seconds a run
    out: Path
    plant: str | None
    stop: bool  # at the first fault
    shrink: float  # seconds
    modules: bool = False  # torch modules only
    certificates: bool = False  # certificates only
    plants: bool = False  # of certificates: searches with a fault each


def run_workers(plan: Plan) -> Tally:
    """Hunt for so many seconds; what is found is printed as it comes."""
    context = multiprocessing.get_context("spawn")
    inbox: Any = context.Queue()
    workers = [context.Process(target=work, args=(i, plan, inbox)) for i in range(plan.workers)]
    for worker in workers:
        worker.start()
    try:
        return _gather(workers, inbox, time.monotonic() + plan.seconds + plan.shrink + GRACE)
    finally:
        for worker in workers:
            worker.terminate()


def run_seed(plan: Plan, seed: int) -> Tally:
    """One question in this process."""
    prepare(plan)
    if plan.modules:
        return _ask_module(plan, seed, print)
    if plan.certificates:
        return try_seed_of(plan, seed, print)
    tally = hunt([seed], Teller(plan, print), timeout=plan.timeout)
    tally.merge(try_seed(seed, plan.out, print, plan.timeout))
    return tally


def work(index: int, plan: Plan, outbox: Any) -> None:
    """A worker's seeds are those of its remainder."""
    began = time.monotonic()
    prepare(plan)
    tally = Tally()
    tell = Teller(plan, outbox.put)
    for seed in itertools.count(plan.first + index, plan.workers):
        if time.monotonic() - began >= plan.seconds:
            break
        if plan.certificates:
            tally.merge(try_seed_of(plan, seed, outbox.put))
        elif not plan.modules:
            tally.merge(hunt([seed], tell, timeout=plan.timeout))
            tally.merge(try_seed(seed, plan.out, outbox.put, plan.timeout))
            if seed % CERTIFIED == 0:
                tally.merge(hunting_certificates.try_seed(seed, plan.out, outbox.put, mutants=FEW))
        if plan.modules or (seed % MIXED == 0 and not plan.certificates):
            tally.merge(_ask_module(plan, seed, outbox.put))
        if plan.stop and tally.faults:
            tally.faults[STOPPED] += 1
            break
    outbox.put(tally)


def prepare(plan: Plan) -> None:
    torch.set_num_threads(1)
    if plan.plant and not plan.certificates:
        plant(plan.plant)


def try_seed_of(plan: Plan, seed: int, say: Any) -> Tally:
    """A certificate and its mutants; or, with plants, what comes of a search with a fault."""
    if plan.plants or plan.plant:
        names = [plan.plant] if plan.plant else list(PLANTS)
        return hunting_certificates.try_planted(seed, names[seed % len(names)], plan.out, say)
    return hunting_certificates.try_seed(seed, plan.out, say)


def _ask_module(plan: Plan, seed: int, say: Any) -> Tally:
    teller = hunting.Teller(plan.out, say, stop=plan.stop)
    return hunting.hunt_modules([seed], teller, out=plan.out, timeout=plan.timeout)


class Teller:
    """Says what failed, keeps it, and makes it smaller."""

    def __init__(self, plan: Plan, say: Any) -> None:
        self._plan, self._say, self._began = plan, say, time.monotonic()

    def __call__(self, case: Case, run: Run, finding: Finding) -> bool:
        answers = answer_words([case.oracle.answer(d) for d in case.question.disjuncts])
        self._say(
            f"after {time.monotonic() - self._began:.0f} s, {finding.fault}: seed {case.seed} ({case.family}), {run}: "
            f"{finding.detail} [exact: {answers}]"
        )
        folder = self._plan.out / f"seed{case.seed}-{run.method.replace(':', '-')}"
        save(folder, case.question, case.oracle, case, run, finding)
        if self._plan.shrink > 0:
            small = shrink(case.question, run, finding.fault, self._plan.shrink)
            save(folder / "small", small.question, small.oracle, case, run, small.finding)
        self._say(f"saved in {folder}")
        return not self._plan.stop


def _gather(workers: list[Any], inbox: Any, until: float) -> Tally:
    """Print what workers say; the sum of their tallies. A worker that dies or hangs is a fault."""
    total, working = Tally(), len(workers)
    while working:
        try:
            said = inbox.get(timeout=1.0)
        except queue.Empty:
            died = [w.exitcode for w in workers if w.exitcode not in (None, 0)]
            if died or time.monotonic() > until:
                total.faults[f"worker died with {died}" if died else "worker hangs"] += 1
                return total
            continue
        if not isinstance(said, Tally):
            print(said, flush=True)
            continue
        total.merge(said)
        working -= 1
        if STOPPED in said.faults:
            return total
    return total
