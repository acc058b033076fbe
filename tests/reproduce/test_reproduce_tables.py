"""Tables 1 and 2 and the CPU figure: what is counted how, and three sources that are never mixed."""

from __future__ import annotations

import csv
import dataclasses
import re
from pathlib import Path

import pytest
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from netproof.campaign.store import Result
from netproof.core.cpu import available_cpus
from netproof.errors import UsageError
from netproof.methods.registry import METHODS
from netproof.paper.sets import SETS, Boxes, PaperSet
from netproof.paper.tables import cpu, table1, table2
from netproof.paper.tables.drawing import style
from netproof.paper.tables.output import Output
from netproof.paper.tables.rows import our_row, paper_rows, paper_speedups
from netproof.report.plots import cactus_row
from support.campaign import a_result

SLOW = {
    "babsr-lp": 30.0,
    "lirpa-fixed": 12.0,
    "lirpa-single": 8.0,
    "lirpa": 2.0,
    "lirpa-grown": 2.5,
    "lirpa-forced": 4.0,
    "auto": 1.0,
}


def results_of(sets: dict[str, PaperSet], methods: list[str], **by_set: float) -> list[Result]:
    """Every method on every instance, in `SLOW` seconds times the factor given for the set."""
    return [
        dataclasses.replace(
            a_result(i.names[1], method=method, benchmark=name, truth="unsat"),
            total=SLOW[method] * by_set.get(name, 1.0),
            split=1,
        )
        for name, one in sets.items()
        for method in methods
        for i in one.instances
    ]


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def cells_of(page: str) -> list[list[str]]:
    """The cells of every table row of a page."""
    rows = re.findall(r"<tr>(.*?)</tr>", page, re.DOTALL)
    return [[re.sub("<.*?>", "", cell) for cell in re.findall(r"<td.*?>(.*?)</td>", row)] for row in rows]


# --- rows ---

WIDE = PaperSet("oval_wide_unclipped", (), Boxes(4, 0))


def test_what_was_not_solved_counts_at_its_limit() -> None:
    runs = [
        a_result(total=2.0, timeout=20.0, domains=10),
        a_result(verdict="timeout", total=19.8, timeout=20.0, domains=30),
        a_result(verdict="error", total=0.5, timeout=20.0, domains=0),
        a_result(verdict="unknown", total=3.0, timeout=20.0, domains=40),
    ]
    row = our_row("lirpa", WIDE, runs)
    assert row.mean_s == pytest.approx((2.0 + 20.0 + 20.0 + 20.0) / 4)
    assert (row.branches, row.timed_out, row.solved, row.limit) == (20.0, 25.0, 25.0, 20.0)
    assert not row.all_solved
    assert our_row("lirpa", WIDE, []).mean_s is None


@pytest.mark.parametrize(
    ("domains", "split", "expected"),
    [
        (512, 1, 1022),  # nine neurons at once: a tree of 511 splits
        (476, 238, 476),  # one neuron at a time
        (0, 0, 0),
        (30, None, None),  # of an earlier version, or stopped from outside
    ],
)
def test_branches_with_two_for_a_split(domains: int, split: int | None, expected: int | None) -> None:
    run = dataclasses.replace(a_result(domains=domains), split=split)
    assert our_row("lirpa", WIDE, [run]).tree == expected
    under_roots = dataclasses.replace(run, options={"tighter_roots": None})  # bounds what it has again
    assert our_row("auto", WIDE, [under_roots]).tree is None


def test_no_mean_of_branches_where_one_is_not_known() -> None:
    """It would be that of other properties than the mean beside it."""
    known = dataclasses.replace(a_result(domains=512), split=1)
    assert our_row("lirpa", WIDE, [known, known]).tree == 1022
    assert our_row("lirpa", WIDE, [known, a_result()]).tree is None


def test_properties_timed_out_in_a_turn_of_the_lp_are_counted() -> None:
    solved = dataclasses.replace(a_result(), cut_in_lp=False)
    late, in_lp = (dataclasses.replace(a_result(verdict="timeout"), cut_in_lp=cut) for cut in (False, True))
    assert our_row("lirpa", WIDE, [solved, late, in_lp, in_lp]).in_lp == 2
    assert our_row("lirpa", WIDE, [a_result()]).in_lp == 0  # nothing timed out, whatever is not known
    assert our_row("lirpa", WIDE, [in_lp, a_result(verdict="timeout")]).in_lp is None
    assert our_row("lirpa", WIDE, []).in_lp is None


def test_no_published_row_beside_clipped_boxes(clipped: dict[str, PaperSet], tmp_path: Path) -> None:
    rows = table1.rows_of(results_of(clipped, ["lirpa"]), ["lirpa"], clipped)
    assert {row.source for row in rows} == {"ours", "paper"}
    runs = results_of(clipped, list(table2.OURS["released"].values()))
    lines = table2.lines_of(runs, clipped, "released")
    assert {line.row.source for line in lines} == {"ours", "paper"}
    assert all(line.published is None for line in lines)
    points = cpu.points_of({cpu.Place("cpu", 1): results_of(clipped, ["lirpa"])}, "lirpa", clipped)
    assert {point.place for point in points} == {"1 core", "paper"}
    page = table1.write(Output.at(tmp_path, "table1"), results_of(clipped, ["lirpa"]), ["lirpa"], clipped)
    assert "oval_wide (2 of 2 boxes are smaller)" in page.read_text(encoding="utf-8")
    boxes = {(row["source"], row["boxes"]) for row in rows_of(tmp_path / "table1.csv")}
    assert boxes == {("ours", "clipped in 2 of 2"), ("paper", "not said")}


def test_the_papers_tables_hold_together() -> None:
    """Two tables of one paper: BaBSR and its own rows agree, and the speed-ups are about the ratios of the times."""
    every = [PaperSet(name, (), Boxes(0, 0)) for name in SETS]
    first = {(row.method, row.set): row for one in every for row in paper_rows(1, one)}
    second = {(row.method, row.set): row for one in every for row in paper_rows(2, one)}
    printed = paper_speedups()
    assert len(first) == 30
    assert len(second) == 20
    for name in SETS:
        ours, babsr = second["both", name].mean_s, second["BaBSR", name].mean_s
        assert ours is not None
        assert babsr is not None
        assert first["Fast and Complete", name].mean_s == ours
        assert first["BaBSR", name].mean_s == pytest.approx(babsr, abs=0.06)
        for method in table2.ROWS:
            seconds = second[method, name].mean_s
            assert seconds is not None
            assert printed[method, name] == pytest.approx(babsr / seconds, rel=0.006)
        assert first["MIPplanet", name].branches is None
    assert first["BDD+ BaBSR", "oval_base_hard"].branches == 91880


def test_printed_speedups_that_are_not_the_quotients() -> None:
    """The six that docs/paper.md names."""
    every = [PaperSet(name, (), Boxes(0, 0)) for name in SETS]
    seconds = {(row.method, row.set): row.mean_s or 0.0 for one in every for row in paper_rows(2, one)}
    found = {
        (name.removeprefix("oval_"), method): (value, f"{seconds['BaBSR', name] / seconds[method, name]:.3f}")
        for (method, name), value in paper_speedups().items()
        if value is not None and round(seconds["BaBSR", name] / seconds[method, name], 2) != value
    }
    assert found == {
        ("base_easy", "optimised only"): (5.58, "5.554"),
        ("base_med", "optimised only"): (3.70, "3.694"),
        ("base_med", "both"): (31.80, "31.765"),
        ("base_hard", "optimised only"): (2.07, "2.077"),
        ("base_hard", "both"): (4.53, "4.536"),
        ("wide", "optimised only"): (4.51, "4.515"),
    }


# --- table 1 ---


def test_table1_keeps_its_sources_apart(sets: dict[str, PaperSet], tmp_path: Path) -> None:
    methods = ["lirpa", "auto"]
    output = Output.at(tmp_path / "out", "table1")
    page = table1.write(output, results_of(sets, methods), methods, sets)
    rows = rows_of(tmp_path / "out" / "table1.csv")
    wide = [(row["source"], row["method"], row["mean_s"]) for row in rows if row["set"] == "oval_wide"]
    assert wide[:2] == [("ours", "lirpa", "2"), ("ours", "auto", "1")]
    assert ("published", "BaBSR", "200") in wide
    assert ("paper", "BaBSR", "3325.7") in wide
    assert ("paper", "Fast and Complete", "375.23") in wide
    text = page.read_text(encoding="utf-8")
    cells = cells_of(text)
    assert ["lirpa", "measured here", "unclipped", "2.00", "10", "18", "0.0", "0", "100.0", "2", "20"] in cells
    assert ["BaBSR", "published", "unclipped", "200.00", "40", "40", "50.0", "–", "50.0", "2", "3600"] in cells
    assert ["Fast and Complete", "paper", "not said", "375.23", "53481", "–", "8.5", "–", "91.5", "–", "3600"] in cells
    assert "Boxes x ± ε, as in equation (10) and as published: oval_wide; oval_deep." in text
    assert "lirpa, measured here: 2 of 2" in text
    assert "BaBSR, published: 1 of 2" in text
    for name in ("table1", *(f"table1-cactus-{name}" for name in sets)):
        assert (tmp_path / "out" / f"{name}.png").stat().st_size > 1000
        assert (tmp_path / "out" / f"{name}.pdf").stat().st_size > 1000


def test_every_page_says_that_lirpa_gnn_is_not_the_papers(sets: dict[str, PaperSet], tmp_path: Path) -> None:
    said = {}
    for method in ("lirpa", "gnn", "lirpa-gnn"):
        runs = [dataclasses.replace(r, method=method) for r in results_of(sets, ["lirpa"])]
        page = table1.write(Output.at(tmp_path, "table1"), runs, [method], sets)
        said[method] = "only the branching is like the rows GNN" in page.read_text(encoding="utf-8")
    assert said == {"lirpa": False, "gnn": False, "lirpa-gnn": True}


@pytest.mark.parametrize(("timeouts", "said"), [((60.0,), "60 s"), ((60.0, 3600.0), "60 s or 3600 s"), ((None,), "")])
def test_the_time_limit_stands_beside_the_papers(timeouts: tuple[float | None, ...], said: str) -> None:
    (*found,) = table1.limits_said([a_result(timeout=timeout) for timeout in timeouts])
    assert bool(found) == bool(said)
    if said:
        assert found[0].startswith(f"Time limit of a run measured here: {said} (--timeout;")
        assert found[0].endswith("The paper's is 3600 s.")


def test_a_rival_is_introduced_where_it_is_run(sets: dict[str, PaperSet], tmp_path: Path) -> None:
    said = {}
    for method in ("lirpa", "bdd", "mip"):
        runs = [dataclasses.replace(r, method=method) for r in results_of(sets, ["lirpa"])]
        page = table1.write(Output.at(tmp_path, "table1"), runs, [method], sets).read_text(encoding="utf-8")
        said[method] = ("run with original=true" in page, "mip stands for MIPplanet" in page)
        assert "Time limit of a run measured here: 20 s (--timeout; without it that of instances.csv)" in page
    assert said == {"lirpa": (False, False), "bdd": (True, False), "mip": (False, True)}


def test_the_cactus_plots_in_one_row(sets: dict[str, PaperSet], tmp_path: Path) -> None:
    """One panel for each set with the lines of its own plot, and one legend for all."""
    methods = ["lirpa", "auto"]
    runs = results_of(sets, methods, oval_deep=3.0)
    every = [table1.solved_of(one, runs, methods) for one in sets.values()]
    without = dataclasses.replace(every[1], series={"auto, measured here": every[1].series["auto, measured here"]})
    figure = cactus_row([every[0], without])
    assert [axes.get_title() for axes in figure.axes] == ["Wide", "Deep"]
    names = [line.get_label() for line in figure.axes[0].lines if line.get_label()[0] != "_"]
    assert names[:2] == ["lirpa, measured here", "auto, measured here"]
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == names
    (auto,) = (line for line in figure.axes[1].lines if line.get_label() == "auto, measured here")
    assert list(auto.get_xdata())[:2] == [3.0, 3.0]
    assert {axes.get_ylim() for axes in figure.axes} == {(0.0, 105.0)}
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    for axes in figure.axes:
        assert not legend.get_window_extent().overlaps(axes.get_tightbbox())
    page = table1.write(Output.at(tmp_path, "table1"), runs, methods, sets).read_text(encoding="utf-8")
    assert (tmp_path / "table1-cactus.png").stat().st_size > 1000
    assert (tmp_path / "table1-cactus.pdf").stat().st_size > 1000
    assert "Cactus plots in one row" in page
    page = table1.write(Output.at(tmp_path / "one", "table1"), runs, methods, {"oval_deep": sets["oval_deep"]})
    assert not (tmp_path / "one" / "table1-cactus.png").exists()
    assert "Cactus plots in one row" not in page.read_text(encoding="utf-8")


def test_a_method_has_one_look_in_every_figure() -> None:
    assert style("lirpa", "ours")[::2] == style("Fast and Complete", "paper")[::2] == style("both", "ours")[::2]
    assert style("gnn", "ours")[0] == style("GNN", "published")[0] != style("lirpa-gnn", "ours")[0]
    wanted = [name for each in table1.WANTED.values() for name in each]
    rows = [name for each in table2.OURS.values() for name in each.values()]
    methods = {*wanted, "babsr-lp", "gnn", "gnn-online", "mip", *rows}
    assert len({style(method, "ours") for method in methods}) == len(methods)


def test_means_over_unsolved_are_hollow(sets: dict[str, PaperSet]) -> None:
    runs = results_of(sets, ["lirpa"])
    late = [dataclasses.replace(r, verdict="timeout") if r.benchmark == "oval_deep" else r for r in runs]
    axes = Figure().add_subplot()
    rows = [row for row in table1.rows_of(late, ["lirpa"], sets) if row.source == "ours"]
    table1.draw_figures(axes, rows, sets, "mean_s")
    whole, hollow = marks_of(axes)
    assert (list(whole.get_xdata()), whole.get_markerfacecolor()) == ([0], style("lirpa", "ours")[0])
    assert (list(hollow.get_xdata()), hollow.get_markerfacecolor()) == ([1], "white")


def marks_of(axes: Axes) -> list[Line2D]:
    """What is drawn besides the lines between categories."""
    return [line for line in axes.lines if line.get_marker() != "None"]


@pytest.mark.parametrize("what", ["mean_s", "branches"])
def test_sets_are_categories_so_nothing_joins_their_marks(sets: dict[str, PaperSet], what: str) -> None:
    """Each series beside the others, none on top of another; methods by colour, sources by shape."""
    axes = Figure().add_subplot()
    rows = table1.shown_in_plot(table1.rows_of(results_of(sets, ["lirpa", "auto"]), ["lirpa", "auto"], sets))
    table1.draw_figures(axes, rows, sets, what)
    marks = marks_of(axes)
    assert len(marks) > 5
    assert {line.get_linestyle() for line in marks} == {"None"}
    places = [(x, y) for line in marks for x, y in zip(line.get_xdata(), line.get_ydata(), strict=True)]
    assert len({x for x, _ in places}) == len(places)
    assert {round(float(x)) for x, _ in places} == {0, 1}
    ours = next(line for line in marks if line.get_label() == "lirpa (measured here)")
    paper = next(line for line in marks if line.get_color() == ours.get_color() and line is not ours)
    assert (ours.get_marker(), paper.get_marker()) == ("o", "D")
    labels = [text.get_text() for text in axes.get_legend().get_texts()]
    assert len(labels) == len(set(labels)) == len({row.label for row in rows if getattr(row, what)})


def test_bars_over_unsolved_are_hollow(sets: dict[str, PaperSet]) -> None:
    runs = results_of(sets, ["lirpa"])
    late = [dataclasses.replace(r, verdict="timeout") for r in runs]
    points = cpu.points_of({cpu.Place("cpu", 1): runs, cpu.Place("cpu", 2): late}, "lirpa", sets)
    axes = Figure().add_subplot()
    cpu._draw(axes, [p for p in points if p.row.set == "oval_wide"], ["1 core", "2 cores"])
    first, second = (bar.get_facecolor() for bar in axes.patches)
    assert first == to_rgba(style("lirpa", "ours")[0])
    assert second == to_rgba("white")


def test_table1_says_what_is_wrong() -> None:
    broken = a_result("p.vnnlib", "sat", method="lirpa", benchmark="oval_wide", truth="unsat")
    failed = a_result("q.vnnlib", "error", method="lirpa", benchmark="oval_wide", error="killed by SIGKILL")
    contradiction, error = table1.warnings([a_result(), broken, failed])
    assert contradiction.startswith("Contradiction: oval_wide")
    assert error.endswith("killed by SIGKILL")
    assert table1.warnings([a_result()]) == []


def test_the_methods_by_default_exist() -> None:
    for profile, method in (("released", "lirpa"), ("printed", "lirpa-printed")):
        found = table1.default_methods(profile)
        assert {method, "auto", "bdd", "mip"} <= set(found) <= set(METHODS)
        assert not {"babsr-lp", "gnn", "gnn-online"} & set(found)
        assert len({"lirpa", "lirpa-printed"} & set(found)) == 1


# --- table 2 ---


def test_table2_has_its_rows_and_their_speedups(sets: dict[str, PaperSet], tmp_path: Path) -> None:
    """BaBSR has solved the first of two properties in 100 s as published."""
    runs = results_of(sets, list(table2.OURS["released"].values()))
    page = table2.write(Output.at(tmp_path / "out", "table2"), runs, sets, "released")
    rows = [row for row in rows_of(tmp_path / "out" / "table2.csv") if row["set"] == "oval_deep"]
    ours = {
        (row["source"], row["method"]): (row["speedup_published"], row["speedup_published_over"])
        for row in rows
        if row["source"] != "paper"
    }
    assert ours == {
        ("published", "BaBSR"): ("", ""),
        ("ours", "batch only"): (f"{100 / 12:.10g}", "1"),
        ("ours", "optimised only"): ("12.5", "1"),
        ("ours", "both"): ("50", "1"),
        ("ours", "both, split lines forced"): ("25", "1"),
        ("ours", "both, grown"): ("40", "1"),
    }
    printed = {row["method"]: row["speedup_measured"] for row in rows if row["source"] == "paper"}
    assert printed == {"BaBSR": "", "batch only": "0.95", "optimised only": "9.94", "both": "35.01"}
    cells = cells_of(page.read_text(encoding="utf-8"))
    measured = ["both", "measured here", "unclipped", "2.00", "–", "50.00 (over 1)"]
    assert [*measured, "10", "18", "100.0", "2", "20"] in cells
    assert ["both", "paper", "not said", "81.55", "35.01", "–", "–", "–", "–", "–", "3600"] in cells
    assert "The order of the three is the paper" in page.read_text(encoding="utf-8")


def test_a_baseline_that_was_run_here(sets: dict[str, PaperSet], tmp_path: Path) -> None:
    """Over what both sides solved: babsr-lp the second property only, lirpa both, lirpa-fixed the first only."""
    runs = []
    for r in results_of({"oval_deep": sets["oval_deep"]}, ["babsr-lp", "lirpa", "lirpa-fixed"]):
        late = (r.method, r.vnnlib[0]) in (("babsr-lp", "0"), ("lirpa-fixed", "1"))
        runs.append(dataclasses.replace(r, verdict="timeout", total=20.0) if late else r)
    lines = table2.lines_of(runs, {"oval_deep": sets["oval_deep"]}, "released")
    found = {line.row.method: line for line in lines if line.row.source == "ours"}
    assert list(found) == ["BaBSR", "batch only", "optimised only", "both", "both, split lines forced", "both, grown"]
    assert found["BaBSR"].row.mean_s == (20.0 + 30.0) / 2
    assert found["both"].measured == table2.Speedup(30.0 / 2.0, 1)
    assert found["batch only"].measured == table2.Speedup(None, 0)
    assert found["optimised only"].measured == table2.Speedup(None, 0)
    assert (found["batch only"].published, found["both"].published) == (
        table2.Speedup(100.0 / 12.0, 1),
        table2.Speedup(100.0 / 2.0, 1),
    )
    page = table2.write(Output.at(tmp_path, "table2"), runs, {"oval_deep": sets["oval_deep"]}, "released")
    assert "Speed-up over BaBSR, measured" in page.read_text(encoding="utf-8")


def test_without_a_baseline_there_is_no_measured_speedup(sets: dict[str, PaperSet]) -> None:
    lines = table2.lines_of(results_of(sets, ["lirpa"]), sets, "released")
    assert all(line.measured is None for line in lines)


def test_another_order_is_said(sets: dict[str, PaperSet]) -> None:
    runs = results_of(sets, list(table2.OURS["released"].values()))
    fast = [
        a_result(r.vnnlib, method=r.method, benchmark=r.benchmark, total=0.5)
        if r.method == "lirpa-fixed" and r.benchmark == "oval_deep"
        else r
        for r in runs
    ]
    (said,) = table2.differences(table2.lines_of(fast, sets, "released"), sets)
    assert said.startswith(
        "Deep, boxes x ± ε: here batch only < both < optimised only; in the paper both < optimised only"
    )


# --- cpu ---


def test_cpu_has_a_column_for_each_place(sets: dict[str, PaperSet], tmp_path: Path) -> None:
    places = {cpu.Place("cpu", 1): 4.0, cpu.Place("cpu", 2): 2.5, cpu.Place("cuda", None): 0.25}
    assert [str(place) for place in places] == ["1 core", "2 cores", "GPU"]
    results = {
        place: results_of(sets, ["lirpa"], **dict.fromkeys(sets, factor / 2.0)) for place, factor in places.items()
    }
    page = cpu.write(Output.at(tmp_path / "out", "cpu"), results, "lirpa", sets)
    deep = [row for row in rows_of(tmp_path / "out" / "cpu.csv") if row["set"] == "oval_deep"]
    found = [(row["source"], row["method"], row["place"], float(row["mean_s"])) for row in deep]
    assert found[:5] == [
        ("ours", "lirpa", "1 core", 4.0),
        ("ours", "lirpa", "2 cores", 2.5),
        ("ours", "lirpa", "GPU", 0.25),
        ("published", "GNN-online", "published", 55.0),
        ("published", "BaBSR", "published", 200.0),
    ]
    assert ("paper", "Fast and Complete", "paper", 81.55) in found
    text = page.read_text(encoding="utf-8")
    assert ["2 cores", "lirpa", "measured here", "unclipped", "2.50", "100.0", "2", "20"] in cells_of(text)
    assert ["–", "GNN-online", "published", "unclipped", "55.00", "100.0", "2", "3600"] in cells_of(text)


def test_numbers_of_cores() -> None:
    there = available_cpus()
    assert cpu.read_threads(None) == [n for n in (1, 2, 4, 8, 16) if n <= there]
    assert cpu.read_threads("1,1") == [1]
    for text in ("0", f"1,{there + 1}", "two", "1;2", ""):
        with pytest.raises(UsageError, match="--threads"):
            cpu.read_threads(text)
