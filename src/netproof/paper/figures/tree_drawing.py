"""A tree of splits as boxes and arrows, from left to right."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from netproof.paper.figures.tree import TreeNode

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ROW = 0.9  # inches per leaf


NOTE = 0.4  # of a row, for a note of two lines


def tree_height(nodes: Sequence[TreeNode], note: str = "") -> float:
    return 0.7 + ROW * (sum(node.split_on is None for node in nodes) + NOTE * bool(note))


def places(nodes: Sequence[TreeNode]) -> dict[int, tuple[float, float]]:
    """Return (depth, row) of every node: leaves one under the other, a parent midway between its children."""
    children: dict[int, list[int]] = {}
    for node in nodes:
        if node.parent is not None:
            children.setdefault(node.parent, []).append(node.number)
    found: dict[int, tuple[float, float]] = {}
    rows = iter(range(len(nodes)))

    def place(number: int, depth: int) -> float:
        below = [place(child, depth + 1) for child in children.get(number, ())]
        row = (below[0] + below[-1]) / 2 if below else float(next(rows))
        found[number] = (float(depth), row)
        return row

    place(0, 0)
    return found


def draw_tree(axes: Axes, nodes: Sequence[TreeNode], note: str = "") -> None:
    """Draw a box per sub-domain with its two values: grey with a solid rim if proved, else white and dashed.

    note: what the values need to be understood, below the tree.
    """
    at = places(nodes)
    deepest = max(depth for depth, _ in at.values())
    lowest = max(row for _, row in at.values())
    for node in nodes:
        depth, row = at[node.number]
        if node.parent is not None:
            start = at[node.parent]
            axes.plot([start[0], depth], [start[1], row], color="#777777", linewidth=1, zorder=1)
            middle = (0.52 * start[0] + 0.48 * depth, 0.52 * start[1] + 0.48 * row)
            said = f"{node.neuron} {node.side.replace('>=', '≥').replace('<=', '≤')}"
            axes.text(
                *middle,
                said,
                ha="center",
                va="center",
                fontsize=9,
                bbox={"facecolor": "white", "linewidth": 0, "pad": 1},
            )
        proved = bool(node.proved_by)
        box = {
            "boxstyle": "round,pad=0.35",
            "facecolor": "#dcdcdc" if proved else "white",
            "edgecolor": "black",
            "linestyle": "-" if proved else "--",
        }
        words = f"bound {_value(node.bound)}\nLP {_value(node.lp)}"
        words += f"\nproved by {node.proved_by}" if proved else ""
        axes.text(depth, row, words, ha="center", va="center", fontsize=9, bbox=box, zorder=2)
    axes.text(0.5, 0.0, note, transform=axes.transAxes, ha="center", va="bottom", fontsize=9.5)
    axes.set(xlim=(-0.35, deepest + 0.35), ylim=(lowest + 0.6 + NOTE * bool(note), -0.6))
    axes.set_axis_off()


def _value(number: float) -> str:
    return "empty" if math.isinf(number) else f"{number:.3f}".replace("-", "−")
