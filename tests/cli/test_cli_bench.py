"""`netproof bench` and `netproof report` as a user meets them, killed and interrupted too."""

from __future__ import annotations

import csv
import dataclasses
import io
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from netproof._version import __version__
from netproof.campaign.instances import Instance
from netproof.campaign.jobs import Job
from netproof.campaign.run import Event
from netproof.campaign.store import Store
from netproof.cli.commands import campaign_view
from netproof.core.machine.versions import build
from support.campaign import a_result, calls, environment, make_set, old_store
from support.processes import HANG, alive, wait_for

CPU = ("--device", "cpu", "--threads", "1", "--workers", "1")


def start(*arguments: str | Path, cwd: Path, **more: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "netproof", *map(str, arguments)],
        cwd=cwd,
        env={**os.environ, "COLUMNS": "200", **environment(cwd), **more},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(*arguments: str | Path, cwd: Path, **more: str) -> tuple[int, str, str]:
    with start(*arguments, cwd=cwd, **more) as process:
        out, err = process.communicate(timeout=HANG)
    return process.returncode, out, err


def table(out: str) -> list[dict[str, str]]:
    """The rows of the table on stdout; two headings of two words each have their blank removed."""
    header, *rows = (line.split() for line in out.replace("mean s", "mean").replace("median s", "median").splitlines())
    return [dict(zip(header, row, strict=False)) for row in rows]


def test_a_campaign(tmp_path: Path) -> None:
    make_set(tmp_path / "set", "unsat", "sat", "kill")
    methods = ("--method", "auto", "--method", "lirpa")
    code, out, err = run("bench", "set", "--out", "done", *methods, *CPU, cwd=tmp_path)
    assert code == 0, err
    rows = table(out)
    assert [(row["benchmark"], row["method"]) for row in rows] == [("set", "auto"), ("set", "lirpa")]
    for row in rows:
        assert (row["instances"], row["solved"], row["error"], row["wrong"]) == ("3", "2", "1", "0")
    assert "6/6  lirpa  set: a.onnx 2-kill.vnnlib  error" in err
    assert "killed by SIGKILL" in err
    assert "report: done/report/index.html" in err
    for method in ("auto", "lirpa"):
        text = (tmp_path / "done" / f"results-{method}.csv").read_text()
        cells = list(csv.reader(text.splitlines()))
        assert [row[:5] for row in cells] == [
            ["set", "a.onnx", "0-unsat.vnnlib", "0.0", "unsat"],
            ["set", "a.onnx", "1-sat.vnnlib", "0.0", "sat"],
            ["set", "a.onnx", "2-kill.vnnlib", "0.0", "error"],
        ]
        assert all(float(row[5]) > 0 for row in cells)
    assert (tmp_path / "done" / "results.csv").read_text() == (tmp_path / "done" / "results-auto.csv").read_text()
    made = {path.name for path in (tmp_path / "done" / "report").iterdir()}
    plots = {f"{name}.{suffix}" for name in ("cactus", "scatter-auto-lirpa") for suffix in ("png", "pdf")}
    tables = {f"{name}.{suffix}" for name in ("summary", "speedups") for suffix in ("csv", "tex")}
    assert made == {"index.html", "runs.csv"} | plots | tables
    found = {path.name: path.read_text() for path in (tmp_path / "done" / "counterexamples" / "set").iterdir()}
    assert {name.rpartition("__")[0] for name in found} == {f"a__1-sat__{method}" for method in ("auto", "lirpa")}
    assert set(found.values()) == {"((X_0 0.5))\n((X_1 0.25))\n"}
    page = (tmp_path / "done" / "report" / "index.html").read_text()
    assert f"<code>netproof bench set --out done {' '.join((*methods, *CPU))}</code>" in page
    (tmp_path / "rival.csv").write_text(
        "set,onnx/a.onnx,0-unsat.vnnlib,0,holds,3.5\nset,a.onnx,1-sat.vnnlib,0,unsat,2\n"
    )
    code, out, err = run("report", "done", "--rival", "other=rival.csv", cwd=tmp_path)
    assert (code, out) == (0, "done/report/index.html\n")
    assert "contradiction: set: a.onnx 1-sat.vnnlib: sat by auto, lirpa, but unsat by other" in err
    rows = list(csv.DictReader((tmp_path / "done" / "report" / "summary.csv").open()))
    assert [(row["method"], row["points"]) for row in rows] == [
        ("auto", "20"),
        ("lirpa", "20"),
        ("other", "-140"),
        ("virtual best", "20"),
    ]
    code, out, err = run("report", "done", "--rival", "auto=rival.csv", cwd=tmp_path)
    assert (code, out) == (2, "")
    assert err.count("\n") == 1


def test_one_method_has_vnncomp_s_own_file_name(tmp_path: Path) -> None:
    make_set(tmp_path / "set", "unsat", "sat")
    code, _, err = run("bench", "set", "--out", "done", "--first", "1", "--no-report", "--quiet", *CPU, cwd=tmp_path)
    assert (code, err) == (0, "")
    assert (tmp_path / "done" / "results.csv").read_text().startswith("set,a.onnx,0-unsat.vnnlib,0.0,unsat,0.")
    assert not (tmp_path / "done" / "report").exists()
    code, out, _ = run("report", "done", cwd=tmp_path)
    assert (code, out) == (0, "done/report/index.html\n")
    assert (tmp_path / "done" / "report" / "index.html").is_file()


def test_kill_9_loses_only_the_run_under_way(tmp_path: Path) -> None:
    make_set(tmp_path / "set", "unsat", "sat", "hang", "unsat")
    command = ("bench", "set", "--out", "done", "--no-report", *CPU)
    with start(*command, cwd=tmp_path) as process:
        wait_for(lambda: "2-hang.vnnlib" in calls(tmp_path))
        worker = int((tmp_path / "calls.txt").read_text().splitlines()[-1].split()[-1])
        assert alive(worker)
        process.kill()
    wait_for(lambda: not alive(worker))  # nothing is left behind
    with Store(tmp_path / "done" / "results.sqlite") as store:
        assert [r.verdict for r in store.results()] == ["unsat", "sat"]
    (tmp_path / "calls.txt").unlink()
    code, out, err = run(*command, cwd=tmp_path)
    assert code == 0, err
    assert calls(tmp_path) == ["2-hang.vnnlib", "3-unsat.vnnlib"]
    assert "2 of 4 were there already" in err
    assert table(out)[0]["solved"] == "4"


def test_ctrl_c_keeps_what_is_done(tmp_path: Path) -> None:
    make_set(tmp_path / "set", "unsat", "deaf", "unsat")
    with start("bench", "set", "--out", "done", *CPU, cwd=tmp_path) as process:
        wait_for(lambda: "1-deaf.vnnlib" in calls(tmp_path))
        worker = int((tmp_path / "calls.txt").read_text().splitlines()[-1].split()[-1])
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=HANG)
    assert process.returncode == 130
    assert out == ""
    assert "interrupted: 1 of 3 runs are kept in done/results.sqlite; the same command goes on with the rest" in err
    assert not alive(worker)
    assert (tmp_path / "done" / "results.csv").read_text().count("\n") == 1


def test_results_of_another_version_are_shown_and_not_resumed(tmp_path: Path) -> None:
    make_set(tmp_path / "set", "unsat", "sat")
    older = [a_result(f"{i}-{word}.vnnlib", word, total=7.0) for i, word in enumerate(("unsat", "sat"))]
    old_store(tmp_path / "done" / "results.sqlite", *(dataclasses.replace(r, onnx="a.onnx") for r in older))
    code, out, err = run("bench", "set", "--out", "done", *CPU, cwd=tmp_path)
    assert code == 0, err
    assert "netproof: 2 results of netproof 0.1.0 are shown, not resumed\n" in err
    assert "were there already" not in err
    assert calls(tmp_path) == ["0-unsat.vnnlib", "1-sat.vnnlib"]
    assert [re.split(" {2,}", line)[1] for line in out.splitlines()[1:]] == [
        "auto (netproof=0.1.0)",
        f"auto (netproof={build()})",
    ]
    code, out, err = run("bench", "set", "--out", "done", *CPU, cwd=tmp_path)
    assert (code, len(calls(tmp_path))) == (0, 2)
    assert "2 of 2 were there already" in err
    code, out, err = run("report", "done", cwd=tmp_path)
    assert (code, out) == (0, "done/report/index.html\n")
    assert "netproof: 2 results of netproof 0.1.0 are shown under names of their own\n" in err
    page = (tmp_path / "done" / "report" / "index.html").read_text()
    assert f"Run by netproof 0.1.0, {build()}; this page: netproof {__version__}." in page
    rows = list(csv.DictReader((tmp_path / "done" / "report" / "summary.csv").open()))
    assert [(row["mean_s"] == "7", row["solved"]) for row in rows] == [(True, "2"), (False, "2"), (False, "2")]


def test_contradictions_are_shown(tmp_path: Path) -> None:
    make_set(tmp_path / "set", "quarrel", "sat")
    (tmp_path / "set" / "known.csv").write_text("onnx,vnnlib,truth\na.onnx,1-sat.vnnlib,unsat\n")
    methods = ("--method", "auto", "--method", "lirpa")
    code, out, err = run("bench", "set", "--out", "done", *methods, *CPU, cwd=tmp_path, FORCE_COLOR="1", TERM="xterm")
    assert code == 1
    assert [row["wrong"] for row in table(out)] == ["2", "1"], "as in the report: a counterexample counts as known"
    against = "set: a.onnx 1-sat.vnnlib: known to be unsat, but sat by auto, lirpa"
    between = "set: a.onnx 0-quarrel.vnnlib: sat by lirpa, but unsat by auto"
    assert f"contradiction: {against}" in err
    assert f"contradiction: {between}" in err
    red = [line for line in err.splitlines() if "\x1b[1;31m" in line and "CONTRADICTION" in line]
    assert len(red) == 3, "as each verdict arrives"
    page = (tmp_path / "done" / "report" / "index.html").read_text()
    assert f'<div class="warning" role="alert">Contradiction: {against}</div>' in page
    assert f'<div class="warning" role="alert">Contradiction: {between}</div>' in page
    assert '<td class="name bad"><span class="verdict unsat">unsat' in page
    code, out, err = run("report", "done", cwd=tmp_path)
    assert (code, out) == (1, "done/report/index.html\n")
    assert f"contradiction: {between}" in err


def test_the_live_table(monkeypatch: pytest.MonkeyPatch) -> None:
    from rich.console import Console

    monkeypatch.setattr(campaign_view, "time", SimpleNamespace(monotonic=lambda: 7.0))
    instance = Instance("set", Path("m.onnx"), Path("[p].vnnlib"), 60.0, "sat")
    view = campaign_view.View(total=3, methods=["auto", "lirpa"], quiet=True)
    job = Job(instance, "lirpa", timeout=60.0)
    for event in (
        Event("kept", job=job, result=a_result(verdict="unsat", truth="sat")),
        Event("starting", 0),
        Event("starting", 1),
        Event("ready", 1),
        Event("started", 1, job),
        Event("progress", 1, job, progress={"phase": "search", "domains": 400}),
    ):
        view.on_event(event)
    console = Console(record=True, width=120, file=io.StringIO())
    console.print(view.tables())
    lines = [" ".join(line.split()) for line in console.export_text().splitlines()]
    assert "1 starting 0" in lines
    assert "2 lirpa m.onnx [p].vnnlib search, 400 domains 0 of 60" in lines
    assert "██████░░░░░░░░░░░░░░ · 1 of 3 runs · 0 s" in lines
    assert "auto 1 1 0 0 0 0 1" in lines, "solved, then by verdict, then wrong"
    assert "lirpa 0 0 0 0 0 0 0" in lines


def test_a_field_goes_to_the_methods_that_have_it(tmp_path: Path) -> None:
    make_set(tmp_path / "set", "unsat")
    chosen = ("--set", "steps=7", "--set", "probes=3", "--set", "lirpa:rebound=2")
    methods = ("--method", "auto", "--method", "lirpa")
    code, _, err = run("bench", "set", "--out", "done", "--no-report", *methods, *chosen, *CPU, cwd=tmp_path)
    assert code == 0, err
    with Store(tmp_path / "done" / "results.sqlite") as store:
        auto, lirpa = store.results()
    assert (auto.options["steps"], auto.options["probes"]) == (7, 3)
    assert (lirpa.options["steps"], lirpa.options["rebound"]) == (7, 2)


def test_two_campaigns_do_not_share_a_folder(tmp_path: Path) -> None:
    make_set(tmp_path / "set", "deaf")
    command = ("bench", "set", "--out", "done", "--no-report", *CPU)
    with start(*command, cwd=tmp_path) as process:
        wait_for(lambda: bool(calls(tmp_path)))
        code, _, err = run(*command, cwd=tmp_path)
        process.kill()
    assert code == 2
    assert "another campaign is running in this folder" in err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["bench", "nowhere", "--out", "done"], "nowhere: no such folder"),
        (["bench", "empty", "--out", "done"], "empty: no instances.csv in this folder"),
        (["bench", "bad", "--out", "done"], "line 2: 'soon' is not a time limit"),
        (["bench", "set"], "--out"),
        (["bench", "--out", "done"], "FOLDER"),
        (["bench", "set", "--out", "set/a.onnx"], "set/a.onnx: cannot be written"),
        (["bench", "set", "--out", "done", "--method", "lipra"], "did you mean 'lirpa'?"),
        (["bench", "set", "--out", "done", "--set", "stepz=1"], "no field 'stepz'"),
        (["bench", "set", "--out", "done", "--set", "lirpa:steps=1"], "no method 'lirpa' in this run"),
        (["bench", "set", "--out", "done", "--set", "auto:steps"], "not FIELD=VALUE"),
        (["bench", "set", "--out", "done", "--timeout", "0"], "--timeout"),
        (["bench", "set", "--out", "done", "--first", "0"], "--first: 0 is too few"),
        (["bench", "set", "--out", "done", "--workers", "0"], "--workers: 0 is too few"),
        (["bench", "set", "--out", "done", "--threads", "0"], "--threads"),
        (["bench", "set", "--out", "done", "--memory", "much"], "--memory"),
        (["bench", "set", "--out", "done", "--device", "tpu"], "unknown device 'tpu'"),
        (["report", "nowhere"], "nowhere/results.sqlite: no results there"),
        (["bench", "set", "--out", "x", "--rival", "other"], "--rival other: no name or no file"),
        (["bench", "set", "--out", "x", "--rival", "a=b.csv", "--no-report"], "there is no report to show it in"),
        (["bench", "set", "--out", "x", "--rival", "a=b.csv"], "b.csv: cannot be read"),
    ],
)
def test_bad_input_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, arguments: list[str], said: str
) -> None:
    from netproof.cli.app import run as obey

    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("NETPROOF_BENCHMARKS", raising=False)
    make_set(tmp_path / "set", "unsat")
    (tmp_path / "empty").mkdir()
    make_set(tmp_path / "bad", "unsat", "sat:soon")
    assert (
        obey([*arguments, *(("--device", "cpu") if arguments[0] == "bench" and "--device" not in arguments else ())])
        == 2
    )
    out, err = capsys.readouterr()
    assert out == ""
    (line,) = err.splitlines()
    assert line.startswith("netproof: error: ")
    assert said in line
    assert not (tmp_path / "done").exists()


def test_an_empty_store_has_no_report(tmp_path: Path) -> None:
    Store(tmp_path / "done" / "results.sqlite").close()
    code, out, err = run("report", "done", cwd=tmp_path)
    assert (code, out) == (2, "")
    assert err == "netproof: error: done: no results yet (run `netproof bench` first)\n"
