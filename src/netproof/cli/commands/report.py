"""`netproof report DIR`: the page, plots and tables of a campaign's results so far."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from netproof.cli import options
from netproof.cli.show.output import print_err, print_out

if TYPE_CHECKING:
    from netproof.campaign.store import Result


def report(
    folder: Annotated[str, typer.Argument(metavar="DIR", help="What `netproof bench` was given as --out.")],
    quiet: options.Quiet = False,
) -> int:
    """Write DIR/report/index.html with cactus and scatter plots (PNG) and tables (CSV), and VNN-COMP's results.csv.

    The path of the page goes to stdout.
    """
    from netproof.campaign.store import NAME, Store
    from netproof.campaign.summary import contradictions, latest, versions_said

    with Store(Path(folder) / NAME, create=False) as store:
        results = store.results()
    page = write_all(Path(folder), results)
    if not quiet:
        for line in versions_said(results, "shown under names of their own"):
            print_err(f"netproof: {line}")
        for line in contradictions(latest(results)):
            print_err(f"netproof: contradiction: {line}")
    print_out(f"{page}\n")
    return 0


def write_all(folder: Path, results: list[Result]) -> Path:
    """Write everything that is made from the store again; return the path of the page."""
    from netproof.campaign.summary import latest
    from netproof.report.campaign import write_report
    from netproof.report.files import write_vnncomp

    page = write_report(results, folder / "report", title=f"netproof bench: {folder.resolve().name}")
    write_vnncomp(latest(results), folder)
    return page
