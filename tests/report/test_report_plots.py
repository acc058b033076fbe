"""Plots: what is drawn is what was measured."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import pytest

from netproof.report import plots

PNG, PDF = b"\x89PNG\r\n", b"%PDF-"


def line_of(figure: plots.Figure, label: str) -> tuple[list[float], list[float]]:
    (found,) = [line for line in figure.axes[0].lines if str(line.get_label()).startswith(label)]
    return list(found.get_xdata()), list(found.get_ydata())


def test_cactus_counts_what_is_solved_by_then() -> None:
    figure = plots.cactus({"auto": [3.0, 0.5, 1.0], "lirpa": [2.0], "none": []}, 4, limit=60.0)
    assert line_of(figure, "auto") == ([0.5, 1.0, 3.0, 60.0], [1, 2, 3, 3])
    assert line_of(figure, "lirpa") == ([2.0, 60.0], [1, 1])
    assert line_of(figure, "none") == ([60.0], [0])
    axes = figure.axes[0]
    assert axes.get_xscale() == "log"
    assert axes.get_ylabel() == "solved, of 4"
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["auto (3)", "lirpa (1)", "none (0)"]


def test_cactus_in_percent() -> None:
    figure = plots.cactus({"auto": [1.0, 2.0]}, 8, percent=True)
    assert line_of(figure, "auto")[1] == [12.5, 25.0, 25.0]


def test_lines_differ_without_colour() -> None:
    styles = list(islice(plots._styles(), 24))
    assert len({(str(line), marker) for _, line, marker in styles}) == 24
    first = styles[:8]
    assert len({str(line) for _, line, _ in first}) == len({marker for *_, marker in first}) == 8


def test_scatter_puts_the_unsolved_on_the_border() -> None:
    pairs = [(1.0, 2.0, "unsat"), (0.0, None, "sat"), (None, None, "")]
    figure = plots.scatter(pairs, ("auto", "lirpa"), limit=30.0)
    assert line_of(figure, "unsat") == ([1.0], [2.0])
    assert line_of(figure, "sat") == ([plots.LEAST], [60.0])
    assert line_of(figure, "solved by none") == ([60.0], [60.0])
    axes = figure.axes[0]
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("auto, seconds", "lirpa, seconds")
    assert sum(text.get_text() == "not solved" for text in axes.texts) == 2
    assert not plots.scatter(pairs[:1], ("auto", "lirpa"), limit=30.0).axes[0].texts, "no border where all is solved"


def test_files(tmp_path: Path) -> None:
    figure = plots.cactus({"auto": [1.0]}, 1)
    png, pdf = plots.save(figure, tmp_path / "a.b")
    assert (png.name, pdf.name) == ("a.b.png", "a.b.pdf")
    assert png.read_bytes().startswith(PNG)
    assert pdf.read_bytes().startswith(PDF)


@pytest.mark.parametrize("suffix", ["png", "svg", "pdf"])
def test_the_same_plot_is_the_same_file(suffix: str) -> None:
    once, again = (plots.render(plots.cactus({"auto": [1.0, 2.0]}, 3), suffix) for _ in range(2))
    assert once == again


def test_no_global_state() -> None:
    import sys

    plots.render(plots.scatter([(1.0, 1.0, "sat")], ("a", "b")), "png")
    assert "matplotlib.pyplot" not in sys.modules
