"""Two versions taking turns (versions.py): the table, the interval of a ratio, and what counts as worse."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
ENGINE = ("--device", "cpu", "--threads", "1")
Run = Callable[..., tuple[int, list[dict[str, str]], str, str]]


def test_versions(run: Run, instances: Path, tmp_path: Path) -> None:
    source = ROOT / "src"
    versions = ("--old", str(source), "--new", str(source))
    code, table, out, _ = run("versions", str(instances), *versions, "--repeats", "2", "--timeout", "60", *ENGINE)
    assert (table[0]["instances"], table[0]["old solved"], table[0]["new solved"]) == ("2", "2", "2")
    assert 0.01 < float(table[0]["new/old"]) < 100
    assert "changed" not in out
    assert code in (0, 1)  # a busy machine may well call itself slower than itself
    code, _, _, err = run("versions", str(instances), "--old", str(tmp_path), "--new", str(source), *ENGINE)
    assert code == 2
    assert "was asked for" in err or "the process of 'old' ended" in err  # where netproof is not installed besides


def test_every_repeat_has_processes_of_its_own(script: Callable[[str], ModuleType], instances: Path) -> None:
    """One at a time; who is first takes turns, and what warms a process up is not counted."""
    versions, said = script("versions"), list[str]()

    class Noted:
        def __init__(self, name: str, source: Path) -> None:
            self.name = name
            said.append(f"start {name}")

        def ask(self, question: dict[str, object]) -> tuple[str, float]:
            said.append(f"ask {self.name}")
            return "unsat", 1.0

        def close(self) -> None:
            said.append(f"end {self.name}")

    given = {"folder": [str(instances)], "first": None, "timeout": 9.0, "repeats": 2, "old": Path(), "new": Path()}
    how = {"method": "auto", "device": "cpu", "threads": 1, "seed": 0, "cpu": False}
    tally = versions.Tally()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(versions, "Version", Noted)
        versions.measure(argparse.Namespace(**given, **how), tally)
    turns = [[f"start {name}", *[f"ask {name}"] * 3, f"end {name}"] for name in ("new", "old", "old", "new")]
    assert said == [word for turn in turns for word in turn]
    assert [{name: len(times) for name, times in r.items()} for r in tally.seconds[instances.name]] == [
        {"old": 2, "new": 2}
    ] * 2


def test_the_interval_of_a_ratio(script: Callable[[str], ModuleType]) -> None:
    """Seven repeats of a tenth more and less: exp(±2.447 · s/√7) around 1."""
    interval = script("versions").interval
    ratio, low, high = interval([0.1, -0.1, 0.1, -0.1, 0.1, -0.1, 0.0])
    assert (ratio, low * high) == (pytest.approx(1.0), pytest.approx(1.0))
    assert high == pytest.approx(1.0969, abs=1e-3)
    assert interval([0.5])[1:] == (0.0, float("inf"))  # one repeat says nothing


def test_a_changed_verdict_and_a_slower_version_show(script: Callable[[str], ModuleType]) -> None:
    tally = script("versions").Tally()
    tally.seconds["set"] = [{"old": {"a": 1.0}, "new": {"a": 1.2 + 0.001 * i}} for i in range(7)]
    for version, word in (("old", "unsat"), ("new", "sat")):
        tally.verdicts["set", "a"][version].add(word)
    row, slower = tally.row("set")
    assert slower
    assert row[6].startswith("1.2")
    assert tally.changed() == ["set: a: old unsat, new sat"]


def test_repeats_that_were_cut_short_do_not_count(script: Callable[[str], ModuleType]) -> None:
    tally = script("versions").Tally()
    both = {"old": {"a": 1.0, "b": 1.0}, "new": {"a": 2.0, "b": 2.0}}
    tally.seconds["set"] = [both, both, {"old": {"a": 1.0, "b": 1.0}, "new": {"a": 9.0}}]
    tally.seconds["other"] = [{"old": {"a": 1.0}, "new": {}}]
    tally.verdicts["other", "a"]["old"].add("unsat")
    tally.complete()
    assert tally.seconds == {"set": [both, both]}
    assert tally.changed() == []
    assert tally.row("set")[0][6] == "2.000"


def test_modules(run: Run) -> None:
    """Both versions read every architecture; each ratio is of two positive times."""
    source = str(ROOT / "src")
    code, table, out, _ = run("modules", "--old", source, "--new", source, "--repeats", "1")
    assert code == 0
    assert [row["module"] for row in table[:2]] == ["first of a process", "mlp"]
    assert len(table) == 11
    assert all(float(row["old s"]) > 0.0 and float(row["new/old"]) > 0.0 for row in table)
    assert "median over 10 architectures: " in out
