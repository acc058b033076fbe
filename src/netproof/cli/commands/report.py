"""`netproof report DIR`: the page, plots and tables of a campaign's results so far."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from netproof.cli import options
from netproof.cli.exits import EXIT_BUG
from netproof.cli.show.output import print_err, print_out

if TYPE_CHECKING:
    from netproof.campaign.store import Result
    from netproof.campaign.summary import Run

Rivals = Annotated[
    list[str] | None,
    typer.Option(
        "--rival",
        metavar="NAME=results.csv",
        help="Another verifier's results in VNN-COMP's form, shown beside ours; repeatable.",
        show_default=False,
    ),
]


def report(
    folder: Annotated[
        str,
        typer.Argument(metavar="DIR", help="What `netproof bench` was given as --out.", callback=options.not_empty),
    ],
    rival: Rivals = None,
    quiet: options.Quiet = False,
) -> int:
    """Write DIR/report/index.html, with plots (PNG, PDF) and tables (CSV, LaTeX) beside it, and VNN-COMP's results.csv.

    The path of the page goes to stdout. Counterexamples go to DIR/counterexamples. Where answers contradict each other
    or what is known the exit code is 1.
    """
    from netproof.campaign.store import NAME, Store
    from netproof.campaign.summary import contradictions, latest, versions_said

    check_rivals(rival or (), Path(folder))
    with Store(Path(folder) / NAME, create=False) as store:
        results = store.results()
    page, said = write_all(Path(folder), results, rival or ())
    if not quiet:
        for line in versions_said(results, "shown under names of their own"):
            print_err(f"netproof: {line}")
        for line in said:  # also where a rival says otherwise, which is no proof of anything
            print_err(f"netproof: contradiction: {line}")
    print_out(f"{page}\n")
    return EXIT_BUG if contradictions(latest(results)) else 0


def write_all(folder: Path, results: list[Result], rivals: Sequence[str] = ()) -> tuple[Path, list[str]]:
    """Write everything that is made from the store again; return the path of the page, and what contradicts.

    rivals: each NAME=results.csv.
    """
    from netproof.campaign.rivals import read_rivals
    from netproof.campaign.summary import contradictions, latest
    from netproof.report.campaign import write_report

    runs = latest(results)
    others = read_rivals(rivals, runs)
    title = f"netproof bench: {folder.resolve().name}"
    page = write_report(results, folder / "report", title=title, rivals=others)
    write_results(folder, runs)
    return page, contradictions([*runs, *(run for other in others for run in other.runs)])


def write_results(folder: Path, runs: Sequence[Run]) -> None:
    """Write VNN-COMP's results.csv and the counterexamples."""
    from netproof.errors import UsageError
    from netproof.report.counterexamples import write_counterexamples
    from netproof.report.files import write_vnncomp

    try:
        write_vnncomp(runs, folder)
        write_counterexamples(runs, folder)
    except OSError as error:
        remedy = "choose a writable place, or free the disk"
        raise UsageError(f"cannot be written: {error.strerror}", file=str(folder), remedy=remedy) from error


def check_rivals(given: Sequence[str], folder: Path, *, report: bool = True) -> None:
    """Refuse a rival that could not be read in the end, or that this would write over, before anything runs.

    folder: where the results go; report: whether there is one to show a rival in.
    """
    from netproof.campaign.instances import read_rows
    from netproof.campaign.rivals import split_rival
    from netproof.errors import UsageError

    if given and not report:
        raise UsageError("--rival: there is no report to show it in", remedy="leave out --no-report")
    for text in given:
        file = split_rival(text)[1]
        if not read_rows(file):
            raise UsageError("--rival: it has no results", file=str(file), remedy="give VNN-COMP's results.csv")
        ours = file.name.startswith(("results.csv", "results-")) and file.resolve().parent == folder.resolve()
        if ours or file.resolve().is_relative_to((folder / "report").resolve()):
            raise UsageError(
                "--rival: netproof's own results go there", file=str(file), remedy="copy it to another folder first"
            )
