"""`netproof reproduce bounds`: Figure 3 on one instance, or on a whole set with the number of crossings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from netproof.campaign.jobs import file_hash, model_hash
from netproof.core.deadline import Deadline
from netproof.paper.figures.curve import Curve, Progress, Slopes, optimisation_curve
from netproof.paper.sets import is_clipped
from netproof.paper.tables.drawing import Panel
from netproof.paper.tables.output import Output, read_kept, shown
from netproof.report.page import Section, Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

EARLY = 100  # steps: a crossing later than this is not an early one
HEADER = ("instance", "boxes", "step", "bound", "best_so_far", "bound_fixed", "lp_unoptimised", "lp_optimised")
SUMMARY = (
    "instance",
    "boxes",
    "steps",
    "unstable",
    "first_bound",
    "lp_unoptimised",
    "crossing_step",
    "best_bound",
    "best_bound_confirmed",
    "lp_optimised",
    "stays_under",
    "best_bound_fixed",
    "seconds",
)


@dataclass(frozen=True)
class Question:
    """An instance by name, and its two files."""

    name: str
    model: Path
    spec: Path


def compute(
    question: Question,
    *,
    steps: int,
    slopes: Slopes,
    device: str,
    threads: int,
    deadline: Deadline,
    progress: Progress,
) -> Curve | None:
    """Compute the curve of one instance from its files; None when the deadline came first."""
    import torch

    from netproof.errors import UsageError
    from netproof.methods.device import resolve_device
    from netproof.model.load import load_network
    from netproof.numerics import use_strict_float32
    from netproof.problem.reduce import reduce
    from netproof.problem.vnnlib.reader import load_property

    use_strict_float32()
    network = load_network(question.model)
    torch.set_num_threads(threads)  # after the network, which chooses its own while it is compared
    problems = reduce(network, load_property(question.spec))
    if len(problems) != 1:
        what = "the property has several input sets" if problems else "the property excludes nothing"
        raise UsageError(what, file=str(question.spec), remedy="give a property with one input set")
    return optimisation_curve(question.name, problems[0], resolve_device(device), steps, deadline, progress, slopes)


def kind_of(question: Question) -> str:
    """Return the kind of an instance's box."""
    return "clipped" if is_clipped(question.spec) else "unclipped"


def boxes_said(kinds: Sequence[str]) -> str:
    """Return how many boxes are of which kind."""
    clipped = sum(kind == "clipped" for kind in kinds)
    if not clipped:
        return "Boxes x ± ε, as in equation (10): as wide in every input."
    return f"Boxes clipped, less wide in some inputs than in others: {clipped} of {len(kinds)}."


def slopes_said(slopes: Slopes) -> str:
    """Return which slopes there are, and where they start."""
    start, step = "parallel to the upper lines" if slopes.parallel else "as CROWN has them", f"rate {slopes.rate:g}"
    if slopes.own:
        return f"The bounds of each neuron have slopes of their own, which start {start}; {step}."
    if slopes.layers:
        return f"Each neuron has one slope for each layer's bounds, which starts {start}; {step}."
    return f"Each neuron has one slope, which starts {start}; {step}."


def summary_row(curve: Curve, kind: str) -> list[Any]:
    """Return what is under SUMMARY."""
    return [
        curve.name,
        kind,
        len(curve.joint) - 1,
        curve.unstable,
        curve.joint[0],
        curve.lp_first,
        curve.crossing,
        max(curve.joint),
        curve.confirmed,
        curve.lp_best,
        curve.stays_under,
        max(curve.fixed),
        curve.seconds,
    ]


def write(
    output: Output, curves: Sequence[Curve], kinds: Sequence[str], slopes: Slopes, *, log_steps: bool = False
) -> Path:
    """Write bounds.{csv,png,pdf,html} and bounds-summary.csv; return the path of the page.

    kinds: of the boxes. log_steps: draw steps on a logarithm, not linearly as the paper.
    """
    rows = [
        (c.name, kind, step, joint, best, fixed, c.lp_first, c.lp_best)
        for c, kind in zip(curves, kinds, strict=True)
        for step, (joint, best, fixed) in enumerate(zip(c.joint, c.best_so_far, c.fixed, strict=True))
    ]
    output.csv(HEADER, rows)
    output.csv(SUMMARY, [summary_row(curve, kind) for curve, kind in zip(curves, kinds, strict=True)], "summary")
    panels = (
        panels_of_one(curves[0], log_steps=log_steps)
        if len(curves) == 1
        else panels_of_many(curves, log_steps=log_steps)
    )
    pictures = output.panels(panels, columns=len(panels))
    return output.page(
        "Optimised bounds against the LP",
        [
            Section("What is shown", items=[*_about(), slopes_said(slopes), boxes_said(kinds)]),
            Section("Result", said(curves), warnings=_warnings(curves), tables=[_table(curves)], pictures=pictures),
            Section("The paper's Figure 3", _paper()),
        ],
        f"{len(curves)} instance{'s' * (len(curves) > 1)}, {len(curves[0].joint) - 1} steps.",
    )


def said(curves: Sequence[Curve]) -> str:
    """Return the result in words."""
    early = sum(c.crossing is not None and c.crossing < EARLY for c in curves)
    under = sum(c.stays_under for c in curves)
    gap = max((c.lp_first - max(c.fixed)) / (1 + abs(c.lp_first)) for c in curves)
    return (
        f"The optimised bound passes the LP on unoptimised intermediate bounds in fewer than {EARLY} steps on {early}"
        f" of {len(curves)}, and stays under the LP on the best intermediate bounds on {under} of {len(curves)}. With"
        f" equal intermediate bounds the optimised slopes come within {gap:.1e} of the LP (relative)."
    )


def _about() -> list[str]:
    return [
        "Every value is a lower bound of the row that the property asks to be positive; higher is better.",
        "optimised: the bound after each step, all slopes at once, intermediate bounds computed from them (float32; the"
        " best step is confirmed in float64 with rounding charged).",
        "LP, unoptimised intermediate bounds: the triangle LP on bounds from the slopes that the optimisation starts"
        " from. The curve must cross it.",
        "LP, optimised intermediate bounds: the triangle LP on the best bounds of every neuron over all steps. The"
        " curve must stay under it.",
        "slopes alone: the same optimiser with the unoptimised intermediate bounds held still. It must meet the first"
        " LP.",
        "Both LP values are certified: computed from the solver's duals in float64, not taken from the solver.",
    ]


def _paper() -> str:
    return (
        "The paper draws this figure for one instance that it does not name and prints no numbers for it, so there is"
        " no paper series here. Its statement is the order of the three: the first LP is above the curve's first point,"
        " the curve passes it soon, and the second LP is slightly above the curve's end."
    )


def _warnings(curves: Sequence[Curve]) -> list[str]:
    """Return what contradicts the paper's statement, by instance."""
    crossed = [f"{c.name}: the curve does not cross the first LP" for c in curves if c.crossing is None]
    return crossed + [f"{c.name}: the curve passes the second LP" for c in curves if not c.stays_under]


def _table(curves: Sequence[Curve]) -> Table:
    header = (
        "instance",
        "unstable neurons",
        "first bound",
        "LP, unoptimised",
        "crossed at step",
        "best bound",
        "LP, optimised",
        "slopes alone",
        "seconds",
    )
    rows = [
        (
            c.name,
            str(c.unstable),
            shown(c.joint[0], 4),
            shown(c.lp_first, 4),
            "never" if c.crossing is None else str(c.crossing),
            shown(max(c.joint), 4),
            shown(c.lp_best, 4),
            shown(max(c.fixed), 4),
            shown(c.seconds, 1),
        )
        for c in curves
    ]
    return Table(header, rows)


# --- the drawings ---


def panels_of_one(curve: Curve, *, log_steps: bool) -> list[Panel]:
    steps = len(curve.joint) - 1
    crossing = "never crosses" if curve.crossing is None else f"crosses it at step {curve.crossing}"
    return [
        Panel(
            "Optimised bound and the two LPs",
            f"Bound against step, 0 to {steps}: starts at {curve.joint[0]:.4g}, {crossing}, ends at"
            f" {max(curve.joint):.4g} under the second LP at {curve.lp_best:.4g}",
            partial(_draw_joint, curve=curve, log_steps=log_steps),
        ),
        Panel(
            "Equal intermediate bounds",
            f"With intermediate bounds held still the bound rises to {max(curve.fixed):.6g}; the LP is"
            f" {curve.lp_first:.6g}",
            partial(_draw_fixed, curve=curve, log_steps=log_steps),
        ),
        Panel(
            "Distance to the LP",
            "Both curves' distance below the LP on the same intermediate bounds, against the step, on a logarithm",
            partial(_draw_gap, curve=curve, log_steps=log_steps),
        ),
    ]


def _draw_joint(axes: Axes, curve: Curve, *, log_steps: bool) -> None:
    steps = range(len(curve.joint))
    axes.plot(steps, curve.joint, color="#0072b2", linewidth=2, label="optimised bound (ours)")
    axes.axhline(curve.lp_first, color="#d55e00", linestyle="--", label="LP, unoptimised intermediate bounds")
    axes.axhline(curve.lp_best, color="#555555", linestyle=":", linewidth=2, label="LP, optimised intermediate bounds")
    if curve.crossing is not None:
        at = curve.joint[curve.crossing]
        axes.plot([curve.crossing], [at], "o", color="black", markersize=6, label=f"crossed at step {curve.crossing}")
    axes.set(ylabel="lower bound of f (logits)")
    _step_axis(axes, len(steps) - 1, log_steps=log_steps)
    axes.legend(loc="lower right")


def _draw_fixed(axes: Axes, curve: Curve, *, log_steps: bool) -> None:
    steps = range(len(curve.fixed))
    axes.plot(steps, curve.fixed, color="#009e73", linestyle="-.", linewidth=2, label="slopes alone (ours)")
    axes.axhline(curve.lp_first, color="#d55e00", linestyle="--", label="LP, the same intermediate bounds")
    axes.set(ylabel="lower bound of f (logits)")
    _step_axis(axes, len(steps) - 1, log_steps=log_steps)
    axes.legend(loc="lower right")


def _draw_gap(axes: Axes, curve: Curve, *, log_steps: bool) -> None:
    floor = 1e-7  # what float32 can tell
    for values, lp, name, style, colour in (
        (curve.joint, curve.lp_best, "optimised, below the second LP", "-", "#0072b2"),
        (curve.fixed, curve.lp_first, "slopes alone, below the first LP", "-.", "#009e73"),
    ):
        axes.plot([max(lp - value, floor) for value in values], linestyle=style, color=colour, label=name)
    axes.set(ylabel="distance to the LP (logits)", yscale="log")
    _step_axis(axes, len(curve.joint) - 1, log_steps=log_steps)
    axes.legend(loc="upper right")


def _step_axis(axes: Axes, last: int, *, log_steps: bool) -> None:
    """Show steps linearly, as the paper, or on a logarithm that begins at 0: most happens in the first few."""
    from matplotlib.ticker import MaxNLocator

    axes.set(xlabel=f"optimisation step{' (log)' * log_steps}")
    if log_steps:
        axes.set_xscale("symlog", linthresh=1)
        axes.set_xlim(0, last)
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
        return
    axes.set_xlim(-0.02 * last, last)  # step 0 beside the frame, not on it
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))


def panels_of_many(curves: Sequence[Curve], *, log_steps: bool) -> list[Panel]:
    return [
        Panel(
            "All instances, on one scale",
            f"For {len(curves)} instances the optimised bound against the step, 0 at the first LP, 1 at the second",
            partial(_draw_scaled, curves=curves, log_steps=log_steps),
        ),
        Panel(
            "Step at which the first LP is passed",
            "Number of instances by the step at which the curve crosses the first LP",
            partial(_draw_crossings, curves=curves),
        ),
    ]


def _draw_scaled(axes: Axes, curves: Sequence[Curve], *, log_steps: bool) -> None:
    for place, curve in enumerate(curves):
        span = curve.lp_best - curve.lp_first
        if span > 0:
            scaled = [(value - curve.lp_first) / span for value in curve.joint]
            axes.plot(
                scaled, color="#0072b2", linewidth=1, alpha=0.7, label=None if place else "optimised bound (ours)"
            )
    axes.axhline(0, color="#d55e00", linestyle="--", label="LP, unoptimised intermediate bounds")
    axes.axhline(1, color="#555555", linestyle=":", linewidth=2, label="LP, optimised intermediate bounds")
    axes.set(ylabel="bound, 0 and 1 at the two LPs", ylim=(-2.1, 1.15))
    _step_axis(axes, len(curves[0].joint) - 1, log_steps=log_steps)
    axes.legend(loc="lower right")


def _draw_crossings(axes: Axes, curves: Sequence[Curve]) -> None:
    from matplotlib.ticker import MaxNLocator

    steps = [curve.crossing for curve in curves]
    known = [step for step in steps if step is not None]
    if known:
        last = max(known)
        bins = [0.5 + k for k in range(last + 1)] if last <= 30 else 20
        axes.hist(known, bins=bins, color="#888888", edgecolor="black")
    axes.set(xlabel="first step above the LP", ylabel=f"instances, of {len(curves)}")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(integer=True))
    if len(known) < len(steps):
        axes.annotate(f"{len(steps) - len(known)} never", (0.97, 0.95), xycoords="axes fraction", ha="right", va="top")


# --- what was computed before ---


def kept(output: Output, question: Question, steps: int, slopes: Slopes, device: str) -> Path:
    """Return where a curve is kept: one file per question and way of asking it."""
    return output.kept(model_hash(question.model), file_hash(question.spec), question.name, steps, *slopes, device)


def load(path: Path) -> Curve | None:
    known = read_kept(path)
    return None if known is None else Curve(**known)
