"""`netproof bench FOLDER… --out DIR`: many instances, several methods, and a report of the results."""

from __future__ import annotations

import contextlib
import dataclasses
import re
import signal
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any

import typer

from netproof.certificate.installed import require_npcheck
from netproof.certificate.room import Room
from netproof.certificate.state import SECONDS, Certificate
from netproof.certificate.wish import Wish
from netproof.cli import options
from netproof.cli.commands.report import Rivals, check_rivals, write_all, write_results
from netproof.cli.exits import EXIT_BUG, EXIT_INTERRUPTED
from netproof.cli.process.command_line import command_line
from netproof.cli.process.supervisor import stop_signals
from netproof.cli.show.output import print_err, print_out, text_table
from netproof.errors import UsageError

if TYPE_CHECKING:
    from netproof.campaign.instances import Instance
    from netproof.campaign.jobs import Job
    from netproof.campaign.store import Result, Store


Out = Annotated[
    str,
    typer.Option(
        metavar="DIR", help="Where results and report go; a rerun goes on from there.", callback=options.not_empty
    ),
]


def bench(
    folders: Annotated[
        list[str], typer.Argument(metavar="FOLDER…", help="With an instances.csv, or a folder of such folders.")
    ],
    out: Out,
    method: Annotated[
        list[str] | None, typer.Option(metavar="auto|NAME", help="Repeatable; auto unless given.", show_default=False)
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="[METHOD:]FIELD=VALUE", help="A field of one method, or of all that have it."),
    ] = None,
    timeout: Annotated[
        float | None,
        typer.Option(metavar="S", help="Per instance, instead of that in instances.csv.", show_default=False),
    ] = None,
    first: Annotated[int | None, typer.Option(metavar="N", help="Only the first N instances of each folder.")] = None,
    device: options.Device = "auto",
    workers: Annotated[
        int | None,
        typer.Option(metavar="N", help="Processes; one per GPU or group of cores unless given.", show_default=False),
    ] = None,
    threads: Annotated[
        int | None,
        typer.Option(metavar="N", help="CPU threads per worker; its share unless given.", show_default=False),
    ] = None,
    seed: options.Seed = 0,
    attack: options.Attack = None,
    memory: options.Memory = None,
    rerun: Annotated[bool, typer.Option("--rerun", help="Run everything, whatever is stored.")] = False,
    no_report: Annotated[bool, typer.Option("--no-report", help="Leave out the page and the plots.")] = False,
    rival: Rivals = None,
    certificates: options.Certificates = None,
    certificate_timeout: options.CertificateTimeout = SECONDS,
    certificate_check: options.CertificateCheck = True,
    quiet: options.Quiet = False,
) -> int:
    """Run methods over VNN-COMP folders: results in DIR/results.sqlite as they come, then results.csv and a report.

    What is stored is not run again, so the same command goes on where one was stopped or killed. stdout has the table.
    Exit 1 if an answer contradicts what is known, or another method's, or npcheck does not accept a certificate.
    """
    from netproof.campaign.instances import read_folders
    from netproof.campaign.lock import alone_in
    from netproof.campaign.store import NAME, Store

    _refuse_too_few({"--first": first, "--workers": workers})
    methods = list(dict.fromkeys(method or ["auto"]))
    chosen = read_options(methods, settings or ())
    for name in methods:  # what can be refused is refused before anything runs
        engine = options.engine(method=name, device=device, threads=threads, timeout=timeout, settings=(), seed=seed)
        engine.asking(None, memory)
    check_rivals(rival or (), Path(out), report=not no_report)
    instances = read_folders(folders, first)
    wished = _wish(certificates, certificate_timeout, certificate_check)
    with alone_in(Path(out)), Store(Path(out) / NAME) as store, wished as wish:
        made = make_jobs(instances, chosen, timeout, device, threads, seed, attack)
        jobs = [dataclasses.replace(job, memory=memory, command=command_line(), wish=wish) for job in made]
        workers = _workers(jobs, threads) if workers is None else workers
        return _campaign(jobs, store, workers, methods, _Shown(not no_report, quiet, tuple(rival or ())), rerun=rerun)


def _refuse_too_few(counts: Mapping[str, int | None]) -> None:
    for option, value in counts.items():
        if value is not None and value < 1:
            raise UsageError(f"{option}: {value} is too few", remedy="give 1 or more")


@contextlib.contextmanager
def _wish(certificates: str | None, seconds: float, check: bool) -> Iterator[Wish | None]:
    """Return what is asked for of certificates; in the end remove what is not finished."""
    if certificates is None:
        yield None
        return
    require_npcheck()
    folder = Wish.folder_at(certificates)
    with contextlib.closing(Room.within(folder)) as room:
        yield Wish(folder, room.path, seconds, check)


@dataclass(frozen=True)
class _Shown:
    """What is made of the results."""

    report: bool
    quiet: bool
    rivals: tuple[str, ...]


def _workers(jobs: Sequence[Job], threads: int | None) -> int:
    from netproof.campaign.devices import default_workers

    return default_workers(jobs[0].device, threads)


def read_options(methods: Sequence[str], settings: Sequence[str]) -> dict[str, tuple[tuple[str, str], ...]]:
    """Read by method the fields given for it: `METHOD:FIELD=VALUE`, or `FIELD=VALUE` for all methods that have it."""
    from netproof.methods.registry import METHODS

    given: dict[str, list[str]] = {name: [] for name in methods}
    for setting in settings:
        field = setting.partition("=")[0].strip()
        name, colon, _ = field.partition(":")
        if colon and name not in given:
            raise UsageError(f"--set {setting}: no method {name!r} in this run", remedy=f"add --method {name}")
        having = [m for m in methods if m in METHODS and field in {f.name for f in METHODS[m].fields}]
        for target in [name] if colon else having or methods[:1]:  # with none, reading the first says what is wrong
            given[target].append(setting.partition(":")[2] if colon else setting)
    return {name: tuple(sorted(options.read_settings(name, given[name]).items())) for name in methods}


def make_jobs(
    instances: Sequence[Instance],
    methods: Mapping[str, tuple[tuple[str, str], ...]],
    timeout: float | None,
    device: str,
    threads: int | None,
    seed: int,
    attack: bool | None,
) -> list[Job]:
    """Make one job per instance and method, each with the fields given for it, instance by instance."""
    from netproof.campaign.devices import resolve
    from netproof.campaign.jobs import Job
    from netproof.methods.registry import METHODS

    kind = resolve(device)
    attacks = {name: METHODS[name].attacks if attack is None else attack for name in methods}
    return [
        Job(instance, name, fields, timeout or instance.timeout, kind, threads, seed, attacks[name])
        for instance in instances
        for name, fields in methods.items()
    ]


def _campaign(jobs: list[Job], store: Store, workers: int, methods: list[str], shown: _Shown, *, rerun: bool) -> int:
    from netproof.campaign.run import run
    from netproof.campaign.summary import versions_said
    from netproof.cli.commands.campaign_view import View

    view = View(total=len(jobs), methods=methods, quiet=shown.quiet)
    with stop_on_signals() as stop, view.live:
        for line in versions_said(store.results(), "shown, not resumed"):
            view.note(line)
        for instance in dict.fromkeys(job.instance for job in jobs):
            if instance.truth is None and instance.told_by:
                view.note(f"{instance}: what is known is {instance.told_by}")
        results = run(jobs, store, workers=workers, on_event=view.on_event, stop=stop, rerun=rerun)
    states = [result.certificate for result in results if result.certificate is not None]
    if len(results) < len(jobs) or any(map(Certificate.was_interrupted, states)):
        return _interrupted(store, len(results), len(jobs))
    if view.kept and not shown.quiet:
        print_err(f"netproof: {view.kept} of {len(jobs)} were there already (--rerun runs them again)")
    return _conclude(store, results, shown)


@contextlib.contextmanager
def stop_on_signals() -> Iterator[threading.Event]:
    """Turn the first Ctrl-C into a request to stop; a second one raises KeyboardInterrupt at once."""
    stop = threading.Event()

    def ask(number: int, frame: FrameType | None) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()

    before = {number: signal.signal(number, ask) for number in stop_signals()}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _interrupted(store: Store, done: int, total: int) -> int:
    from netproof.campaign.summary import latest

    write_results(store.path.parent, latest(store.results()))
    kept = f"{done} of {total} runs are kept in {store.path}"
    print_err(f"netproof: interrupted: {kept}; the same command goes on with the rest")
    return EXIT_INTERRUPTED


def _conclude(store: Store, results: list[Result], asked: _Shown) -> int:
    """Print the table to stdout, write the files, and report what contradicts; return the exit code.

    Results of other versions that the store holds stand in the table under names of their own.
    """
    from netproof.campaign.summary import contradictions, latest, of_other_versions, summaries
    from netproof.report.columns import HEADINGS, summary_cells

    stored = store.results()
    shown = latest([*of_other_versions(stored), *results])
    print_out(text_table(HEADINGS, [summary_cells(summary) for summary in summaries(shown)], names=2))
    wrong = said = contradictions(latest(stored))
    if asked.report:
        page, said = write_all(store.path.parent, stored, asked.rivals)
        if not asked.quiet:
            print_err(f"netproof: report: {page}")
    else:
        write_results(store.path.parent, latest(stored))
    refused = _tell_certificates(results, quiet=asked.quiet)
    for line in said:  # also where a rival says otherwise, which is no proof of anything
        print_err(f"netproof: contradiction: {line}")
    return EXIT_BUG if wrong or refused else 0


def _tell_certificates(results: Sequence[Result], *, quiet: bool) -> int:
    """Say how many proofs have a certificate, and why others have none; return how many npcheck does not accept."""
    states = [result.certificate for result in results if result.certificate is not None]
    refused = sum(state["checked"] is False for state in states)
    if states and not (quiet and not refused):
        written, accepted = (sum(bool(state[key]) for state in states) for key in ("written", "checked"))
        unseen = f", {written - accepted} more are not checked" if written > accepted else ""
        print_err(f"netproof: npcheck accepts the certificates of {accepted} of {len(states)} proofs{unseen}")
        for why, count in Counter(_without_names(state) for state in states if not state["written"]).most_common():
            print_err(f"  {count} without one: {why}")
    return refused


def _without_names(state: Mapping[str, Any]) -> str:
    """Return why there is no certificate, without folders of files, so that equal reasons can be counted."""
    return re.sub(r"\S*/(?=\S+\.(onnx|vnnlib)(\.gz)?:)", "", state["reason"])
