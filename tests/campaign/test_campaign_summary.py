"""What results say together."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from netproof._version import __version__
from netproof.campaign.devices import Setup
from netproof.campaign.instances import read_folder
from netproof.campaign.jobs import Job
from netproof.campaign.run import Run
from netproof.campaign.summary import contradictions, latest, of_other_versions, summaries, versions_said
from netproof.core.machine.versions import code
from netproof.run.record import Record
from support.campaign import a_result, make_set


def test_the_last_result_of_a_configuration_counts() -> None:
    runs = latest([a_result(verdict="error"), a_result(method="lirpa"), a_result(verdict="unsat", total=3.0)])
    assert [(run.label, run.result.verdict, run.result.total) for run in runs] == [
        ("auto", "unsat", 3.0),
        ("lirpa", "unsat", 1.0),
    ]


def test_configurations_of_one_method_are_told_apart_by_what_differs() -> None:
    results = [
        a_result(),
        a_result(options={"steps": 9}),
        a_result(options={"steps": 9}, seed=1),
        a_result(method="lirpa"),
    ]
    labels = [run.label for run in latest(results)]
    assert labels == ["auto (steps=5, seed=0)", "auto (steps=9, seed=0)", "auto (steps=9, seed=1)", "lirpa"]
    newer = dataclasses.replace(a_result(), versions={"netproof": "0.2.0"})
    assert [run.label for run in latest([a_result(), newer])] == ["auto (netproof=0.1.0)", "auto (netproof=0.2.0)"]


def test_with_several_versions_every_name_has_its_own() -> None:
    """Also where no method has runs of two; which fields a method has in one version says nothing in another."""
    newer = dataclasses.replace(a_result(method="lirpa", options={"pace": 3}), versions={"netproof": "0.2.0"})
    assert [run.label for run in latest([a_result(), newer])] == ["auto (netproof=0.1.0)", "lirpa (netproof=0.2.0)"]
    older = [a_result(method="lirpa"), a_result(method="lirpa", options={"steps": 9})]
    assert [run.label for run in latest([*older, newer])] == [
        "lirpa (steps=5, netproof=0.1.0)",
        "lirpa (steps=9, netproof=0.1.0)",
        "lirpa (netproof=0.2.0)",
    ]


def test_results_of_other_versions_are_told() -> None:
    mine = dataclasses.replace(a_result(method="lirpa"), versions={"netproof": __version__, "code": code()})
    unknown = dataclasses.replace(a_result("q.vnnlib", "error"), versions={})
    older = [a_result("p.vnnlib"), a_result("q.vnnlib"), a_result("q.vnnlib", "timeout")]
    alien = dataclasses.replace(a_result(), versions={"netproof": "9.0"})
    before = dataclasses.replace(a_result(), versions={"netproof": __version__})  # when sources were not kept
    edited = dataclasses.replace(a_result(), versions={"netproof": __version__, "code": "0a1b2c3d"})
    assert of_other_versions([mine, unknown, *older, before, edited, alien]) == [*older, before, edited, alien]
    assert versions_said([mine, unknown, *older, before, edited, alien], "shown, not resumed") == [
        "2 results of netproof 0.1.0 are shown, not resumed",
        f"1 result of netproof {__version__} is shown, not resumed",
        f"1 result of netproof {__version__}+0a1b2c3d is shown, not resumed",
        "1 result of netproof 9.0 is shown, not resumed",
    ]
    assert versions_said([mine, unknown], "shown") == []


def test_summary() -> None:
    results = [
        a_result("1", "unsat", total=1.0, domains=10, truth="unsat"),
        a_result("2", "sat", total=2.0, domains=0, truth="unsat"),
        a_result("3", "timeout", total=9.0, domains=80),
        a_result("4", "error", total=100.0),
        a_result("5", "unknown", total=4.0, domains=30, truth="sat"),
        a_result("1", benchmark="other"),
    ]
    one, other = summaries(latest(results))
    assert (one.benchmark, one.method, one.instances, one.solved) == ("set", "auto", 5, 2)
    assert one.counts == {"unsat": 1, "sat": 1, "timeout": 1, "unknown": 1, "error": 1}
    assert (one.wrong, one.checked) == (1, 2)
    assert (one.mean, one.median, one.longest, one.domains) == (4.0, 3.0, 9.0, 30.0)
    assert (other.benchmark, other.instances) == ("other", 1)


def test_no_figures_of_errors_alone() -> None:
    (only,) = summaries(latest([a_result(verdict="error")]))
    assert (only.mean, only.median, only.longest, only.domains) == (None, None, None, None)


def test_contradictions() -> None:
    results = [
        a_result("1", "sat", truth="unsat"),
        a_result("2", "sat"),
        a_result("2", "unsat", method="lirpa"),
        a_result("3", "timeout", truth="sat"),
        a_result("3", "sat", method="lirpa", truth="sat"),
    ]
    assert contradictions(latest(results)) == [
        "set: onnx/m.onnx 1: known to be unsat, but sat by auto",
        "set: onnx/m.onnx 2: sat by auto, but unsat by lirpa",
    ]


def test_a_run_at_odds_with_itself_is_one_too() -> None:
    odd = dataclasses.replace(a_result("1", "unknown"), reason="contradiction", error="odd; the case is kept in x")
    assert contradictions(latest([odd])) == ["set: onnx/m.onnx 1: within auto: odd; the case is kept in x"]


def test_a_late_contradiction_stays_one(tmp_path: Path) -> None:
    job = Job(read_folder(make_set(tmp_path / "set", "unsat"))[0], "auto", timeout=1.0)
    odd = Record("unknown", "contradiction", contradiction={"what": "odd", "saved": "x"})
    late = Run(job, Setup("cpu", 1)).result(odd, total=9.0)
    assert (late.reason, late.error) == ("contradiction", "odd; the case is kept in x")
    assert Run(job, Setup("cpu", 1)).result(Record("unknown", "open"), total=9.0).verdict == "timeout"


def test_a_mended_property_is_another_question() -> None:
    mended = dataclasses.replace(a_result("1", "unsat", method="lirpa"), vnnlib_sha256="3")
    assert contradictions(latest([a_result("1", "sat"), mended])) == []
