"""Run jobs in worker processes and keep every result as it comes.

The campaign's own process computes nothing. It hands out jobs, watches the clock of each, and alone writes the store;
so a worker may crash, hang or be killed, and only its present run is lost.
"""

from __future__ import annotations

import dataclasses
import datetime
import functools
import math
import shutil
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import wait
from typing import Any

from netproof.campaign import certificates, worker
from netproof.campaign.devices import Setup, setups
from netproof.campaign.jobs import Job
from netproof.campaign.store import Result, Store
from netproof.certificate.destination import Destination
from netproof.core.files import well_formed
from netproof.core.machine.describe import describe
from netproof.core.reasons import CONTRADICTION
from netproof.errors import NetproofError, UsageError
from netproof.run.record import Record, known_so_far
from netproof.workers.process import Process
from netproof.workers.worker import Message, Work

GRACE = 1.5  # seconds past its limit after which a run's worker is ended; a new one takes longer than that to start
START = 300.0  # seconds that a worker may take to be ready
STARTS = 3  # failures to start in a row, in one place, that end the campaign
TICK = 0.1  # seconds between two looks at the clock
REAP = 5.0  # seconds to wait for a process that was killed: the next one needs its memory
AWAY = 2.0  # seconds between two looks past which this process must have been stopped
ERROR = Record("error", seconds={})
ANSWER = (  # the fields that a result takes from a record unchanged
    *("verdict", "reason", "decided_by", "seconds", "lower_bound", "upper_bound"),
    *("domains", "split", "leaf_lps", "cut_in_lp", "rounds", "peak_memory", "peak_host_memory", "about"),
    "certificate",
)


class WorkerFailed(NetproofError):
    """No worker can be started, so no run can."""


@dataclass(frozen=True)
class Event:
    """What happened, for those who watch.

    kept: the store had the answer. starting, ready: a worker. started, progress, finished: a run. lost: a worker was
    ended by the watchdog or ended by itself; its run has finished (`error` or `timeout`) just before. certifying,
    certified: a proof, which has finished before that.
    """

    kind: str
    worker: int | None = None
    job: Job | None = None
    result: Result | None = None
    text: str = ""
    progress: Mapping[str, Any] = field(default_factory=dict)


def run(
    jobs: Sequence[Job],
    store: Store,
    *,
    workers: int,
    on_event: Callable[[Event], None] = lambda event: None,
    stop: threading.Event | None = None,
    rerun: bool = False,
    grace: float = GRACE,
) -> list[Result]:
    """Return every job's result, in the order of the jobs; only jobs that the store has no answer to are run.

    `stop.is_set()` ends the campaign: runs under way are given up without a trace, and their jobs have no result.
    Raises WorkerFailed where workers do not start.
    """
    if workers < 1:
        raise UsageError(f"{workers} workers are too few", remedy="give 1 or more")
    results: dict[int, Result] = {}
    for index, job in enumerate(jobs):
        kept = None if rerun else _kept(job, store)
        if kept is not None:
            results[index] = kept
            on_event(Event("kept", job=job, result=kept))
    pending = [(index, job) for index, job in enumerate(jobs) if index not in results]
    if pending:
        _Campaign(pending, store, results, min(workers, len(pending)), on_event, grace).run(stop)
    return [results[index] for index in sorted(results)]


def _kept(job: Job, store: Store) -> Result | None:
    """Return the store's answer, with the instance's present names and truth, should those have changed."""
    found = store.done(job)
    if found is None or (job.wish is not None and found.verdict == "unsat" and not job.wish.stands(found.certificate)):
        return None
    current = dataclasses.replace(found, **_names(job))
    if current != found:
        store.add(current)
    return current


def _names(job: Job) -> dict[str, Any]:
    """Return what may change of an instance while its files stay the same."""
    onnx, vnnlib = job.instance.names
    return {
        "benchmark": job.instance.benchmark,
        "folder": well_formed(str(job.instance.folder or "")),
        "onnx": onnx,
        "vnnlib": vnnlib,
        "truth": job.instance.truth,
    }


@dataclass(frozen=True)
class Run:
    """A job that was given to a worker."""

    job: Job
    setup: Setup
    versions: Mapping[str, str | None] = field(default_factory=dict)
    started: str = ""

    def result(self, record: Record, *, total: float, error: str = "", log: str = "", **more: Any) -> Result:
        """Join what was asked and what was answered. A verdict past the limit counts as a timeout.

        more: columns of the result that a worker fills by itself.
        """
        job = self.job
        late = job.timeout is not None and total > job.timeout and record.verdict in ("sat", "unsat", "unknown")
        if late and record.reason != CONTRADICTION:
            record = record.but(verdict="timeout", reason=f"{record.verdict}, but after the limit")
        wrong = record.contradiction
        if wrong is not None:
            error = f"{wrong['what']}; the case is kept in {wrong['saved']}"
        return Result(
            key=job.key,
            onnx_sha256=job.hashes[0],
            vnnlib_sha256=job.hashes[1],
            versions=self.versions,
            started=self.started,
            finished=_now(),
            total=total,
            witness=record.text,
            error=error,
            log=log,
            machine={**describe(), "gpu": self.versions.get("gpu")},
            command=job.command,
            input_shape=_shape(record.witness),
            **more,
            **_names(job),
            **{**job.asked, "threads": job.threads or self.setup.threads},
            **{name: getattr(record, name) for name in ANSWER},
        )


@dataclass
class _Place:
    """One worker at a time, and what it does."""

    number: int
    setup: Setup
    process: Process | None = None
    ready: bool = False
    failures: int = 0  # failures to start, in a row
    ends_at: float = math.inf  # when to end the worker, if it has not answered
    index: int | None = None  # of the worker's present job
    run: Run | None = None
    sent_at: float = 0.0
    loaded: str = ""  # hash of the model that it has loaded
    allowed: float = 0.0  # seconds that the limit was moved by while files are read for a certificate
    where: Destination | None = None  # of the job's certificate, where one is asked for
    proof: Result | None = None  # that is stored already, while its certificate is made
    versions: Mapping[str, str | None] = field(default_factory=dict)
    progress: Mapping[str, Any] = field(default_factory=dict)

    @property
    def job(self) -> Job | None:
        return None if self.run is None else self.run.job


class _Campaign:
    def __init__(
        self,
        pending: list[tuple[int, Job]],
        store: Store,
        results: dict[int, Result],
        workers: int,
        on_event: Callable[[Event], None],
        grace: float,
    ) -> None:
        self._pending, self._store, self._results = pending, store, results
        self._tell, self._grace = on_event, grace
        self._places = [_Place(i, setup) for i, setup in enumerate(setups([job for _, job in pending], workers))]

    def run(self, stop: threading.Event | None) -> None:
        looked = time.monotonic()
        try:
            while (self._pending or any(p.job for p in self._places)) and not (stop is not None and stop.is_set()):
                self._excuse(time.monotonic() - looked)
                looked = time.monotonic()
                for place in self._places:
                    self._attend(place)
                self._hear()
        finally:
            for place in self._places:
                self._end(place)

    def _excuse(self, away: float) -> None:
        """Give workers the time that this process was stopped (Ctrl-Z): their answers may be there unread."""
        if away > AWAY:
            for place in self._places:
                place.ends_at += away

    def _attend(self, place: _Place) -> None:
        """Give the place what it lacks: a worker, or a job; and end a worker that is late."""
        if place.process is None and self._pending:
            place.process = Process.start(place.setup.environment())
            place.process.give(functools.partial(worker.warm_up, setup=place.setup), None)
            place.ends_at = time.monotonic() + START
            self._tell(Event("starting", place.number))
        elif place.ready and place.job is None and self._pending:
            self._give(place)
        elif time.monotonic() >= place.ends_at:
            self._late(place)

    def _give(self, place: _Place) -> None:
        """Hand out the first job on the network that the worker has loaded, else the first of all."""
        at = next((i for i, (_, job) in enumerate(self._pending) if job.hashes[0] == place.loaded), 0)
        place.index, job = self._pending.pop(at)
        place.run = Run(job, place.setup, place.versions, _now())
        place.where = self._where(place.number, job)
        place.sent_at, place.progress = time.monotonic(), {}
        place.ends_at = math.inf if job.timeout is None else place.sent_at + job.timeout + self._grace
        assert place.process is not None
        place.process.give(question(job, place.setup, place.where), job.timeout)
        place.loaded = job.hashes[0]
        self._tell(Event("started", place.number, job))

    def _where(self, number: int, job: Job) -> Destination | None:
        """Return where a job's certificate goes, with an empty folder for what is not finished."""
        if job.wish is None:
            return None
        where = certificates.destination(job, number)
        shutil.rmtree(where.folder, ignore_errors=True)
        return where

    def _hear(self) -> None:
        """Handle what workers said, once one says something or a moment has passed."""
        processes = [(place, place.process) for place in self._places if place.process is not None]
        wait([process.connection for _, process in processes], TICK)
        for place, process in processes:
            for message in process.hear(0.0):
                self._heed(place, process, message)

    def _heed(self, place: _Place, process: Process, message: Message) -> None:
        kind, payload = message
        if place.proof is not None:
            self._heed_certificate(place, kind, payload)
        elif kind == "event" and "reading" in payload:  # for a certificate, which no run pays for
            place.ends_at += payload["reading"]
            place.allowed = payload["reading"]
        elif kind == "event" and "read" in payload:
            place.ends_at += payload["read"] - place.allowed
            place.sent_at += payload["read"]
        elif kind == "event":
            place.progress = payload["progress"]
            self._tell(Event("progress", place.number, place.job, progress=place.progress))
        elif kind == "result" and place.job is not None:
            record, total, more = payload
            self._finish(place, record, total=total, **more)
        elif kind == "result":
            place.ready, place.failures, place.ends_at = True, 0, math.inf
            place.versions = payload
            self._tell(Event("ready", place.number))
        elif kind == "error" and place.job is not None:
            self._finish(place, ERROR, error=payload)
        elif kind == "error":
            raise WorkerFailed(payload)
        elif kind == "bug":
            self._lose(place, f"the worker failed: {payload[0]}", payload[1])
        else:  # "memory" or "died"
            self._lose(place, payload, process.log())

    def _heed_certificate(self, place: _Place, kind: str, payload: Any) -> None:
        """Handle what a worker says that makes the certificate of a proof, which is stored."""
        if kind == "result":
            self._keep_certificate(place, payload)
        elif kind == "error":
            self._no_certificate(place, payload)
        elif kind != "event":
            how = f"the worker failed: {payload[0]}" if kind == "bug" else payload
            self._no_certificate(place, how)
            self._end(place)
            self._tell(Event("lost", place.number, text=how))

    def _no_certificate(self, place: _Place, why: str) -> None:
        assert place.where is not None
        self._keep_certificate(place, certificates.unfinished(place.where.path, why, place.where.seconds))

    def _keep_certificate(self, place: _Place, state: Mapping[str, Any]) -> None:
        """Keep what became of a certificate beside its proof, and let the worker go on."""
        assert place.proof is not None
        assert place.index is not None
        result, job = dataclasses.replace(place.proof, certificate=state), place.job
        self._store.add(result)
        self._results[place.index] = result
        self._release(place)
        self._tell(Event("certified", place.number, job, result))

    def _release(self, place: _Place) -> None:
        place.run = place.index = place.proof = None
        place.ends_at = math.inf

    def _lose(self, place: _Place, how: str, log: str) -> None:
        """Go on without the worker, which ended by itself or must not be trusted any more."""
        if place.job is not None:
            self._finish(place, ERROR, error=how, log=log)
        elif not place.ready:
            self._failed_to_start(place, how)
        self._end(place)
        self._tell(Event("lost", place.number, text=how))

    def _late(self, place: _Place) -> None:
        """End a worker that has not answered in time; its run is a timeout."""
        if place.proof is not None:
            how = "the watchdog ended the writing of a certificate"
            self._no_certificate(place, how)
        elif place.job is None:
            how = f"the worker was not ready after {START:g} s"
            self._failed_to_start(place, how)
        else:
            how = f"the watchdog ended the run {self._grace:g} s after its limit"
            self._finish(place, Record("timeout", how, **known_so_far(place.progress), seconds={}))
        self._end(place)
        self._tell(Event("lost", place.number, text=how))

    def _failed_to_start(self, place: _Place, how: str) -> None:
        place.failures += 1
        if place.failures >= STARTS:
            raise WorkerFailed(f"no worker can be started: {how}", remedy="run `netproof doctor`")

    def _finish(self, place: _Place, record: Record, *, total: float | None = None, **more: Any) -> None:
        """Keep the result of the run, before anything else happens."""
        assert place.run is not None
        assert place.index is not None
        took = time.monotonic() - place.sent_at if total is None else total
        result = place.run.result(record, total=took, **more)
        begun = place.where is not None and result.verdict == "unsat" and record.certificate is None
        if begun and place.where is not None:  # until it is there
            result = dataclasses.replace(result, certificate=certificates.unfinished(place.where.path))
        self._store.add(result)
        self._results[place.index] = result
        self._tell(Event("finished", place.number, place.run.job, result))
        if begun:
            self._certify(place, result)
        else:
            self._release(place)

    def _certify(self, place: _Place, proof: Result) -> None:
        """Have the worker write the certificate of what it has proved."""
        assert place.process is not None
        assert place.where is not None
        place.proof, place.ends_at = proof, time.monotonic() + 2 * place.where.seconds + START
        place.process.give(functools.partial(certificates.certify, where=place.where), None)
        self._tell(Event("certifying", place.number, place.job))

    def _end(self, place: _Place) -> None:
        if place.process is not None:
            place.process.kill(REAP)
        place.process, place.ready, place.loaded = None, False, ""
        self._release(place)


def question(job: Job, setup: Setup, where: Destination | None = None) -> Work:
    """Turn a job into the work that a worker does."""
    asked = {**job.asked, "options": dict(job.options), "threads": job.threads or setup.threads}
    del asked["timeout"]  # it comes as a deadline
    onnx, vnnlib = str(job.instance.onnx), str(job.instance.vnnlib)
    if job.instance.networks:
        asked["networks"] = {name: str(path) for name, path in job.instance.networks}
    if where is not None:
        asked["where"] = where
    return functools.partial(worker.answer, onnx=onnx, sha256=job.hashes[0], vnnlib=vnnlib, **asked)


def _shape(witness: Mapping[str, Any] | None) -> str | None:
    """Return the shape of a witness's input, which is nested lists."""
    sizes, inner = [], None if witness is None else witness["input"]
    while isinstance(inner, list) and inner:
        sizes.append(len(inner))
        inner = inner[0]
    return ",".join(map(str, sizes)) or None


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")
