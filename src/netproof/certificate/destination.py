"""A certificate that is asked for, before it is known which files it is about. No numpy here."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from netproof.certificate.state import SECONDS
from netproof.errors import UsageError, of_path

if TYPE_CHECKING:
    from netproof.certificate.record import Recording
    from netproof.certificate.request import Request
    from netproof.model.combined import AnyNetwork
    from netproof.problem.property import Property

SUFFIX = ".npcert"
MODEL, SPEC, HINTS, UNFINISHED = "model.onnx", "spec.vnnlib", "hints", "unfinished"  # in the folder


@dataclass(frozen=True)
class Destination:
    """Where a certificate goes, and a folder for what is not finished: hints, and files that are to stand beside it."""

    path: Path
    folder: Path
    seconds: float = SECONDS
    check: bool = True
    at_once: bool = True  # whether it is written by the process that searched, before that answers
    model: Path | None = None  # the files of the question, as far as it came from any
    spec: Path | None = None

    def begin(self, model: Any, spec: Any, network: AnyNetwork, property: Property) -> Recording:
        """Begin to keep hints; UsageError where no certificate can be about the question.

        model, spec: as `verify` was given them; network, property: what it made of them.
        """
        from netproof.certificate.installed import require_npcheck

        require_npcheck()
        from netproof.certificate.question import Question, check_alike, may_replace
        from netproof.certificate.record import Recording

        for asked in (self.model or model, self.spec or spec):
            there = isinstance(asked, str | Path) and self.path.exists() and os.path.exists(asked)
            if there and self.path.samefile(asked):
                raise UsageError(f"the certificate would overwrite {asked}", remedy="give it another name")
        question = Question.of(self.model or model, self.spec or spec, network, property)
        try:
            self.folder.mkdir(exist_ok=True)
        except OSError as error:
            raise of_path(error) from None
        files = question.model_in(self.folder), question.spec_in(self.folder)
        for file in files:
            name = beside(self.path, file.suffix)
            if file.parent == self.folder and not may_replace(name):
                raise UsageError(
                    "the question would be written there, over a file that is none of netproof's",
                    file=str(name),
                    remedy="give the certificate another name",
                )
        request = self.request(*files)
        try:
            subject = request.subject()
            check_alike(network, subject)
            return Recording.of(request, subject)
        except UsageError as error:  # files of the folder are not for people
            said = error.message.replace(str(self.folder / MODEL), network.path)
            error.message = said.replace(str(self.folder / SPEC), "the question in VNN-LIB")
            raise

    def request(self, model: Path | None = None, spec: Path | None = None) -> Request:
        """Return what is to be written; without files, after `begin`, those of the folder, else of the question."""
        from netproof.certificate.request import Request

        files = self._found(model or self.model, MODEL), self._found(spec or self.spec, SPEC)
        return Request(
            self.path, *files, self.folder / HINTS, self.seconds, self.check, self.at_once, folder=self.folder
        )

    def _found(self, given: Path | None, name: str) -> Path:
        written = self.folder / name
        return written if given is None or written.is_file() else given


def beside(path: Path, suffix: str) -> Path:
    """Name a file of the question beside its certificate."""
    return path.with_name(path.name.removesuffix(SUFFIX) + suffix)
