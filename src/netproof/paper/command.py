"""`netproof reproduce …`: the paper's tables and figures, each as CSV, PNG, PDF and one HTML page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from netproof.cli import options
from netproof.cli.exits import EXIT_INTERRUPTED, EXIT_USAGE
from netproof.cli.show.output import print_err, print_out, text_table
from netproof.errors import UsageError

if TYPE_CHECKING:
    from netproof.paper.figures.curve import Curve

SETS = ("oval_base_easy", "oval_base_med", "oval_base_hard", "oval_wide", "oval_deep")

app = typer.Typer(
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback(invoke_without_command=True)
def root(context: typer.Context) -> int:
    """Make the paper's tables and figures again: ours beside its own numbers, as CSV, PNG, PDF and one HTML page."""
    if context.invoked_subcommand is None:
        print_out(context.get_help())
        return EXIT_USAGE
    return 0


Data = Annotated[str, typer.Option(metavar="DIR", help=f"The folder that holds {', '.join(SETS)}.")]
NoData = Annotated[
    str | None,
    typer.Option("--data", metavar="DIR", help="Taken as elsewhere; nothing is read from it.", show_default=False),
]
Out = Annotated[
    str,
    typer.Option(metavar="DIR", help="Where everything goes; a rerun goes on from there.", callback=options.not_empty),
]
SetNames = Annotated[
    list[str] | None,
    typer.Option("--set-name", metavar="NAME", help="Only this set; repeatable.", show_default=False),
]
Boxes = Annotated[
    str | None,
    typer.Option(
        metavar="unclipped|clipped|both",
        help="x ± ε (folders NAME_unclipped) or clipped to pixels (NAME). (default: unclipped where there)",
        show_default=False,
    ),
]
First = Annotated[int | None, typer.Option(metavar="N", help="Only the first N properties of each set.")]
Limit = Annotated[
    float | None,
    typer.Option(
        metavar="S",
        help="Time limit of each property. (default: that in instances.csv, 3600 in the paper's sets, as in the paper)",
        show_default=False,
    ),
]
NoLimit = Annotated[
    float | None, typer.Option(metavar="S", help="For each property. (default: none)", show_default=False)
]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="[METHOD:]FIELD=VALUE", help="A field of one method, or of all that have it."),
]
LogSteps = Annotated[bool, typer.Option("--log-steps", help="Draw steps on a logarithm, not linearly as the paper.")]
Profile = Annotated[
    str,
    typer.Option(
        metavar="released|printed", help="Algorithm 1 as its authors' released code runs it, or as the paper prints it."
    ),
]
BatchSizes = Annotated[
    str,
    typer.Option("--n", metavar="N|N,N,N", help="n of the lirpa methods: one for all, or for base, wide and deep."),
]


RELEASED = "released"
METHOD_OF = {RELEASED: "lirpa", "printed": "lirpa-printed"}


def checked_profile(profile: str) -> str:
    """Return the name of a profile of Algorithm 1; UsageError where it is none."""
    if profile not in METHOD_OF:
        raise UsageError(f"--profile: {profile!r} is none", remedy=f"give {' or '.join(METHOD_OF)}")
    return profile


@app.command()
def table1(
    data: Data,
    out: Out,
    method: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Repeatable; babsr-lp and gnn only when asked for.", show_default=False),
    ] = None,
    profile: Profile = RELEASED,
    settings: Settings = None,
    n: BatchSizes = "400,200,200",
    set_name: SetNames = None,
    boxes: Boxes = None,
    first: First = None,
    timeout: Limit = None,
    device: options.Device = "auto",
    threads: options.Threads = None,
    published: Annotated[
        bool, typer.Option("--published", help="Add the figures of published.csv as rows of their own.")
    ] = False,
    seed: options.Seed = 0,
    attack: options.Attack = None,
    quiet: options.Quiet = False,
) -> int:
    """Run methods on sets: mean time, mean branches, % timed out, cactus plots; beside them the paper's Table 1."""
    from netproof.paper.runs import Asked, chosen, read_n, run_jobs
    from netproof.paper.sets import find_sets
    from netproof.paper.tables import table1 as page
    from netproof.paper.tables.output import Output

    methods = list(dict.fromkeys(method or page.default_methods(checked_profile(profile))))
    asked = Asked(chosen(methods, settings), read_n(n), timeout, device, threads, seed, attack)
    sets = find_sets(data, set_name or SETS, first, boxes=boxes, published=published or page.beside(methods))
    output = Output.at(out, "table1")
    results = run_jobs({"": asked.jobs(sets)}, out, methods, quiet)
    if results is None:
        return EXIT_INTERRUPTED
    path = page.write(output, results[""], methods, sets)
    rows = page.rows_of(results[""], methods, sets)
    header = ("set", "boxes", "source", "method", "mean s", "branches", "two per split", "% timed out", "in LP")
    print_out(text_table(header, [_row(row, "mean_s", "branches", "tree", "timed_out", "in_lp") for row in rows], 4))
    return _done(path, quiet, page.boxes_said(sets) if published else ())


@app.command()
def table2(
    data: Data,
    out: Out,
    profile: Profile = RELEASED,
    settings: Settings = None,
    n: BatchSizes = "400,200,200",
    set_name: SetNames = None,
    boxes: Boxes = None,
    first: First = None,
    timeout: Limit = None,
    device: options.Device = "auto",
    threads: options.Threads = None,
    baseline: Annotated[
        bool, typer.Option("--baseline", help="Run babsr-lp too, so that speed-ups are measured on one machine.")
    ] = False,
    seed: options.Seed = 0,
    attack: options.Attack = None,
    quiet: options.Quiet = False,
) -> int:
    """Run the ablation: BaBSR, batches alone, optimised slopes alone, both; with speed-ups, and the paper's."""
    from netproof.paper.runs import Asked, chosen, read_n, run_jobs
    from netproof.paper.sets import find_sets
    from netproof.paper.tables import table2 as page
    from netproof.paper.tables.output import Output
    from netproof.paper.tables.table1 import boxes_said

    methods = [*([page.MEASURED] if baseline else []), *page.OURS[checked_profile(profile)].values()]
    asked = Asked(chosen(methods, settings), read_n(n), timeout, device, threads, seed, attack)
    sets = find_sets(data, set_name or SETS, first, boxes=boxes)
    output = Output.at(out, "table2")
    results = run_jobs({"": asked.jobs(sets)}, out, methods, quiet)
    if results is None:
        return EXIT_INTERRUPTED
    path = page.write(output, results[""], sets, profile)
    lines = page.lines_of(results[""], sets, profile)
    print_out(text_table(page.TITLES, [page.shown_line(line) for line in lines], 4))
    for difference in page.differences(lines, sets):
        print_err(f"netproof: order: {difference}")
    return _done(path, quiet, boxes_said(sets))


@app.command()
def cpu(
    data: Data,
    out: Out,
    method: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="What is timed. (default: the profile)", show_default=False),
    ] = None,
    profile: Profile = RELEASED,
    settings: Settings = None,
    n: BatchSizes = "400,200,200",
    set_name: SetNames = None,
    boxes: Boxes = None,
    first: First = None,
    timeout: Limit = None,
    device: options.Device = "auto",
    threads: Annotated[
        str | None,
        typer.Option(metavar="1,2,…", help="Cores. (default: 1, 2, 4, 8, 16 where there)", show_default=False),
    ] = None,
    seed: options.Seed = 0,
    attack: options.Attack = None,
    quiet: options.Quiet = False,
) -> int:
    """Measure time on 1, 2, 4, 8, 16 cores and on a GPU (--device auto: if there is one), with the published lines."""
    from netproof.campaign.devices import resolve
    from netproof.paper.runs import Asked, chosen, read_n, run_jobs
    from netproof.paper.sets import find_sets
    from netproof.paper.tables import cpu as page
    from netproof.paper.tables.output import Output
    from netproof.paper.tables.table1 import boxes_said

    counts, method = page.read_threads(threads), method or METHOD_OF[checked_profile(profile)]
    asked = Asked(chosen([method], settings), read_n(n), timeout, device, None, seed, attack)
    sets = find_sets(data, set_name or page.CPU_SETS, first, boxes=boxes)
    output = Output.at(out, "cpu")
    places = [page.Place("cpu", count) for count in counts]
    if resolve(device) == "cuda":
        places.append(page.Place("cuda", None))
    jobs = {str(place): asked.jobs(sets, place.device, place.threads) for place in places}
    results = run_jobs(jobs, out, [method], quiet)
    if results is None:
        return EXIT_INTERRUPTED
    by_place = {place: results[str(place)] for place in places}
    path = page.write(output, by_place, method, sets)
    points = page.points_of(by_place, method, sets)
    header = ("set", "boxes", "source", "method", "mean s", "% solved", "where")
    print_out(text_table(header, [(*_row(p.row, "mean_s", "solved"), p.place) for p in points], 4))
    return _done(path, quiet, boxes_said(sets))


def _interrupted(kept: str) -> int:
    print_err(f"netproof: interrupted: {kept}; the same command goes on with the rest")
    return EXIT_INTERRUPTED


@app.command()
def bounds(
    out: Out,
    data: Annotated[
        str | None,
        typer.Option(
            metavar="DIR", help="The folder that holds the sets; or give --model and --spec.", show_default=False
        ),
    ] = None,
    set_name: Annotated[str, typer.Option(metavar="NAME", help="A set in --data.")] = "oval_base_easy",
    boxes: Boxes = None,
    index: Annotated[int, typer.Option(metavar="K", help="Which property of the set, from 0.")] = 0,
    every: Annotated[
        bool, typer.Option("--all", help="Every property of the set, and the number of crossings.")
    ] = False,
    model: Annotated[
        str | None, typer.Option(metavar="M.onnx", help="A network of your own, with --spec.", show_default=False)
    ] = None,
    spec: Annotated[str | None, typer.Option(metavar="P.vnnlib", help="Its property.", show_default=False)] = None,
    profile: Profile = RELEASED,
    steps: Annotated[int, typer.Option(metavar="N", help="Optimisation steps.")] = 200,
    own_slopes: Annotated[
        bool, typer.Option("--own-slopes", help="Give the bounds of each neuron slopes of their own, not shared ones.")
    ] = False,
    crown: Annotated[
        bool, typer.Option("--crown", help="Start from CROWN's slopes, not from those parallel to the upper lines.")
    ] = False,
    log_steps: LogSteps = False,
    timeout: NoLimit = None,
    device: options.Device = "auto",
    threads: options.Threads = None,
    quiet: options.Quiet = False,
) -> int:
    """Draw the optimised bound against the step, between the LP on unoptimised and on optimised intermediate bounds."""
    from netproof.paper.tables.output import Output

    method = METHOD_OF[checked_profile(profile)]
    engine = options.engine(method=method, device=device, threads=threads, timeout=timeout, settings=None)
    if steps < 1:
        raise UsageError(f"--steps: {steps} is too few", remedy="give 1 or more")
    from netproof.methods.registry import method_info
    from netproof.paper.figures import bounds as page
    from netproof.paper.figures.asked import course, curve_of, questions
    from netproof.paper.figures.curve import Slopes

    asked = questions(data, set_name, boxes, index if not every else None, model, spec)
    output = Output.at(out, "bounds")
    slopes = Slopes.of(method_info(method).options({}))._replace(own=own_slopes, parallel=not crown)
    curves: list[Curve] = []
    try:
        for place, question in enumerate(asked):
            title = f"{place + 1}/{len(asked)}  {question.name}"
            curves.append(curve_of(output, question, steps, slopes, engine, title, quiet))
            if not quiet:
                print_err(f"{title}  {course(curves[-1])}")
    except KeyboardInterrupt:
        return _interrupted(f"{len(curves)} of {len(asked)} curves are kept in {out}")
    kinds = [page.kind_of(question) for question in asked]
    path = page.write(output, curves, kinds, slopes, log_steps=log_steps)
    print_out(f"{page.said(curves)}\n")
    return _done(path, quiet, [page.boxes_said(kinds), page.slopes_said(slopes)])


@app.command()
def lp(
    data: Data,
    out: Out,
    profile: Profile = RELEASED,
    settings: Settings = None,
    n: Annotated[
        str, typer.Option("--n", metavar="N|N,N,N", help="Sub-domains: one for all, or for base, wide and deep.")
    ] = "32",
    rounds: Annotated[int, typer.Option(metavar="N", help="Rounds of the search before, at most.")] = 6,
    set_name: SetNames = None,
    boxes: Boxes = None,
    first: First = 3,
    timeout: NoLimit = None,
    device: options.Device = "auto",
    threads: options.Threads = None,
    quiet: options.Quiet = False,
) -> int:
    """Time one bound: optimised LiRPA, in a batch and alone, against the LP of the same sub-domains (section 3.1).

    On a CPU, and on a GPU too (--device auto: if there is one). The sub-domains are those of a search by the profile.
    """
    from netproof.campaign.devices import resolve
    from netproof.paper.runs import read_n
    from netproof.paper.sets import find_sets
    from netproof.paper.tables import lp as page
    from netproof.paper.tables.lp_run import Ask, measure_all, places
    from netproof.paper.tables.output import Output
    from netproof.paper.tables.table1 import boxes_said

    method = METHOD_OF[checked_profile(profile)]
    engine = options.engine(method=method, device=device, threads=threads, timeout=timeout, settings=settings)
    if rounds < 1:
        raise UsageError(f"--rounds: {rounds} is too few", remedy="give 1 or more")
    ask = Ask(read_n(n), rounds, engine)
    sets = find_sets(data, set_name or SETS, first, boxes=boxes, published=False)
    output = Output.at(out, "lp")
    found = measure_all(output, sets, places(resolve(device), engine.threads), ask, quiet)
    if found is None:
        return EXIT_INTERRUPTED
    path = page.write(output, found, sets, ask)
    lines = page.lines_of(found, sets)
    print_out(text_table(page.TITLES, [page.shown_line(line) for line in lines], 3))
    return _done(path, quiet, [*page.said(lines), *boxes_said(sets)])


@app.command()
def relaxations(
    out: Out,
    data: NoData = None,
    lower: Annotated[float, typer.Option(metavar="L", help="Lower bound of the unstable neuron, below 0.")] = -1.0,
    upper: Annotated[float, typer.Option(metavar="U", help="Its upper bound, above 0.")] = 1.5,
    quiet: options.Quiet = False,
) -> int:
    """Draw the triangle and the linear relaxations of a ReLU, stable and unstable (Figure 1)."""
    from netproof.paper.figures import relaxations as page

    return _done(page.relaxations(out, lower=lower, upper=upper), quiet)


@app.command()
def example(out: Out, data: NoData = None, quiet: options.Quiet = False) -> int:
    """Work through a two-layer network: bounds, optimised bounds, and the tree of splits (Figure 2)."""
    from netproof.paper.figures import example as page

    return _done(page.example(out), quiet)


# --- what the tables share ---


def _row(row: Any, *names: str) -> tuple[str, ...]:
    from netproof.paper.tables.rows import figures

    return (row.set, row.boxes, row.source, row.method, *figures(row, *names))


def _done(path: Path, quiet: bool, said: Sequence[str] = ()) -> int:
    """Say where to look, for people on stderr."""
    if not quiet:
        for line in said:
            print_err(f"netproof: {line}")
        print_err(f"netproof: page: {path}")
    return 0
