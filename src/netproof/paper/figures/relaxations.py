"""The paper's Figure 1: the triangle of the LP and the lines of LiRPA around a ReLU, stable and unstable.

Nothing is drawn by hand: every line is what `relax` hands to the bounding engine for the bounds l and u.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from netproof.core.forms import Interval
from netproof.errors import UsageError
from netproof.model.nonlinear import Relu
from netproof.paper.tables.drawing import Panel
from netproof.paper.tables.output import Output, shown
from netproof.relax import relaxation_of
from netproof.report.page import Section, Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SLOPES = (0.0, 0.5, 1.0)  # of the lower line, in panel (d): any in [0, 1] is sound


@dataclass(frozen=True)
class Line:
    """slope·h + intercept, below or above the ReLU on [l, u]."""

    name: str
    side: str  # "lower" or "upper"
    slope: float
    intercept: float

    def at(self, h: float) -> float:
        return self.slope * h + self.intercept


@dataclass(frozen=True)
class Relaxed:
    """One panel: the bounds of h, the lines, and the area that they leave to the value."""

    panel: str
    title: str
    lower: float
    upper: float
    lines: tuple[Line, ...]

    @property
    def area(self) -> float:
        """Return the area between the highest lower and the lowest upper line; by corners, as all are straight."""
        corners = sorted({self.lower, self.upper, *(0.0,) * (self.lower < 0 < self.upper)})
        gaps = [self.most(h) - self.least(h) for h in corners]
        return math.fsum(
            (b - a) * (p + q) / 2 for a, b, p, q in zip(corners, corners[1:], gaps, gaps[1:], strict=False)
        )

    def least(self, h: float) -> float:
        return max(line.at(h) for line in self.lines if line.side == "lower")

    def most(self, h: float) -> float:
        return min(line.at(h) for line in self.lines if line.side == "upper")


def compute(lower: float, upper: float) -> list[Relaxed]:
    """Compute the four panels, the unstable ones on [lower, upper]."""
    if not (math.isfinite(lower) and math.isfinite(upper) and lower < 0 < upper):
        raise UsageError(
            f"--lower {lower:g} --upper {upper:g}: an unstable neuron has lower < 0 < upper",
            remedy="as in --lower -1 --upper 1.5",
        )
    width = upper - lower
    below, above = max(-0.1 * width, 0.25 * lower), min(0.1 * width, 0.25 * upper)  # between 0 and the bounds
    triangle = (*_linear(lower, upper, 0.0)[:1], *_linear(lower, upper, 1.0))
    with_slopes = [_linear(lower, upper, slope) for slope in SLOPES]
    return [
        Relaxed("a", "Triangle, in the LP (unstable)", lower, upper, triangle),
        Relaxed("b", "Always inactive, u ≤ 0", lower, below, _linear(lower, below, None)),
        Relaxed("c", "Always active, l ≥ 0", above, upper, _linear(above, upper, None)),
        *(
            Relaxed(f"d{k}", f"Linear, α = {slope:g} (unstable)", lower, upper, lines)
            for k, (slope, lines) in enumerate(zip(SLOPES, with_slopes, strict=True), 1)
        ),
    ]


def _linear(lower: float, upper: float, slope: float | None) -> tuple[Line, ...]:
    """Return the lower and the upper line of LiRPA; slope: None for a stable neuron."""
    low, high = (torch.tensor([v], dtype=torch.float64) for v in (lower, upper))
    chosen = torch.tensor([0.0 if slope is None else slope], dtype=torch.float64)
    lines = relaxation_of(Relu()).family(Interval(low, high), proof=False).at(chosen)
    slope, rise, lift = (float(t) for t in lines[:3])
    return Line(f"lower, slope {slope:g}", "lower", slope, 0.0), Line("upper", "upper", rise, lift)


def start_slope(lower: float, upper: float) -> float:
    """Return the slope that the optimisation starts from (CROWN's choice)."""
    low, high = (torch.tensor([v], dtype=torch.float64) for v in (lower, upper))
    return float(relaxation_of(Relu()).initial(Interval(low, high)))


def relaxations(out: str | Path, *, lower: float = -1.0, upper: float = 1.5) -> Path:
    """Write relaxations.{csv,png,pdf,html}; return the path of the page."""
    found = compute(lower, upper)
    output = Output.at(out, "relaxations")
    rows = [
        (r.panel, r.title, r.lower, r.upper, line.side, line.slope, line.intercept, r.area)
        for r in found
        for line in r.lines
    ]
    output.csv(("panel", "title", "l", "u", "side", "slope", "intercept", "area"), rows)
    pictures = output.panels(_panels(found))
    header = ("panel", "relaxation", "l", "u", "line", "slope", "intercept", "area between the lines")
    table = Table(
        header,
        [(*map(str, row[:2]), *map(shown, row[2:4]), row[4], *(shown(v, 4) for v in row[5:])) for row in rows],
        2,
    )
    text = (
        "h is the pre-activation of a ReLU with bounds l ≤ h ≤ u. In the paper's Figure 1 the LP has the triangle (a),"
        " a stable neuron is exact (b, c), and LiRPA has one lower line of free slope α in [0, 1] and the chord (d)."
        f" Here every line is computed by `netproof.relax`; the search starts from α = {start_slope(lower, upper):g}"
        " (1 where u > |l|, else 0)."
    )
    return output.page("Relaxations of a ReLU", [Section("Figure 1", text, tables=[table], pictures=pictures)], "")


def _panels(found: Sequence[Relaxed]) -> list[Panel]:
    wide = found[0].upper - found[0].lower
    window = (found[0].lower - 0.2 * wide, found[0].upper + 0.2 * wide)
    linear = [r for r in found if r.panel.startswith("d")]
    panels = [
        Panel(f"({r.panel}) {r.title}", _words(r), partial(_draw, relaxed=r, window=window))
        for r in found
        if r.panel in ("a", "b", "c")
    ]
    words = "The chord above and three lower lines through the origin, of slopes " + ", ".join(f"{s:g}" for s in SLOPES)
    return [
        *panels,
        Panel("(d) Linear, in LiRPA (unstable)", words, partial(_draw_linear, found=linear, window=window)),
    ]


def _words(relaxed: Relaxed) -> str:
    lines = ", ".join(f"{line.side} {line.slope:.3g}h{line.intercept:+.3g}" for line in relaxed.lines)
    return f"{relaxed.title}: on [{relaxed.lower:.3g}, {relaxed.upper:.3g}], {lines}"


def _draw(axes: Axes, relaxed: Relaxed, window: tuple[float, float]) -> None:
    corners = sorted({relaxed.lower, relaxed.upper, *(0.0,) * (relaxed.lower < 0 < relaxed.upper)})
    if relaxed.area > 0:
        low, high = [relaxed.least(h) for h in corners], [relaxed.most(h) for h in corners]
        axes.fill_between(corners, low, high, color="#d9d9d9", label="what the relaxation allows")
        axes.plot(
            [relaxed.lower, relaxed.upper], high[:1] + high[-1:], "--", color="#d55e00", label="g ≤ u(h − l)/(u − l)"
        )
        axes.plot(corners, low, ":", color="#0072b2", linewidth=2.5, label="g ≥ 0 and g ≥ h")
    else:
        axes.plot(
            corners, [relaxed.least(h) for h in corners], "--", color="#0072b2", linewidth=4, label="relaxation: exact"
        )
    _frame(axes, relaxed, window)


def _draw_linear(axes: Axes, found: Sequence[Relaxed], window: tuple[float, float]) -> None:
    one = found[0]
    ends = [one.lower, one.upper]
    axes.plot(ends, [one.most(h) for h in ends], "--", color="#d55e00", label="upper: the chord")
    styles = ((":", "o"), ("-.", "s"), ((0, (6, 2)), "^"))
    for relaxed, (style, marker), slope in zip(found, styles, SLOPES, strict=True):
        values = [relaxed.least(h) for h in ends]
        axes.plot(ends, values, linestyle=style, marker=marker, color="#0072b2", label=f"lower: α = {slope:g}")
    _frame(axes, one, window, least=min(0.0, one.lower))


def _frame(axes: Axes, relaxed: Relaxed, window: tuple[float, float], least: float = 0.0) -> None:
    left, right = window
    points = [left, 0.0, right]
    axes.plot(points, [max(h, 0.0) for h in points], color="black", linewidth=1.5, label="ReLU", zorder=1)
    near = relaxed.upper - relaxed.lower < 0.25 * (right - left)  # so that their names would cover each other
    for bound, name, side in ((relaxed.lower, "l", "right"), (relaxed.upper, "u", "left")):
        axes.axvline(bound, color="#999999", linewidth=0.9, zorder=0)
        said = f"{name} = {bound:.3g}".replace("-", "−")
        axes.annotate(said, (bound, 0.98), xycoords=("data", "axes fraction"), ha=side if near else "center", va="top")
    # No higher than the curve and the names of l and u above it: the legend stands below, where it covers nothing.
    high = right - least
    heights = (least - 0.08 * high, right + 0.22 * high)
    axes.set(xlim=window, ylim=heights, xlabel="h, pre-activation", ylabel="g(h), value")
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=2, frameon=False)
