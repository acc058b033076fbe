"""`netproof robust`: does one image keep its label within a radius, and up to which radius?"""

from __future__ import annotations

import functools
import itertools
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Annotated, Any

import typer

from netproof.cli import options
from netproof.cli.commands.verify import ending_code, prepare
from netproof.cli.process.start_time import command_started
from netproof.cli.process.supervisor import Ending, Outcome, supervise
from netproof.cli.robust.question import Question
from netproof.cli.show.output import Hashes, Outputs, blank_record, document, print_err, to_json
from netproof.cli.show.progress import Display
from netproof.cli.show.summary import SHORT, contradiction, summary
from netproof.cli.show.witness_file import form_of
from netproof.core.reasons import CONTRADICTION, INTERRUPTED
from netproof.errors import UsageError
from netproof.workers.worker import Job

NORMS = ("inf", "2", "1")


def robust(
    model: Annotated[str, typer.Argument(metavar="MODEL.onnx", help="A classifier.")],
    image: Annotated[str, typer.Option(metavar="FILE", help="A .png, or an .npy that is the network's own input.")],
    label: Annotated[int, typer.Option(metavar="K", help="The output that must stay the largest.")],
    eps: Annotated[str, typer.Option(metavar="E", help="The radius, as 2/255 or 0.01; of pixels for a .png.")],
    norm: Annotated[str, typer.Option(metavar="inf|2|1", help="The norm of the radius.")] = "inf",
    mean: Annotated[str | None, typer.Option(metavar="M,…", help="Subtracted from pixels; 1 or one a channel.")] = None,
    std: Annotated[str | None, typer.Option(metavar="S,…", help="Divides them then; 1 or one a channel.")] = None,
    clip: Annotated[
        str | None,
        typer.Option(metavar="LO,HI", help="Range of every value. [0,1 for a .png]", show_default=False),
    ] = None,
    targets: Annotated[
        str | None, typer.Option(metavar="K,…", help="Outputs to exclude. [all others]", show_default=False)
    ] = None,
    largest: Annotated[
        bool,
        typer.Option(
            "--largest", help="Find the largest certified radius, from --eps on; without --timeout, 30 s a radius."
        ),
    ] = False,
    timeout: options.Timeout = None,
    device: options.Device = "auto",
    threads: options.Threads = None,
    method: options.Method = "auto",
    settings: options.Set = None,
    no_attack: options.NoAttack = False,
    seed: options.Seed = 0,
    json: options.Json = None,
    witness: options.WitnessFile = None,
    quiet: options.Quiet = False,
) -> int:
    """Prove that every image within a radius keeps its label, target by target.

    Line 1 of stdout is the verdict at --eps; with --largest, lines 2 and 3 are the largest radius that was
    certified and the smallest that was broken.
    """
    started = command_started()
    model = options.model_file(model)
    question = read_question(image, eps, norm, mean, std, clip)
    if largest and question.eps == 0:
        raise UsageError("--eps: --largest cannot start from 0", remedy="start from a small radius, as 1/255")
    engine = options.engine(
        method=method,
        device=device,
        threads=threads,
        timeout=timeout,
        settings=settings,
        seed=seed,
        attack=not no_attack,
    )
    if label < 0:
        raise UsageError(f"--label: {label} is not an output", remedy="outputs count from 0")
    outputs = Outputs({"--json": json, "--witness": witness})
    outputs.check((model, question.image))
    work = functools.partial(
        _work,
        largest=largest,
        engine=engine,
        asked={
            "model": model,
            "question": question,
            "label": label,
            "targets": read_targets(targets),
            "form": form_of(witness),
        },
    )
    run = _Run(engine, question, label, Display(started=started, timeout=timeout, quiet=quiet), largest)
    try:
        outcome = supervise(work, started=started, timeout=timeout, on_event=run.event, on_tick=run.display.tick)
    finally:
        run.display.close()
    record = run.record(outcome)
    record["seconds"]["total"] = time.monotonic() - started
    contents: dict[str, str | bytes | None] = {
        "--witness": run.broken().get("file") or run.broken().get("text") or None
    }
    if json is not None:
        contents["--json"] = to_json(run.document(record, Hashes((model, question.image)), model))
    written = outputs.deliver(contents, run.machine_lines(record))
    if not quiet:
        run.show(record, witness if "--witness" in written else None)
    return outputs.exit_code(ending_code(record, outcome))


def read_question(image: str, eps: str, norm: str, mean: str | None, std: str | None, clip: str | None) -> Question:
    path = options.existing(image) if not image.lower().endswith(".gz") else image
    if not path.lower().endswith((".png", ".npy")):
        raise UsageError("not an image by its name", file=image, remedy="give a .png or an .npy file")
    radius = options.number("--eps", eps)
    if radius < 0:
        raise UsageError(f"--eps: {eps} is negative", remedy="give 0 or more, as 2/255")
    if norm not in NORMS:
        raise UsageError(f"--norm: unknown norm {norm!r}", remedy="use inf, 2 or 1")
    if path.lower().endswith(".npy") and (mean or std):
        raise UsageError(
            "--mean and --std go with a .png; an .npy is the network's own input",
            file=image,
            remedy="leave them out, or give a .png",
        )
    scales = options.numbers("--std", std) if std else None
    if scales and min(scales) <= 0:
        raise UsageError(f"--std: {std} is not positive", remedy="give positive numbers")
    return Question(path, radius, norm, options.numbers("--mean", mean) if mean else None, scales, read_clip(clip))


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


def _work(job: Job, *, largest: bool, engine: options.Engine, asked: dict[str, Any]) -> dict[str, Any]:
    prepare(engine)
    from netproof.cli.robust.work import each_target
    from netproof.cli.robust.work import largest as largest_radius

    return (largest_radius if largest else each_target)(job, engine=engine, **asked)


@dataclass
class _Run:
    """What the worker has told so far, and how it is shown."""

    engine: options.Engine
    question: Question
    label: int
    display: Display
    largest: bool
    targets: list[int] = field(default_factory=list)
    predicted: int | None = None
    rows: dict[int, dict[str, Any]] = field(default_factory=dict)
    probes: list[dict[str, Any]] = field(default_factory=list)

    def event(self, event: dict[str, Any]) -> None:
        if "progress" in event:
            self.display.title = event["title"]
            self.display.update(event["progress"])
        elif "row" in event:
            self.rows[event["row"]["target"]] = event["row"]
        elif "probe" in event:
            self.probes.append(event["probe"])
        else:
            self.targets, self.predicted = event["targets"], event["predicted"]

    @property
    def replies(self) -> list[dict[str, Any]]:
        """The answers at --eps itself; with --largest the first, or that at 0, which is within --eps."""
        return self.probes[:1] if self.largest else list(self.rows.values())

    def broken(self) -> dict[str, Any]:
        """The reply with the counterexample to keep: the first target's, or the smallest radius'."""
        found = [r for r in (self.probes or self.rows.values()) if r["record"]["verdict"] == "sat"]
        return min(found, key=lambda r: r.get("eps", 0), default={})

    def radii(self) -> dict[str, Fraction | None]:
        """The largest radius certified and the smallest broken: 0 when the label is wrong already."""
        by_verdict = {
            word: [p["eps"] for p in self.probes if p["record"]["verdict"] == word] for word in ("unsat", "sat")
        }
        return {
            "certified": max(by_verdict["unsat"], default=None),
            "broken": min(by_verdict["sat"], default=None),
        }

    def record(self, outcome: Outcome) -> dict[str, Any]:
        expected = 1 if self.largest else len(self.targets)
        complete = bool(self.targets) and len(self.replies) == expected
        record = overall([reply["record"] for reply in self.replies], complete=complete)
        wrong = next((r["record"] for r in (*self.probes, *self.rows.values()) if r["record"][CONTRADICTION]), None)
        if wrong is not None:
            return {**record, **contradiction(wrong[CONTRADICTION])}
        certified, broken = self.radii().values()
        if broken == 0 and record["verdict"] == "sat":
            record["reason"] = record["reason"] or f"the network reads the image itself as {self.predicted}"
        if certified is not None and broken is not None and certified >= broken:
            what = f"certified up to eps = {_decimal(certified)}, yet broken at {_decimal(broken)}"
            return {**record, **contradiction({"what": what, "saved": ""})}
        if record["verdict"] in ("sat", "unsat") and outcome.ending != Ending.INTERRUPTED:
            return record
        if outcome.ending == Ending.INTERRUPTED:
            record.update(verdict="unknown", reason=INTERRUPTED, witness=None)
        elif outcome.ending == Ending.TIMEOUT:
            limit = self.engine.timeout
            record.update(verdict="timeout", reason=f"the time limit of {limit:g} s was reached")
        elif outcome.ending == Ending.DIED:
            record.update(verdict="unknown", reason=outcome.reason)
        return record

    def names(self) -> tuple[str, str]:
        """The method and the device that were really used."""
        last: dict[str, Any] = next(reversed(self.replies), {})
        return self.engine.method, last.get("device") or self.engine.device

    def document(self, record: dict[str, Any], hashes: Hashes, model: str) -> dict[str, Any]:
        method, device = self.names()
        last: dict[str, Any] = next(reversed(self.replies), {})
        plain = document(
            record,
            method=method,
            device=device,
            seed=self.engine.seed,
            model=hashes.of_model(model),
            property=hashes.of(self.question.image),
            accelerator=last.get("accelerator") or {},
        )
        plain["robustness"] = {
            "label": self.label,
            "predicted": self.predicted,
            "norm": self.question.norm,
            "eps": str(self.question.eps),
            "targets": [_row_json("target", row) for row in self.rows.values()],
            "probes": [_row_json("eps", probe) for probe in self.probes],
            **{key: None if eps is None else float(eps) for key, eps in self.radii().items()},
        }
        return plain

    def machine_lines(self, record: dict[str, Any]) -> str:
        if self.largest:
            lines = [f"{key} {'none' if eps is None else _decimal(eps)}" for key, eps in self.radii().items()]
            return "\n".join([record["verdict"], *lines]) + "\n"
        return f"{record['verdict']}\n" + (self.broken().get("text", "") if record["verdict"] == "sat" else "")

    def show(self, record: dict[str, Any], saved: str | None) -> None:
        if self.predicted is not None and self.predicted != self.label:
            print_err(f"warning: the network reads {self.question.image} as {self.predicted}, not {self.label}")
        if self.rows or self.probes:
            _table(self.probes or [self.rows[t] for t in self.targets if t in self.rows], self.largest)
        method, device = self.names()
        note = self.broken().get("note")
        if not self.largest or record["reason"] == CONTRADICTION:
            print_err(summary(record, method=method, device=device, saved=saved))
            if note:
                print_err(f"  note: {note}")
            return
        radii = {key: "none" if eps is None else _decimal(eps) for key, eps in self.radii().items()}
        print_err(f"LARGEST: certified up to eps = {radii['certified']}; smallest broken: {radii['broken']}")
        if saved:
            print_err(f"  counterexample saved to {saved}" + (f" ({note})" if note else ""))
        if record["reason"]:
            print_err(f"  {record['reason']}")


def overall(records: Sequence[dict[str, Any]], *, complete: bool) -> dict[str, Any]:
    """One verdict of many: broken if one is, proved only if all are there and all are, none where one contradicts."""
    total = blank_record()
    for record in records:
        for phase, seconds in record["seconds"].items():
            total["seconds"][phase] += seconds
        for key in ("domains", "leaf_lps", "rounds"):
            total[key] += record[key]
        total["peak_memory"] = max(total["peak_memory"], record["peak_memory"])
    lowers, uppers = ([record[key] for record in records] for key in ("lower_bound", "upper_bound"))
    total["lower_bound"] = min(lowers) if complete and lowers and None not in lowers else None
    total["upper_bound"] = min((upper for upper in uppers if upper is not None), default=None)
    kept = ("verdict", "reason", "decided_by", "arithmetic", "witness", CONTRADICTION)
    wrong = (record for record in records if record["reason"] == CONTRADICTION)
    undone = (record for word in ("sat", "timeout", "unknown") for record in records if record["verdict"] == word)
    first = next(itertools.chain(wrong, undone), None)
    if first is not None:
        return {**total, **{k: first[k] for k in kept}}
    if complete and records and all(record["verdict"] == "unsat" for record in records):
        last = max(records, key=lambda record: record["seconds"]["total"])
        return {**total, **{k: last[k] for k in kept}}
    return total


def _row_json(key: str, row: dict[str, Any]) -> dict[str, Any]:
    value = str(row[key]) if key == "eps" else row[key]
    record = row["record"]
    return {
        key: value,
        **{k: record[k] for k in ("verdict", "reason", "lower_bound", "upper_bound", "domains")},
        "seconds": row["seconds"],
    }


def _decimal(eps: Fraction) -> str:
    """As a decimal where that is exact, else as the fraction it is, with its value."""
    text = f"{float(eps):.10g}"
    return text if Fraction(text) == eps else str(eps)


def _table(rows: Sequence[dict[str, Any]], largest: bool) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD)
    for name in ("eps" if largest else "target", "verdict", "lower bound", "domains", "seconds"):
        table.add_column(name, justify="left" if name == "verdict" else "right")
    for row in rows:
        record = row["record"]
        lower = record["lower_bound"]
        word, colour = SHORT[record["verdict"]]
        table.add_row(
            _decimal(row["eps"]) if largest else str(row["target"]),
            f"[{colour}]{word}[/]",
            "" if lower is None else f"{lower:.5g}",
            str(record["domains"]),
            f"{row['seconds']:.2f}",
        )
    Console(stderr=True).print(table)
