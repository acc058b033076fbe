"""The small parts of the command line by themselves."""

from __future__ import annotations

import collections
import gc
import io
import json
import re
import sys
import time
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from netproof.cli import options
from netproof.cli.commands.verify import prepare
from netproof.cli.process import start_time
from netproof.cli.process.supervisor import Ending, Outcome, soft_limit
from netproof.cli.robust import command as robust
from netproof.cli.robust.command import overall
from netproof.cli.robust.question import Question, Row
from netproof.cli.show.answer import Answer
from netproof.cli.show.output import Outputs, to_json
from netproof.cli.show.picture import draw_counterexample
from netproof.cli.show.progress import Display
from netproof.cli.show.summary import summary
from netproof.core.cpu import available_cpus, busy_elsewhere, cgroup_quota, look_around, threads_for
from netproof.core.reasons import UNSHOWN
from netproof.errors import UsageError
from netproof.run.record import Record, known_so_far


def cgroup(root: Path, membership: str, **files: str) -> tuple[Path, Path]:
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/cgroup").write_text(membership)
    for name, content in files.items():
        path = root / "sys" / name.replace("__", "/").replace("cpu_", "cpu.")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return root / "proc", root / "sys"


@pytest.mark.parametrize(
    ("membership", "files", "quota"),
    [
        ("0::/\n", {"cpu_max": "150000 100000\n"}, 1.5),
        ("0::/\n", {"cpu_max": "max 100000\n"}, None),
        ("0::/a/b\n", {"a__cpu_max": "100000 100000", "a__b__cpu_max": "400000 100000"}, 1.0),
        ("0::/../b\n", {"cpu_max": "200000 100000"}, 2.0),
        (
            "4:cpu,cpuacct:/a\n",
            {"cpu__a__cpu_cfs_quota_us": "50000", "cpu__a__cpu_cfs_period_us": "100000"},
            0.5,
        ),
        ("4:cpu:/\n", {"cpu__cpu_cfs_quota_us": "-1", "cpu__cpu_cfs_period_us": "100000"}, None),
        ("", {}, None),
    ],
)
def test_the_quota_of_a_container(tmp_path: Path, membership: str, files: dict[str, str], quota: float | None) -> None:
    assert cgroup_quota(*cgroup(tmp_path, membership, **files)) == quota


def test_there_is_at_least_one_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("netproof.core.cpu.affinity_cpus", lambda: 8)
    for quota, count in ((None, 8), (0.2, 1), (1.5, 2), (64.0, 8)):
        monkeypatch.setattr("netproof.core.cpu.cgroup_quota", lambda quota=quota: quota)
        assert available_cpus() == count


@pytest.mark.parametrize(
    ("age", "children", "whole", "counted"),
    [
        (0.5, False, True, 0.5),
        (1000.0, False, True, 1000.0),  # a slow start, however slow
        (0.5, True, True, 0.5),
        (1000.0, True, True, 0.0),  # it has replaced a shell
        (1000.0, False, False, 0.0),  # a program that calls the command
        (-1.0, False, True, 0.0),  # a kernel whose clocks disagree
    ],
)
def test_the_clock_starts_with_the_process(
    age: float, children: bool, whole: bool, counted: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(start_time, "_began", None)
    monkeypatch.setattr(start_time, "_age", lambda: age)
    monkeypatch.setattr(start_time, "_had_children", lambda: children)
    before = time.monotonic()
    start_time.start_clock(before, whole_process=whole)
    assert before - counted <= start_time.command_started() <= time.monotonic() - counted


def test_without_a_clock_a_command_begins_when_it_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(start_time, "_began", None)
    before = time.monotonic()
    assert before <= start_time.command_started() <= time.monotonic()


def test_numbers_are_exact() -> None:
    assert options.number("--eps", "2/255") == Fraction(2, 255)
    assert options.number("--eps", "1e-3") == Fraction(1, 1000)
    assert options.number("--eps", "0.5/255") == Fraction(1, 510)
    assert options.number("--eps", " 1e-1 / 2.5e1 ") == Fraction(1, 250)
    assert options.numbers("--std", "0.1, 0.2") == (Fraction(1, 10), Fraction(1, 5))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("1/0", "divides by zero"),
        ("1/0.0", "divides by zero"),
        ("1/2/3", "is not a number"),
        ("/2", "is not a number"),
        ("2/", "is not a number"),
        ("inf", "is not a number"),
        ("1_0", "is not a number"),
        ("1e999", "too extreme"),
    ],
)
def test_what_is_no_number(text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        options.number("--eps", text)


def test_json_has_no_infinity_and_no_nan() -> None:
    text = to_json({"a": float("inf"), "b": [float("nan"), 1.0], "c": {"d": -float("inf")}})
    assert json.loads(text) == {"a": None, "b": [None, 1.0], "c": {"d": None}}


def test_a_link_is_followed_and_kept(tmp_path: Path) -> None:
    (tmp_path / "real.txt").write_text("old")
    (tmp_path / "link.txt").symlink_to(tmp_path / "real.txt")
    outputs = Outputs({"--json": str(tmp_path / "link.txt")})
    outputs.check(())
    assert outputs.deliver({"--json": "new"}, "") == ["--json"]
    assert (tmp_path / "link.txt").is_symlink()
    assert (tmp_path / "real.txt").read_text() == "new"


def test_what_cannot_be_written_keeps_back_nothing_else(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    outputs = Outputs({"--json": "/dev/full", "--witness": str(tmp_path / "w.txt")})
    assert outputs.exit_code(0) == 0
    assert outputs.deliver({"--json": "text", "--witness": "point"}, "sat\n") == ["--witness"]
    said = capsys.readouterr()
    assert (said.out, (tmp_path / "w.txt").read_text()) == ("sat\n", "point")
    assert said.err.startswith("netproof: error: /dev/full: cannot write --json: ")
    assert said.err.count("\n") == 1
    assert outputs.exit_code(0) == outputs.exit_code(130) == 2


def test_the_worker_stops_before_the_limit() -> None:
    assert soft_limit(None) is None
    assert all(0 < soft_limit(limit) < limit for limit in (0.01, 1.0, 60.0, 1e6))  # type: ignore[operator]


@pytest.mark.parametrize(
    ("entries", "asked", "busy", "threads"),
    [
        (100, None, 0, 1),  # too small for more
        (100_000, None, 0, 4),
        (100_000, None, 2, 4),  # there are processors for all
        (100_000, None, 6, 2),
        (100_000, None, 50, 1),
        (100_000, 3, 50, 3),  # who asks gets it
    ],
)
def test_threads_go_by_the_size_and_by_what_is_free(
    entries: int, asked: int | None, busy: int, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("netproof.core.cpu.available_cpus", lambda: 4)
    monkeypatch.setattr("netproof.core.cpu.busy_elsewhere", lambda: busy)
    monkeypatch.setattr("os.cpu_count", lambda: 8)
    assert threads_for(entries, asked) == threads


def test_what_else_runs_on_the_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looks: collections.deque[tuple[float, int]] = collections.deque(maxlen=3)
    monkeypatch.setattr("netproof.core.cpu._looks", looks)
    look_around(tmp_path)
    assert busy_elsewhere() == 0  # no /proc
    for running in (40, 7, 9, 1):
        (tmp_path / "loadavg").write_text(f"0.50 0.40 0.19 {running}/91 5474\n")
        look_around(tmp_path)
    assert busy_elsewhere() == 6  # the middle of the last three, without the one that asks
    looks.extend([(time.monotonic() - 3600, 50)] * 2)
    assert busy_elsewhere() == 0  # what is old does not count: one look is left


def test_the_collector_works_again_after_the_imports() -> None:
    try:
        prepare(options.engine(method="auto", device="cpu", threads=1, timeout=None, settings=None))
        assert gc.isenabled()
        assert gc.get_freeze_count() > 0
    finally:
        gc.unfreeze()


def test_progress_on_one_of_many_problems_bounds_only_that_one() -> None:
    one = {"phase": "search", "lower_bound": -0.5, "upper_bound": 1.0, "domains": 4, "rounds": 1}
    assert known_so_far({**one, "problem": 0, "problems": 1})["lower_bound"] == -0.5
    assert "upper_bound" not in known_so_far({**one, "problem": 0, "problems": 1})  # no guard has seen it
    assert "lower_bound" not in known_so_far({**one, "problem": 1, "problems": 3})
    assert known_so_far({"phase": "load"}) == {"lower_bound": None}


@pytest.mark.parametrize(("bound", "shown"), [(0.5, None), (0.0, 0.0), (-0.5, -0.5), (None, None)])
def test_no_bound_above_0_stands_beside_an_open_question(bound: float | None, shown: float | None) -> None:
    """It would be a proof; nobody concluded it."""
    told = {"phase": "search", "lower_bound": bound, "problems": 1}
    assert known_so_far(told)["lower_bound"] == shown
    assert Record("unsat", lower_bound=bound).undecided("timeout", "late").lower_bound == shown


def records(*verdicts: str) -> list[Record]:
    return [Record(verdict, lower_bound=0.5) for verdict in verdicts]


@pytest.mark.parametrize(
    ("verdicts", "complete", "expected"),
    [
        (("unsat", "unsat"), True, "unsat"),
        (("unsat", "unsat"), False, "unknown"),
        ((), True, "unknown"),
        (("unsat", "timeout", "sat"), True, "sat"),
        (("unsat", "timeout", "unknown"), True, "timeout"),
        (("unsat", "unknown"), True, "unknown"),
    ],
)
def test_many_verdicts_make_one(verdicts: tuple[str, ...], complete: bool, expected: str) -> None:
    assert overall(records(*verdicts), complete=complete).verdict == expected


def test_one_that_contradicts_itself_is_no_verdict_of_many() -> None:
    good, odd = records("sat", "unknown")
    odd = odd.but(reason="contradiction", contradiction={"what": "odd", "saved": ""})
    found = overall([good, odd], complete=True)
    assert (found.verdict, found.reason) == ("unknown", "contradiction")
    assert found.contradiction is not None
    assert found.contradiction["what"] == "odd"


@pytest.mark.parametrize(
    ("changes", "start"),
    [
        ({"verdict": "unsat"}, "PROVED: holds for every input"),
        ({"verdict": "unsat", "reason": "input set is empty"}, "PROVED: but the input set is empty"),
        ({"verdict": "sat"}, "BROKEN: counterexample found"),
        (
            {"verdict": "sat", "reason": "within rounding"},
            "BROKEN: counterexample found and replayed (within",
        ),
        ({"verdict": "timeout", "reason": "late"}, "UNDECIDED: late; try a longer --timeout"),
        ({"verdict": "unknown", "reason": "interrupted"}, "UNDECIDED: interrupted; run it again"),
        (
            {"verdict": "unknown", "reason": f"none, so {UNSHOWN}"},
            f"UNDECIDED: none, so {UNSHOWN}; give such inputs as",
        ),
        ({"verdict": "unknown"}, "UNDECIDED: no proof and no counterexample; try"),
    ],
)
def test_plain_words(changes: dict[str, str], start: str) -> None:
    assert summary(Record(**changes), method="auto", device="cpu").startswith(start)


def test_a_picture_shows_both_images_enlarged(tmp_path: Path) -> None:
    original = np.array([[0.0, 1.0], [0.2, 0.4]])
    broken = np.array([[0.1, 1.0], [0.2, 0.2]])
    drawn = draw_counterexample(
        title="t",
        original=original,
        broken=broken,
        scores=np.array([1.0, 0.0]),
        broken_scores=np.array([0.0, 1.0]),
        label=0,
    )
    with Image.open(io.BytesIO(drawn)) as file:
        pixels = np.asarray(file)
    whites = [tuple(pixel) for pixel in pixels[120, :, :]]
    assert (0, 0, 0) in whites  # the dark corner of the original
    assert (26, 26, 26) in whites  # the same corner, brighter in the counterexample


def test_the_difference_has_a_sign(tmp_path: Path) -> None:
    from netproof.core.shown.shades import LESS, MORE, signed

    panel = signed(np.array([[0.2, -0.2, 0.0]]))
    np.testing.assert_allclose(panel[0], [MORE, LESS, [1, 1, 1]])


LEFT = Record("timeout", "3 sub-domains still open")
ENDINGS = (
    Outcome(Ending.FINISHED),
    Outcome(Ending.TIMEOUT, reason="late"),
    Outcome(Ending.INTERRUPTED, reason="asked to"),
)


@pytest.mark.parametrize("outcome", ENDINGS, ids=[str(outcome.ending) for outcome in ENDINGS])
@pytest.mark.parametrize(
    "known",
    [
        {},
        {"0.2": LEFT},
        {"0.2": Record("sat")},
        {"0.2": Record("sat"), "0.1": LEFT},
        {"0.2": Record("sat"), "0.1": LEFT, "0.05": Record("unsat", lower_bound=0.5)},
    ],
    ids=", ".join,
)
def test_where_no_radius_is_certified_it_is_said_why(known: dict[str, Record], outcome: Outcome) -> None:
    """Whatever the time was enough for; nor does an undecided one show what is proved at a smaller radius."""
    engine = options.engine(method="auto", device="cpu", threads=1, timeout=2.0, settings=None)
    display = Display(started=0.0, timeout=2.0, quiet=True)
    run = robust._Run(engine, Question("x.npy", Fraction(1, 10), "inf"), 1, display, largest=True)
    run.event({"targets": [0], "predicted": 1, "label": 1, "notes": ()})
    for eps, record in known.items():
        run.event(Row(Fraction(eps), Answer(record, "cpu"), 0.1))
    found = run.answer(outcome).record
    if run.radii()["certified"] is None:
        assert found.reason
        assert "no radius is certified" in found.reason or found.reason in (LEFT.reason, outcome.reason)
    assert found.verdict != "unknown" or outcome.ending == Ending.INTERRUPTED
    assert found.solved or found.lower_bound is None


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("plain", [True, False])
def test_the_progress_line_obeys_no_color(plain: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bold is no colour, but whoever asks for none wants neither."""
    told = Terminal()
    monkeypatch.setattr(sys, "stderr", told)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    if plain:
        monkeypatch.setenv("NO_COLOR", "1")
    display = Display(started=time.monotonic(), timeout=None)
    display.tick()
    display.close()
    assert "reading" in told.getvalue()
    assert bool(re.search(r"\x1b\[[\d;]*m", told.getvalue())) != plain
