"""`netproof robust`: does one image keep its label within a radius, and up to which radius?"""

from __future__ import annotations

import contextlib
import functools
import itertools
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Annotated, Any

import typer

from netproof.certificate.state import SECONDS
from netproof.cli import options
from netproof.cli.commands.verify import prepare
from netproof.cli.process.start_time import command_started
from netproof.cli.process.supervisor import Ending, Outcome
from netproof.cli.robust.limit import supervise_image
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
from netproof.cli.robust.question import PICTURES, Question, Row, part_of, shown_radius
from netproof.cli.show.answer import Answer, deliver, document, ending_code
from netproof.cli.show.certificate import Wanted, tell_with, wanted_certificate
from netproof.cli.show.layout import Column, fitting_table
from netproof.cli.show.output import Hashes, Outputs, print_err
from netproof.cli.show.progress import Display
from netproof.cli.show.seen import check_picture
from netproof.cli.show.summary import SHORT, summary
from netproof.cli.show.witness_file import form_of
from netproof.core.reasons import CONTRADICTION
from netproof.core.verdict import PHASES
from netproof.dataset.bracket import PRECISION, share, why_none_certified
from netproof.errors import UsageError
from netproof.run.record import Record
from netproof.workers.worker import Job

NORMS = ("inf", "2", "1")


Image = Annotated[str, typer.Option(metavar="FILE", help="A .png or .jpg, or an .npy that is the network's own input.")]
Label = Annotated[
    int | None,
    typer.Option(metavar="K", help="The output that must stay the largest. (default: what it is read as)"),
]
Eps = Annotated[str, typer.Option(metavar="E", help="The radius, as 2/255 or 0.01; of pixels for a picture.")]
Norm = Annotated[str, typer.Option(metavar="inf|2|1", help="The norm of the radius.")]
Targets = Annotated[
    str | None, typer.Option(metavar="K,…", help="Outputs to exclude. (default: all others)", show_default=False)
]
EveryTarget = Annotated[
    bool, typer.Option("--every-target", help="Go on after the first target that is broken, and ask about all.")
]
Largest = Annotated[
    bool,
    typer.Option(
        "--largest",
        help="Close in on the largest radius from both sides, from --eps on; without --timeout, 30 s per proof.",
    ),
]
Within = Annotated[
    str | None,
    typer.Option(
        metavar="SHARE",
        help="The share of the smallest broken radius that --largest may leave open. (default: 0.01)",
        show_default=False,
    ),
]


def robust(
    model: Annotated[str, typer.Argument(metavar="MODEL.onnx", help="A classifier.")],
    image: Image,
    eps: Eps,
    label: Label = None,
    norm: Norm = "inf",
    preprocess: Preprocess = None,
    mean: Mean = None,
    std: Std = None,
    resize: Resize = False,
    clip: Clip = None,
    targets: Targets = None,
    every_target: EveryTarget = False,
    largest: Largest = False,
    within: Within = None,
    timeout: options.Timeout = None,
    device: options.Device = "auto",
    threads: options.Threads = None,
    method: options.Method = "auto",
    settings: options.Set = None,
    attack: options.Attack = None,
    seed: options.Seed = 0,
    memory: options.Memory = None,
    output: options.Output = None,
    json: options.Json = None,
    witness: options.WitnessFile = None,
    picture: options.PictureFile = None,
    certificate: options.Certificate = None,
    certificate_timeout: options.CertificateTimeout = SECONDS,
    certificate_check: options.CertificateCheck = True,
    quiet: options.Quiet = False,
) -> int:
    """Prove that every image within a radius keeps its label, target by target, up to the first that is broken.

    Line 1 of stdout is the verdict at --eps. With --largest it is that at the largest radius that was certified, and
    lines 2 and 3 are this radius and the smallest that was broken. A certificate is about this radius and all targets.
    """
    started = command_started()
    model = options.model_file(model)
    pixels = read_preprocessing(preprocess, mean, std, resize=resize)
    question = read_question(image, eps, norm, clip, pixels)
    _check(question, label, largest=largest, every=every_target)
    asked: dict[str, Any] = {"model": model, "question": question, "label": label, "targets": read_targets(targets)}
    asked |= {"every": every_target, "within": _share(within, largest=largest)}
    engine = options.engine(
        method=method, device=device, threads=threads, timeout=timeout, settings=settings, seed=seed, attack=attack
    ).asking(output, memory)
    paths = {"--json": json, "--witness": witness, "--picture": check_picture(picture), "--certificate": certificate}
    outputs = Outputs(paths)
    outputs.check((model, question.image, *pixels.files))
    asked["forms"] = (form_of(witness), *(["picture"] if picture is not None else []))
    run = _Run(engine, question, label, Display(started=started, timeout=timeout, quiet=quiet), largest)
    with wanted_certificate(certificate, certificate_timeout, certificate_check, model=model) as wanted:
        work = functools.partial(_work, engine=engine, certificate=wanted and wanted.destination, **asked)
        with contextlib.closing(run.display):
            outcome = supervise_image(work, question, model, run.event, run.display.tick, started, timeout)
        found = run.answer(outcome)
        found.record.lasted(time.monotonic() - started)
        last = run.deliver(found, outputs, model, wanted, quiet=quiet)
    return outputs.exit_code(ending_code(found.record, outcome)) or last


def _check(question: Question, label: int | None, *, largest: bool, every: bool) -> None:
    """Raise UsageError for what cannot be asked, before anything is loaded."""
    if largest and every:
        raise UsageError("--every-target: --largest asks about all targets at once", remedy="leave one of them out")
    if largest and question.eps == 0:
        raise UsageError("--eps: --largest cannot start from 0", remedy="start from a small radius, as 1/255")
    if label is not None and label < 0:
        raise UsageError(f"--label: {label} is not an output", remedy="outputs count from 0")


def _share(within: str | None, *, largest: bool) -> Fraction | None:
    """Return by which share both sides of --largest may differ; None without it."""
    if not largest and within is not None:
        raise UsageError("--within: there is nothing to close in on", remedy="leave it out, or give --largest")
    given = PRECISION if within is None else share(options.number("--within", within), "--within")
    return given if largest else None


def read_question(
    image: str, eps: str, norm: str, clip: str | None, pixels: Preprocessing, *, named: bool = True
) -> Question:
    """Read what is asked about an image; named: whether its name must say that it is one."""
    path = options.existing(image) if not image.lower().endswith(".gz") else image
    if named and not path.lower().endswith((*PICTURES, ".npy")):
        raise UsageError("not an image by its name", file=image, remedy="give a .png, a .jpg or an .npy file")
    radius = options.number("--eps", eps)
    if radius < 0:
        raise UsageError(f"--eps: {eps} is negative", remedy="give 0 or more, as 2/255")
    if norm not in NORMS:
        raise UsageError(f"--norm: unknown norm {norm!r}", remedy="use inf, 2 or 1")
    if path.lower().endswith(".npy"):
        pixels.refuse(image, "an .npy is the network's own input")
    return Question(path, radius, norm, pixels.mean, pixels.std, read_clip(clip), pixels.resize)


def read_clip(text: str | None) -> tuple[Fraction, Fraction] | None:
    if text is None:
        return None
    sides = options.numbers("--clip", text)
    if len(sides) != 2 or sides[0] >= sides[1]:
        raise UsageError(f"--clip: {text!r} is not LO,HI with LO below HI", remedy="as in --clip 0,1")
    return sides[0], sides[1]


def read_targets(text: str | None) -> tuple[int, ...] | None:
    if text is None:
        return None
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise UsageError(f"--targets: {text!r} is not a list of outputs", remedy="as in --targets 3,5") from None


def _work(job: Job, *, within: Fraction | None, every: bool, engine: options.Engine, **asked: Any) -> None:
    prepare(engine)
    from netproof.cli.robust import work

    if within is not None:
        work.largest(job, within=within, engine=engine, **asked)
    else:
        work.each_target(job, engine=engine, every=every, **asked)


@dataclass
class _Run:
    """What the worker has told so far, and how it is shown."""

    engine: options.Engine
    question: Question
    label: int | None  # None until the network has said it
    display: Display
    largest: bool
    targets: list[int] = field(default_factory=list)
    predicted: int | None = None
    notes: Sequence[str] = ()  # what was done to the image
    rows: dict[int | Fraction, Row] = field(default_factory=dict)

    def event(self, event: Any) -> None:
        if isinstance(event, Row):
            self.rows[event.key] = event
        elif "progress" in event:
            self.display.update(event)
        else:
            self.targets, self.predicted = event["targets"], event["predicted"]
            self.label, self.notes = event["label"], event["notes"]

    @property
    def at_eps(self) -> list[Row]:
        """Return the answers at --eps; with --largest that at the radius which is the result."""
        if not self.largest:
            return list(self.rows.values())
        certified, broken = self.radii().values()
        result = self.rows.get(broken if certified is None else certified) if self.rows else None  # type: ignore[arg-type]
        return list(self.rows.values())[-1:] if result is None else [result]

    @property
    def broken(self) -> Row | None:
        """Return the counterexample to keep: the first target's, or that of the smallest radius."""
        found = [row for row in self.rows.values() if row.record.verdict == "sat"]
        return min(found, key=lambda row: row.key if self.largest else 0, default=None)

    def radii(self) -> dict[str, Fraction | None]:
        """Return the largest radius certified and the smallest broken: 0 when the label is wrong already."""
        unsat, sat = (
            [Fraction(row.key) for row in self.rows.values() if self.largest and row.record.verdict == word]
            for word in ("unsat", "sat")
        )
        return {"certified": max(unsat, default=None), "broken": min(sat, default=None)}

    def answer(self, outcome: Outcome) -> Answer:
        """Make one answer of all, with the device that was really used and the counterexample to keep."""
        last = self.at_eps[-1].answer if self.rows else Answer(Record(), self.engine.device)
        broken = Answer(Record(), "") if self.broken is None else self.broken.answer
        return Answer(
            self.record(outcome),
            last.device,
            broken.saved,
            broken.note,
            last.accelerator,
            seen=broken.seen,
            undrawn=broken.undrawn,
        )

    def record(self, outcome: Outcome) -> Record:
        expected = 1 if self.largest else len(self.targets)
        complete = bool(self.targets) and len(self.at_eps) == expected
        record = overall([row.record for row in self.at_eps], complete=complete)
        if self.largest:  # what it took is that of all radii
            record = record.but(**_work_of([row.record for row in self.rows.values()]))
        wrong = next((row.record.contradiction for row in self.rows.values() if row.record.contradiction), None)
        certified, broken = self.radii().values()
        if wrong is None and certified is not None and broken is not None and certified >= broken:
            what = f"certified up to eps = {shown_radius(certified)}, yet broken at {shown_radius(broken)}"
            wrong = {"what": what, "saved": ""}
        if wrong is not None:
            return record.undecided("unknown", CONTRADICTION).but(contradiction=wrong)
        if broken == 0 and record.verdict == "sat" and not record.reason:
            record = record.but(reason=f"the network reads the image itself as {self.predicted}")
        elif self.largest and certified is None:
            record = self._none_certified(record)
        # A replayed counterexample, or all proofs, stand whatever ended the run; a bracket does not.
        decided = record.solved and not (self.largest and outcome.ending == Ending.INTERRUPTED)
        if decided or outcome.ending == Ending.FINISHED:
            return record
        return record.undecided(outcome.verdict, outcome.reason)

    def _none_certified(self, record: Record) -> Record:
        """Return it with the reason why no radius is certified; where none was decided either, that is the time."""
        if record.verdict == "sat":
            left_open = {Fraction(row.key): row.record.reason for row in self.rows.values() if not row.record.solved}
            return record.but(reason="; ".join(filter(None, [record.reason, why_none_certified(left_open)])))
        return record if self.rows else record.but(verdict="timeout", reason=why_none_certified({}))

    def rows_json(self) -> dict[str, Any]:
        """Make what --json has beyond one verdict."""
        rows = [_row_json("eps" if self.largest else "target", row) for row in self.rows.values()]
        seen = None if self.broken is None else self.broken.answer.seen
        return {
            "label": self.label,
            "predicted": self.predicted,
            "norm": self.question.norm,
            "eps": str(self.question.eps),
            "targets": [] if self.largest else rows,
            "probes": rows if self.largest else [],
            **{key: None if eps is None else float(eps) for key, eps in self.radii().items()},
            "counterexample": None if seen is None else seen.to_dict(),
        }

    def machine_lines(self, record: Record) -> str:
        if self.largest:
            return (
                "\n".join([record.verdict, *(f"{key} {shown_radius(eps)}" for key, eps in self.radii().items())]) + "\n"
            )
        broken = self.broken
        return f"{record.verdict}\n" + (broken.record.text if broken and record.verdict == "sat" else "")

    def deliver(self, found: Answer, outputs: Outputs, model: str, wanted: Wanted | None, *, quiet: bool) -> int:
        """Write the files, then stdout, then the table and a summary for people, and then the certificate.

        Return the exit code for the latter.
        """
        asked, lines = (model, self.question.image), self.machine_lines(found.record)

        def tell(found: Answer) -> None:
            saved = deliver(found, lines, self.engine, outputs, asked, robustness=self.rows_json())
            if not quiet:
                self.show(found, saved)

        def document_of(found: Answer) -> Mapping[str, Any]:
            return {**document(found, self.engine, asked, Hashes(asked)), "robustness": self.rows_json()}

        proved = self.radii()["certified"] if self.largest else self.question.eps
        part = "" if proved is None else part_of(proved)
        return tell_with(wanted, found, outputs, tell, document_of, quiet=quiet, part=part)

    def show(self, found: Answer, saved: Sequence[str]) -> None:
        for note in self.notes:
            print_err(f"note: {note}")
        if self.predicted is not None and self.predicted != self.label:
            missing = self.question.mean is None and self.question.std is None and not self.question.is_array
            hint = f"; {NORMALISED}" if missing else ""
            print_err(f"warning: the network reads {self.question.image} as {self.predicted}, not {self.label}{hint}")
        if self.rows:
            _table(self.rows.values(), self.largest)
        record, note = found.record, found.note
        if not self.largest or record.reason == CONTRADICTION:
            shown = found.seen if record.verdict == "sat" else None
            about: dict[str, Any] = {
                "method": self.engine.method,
                "device": found.device,
                "saved": saved,
                "seen": shown,
            }
            print_err(summary(record, **about, on_terminal=sys.stdout.isatty()))
            if note:
                print_err(f"  note: {note}")
            return
        certified, broken = map(shown_radius, self.radii().values())
        print_err(f"LARGEST: certified up to eps = {certified}; smallest broken: {broken}")
        if found.seen is not None:
            print_err(f"  there it is {found.seen.words}")
        if saved:
            print_err(f"  counterexample saved to {' and '.join(saved)}" + (f" ({note})" if note else ""))
        if record.reason:
            print_err(f"  {record.reason}")


def overall(records: Sequence[Record], *, complete: bool) -> Record:
    """Make one verdict of many: broken if one is, proved if all are there and all are, none where one contradicts."""
    wrong = (record for record in records if record.reason == CONTRADICTION)
    undone = (record for word in ("sat", "timeout", "unknown") for record in records if record.verdict == word)
    longest = sorted(records, key=lambda record: -record.seconds["total"])[:1] if complete else []
    of = next(itertools.chain(wrong, undone, longest), Record())
    lowers = [record.lower_bound for record in records if record.lower_bound is not None]
    uppers = [record.upper_bound for record in records if record.upper_bound is not None]
    return of.but(
        lower_bound=min(lowers, default=None) if complete and len(lowers) == len(records) else None,
        upper_bound=min(uppers, default=None),
        about=next((record.about for record in records if record.about is not None), None),
        **_work_of(records),
    )


def _work_of(records: Sequence[Record]) -> dict[str, Any]:
    """Add up what several runs took."""
    return {
        "seconds": {phase: sum(record.seconds[phase] for record in records) for phase in PHASES},
        "peak_memory": max((record.peak_memory for record in records), default=0),
        "peak_host_memory": max((record.peak_host_memory for record in records), default=0),
        "split": None if any(r.split is None for r in records) else sum(r.split or 0 for r in records),
        "cut_in_lp": None if any(r.cut_in_lp is None for r in records) else any(r.cut_in_lp for r in records),
        **{name: sum(getattr(record, name) for record in records) for name in ("domains", "leaf_lps", "rounds")},
    }


def _row_json(name: str, row: Row) -> dict[str, Any]:
    record = row.record
    return {
        name: str(row.key) if name == "eps" else row.key,
        **{key: getattr(record, key) for key in ("verdict", "reason", "lower_bound", "upper_bound", "domains")},
        "seconds": row.seconds,
    }


def _table(rows: Iterable[Row], largest: bool) -> None:
    from rich.console import Console

    columns = [
        Column("eps" if largest else "target", right=True),
        Column("verdict"),
        Column("lower bound", 1, right=True),
        Column("domains", 2, right=True),
        Column("seconds", 3, right=True),
    ]
    cells = [
        (
            shown_radius(row.key),
            "[{1}]{0}[/]".format(*SHORT[row.record.verdict]),
            "" if row.record.lower_bound is None else f"{row.record.lower_bound:.5g}",
            str(row.record.domains),
            f"{row.seconds:.2f}",
        )
        for row in rows
    ]
    console = Console(stderr=True, emoji=False)
    console.print(fitting_table(columns, cells, console.width))
