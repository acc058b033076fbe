"""The work behind `netproof robust`: one answer per target, or the largest radius that is certified.

Everything found is sent at once, so that an interrupt or a timeout loses nothing.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import os
import shutil
import time
from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from netproof.cli.options import Engine
from netproof.cli.robust.image import Centre, read_centre, region
from netproof.cli.robust.question import Question, Row, part_of, shown_radius
from netproof.cli.show.answer import looked_at, reply
from netproof.cli.show.seen import Viewer
from netproof.cli.show.witness_file import Saver, image_layout
from netproof.dataset.bracket import close_in
from netproof.errors import UsageError
from netproof.workers.worker import Job

if TYPE_CHECKING:
    import numpy as np

    from netproof.certificate.destination import Destination
    from netproof.certificate.record import Recording
    from netproof.core.verdict import Verdict
    from netproof.model.network import Network


@dataclasses.dataclass
class Asker:
    """Asks the engine about one network and image, again and again."""

    job: Job
    network: Network
    question: Question
    centre: Centre
    label: int
    engine: Engine
    saver: Saver
    viewer: Viewer
    certificate: Destination | None = None
    recording: Recording | None = None  # for a certificate about several targets, each of which is searched alone
    places: Mapping[int, int] = dataclasses.field(default_factory=dict)  # of these targets in the question

    @property
    def outputs(self) -> int:
        return math.prod(self.network.output_shape)

    def _viewer(self, eps: Fraction) -> Viewer:
        title = f"{os.path.basename(self.question.image)}: broken within eps = {shown_radius(eps)}"
        return dataclasses.replace(self.viewer, title=title, label=self.label)

    def ask(self, key: int | Fraction, eps: Fraction, targets: Sequence[int], seconds: float | None) -> Row:
        """Ask about all `targets` at once; `key` is what the row is about."""
        from netproof import api
        from netproof.problem.specs import classification

        began = time.monotonic()
        inputs = region(dataclasses.replace(self.question, eps=eps), self.centre)
        asked = classification(inputs, self.label, self.outputs, list(targets))
        verdict = api.verify(
            self.network,
            asked,
            **self.engine.arguments(),
            **self._recorded(key, eps),
            deadline=self.job.part(seconds),
            progress=self.job.teller(title=f"target {key}" if isinstance(key, int) else f"eps {float(key):.4g}"),
        )
        return self._row(key, eps, verdict, time.monotonic() - began)

    def begin(self, targets: Sequence[int]) -> None:
        """Keep hints for a certificate about all targets; UsageError where none can be about them."""
        from netproof.problem.specs import classification

        if self.certificate is not None:
            asked = classification(region(self.question, self.centre), self.label, self.outputs, list(targets))
            destination = dataclasses.replace(self.certificate, folder=self._part(self.question.eps))
            self.recording = destination.begin(self.network, None, self.network, asked)
            self.places = {target: place for place, target in enumerate(targets)}

    def end(self) -> None:
        """Write what is left of the hints."""
        if self.recording is not None:
            self.recording.close()
            self.recording = None

    def _recorded(self, key: int | Fraction, eps: Fraction) -> dict[str, Any]:
        """Return what lets `verify` keep hints: for its part of the certificate, or for one about this radius."""
        if self.recording is not None and isinstance(key, int):
            return {"certificate": self.recording.part(self.places[key])}
        if self.certificate is None:
            return {}
        return {"certificate": dataclasses.replace(self.certificate, folder=self._part(eps))}

    def _part(self, eps: Fraction) -> Path:
        assert self.certificate is not None
        return self.certificate.folder / part_of(eps)

    def drop(self, eps: Fraction | None) -> None:
        """Remove what was kept for a certificate about a radius."""
        if self.certificate is not None and eps is not None:
            shutil.rmtree(self._part(eps), ignore_errors=True)

    def _row(self, key: int | Fraction, eps: Fraction, verdict: Verdict, seconds: float) -> Row:
        """Make the row of an answer; a counterexample is told before it is looked at, which may take long or fail."""
        row = Row(key, reply(verdict, self.engine, self.saver), seconds)
        if verdict.witness is None:
            return row
        self.job.tell(row)
        drawn = self.viewer.picture is not None
        return dataclasses.replace(
            row, answer=looked_at(row.answer, verdict.witness, functools.partial(self._viewer, eps), drawn=drawn)
        )

    def attack(self, key: Fraction | None, eps: Fraction, targets: Sequence[int], seconds: float | None) -> Row | None:
        """Look for a counterexample within a radius, and prove nothing; None where none was found.

        Without a key the row is about the target that the counterexample is read as.
        """
        from netproof import api
        from netproof.problem.specs import classification

        began = time.monotonic()
        inputs = region(dataclasses.replace(self.question, eps=eps), self.centre)
        asked = classification(inputs, self.label, self.outputs, list(targets))
        deadline = self.job.part(seconds if seconds is not None and math.isfinite(seconds) else None)
        engine = {name: getattr(self.engine, name) for name in ("device", "threads", "seed", "outputs")}
        verdict = api.attack(self.network, asked, deadline=deadline, **engine)
        if verdict.witness is None:
            return None
        scores = verdict.witness.output.reshape(-1)
        about = max(targets, key=lambda target: scores[target]) if key is None else key
        return self._row(about, eps, verdict, time.monotonic() - began)


def open_question(
    job: Job,
    *,
    model: str,
    question: Question,
    label: int | None,
    targets: Sequence[int] | None,
    engine: Engine,
    forms: Sequence[str],
) -> tuple[Asker, list[int], int]:
    """Load network and image and check that they fit.

    Return also the targets and what the network says of the image itself, which are told at once. Without a label it
    is the latter. forms: how a counterexample is to be written.
    """
    from netproof.dataset.prediction import predicted_class
    from netproof.model.load import load_network
    from netproof.problem.specs import check_classes

    network = load_network(model, outputs=engine.outputs)
    check_classes(math.prod(network.output_shape), model)
    centre = read_centre(question, tuple(network.input_shape))
    scores = network.replay(centre.as_input()).reshape(-1)
    predicted = predicted_class(network, centre.as_input())
    if label is None and predicted < 0:
        raise UsageError(
            "the network answers it with NaN or infinity", file=question.image, remedy="say by --label what must win"
        )
    label = predicted if label is None else label
    saver, viewer = _shown(network, model, centre, scores, forms)
    asker = Asker(job, network, question, centre, label, engine, saver, viewer)
    if not 0 <= label < asker.outputs:
        raise UsageError(
            f"--label: {label} is not an output of this network",
            file=model,
            remedy=f"choose 0 to {asker.outputs - 1}",
        )
    others = rivals(asker, targets)
    job.tell(
        {"targets": others, "predicted": predicted if predicted >= 0 else None, "label": label, "notes": centre.notes}
    )
    return asker, others, predicted


def _shown(
    network: Network, model: str, centre: Centre, scores: np.ndarray, forms: Sequence[str]
) -> tuple[Saver, Viewer]:
    """Make what writes a counterexample and what looks at it; UsageError where it is to be drawn and is no image."""
    option = {"png": "--witness", "picture": "--picture"}
    drawn = [option[form] for form in forms if form in option]
    layout = centre.layout or image_layout(network.input_shape, model, drawn[0]) if drawn else None
    picture = layout.picture if layout is not None and "picture" in forms else None
    return Saver(forms[0], layout, centre.pixels), Viewer(centre.as_input(), scores, centre.pixels, picture)


def rivals(asker: Asker, targets: Sequence[int] | None) -> list[int]:
    if targets is None:
        return [output for output in range(asker.outputs) if output != asker.label]
    for target in targets:
        if not 0 <= target < asker.outputs or target == asker.label:
            raise UsageError(
                f"--targets: {target} is not another output than the label",
                remedy=f"choose from 0 to {asker.outputs - 1}, without {asker.label}",
            )
    return list(dict.fromkeys(targets))


def each_target(job: Job, *, every: bool = False, certificate: Destination | None = None, **asked: Any) -> None:
    """Ask about every target by itself, up to the first that is broken; after an attack on all of them at once.

    The time is divided evenly; what is left goes to the undecided. every: go on where one is broken, and ask about all.
    """
    asker, open_targets, _ = open_question(job, **asked)
    asker.certificate = certificate
    asker.begin(open_targets)
    try:
        _each_target(job, asker, open_targets, every=every)
    finally:
        asker.end()


def _each_target(job: Job, asker: Asker, open_targets: Sequence[int], *, every: bool) -> None:
    limited = asker.engine.timeout is not None
    if not every and asker.engine.attack is not False:  # a target that is hard to prove does not hide one that breaks
        share = job.deadline.remaining() / (len(open_targets) + 1) if limited else None
        row = asker.attack(None, asker.question.eps, open_targets, share)
        if row is not None:
            job.tell(row)
            return
    for _ in range(2):
        undecided = []
        for index, target in enumerate(open_targets):
            share = job.deadline.remaining() / (len(open_targets) - index) if limited else None
            row = asker.ask(target, asker.question.eps, [target], share)
            job.tell(row)
            if row.record.verdict == "sat" and not every:
                return
            if row.record.verdict == "timeout":
                undecided.append(target)
        open_targets = undecided
        if not open_targets or job.deadline.expired:
            break


def largest(job: Job, *, within: Fraction, certificate: Destination | None = None, **asked: Any) -> None:
    """Close in on the largest radius: broken from above by attacks, certified from below by proofs."""
    asker, others, predicted = open_question(job, **asked)
    asker.certificate = certificate
    asker.begin(others)  # what cannot be certified is said before the search
    asker.end()
    asker.drop(asker.question.eps)
    if predicted in others and _broken_at_once(asker, others):
        return
    limited = asker.engine.timeout is not None
    close_in(_Radii(asker, others), asker.question.eps, job.deadline, limited=limited, within=within)


@dataclasses.dataclass
class _Radii:
    """Asks about one radius after the other, and tells what decides something."""

    asker: Asker
    targets: Sequence[int]
    proved: Fraction | None = None

    def attack(self, eps: Fraction, seconds: float | None) -> bool:
        if self.asker.engine.attack is False:  # --no-attack
            return False
        row = self.asker.attack(eps, eps, self.targets, seconds)
        if row is not None:
            self.asker.job.tell(row)
        return row is not None

    def prove(self, eps: Fraction, seconds: float | None) -> str:
        row = self.asker.ask(eps, eps, self.targets, seconds)
        self.asker.job.tell(row)
        if row.record.verdict == "unsat":
            self.asker.drop(self.proved)
            self.proved = eps
        else:
            self.asker.drop(eps)
        return row.record.verdict


def _broken_at_once(asker: Asker, targets: Sequence[int]) -> bool:
    """Say whether the image itself is a counterexample, which is asked for and replayed as any other."""
    row = asker.ask(Fraction(0), Fraction(0), targets, asker.job.deadline.remaining())
    if row.record.verdict != "sat":
        return False
    asker.job.tell(row)
    return True
