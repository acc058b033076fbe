"""`netproof certify`: the clean, attacked and certified accuracy of a data set."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import time
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any

import typer

from netproof.certificate.room import Room
from netproof.certificate.state import SECONDS as CERTIFICATE_SECONDS
from netproof.certificate.wish import Wish
from netproof.cli import options
from netproof.cli.certify.places import Places
from netproof.cli.certify.source import Source, find_source
from netproof.cli.commands.verify import prepare
from netproof.cli.exits import EXIT_BELOW, EXIT_BUG, EXIT_INTERRUPTED, EXIT_USAGE
from netproof.cli.process.command_line import command_line
from netproof.cli.process.start_time import command_started
from netproof.cli.process.supervisor import Ending, Outcome, supervise
from netproof.cli.robust.command import Norm, read_question
from netproof.cli.robust.preprocess import (
    NORMALISED,
    Clip,
    Mean,
    Preprocess,
    Preprocessing,
    Resize,
    Std,
    read_preprocessing,
)
from netproof.cli.robust.question import Question
from netproof.cli.show.output import Outputs, print_err, text_table, to_json
from netproof.cli.show.progress import Display
from netproof.core.about import About
from netproof.core.files import sha256
from netproof.core.machine.describe import describe, in_words
from netproof.core.machine.versions import build, versions
from netproof.core.reasons import CONTRADICTION
from netproof.dataset.result import Certification, ImageStatus, percent
from netproof.dataset.store import COLUMNS, COUNTEREXAMPLES, NAME, OF_CERTIFICATES, Kept, Store, stands
from netproof.errors import UsageError
from netproof.run.schema import VERSION
from netproof.workers.worker import Job

SHOWN = 20  # images without a proof that are listed at the end
SECONDS = 60.0  # for each image, where nothing else is said

Data = Annotated[
    str,
    typer.Option(metavar="X.npz|DIR", help="An .npz with X (N, *input) and y (N,), or a folder of labelled images."),
]
Eps = Annotated[str, typer.Option(metavar="E", help="The radius, as 2/255 or 0.01; of pixels for image files.")]
Timeout = Annotated[float, typer.Option(metavar="S", help="Seconds for each image.")]
Out = Annotated[
    str | None,
    typer.Option(
        metavar="DIR",
        help="Keep the answers there as they come, results.csv and a page; goes on if run again.",
        callback=options.not_empty,
    ),
]
AtLeast = Annotated[
    str | None, typer.Option(metavar="SHARE", help="Exit with 3 if less is certified, as 0.8; for a CI.")
]
First = Annotated[
    int | None, typer.Option(metavar="N", help="Only the first N images. (default: all)", show_default=False)
]
Only = Annotated[
    str | None,
    typer.Option(metavar="N,N", help="Only the images of these numbers, counted from 0.", show_default=False),
]
OTHERS = (
    "--out",
    "--json",
    "--at-least",
    "--first",
    "--only",
    "--certificates",
)  # what a question about one image is asked without


def certify(
    model: Annotated[str, typer.Argument(metavar="MODEL.onnx", help="A classifier.")],
    data: Data,
    eps: Eps,
    norm: Norm = "inf",
    clip: Clip = None,
    preprocess: Preprocess = None,
    mean: Mean = None,
    std: Std = None,
    resize: Resize = False,
    timeout: Timeout = SECONDS,
    out: Out = None,
    at_least: AtLeast = None,
    first: First = None,
    only: Only = None,
    device: options.Device = "auto",
    threads: options.Threads = None,
    method: options.Method = "auto",
    settings: options.Set = None,
    attack: options.Attack = None,
    seed: options.Seed = 0,
    json: options.Json = None,
    certificates: options.Certificates = None,
    certificate_timeout: options.CertificateTimeout = CERTIFICATE_SECONDS,
    certificate_check: options.CertificateCheck = True,
    quiet: options.Quiet = False,
) -> int:
    """Measure how many images of a data set are read right, withstand an attack, and are proved to keep their label.

    The last line of stdout is: clean, attacked and certified accuracy, how many are open, how many there are.
    """
    started = command_started()
    model = options.model_file(model)
    wanted = _share(at_least)
    source = find_source(data, first, only)
    pixels = read_preprocessing(preprocess, mean, std, resize=resize)
    question = _question(source, eps, norm, clip, pixels)
    engine = options.engine(
        method=method, device=device, threads=threads, timeout=timeout, settings=settings, seed=seed, attack=attack
    )
    outputs = Outputs({"--json": json})
    outputs.check((model, *pixels.files, *source.read, *_written(out)))
    _refuse_inside(out, source)
    plain = source.files is not None and question.mean is None and question.std is None and not question.is_array
    run = _Run(engine, Display(started=started, timeout=None, quiet=quiet), out, hint=plain)
    with contextlib.ExitStack() as until_the_end:
        if certificates is not None:
            room = Room.within(Wish.folder_at(certificates))
            run.wish = Wish(room.path.parent, room.path, certificate_timeout, certificate_check)
            until_the_end.enter_context(contextlib.closing(room))
        run.take_up(model, source, question, quiet=quiet)
        places = Places(out, run.wish, frozenset(run.kept))
        work = functools.partial(_work, model=model, source=source, question=question, engine=engine, places=places)
        for part in (run.display, run):
            until_the_end.enter_context(contextlib.closing(part))
        outcome = supervise(work, started=started, on_event=run.event, on_tick=run.display.tick)
    found = run.found(str(question.eps), norm, time.monotonic() - started)
    run.deliver(found, outputs, model, quiet=quiet)
    return outputs.exit_code(run.code(found, outcome, wanted, quiet=quiet))


def _share(text: str | None) -> Fraction | None:
    if text is None:
        return None
    share = options.number("--at-least", text)
    if not 0 <= share <= 1:
        raise UsageError(f"--at-least: {text} is not a share of the images", remedy="give 0 to 1, as 0.8")
    return share


def _written(out: str | None) -> list[str]:
    """List the files of a folder for the answers, which no option may replace."""
    names = (NAME, "results.csv", "index.html", "accuracy.csv", "accuracy.tex")
    return [] if out is None else [str(Path(out, name)) for name in names]


def _refuse_inside(out: str | None, source: Source) -> None:
    """Refuse a data set that the run's own files might replace."""
    if out is None:
        return
    taken = {Path(path).resolve() for path in _written(out)}
    for path in map(Path, source.read):
        real = path.resolve()
        if real in taken or real.parent == Path(out, COUNTEREXAMPLES).resolve():
            raise UsageError("--out would write over the data set", file=str(path), remedy="give another folder")


def _question(source: Source, eps: str, norm: str, clip: str | None, pixels: Preprocessing) -> Question:
    """Read the radius and what is done to pixels, as `robust` does for one image."""
    if source.files is None:
        pixels.refuse(source.path, "an .npz holds the network's own inputs")
    for name, _ in source.files or ():
        if name.lower().endswith(".npy"):
            pixels.refuse(str(Path(source.path, name)), "an .npy is the network's own input")
    image = source.path if source.files is None else str(Path(source.path, source.files[0][0]))
    return read_question(image, eps, norm, clip, pixels, named=source.files is not None)


def _work(job: Job, *, engine: options.Engine, **asked: Any) -> None:
    prepare(engine)
    from netproof.cli.certify.work import certify_all

    certify_all(job, engine=engine, **asked)


@dataclass
class _Run:
    """The answers so far, and where they are kept."""

    engine: options.Engine
    display: Display
    out: str | None
    kept: dict[int, Kept] = field(default_factory=dict)
    images: int | None = None
    gpu: str | None = None  # its name, where one was used
    about: About | None = None  # the network, once it is read
    hint: bool = False  # whether pictures are taken without any preprocessing
    wish: Wish | None = None  # for certificates
    _store: Store | None = None

    def take_up(self, model: str, source: Source, question: Question, *, quiet: bool) -> None:
        """Find what an earlier run of the same command has answered."""
        if self.out is None:
            return
        words = f"{model} on {source.path}, eps {question.eps}, norm {question.norm}, by netproof {build()}"
        with Store(Path(self.out, NAME)) as store:
            store.belong_to(_key(model, source, question, self.engine), words)
            answers, self.about = store.answers(), store.about()
        asked = [kept for index, kept in answers.items() if source.wants(index)]
        self.kept = {kept.result.index: kept for kept in asked if stands(kept, self.engine.timeout, self.wish)}
        if self.kept and not quiet:
            print_err(f"netproof: {len(self.kept)} answers are kept in {self.out} and stand")

    def event(self, event: Any) -> None:
        if isinstance(event, Kept):
            self.kept[event.result.index] = event
            if self.out is not None:
                self._store = self._store or Store(Path(self.out, NAME))  # after the fork: a connection has one process
                self._store.add(event)
        elif "progress" in event:
            self.display.update(event)
        else:
            self.images, self.gpu, self.about = event["images"], event["gpu"], event["about"]
            if self.out is not None and self.about is not None:
                self._store = self._store or Store(Path(self.out, NAME))
                self._store.note(self.about)

    def found(self, eps: str, norm: str, seconds: float) -> Certification:
        """Return the answers so far."""
        return Certification(
            tuple(kept.result for _, kept in sorted(self.kept.items())), eps, norm, seconds, self.about
        )

    def close(self) -> None:
        if self._store is not None:
            self._store.close()

    def deliver(self, found: Certification, outputs: Outputs, model: str, *, quiet: bool) -> None:
        """Write the files, then stdout, then what is for people."""
        if self.out is not None and len(found):
            self._write(found, Path(self.out), model, quiet=quiet)
        counted = {
            "schema": VERSION,
            **found.to_dict(),
            "complete": self.complete,
            "method": self.engine.method,
            "model": model,
            "certificates": self.certificates(found),
        }
        lines = text_table(("status", "images", "share"), _rows(found), 1) + f"{found.line()}\n"
        if not quiet:
            self._list(found)
            self._list_certificates(found)
            if self.hint and 2 * found.counts["misread"] > len(found):
                print_err(
                    f"netproof: warning: {found.counts['misread']} of {len(found)} images are misread; {NORMALISED}"
                )
        outputs.deliver({"--json": to_json(counted) if outputs.paths["--json"] else None}, lines)

    def certificates(self, found: Certification) -> dict[str, Any] | None:
        """Count the certificates of proofs; None where none were asked for."""
        if self.wish is None:
            return None
        proofs = [image for image in found if image.status == ImageStatus.PROVED]
        states = [image.certificate for image in proofs if image.certificate is not None]
        return {
            "folder": str(self.wish.folder),
            "proofs": len(proofs),
            "written": sum(state["written"] for state in states),
            "accepted": sum(state["checked"] is True for state in states),
        }

    @property
    def complete(self) -> bool:
        return self.images is not None and len(self.kept) == self.images

    def _write(self, found: Certification, folder: Path, model: str, *, quiet: bool) -> None:
        from netproof.report.dataset import write_page
        from netproof.report.files import write_csv

        rows = [(*kept.row, *kept.of_certificate) for _, kept in sorted(self.kept.items())]
        header = (*COLUMNS, *OF_CERTIFICATES)
        write_csv(folder / "results.csv", [header, *(["" if cell is None else cell for cell in row] for row in rows)])
        title = f"netproof certify: {Path(model).name}"
        again = f"{command_line(without=OTHERS)} --only"
        page = write_page(found, self.kept, folder / "index.html", title=title, facts=self._facts(), again=again)
        if not quiet:
            print_err(f"netproof: wrote {folder / 'results.csv'} and {page}")

    def _facts(self) -> list[tuple[str, str]]:
        """Return what a reader of the page must know of the run."""
        said = ", ".join(f"{name} {version}" for name, version in versions().items() if version)
        limit = "none" if self.engine.timeout is None else f"{self.engine.timeout:g} s"
        return [
            ("Machine", in_words({**describe(), "gpu": self.gpu})),
            ("Versions", said),
            ("Method, time limit for each image", f"{self.engine.method}, {limit}"),
            ("Command", f"`{command_line()}`"),
        ]

    def _list(self, found: Certification) -> None:
        """List the images that are not proved, the first of them."""
        failed = [image for image in found if image.status != ImageStatus.PROVED]
        for image in failed[:SHOWN]:
            read = "" if image.read_as is None else f", read as {image.read_as}"
            why = f" ({image.reason})" if image.reason else ""
            print_err(f"  {image.status} {self.kept[image.index].name}: label {image.label}{read}{why}")
        if len(failed) > SHOWN:
            print_err(
                f"  … and {len(failed) - SHOWN} more without a proof" + ("" if self.out else " (see --out, --json)")
            )

    def _list_certificates(self, found: Certification) -> None:
        """Say how many proofs have a certificate, and why others have none."""
        counted = self.certificates(found)
        if counted is None:
            return
        said = "{accepted} of {proofs} proofs have a certificate that npcheck accepts, in {folder}".format(**counted)
        if self.wish is not None and not self.wish.check:
            said = "{written} of {proofs} proofs have a certificate, not checked, in {folder}".format(**counted)
        print_err(f"netproof: {said}")
        states = [(image, image.certificate) for image in found if image.status == ImageStatus.PROVED]
        missing = [(image, state) for image, state in states if state is None or state["reason"]]
        for image, state in missing[:SHOWN]:
            print_err(f"  {self.kept[image.index].name}: {'it was not finished' if state is None else state['reason']}")
        if len(missing) > SHOWN:
            print_err(f"  … and {len(missing) - SHOWN} more")

    def _of_certificates(self, found: Certification) -> int:
        """Return the exit code for certificates that are not there, or that npcheck does not accept."""
        counted = self.certificates(found)
        if any(image.certificate is not None and image.certificate["checked"] is False for image in found):
            return EXIT_BUG
        return 0 if counted is None or counted["written"] == counted["proofs"] else EXIT_USAGE

    def code(self, found: Certification, outcome: Outcome, wanted: Fraction | None, *, quiet: bool) -> int:
        """Return the exit code, and say why it is not 0."""
        if outcome.ending == Ending.INTERRUPTED:
            again = "the same command goes on" if self.out else "with --out DIR the same command would go on"
            print_err(f"netproof: interrupted; {len(self.kept)} of {self.images or 'all'} images are answered, {again}")
            return EXIT_INTERRUPTED
        if outcome.ending != Ending.FINISHED:
            print_err(f"netproof: the work ended early: {outcome.reason}")
            return EXIT_BUG
        if any(image.reason.startswith(CONTRADICTION) for image in found):
            print_err("netproof: CONTRADICTION: evidence of an image contradicts itself; please report the case")
            return EXIT_BUG
        if wanted is not None and Fraction(found.counts["proved"], max(1, len(found))) < wanted:
            if not quiet:
                print_err(f"netproof: certified {percent(found.certified)}, below the {percent(float(wanted))} wanted")
            return EXIT_BELOW
        return self._of_certificates(found)


def _key(model: str, source: Source, question: Question, engine: options.Engine) -> str:
    """Hash what an answer depends on, the time limit aside."""
    asked = {
        "netproof": build(),
        "model": sha256(model),
        "data": source.digest(),
        "question": [str(value) for name, value in vars(question).items() if name != "image"],
        "engine": [engine.method, sorted(engine.options.items()), engine.seed, engine.attack],
    }
    return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()


def _rows(found: Certification) -> list[tuple[str, str, str]]:
    total = max(1, len(found))
    order = ("proved", "open", "broken", "misread")
    return [(name, str(found.counts[name]), percent(found.counts[name] / total)) for name in order]
