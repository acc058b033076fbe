"""What a table is asked to run: methods with their options on sets, each with its network's n."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from netproof.cli import options
from netproof.cli.show.output import print_err
from netproof.errors import UsageError

if TYPE_CHECKING:
    from netproof.campaign.jobs import Job
    from netproof.campaign.store import Result
    from netproof.paper.sets import PaperSet

NETWORKS = ("base", "wide", "deep")
WITH_N = (
    "lirpa",
    "lirpa-printed",
    "lirpa-printed-fixed",
    "lirpa-forced",
    "lirpa-grown",
    "lirpa-tight",
    "lirpa-fixed",
    "lirpa-gnn",
    "lirpa-gnn-online",
)  # Algorithm 1 in batches; others have an n of their own
# Fields as in the paper's rows, unless --set gives others: BDD+ BaBSR branches by the rule as published and splits a
# sub-domain on one neuron in a round; bdd's own defaults do neither.
AS_IN_THE_PAPER = {"bdd": {"original": "true"}}


@dataclass(frozen=True)
class Asked:
    """How every instance is asked, checked as far as this is possible before anything runs."""

    methods: Mapping[str, tuple[tuple[str, str], ...]]  # with the fields given for each
    n: Mapping[str, int]  # by network
    timeout: float | None
    device: str
    threads: int | None
    seed: int
    attack: bool | None  # None: as each method has it

    def __post_init__(self) -> None:
        """Refuse what can be refused before anything runs."""
        for name in self.methods:
            options.engine(
                method=name,
                device=self.device,
                threads=self.threads,
                timeout=self.timeout,
                settings=(),
                seed=self.seed,
            )

    def jobs(self, sets: Mapping[str, PaperSet], device: str | None = None, threads: int | None = None) -> list[Job]:
        """Return the runs, set by set; on another device or other threads than asked where they are given."""
        from netproof.cli.commands.bench import make_jobs

        place = (self.device, self.threads) if device is None else (device, threads)
        return [
            job
            for one in sets.values()
            for job in make_jobs(one.instances, self._options(one), self.timeout, *place, self.seed, self.attack)
        ]

    def _options(self, of: PaperSet) -> dict[str, tuple[tuple[str, str], ...]]:
        """Return the fields by method: the network's n, and a rival's as in the paper, but where --set gave others."""
        n = str(self.n[of.base.split("_")[1]])
        found = {}
        for name, fields in self.methods.items():
            own = {"batch": n} if name in WITH_N else AS_IN_THE_PAPER.get(name, {})
            found[name] = tuple(sorted({**own, **dict(fields)}.items()))
        return found


def chosen(methods: Sequence[str], settings: Sequence[str] | None) -> dict[str, tuple[tuple[str, str], ...]]:
    """Return the fields given for each method; UsageError where a method or field is not known."""
    from netproof.cli.commands.bench import read_options

    return read_options(methods, settings or ())


def read_n(text: str) -> dict[str, int]:
    """Read one n for all networks, or one for each, as in `400,200,200`."""
    parts = text.split(",")
    try:
        numbers = [int(part) for part in parts]
    except ValueError:
        numbers = []
    if len(numbers) not in (1, len(NETWORKS)) or min(numbers) < 1:
        remedy = "give one number, or three for base, wide and deep, as in --n 400,200,200"
        raise UsageError(f"--n: {text!r} is not n", remedy=remedy)
    return dict(zip(NETWORKS, numbers * (len(NETWORKS) // len(numbers)), strict=True))


def run_jobs(
    groups: Mapping[str, list[Job]], out: str, methods: list[str], quiet: bool
) -> dict[str, list[Result]] | None:
    """Return the results of every group of jobs, one group after the other; None when they were interrupted.

    One worker, so that no run slows another: these are times to be compared.
    """
    from netproof.campaign.lock import alone_in
    from netproof.campaign.run import run
    from netproof.campaign.store import NAME, Store
    from netproof.campaign.summary import versions_said
    from netproof.cli.commands.bench import stop_on_signals
    from netproof.cli.commands.campaign_view import View

    total = sum(len(jobs) for jobs in groups.values())
    view = View(total=total, methods=methods, quiet=quiet)
    results: dict[str, list[Result]] = {}
    with alone_in(Path(out)), Store(Path(out) / NAME) as store, stop_on_signals() as stop:
        with view.live:
            for line in versions_said(store.results(), "kept, not shown and not resumed"):
                view.note(line)
            for name, jobs in groups.items():
                results[name] = run(jobs, store, workers=1, on_event=view.on_event, stop=stop)
        done = sum(map(len, results.values()))
        if done < total:
            kept = f"{done} of {total} runs are kept in {store.path}"
            print_err(f"netproof: interrupted: {kept}; the same command goes on with the rest")
            return None
    if view.kept and not quiet:
        print_err(f"netproof: {view.kept} of {total} were there already")
    return results
