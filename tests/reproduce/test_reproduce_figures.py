"""Figures 1 and 2: lines that enclose the ReLU, and an example that agrees with enumeration."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from netproof.errors import UsageError
from netproof.paper.figures.example import (
    CONFLICT,
    LAYERS,
    Example,
    _draw_bounds,
    _panels,
    compute,
    example,
    network,
    problem_of,
)
from netproof.paper.figures.network_drawing import draw_network
from netproof.paper.figures.relaxations import _panels as relaxation_panels
from netproof.paper.figures.relaxations import compute as relaxed
from netproof.paper.figures.relaxations import relaxations, start_slope
from netproof.paper.figures.tree import TreeNode
from netproof.paper.figures.tree_drawing import places
from netproof.paper.tables.drawing import figure_of
from support.exact import enumerate_minimum, milp_minimum

UNIT = np.ones((1, 1)), np.zeros(1)


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def check_files(folder: Path, name: str) -> str:
    """All four are there and are what their suffixes say; the page's text."""
    assert (folder / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    assert (folder / f"{name}.pdf").read_bytes().startswith(b"%PDF")
    assert rows_of(folder / f"{name}.csv")
    text = (folder / f"{name}.html").read_text(encoding="utf-8")
    assert "src=" not in text.replace('src="data:', ""), "the page needs no other file"
    return text


# --- Figure 1 ---


@pytest.mark.parametrize(("lower", "upper"), [(-1.0, 1.5), (-3.0, 0.5), (-1e-3, 100.0)])
def test_the_lines_enclose_the_relu(lower: float, upper: float) -> None:
    found = relaxed(lower, upper)
    for panel in found:
        assert lower <= panel.lower < panel.upper <= upper
        for h in np.linspace(panel.lower, panel.upper, 101):
            value = max(h, 0.0)
            slack = 1e-12 * (1 + abs(value))
            assert panel.least(h) <= value + slack
            assert panel.most(h) >= value - slack
    by_name = {panel.panel: panel for panel in found}
    assert by_name["b"].area == by_name["c"].area == 0
    triangle = -lower * upper / 2
    assert by_name["a"].area == pytest.approx(triangle)
    # One lower line leaves more than the triangle; the first slope is the one that leaves least.
    areas = {slope: by_name[f"d{k}"].area for k, slope in enumerate((0.0, 0.5, 1.0), 1)}
    assert all(area > triangle for area in areas.values())
    assert areas[start_slope(lower, upper)] == min(areas.values())


@pytest.mark.parametrize(("lower", "upper"), [(0.0, 1.0), (-1.0, 0.0), (1.0, -1.0), (-math.inf, 1.0), (math.nan, 1.0)])
def test_a_stable_neuron_is_no_panel_d(lower: float, upper: float) -> None:
    with pytest.raises(UsageError, match="--lower"):
        relaxed(lower, upper)


@pytest.mark.parametrize(("lower", "upper"), [(-1.0, 1.5), (-3.0, 0.5), (-0.2, 4.0)])
def test_the_axes_of_figure_1_are_as_high_as_what_they_show(lower: float, upper: float) -> None:
    """Lines fill the height, and the legend, below, covers none of them."""
    figure = figure_of(relaxation_panels(relaxed(lower, upper)), columns=2)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    for axes in figure.axes:
        drawn = [y for line in axes.lines if line.get_label()[0] != "_" for y in line.get_ydata()]
        bottom, top = axes.get_ylim()
        assert bottom < min(drawn)
        assert max(drawn) < top
        assert max(drawn) - min(drawn) > 0.6 * (top - bottom)
        assert not axes.get_legend().get_window_extent().overlaps(axes.get_window_extent())
        low, high = (text.get_window_extent() for text in axes.texts)
        assert not low.overlaps(high)


def test_relaxations_writes_its_files(tmp_path: Path) -> None:
    relaxations(tmp_path, lower=-2.0, upper=1.0)
    text = check_files(tmp_path, "relaxations")
    assert "Figure 1" in text
    upper = [row for row in rows_of(tmp_path / "relaxations.csv") if row["panel"] == "a" and row["side"] == "upper"]
    assert float(upper[0]["slope"]) == pytest.approx(1 / 3)
    assert float(upper[0]["intercept"]) == pytest.approx(2 / 3)


# --- Figure 2 ---


@pytest.fixture(scope="module")
def found() -> Example:
    return compute()


def signs_to(tree: list[TreeNode], node: TreeNode) -> dict[tuple[int, int], int]:
    """By (node of h, element), the signs decided on the way down; h of hidden layer k is graph node 2k − 1."""
    signs: dict[tuple[int, int], int] = {}
    while node.neuron is not None and node.parent is not None:
        signs[2 * node.neuron.layer - 1, node.neuron.index - 1] = 1 if node.side == ">= 0" else -1
        node = tree[node.parent]
    return signs


def box_of(layers: object) -> tuple[np.ndarray, np.ndarray]:
    size = 2 if layers is LAYERS else 1
    return -np.ones(size), np.ones(size)


def test_the_minimum_is_that_of_enumeration(found: Example) -> None:
    exact = enumerate_minimum(network(LAYERS), *box_of(LAYERS), *UNIT).value
    assert exact == pytest.approx(0.25, abs=1e-7)
    assert found.minimum == pytest.approx(exact, abs=1e-6)


def test_each_stage_is_tighter_and_none_is_wrong(found: Example) -> None:
    bounds = [stage.bound for stage in found.stages]
    assert bounds == sorted(bounds)
    assert bounds[0] < bounds[1] < bounds[2] < 0 < found.minimum
    points = np.stack(np.meshgrid(*[np.linspace(-1, 1, 41)] * 2), -1).reshape(-1, 1, 2)
    graph = problem_of(LAYERS).graph
    values = graph.values(torch.from_numpy(points))
    for stage in found.stages:
        for node, layer in zip(graph.nonlinear, stage.neurons, strict=True):
            h = values[graph.nodes[node].inputs[0]].flatten(1)
            for j, (low, high) in enumerate(layer):
                assert low <= float(h[:, j].min())
                assert float(h[:, j].max()) <= high
    first, optimised = found.stages[1].neurons[1], found.stages[2].neurons[1]
    assert any(b[0] > a[0] + 0.1 or b[1] < a[1] - 0.1 for a, b in zip(first, optimised, strict=True))


@pytest.mark.parametrize("which", ["tree", "conflict"])
def test_every_node_of_the_trees_is_sound(found: Example, which: str) -> None:
    """Against a MILP under the same signs: bound <= LP <= minimum, empty only where nothing satisfies the signs."""
    tree, layers = (found.tree, LAYERS) if which == "tree" else (found.conflict, CONFLICT)
    for node in tree:
        exact = milp_minimum(network(layers), *box_of(layers), *UNIT, signs_to(tree, node)).value
        assert node.lp <= exact + 1e-6
        assert node.bound <= exact + 1e-6
        if node.split_on is None:
            assert node.proved_by == ("bound" if node.bound > 0 else "LP")
            assert max(node.bound, node.lp) > 0
        else:
            children = [other for other in tree if other.parent == node.number]
            assert [child.side for child in sorted(children, key=lambda c: c.side, reverse=True)] == [">= 0", "<= 0"]
            assert {child.neuron for child in children} == {node.split_on}
    assert [node.number for node in tree] == list(range(len(tree)))


def test_two_leaves_of_the_appendixs_example_need_the_lp(found: Example) -> None:
    leaves = [node for node in found.conflict if node.split_on is None]
    assert len(leaves) == 4
    assert sorted(round(leaf.bound, 6) for leaf in leaves) == [-0.999, -0.999, 0.001, 0.001]
    assert [leaf.lp for leaf in leaves] == pytest.approx([0.001] * 4, abs=1e-6)
    assert sorted(leaf.proved_by for leaf in leaves) == ["LP", "LP", "bound", "bound"]


def test_the_picture_of_the_appendixs_example_says_its_offset(found: Example) -> None:
    said = {panel.title: words_of(panel.draw) for panel in _panels(found)}
    assert any("f + 0.001" in text for text in said["Appendix A.1: f = relu(x) − relu(x)"])
    assert not any("0.001" in text for text in said["Tree of splits"])


def words_of(draw: Callable[[Axes], None]) -> list[str]:
    axes = Figure().add_subplot()
    draw(axes)
    return [text.get_text() for text in axes.texts]


def test_the_network_is_drawn_with_all_its_numbers(found: Example) -> None:
    """Each weight on its own edge, between the circles that it joins; each bias at its neuron."""
    axes = Figure().add_subplot()
    draw_network(axes, LAYERS)
    circles = {text.get_text(): text.get_position() for text in axes.texts if text.get_text()[0] in "xhf"}
    assert set(circles) == {"x1", "x2", "h1_1", "h1_2", "h2_1", "h2_2", "f"}
    levels = [["x1", "x2"], ["h1_1", "h1_2"], ["h2_1", "h2_2"], ["f"]]
    for before, here, (weight, bias) in zip(levels, levels[1:], LAYERS, strict=False):
        for end, row, added in zip(here, weight, bias, strict=True):
            (note,) = (n for n in axes.texts if getattr(n, "xy", None) == circles[end] and "bias" in n.get_text())
            assert note.get_text().splitlines() == [f"bias {minus(added)}", *["then ReLU"] * (end != "f")]
            for start, value in zip(before, row, strict=True):
                (x0, y0), (x1, y1) = circles[start], circles[end]
                on = [t for t in axes.texts if is_on(t.get_position(), (x0, y0), (x1, y1)) and t.get_text() != start]
                assert minus(value) in [t.get_text() for t in on if t.get_text() != end]
    assert words_of(_panels(found)[0].draw) == [text.get_text() for text in axes.texts]


def minus(value: float) -> str:
    return f"{value:g}".replace("-", "−")


def is_on(point: tuple[float, float], start: tuple[float, float], end: tuple[float, float]) -> bool:
    """Whether a point is on the line between two others, within it."""
    share = (point[0] - start[0]) / (end[0] - start[0])
    return 0 < share < 1 and math.isclose(point[1], start[1] + share * (end[1] - start[1]), abs_tol=1e-9)


def test_the_tree_is_laid_out_without_overlap(found: Example) -> None:
    at = places(found.conflict)
    assert len(set(at.values())) == len(found.conflict)
    for node in found.conflict:
        if node.parent is not None:
            assert at[node.number][0] == at[node.parent][0] + 1


def test_bars_end_at_their_numbers(found: Example) -> None:
    """In pixels, as people see them: from the lower bound to the upper one, and within the frame."""
    figure = Figure(dpi=200)
    axes = figure.add_subplot()
    _draw_bounds(axes, found.stages)
    axes.get_legend().remove()
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    picture = np.asarray(canvas.buffer_rgba())[::-1, :, :3].astype(int)  # rows from below, as the axes count
    left, right = axes.get_xlim()
    for row, (stage, colour) in enumerate(zip(found.stages, ("#999999", "#d55e00", "#0072b2"), strict=True)):
        for place, (low, high) in enumerate(span for layer in stage.neurons for span in layer):
            assert left < low < high < right
            (start, y), (end, _) = axes.transData.transform([(x, place + 0.24 * (row - 1)) for x in (low, high)])
            wanted = np.array(to_rgb(colour)) * 255
            (inked,) = (np.abs(picture[round(y)] - wanted).max(1) < 40).nonzero()
            assert abs(inked.min() - start) <= 1.5
            assert abs(inked.max() + 1 - end) <= 1.5


def test_example_writes_its_files(tmp_path: Path) -> None:
    example(tmp_path)
    text = check_files(tmp_path, "example")
    assert "these are our own" in text
    tree = rows_of(tmp_path / "example-tree.csv")
    assert {row["tree"] for row in tree} == {"Figure 2", "Appendix A.1"}
    bounds = {(row["stage"], row["quantity"]): float(row["lower"]) for row in rows_of(tmp_path / "example.csv")}
    assert bounds["LiRPA, first slopes", "f"] < bounds["LiRPA, optimised slopes", "f"] < bounds["exact", "f"]
