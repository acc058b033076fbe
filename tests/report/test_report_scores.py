"""Scores, rivals, errors by kind, LaTeX and counterexamples: what the report computes."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from netproof.campaign.rivals import read_rivals
from netproof.campaign.scores import Score, duels, scores
from netproof.campaign.store import Result
from netproof.campaign.summary import Run, latest, summaries, truths
from netproof.core.machine.describe import describe, in_words, processor
from netproof.core.verdict import TensorValue, Witness
from netproof.errors import UsageError
from netproof.problem.witness import format_witness
from netproof.report.counterexamples import picture_of, place_of, write_counterexamples
from netproof.report.drawings import write_plots
from netproof.report.latex import latex
from netproof.report.page import Table
from netproof.report.rows import asked, explorer
from netproof.report.tables import errors_said, score_tables
from support.campaign import a_result


def some_runs() -> list[Run]:
    return latest(
        [
            a_result("1", "unsat", total=1.0, truth="unsat"),
            a_result("1", "unsat", method="lirpa", total=4.0, truth="unsat"),
            a_result("2", "unsat", total=2.0),
            a_result("2", "sat", method="lirpa", total=3.0),
            a_result("3", "timeout", total=20.0),
            a_result("3", "unsat", method="lirpa", total=18.0),
            a_result("4", "error", error="x"),
            a_result("4", "timeout", method="lirpa", total=20.0),
            a_result("5", "sat", benchmark="other", total=1.0),
            a_result("5", "sat", method="lirpa", benchmark="other", total=0.25),
        ]
    )


def by_name(found: list[Score]) -> dict[tuple[str, str], Score]:
    return {(score.summary.benchmark, score.summary.method): score for score in found}


def test_points_and_par2() -> None:
    runs = some_runs()
    assert truths(runs) == {
        ("set", "onnx/m.onnx", "1"): "unsat",
        ("set", "onnx/m.onnx", "2"): "sat",
        ("other", "onnx/m.onnx", "5"): "sat",
    }
    found = by_name(scores(runs))
    auto, lirpa, best = (found["set", name] for name in ("auto", "lirpa", "virtual best"))
    assert (auto.points, auto.summary.wrong, auto.summary.solved) == (10 - 150, 1, 2)
    assert auto.par2 == (1.0 + 40.0 + 40.0 + 40.0) / 4, "a wrong answer counts as none"
    assert (lirpa.points, lirpa.par2) == (30, (4.0 + 3.0 + 18.0 + 40.0) / 4)
    assert (best.points, best.par2, best.summary.solved) == (30, (1.0 + 3.0 + 18.0 + 40.0) / 4, 3)
    assert lirpa.share == best.share == 100.0
    assert found["all", "lirpa"].points == 40
    assert found["all", "lirpa"].share == 200.0
    assert found["all", "virtual best"].par2 == (1.0 + 3.0 + 18.0 + 40.0 + 0.25) / 5
    over, by = score_tables(scores(runs))
    assert over.header[:4] == ("method", "instances", "solved", "wrong")
    assert [row[:5] for row in over.rows][:2] == [("auto", "5", "3", "1", "-130"), ("lirpa", "5", "4", "0", "40")]
    assert over.marked == {(0, 3)}
    assert len(by.rows) == 6
    assert list(found)[-3:] == [("all", "auto"), ("all", "lirpa"), ("all", "virtual best")]


def test_one_configuration_has_no_virtual_best_and_no_limit_no_par2() -> None:
    (only,) = scores(latest([a_result("1", "unknown", timeout=None), a_result("2", timeout=None)]))
    assert (only.points, only.par2, only.share) == (10, None, 100.0)
    (table,) = score_tables([only])
    assert table.rows[0][2:10] == ("2", "1", "0", "10", "100.0", "–", "1.00", "1.00")


def test_speed_ups_are_of_what_both_solved_alike() -> None:
    (duel,) = duels(some_runs())
    assert (duel.first, duel.second, duel.both) == ("auto", "lirpa", 2)
    assert (duel.only_first, duel.only_second, duel.faster) == (0, 2, 1)
    assert duel.mean == pytest.approx(1.0)
    assert duel.median == pytest.approx((4.0 + 0.25) / 2)
    assert duel.total == pytest.approx(4.25 / 2)


# --- rivals ---

RIVAL = """\
other-set,./onnx/m.onnx.gz,vnnlib/1.gz,3,holds,7.5
set,m.onnx,2,0,violated,1
set,m.onnx,3,0,run_instance_timeout,20
set,m.onnx,4,0,error_exit_code_1,2
elsewhere,m.onnx,1,0,sat,2
set,m.onnx,9,0,unsat,2
"""


def read(tmp_path: Path, text: str) -> list[Run]:
    (tmp_path / "r.csv").write_text(text)
    (rival,) = read_rivals([f"crown={tmp_path / 'r.csv'}"], some_runs())
    assert rival.rows == 6
    assert rival.said.endswith("; 2 are left out")
    return list(rival.runs)


def test_a_rival_joins_tables_and_speed_ups(tmp_path: Path) -> None:
    found = read(tmp_path, RIVAL)
    assert [(run.result.vnnlib, run.result.verdict, run.result.total) for run in found] == [
        ("1", "unsat", 7.5),
        ("2", "sat", 1.0),
        ("3", "timeout", 20.0),
        ("4", "error", 2.0),
    ]
    runs = [*some_runs(), *found]
    crown = by_name(scores(runs))["set", "crown"]
    assert (crown.points, crown.summary.instances) == (20, 4)
    assert [(duel.second, duel.both) for duel in duels(runs)] == [("lirpa", 2), ("crown", 1), ("crown", 2)]
    data = explorer(runs).data
    (tail,) = [column for column in data["columns"] if column["key"] == "tail"]
    assert tail["values"][tail["data"][-1]] == "", "nobody knows its command"


def test_a_rival_with_a_header(tmp_path: Path) -> None:
    (tmp_path / "r.csv").write_text("verdict,onnx,vnnlib,time\nsat,a/onnx/m.onnx,2,5\n")
    (rival,) = read_rivals([f"x={tmp_path / 'r.csv'}"], some_runs())
    assert [(run.label, run.rival, run.result.verdict) for run in rival.runs] == [("x", True, "sat")]


def test_a_rival_s_sat_is_only_a_claim(tmp_path: Path) -> None:
    """On instance 3, of which nothing is known: what netproof proves there is not wrong for it."""
    claimed = read(tmp_path, RIVAL.replace("run_instance_timeout", "sat"))
    assert [run.result.verdict for run in claimed if run.result.vnnlib == "3"] == ["sat"]
    runs = [*some_runs(), *claimed]
    assert truths(runs) == truths(some_runs())
    assert by_name(scores(runs))["set", "lirpa"].summary.wrong == 0


def test_a_wrong_answer_solves_nothing(tmp_path: Path) -> None:
    """Instance 2 is broken by lirpa; two others prove it."""
    runs = latest([*(run.result for run in some_runs()), a_result("2", "unsat", method="crown", total=9.0)])
    found = {(duel.first, duel.second): duel for duel in duels(runs)}
    assert (found["auto", "crown"].both, found["lirpa", "crown"].only_first) == (0, 1)
    assert [(s.method, s.wrong) for s in summaries(runs) if s.benchmark == "set"] == [
        ("auto", 1),
        ("lirpa", 0),
        ("crown", 1),
    ]
    drawn: dict[str, list[Any]] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "netproof.report.plots.save", lambda figure, path, formats: drawn.setdefault(path.name, figure) and []
        )
        patch.setattr("netproof.report.plots.cactus", lambda series, total, **more: [series])
        patch.setattr("netproof.report.plots.scatter", lambda pairs, labels, **more: [labels, pairs])
        write_plots(runs, tmp_path)
    assert drawn["cactus-set"] == [{"auto": [1.0], "lirpa": [4.0, 3.0, 18.0], "crown": []}]
    of = dict(made for name, made in drawn.items() if name.startswith("scatter"))
    assert of["auto", "crown"] == [(None, None, "")]
    assert of["lirpa", "crown"] == [(3.0, None, "sat")]


@pytest.mark.parametrize(
    ("given", "text", "said"),
    [
        ("crown", "", "no name or no file"),
        ("auto={}", "set,m.onnx,1,0,sat,1\n", "there is a method 'auto' already"),
        ("x={}", "set,m.onnx,1,0,maybe,1\n", "line 1: 'maybe' is not a result"),
        ("x={}", "set,m.onnx,1,0,sat,soon\n", "line 1: 'soon' is not a number of seconds"),
        ("x={}", "set,m.onnx,1\n", "line 1: 3 columns, not 6"),
        ("x={}", "set,n.onnx,1,0,sat,1\n", "none of its 1 results is of an instance"),
        ("x={}.missing", "", "cannot be read"),
    ],
)
def test_a_rival_that_cannot_be_used(tmp_path: Path, given: str, text: str, said: str) -> None:
    (tmp_path / "r.csv").write_text(text)
    with pytest.raises(UsageError, match=said):
        read_rivals([given.format(tmp_path / "r.csv")], some_runs())


def test_instances_of_one_name_are_told_apart_or_left_out(tmp_path: Path) -> None:
    twins = [dataclasses.replace(a_result("1"), onnx=f"{folder}/m.onnx") for folder in ("a", "b")]
    (tmp_path / "r.csv").write_text("set,b/m.onnx,1,0,unsat,1\nset,m.onnx,1,0,unsat,9\n")
    (rival,) = read_rivals([f"x={tmp_path / 'r.csv'}"], latest(twins))
    assert [(run.result.onnx, run.result.total) for run in rival.runs] == [("b/m.onnx", 1.0)]


# --- what else is in it ---


def test_errors_are_grouped() -> None:
    refused = "set/onnx/m.onnx: node 'n{}': unsupported operator Sigmoid: no bounds (see all)"
    runs = latest(
        [
            *(
                dataclasses.replace(a_result(str(i), "error", error=refused.format(i)), refused="Sigmoid")
                for i in range(6)
            ),
            a_result("7", "error", error="/a/b/onnx/m.onnx: no such file (check the path)"),
            a_result("8", "error", error="/a/b/onnx/m.onnx: no such file (check the path)"),
        ]
    )
    runs.append(Run("rival", a_result("9", "error"), rival=True))  # nobody here can mend it
    assert errors_said(runs) == ["set: unsupported operator Sigmoid, 6 runs", "set: no such file, 2 runs"]


def test_latex() -> None:
    text = latex(Table(("a_b", "%"), [("x & y", "1"), ("all", "2")], totals=frozenset({1})))
    assert text.splitlines()[1:] == [
        r"\begin{tabular}{lr}",
        r"\toprule",
        r"a\_b & \% \\",
        r"\midrule",
        r"x \& y & 1 \\",
        r"\midrule",
        r"all & 2 \\",
        r"\bottomrule",
        r"\end{tabular}",
    ]


def sat_with(image: np.ndarray, **tensors: np.ndarray) -> Result:
    values = tuple(TensorValue(name, "float32", array) for name, array in tensors.items())
    text = format_witness(Witness(image, np.zeros((1, 2), np.float32), tensors=values))
    return dataclasses.replace(
        a_result("v/p.vnnlib", "sat"), witness=text, input_shape=",".join(map(str, image.shape)), versions={}
    )


def test_counterexamples_are_files_and_pictures(tmp_path: Path) -> None:
    image = np.arange(64, dtype=np.float32).reshape(1, 1, 8, 8) / 64
    result = sat_with(image)
    png = picture_of(result)
    assert png is not None
    assert png == picture_of(sat_with(image, X=image)), "in the form of VNN-LIB 2.0 too"
    assert picture_of(sat_with(np.zeros((1, 5), np.float32))) is None
    runs = [Run("auto", result)]
    (path,) = write_counterexamples(runs, tmp_path)
    assert re.fullmatch(r"onnx_m__v_p__auto__[0-9a-f]{8}\.counterexample", path.name)
    assert path.parent == tmp_path / "counterexamples" / "set"
    assert path.read_text() == result.witness
    odd = {place_of(Run("auto", dataclasses.replace(result, vnnlib=name))) for name in ("v/p.v", "v/x y.v", "v/x_y.v")}
    assert len(odd) == 3, "names that look alike once blanks are gone"
    before = path.stat().st_mtime_ns
    write_counterexamples(runs, tmp_path)
    assert path.stat().st_mtime_ns == before, "what is there stays"
    write_counterexamples([Run("auto", dataclasses.replace(result, verdict="unsat"))], tmp_path)
    assert not path.exists()
    assert not path.parent.exists()


def test_every_counterexample_has_a_name_of_its_own(tmp_path: Path) -> None:
    """Also where names of files differ in what a file's name leaves out; and none changes when another one joins."""
    result = sat_with(np.zeros((1, 5), np.float32))
    names = ("v/x y.vnnlib", "v/x_y.vnnlib", "v_x_y.vnnlib", "v/x_y.txt", "_v/x_y.vnnlib")
    runs = [Run("auto", dataclasses.replace(result, vnnlib=name)) for name in names]
    runs += [Run("auto", dataclasses.replace(result, benchmark=name)) for name in ("a b", "a_b", "a/b")]
    paths = write_counterexamples(runs, tmp_path)
    assert len(set(paths)) == len(runs)
    assert all(path.is_file() for path in paths)
    assert write_counterexamples(runs[:1], tmp_path) == paths[:1]


def test_the_command_that_asks_again() -> None:
    result = dataclasses.replace(a_result(seed=3, options={"steps": 9, "lp_batch": None}), memory="8G", attack=False)
    assert asked(result) == (
        "--method auto --set steps=9 --set lp_batch=none --timeout 20 --device cpu --threads 1 --seed 3 --no-attack"
        " --memory 8G"
    )


def test_several_networks_have_all_their_names() -> None:
    two = dataclasses.replace(a_result(), onnx="f=onnx/a.onnx g=onnx/b.onnx", lower_bound=float("inf"))
    columns = {column["key"]: column for column in explorer([Run("auto", two)]).data["columns"]}
    assert columns["model"]["values"] == ["f=a.onnx g=b.onnx"]
    assert columns["lower"]["data"] == [None], "JSON has no infinity"


def test_the_machine_in_words() -> None:
    assert processor("processor : 0\nmodel name\t: A  Chip @ 2 GHz\nmodel name\t: Another\n") == "A Chip @ 2 GHz"
    assert processor("") == ""
    machine = {**describe(), "gpu": "A GPU", "cores": "1"}
    assert in_words(machine).startswith(f"A GPU, {machine['cpu']}, 1 core, ")
    assert in_words({}) == ""
