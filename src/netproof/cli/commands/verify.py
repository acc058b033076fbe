"""`netproof verify MODEL.onnx SPEC.vnnlib`: one question, one answer."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import gc
import importlib
import os
import sys
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from netproof.certificate.state import SECONDS
from netproof.cli import options
from netproof.cli.process.start_time import command_started
from netproof.cli.process.supervisor import Ending, Outcome, supervise
from netproof.cli.show.answer import Answer, deliver, document, ending_code, looked_at, reply
from netproof.cli.show.certificate import Wanted, tell_with, wanted_certificate
from netproof.cli.show.output import Hashes, Outputs, print_err
from netproof.cli.show.progress import Display
from netproof.cli.show.seen import Viewer, check_picture
from netproof.cli.show.summary import summary
from netproof.cli.show.witness_file import Saver, form_of, image_layout
from netproof.core.cpu import POOLS
from netproof.core.shown.seen import MIDDLE
from netproof.errors import UsageError
from netproof.run.record import Record, known_so_far
from netproof.workers.worker import Job

if TYPE_CHECKING:
    from netproof.certificate.destination import Destination
    from netproof.core.verdict import Witness
    from netproof.model.network import Network
    from netproof.problem.property import Property

STANDARD = {"timeout": "timed-out"}  # what the standard's command line calls it on stdout


def verify(
    files: Annotated[
        list[str],
        typer.Argument(metavar="MODEL.onnx SPEC.vnnlib", help="In either order; .gz too. With --network, the query."),
    ],
    network: options.Network = None,
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
    results_file: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write what goes to stdout, as VNN-COMP wants it.")
    ] = None,
    witness: options.WitnessFile = None,
    picture: options.PictureFile = None,
    serialise_assignments: Annotated[
        str | None, typer.Option(metavar="FOLDER", help="Write a counterexample's tensors there, as ONNX holds them.")
    ] = None,
    certificate: options.Certificate = None,
    certificate_timeout: options.CertificateTimeout = SECONDS,
    certificate_check: options.CertificateCheck = True,
    quiet: options.Quiet = False,
) -> int:
    """Prove that a network satisfies a property, or break it with a counterexample.

    Line 1 of stdout is unsat (it holds), sat (it does not), unknown or timeout; after sat, the witness. With --network
    it is the command line of VNN-LIB 2.0, where timeout is said as timed-out.
    """
    started = command_started()
    networks: dict[str, str] = {}
    if network:
        spec, networks = options.query_and_networks(files, network)
        models = list(dict.fromkeys(networks.values()))
    else:
        model, spec = options.model_and_spec(files)
        models = [model]
    asked = (models[0], spec, *models[1:])
    engine = options.engine(
        method=method, device=device, threads=threads, timeout=timeout, settings=settings, seed=seed, attack=attack
    ).asking(output, memory)
    paths = {"--json": json, "--results-file": results_file, "--witness": witness, "--picture": check_picture(picture)}
    paths["--certificate"] = certificate
    outputs = Outputs(paths, words=STANDARD if networks else {}, folder=serialise_assignments)
    outputs.check(asked)
    saver = Saver(form_of(witness), serialise=serialise_assignments is not None)
    drawn = picture is not None
    only = models[0] if len(models) == 1 else None
    with wanted_certificate(certificate, certificate_timeout, certificate_check, model=only, spec=spec) as wanted:
        work = functools.partial(_work, model=networks or models[0], spec=spec, engine=engine, saver=saver, drawn=drawn)
        work = work if wanted is None else functools.partial(work, certificate=wanted.destination)
        return answer(work, engine, outputs, asked=asked, started=started, quiet=quiet, wanted=wanted)


def _work(
    job: Job,
    *,
    model: str | dict[str, str],
    spec: str,
    engine: options.Engine,
    saver: Saver,
    drawn: bool,
    certificate: Destination | None = None,
) -> Answer:
    prepare(engine)
    from netproof import api

    question: str | Property = _query_on_one_tensor(spec) or spec if drawn or saver.form != "text" else spec
    asked: Any = model
    file = model if isinstance(model, str) else next(iter(model.values()))
    if saver.form == "png":
        saver = dataclasses.replace(saver, layout=image_layout(_input_shape(file), file))
    if drawn:  # what the picture needs is read before, so that nothing is left to do when time is up but to draw
        from netproof.model.load import load_network
        from netproof.problem.vnnlib.reader import load_property

        image_layout(_input_shape(file), file, "--picture")
        network = load_network(file, outputs=engine.outputs)
        question = read = load_property(question) if isinstance(question, str) else question
        asked = model if read.interface is not None else network  # a query of 2.0 binds the file by itself
    recorded: dict[str, Any] = {} if certificate is None else {"certificate": certificate}
    verdict = api.verify(
        asked, question, **engine.arguments(), **recorded, deadline=job.deadline, progress=job.teller()
    )
    found = reply(verdict, engine, saver)
    if not drawn or verdict.witness is None:
        return found
    job.tell({"answer": found})  # what happens to the picture takes nothing from it
    viewer = functools.partial(_viewer, network, file, read, verdict.witness)
    return looked_at(found, verdict.witness, viewer, drawn=True)


def _viewer(network: Network, model: str, asked: Property, witness: Witness) -> Viewer:
    """Compare a counterexample with the middle of the input set that it was found in."""
    from netproof.problem.witness import middle_around

    original = middle_around(asked, witness).astype(network.input_dtype).reshape(network.input_shape)
    layout = image_layout(network.input_shape, model, "--picture")
    scores = network.replay(original).reshape(-1)
    title = f"{os.path.basename(model)}, {os.path.basename(asked.source)}: broken"
    return Viewer(original, scores, lambda values: values, layout.picture, title, start=MIDDLE)


def _query_on_one_tensor(spec: str) -> Property | None:
    """Read a VNN-LIB 2.0 query, None if it is of 1.0; UsageError where its witness has more than one input tensor."""
    from netproof.problem.vnnlib.reader import load_query

    query = load_query(spec)
    if query is None or query.interface is None:
        return None
    inputs = [tensor.name for network in query.interface.networks for tensor in network.of("input")]
    if len(inputs) > 1:
        raise UsageError(
            f"the query declares {len(inputs)} input tensors, so there is no array or picture of the input",
            file=spec,
            remedy="use .txt, or --serialise-assignments FOLDER for every tensor",
        )
    return query


def _input_shape(model: str) -> tuple[int, ...]:
    from netproof.model.onnx.file import read_file
    from netproof.model.onnx.reader import declared_input_shape

    return declared_input_shape(read_file(model))


def prepare(engine: options.Engine) -> None:
    """Do the heavy imports. Their thread pools are sized once, from the environment; and of all the objects that they

    make none is garbage, so the collector need not look at them, now or later.
    """
    for name in POOLS:
        os.environ.setdefault(name, str(engine.threads))
    gc.disable()
    try:
        importlib.import_module("netproof.api")
    finally:
        gc.freeze()
        gc.enable()


def answer(
    work: Any,
    engine: options.Engine,
    outputs: Outputs,
    *,
    asked: tuple[str, ...],
    started: float,
    quiet: bool,
    wanted: Wanted | None = None,
) -> int:
    """Run the work, then write the answer: files, then stdout, then a summary for people; return the exit code.

    A certificate comes last, as it may take long; what became of it goes into the JSON too.
    """
    display = Display(started=started, timeout=engine.timeout, quiet=quiet)
    hashes: Hashes | None = None
    told: Answer | None = None

    def hear(event: Mapping[str, Any]) -> None:
        nonlocal told
        if "answer" in event:
            told = event["answer"]
        else:
            display.update(event)

    def tick() -> None:
        nonlocal hashes
        if hashes is None and outputs.paths["--json"] is not None:
            hashes = Hashes(asked)  # a thread, so only after the fork
        display.tick()

    with contextlib.closing(display):
        outcome = supervise(work, started=started, timeout=engine.timeout, on_event=hear, on_tick=tick)
    found = conclude(outcome, engine, display, told)
    found.record.lasted(time.monotonic() - started)

    def tell(found: Answer) -> None:
        record = found.record
        saved = deliver(found, f"{record.verdict}\n{record.text}", engine, outputs, asked, hashes)
        if not quiet:
            about: dict[str, Any] = {"method": engine.method, "device": found.device}
            about |= {"saved": saved, "seen": found.seen, "on_terminal": sys.stdout.isatty()}
            print_err(summary(record, **about))
            if found.note:
                print_err(f"  note: {found.note}")

    def document_of(found: Answer) -> Mapping[str, Any]:
        return document(found, engine, asked, hashes or Hashes(asked))

    last = tell_with(wanted, found, outputs, tell, document_of, quiet=quiet)
    return outputs.exit_code(ending_code(found.record, outcome)) or last


def conclude(outcome: Outcome, engine: options.Engine, display: Display, told: Answer | None = None) -> Answer:
    """Take the worker's answer, or the counterexample that it told before it was to draw it; without one, what its

    last progress said and why it ended.
    """
    found: Answer = outcome.result or told or Answer(Record(**known_so_far(display.latest)), engine.device)
    if outcome.ending == Ending.FINISHED or told is not None:
        return found
    record = found.record.undecided(outcome.verdict, outcome.reason)
    return Answer(record, found.device, accelerator=found.accelerator)
