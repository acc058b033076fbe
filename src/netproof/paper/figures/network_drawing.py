"""A small network as circles and edges, from left to right, with every weight and bias."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Layer = tuple[Sequence[Sequence[float]], Sequence[float]]  # weight (out, in), bias (out,)
ALONG = 0.36  # of an edge: where its weight stands; in the middle those of crossing edges would cover each other


def draw_network(axes: Axes, layers: Sequence[Layer]) -> None:
    """Draw a circle for each input, pre-activation and output, with its bias, and a ReLU after hidden ones."""
    inputs = len(layers[0][0][0])
    sizes = [inputs, *(len(bias) for _, bias in layers)]
    rows, middle = max(sizes), (max(sizes) - 1) / 2
    at = [[(float(k), (rows - size) / 2 + j) for j in range(size)] for k, size in enumerate(sizes)]
    for k, (weight, bias) in enumerate(layers, 1):
        for j, (row, added) in enumerate(zip(weight, bias, strict=True)):
            for start, value in zip(at[k - 1], row, strict=True):
                _edge(axes, start, at[k][j], value)
            last = k == len(layers)
            name = "f" if last and len(bias) == 1 else f"h{k}_{j + 1}"
            said = f"bias {_number(added)}" + ("" if last else "\nthen ReLU")
            _circle(axes, at[k][j], name, said, above=at[k][j][1] < middle)
    for j, place in enumerate(at[0], 1):
        _circle(axes, place, f"x{j}", "in [−1, 1]", above=place[1] < middle)
    axes.set(xlim=(-0.35, len(layers) + 0.35), ylim=(rows - 0.5, -0.5))
    axes.set_axis_off()


def _edge(axes: Axes, start: tuple[float, float], end: tuple[float, float], weight: float) -> None:
    axes.plot([start[0], end[0]], [start[1], end[1]], color="#777777", linewidth=1, zorder=1)
    x, y = ((1 - ALONG) * a + ALONG * b for a, b in zip(start, end, strict=True))
    box = {"facecolor": "white", "linewidth": 0, "pad": 1}
    axes.text(x, y, _number(weight), ha="center", va="center", fontsize=10, bbox=box, zorder=2)


def _circle(axes: Axes, place: tuple[float, float], name: str, said: str, *, above: bool) -> None:
    """Draw a named circle; what is said of it stands on its outer side, where no edge is."""
    axes.plot(*place, "o", markersize=36, color="black", markerfacecolor="white", zorder=3)
    axes.text(*place, name, ha="center", va="center", fontsize=11, zorder=4)
    where, side = (22, "bottom") if above else (-22, "top")
    words: dict[str, Any] = {
        "xytext": (0, where),
        "textcoords": "offset points",
        "ha": "center",
        "va": side,
        "fontsize": 9.5,
    }
    axes.annotate(said, place, **words)


def _number(value: float) -> str:
    return f"{value:g}".replace("-", "−")
