"""`netproof reproduce …`: the paper's tables and figures, each as CSV, PNG, PDF and one HTML page."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from netproof.cli import options
from netproof.cli.exits import EXIT_INTERRUPTED, EXIT_USAGE
from netproof.cli.show.output import print_err, print_out, text_table
from netproof.errors import UsageError

if TYPE_CHECKING:
    from netproof.paper.tables.bounds import Question
    from netproof.paper.tables.curve import Curve

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
Out = Annotated[str, typer.Option(metavar="DIR", help="Where everything goes; a rerun goes on from there.")]
SetNames = Annotated[
    list[str] | None,
    typer.Option("--set-name", metavar="NAME", help="Only this set; repeatable.", show_default=False),
]
Boxes = Annotated[
    str | None,
    typer.Option(
        metavar="unclipped|clipped|both",
        help="x ± ε (folders NAME_unclipped) or clipped to pixels (NAME). [unclipped where there]",
        show_default=False,
    ),
]
First = Annotated[int | None, typer.Option(metavar="N", help="Only the first N properties of each set.")]
Limit = Annotated[
    float | None,
    typer.Option(metavar="S", help="For each property, instead of that in instances.csv.", show_default=False),
]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="[METHOD:]FIELD=VALUE", help="A field of one method, or of all that have it."),
]
BatchSizes = Annotated[
    str,
    typer.Option("--n", metavar="N|N,N,N", help="n of lirpa and lirpa-gnn: one for all, or for base, wide and deep."),
]


@app.command()
def table1(
    data: Data,
    out: Out,
    method: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Repeatable; babsr-lp, gnn and mip only when asked for.", show_default=False),
    ] = None,
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
    no_attack: options.NoAttack = False,
    quiet: options.Quiet = False,
) -> int:
    """Run methods on sets: mean time, mean branches, % timed out, cactus plots; beside them the paper's Table 1."""
    from netproof.paper.runs import Asked, chosen, read_n, run_jobs
    from netproof.paper.sets import find_sets
    from netproof.paper.tables import table1 as page
    from netproof.paper.tables.output import Output

    methods = list(dict.fromkeys(method or page.default_methods()))
    asked = Asked(chosen(methods, settings), read_n(n), timeout, device, threads, seed, not no_attack)
    sets = find_sets(data, set_name or SETS, first, boxes=boxes, published=published)
    output = Output.at(out, "table1")
    results = run_jobs({"": asked.jobs(sets)}, out, methods, quiet)
    if results is None:
        return EXIT_INTERRUPTED
    path = page.write(output, results[""], methods, sets)
    rows = page.rows_of(results[""], methods, sets)
    header = ("set", "boxes", "source", "method", "mean s", "branches", "two per split", "% timed out")
    print_out(text_table(header, [_row(row, "mean_s", "branches", "tree", "timed_out") for row in rows], 4))
    return _done(path, quiet, page.boxes_said(sets) if published else ())


@app.command()
def table2(
    data: Data,
    out: Out,
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
    no_attack: options.NoAttack = False,
    quiet: options.Quiet = False,
) -> int:
    """Run the ablation: BaBSR, batches alone, optimised slopes alone, both; with speed-ups, and the paper's."""
    from netproof.paper.runs import Asked, chosen, read_n, run_jobs
    from netproof.paper.sets import find_sets
    from netproof.paper.tables import table2 as page
    from netproof.paper.tables.output import Output
    from netproof.paper.tables.table1 import boxes_said

    methods = [*([page.MEASURED] if baseline else []), *page.ROWS.values()]
    asked = Asked(chosen(methods, settings), read_n(n), timeout, device, threads, seed, not no_attack)
    sets = find_sets(data, set_name or SETS, first, boxes=boxes)
    output = Output.at(out, "table2")
    results = run_jobs({"": asked.jobs(sets)}, out, methods, quiet)
    if results is None:
        return EXIT_INTERRUPTED
    path = page.write(output, results[""], sets)
    lines = page.lines_of(results[""], sets)
    print_out(text_table(page.TITLES, [page.shown_line(line) for line in lines], 4))
    for difference in page.differences(lines, sets):
        print_err(f"netproof: order: {difference}")
    return _done(path, quiet, boxes_said(sets))


@app.command()
def cpu(
    data: Data,
    out: Out,
    method: Annotated[str, typer.Option(metavar="NAME", help="Which method is timed.")] = "lirpa",
    settings: Settings = None,
    n: BatchSizes = "400,200,200",
    set_name: SetNames = None,
    boxes: Boxes = None,
    first: First = None,
    timeout: Limit = None,
    device: options.Device = "auto",
    threads: Annotated[
        str | None,
        typer.Option(metavar="1,2,…", help="Numbers of cores. [those of 1, 2, 4, 8 that exist]", show_default=False),
    ] = None,
    seed: options.Seed = 0,
    no_attack: options.NoAttack = False,
    quiet: options.Quiet = False,
) -> int:
    """Measure time on 1, 2, 4 and 8 cores and on a GPU (--device auto: if there is one), with the published lines."""
    from netproof.campaign.devices import resolve
    from netproof.paper.runs import Asked, chosen, read_n, run_jobs
    from netproof.paper.sets import find_sets
    from netproof.paper.tables import cpu as page
    from netproof.paper.tables.output import Output
    from netproof.paper.tables.table1 import boxes_said

    counts = page.read_threads(threads)
    asked = Asked(chosen([method], settings), read_n(n), timeout, device, None, seed, not no_attack)
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
    steps: Annotated[int, typer.Option(metavar="N", help="Optimisation steps.")] = 200,
    timeout: Annotated[
        float | None, typer.Option(metavar="S", help="For each property. [none]", show_default=False)
    ] = None,
    device: options.Device = "auto",
    threads: options.Threads = None,
    quiet: options.Quiet = False,
) -> int:
    """Draw the optimised bound against the step, between the LP on unoptimised and on optimised intermediate bounds."""
    from netproof.paper.tables.output import Output

    engine = options.engine(method="auto", device=device, threads=threads, timeout=timeout, settings=None)
    if steps < 1:
        raise UsageError(f"--steps: {steps} is too few", remedy="give 1 or more")
    questions = _questions(data, set_name, boxes, index if not every else None, model, spec)
    output = Output.at(out, "bounds")
    from netproof.paper.tables import bounds as page

    curves: list[Curve] = []
    try:
        for place, question in enumerate(questions):
            title = f"{place + 1}/{len(questions)}  {question.name}"
            curves.append(_curve(output, question, steps, engine, title, quiet))
            if not quiet:
                print_err(f"{title}  {_course(curves[-1])}")
    except KeyboardInterrupt:
        kept = f"{len(curves)} of {len(questions)} curves are kept in {out}"
        print_err(f"netproof: interrupted: {kept}; the same command goes on with the rest")
        return EXIT_INTERRUPTED
    kinds = [page.kind_of(question) for question in questions]
    path = page.write(output, curves, kinds)
    print_out(f"{page.said(curves)}\n")
    return _done(path, quiet, [page.boxes_said(kinds)])


@app.command()
def relaxations(
    out: Out,
    data: NoData = None,
    lower: Annotated[float, typer.Option(metavar="L", help="Lower bound of the unstable neuron, below 0.")] = -1.0,
    upper: Annotated[float, typer.Option(metavar="U", help="Its upper bound, above 0.")] = 1.5,
    quiet: options.Quiet = False,
) -> int:
    """Draw the triangle and the linear relaxations of a ReLU, stable and unstable (Figure 1)."""
    from netproof.paper.tables import relaxations as page

    return _done(page.relaxations(out, lower=lower, upper=upper), quiet)


@app.command()
def example(out: Out, data: NoData = None, quiet: options.Quiet = False) -> int:
    """Work through a two-layer network: bounds, optimised bounds, and the tree of splits (Figure 2)."""
    from netproof.paper.tables import example as page

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


# --- bounds ---


def _questions(
    data: str | None, set_name: str, boxes: str | None, index: int | None, model: str | None, spec: str | None
) -> list[Question]:
    """Return what is asked: one property of a set, or without an index all of it, or files of one's own."""
    from netproof.paper.sets import find_sets
    from netproof.paper.tables.bounds import Question

    if model is not None or spec is not None:
        if data is not None or index is None:
            raise UsageError("--model and --spec name one instance", remedy="leave out --data and --all, or them")
        files = options.model_and_spec([path for path in (model, spec) if path is not None])
        return [Question(Path(files[1]).name, *map(Path, files))]
    if data is None:
        raise UsageError("no instance was given", remedy="give --data DIR, or --model M.onnx --spec P.vnnlib")
    found: list[Question] = []
    for one in find_sets(data, [set_name], boxes=boxes, published=False).values():
        if index is not None and not 0 <= index < len(one.instances):
            last = len(one.instances) - 1
            raise UsageError(f"--index: {index} is not within 0 to {last}", remedy="choose one of the set")
        for i in one.instances if index is None else one.instances[index : index + 1]:
            paths = (Path(options.existing(str(path))) for path in (i.onnx, i.vnnlib))
            found.append(Question(f"{one.name}/{i.names[1]}" if boxes == "both" else i.names[1], *paths))
    return found


def _curve(output: Any, question: Question, steps: int, engine: options.Engine, title: str, quiet: bool) -> Curve:
    """Return the curve of an earlier run if it is there, else compute and keep it."""
    from netproof.core.deadline import Deadline
    from netproof.paper.tables import bounds as page

    path = page.kept(output, question, steps, engine.device)
    curve = page.load(path)
    if curve is None:
        line = _Line(title, quiet)
        curve = page.compute(
            question,
            steps=steps,
            device=engine.device,
            threads=engine.threads,
            deadline=Deadline(engine.timeout),
            progress=line.show,
        )
        line.clear()
        if curve is None:
            remedy = "give more time, or fewer --steps"
            raise UsageError(f"not finished in {engine.timeout:g} s", file=question.name, remedy=remedy)
        page.keep(path, curve)
    return curve


def _course(curve: Curve) -> str:
    crossed = "never crossed" if curve.crossing is None else f"crossed at step {curve.crossing}"
    under = "stays under" if curve.stays_under else "PASSES"
    return f"{crossed}, {under} the second LP  {curve.seconds:.1f} s"


class _Line:
    """A line that is written over, on a terminal."""

    def __init__(self, title: str, quiet: bool) -> None:
        self._title, self._last = title, 0.0
        self._live = sys.stderr.isatty() and not quiet

    def show(self, phase: str, done: int, total: int) -> None:
        if self._live and time.monotonic() - self._last > 0.1:
            self._last = time.monotonic()
            sys.stderr.write(f"\r\x1b[K{self._title}  {phase} {done}/{total}")
            sys.stderr.flush()

    def clear(self) -> None:
        if self._live:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
