"""`netproof verify MODEL.onnx SPEC.vnnlib`: one question, one answer."""

from __future__ import annotations

import contextlib
import functools
import gc
import importlib
import os
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

import typer

from netproof.cli import options
from netproof.cli.exits import EXIT_BUG, EXIT_INTERRUPTED
from netproof.cli.process.start_time import command_started
from netproof.cli.process.supervisor import Ending, Outcome, supervise
from netproof.cli.show.output import Hashes, Outputs, print_err, to_json
from netproof.cli.show.progress import Display
from netproof.cli.show.summary import summary
from netproof.cli.show.witness_file import Saver, form_of, image_layout
from netproof.core.reasons import CONTRADICTION
from netproof.core.versions import accelerator, versions
from netproof.run.record import Record
from netproof.workers.worker import Job

if TYPE_CHECKING:
    from netproof.core.verdict import Verdict


def verify(
    files: Annotated[list[str], typer.Argument(metavar="MODEL.onnx SPEC.vnnlib", help="In either order; .gz too.")],
    timeout: options.Timeout = None,
    device: options.Device = "auto",
    threads: options.Threads = None,
    method: options.Method = "auto",
    settings: options.Set = None,
    no_attack: options.NoAttack = False,
    seed: options.Seed = 0,
    json: options.Json = None,
    results_file: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write what goes to stdout, as VNN-COMP wants it.")
    ] = None,
    witness: options.WitnessFile = None,
    quiet: options.Quiet = False,
) -> int:
    """Prove that a network satisfies a property, or break it with a counterexample.

    Line 1 of stdout is unsat (it holds), sat (it does not), unknown or timeout; after sat, the witness.
    """
    started = command_started()
    model, spec = options.model_and_spec(files)
    engine = options.engine(
        method=method,
        device=device,
        threads=threads,
        timeout=timeout,
        settings=settings,
        seed=seed,
        attack=not no_attack,
    )
    outputs = Outputs({"--json": json, "--results-file": results_file, "--witness": witness})
    outputs.check((model, spec))
    work = functools.partial(_work, model=model, spec=spec, engine=engine, form=form_of(witness))
    return answer(work, engine, outputs, asked=(model, spec), started=started, quiet=quiet)


def _work(job: Job, *, model: str, spec: str, engine: options.Engine, form: str) -> Answer:
    prepare(engine)
    from netproof import api

    saver = Saver(form, image_layout(_input_shape(model), model) if form == "png" else None)
    verdict = api.verify(model, spec, **engine.arguments(), deadline=job.deadline, progress=job.teller())
    return reply(verdict, engine, saver)


def _input_shape(model: str) -> tuple[int, ...]:
    from netproof.model.onnx.file import read_file
    from netproof.model.onnx.reader import declared_input_shape

    return declared_input_shape(read_file(model))


def prepare(engine: options.Engine) -> None:
    """The heavy imports. Their thread pools are sized once, from the environment; and of all the objects that they

    make none is garbage, so the collector need not look at them, now or later.
    """
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ.setdefault(name, str(engine.threads))
    gc.disable()
    try:
        importlib.import_module("netproof.api")
    finally:
        gc.freeze()
        gc.enable()


@dataclass(frozen=True)
class Answer:
    """The record of a run and what belongs beside it, whoever had to write it."""

    record: Record
    device: str
    file: bytes | None = None  # the witness as a file that is not text
    note: str = ""
    accelerator: Mapping[str, str | None] = field(default_factory=dict)

    @property
    def saved(self) -> str | bytes | None:
        """Return the content of the file that --witness names; None where there is no witness."""
        return self.file or self.record.text or None


def reply(verdict: Verdict, engine: options.Engine, saver: Saver) -> Answer:
    """Make what the worker sends back: plain values, and the witness as a file where it is to be another than text."""
    device, file, notes = used_device(engine.device), None, [""]
    if verdict.witness is not None:
        file, about = saver.content(verdict.witness.input)
        notes = [verdict.witness.note, about]
    return Answer(Record.of(verdict), device, file, "; ".join(filter(None, notes)), accelerator(device))


def used_device(asked: str) -> str:
    """The device behind `auto`, once the engine has run."""
    if asked != "auto" or "torch" not in sys.modules:
        return asked
    from netproof.methods.device import resolve_device

    return str(resolve_device(asked))


def answer(
    work: Any,
    engine: options.Engine,
    outputs: Outputs,
    *,
    asked: tuple[str, str],
    started: float,
    quiet: bool,
) -> int:
    """Run the work, then write what came of it: files first, then stdout, then words for people."""
    display = Display(started=started, timeout=engine.timeout, quiet=quiet)
    hashes: Hashes | None = None

    def tick() -> None:
        nonlocal hashes
        if hashes is None and outputs.paths["--json"] is not None:
            hashes = Hashes(asked)  # a thread, so only after the fork
        display.tick()

    with contextlib.closing(display):
        outcome = supervise(work, started=started, timeout=engine.timeout, on_event=display.update, on_tick=tick)
    found = conclude(outcome, engine, display)
    record = found.record
    record.seconds["total"] = time.monotonic() - started
    text = f"{record.verdict}\n{record.text}"
    contents: dict[str, str | bytes | None] = {"--results-file": text, "--witness": found.saved}
    if outputs.paths["--json"] is not None:
        contents["--json"] = to_json(document(found, engine, asked, hashes or Hashes(asked)))
    written = outputs.deliver(contents, text)
    if not quiet:
        saved = outputs.paths["--witness"] if "--witness" in written else None
        print_err(summary(record, method=engine.method, device=found.device, saved=saved))
        if found.note:
            print_err(f"  note: {found.note}")
    return outputs.exit_code(ending_code(record, outcome))


def ending_code(record: Record, outcome: Outcome) -> int:
    """The exit code of a run that ended with this record."""
    if outcome.ending == Ending.INTERRUPTED:
        return EXIT_INTERRUPTED
    return EXIT_BUG if record.reason == CONTRADICTION else 0


def document(found: Answer, engine: options.Engine, asked: tuple[str, str], hashes: Hashes) -> dict[str, Any]:
    """Make the JSON document, its keys in the order of the contract."""
    plain = dict(vars(found.record))
    witness, wrong = plain.pop("witness"), plain.pop(CONTRADICTION)
    del plain["text"]
    model, spec = asked
    return {
        **plain,
        **({CONTRADICTION: wrong} if wrong else {}),
        "method": engine.method,
        "device": found.device,
        "seed": engine.seed,
        "witness": witness,
        "certificate": None,
        "model": {**hashes.of(model), "external": hashes.external},
        "property": hashes.of(spec),
        "versions": {**versions(), "cuda": None, "gpu": None, **found.accelerator},
    }


def known_so_far(progress: Mapping[str, Any]) -> dict[str, Any]:
    """What the last progress proves of the whole: its lower bound only where it is about the only problem.

    The best value seen is for people to watch: it is not yet of a point that is known to lie in the set.
    """
    known = {key: progress[key] for key in ("domains", "rounds") if key in progress}
    if progress.get("problems", 0) <= 1:
        known["lower_bound"] = progress.get("lower_bound")
    return known


def conclude(outcome: Outcome, engine: options.Engine, display: Display) -> Answer:
    """Take the worker's answer; without one, what its last progress said and why it ended."""
    found: Answer = outcome.result or Answer(Record(**known_so_far(display.latest)), engine.device)
    if outcome.ending == Ending.FINISHED:
        return found
    record = found.record.undecided(outcome.verdict, outcome.reason)
    return Answer(record, found.device, accelerator=found.accelerator)
