"""Cactus and scatter plots. Figures are objects of their own: nothing here touches pyplot's global state."""

from __future__ import annotations

import io
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_pdf import FigureCanvasPdf
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

# Colours that colour-blind readers tell apart, each with a dash pattern and a marker so that grey print works too.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#000000", "#e69f00", "#56b4e9", "#8c6d31")
LINES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (8, 2)), (0, (1, 3)), (0, (3, 1, 1, 1)))
MARKERS = ("o", "s", "^", "D", "v", "x", "P", "*")
KINDS = {"unsat": ("o", "#0072b2", "unsat"), "sat": ("^", "#d55e00", "sat"), "": ("x", "#555555", "solved by none")}
LEAST = 0.001  # seconds: what is faster is drawn here, because a logarithm needs more than 0
DPI = 150  # of PNG files
LETTERS_PER_INCH = 14.0  # of a legend
ROW_WIDTH = 2.6  # inches for each plot of a row
MANY = 500  # points from which on they are drawn smaller
SHOWN = 12  # markers on a line at most
Style = tuple[str, str | tuple[int, tuple[int, ...]], str]  # colour, dashes, marker
SETTINGS: dict[Any, Any] = {"font.size": 10, "svg.fonttype": "path", "svg.hashsalt": "netproof", "axes.axisbelow": True}


def cactus(
    series: Mapping[str, Sequence[float]],
    total: int,
    *,
    title: str = "",
    limit: float | None = None,
    percent: bool = False,
    x_label: str = "seconds for each instance",
    styles: Mapping[str, Style] | None = None,
) -> Figure:
    """Draw instances solved (or their share) against the time that each may take; one line per method.

    series: by method, the seconds of the instances that it solved. total: how many there are. limit: the time limit;
    where something was left unsolved, lines go on to it. styles: by method; without them in the order of the series.
    """
    figure, axes = _figure(title)
    _draw_cactus(axes, Solved(title, series, total, limit, styles), percent=percent, counted=True)
    axes.set_xlabel(x_label)
    axes.set_ylabel("solved, % of instances" if percent else f"solved, of {total}")
    _legend_below(figure, len(series))
    return figure


@dataclass(frozen=True)
class Solved:
    """One set of instances: by method the seconds of those that it solved, how many there are, and the time limit."""

    title: str
    series: Mapping[str, Sequence[float]]
    total: int
    limit: float | None = None
    styles: Mapping[str, Style] | None = None


def cactus_row(sets: Sequence[Solved]) -> Figure:
    """Draw the cactus plots of several sets in one row, in percent, with one legend for all."""
    with mpl.rc_context(SETTINGS):
        figure = Figure(figsize=(1.0 + ROW_WIDTH * len(sets), 3.6), layout="constrained")
        every = figure.subplots(1, len(sets), sharey=True, squeeze=False)[0]
        for axes, one in zip(every, sets, strict=True):
            axes.grid(visible=True, color="#dddddd", linewidth=0.6)
            axes.set_title(one.title)
            _draw_cactus(axes, one, percent=True, counted=False)
            axes.set_xlabel("seconds for each instance")
        every[0].set_ylabel("solved, % of instances")
        known = {label: line for axes in every for line, label in zip(*axes.get_legend_handles_labels(), strict=True)}
        room = int(LETTERS_PER_INCH * figure.get_figwidth()) // (6 + max(map(len, known), default=1))
        columns = max(1, min(room, len(known)))
        figure.legend(known.values(), known, loc="outside lower center", ncols=columns, fontsize=9, frameon=False)
    return figure


def _draw_cactus(axes: Axes, of: Solved, *, percent: bool, counted: bool) -> None:
    """Draw one line per method; counted: with the number of solved instances beside its name."""
    series, total, limit, styles = of.series, of.total, of.limit, of.styles
    most = max((seconds for times in series.values() for seconds in times), default=1.0)
    unsolved = any(len(times) < total for times in series.values())
    end = max(limit if limit is not None and unsolved else 1.5 * most, LEAST * 10)
    scale = 100.0 / max(total, 1) if percent else 1.0
    for (name, times), free in zip(series.items(), _styles(), strict=False):
        colour, line, marker = free if styles is None else styles[name]
        ordered = sorted(max(seconds, LEAST) for seconds in times)
        x = [*ordered, max(end, ordered[-1] if ordered else end)]
        y = [scale * count for count in (*range(1, len(ordered) + 1), len(ordered))]
        axes.plot(
            x,
            y,
            drawstyle="steps-post",
            color=colour,
            linestyle=line,
            marker=marker,
            markersize=5,
            # None at the end of the line: nothing was solved there.
            markevery=list(range(0, len(ordered), max(1, math.ceil(len(x) / SHOWN)))),
            label=f"{name} ({len(ordered)})" if counted else name,
        )
    axes.set_xscale("log")
    _ticks(axes.xaxis)
    if not any(series.values()):
        axes.text(0.5, 0.5, "nothing was solved", transform=axes.transAxes, ha="center", va="center", color="#666666")
    axes.axhline(scale * total, color="#999999", linewidth=0.8)
    axes.set_ylim(0, scale * max(total, 1) * 1.05)
    if not percent:
        axes.yaxis.set_major_locator(MaxNLocator(integer=True))


def scatter(
    pairs: Sequence[tuple[float | None, float | None, str]],
    names: tuple[str, str],
    *,
    limit: float | None = None,
    title: str = "",
) -> Figure:
    """Draw two methods on the same instances: seconds of the first against those of the second, on log scales.

    pairs: for each instance the seconds of both, None where that method did not solve it, and "unsat", "sat" or "" for
    unsolved. What was not solved lies on the border.
    """
    figure, axes = _figure(title, size=(5.2, 5.2))
    known = [seconds for *both, _ in pairs for seconds in both if seconds is not None]
    unsolved = len(known) < 2 * len(pairs)
    longest = max([*known, LEAST * 10, *([limit] if limit is not None and unsolved else [])])
    border = 2.0 * longest
    low = min([*(max(seconds, LEAST) for seconds in known), border / 100.0]) / 1.5
    for kind, (marker, colour, label) in KINDS.items():
        points = [(_place(x, border), _place(y, border)) for x, y, is_kind in pairs if is_kind == kind]
        if points:
            axes.plot(
                *zip(*points, strict=True),
                linestyle="",
                marker=marker,
                color=colour,
                alpha=0.7,
                markersize=5 if len(pairs) <= MANY else 3,
                label=f"{label} ({len(points)})",
                clip_on=False,
            )
    axes.plot([low, border], [low, border], color="#999999", linewidth=0.8)
    axes.set(xscale="log", yscale="log", xlim=(low, border * 1.15), ylim=(low, border * 1.15), aspect="equal")
    for times in (2.0, 10.0):
        for x, y in (([low * times, border], [low, border / times]), ([low, border / times], [low * times, border])):
            axes.plot(x, y, color="#bbbbbb", linewidth=0.6, linestyle="--", zorder=0.5)
    for axis in (axes.xaxis, axes.yaxis):
        _ticks(axis)
    if unsolved:
        _mark_border(axes, border, math.sqrt(low * border))
    axes.set_xlabel(f"{names[0]}, seconds")
    axes.set_ylabel(f"{names[1]}, seconds")
    _legend_below(figure, len(KINDS))
    return figure


def _ticks(axis: Axis) -> None:
    """Put labels at decades, and at 2 and 5 where those are few; no others, which would run into each other."""
    low, high = sorted(axis.get_view_interval())
    few = math.log10(high / low) < 1.7 if low > 0 else False
    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if few else (1.0,)))
    axis.set_major_formatter(FuncFormatter(_seconds))
    axis.set_minor_locator(NullLocator())


def _legend_below(figure: Figure, entries: int) -> None:
    """Put the legend under the axes, where it covers nothing, in as many columns as its words leave room for."""
    _, labels = figure.axes[0].get_legend_handles_labels()
    room = int(LETTERS_PER_INCH * figure.get_figwidth()) // (6 + max(map(len, labels), default=1))
    columns = max(1, min(3, entries, room))
    figure.legend(loc="outside lower center", ncols=columns, fontsize=9, frameon=False)


def _mark_border(axes: Axes, border: float, middle: float) -> None:
    for draw in (axes.axvline, axes.axhline):
        draw(border, color="#999999", linewidth=0.8, linestyle=":")
    words: dict[str, Any] = {"s": "not solved", "fontsize": 8, "color": "#666666"}
    axes.text(border * 0.95, middle, rotation=90, ha="right", va="center", **words)
    axes.text(middle, border * 0.95, ha="center", va="top", **words)


def _figure(title: str, size: tuple[float, float] = (6.4, 4.2)) -> tuple[Figure, Axes]:
    with mpl.rc_context(SETTINGS):
        figure = Figure(figsize=size, layout="constrained")
        axes = figure.add_subplot()
        axes.grid(visible=True, color="#dddddd", linewidth=0.6)
        if title:
            axes.set_title(title)
    return figure, axes


def _styles() -> Iterator[Style]:
    """Yield eight styles that differ in all three; then the same colours with other dashes and markers, without end."""
    index = 0
    while True:
        turn, place = divmod(index, len(COLOURS))
        yield COLOURS[place], LINES[(place + turn) % len(LINES)], MARKERS[(place + 3 * turn) % len(MARKERS)]
        index += 1


def _place(seconds: float | None, border: float) -> float:
    return border if seconds is None else max(seconds, LEAST)


def _seconds(value: float, _: object) -> str:
    return f"{value:g}"


def save(figure: Figure, path_without_suffix: str | Path, formats: Sequence[str] = ("png", "pdf")) -> list[Path]:
    """Write the figure in each format; return the paths, in the same order."""
    paths = []
    if len(formats) > 1:  # its parts find their places once, not for every format
        with mpl.rc_context(SETTINGS):
            figure.draw_without_rendering()
        figure.set_layout_engine("none")
    for suffix in formats:
        path = Path(f"{path_without_suffix}.{suffix}")
        path.write_bytes(render(figure, suffix))
        paths.append(path)
    return paths


def render(figure: Figure, suffix: str) -> bytes:
    """Render the figure as a file's content, the same bytes for the same figure: no dates."""
    buffer, before = io.BytesIO(), figure.dpi
    # Each canvas draws once by itself; `savefig` draws twice, and drawing is most of the time of a report.
    with mpl.rc_context(SETTINGS):
        if suffix == "png":
            figure.set_dpi(DPI)
            FigureCanvasAgg(figure).print_png(buffer)
        elif suffix == "pdf":
            FigureCanvasPdf(figure).print_pdf(buffer, metadata={"CreationDate": None})
        else:
            FigureCanvasSVG(figure).print_svg(buffer, metadata={"Date": None})
    figure.set_dpi(before)
    return buffer.getvalue()
