"""A campaign and its workers: whatever becomes of one, the others' results are kept."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from netproof.campaign import devices
from netproof.campaign import run as campaign
from netproof.campaign.devices import setups
from netproof.campaign.instances import read_folder
from netproof.campaign.jobs import Job
from netproof.campaign.run import Event, WorkerFailed, run
from netproof.campaign.store import Result, Store
from netproof.campaign.summary import is_wrong
from netproof.errors import UsageError
from support.campaign import calls, make_set


def jobs_of(folder: Path, *, methods: Sequence[str] = ("auto",), **more: Any) -> list[Job]:
    instances = read_folder(folder)
    return [Job(i, m, **{"timeout": i.timeout, "threads": 1, **more}) for i in instances for m in methods]


def run_all(folder: Path, jobs: Sequence[Job], **more: Any) -> tuple[list[Result], list[Event]]:
    events: list[Event] = []
    with Store(folder / "results.sqlite") as store:
        found = run(jobs, store, **{"workers": 1, "on_event": events.append, **more})
        assert all(result in store.results() for result in found)
    return found, events


def test_answers_are_kept_with_all_that_belongs_to_them(fake: Path) -> None:
    jobs = jobs_of(make_set(fake / "set", "unsat", "sat", "unknown", "slow:0.5", "print"))
    results, events = run_all(fake, jobs)
    assert [r.verdict for r in results] == ["unsat", "sat", "unknown", "timeout", "unsat"]
    holds, broken = results[:2]
    assert (holds.lower_bound, holds.upper_bound, holds.domains, holds.rounds) == (0.5, None, 40, 3)
    assert (holds.decided_by, holds.seconds["search"], holds.witness) == ("root", 0.25, "")
    assert broken.witness == "((X_0 0.5))\n((X_1 0.25))\n"
    assert (holds.benchmark, holds.onnx, holds.vnnlib) == ("set", "a.onnx", "0-unsat.vnnlib")
    assert (holds.onnx_sha256, holds.vnnlib_sha256) == jobs[0].hashes
    assert (holds.device, holds.threads, holds.seed, holds.attack, holds.timeout) == ("cpu", 1, 0, True, 100.0)
    assert holds.options == jobs[0].all_options
    assert holds.versions["torch"]
    assert "T" in holds.started <= holds.finished
    assert holds.total > 0
    assert results[3].total >= 0.5
    assert [e.kind for e in events[:5]] == ["starting", "ready", "started", "progress", "finished"]
    assert events[3].progress == {"phase": "search", "domains": 7, "lower_bound": None}
    assert len(calls(fake, "load")) == 1, "the network stays loaded"


def test_jobs_on_the_loaded_network_come_first(fake: Path) -> None:
    results, _ = run_all(fake, jobs_of(make_set(fake / "set", *["unsat"] * 4, models=2)))
    assert calls(fake, "load") == ["a.onnx", "b.onnx"]
    assert calls(fake) == [f"{i}-unsat.vnnlib" for i in (0, 2, 1, 3)]
    assert [r.vnnlib[0] for r in results] == ["0", "1", "2", "3"], "results are in the order of the jobs"


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("kill", "killed by SIGKILL"),
        ("exit", "exit code 3"),
        ("raise", "ZeroDivisionError: the engine fell over"),
        ("refuse", "line 3, column 7: no such variable X_9 (declare it)"),
    ],
)
def test_an_error_is_recorded_and_the_rest_goes_on(fake: Path, word: str, said: str) -> None:
    results, events = run_all(fake, jobs_of(make_set(fake / "set", "unsat", word, "sat")))
    assert [r.verdict for r in results] == ["unsat", "error", "sat"]
    assert said in results[1].error
    assert "\n" not in results[1].error
    assert ("Traceback" in results[1].log) == (word == "raise")
    assert [e.kind for e in events].count("ready") == (1 if word == "refuse" else 2)


def test_an_unsupported_operator_is_not_run_again(fake: Path) -> None:
    folder = make_set(fake / "set", "operator", "refuse", "sat")
    first, _ = run_all(fake, jobs_of(folder, command="netproof bench set"))
    assert [(r.verdict, r.refused) for r in first[:2]] == [("error", "Celu"), ("error", None)]
    assert "node 'n': unsupported operator Celu: no bounds" in first[0].error
    assert first[2].machine["cores"]
    assert (first[2].command, first[2].input_shape) == ("netproof bench set", "1,2")
    (fake / "calls.txt").unlink()
    second, _ = run_all(fake, jobs_of(folder))
    assert calls(fake) == ["1-refuse.vnnlib"]
    assert second[0] == first[0]


def test_a_missing_model_is_that_instance_s_error(fake: Path) -> None:
    folder = make_set(fake / "set", "unsat", "unsat", models=2)
    (folder / "b.onnx").unlink()
    results, _ = run_all(fake, jobs_of(folder))
    assert [r.verdict for r in results] == ["unsat", "error"]
    assert "b.onnx: no such file" in results[1].error


def test_the_watchdog_ends_what_does_not_end(fake: Path) -> None:
    jobs = jobs_of(make_set(fake / "set", "deaf:0.2", "unsat"))
    results, events = run_all(fake, jobs, grace=0.1)
    assert [r.verdict for r in results] == ["timeout", "unsat"]
    assert results[0].reason == "the watchdog ended the run 0.1 s after its limit"
    assert (results[0].domains, results[0].lower_bound) == (7, -0.75)  # as far as it had said
    assert 0.3 < results[0].total < 2.0
    assert [e.text for e in events if e.kind == "lost"] == [results[0].reason]


def test_a_decision_after_the_limit_is_none(fake: Path) -> None:
    (result,), _ = run_all(fake, jobs_of(make_set(fake / "set", "late:0.2")))
    assert (result.verdict, result.reason) == ("timeout", "unsat, but after the limit")


def test_what_is_stored_is_not_run_again_but_errors_are(fake: Path) -> None:
    folder = make_set(fake / "set", "unsat", "once", "slow:0.3")
    first, _ = run_all(fake, jobs_of(folder))
    assert [r.verdict for r in first] == ["unsat", "error", "timeout"]
    (fake / "calls.txt").unlink()
    second, events = run_all(fake, jobs_of(folder))
    assert [r.verdict for r in second] == ["unsat", "unsat", "timeout"]
    assert calls(fake) == ["1-once.vnnlib"]
    assert [e.kind for e in events].count("kept") == 2
    (fake / "calls.txt").unlink()
    run_all(fake, jobs_of(folder), rerun=True)
    assert len(calls(fake)) == 3
    (fake / "calls.txt").unlink()
    _, events = run_all(fake, jobs_of(folder))
    assert [e.kind for e in events] == ["kept"] * 3, "no worker is started for nothing"


def test_what_is_known_today_counts_for_what_is_stored(fake: Path) -> None:
    """A mended known.csv, or a folder with another name, is no reason to run anything again."""
    folder = make_set(fake / "set", "sat")
    (folder / "known.csv").write_text("onnx,vnnlib,truth\na.onnx,0-sat.vnnlib,unsat\n")
    assert is_wrong(run_all(fake, jobs_of(folder))[0][0])
    (folder / "known.csv").write_text("onnx,vnnlib,truth\na.onnx,0-sat.vnnlib,sat\n")
    moved = folder.rename(fake / "moved")
    for _ in range(2):
        (result,), events = run_all(fake, jobs_of(moved))
        assert [e.kind for e in events] == ["kept"]
        assert (result.benchmark, result.truth, is_wrong(result)) == ("moved", "sat", False)
    with Store(fake / "results.sqlite") as store:
        assert [r.benchmark for r in store.results()] == ["set", "moved"]


def test_a_campaign_that_was_stopped_for_a_while_blames_nobody(fake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As Ctrl-Z does: the answer was there in time, and only this process did not look."""
    monkeypatch.setattr(campaign, "AWAY", 0.5)

    def on_event(event: Event) -> None:
        if event.kind == "started":
            time.sleep(2.0)

    (result,), _ = run_all(fake, jobs_of(make_set(fake / "set", "unsat:1")), grace=0.1, on_event=on_event)
    assert result.verdict == "unsat"


def test_no_workers_are_refused(fake: Path) -> None:
    with pytest.raises(UsageError, match="0 workers are too few"):
        run_all(fake, jobs_of(make_set(fake / "set", "unsat")), workers=0)


def test_two_workers_share_the_work(fake: Path) -> None:
    results, events = run_all(fake, jobs_of(make_set(fake / "set", "meet", "meet")), workers=2)
    assert [r.verdict for r in results] == ["unsat", "unsat"], "each waits until the other runs too"
    assert {e.worker for e in events if e.kind == "finished"} == {0, 1}


def test_stop_keeps_what_is_done_and_nothing_of_what_is_not(fake: Path) -> None:
    stop = threading.Event()

    def on_event(event: Event) -> None:
        if event.kind == "started" and event.job is not None and "deaf" in event.job.instance.vnnlib.name:
            stop.set()

    folder = make_set(fake / "set", "unsat", "deaf", "unsat")
    results, _ = run_all(fake, jobs_of(folder), on_event=on_event, stop=stop)
    assert [r.vnnlib for r in results] == ["0-unsat.vnnlib"]
    assert calls(fake) == ["0-unsat.vnnlib", "1-deaf.vnnlib"]
    with Store(fake / "results.sqlite") as store:
        assert store.results() == results


@pytest.mark.parametrize(
    ("start", "said"),
    [("raise", "no worker can be started.*RuntimeError: no engine here"), ("refuse", "no CUDA device is available")],
)
def test_workers_that_do_not_start(fake: Path, monkeypatch: pytest.MonkeyPatch, start: str, said: str) -> None:
    monkeypatch.setenv("FAKE_START", start)
    with pytest.raises(WorkerFailed, match=said):
        run_all(fake, jobs_of(make_set(fake / "set", "unsat")))
    assert calls(fake) == []


def test_each_worker_has_its_card_and_its_share(fake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "gpus", lambda: ("4", "6"))
    monkeypatch.setattr(devices, "available_cpus", lambda: 12)
    monkeypatch.setattr(devices, "core_groups", lambda workers, threads: [None] * workers)
    jobs = jobs_of(make_set(fake / "set", "unsat"), device="cuda", threads=None)
    given = setups(jobs, 3)
    assert [(s.device, s.gpu, s.threads) for s in given] == [("cuda", "4", 4), ("cuda", "6", 4), ("cuda", "4", 4)]
    assert given[1].environment()["CUDA_VISIBLE_DEVICES"] == "6"
    assert given[1].environment()["OMP_NUM_THREADS"] == "4"
