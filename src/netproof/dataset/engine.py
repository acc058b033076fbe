"""The steps of certifying many images: read all, attack all, bound all, then search what is left, together and alone.

Images go in chunks. Every answer is given as soon as it is there, so that whoever keeps them loses nothing.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np
import torch

from netproof.api import Run
from netproof.bounds.linear.memory import numbers_in_rows
from netproof.certificate.wish import Wish
from netproof.core.deadline import Deadline
from netproof.core.machine.allowance import allowance, said_plainly
from netproof.core.verdict import Stats
from netproof.dataset.attack import FIRST, FULL, Effort, attack_all
from netproof.dataset.cases import Case, check_labels, open_case, question_of
from netproof.dataset.certificates import Certificates
from netproof.dataset.images import Item
from netproof.dataset.result import ImageResult, ImageStatus
from netproof.dataset.together import bound_all, can_join, search_together
from netproof.methods.build import build_method
from netproof.methods.plan import Strategy, choose_strategy
from netproof.model.graph import Graph
from netproof.model.network import Network
from netproof.problem.problem import Problem
from netproof.run.gather import Gather
from netproof.search.boxes.parts import Boxes
from netproof.search.method import Work

CHUNK = {"cpu": 256, "cuda": 1024}  # images that are attacked and bounded together
ENTRIES = {"cpu": 1 << 20, "cuda": 1 << 26}  # of all nodes over all images of a chunk: large networks take few at once
SHARED = 0.125  # of an image's time that each step done together may take; what is left is for its own search
NO_TIME = "no time was left for it"

Bounded = tuple[list[Case], Problem, Boxes]  # the cases of a joined problem, and its open targets


@dataclass(frozen=True)
class CertifyProgress:
    """What a progress callback is told: how far a data set is, again and again."""

    phase: str  # "read", "attack", "bound", "search" or "certificate"
    done: int  # images with an answer
    images: int
    seconds: float


@dataclass(frozen=True)
class Limits:
    """How long an image may take, what ends all of it, and who is told."""

    timeout: float | None  # seconds for each image
    part: Callable[[float | None], Deadline] = Deadline  # makes the deadline of a step
    tell: Callable[[CertifyProgress], None] | None = None

    def of(self, images: int, share: float = 1.0) -> Deadline:
        """Make the deadline of a step that so many images share."""
        return self.part(None if self.timeout is None else self.timeout * images * share)


class Certifier:
    """One network, one radius, many images; `run` gives their answers as they come."""

    def __init__(
        self,
        run: Run,
        network: Network,
        limits: Limits,
        *,
        loaded: bool,
        attack: bool | None = None,
        wish: Wish | None = None,
    ) -> None:
        """Take what all images share. wish: where certificates of those that are proved go."""
        self._wish = wish
        self._certificates: Certificates | None = None
        self._proved: list[tuple[Case, ImageResult]] = []  # of the chunk, without a certificate so far
        self._run, self._network, self._limits = run, network, limits
        self._compared = loaded
        self._attack = run.info.attacks if attack is None else attack
        self._numbers = numbers_in_rows(run.device)
        self._graph: Graph | None = None
        self._done = self._images = 0

    def run(self, items: Sequence[Item]) -> Iterator[ImageResult]:
        """Yield the answers, in the order in which they are found; it ends early where the deadline is cancelled.

        Where certificates are asked for, a proof comes again with what became of its own.
        """
        check_labels(self._network, items)
        self._images = len(items)
        if self._wish is not None and items:
            self._run.be_certifiable()
            self._certificates = Certificates(self._wish, self._network, question_of(self._network, items[0]))
        kind = self._run.device.type
        rows = int(np.prod(self._network.output_shape)) ** 2  # numbers in those of an image: a label against all others
        step = max(1, min(CHUNK[kind], ENTRIES[kind] // self._network.graph.entries, self._numbers // rows))
        with said_plainly():
            for start in range(0, len(items), step):
                allowance().renew()
                for result in self._chunk(items[start : start + step]):
                    self._done += result.certificate is None
                    yield result
                if self._cancelled():
                    return

    def _cancelled(self) -> bool:
        return self._limits.part(None).cancelled

    def _tell(self, phase: str) -> None:
        if self._limits.tell is not None:
            self._limits.tell(CertifyProgress(phase, self._done, self._images, self._run.elapsed()))

    def _chunk(self, items: Sequence[Item]) -> Iterator[ImageResult]:
        """Yield the answers of some images, as they are found."""
        self._tell("read")
        cases: list[Case] = []
        with self._shared(cases):
            for item in items:
                opened = open_case(self._network, item, self._on_one_graph, self._numbers)
                if isinstance(opened, Case):
                    cases.append(opened)
                else:
                    yield opened
            sets = [case.problem.input_set for case in cases]
            self._run.prepare(self._network, sets, loaded=self._compared)
            self._compared = True
        if not cases:
            return
        if self._certificates is not None:
            self._certificates.begin(cases)
        large = [case for case in cases if len(case.parts) > 1]
        cases = [case for case in cases if len(case.parts) == 1]
        yield from self._attacked(cases, FIRST)
        left = yield from self._bounded(cases)
        yield from self._attacked(cases, FULL)
        if left is not None:
            yield from self._searched(cases, *left)
        yield from self._certified()
        for case in (*cases, *large):
            if self._cancelled():
                return
            self._alone(case)
            result = case.result(self._run)
            if self._cancelled() and result.status == ImageStatus.OPEN:
                return  # it was not given its time, so there is nothing to say of it
            yield from self._told(case, result)
            yield from self._certified()
            self._tell("search")

    def _attacked(self, cases: list[Case], effort: Effort) -> Iterator[ImageResult]:
        """Attack what is open; yield the answers that this gives."""
        if not self._attack or not cases:
            return
        self._tell("attack")
        with self._shared(cases):
            deadline = self._limits.of(len(cases), SHARED)
            attack_all(cases, effort, self._run.device, self._run.seed, deadline)
        yield from self._settled(cases)

    def _bounded(self, cases: list[Case]) -> Generator[ImageResult, None, Bounded | None]:
        """Bound what is open, where it can be done together; yield the answers, return what that leaves."""
        if not self._joins(cases):
            return None
        self._tell("bound")
        every = list(cases)
        with self._shared(cases):
            left = bound_all(cases, self._run.device, self._limits.of(len(cases), SHARED))
        yield from self._settled(cases)
        return None if left is None else (every, *left)

    def _searched(self, cases: list[Case], every: list[Case], joined: Problem, boxes: Boxes) -> Iterator[ImageResult]:
        """Search what is open, images that are alike together; yield the answers. every: the cases of `joined`."""
        if not cases or not self._joins_search(cases):
            return
        self._tell("search")
        run = self._run
        method = build_method(run.info.name, run.options, run.device)
        work = Work(run.device, run.threads, self._limits.of(len(cases), SHARED), Stats())
        still_open = torch.tensor([not case.evidence.is_settled for case in every])
        boxes = boxes.select(still_open[joined.boxes.home[boxes.target]].nonzero()[:, 0])
        record = None if self._certificates is None else self._certificates.together
        for _ in search_together(every, joined, boxes, method, work, record):
            yield from self._settled(cases)
            self._tell("search")

    def _settled(self, cases: list[Case]) -> Iterator[ImageResult]:
        """Yield the answers of the cases that are proved or broken, and take these out."""
        still_open = [case for case in cases if not case.evidence.is_settled]
        settled = [case for case in cases if case.evidence.is_settled]
        cases[:] = still_open
        for case in settled:
            began = time.monotonic()
            result = case.result(self._run)
            yield from self._told(case, replace(result, seconds=result.seconds + time.monotonic() - began))

    def _told(self, case: Case, result: ImageResult) -> Iterator[ImageResult]:
        """Yield an answer; a proof waits for its certificate from then on."""
        if self._certificates is not None and result.status == ImageStatus.PROVED:
            self._proved.append((case, result))
        yield result

    def _certified(self) -> Iterator[ImageResult]:
        """Write the certificates of what is proved so far, and yield these answers again; no image's time runs."""
        while self._proved and self._certificates is not None and not self._cancelled():
            case, result = self._proved.pop(0)
            self._tell("certificate")
            state = self._certificates.certified(case, lambda done, count: self._tell("certificate"))
            yield replace(result, certificate=state)

    def _alone(self, case: Case) -> None:
        """Search what is open of one image, as `verify` does."""
        began = time.monotonic()
        timeout = self._limits.timeout
        left = None if timeout is None else timeout - case.seconds
        if left is not None and left <= 0:
            case.evidence.stop(NO_TIME)
            return
        allowance().renew()
        setting = copy.copy(self._run)
        setting.deadline, setting.stats, setting.evidence = self._limits.part(left), case.stats, case.evidence
        setting.record = None if self._certificates is None else self._certificates.alone(case)
        gather = Gather(setting, case.evidence, self._network, case.asked)
        if len(case.parts) == 1:
            gather.run([case.problem.select(torch.tensor(case.open_targets))], self._attack, attacked=True)
        for problems in case.parts if len(case.parts) > 1 else ():
            gather.run(problems, self._attack)
            if case.evidence.is_over:
                break
        case.seconds += time.monotonic() - began

    @contextmanager
    def _shared(self, cases: list[Case]) -> Iterator[None]:
        """Divide the time of a step among the cases that it is for."""
        began = time.monotonic()
        try:
            yield
        finally:
            for case in cases:
                case.seconds += (time.monotonic() - began) / len(cases)

    def _joins(self, cases: Sequence[Case]) -> bool:
        """Say whether images are bounded together: the strongest method does so with boxes, others go one by one."""
        return self._run.info.name == "auto" and can_join(cases)

    def _joins_search(self, cases: Sequence[Case]) -> bool:
        """Say whether images are searched together: not where splitting a few inputs decides each."""
        return all(choose_strategy(self._run.info, [case.problem]) is not Strategy.INPUTS for case in cases)

    def _on_one_graph(self, problem: Problem) -> Problem:
        """Give a problem the graph of the first one, where it is the same: without a last Softmax each has its own."""
        if self._graph is None:
            self._graph = problem.graph
        same = len(self._graph.nodes) == len(problem.graph.nodes) and all(
            mine.op is other.op and mine.inputs == other.inputs
            for mine, other in zip(self._graph.nodes, problem.graph.nodes, strict=True)
        )
        return replace(problem, graph=self._graph) if same else problem
