"""`netproof reproduce` as a user meets it: all files, resuming, bad input, and a start that is cheap."""

from __future__ import annotations

import csv
import dataclasses
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from test_cli_start import commands_that_import

from netproof.campaign.store import NAME, Store
from netproof.cli.app import run as obey
from support.asking import gaussian
from support.campaign import a_result, calls, environment, old_store
from support.paper_sets import make_sets
from support.processes import HANG, wait_for

TARGETS = ("table1", "table2", "cpu", "lp", "bounds", "relaxations", "example")
SUFFIXES = ("csv", "png", "pdf", "html")
CPU = ("--device", "cpu", "--threads", "1")
Said = tuple[int, str, str]  # the exit code, and what was printed


def start(*arguments: str | Path, cwd: Path) -> subprocess.Popen[str]:
    """With a stand-in for the engine in the workers."""
    return subprocess.Popen(
        [sys.executable, "-m", "netproof", "reproduce", *map(str, arguments)],
        cwd=cwd,
        env={**os.environ, "COLUMNS": "200", **environment(cwd)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(*arguments: str | Path, cwd: Path) -> Said:
    with start(*arguments, cwd=cwd) as process:
        out, err = process.communicate(timeout=HANG)
    return process.returncode, out, err


@pytest.fixture
def told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Said]:
    """As `run`, but in this process, which has imported what takes a second: only workers are processes."""
    for name, value in {"COLUMNS": "200", **environment(tmp_path)}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)

    def obeyed(*arguments: str | Path) -> Said:
        code = obey(["reproduce", *map(str, arguments)])
        return (code, *capsys.readouterr())

    return obeyed


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_help_imports_nothing_heavy() -> None:
    assert commands_that_import(*(["reproduce", target, "--help"] for target in TARGETS)) == {}


def test_table1_and_again(tmp_path: Path, told: Callable[..., Said]) -> None:
    make_sets(tmp_path / "data", "unsat", "slow:0.5", names=("oval_deep",))
    which = ("--set-name", "oval_deep", "--method", "lirpa", "--method", "auto")
    command = ("table1", "--data", "data", "--out", "out", *which, *CPU)
    code, out, err = told(*command, "--published")
    assert code == 0, err
    assert "4/4" in err
    assert all((tmp_path / "out" / f"table1.{suffix}").is_file() for suffix in SUFFIXES)
    assert [line.split()[1:4] for line in out.splitlines() if line.startswith("oval_deep")][:2] == [
        ["unclipped", "ours", "lirpa"],
        ["unclipped", "ours", "auto"],
    ]
    assert "Boxes x ± ε, as in equation (10) and as published: oval_deep." in err
    (ours, *_) = rows_of(tmp_path / "out" / "table1.csv")
    assert (ours["source"], ours["mean_branches"], ours["timed_out_percent"]) == ("ours", "40", "50")
    assert (ours["mean_branches_two_per_split"], ours["timed_out_in_lp"]) == ("44", "1")
    assert float(ours["mean_s"]) >= 0.25  # the second one at its limit
    asked = len(calls(tmp_path))
    code, again, err = told(*command)
    assert code == 0, err
    assert "4 of 4 were there already" in err
    assert len(calls(tmp_path)) == asked
    assert "published" not in again


def test_only_runs_of_this_version_are_in_a_table(tmp_path: Path, told: Callable[..., Said]) -> None:
    """The same question of the same set, answered by 0.1.0 in 77 s: it stays where it is."""
    make_sets(tmp_path / "data", "unsat", names=("oval_deep",))
    older = a_result("0-unsat.vnnlib", method="lirpa", benchmark="oval_deep", total=77.0, domains=999)
    old_store(tmp_path / "out" / NAME, dataclasses.replace(older, onnx="a.onnx"))
    which = ("--set-name", "oval_deep", "--method", "lirpa", *CPU)
    code, _, err = told("table1", "--data", "data", "--out", "out", *which)
    assert code == 0, err
    assert "netproof: 1 result of netproof 0.1.0 is kept, not shown and not resumed\n" in err
    assert calls(tmp_path) == ["0-unsat.vnnlib"]
    (ours, *_) = rows_of(tmp_path / "out" / "table1.csv")
    assert (ours["properties"], ours["mean_branches"]) == ("1", "40")
    page = (tmp_path / "out" / "table1.html").read_text(encoding="utf-8")
    assert "999" not in cells_of(page)
    assert "netproof 0.1.0" not in page
    with Store(tmp_path / "out" / NAME) as store:
        assert [r.domains for r in store.results()] == [999, 40]


def cells_of(page: str) -> set[str]:
    return {re.sub("<.*?>", "", cell) for cell in re.findall(r"<td.*?>(.*?)</td>", page)}


def test_an_interrupted_table_goes_on(tmp_path: Path) -> None:
    make_sets(tmp_path / "data", "unsat", "hang", names=("oval_wide",))
    which = ("--set-name", "oval_wide", "--method", "lirpa", *CPU)
    command = ("table1", "--data", "data", "--out", "out", *which)
    process = start(*command, cwd=tmp_path)
    wait_for(lambda: len(calls(tmp_path)) == 2)  # the first is answered, the second hangs, this time only
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=HANG)
    assert process.returncode == 130
    assert "interrupted: 1 of 2 runs are kept" in err
    assert not (tmp_path / "out" / "table1.html").exists()
    code, _, err = run(*command, cwd=tmp_path)
    assert code == 0, err
    assert "1 of 2 were there already" in err
    assert calls(tmp_path) == ["0-unsat.vnnlib", "1-hang.vnnlib", "1-hang.vnnlib"]


def test_table2_takes_all_properties_and_a_baseline(tmp_path: Path, told: Callable[..., Said]) -> None:
    make_sets(tmp_path / "data", "unsat", "unsat", "unsat", names=("oval_wide",))
    command = ("table2", "--data", "data", "--set-name", "oval_wide", "--out", "out", *CPU)
    code, out, err = told(*command)
    assert code == 0, err
    assert len(calls(tmp_path)) == 15
    source = [re.search("published|ours|paper", line) for line in out.splitlines()[1:]]
    assert [found and found[0] for found in source] == ["published", *["ours"] * 5, *["paper"] * 4]
    assert all((tmp_path / "out" / f"table2.{suffix}").is_file() for suffix in SUFFIXES)
    code, out, err = told(*command, "--baseline", "--first", "2")
    assert code == 0, err
    assert len(calls(tmp_path)) == 17
    (baseline, *_) = rows_of(tmp_path / "out" / "table2.csv")
    assert (baseline["source"], baseline["method"], baseline["properties"]) == ("ours", "BaBSR", "2")


def options_of(folder: Path) -> set[tuple[str, str, str]]:
    """Set, method and n of every run that is kept, and whether it attacked."""
    with Store(folder / NAME) as store:
        return {(r.benchmark, r.method, f"{r.options.get('batch')} {r.attack}") for r in store.results()}


def test_every_network_has_the_papers_n(tmp_path: Path, told: Callable[..., Said]) -> None:
    make_sets(tmp_path / "data", "unsat", names=("oval_base_hard", "oval_wide"))
    which = ("--set-name", "oval_base_hard", "--set-name", "oval_wide", "--method", "lirpa", "--method", "bdd")
    command = ("table1", "--data", "data", *which, *CPU)
    assert told(*command, "--out", "a")[0] == 0
    base, wide = "oval_base_hard", "oval_wide"
    assert options_of(tmp_path / "a") == {
        *((base, "lirpa", "400 False"), (base, "bdd", "None False")),
        *((wide, "lirpa", "200 False"), (wide, "bdd", "None False")),
    }
    assert told(*command, "--out", "b", "--n", "32", "--set", "bdd:batch=7", "--no-attack")[0] == 0
    assert options_of(tmp_path / "b") == {
        (name, *run) for name in (base, wide) for run in (("lirpa", "32 False"), ("bdd", "7 False"))
    }
    assert told(*command, "--out", "c", "--set", "batch=8")[0] == 0
    assert {n for *_, n in options_of(tmp_path / "c")} == {"8 False"}


def test_rivals_of_table1_are_as_in_the_paper(tmp_path: Path, told: Callable[..., Said]) -> None:
    """bdd branches as published, and mip has MIPplanet's figures beside it without being asked for."""
    make_sets(tmp_path / "data", "unsat", names=("oval_wide",))
    command = ("table1", "--data", "data", "--set-name", "oval_wide", "--method", "bdd", *CPU)
    code, _, err = told(*command, "--method", "mip", "--out", "a")
    assert code == 0, err
    assert original_of(tmp_path / "a") == {"bdd": "True", "mip": "None"}
    rows = rows_of(tmp_path / "a" / "table1.csv")
    assert [row["method"] for row in rows if row["source"] == "ours"] == ["bdd", "mip"]
    assert [(row["method"], row["mean_s"]) for row in rows if row["source"] == "published"] == [("MIPplanet", "3600")]
    code, _, err = told(*command, "--set", "bdd:original=false", "--out", "b")
    assert code == 0, err
    assert original_of(tmp_path / "b") == {"bdd": "False"}
    assert "published" not in {row["source"] for row in rows_of(tmp_path / "b" / "table1.csv")}
    (tmp_path / "data" / "oval_wide" / "published.csv").unlink()
    code, _, err = told(*command[:-4], *CPU, "--method", "mip", "--out", "c")
    assert code == 0, err


def original_of(folder: Path) -> dict[str, str]:
    with Store(folder / NAME) as store:
        return {r.method: str(r.options.get("original")) for r in store.results()}


def test_cpu_on_the_cores_that_are_asked_for(tmp_path: Path, told: Callable[..., Said]) -> None:
    make_sets(tmp_path / "data", "unsat", names=("oval_base_easy", "oval_wide", "oval_deep"))
    code, out, err = told("cpu", "--data", "data", "--out", "out", *CPU)
    assert code == 0, err
    assert len(calls(tmp_path)) == 3
    assert "1 core" in out
    assert all((tmp_path / "out" / f"cpu.{suffix}").is_file() for suffix in SUFFIXES)


def test_bounds_of_one_instance_and_of_a_set(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "data" / "oval_base_easy"
    folder.mkdir(parents=True)
    model = gaussian(0, (3, 6, 6, 1)).save(folder / "m.onnx")
    spec = folder / "p.vnnlib"
    inputs = "".join(
        f"(declare-const X_{i} Real)\n(assert (>= X_{i} -0.5))\n(assert (<= X_{i} 0.5))\n" for i in range(3)
    )
    spec.write_text(f"{inputs}(declare-const Y_0 Real)\n(assert (<= Y_0 0.0))\n")
    (folder / "instances.csv").write_text("m.onnx,p.vnnlib,60\n")
    common = ["--steps", "30", *CPU]
    files = ("--model", str(model), "--spec", str(spec))
    assert obey(["reproduce", "bounds", *files, "--out", str(tmp_path / "one"), *common]) == 0
    assert "stays under the LP on the best intermediate bounds on 1 of 1" in capsys.readouterr().out
    assert all((tmp_path / "one" / f"bounds.{suffix}").is_file() for suffix in SUFFIXES)
    steps = rows_of(tmp_path / "one" / "bounds.csv")
    assert [int(row["step"]) for row in steps] == list(range(31))
    assert {row["boxes"] for row in steps} == {"unclipped"}
    assert all(float(row["bound"]) <= float(row["lp_optimised"]) + 1e-4 for row in steps)
    whole = ["reproduce", "bounds", "--data", str(tmp_path / "data"), "--all", "--out", str(tmp_path / "all"), *common]
    assert obey(whole) == 0
    assert "Boxes x ± ε" in capsys.readouterr().err
    summary = rows_of(tmp_path / "all" / "bounds-summary.csv")
    assert [row["boxes"] for row in summary] == ["unclipped"]
    assert obey(whole) == 0  # kept, so the seconds are the same to the last digit
    assert rows_of(tmp_path / "all" / "bounds-summary.csv") == summary
    linear = (tmp_path / "all" / "bounds.png").read_bytes()
    assert obey([*whole, "--log-steps"]) == 0  # the same curves, drawn otherwise
    assert rows_of(tmp_path / "all" / "bounds-summary.csv") == summary
    assert (tmp_path / "all" / "bounds.png").read_bytes() != linear
    spec.write_text(spec.read_text().replace("(<= X_1 0.5)", "(<= X_1 0.25)"))
    assert obey(["reproduce", "bounds", *files, "--out", str(tmp_path / "one"), *common]) == 0
    assert "Boxes clipped, less wide in some inputs than in others: 1 of 1." in capsys.readouterr().err
    assert "Boxes clipped" in (tmp_path / "one" / "bounds.html").read_text(encoding="utf-8")


def test_an_interrupted_figure_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def stop(*given: object, **named: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("netproof.paper.figures.example.example", stop)
    assert obey(["reproduce", "example", "--out", str(tmp_path)]) == 130
    assert capsys.readouterr().err == "netproof: interrupted\n"


def test_interrupted_bounds_say_what_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def stop(*given: object, **named: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("netproof.paper.figures.bounds.compute", stop)
    make_sets(tmp_path / "data", "unsat", names=("oval_base_easy",))
    assert obey(["reproduce", "bounds", "--data", str(tmp_path / "data"), "--out", str(tmp_path / "out"), *CPU]) == 130
    assert "interrupted: 0 of 1 curves are kept" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("table3",), "table3"),
        (("table1", "--out", "o"), "--data"),
        (("table1", "--data", "."), "--out"),
        (("table1", "--data", "gone", "--out", "o"), "gone"),
        (("table1", "--data", ".", "--out", "o"), "oval_base_easy"),
        (("table1", "--data", ".", "--out", "o", "--set-name", "easy"), "'easy'"),
        (("table1", "--data", ".", "--out", "o", "--method", "lirpq"), "did you mean 'lirpa'"),
        (("table1", "--data", ".", "--out", "o", "--first", "0"), "--first"),
        (("table1", "--data", ".", "--out", "o", "--timeout", "-1"), "--timeout"),
        (("table1", "--data", ".", "--out", "o", "--set", "btach=2"), "did you mean 'batch'"),
        (("table1", "--data", ".", "--out", "o", "--n", "400,200"), "--n"),
        (("table1", "--data", ".", "--out", "o", "--n", "0"), "--n"),
        (("cpu", "--data", "data", "--out", "o", "--set-name", "oval_wide", "--boxes", "round"), "'round'"),
        (("table2", "--data", ".", "--out", "o", "--published"), "--published"),
        (("cpu", "--data", ".", "--out", "o", "--threads", "many"), "--threads"),
        (("lp", "--out", "o"), "--data"),
        (("lp", "--data", "gone", "--out", "o"), "gone"),
        (("lp", "--data", "data", "--out", "o", "--set-name", "oval_wide", "--rounds", "0"), "--rounds"),
        (("lp", "--data", "data", "--out", "o", "--set-name", "oval_wide", "--n", "many"), "--n"),
        (("lp", "--data", "data", "--out", "o", "--set-name", "oval_wide", "--set", "setps=2"), "did you mean 'steps'"),
        (("lp", "--data", "data", "--out", "o", "--set-name", "oval_wide", "--timeout", "0"), "--timeout"),
        (("lp", "--data", "data", "--out", "o", "--set-name", "oval_wide", "--device", "tpu"), "--device"),
        (("lp", "--data", "data", "--out", "file", "--set-name", "oval_wide"), "--out cannot be written"),
        (("bounds", "--out", "o"), "--data"),
        (("bounds", "--out", "o", "--model", "gone.onnx", "--spec", "p.vnnlib"), "gone.onnx"),
        (("bounds", "--out", "o", "--model", "m.onnx", "--data", "."), "--model"),
        (("bounds", "--out", "o", "--data", "data", "--set-name", "oval_wide", "--index", "7"), "0 to 0"),
        (("bounds", "--out", "o", "--data", "data", "--set-name", "oval_wide", "--steps", "0"), "--steps"),
        (("relaxations", "--out", "o", "--lower", "1"), "--lower"),
        (("relaxations", "--out", "file"), "--out cannot be written"),
        (("example", "--out", "file"), "--out cannot be written"),
    ],
)
def test_bad_input_is_one_line(
    arguments: tuple[str, ...],
    word: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    make_sets(tmp_path / "data", "unsat", names=("oval_wide",))
    (tmp_path / "file").write_text("")
    monkeypatch.chdir(tmp_path)
    assert obey(["reproduce", *arguments]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert len(said.err.splitlines()) == 1
    assert said.err.startswith("netproof: error: ")
    assert word in said.err


def test_a_profile_that_is_none(tmp_path: Path, told: Callable[..., Said]) -> None:
    make_sets(tmp_path / "data", "unsat", names=("oval_wide",))
    code, _, err = told("table2", "--data", "data", "--out", "out", "--profile", "both", *CPU)
    assert code == 2
    assert "--profile: 'both' is none (give released or printed)" in err


def test_table2_of_the_printed_algorithm(tmp_path: Path, told: Callable[..., Said]) -> None:
    make_sets(tmp_path / "data", "unsat", names=("oval_wide",))
    more = ("--set-name", "oval_wide", "--profile", "printed")
    code, _, err = told("table2", "--data", "data", "--out", "out", *more, *CPU)
    assert code == 0, err
    ours = [row["method"] for row in rows_of(tmp_path / "out" / "table2.csv") if row["source"] == "ours"]
    assert ours == ["batch only", "optimised only", "both"]
    assert "lirpa-printed-fixed" in (tmp_path / "out" / "table2.html").read_text(encoding="utf-8")
