"""Certificates of a data set: one for each image that is proved, made when no image's time is running."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from netproof.certificate.destination import HINTS, MODEL, SPEC, SUFFIX
from netproof.certificate.state import Certificate, reason_of
from netproof.certificate.wish import Wish
from netproof.errors import UsageError

if TYPE_CHECKING:
    from netproof.bounds.record import Recorder
    from netproof.certificate.spool import Hint, Sides, Spool, SpoolWriter
    from netproof.dataset.cases import Case
    from netproof.model.network import Network
    from netproof.problem.property import Property

ALONE = "hints-alone"  # of the image that is searched now, without others


class Certificates:
    """Keeps hints of the images of a chunk, and writes certificates of those that are proved."""

    def __init__(self, wish: Wish, network: Network, example: Property) -> None:
        """Read the network as npcheck does, and the question about one image; UsageError where it cannot."""
        from netproof.certificate.installed import require_npcheck

        require_npcheck()
        from netproof.certificate.question import Question, check_alike, may_replace
        from netproof.certificate.write import Subject

        self._wish, self._outputs = wish, example.outputs
        asked = Question(network, example)
        self._model, spec = asked.model_in(wish.room), asked.spec_in(wish.room)
        self._model_name = wish.folder / MODEL if self._model.parent == wish.room else self._model
        if self._model != self._model_name and not may_replace(self._model_name):
            raise UsageError(
                "the network would be written there, over a file that is none of netproof's",
                file=str(self._model_name),
                remedy="give another folder",
            )
        try:
            subject = Subject.read(self._model, spec)
            check_alike(network, subject)
        except UsageError as error:  # files of the folder are not for people
            said = error.message.replace(str(wish.room / MODEL), network.path)
            error.message = said.replace(str(wish.room / SPEC), "the question about an image in VNN-LIB")
            raise
        self._subject = subject  # its network is that of all images
        self._writer: SpoolWriter | None = None
        self._spool: Spool | None = None  # the hints of the chunk, once they are complete
        self._places: dict[int, int] = {}  # of the chunk's cases, by id
        self._alone: dict[int, tuple[SpoolWriter, frozenset[int]]] = {}  # by case, with the disjuncts searched

    def begin(self, cases: Sequence[Case]) -> None:
        """Begin with the cases of a chunk."""
        from netproof.certificate.spool import SpoolWriter

        self.end()
        self._places = {id(case): place for place, case in enumerate(cases)}
        self._writer, self._spool = SpoolWriter(self._wish.room / HINTS), None

    def end(self) -> None:
        """Let go of the hints."""
        for writer in (self._writer, *(writer for writer, _ in self._alone.values())):
            if writer is not None:
                writer.close()
        self._alone.clear()

    def together(self, targets: Sequence[tuple[Case, int]]) -> Recorder:
        """Return what hears of a search of several images; the case and the disjunct of each target."""
        from netproof.certificate.record import Record

        assert self._writer is not None
        keys = tuple(self._places[id(case)] * self._outputs + disjunct for case, disjunct in targets)
        return Record(self._subject.network, self._writer, keys)

    def alone(self, case: Case) -> Callable[[tuple[int, ...]], Recorder]:
        """Return what makes recorders of a search of one image."""
        from netproof.certificate.record import Record
        from netproof.certificate.spool import SpoolWriter

        for writer, _ in self._alone.values():
            writer.close()
        writer = SpoolWriter(self._wish.room / ALONE)
        every = range(len(case.asked.disjuncts))
        searched = frozenset(every if len(case.parts) > 1 else (case.problem.disjuncts[t] for t in case.open_targets))
        self._alone = {id(case): (writer, searched)}
        return lambda disjuncts: Record(self._subject.network, writer, disjuncts)

    def certified(self, case: Case, progress: Callable[[int, int], None]) -> dict[str, Any]:
        """Write and check the certificate of an image that is proved; return what became of it."""
        path = self._wish.folder / f"{case.item.index:05d}-label-{case.item.label}{SUFFIX}"
        try:
            state = self._certified(case, path, progress).to_dict()
            if Certificate.was_interrupted(state):
                raise KeyboardInterrupt  # which is about all of it
            return state
        except UsageError as error:
            return Certificate(str(path), reason=reason_of(error), limit=self._wish.seconds).to_dict()
        except OSError as error:
            why = f"it cannot be written: {error.strerror or error}"
            return Certificate(str(path), reason=why, limit=self._wish.seconds).to_dict()

    def _certified(self, case: Case, path: Path, progress: Callable[[int, int], None]) -> Certificate:
        from netproof.certificate.destination import beside
        from netproof.certificate.question import Question, may_replace
        from netproof.certificate.request import Request

        wish = self._wish
        spec = Question(case.network, case.asked.written or case.asked).spec_in(wish.room)
        name = beside(path, spec.suffix)
        if not may_replace(name):
            raise UsageError("it is there already, and is none of netproof's", file=str(name))
        if self._model != self._model_name:
            self._model = self._model.replace(self._model_name)
        subject = self._subject.about(spec)
        request = Request(path, self._model, spec, wish.room / HINTS, wish.seconds, wish.check, folder=wish.room)
        return request.finish(subject, progress, self._hints(case))

    def _hints(self, case: Case) -> _Hints:
        from netproof.certificate.spool import Spool

        if self._spool is None and self._writer is not None:
            self._writer.close()
            self._spool = Spool(self._wish.room / HINTS)
        assert self._spool is not None
        writer, searched = self._alone.get(id(case), (None, frozenset()))
        if writer is not None:
            writer.close()
        alone = None if writer is None else Spool(self._wish.room / ALONE)
        return _Hints(self._spool, self._places[id(case)] * self._outputs, alone, searched)


@dataclass(frozen=True)
class _Hints:
    """What is known of one image: from its own search where it had one, else from that of several."""

    together: Spool
    first: int  # the number of its disjunct 0 there
    alone: Spool | None
    searched: frozenset[int]

    def count(self, disjunct: int) -> int:
        """Return how many sub-domains of a disjunct were closed."""
        spool, place = self._of(disjunct)
        return spool.count(place)

    def hints(self, disjunct: int, which: Sequence[int]) -> Iterator[Hint]:
        """Read some of a disjunct's closed sub-domains."""
        spool, place = self._of(disjunct)
        return spool.hints(place, which)

    def sides(self, disjuncts: Sequence[int]) -> Sides:
        """Return what was told of bounds of neurons on the image's set."""
        whole = self.together.sides([self.first + disjunct for disjunct in disjuncts])
        if self.alone is not None:
            whole.take_in(self.alone.sides(disjuncts))
        return whole

    def _of(self, disjunct: int) -> tuple[Spool, int]:
        if self.alone is not None and disjunct in self.searched:
            return self.alone, disjunct
        return self.together, self.first + disjunct
