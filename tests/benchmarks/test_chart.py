"""The chart of Table 1: which rows are drawn, and what is no table."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

Run = Callable[..., tuple[int, list[dict[str, str]], str, str]]


TABLE1 = """set,boxes,source,method,properties,mean_s,solved_percent,limit_s
oval_wide_unclipped,unclipped,ours,lirpa,2,4.5,100,30
oval_wide_unclipped,unclipped,ours,babsr-lp,2,30,0,30
oval_wide_unclipped,unclipped,published,BaBSR,2,900,100,3600
oval_wide_unclipped,not said,paper,Fast and Complete,,375.23,91.5,3600
oval_wide,clipped in 2 of 2,ours,lirpa,2,1.5,100,30
oval_wide,not said,paper,BaBSR,,3325.7,49.7,3600
oval_deep_unclipped,unclipped,ours,auto,2,0.5,100,30
oval_deep_unclipped,unclipped,ours,babsr-lp,2,20,50,30
oval_deep_unclipped,unclipped,published,BaBSR,2,900,100,3600
oval_deep_unclipped,unclipped,ours,gnn,2,,,30
"""


def test_the_chart_of_the_five_sets(run: Run, tmp_path: Path, script: Callable[[str], ModuleType]) -> None:
    """Of four series only: BaBSR as measured, or as published where the measured one solved nothing."""
    (tmp_path / "table1.csv").write_text(TABLE1)
    code, table, _, _ = run("chart", str(tmp_path / "table1.csv"), "--out", str(tmp_path / "chart.png"))
    assert code == 0
    drawn = [(row["set"], row["source"], row["method"], row["mean s"], row["% solved"]) for row in table]
    assert drawn == [
        ("oval_wide", "paper", "Fast and Complete", "375.23", "91.5"),
        ("oval_wide", "published", "BaBSR", "900.00", "100"),
        ("oval_wide", "ours", "lirpa", "4.50", "100"),
        ("oval_deep", "ours", "babsr-lp", "20.00", "50"),
        ("oval_deep", "ours", "auto", "0.50", "100"),
    ]
    assert (tmp_path / "chart.png").read_bytes().startswith(b"\x89PNG")
    chart = script("chart")
    (axes,) = chart.draw(chart.chosen(chart.read(tmp_path / "table1.csv")), "").axes
    marks = [line for line in axes.lines if line.get_marker() not in ("", "None")]
    hollow = {float(line.get_xdata()[0]) for line in marks if line.get_markerfacecolor() == "white"}
    assert hollow == {375.23, 20.0}
    assert [label.get_text() for label in axes.get_yticklabels()] == ["Wide", "Deep"]


def test_a_chart_of_two_tables(run: Run, tmp_path: Path) -> None:
    """Where both have a row, that of the first is drawn."""
    header = TABLE1.splitlines()[0]
    (tmp_path / "slow.csv").write_text(f"{header}\noval_deep_unclipped,unclipped,ours,babsr-lp,3,160,100,300\n")
    (tmp_path / "table1.csv").write_text(TABLE1)
    files = [str(tmp_path / name) for name in ("slow.csv", "table1.csv")]
    code, table, _, _ = run("chart", *files, "--out", str(tmp_path / "chart.png"))
    assert code == 0
    found = {row["method"]: (row["mean s"], row["limit s"]) for row in table if row["set"] == "oval_deep"}
    assert found == {"babsr-lp": ("160.00", "300"), "auto": ("0.50", "30")}


@pytest.mark.parametrize("text", ["", "set,boxes\n", TABLE1.replace("375.23", "fast"), "set,boxes,source,mean_s\n"])
def test_a_chart_of_something_else(run: Run, tmp_path: Path, text: str) -> None:
    (tmp_path / "table1.csv").write_text(text)
    code, _, out, err = run("chart", str(tmp_path / "table1.csv"), "--out", str(tmp_path / "chart.png"))
    assert (code, out, len(err.splitlines())) == (2, "", 1)
    assert "table1.csv" in err
    assert not (tmp_path / "chart.png").exists()
