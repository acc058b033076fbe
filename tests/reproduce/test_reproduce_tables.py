"""Tables 1 and 2 and the CPU figure: what is counted how, and three sources that are never mixed."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest

from netproof.campaign.instances import Instance
from netproof.campaign.store import Result
from netproof.core.cpu import available_cpus
from netproof.errors import UsageError
from netproof.methods.registry import METHODS
from netproof.paper.tables import cpu, table1, table2
from netproof.paper.tables.output import Output
from netproof.paper.tables.rows import (
    SETS,
    Published,
    find_sets,
    our_row,
    paper_rows,
    paper_speedups,
    published_row,
    read_published,
)
from support.campaign import a_result
from support.paper_sets import make_sets

NAMES = ("oval_wide", "oval_deep")
SLOW = {"lirpa-fixed": 12.0, "lirpa-single": 8.0, "lirpa": 2.0, "auto": 1.0}


@pytest.fixture
def sets(tmp_path: Path) -> dict[str, list[Instance]]:
    return find_sets(make_sets(tmp_path / "data", "unsat", "unsat", names=NAMES), NAMES, None)


def results_of(sets: dict[str, list[Instance]], methods: list[str], **by_set: float) -> list[Result]:
    """Every method on every instance, in `SLOW` seconds times the factor given for the set."""
    return [
        a_result(i.names[1], method=method, benchmark=name, total=SLOW[method] * by_set.get(name, 1.0), truth="unsat")
        for name, instances in sets.items()
        for method in methods
        for i in instances
    ]


def published_of(sets: dict[str, list[Instance]]) -> dict[str, dict[str, list[Published]]]:
    return {name: read_published(instances) for name, instances in sets.items()}


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def cells_of(page: str) -> list[list[str]]:
    """The cells of every table row of a page."""
    rows = re.findall(r"<tr>(.*?)</tr>", page, re.DOTALL)
    return [[re.sub("<.*?>", "", cell) for cell in re.findall(r"<td.*?>(.*?)</td>", row)] for row in rows]


# --- rows ---


def test_what_was_not_solved_counts_at_its_limit() -> None:
    runs = [
        a_result(total=2.0, timeout=20.0, domains=10),
        a_result(verdict="timeout", total=19.8, timeout=20.0, domains=30),
        a_result(verdict="error", total=0.5, timeout=20.0, domains=0),
        a_result(verdict="unknown", total=3.0, timeout=20.0, domains=40),
    ]
    row = our_row("lirpa", "oval_wide", runs)
    assert row.mean_s == pytest.approx((2.0 + 20.0 + 20.0 + 20.0) / 4)
    assert (row.branches, row.timed_out, row.solved, row.limit) == (20.0, 25.0, 25.0, 20.0)
    assert our_row("lirpa", "oval_wide", []).mean_s is None


def test_published_figures_are_read_as_they_are(sets: dict[str, list[Instance]]) -> None:
    found = published_of(sets)["oval_wide"]
    assert list(found) == ["BaBSR", "MIPplanet", "GNN", "GNN-online"]
    babsr = published_row("BaBSR", "oval_wide", found["BaBSR"])
    assert (babsr.mean_s, babsr.branches, babsr.timed_out, babsr.solved) == (200.0, 40.0, 50.0, 50.0)
    mip = published_row("MIPplanet", "oval_wide", found["MIPplanet"])
    assert (mip.branches, mip.timed_out) == (None, 100.0)
    assert published_row("GNN", "oval_wide", found["GNN"]).branches == 25.0


@pytest.mark.parametrize(
    ("text", "word"),
    [("vnnlib\n0-unsat.vnnlib\n", "babsr"), ("", "0-unsat"), ("vnnlib,babsr_result\nother,False\n", "0-unsat")],
)
def test_published_figures_of_something_else(sets: dict[str, list[Instance]], text: str, word: str) -> None:
    instances = sets["oval_wide"]
    assert instances[0].folder is not None
    file = instances[0].folder / "published.csv"
    file.write_text(text)
    with pytest.raises(UsageError, match=word) as caught:
        read_published(instances)
    assert str(file) in str(caught.value)


def test_without_published_figures(sets: dict[str, list[Instance]]) -> None:
    instances = sets["oval_wide"]
    assert instances[0].folder is not None
    (instances[0].folder / "published.csv").unlink()
    with pytest.raises(UsageError, match=r"published\.csv"):
        read_published(instances)


def test_the_papers_tables_hold_together() -> None:
    """Two tables of one paper: BaBSR and its own rows agree, and the speed-ups are about the ratios of the times."""
    first = {(row.method, row.set): row for row in paper_rows(1)}
    second = {(row.method, row.set): row for row in paper_rows(2)}
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


def test_sets_that_are_not_there(tmp_path: Path) -> None:
    make_sets(tmp_path, "unsat", names=("oval_wide",))
    with pytest.raises(UsageError, match=r"oval_deep/instances\.csv"):
        find_sets(tmp_path, ("oval_wide", "oval_deep"), None)
    with pytest.raises(UsageError, match="unknown set 'oval'"):
        find_sets(tmp_path, ("oval",), None)
    with pytest.raises(UsageError, match="no such folder"):
        find_sets(tmp_path / "gone", ("oval_wide",), None)
    assert len(find_sets(tmp_path, ("oval_wide",), 1)["oval_wide"]) == 1


# --- table 1 ---


def test_table1_keeps_its_sources_apart(sets: dict[str, list[Instance]], tmp_path: Path) -> None:
    methods = ["lirpa", "auto"]
    output = Output.at(tmp_path / "out", "table1")
    page = table1.write(output, results_of(sets, methods), methods, sets, published_of(sets))
    rows = rows_of(tmp_path / "out" / "table1.csv")
    wide = [(row["source"], row["method"], row["mean_s"]) for row in rows if row["set"] == "oval_wide"]
    assert wide[:2] == [("ours", "lirpa", "2"), ("ours", "auto", "1")]
    assert ("published", "BaBSR", "200") in wide
    assert ("paper", "BaBSR", "3325.7") in wide
    assert ("paper", "Fast and Complete", "375.23") in wide
    text = page.read_text(encoding="utf-8")
    cells = cells_of(text)
    assert ["lirpa", "measured here", "2.00", "10", "0.0", "100.0", "2", "20"] in cells
    assert ["BaBSR", "published", "200.00", "40", "50.0", "50.0", "2", "–"] in cells
    assert ["Fast and Complete", "paper", "375.23", "53481", "8.5", "91.5", "–", "3600"] in cells
    assert "lirpa, measured here: 2 of 2" in text
    assert "BaBSR, published: 1 of 2" in text
    for name in ("table1", *(f"table1-cactus-{name}" for name in NAMES)):
        assert (tmp_path / "out" / f"{name}.png").stat().st_size > 1000
        assert (tmp_path / "out" / f"{name}.pdf").stat().st_size > 1000


def test_table1_without_published_rows(sets: dict[str, list[Instance]]) -> None:
    rows = table1.rows_of(results_of(sets, ["lirpa"]), ["lirpa"], sets, {})
    assert {row.source for row in rows} == {"ours", "paper"}


def test_table1_says_what_is_wrong() -> None:
    broken = a_result("p.vnnlib", "sat", method="lirpa", benchmark="oval_wide", truth="unsat")
    failed = a_result("q.vnnlib", "error", method="lirpa", benchmark="oval_wide", error="killed by SIGKILL")
    contradiction, error = table1.warnings([a_result(), broken, failed])
    assert contradiction.startswith("Contradiction: oval_wide")
    assert error.endswith("killed by SIGKILL")
    assert table1.warnings([a_result()]) == []


def test_the_methods_by_default_exist_and_end() -> None:
    found = table1.default_methods()
    assert {"lirpa", "auto"} <= set(found) <= set(METHODS)
    assert not {"babsr-lp", "mip"} & set(found)


# --- table 2 ---


def test_table2_has_four_rows_and_their_speedups(sets: dict[str, list[Instance]], tmp_path: Path) -> None:
    runs = results_of(sets, list(table2.ROWS.values()))
    page = table2.write(Output.at(tmp_path / "out", "table2"), runs, sets, published_of(sets))
    rows = [row for row in rows_of(tmp_path / "out" / "table2.csv") if row["set"] == "oval_deep"]
    ours = {(row["source"], row["method"]): row["speedup"] for row in rows}
    assert ours == {
        ("published", "BaBSR"): "",
        ("ours", "batch only"): f"{200 / 12:.10g}",
        ("ours", "optimised only"): "25",
        ("ours", "both"): "100",
        ("paper", "BaBSR"): "",
        ("paper", "batch only"): "0.95",
        ("paper", "optimised only"): "9.94",
        ("paper", "both"): "35.01",
    }
    text = page.read_text(encoding="utf-8")
    assert ["both", "measured here", "2.00", "100.00", "10", "100.0", "2", "20"] in cells_of(text)
    assert ["both", "paper", "81.55", "35.01", "–", "–", "–", "3600"] in cells_of(text)
    assert "The order of the three is the paper" in text


def test_another_order_is_said(sets: dict[str, list[Instance]]) -> None:
    runs = results_of(sets, list(table2.ROWS.values()))
    fast = [
        a_result(r.vnnlib, method=r.method, benchmark=r.benchmark, total=0.5)
        if r.method == "lirpa-fixed" and r.benchmark == "oval_deep"
        else r
        for r in runs
    ]
    lines = table2.lines_of(fast, sets, published_of(sets))
    (said,) = table2.differences(lines)
    assert said.startswith("Deep: here batch only < both < optimised only; in the paper both < optimised only")


# --- cpu ---


def test_cpu_has_a_column_for_each_place(sets: dict[str, list[Instance]], tmp_path: Path) -> None:
    places = {cpu.Place("cpu", 1): 4.0, cpu.Place("cpu", 2): 2.5, cpu.Place("cuda", None): 0.25}
    assert [str(place) for place in places] == ["1 core", "2 cores", "GPU"]
    results = {
        place: results_of(sets, ["lirpa"], **dict.fromkeys(sets, factor / 2.0)) for place, factor in places.items()
    }
    page = cpu.write(Output.at(tmp_path / "out", "cpu"), results, "lirpa", sets, published_of(sets))
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
    assert ["2 cores", "lirpa", "measured here", "2.50", "100.0", "2", "20"] in cells_of(text)
    assert ["–", "GNN-online", "published", "55.00", "100.0", "2", "–"] in cells_of(text)


def test_numbers_of_cores() -> None:
    there = available_cpus()
    assert cpu.read_threads(None) == [n for n in (1, 2, 4, 8) if n <= there]
    assert cpu.read_threads("1,1") == [1]
    for text in ("0", f"1,{there + 1}", "two", "1;2", ""):
        with pytest.raises(UsageError, match="--threads"):
            cpu.read_threads(text)
