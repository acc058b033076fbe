"""Every table and figure of the paper, part by part (paper_tables.py)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from netproof.paper.sets import SETS
from support.asking import gaussian
from support.paper_sets import make_published

Run = Callable[..., tuple[int, list[dict[str, str]], str, str]]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Five sets of one property each, which holds by far."""
    inputs = "".join(f"(declare-const X_{i} Real)\n(assert (>= X_{i} -1))\n(assert (<= X_{i} 1))\n" for i in range(3))
    for name in SETS:
        folder = tmp_path / "data" / f"{name}_unclipped"
        folder.mkdir(parents=True)
        gaussian(3, (3, 6, 1)).save(folder / "m.onnx")
        (folder / "p.vnnlib").write_text(f"{inputs}(declare-const Y_0 Real)\n(assert (<= Y_0 -100))\n")
        (folder / "instances.csv").write_text("m.onnx,p.vnnlib,60\n")
        make_published(folder, ["p.vnnlib"])
    return tmp_path / "data"


def test_a_part_that_ran_out_of_time_goes_on(run: Run, data: Path, tmp_path: Path) -> None:
    asked = ("--data", str(data), "--out", str(tmp_path / "out"), "--device", "cpu", "--limit", "5")
    code, _, out, err = run("paper_tables", *asked, "--part", "table2-printed", "--minutes", "0.002")
    assert code == 1
    assert "table2-printed: to be continued" in out + err
    code, _, out, err = run("paper_tables", *asked, "--part", "table2-printed")
    assert code == 0
    assert "table2-printed: done in" in out + err
    assert (tmp_path / "out" / "table2-printed" / "table2.html").is_file()


def test_a_part_that_is_none(run: Run, data: Path, tmp_path: Path) -> None:
    code, _, _, err = run("paper_tables", "--data", str(data), "--out", str(tmp_path), "--part", "table3")
    assert code == 2
    assert "--part: 'table3' is none" in err


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("--minutes", "nan", "'nan' is not a number above 0"),
        ("--minutes", "-1", "'-1' is not a number above 0"),
        ("--limit", "0", "'0' is not a number above 0"),
        ("--device", "tpu", "invalid choice: 'tpu'"),
        ("--data", "nowhere", "no such folder: nowhere"),
    ],
)
def test_wrong_arguments_are_one_line(
    run: Run, data: Path, tmp_path: Path, option: str, value: str, words: str
) -> None:
    code, _, out, err = run("paper_tables", "--data", str(data), "--out", str(tmp_path / "out"), option, value)
    assert code == 2
    assert words in err
    assert err.count("\n") == 1
    assert "failed" not in out + err


def test_both_profiles_have_their_parts(script: Callable[[str], ModuleType]) -> None:
    parts = script("paper_tables").parts(60)
    for table in ("table1", "table2", "cpu", "bounds", "lp"):
        for profile in ("released", "printed"):
            command = parts[f"{table}-{profile}"]
            assert command[0] == table
            assert command[command.index("--profile") + 1] == profile
    assert "rivals" in parts


def test_sets_are_passed_on(script: Callable[[str], ModuleType]) -> None:
    parts = script("paper_tables").parts(60, ["oval_deep"])
    assert parts["table1-printed"][-2:] == ("--set-name", "oval_deep")
    assert parts["lp-released"][-2:] == ("--set-name", "oval_deep")
    assert "--set-name" not in parts["bounds-printed"]
